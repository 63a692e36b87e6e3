#include "api/operators/now.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "api/operators/answers.h"
#include "common/base/json.h"

namespace audiogen::api {
namespace {

using Worker = Situation::Worker;

// Of processes that are gone, the latest: however many come and go in a day, the page stays small.
constexpr std::size_t kGoneTold = 20;

std::string_view state_of(const Worker& worker) {
  switch (worker.state) {
    case Worker::State::kWorking:
      return worker.drains() ? "draining" : "working";
    case Worker::State::kEnded:
      return "drained";
    case Worker::State::kLost:
      break;
  }
  return "lost";
}

std::chrono::seconds since(Instant at, Instant now) {
  return std::chrono::duration_cast<std::chrono::seconds>(
      std::max(now - at, Instant::duration::zero()));
}

void count(JsonWriter& json, const char* name, const AtLeast& tasks) {
  json.key(name)
      .begin_object()
      .member("value", tasks.value)
      .member("exact", tasks.exact)
      .end_object();
}

void counts(JsonWriter& json,
            const char* name,
            const std::optional<std::map<std::string, std::uint64_t>>& of) {
  json.key(name);
  if (!of) {
    json.null();
    return;
  }
  json.begin_object();
  for (const auto& [what, so_many] : *of) {
    json.foreign_key(what).value(so_many);
  }
  json.end_object();
}

// Those that are there, and of those that are gone the last that were seen.
template <class Process, class There>
std::vector<const Process*> told_of(const std::vector<Process>& all, const There& there) {
  std::vector<const Process*> out, gone;
  for (const Process& one : all) {
    (there(one) ? out : gone).push_back(&one);
  }
  std::stable_sort(gone.begin(), gone.end(), [](const Process* a, const Process* b) {
    return a->seen_at > b->seen_at;
  });
  gone.resize(std::min(gone.size(), kGoneTold));
  out.insert(out.end(), gone.begin(), gone.end());
  return out;
}

void write_tiles(JsonWriter& json, const SituationWatch::Seen& seen) {
  const Situation& now = seen.situation;
  const auto ended = ended_in_last_minute(now);
  json.key("tiles").begin_object();
  // What was not looked at may be older.
  decimal(json, "oldest_waiting_seconds", now.oldest_waiting());
  count(json, "ready", now.ready);
  count(json, "running", now.running);
  count(json, "waiting_retry", now.waiting_retry);
  count(json, "parked", now.parked);
  json.member("done_per_minute", ended ? std::optional(ended->succeeded) : std::nullopt)
      .member("failed_per_minute", ended ? std::optional(ended->failures()) : std::nullopt);
  counts(json, "failed_by_code", ended ? std::optional(ended->failed) : std::nullopt);
  decimal(json, "arrivals_per_second", now.arrivals_per_second);
  decimal(json, "completions_per_second", completions_per_second(now));
  decimal(json, "drain_seconds", drain_seconds(now.backlog(), completions_per_second(now)));
  json.key("credits_held").raw(format_credits(now.credits_held));
  json.member("dead", seen.dead).end_object();
}

void write_providers(JsonWriter& json, const Situation& now) {
  json.key("providers").begin_array();
  for (const ProviderSum& provider : providers_of(now)) {
    json.begin_object()
        .member("name", provider.name)
        .member("state", provider.state)
        .member("since", provider.troubled_since)
        .member("in_flight", provider.in_flight)
        .member("limit", provider.limit)
        .member("waiting", provider.waiting)
        .member("workers", provider.workers)
        .member("workers_ready", provider.workers_ready);
    const auto& calls = provider.calls;
    decimal(json, "p50_seconds", calls ? calls->times.seconds_at(0.5) : std::nullopt);
    decimal(json, "p99_seconds", calls ? calls->times.seconds_at(0.99) : std::nullopt);
    json.member("calls", calls ? std::optional(calls->all()) : std::nullopt);
    counts(json, "errors", calls ? std::optional(calls->errors) : std::nullopt);
    decimal(json,
            "fallback_share",
            calls && calls->all() > 0 ? std::optional(static_cast<double>(calls->fallback) /
                                                      static_cast<double>(calls->all()))
                                      : std::nullopt);
    json.member("paid_not_delivered", calls ? std::optional(calls->undelivered) : std::nullopt)
        .key("override");
    if (provider.overridden) {
      json.begin_object()
          .member("state", provider.overridden->open ? "open" : "closed")
          .member("until", provider.overridden->until)
          .end_object();
    } else {
      json.null();
    }
    json.end_object();
  }
  json.end_array();
  json.member("provider_calls_of_seconds", std::chrono::seconds(kCallsOver).count());
}

void write_processes(JsonWriter& json, const Situation& now) {
  json.key("workers").begin_array();
  for (const Worker* worker : told_of(now.workers, [](const Worker& one) { return one.works(); })) {
    const auto& version = worker->status.version;
    json.begin_object()
        .member("id", worker->id)
        .member("host", worker->host)
        .member("pid", worker->pid)
        .member("version", version.empty() ? std::nullopt : std::optional(version))
        .member("state", state_of(*worker))
        .member("in_flight", worker->in_flight)
        .member("places", worker->places);
    const auto lag = worker->works() ? worker->status.renewal_lag : std::nullopt;
    decimal(json,
            "renewal_lag_seconds",
            lag ? std::optional(std::chrono::duration<double>(*lag).count()) : std::nullopt);
    json.member("seen_seconds", since(worker->seen_at, now.at).count())
        .member("started_at", worker->started_at)
        .member("ended_at", worker->ended_at)
        .end_object();
  }
  json.end_array();
  std::uint64_t drained = 0, lost = 0;
  for (const Worker& worker : now.workers) {
    drained += worker.state == Worker::State::kEnded ? 1 : 0;
    lost += worker.state == Worker::State::kLost ? 1 : 0;
  }
  json.key("workers_gone")
      .begin_object()
      .member("drained", drained)
      .member("lost", lost)
      .end_object();
  json.key("apis").begin_array();
  for (const auto* api : told_of(now.apis, [](const Situation::Api& one) { return one.alive; })) {
    json.begin_object()
        .member("id", api->id)
        .member("alive", api->alive)
        .member("seen_seconds", since(api->seen_at, now.at).count());
    decimal(json, "unsent_seconds", api->unsent);
    decimal(json, "refused_share", api->refused_share());
    json.end_object();
  }
  json.end_array();
}

void write_stuck(JsonWriter& json, const store::Stuck& stuck) {
  json.begin_object()
      .member("as_of", stuck.at)
      .member("older_than_seconds", store::kStuckAfter.count())
      .member("whole", stuck.whole)
      .key("causes")
      .begin_array();
  for (const auto& [cause, tasks] : stuck.causes) {
    json.begin_object().member("cause", cause).member("tasks", tasks).end_object();
  }
  json.end_array().key("tasks").begin_array();
  for (const auto& [task, cause] : stuck.tasks) {
    json.begin_object()
        .member("id", task.view.id)
        .member("user", task.user)
        .member("status", state_name(task.view.state))
        .member("cause", cause)
        .member("age_seconds", since(task.view.created_at, stuck.at).count())
        .member("claims", task.view.claims)
        .member("worker", task.worker)
        .end_object();
  }
  json.end_array().end_object();
}

// Of the last hour: what is written of it, and what the workers tell of the minutes since.
void write_failures(JsonWriter& json, const Situation& now, const store::MinutesFailed& written) {
  auto tasks = written.tasks;
  const std::int64_t from = written.until ? minute_of(*written.until) : 0;
  for (const Worker& worker : now.workers) {
    for (const auto& [minute, ended] : worker.status.minutes.value_or(WholeMinutes())) {
      if (minute >= from && minute + 60 > minute_of(now.at)) {
        for (const auto& [where, count] : ended.failed_at) {
          tasks[where] += count;
        }
      }
    }
  }
  json.begin_array();
  for (const auto& [where, count] : tasks) {
    json.begin_object()
        .member("code", where.first)
        .member("provider", where.second.empty() ? std::nullopt : std::optional(where.second))
        .member("tasks", count)
        .end_object();
  }
  json.end_array();
}

void write_users(JsonWriter& json, const Situation& now, const Particulars& particulars) {
  std::uint64_t places = 0;
  for (const Worker& worker : now.workers) {
    places += worker.works() ? worker.places : 0;
  }
  json.begin_array();
  for (const store::HeavyUser& user : particulars.users) {
    json.begin_object()
        .member("user", user.user)
        .member("mail", user.mail)
        .member("open", user.open)
        .member("running", user.running);
    decimal(json,
            "share",
            places > 0 && user.running
                ? std::optional(static_cast<double>(*user.running) / static_cast<double>(places))
                : std::nullopt);
    json.end_object();
  }
  json.end_array();
}

}  // namespace

std::string now_json(const SituationWatch::Seen& seen) {
  const Situation& now = seen.situation;
  const Assessment assessment = assess(now);
  std::string out;
  JsonWriter json(out);
  json.begin_object()
      .member("as_of", now.at)
      .member("verdict", assessment.sentence)
      .member("health", health_name(assessment.health));
  write_tiles(json, seen);
  write_providers(json, now);
  write_processes(json, now);
  json.key("stuck");
  if (seen.particulars) {
    write_stuck(json, seen.particulars->stuck);
  } else {
    json.null();
  }
  json.key("failures");
  if (seen.particulars) {
    write_failures(json, now, seen.particulars->failed);
  } else {
    json.null();
  }
  json.key("users");
  if (seen.particulars) {
    write_users(json, now, *seen.particulars);
  } else {
    json.null();
  }
  json.key("intake_paused");
  if (const auto& pause = now.intake_paused) {
    json.begin_object()
        .member("since", pause->since)
        .member("by", pause->by)
        .member("reason", pause->reason)
        .end_object();
  } else {
    json.null();
  }
  json.end_object();
  return out;
}

void answer_now(SituationWatch& watch, const http::Exchange& exchange) {
  watch.ask(SituationWatch::Asks::kPage, [exchange](const auto& seen) {
    exchange.reply(seen ? ops_json(now_json(*seen)) : database_away());
  });
}

}  // namespace audiogen::api
