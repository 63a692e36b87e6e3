#include "api/operators/desk.h"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <utility>

#include "api/operators/answers.h"
#include "api/operators/task_story.h"
#include "api/server/query.h"
#include "common/base/json.h"

namespace audiogen::api {
namespace {

using std::chrono::minutes;

constexpr std::size_t kWaitingMax = 16, kFound = 50;
constexpr std::chrono::seconds kDrawnKept{15};

// Nothing here waits for a row.
constexpr store::SessionOptions kDeskPatience{.read_timeout = std::chrono::seconds(8),
                                              .statement_max = std::chrono::seconds(6),
                                              .lock_wait = std::chrono::seconds(0)};

struct Range {
  std::string_view name;
  minutes range, step;
};
// So that none has more than 400 points.
constexpr std::array kRanges = {Range{"1h", std::chrono::hours(1), minutes(1)},
                                Range{"24h", std::chrono::hours(24), minutes(5)},
                                Range{"30d", std::chrono::days(30), std::chrono::hours(2)}};

// The one parameter of a question.
Result<std::string, ApiError> only_parameter(const http::Exchange& exchange,
                                             std::string_view name) {
  const auto query = Query::parse(exchange.request().query, {name});
  if (!query) {
    return query.error();
  }
  const auto value = query->text(name);
  if (!value || value->empty()) {
    return invalid_parameter(std::string(name), std::string(name) + " must be given.");
  }
  return std::string(*value);
}

}  // namespace

OpsDesk::Doors::Doors(const DatabaseUrl& url) : session(url, kDeskPatience) {}

OpsDesk::OpsDesk(const Config& config)
    : pool_([url = config.database] { return std::make_unique<Doors>(url); },
            {.threads = 1, .per_user = kWaitingMax, .total = kWaitingMax}) {}

template <class Answer>
void OpsDesk::ask(const http::Exchange& exchange, Answer answer) {
  const bool taken = pool_.submit(0, [exchange, answer = std::move(answer)](Doors* doors) {
    exchange.reply(doors != nullptr ? answer(*doors) : ops_error(503, "Too many ask at once"));
  });
  if (!taken) {
    exchange.reply(ops_error(503, "Too many ask at once"));
  }
}

void OpsDesk::history(const http::Exchange& exchange) {
  const auto name = only_parameter(exchange, "range");
  const auto* const found = name ? std::find_if(kRanges.begin(),
                                                kRanges.end(),
                                                [&](const Range& one) { return one.name == *name; })
                                 : kRanges.end();
  if (found == kRanges.end()) {
    exchange.reply(ops_error(400, "range must be 1h, 24h or 30d"));
    return;
  }
  ask(exchange, [range = *found](Doors& doors) {
    const auto now = std::chrono::steady_clock::now();
    auto& drawn = doors.drawn[std::string(range.name)];
    if (!drawn.at || now - *drawn.at > kDrawnKept) {
      const auto points = doors.minutes.history(range.range, range.step);
      if (!points) {
        return database_away();
      }
      drawn = {.json = history_json(range.name, range.step, *points), .at = now};
    }
    return ops_json(drawn.json);
  });
}

void OpsDesk::find(const http::Exchange& exchange) {
  const auto what = only_parameter(exchange, "q");
  if (!what) {
    exchange.reply(ops_error(400, "q must be a task's id, a request's, or a user's mail address"));
    return;
  }
  ask(exchange, [what = *what](Doors& doors) {
    const auto tasks = doors.operators.find_tasks(what, kFound);
    if (!tasks) {
      return database_away();
    }
    std::string out;
    JsonWriter json(out);
    json.begin_object().key("tasks").begin_array();
    for (const store::TaskRow& task : *tasks) {
      json.begin_object()
          .member("id", task.view.id)
          .member("user", task.user)
          .member("status", state_name(task.view.state))
          .member("created_at", task.view.created_at)
          .end_object();
    }
    json.end_array().end_object();
    return ops_json(std::move(out));
  });
}

void OpsDesk::task(const http::Exchange& exchange) {
  const auto text = only_parameter(exchange, "id");
  const auto id = text ? TaskId::parse(*text) : std::nullopt;
  if (!id) {
    exchange.reply(ops_error(400, "id must be a task's id (aud_...)"));
    return;
  }
  ask(exchange, [id = *id](Doors& doors) {
    const auto detail = doors.operators.show_task(id);
    if (!detail) {
      return detail.error().code == store::FaultCode::kNoSuchTask
                 ? ops_error(404, "there is no such task")
                 : database_away();
    }
    return ops_json(story_json(*detail));
  });
}

std::string history_json(std::string_view range,
                         minutes step,
                         const std::vector<store::HistoryPoint>& points) {
  std::string out;
  JsonWriter json(out);
  json.begin_object()
      .member("range", range)
      .member("step_seconds", std::chrono::seconds(step).count())
      .key("points")
      .begin_array();
  for (const store::HistoryPoint& point : points) {
    json.begin_object()
        .member("at", point.at)
        .member("minutes", point.minutes)
        .member("arrivals", point.arrivals)
        .member("arrivals_exact", point.arrivals_exact)
        .member("completions", point.completions)
        .key("failed");
    if (point.completions) {
      json.begin_object();
      for (const auto& [code, tasks] : point.failed) {
        json.foreign_key(code).value(tasks);
      }
      json.end_object();
    } else {
      json.null();
    }
    decimal(json, "wait_p50", point.wait_p50);
    decimal(json, "wait_p99", point.wait_p99);
    decimal(json, "run_p50", point.run_p50);
    decimal(json, "run_p99", point.run_p99);
    json.key("credits");
    point.captured ? json.raw(format_credits(*point.captured)) : json.null();
    json.end_object();
  }
  json.end_array().end_object();
  return out;
}

}  // namespace audiogen::api
