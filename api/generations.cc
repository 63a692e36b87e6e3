#include "api/generations.h"

#include <atomic>
#include <chrono>
#include <exception>
#include <optional>
#include <thread>
#include <utility>

#include "common/base/log.h"
#include "common/base/metrics.h"

namespace audiogen::api {
namespace {

// Two transactions at a time keep both cores and the log busy; more only wait for each other
// (db-queue 5.1).
constexpr std::size_t kCommitThreads = 2;
// One: two make smaller batches and wake each other (database 7.2 against 5.1 us per poll).
constexpr std::size_t kReadThreads = 1;
// Creations in one transaction. Only an overload fills it: twice as many cost the broker half and
// the database a tenth less each; twice that again, and the wait of those behind is felt. At its
// largest (2,048 characters and three addresses each) a statement is some 4 MB.
constexpr std::size_t kBatchMax = 128;
constexpr std::size_t kCreatesWaitingMax = 8'000;
constexpr std::size_t kFindsWaitingMax = 20'000;
// Above this a 503 now is better than a late answer, and under lasting overload above that.
constexpr std::chrono::milliseconds kCreateWait{100}, kCreateHold{30};
constexpr std::chrono::milliseconds kFindWait{500};

void count(RouteClass route, int status) {
  static auto& created = metrics::counter("api_creates_total", "Creations answered 202");
  static auto& refused =
      metrics::counter("api_refused_total", "Requests answered with an error status below 500");
  static auto& unavailable = metrics::counter("api_unavailable_total", "Requests answered 503");
  static auto& reads = metrics::counter("api_reads_total", "Status reads answered 200");
  if (status == 503) {
    unavailable.Increment();
  } else if (status >= 400) {
    refused.Increment();
  } else if (route == RouteClass::kCreate) {
    created.Increment();
  } else {
    reads.Increment();
  }
}

// At most one line a second: under overload a line each would make it worse. The counter counts
// all.
void warn_unavailable(const std::string& request_id) {
  using Clock = std::chrono::steady_clock;
  static std::atomic<Clock::rep> next{0};
  const auto now = Clock::now().time_since_epoch();
  auto due = next.load();
  if (now.count() >= due &&
      next.compare_exchange_strong(due, (now + std::chrono::seconds(1)).count())) {
    log::warn("requests unavailable", {{"request_id", request_id}});
  }
}

// Under overload a thread that is woken for each request spends more on waking than on refusing,
// and takes the core from the database each time. So it lets a few gather; unless it finds many
// anyway: then it has no time to rest.
void rest_between_refusals() {
  using Clock = std::chrono::steady_clock;
  constexpr auto kRest = std::chrono::microseconds(500);
  constexpr int kMany = 64;
  thread_local Clock::time_point rested{};
  thread_local int refused = 0;
  ++refused;
  if (const auto now = Clock::now(); now - rested > 2 * kRest) {
    if (refused < kMany) {
      std::this_thread::sleep_for(kRest);
    }
    rested = Clock::now();
    refused = 0;
  }
}

// "application/json", optionally with charset=utf-8.
bool is_json(std::string_view type) {
  std::string lower;
  for (const char c : type) {
    if (c != ' ' && c != '\t' && c != '"') {
      lower += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    }
  }
  return lower == "application/json" || lower == "application/json;charset=utf-8";
}

}  // namespace

struct Generations::Admitted {
  http::Exchange exchange;
  std::string request_id;
  RouteClass route;
  store::KeyRecord key;
  std::string rate_headers;
  TaskId task;

  void fail(const ApiError& error) const {
    http::Response response = error_response(error, request_id);
    response.headers += rate_headers;
    count(route, response.status);
    if (response.status == 503) {
      warn_unavailable(request_id);
    }
    exchange.reply(std::move(response));
  }

