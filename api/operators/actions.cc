#include "api/operators/actions.h"

#include <charconv>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "api/admin/faults.h"
#include "api/operators/act.h"
#include "api/server/security_events.h"
#include "common/base/json.h"
#include "common/base/log.h"
#include "common/base/metrics.h"
#include "common/domain/operator_action.h"
#include "common/http/ops_server.h"
#include "common/store/operators.h"

namespace audiogen::api {
namespace {

constexpr std::size_t kBodyMax = 8'192;
// Operators wait for an answer, but not behind a row that somebody holds.
constexpr store::SessionOptions kActionPatience{.read_timeout = std::chrono::seconds(6),
                                                .statement_max = std::chrono::seconds(4),
                                                .lock_wait = std::chrono::seconds(1)};

void answer(const http::Exchange& exchange, int status, std::string json) {
  exchange.reply(http::ops_answer(status, std::move(json) + "\n", "application/json"));
}

void refuse(const http::Exchange& exchange,
            int status,
            std::string_view why,
            std::string_view field = {},
            std::string_view header = {}) {
  std::string json;
  JsonWriter writer(json);
  writer.begin_object().member("error", why);
  if (!field.empty()) {
    writer.member("field", field);
  }
  writer.end_object();
  http::Response response = http::ops_answer(status, json + "\n", "application/json");
  response.headers += header;
  exchange.reply(std::move(response));
}

// As people who know no options of a command line are told.
std::string sentence(const store::Fault& fault) {
  using Code = store::FaultCode;
  if (fault.code == Code::kNoSuchKey) {
    return "there is no key " + fault.about;
  }
  if (fault.code == Code::kAmbiguousKey) {
    return "several keys have this prefix: name one by its id";
  }
  return worded(fault);
}

void count(std::string_view action, std::string_view result) {
  metrics::counter("operator_actions_total",
                   "What operators asked for by the operations port",
                   {{"action", std::string(action)}, {"result", std::string(result)}})
      .Increment();
}

const char* result_name(store::ActionResult result) {
  return result == store::ActionResult::kDone      ? "ok"
         : result == store::ActionResult::kRefused ? "refused"
                                                   : "failed";
}

// "limit=N" alone, or nothing.
std::optional<std::size_t> read_limit(std::string_view query) {
  constexpr std::size_t kUsual = 50, kMost = 1'000;
  constexpr std::string_view kName = "limit=";
  if (query.empty()) {
    return kUsual;
  }
  std::size_t out = 0;
  if (!query.starts_with(kName)) {
    return std::nullopt;
  }
  query.remove_prefix(kName.size());
  const auto read = std::from_chars(query.data(), query.data() + query.size(), out);
  return read.ec == std::errc() && read.ptr == query.data() + query.size() && out >= 1 &&
                 out <= kMost
             ? std::optional(out)
             : std::nullopt;
}

void perform(const http::Exchange& exchange,
             const DatabaseUrl& database,
             store::Session& session,
             const ActionRequest& request,
             const std::string& who) {
  const store::ActionNote note(action_record(request, who));
  const auto done = act(database, session, request, who, note);
  const auto name = action_name(request.action);
  if (done) {
    count(name, "ok");
    log::info("an operator's action",
              {{"action", name}, {"target", request.target}, {"reason", request.reason}});
    std::string json;
    JsonWriter(json).begin_object().member("done", true).member("detail", *done).end_object();
    answer(exchange, 200, std::move(json));
    return;
  }
  const bool refused = store::is_refusal(done.error().code);
  const std::string why = sentence(done.error());
  count(name, refused ? "refused" : "failed");
  static_cast<void>(
      store::Operators(session, &note)
          .note_result(refused ? store::ActionResult::kRefused : store::ActionResult::kFailed,
                       why));
  refuse(exchange, refused ? 409 : 503, why);
}

void list(const http::Exchange& exchange, store::Session& session, std::size_t limit) {
  const auto rows = store::Operators(session).list_actions(limit);
  if (!rows) {
    refuse(exchange, 503, sentence(rows.error()));
    return;
  }
  std::string json;
  JsonWriter writer(json);
  writer.begin_object().key("actions").begin_array();
  for (const store::ActionRow& row : *rows) {
    writer.begin_object()
        .member("at", row.done_at)
        .member("actor", row.action.who)
        .member("action", row.action.action)
        .member("target", row.action.target)
        .member("detail", row.action.detail)
        .member("reason", row.action.reason)
        .member("result", result_name(row.result))
        .member("message", row.message)
        .end_object();
  }
  writer.end_array().end_object();
  answer(exchange, 200, std::move(json));
}

}  // namespace

TokenGuard::Verdict TokenGuard::judge(std::string_view authorization,
                                      const IpAddress& client,
                                      Clock::time_point now) {
  constexpr RatePolicy kGuesses{.per_minute = 10, .burst = 10};
  constexpr std::size_t kAddressesMax = 10'000;
  constexpr std::string_view kScheme = "Bearer ";
  static auto& wrong =
      metrics::counter("operator_tokens_refused_total", "Wrong or missing tokens at /ops/actions");
  const MutexLock lock(mutex_);
  const bool has_scheme = authorization.starts_with(kScheme);
  const Sha256 given = sha256(has_scheme ? authorization.substr(kScheme.size()) : "");
  const auto text = [](const Sha256& hash) {
    return std::string_view(reinterpret_cast<const char*>(hash.data()), hash.size());
  };
  if (constant_time_equal(text(given), text(token_)) && has_scheme) {
    return Verdict::kRight;
  }
  wrong.Increment();
  // Only those are limited: whoever has the right one may come by the address of a program that has
  // an old one.
  const auto address = client.limited();
  if (const auto known = guesses_.find(address);
      known != guesses_.end() && !peek(known->second, kGuesses, now).allowed) {
    return Verdict::kTooMany;
  }
  if (guesses_.size() >= kAddressesMax) {
    std::erase_if(guesses_, [&](const auto& one) { return one.second.full_at <= now; });
  }
  // With so many at it at once, those that are new count as one.
  take(guesses_[guesses_.size() < kAddressesMax ? address : IpAddress()], kGuesses, now);
  return Verdict::kWrong;
}

std::string TokenGuard::fingerprint() const {
  constexpr std::size_t kBytes = 4;
  return to_hex(std::span(token_).first(kBytes));
}

Actions::Store::Store(const DatabaseUrl& url) : session(url, kActionPatience) {}

Actions::Actions(const Config& config)
    : database_(config.database),
      any_(!config.ops_token.empty()),
      guard_(config.ops_token),
      pool_([this] { return std::make_unique<Store>(database_); },
            {.threads = 1,
             .per_user = 16,
             .total = 16,
             .wait_max = std::chrono::milliseconds(5'000)}) {}

bool Actions::may(const http::Exchange& exchange) {
  if (!any_) {
    refuse(exchange, 404, "no actions here: OPS_TOKEN is not set");
    return false;
  }
  const http::Request& request = exchange.request();
  const auto verdict =
      guard_.judge(request.header("authorization"), request.client, TokenGuard::Clock::now());
  if (verdict == TokenGuard::Verdict::kRight) {
    return true;
  }
  // Told with all other attempts, in a line a second: there are more addresses than ten guesses of
  // each would make good.
  SecurityEvents::instance().note(SecurityEvent::kOperatorToken, request.client);
  if (verdict == TokenGuard::Verdict::kTooMany) {
    refuse(exchange, 429, "too many wrong tokens from this address", {}, "Retry-After: 60\r\n");
  } else {
    refuse(exchange, 401, "OPS_TOKEN is needed", {}, "WWW-Authenticate: Bearer\r\n");
  }
  return false;
}

void Actions::handle_post(const http::Exchange& exchange) {
  if (!may(exchange)) {
    return;
  }
  const std::string_view body = exchange.request().body;
  if (body.size() > kBodyMax) {
    refuse(exchange, 413, "the body must have at most " + std::to_string(kBodyMax) + " bytes");
    return;
  }
  const auto request = parse_action(body);
  if (!request) {
    refuse(exchange, 400, request.error().message, request.error().param.value_or(""));
    return;
  }
  // No more is known of whoever it was.
  const std::string who =
      "ops token " + guard_.fingerprint() + " from " + exchange.request().client.text();
  const bool taken = pool_.submit(0, [this, exchange, request = *request, who](Store* store) {
    if (store == nullptr) {
      refuse(exchange, 503, "other actions take too long; nothing was done");
    } else {
      perform(exchange, database_, store->session, request, who);
    }
  });
  if (!taken) {
    refuse(exchange, 503, "too many actions wait; nothing was done");
  }
}

void Actions::handle_get(const http::Exchange& exchange) {
  if (!may(exchange)) {
    return;
  }
  const auto limit = read_limit(exchange.request().query);
  if (!limit) {
    refuse(exchange, 400, "limit must be a whole number from 1 to 1000, and nothing else", "limit");
    return;
  }
  const bool taken = pool_.submit(0, [exchange, limit = *limit](Store* store) {
    if (store == nullptr) {
      refuse(exchange, 503, "other actions take too long");
    } else {
      list(exchange, store->session, limit);
    }
  });
  if (!taken) {
    refuse(exchange, 503, "too many actions wait");
  }
}

}  // namespace audiogen::api