  void answer(int status, std::string body, std::string_view extra_headers) const {
    http::Response response;
    response.status = status;
    response.headers.reserve(kHeadersUsual);
    response.headers += "Content-Type: application/json\r\nCache-Control: no-store\r\n";
    append_header(response.headers, "X-Request-Id", request_id);
    response.headers += rate_headers;
    response.headers += extra_headers;
    response.body = std::move(body);
    count(route, status);
    exchange.reply(std::move(response));
  }
};

Generations::Generations(const Config& config,
                         Authenticator& authenticator,
                         RateLimiter& limiter,
                         TaskPublisher& publisher)
    : config_(config),
      names_{config.model_name(),
             config.cdn_url,
             LinkSigner::from(config),
             std::chrono::days(config.output_retention_days)},
      rules_{config.model_name(), config.url_policy == UrlPolicy::kAny},
      authenticator_(authenticator),
      limiter_(limiter),
      publisher_(publisher),
      creates_(config.database,
               {.threads = kCommitThreads,
                .batch_max = kBatchMax,
                .capacity = kCreatesWaitingMax,
                .refuse_above = kCreateWait,
                .hold_at = kCreateHold},
               [](store::TaskStore& store, std::span<const store::CreateCommand> commands) {
                 return store.create(commands);
               }),
      finds_(config.database,
             {.threads = kReadThreads,
              .batch_max = kBatchMax,
              .capacity = kFindsWaitingMax,
              .refuse_above = kFindWait},
             [](store::TaskStore& store, std::span<const store::FindCommand> commands) {
               return store.find(commands);
             }) {}

// The order of checks is DESIGN 1's: key (401), rate (429), and for creation access (403) before
// all else.
void Generations::admit(http::Exchange exchange, RouteClass route, Next next) {
  auto call = std::make_shared<Admitted>(
      Admitted{exchange, request_id_of(&exchange.request()), route, {}, {}, {}});
  const bool creating = route == RouteClass::kCreate;
  authenticator_.authenticate(
      exchange.request(),
      creating,
      [this, call, creating, next = std::move(next)](Authenticator::Verdict verdict,
                                                     const store::KeyRecord& key) {
        if (verdict == Authenticator::Verdict::kUnavailable) {
          call->fail(service_unavailable());
          return;
        }
        if (verdict == Authenticator::Verdict::kInvalid) {
          const auto decision =
              limiter_.take_unauthenticated(call->exchange.request().peer_address);
          call->fail(decision.allowed ? invalid_api_key()
                                      : rate_limit_exceeded(decision.retry_after));
          return;
        }
        call->key = key;
        const RateDecision decision = limiter_.take(key.id, call->route);
        call->rate_headers = limiter_.headers(call->route, decision);
        if (!decision.allowed) {
          call->fail(rate_limit_exceeded(decision.retry_after));
        } else if (creating && !key.api_access) {
          call->fail(api_access_required());
        } else {
          next(call);
        }
      });
}

void Generations::create(http::Exchange exchange) {
  // Before all else: under overload most requests end here, and what they cost is taken from those
  // that are served. DESIGN 1 gives 503 no place in the order of checks.
  if (creates_.late(exchange.received_at())) {
    const std::string request_id = request_id_of(&exchange.request());
    exchange.reply(error_response(service_unavailable(), request_id));
    count(RouteClass::kCreate, 503);
    warn_unavailable(request_id);
    rest_between_refusals();
    return;
  }
  admit(std::move(exchange), RouteClass::kCreate, [this](const auto& call) {
    create_admitted(call);
  });
}

void Generations::create_admitted(const std::shared_ptr<Admitted>& call) {
  const http::Request& request = call->exchange.request();
  if (!is_json(request.header("content-type"))) {
    call->fail(invalid_request("Content-Type must be application/json."));
    return;
  }
  if (request.has_header("content-encoding") && request.header("content-encoding") != "identity") {
    call->fail(invalid_request("Content-Encoding is not supported: send the body as it is."));
    return;
  }
  std::optional<std::string> key;
  if (request.has_header("idempotency-key")) {
    key = parse_idempotency_key(request.header("idempotency-key"));
    if (!key) {
      call->fail(invalid_request("Idempotency-Key must be 1 to 128 visible ASCII characters."));
      return;
    }
  }
  const auto parsed = parse_request(request.body, rules_);
  if (!parsed) {
    call->fail(invalid_request(parsed.error().message));
    return;
  }
  store::CreateCommand command;
  command.id = call->task = TaskId::make();
  command.user = call->key.user;
  command.request = encode_request(*parsed);
  command.fingerprint = fingerprint(command.request);
  command.idempotency_key = std::move(key);
  command.output_format = parsed->output_format;
  command.deadline = std::chrono::seconds(config_.task_deadline_seconds);
  publisher_.expect(call->task);
  const bool taken = creates_.submit(
      std::move(command),
      [this, call](Result<store::CreateOutcome, store::StoreFault> outcome) {
        using Kind = store::CreateOutcome::Kind;
        const bool may_exist = outcome ? outcome->kind == Kind::kCreated
                                       : outcome.error() == store::StoreFault::kUnknownOutcome;
        if (!may_exist) {
          publisher_.forget(call->task);
        }
        if (!outcome || outcome->kind == Kind::kFailed) {
          call->fail(service_unavailable());
          return;
        }
        switch (outcome->kind) {
          case Kind::kConflict:
            call->fail(idempotency_conflict());
            return;
          case Kind::kInsufficient:
            call->fail(insufficient_credits());
            return;
          case Kind::kFailed:
          case Kind::kCreated:
          case Kind::kReplayed:
            break;
        }
        const TaskView& task = outcome->task;
        const bool replayed = outcome->kind == Kind::kReplayed;
        std::string headers;
        append_header(headers, "Location", "/api/v1/audio/generations/" + task.id.text());
        if (replayed) {
          append_header(headers, "Idempotent-Replayed", "true");
        } else if (log::enabled(log::Level::kDebug)) {
          // Not info: the row tells as much, and a line per creation costs a tenth of one.
          log::debug("task created",
                     {{"request_id", call->request_id},
                      {"task_id", task.id},
                      {"user_id", call->key.user}});
        }
        AG_CRASH_POINT("create.committed");
        call->answer(202, render_task(task, names_), headers);
        AG_CRASH_POINT("create.replied");
        if (!replayed) {
          publisher_.publish(task.id);
        }
      },
      call->exchange.received_at());
  if (!taken) {
    publisher_.forget(call->task);
    call->fail(service_unavailable());
  }
}

void Generations::get(http::Exchange exchange, std::string_view id_text) {
  const auto id = TaskId::parse(id_text);
  admit(std::move(exchange), RouteClass::kRead, [this, id](const auto& call) {
    if (!id) {
      call->fail(task_not_found());
      return;
    }
    call->task = *id;
    get_admitted(call);
  });
}

void Generations::get_admitted(const std::shared_ptr<Admitted>& call) {
  const bool taken = finds_.submit(
      {.id = call->task, .user = call->key.user},
      [this, call](const Result<store::FindOutcome, store::StoreFault>& found) {
        if (!found) {
          call->fail(service_unavailable());
        } else if (!*found) {
          call->fail(task_not_found());
        } else {
          call->answer(200, render_task(**found, names_), "");
        }
      },
      call->exchange.received_at());
  if (!taken) {
    call->fail(service_unavailable());
  }
}

void Generations::stop() {
  creates_.stop();
  finds_.stop();
}

}  // namespace audiogen::api
