#include "api/generations/generations.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <utility>

#include "api/generations/event_stream.h"
#include "api/server/answer.h"
#include "api/server/asking.h"
#include "common/base/crypto.h"
#include "common/base/log.h"
#include "common/domain/estimate.h"
#include "common/domain/preference.h"

namespace audiogen::api {
namespace {

// Two transactions at a time keep both cores and the log busy; more only wait for each other.
constexpr std::size_t kCommitThreads = 2;
// One: two make smaller batches and wake each other (7.2 against 5.1 us of the database for each
// poll).
constexpr std::size_t kReadThreads = 1;
// Creations in one transaction. Only an overload fills it: twice as many cost the broker half and
// the database a tenth less each; twice that again, and the wait of those behind is felt.
constexpr std::size_t kBatchMax = 128;
// A small part of what a transaction takes. 0.4 ms made batches no larger and left processors idle:
// 21.6 thousand creations a second instead of 21.1; without company each costs 5 us more.
constexpr std::chrono::microseconds kCreateCompany{120};
// Settlements hold a balance for some milliseconds: a creation that has met one goes with the next
// batch. Alone, a third of all transactions beside busy workers carried one creation (27.8 thousand
// requests a second instead of 31.0). What is held for longer would cost each batch a round trip.
constexpr std::chrono::milliseconds kBrieflyHeld{50};
constexpr std::size_t kCreatesWaitingMax = 8'000;
constexpr std::size_t kFindsWaitingMax = 20'000;
// Few cancel; a batch of them is what a program stops that has gone wrong.
constexpr std::size_t kCancelThreads = 1, kCancelBatchMax = 64, kCancelsWaitingMax = 2'000;
// Above this a 503 now is better than a late answer, and under lasting overload above that.
constexpr std::chrono::milliseconds kCreateWait{100}, kCreateHold{30};
constexpr std::chrono::milliseconds kFindWait{500};
// The part of all waits, and of all streams, that one user may take with all of his keys, if it is
// not less than what one key may.
constexpr std::size_t kUserPart = 20;

Places::Limits held_limits(std::size_t total, std::size_t per_key) {
  return {.total = total, .per_key = per_key, .per_user = std::max(per_key, total / kUserPart)};
}

std::chrono::milliseconds until_key_is_asked() {
  thread_local std::minstd_rand random(std::random_device{}());
  std::uniform_int_distribution<std::int64_t> earlier(0, kKeyEvery.count() / 4);
  return kKeyEvery - std::chrono::milliseconds(earlier(random));
}

// A task's span: of the trace that its client is in, else of a new one. What is malformed, or given
// twice, counts as not given (W3C Trace Context). Its companion, tracestate, ends here: it is for
// whoever wrote it, and would be up to 512 bytes of the client's for each task, told to providers
// whom he does not know.
TraceSpan begin_span(const http::Request& request) {
  constexpr std::string_view kHeader = "traceparent";
  const auto span = random_number<sizeof(SpanNumber)>();
  const auto parent = request.header_count(kHeader) == 1
                          ? parse_traceparent(request.header(kHeader))
                          : std::nullopt;
  return parent ? child_of(*parent, span) : new_trace(random_number<sizeof(TraceNumber)>(), span);
}

// Of what the database has decided; what was refused before is in http_requests_total.
prometheus::Counter& admissions(store::CreateOutcome::Kind kind) {
  using Kind = store::CreateOutcome::Kind;
  static const auto of = [](const char* outcome) {
    return &metrics::counter(
        "admissions_total", "Creations decided, by outcome", {{"outcome", outcome}});
  };
  static const std::map<Kind, prometheus::Counter*> all = {
      {Kind::kCreated, of("created")},
      {Kind::kReplayed, of("replayed")},
      {Kind::kConflict, of("conflict")},
      {Kind::kInsufficient, of("insufficient_credits")},
      {Kind::kOverLimit, of("over_limit")},
      {Kind::kKeyGone, of("key_gone")},
      {Kind::kTooManyOpen, of("too_many_open")},
      {Kind::kTooLate, of("too_late")},
      {Kind::kNothingNew, of("paused")},
      {Kind::kFailed, of("failed")}};
  return *all.at(kind);
}

void refuse_paused(const Call& call) {
  paused_creations().Increment();
  call.fail(intake_paused());
}

// A session is the console's, which is not the interface: its pages tell until when a file is kept.
Members members_for(const Call& call) {
  return call.key().session ? Members::kAll : Members::kInterface;
}

}  // namespace

Generations::Generations(const Config& config,
                         TaskPublisher& publisher,
                         const Lookout& lookout,
                         DoorsPool& pool,
                         const Authenticators& authenticators,
                         const store::Probe& database,
                         const HeldOptions& held)
    : config_(config),
      names_(wire_names(config)),
      rules_{config.model_name(), config.url_policy == UrlPolicy::kAny},
      publisher_(publisher),
      lookout_(lookout),
      pool_(pool),
      authenticators_(authenticators),
      database_(database),
      stream_max_(held.stream_max),
      creates_(config.database,
               {.use = "create",
                .threads = kCommitThreads,
                .batch_max = kBatchMax,
                .capacity = kCreatesWaitingMax,
                .company = kCreateCompany,
                .briefly_held = kBrieflyHeld,
                .refuse_above = kCreateWait,
                .hold_at = kCreateHold},
               [](store::TaskStore& store,
                  std::span<const store::CreateCommand> commands,
                  const store::Turn& turn) { return store.create(commands, turn); }),
      finds_(config.database,
             {.use = "find",
              .threads = kReadThreads,
              .batch_max = kBatchMax,
              .capacity = kFindsWaitingMax,
              .refuse_above = kFindWait},
             [](store::TaskStore& store, std::span<const store::FindCommand> commands) {
               return store.find(commands);
             }),
      cancels_(config.database,
               {.use = "cancel",
                .threads = kCancelThreads,
                .batch_max = kCancelBatchMax,
                .capacity = kCancelsWaitingMax},
               [](store::TaskStore& store, std::span<const store::CancelCommand> commands) {
                 return store.cancel(commands);
               }),
      streams_(held_limits(held.max, kStreamsPerKey)),
      waits_([this](const store::FindCommand& command,
                    Waits::Found found) { return finds_.submit(command, std::move(found)); },
             {.places = held_limits(held.max, kWaitsPerKey)}) {}

Handling Generations::create(Call call) {
  const auto body = co_await call.json_body();
  if (!body) {
    call.fail(body.error());
    co_return;
  }
  auto command = read_create(call, *body);
  if (!command) {
    call.fail(command.error());
    co_return;
  }
  if (database_.intake_paused()) {
    if (!command->idempotency_key) {
      refuse_paused(call);
      co_return;
    }
    command->only_again = true;
  }
  const TaskId task = command->id;
  const Trail trail = command->trail;
  publisher_.expect(task);
  const auto outcome = co_await ask_there(creates_, *std::move(command), call);
  using Kind = store::CreateOutcome::Kind;
  const bool may_exist = outcome ? outcome->kind == Kind::kCreated
                                 : outcome.error() == store::StoreFault::kUnknownOutcome;
  if (!may_exist) {
    publisher_.forget(task);
  }
  if (!outcome) {
    call.fail(service_unavailable());
    co_return;
  }
  answer_created(call, *outcome, trail);
  if (outcome->kind == Kind::kCreated) {
    AG_CRASH_POINT("create.replied");
    publisher_.publish(task, outcome->lane, trail);
  }
}

Result<store::CreateCommand, ApiError> Generations::read_create(const Call& call,
                                                                std::string_view body) const {
  const http::Request& request = call.request();
  store::CreateCommand command;
  if (request.header_count("idempotency-key") > 1) {
    return invalid_request("Idempotency-Key must be given once at most.");
  }
  if (request.has_header("idempotency-key")) {
    command.idempotency_key = parse_idempotency_key(request.header("idempotency-key"));
    if (!command.idempotency_key) {
      return invalid_request("Idempotency-Key must be 1 to 128 visible ASCII characters.");
    }
  }
  const auto parsed = parse_request(body, rules_);
  if (!parsed) {
    return invalid_request(parsed.error().message);
  }
  command.id = TaskId::make();
  command.trail = {.request_id = call.request_id(), .trace = begin_span(request)};
  command.user = call.key().user;
  if (!call.key().session) {
    command.key = call.key().id;
    command.limited = call.key().limited;
  }
  command.request = encode_request(*parsed);
  if (command.idempotency_key) {
    command.fingerprint = fingerprint(command.request);
  }
  command.route = route_of(*parsed);
  command.output_format = parsed->output_format;
  command.deadline = std::chrono::seconds(config_.task_deadline_seconds);
  const PlanLimits& plan = config_.plan_of(call.key().paid);
  command.open_max = static_cast<std::uint32_t>(plan.open_tasks);
  command.released_max = static_cast<std::uint32_t>(plan.running_tasks);
  return command;
}

void Generations::answer_created(const Call& call,
                                 const store::CreateOutcome& outcome,
                                 const Trail& trail) {
  using Kind = store::CreateOutcome::Kind;
  admissions(outcome.kind).Increment();
  switch (outcome.kind) {
    case Kind::kConflict:
      call.fail(idempotency_conflict());
      return;
    case Kind::kInsufficient:
      call.fail(insufficient_credits());
      return;
    case Kind::kOverLimit:
      call.fail(spend_limit_reached(outcome.limit, outcome.spent));
      return;
    case Kind::kKeyGone:
      call.fail(invalid_api_key());
      return;
    case Kind::kTooManyOpen:
      call.fail(
          too_many_open(static_cast<std::uint64_t>(config_.plan_of(call.key().paid).open_tasks)));
      return;
    case Kind::kTooLate:
      call.fail(too_much_waits(outcome.again_in));
      return;
    case Kind::kNothingNew:
      refuse_paused(call);
      return;
    case Kind::kFailed:
      call.fail(service_unavailable());
      return;
    case Kind::kCreated:
    case Kind::kReplayed:
      break;
  }
  const TaskView& task = outcome.task;
  std::string headers;
  append_header(headers, "Location", "/api/v1/audio/generations/" + task.id.text());
  if (outcome.kind == Kind::kReplayed) {
    append_header(headers, "Idempotent-Replayed", "true");
  } else if (log::enabled(log::Level::kDebug)) {
    // Not info: the row tells as much, and a line per creation costs a tenth of one.
    log::debug("task created",
               about(task.id, trail),
               {{"user_id", call.key().user}, {"span_id", to_hex(trail.trace->span)}});
  }
  AG_CRASH_POINT("create.committed");
  call.answer(202, render_task(task, names_, members_for(call)), headers);
}

// `co_await StillValid(authenticators, call)`: whether the key or session of the call works still;
// goes on at once, or on a look-up thread, which is not to be kept.
class Generations::StillValid {
 public:
  StillValid(const Authenticators& authenticators, const Call& call)
      : authenticator_(call.route().access == Access::kSession ? *authenticators.sessions
                                                               : authenticators.keys),
        call_(call) {}

  bool await_ready() { return authenticator_.seen_just_now(call_.request()); }
  void await_suspend(Handling::Frame frame) {
    // This object may be gone before look_again() returns.
    authenticator_.look_again(call_.request(),
                              [this, waiting = Handling::Share(frame)](bool valid) {
                                valid_ = valid;
                                waiting.resume();
                              });
  }
  bool await_resume() const noexcept { return valid_; }

 private:
  Authenticator& authenticator_;
  const Call& call_;
  bool valid_ = true;
};

Handling Generations::get(Call call) {
  const auto id = TaskId::parse(call.parameter(0));
  if (!id) {
    call.fail(task_not_found());
    co_return;
  }
  store::FindCommand command{.id = *id, .user = call.key().user};
  auto found = co_await ask(finds_, std::move(command), call);
  if (!found) {
    call.fail(service_unavailable());
    co_return;
  }
  if (!*found) {
    call.fail(task_not_found());
    co_return;
  }
  TaskView& task = **found;  // No copy: malloc keeps no frame above 1 KiB at hand.
  std::string headers;
  if (call.request().has_header("prefer")) {
    append_header(headers, "Vary", "Prefer");
    const auto wait = preferred_wait(call.request().joined_headers("prefer"));
    bool applied = wait && is_final(task.state);
    if (wait && !applied) {
      call.exchange().allow(*wait);
      const bool waited = co_await waits_.until_final(call, task, *wait);
      applied = waited;
      // Whose key or session has ended meanwhile is told nothing more.
      const bool valid = co_await StillValid(authenticators_, call);
      if (!valid) {
        call.fail(call.key().session ? not_signed_in() : invalid_api_key());
        co_return;
      }
    }
    if (applied) {
      append_header(headers, "Preference-Applied", "wait=" + std::to_string(wait->count()));
    }
  }
  if (!is_final(task.state)) {
    const auto rest = read_again_after(lookout_.of(task).done_in);
    append_header(headers, "Retry-After", std::to_string(rest.count()));
  }
  call.answer(200, render_task(task, names_, members_for(call)), headers);
}

std::optional<Places::Place> Generations::begin_stream(const Call& call,
                                                       const TaskView& task,
                                                       std::optional<std::uint64_t> seen) {
  if (is_final(task.state) && seen == event_id(task)) {
    call.answer_nothing();
    return std::nullopt;
  }
  if (call.request().method == "HEAD") {
    call.begin_events();
    return std::nullopt;
  }
  auto place = streams_.take(call.key());
  if (!place) {
    call.fail(place.error() == Places::Full::kAll ? service_unavailable() : too_many_streams());
    return std::nullopt;
  }
  call.begin_events();
  return *std::move(place);
}

Handling Generations::events(Call call) {
  using Clock = std::chrono::steady_clock;
  const auto id = TaskId::parse(call.parameter(0));
  if (!id) {
    call.fail(task_not_found());
    co_return;
  }
  store::FindCommand command{.id = *id, .user = call.key().user};
  auto found = co_await ask(finds_, std::move(command), call);
  if (!found) {
    call.fail(service_unavailable());
    co_return;
  }
  if (!*found) {
    call.fail(task_not_found());
    co_return;
  }
  TaskView task = std::move(**found);
  const auto seen = parse_event_id(call.request().header("last-event-id"));
  auto place = begin_stream(call, task, seen);
  if (!place) {
    co_return;
  }
  const auto end = Clock::now() + stream_max_;
  EventFeed feed(seen, Clock::now());
  const auto prospect_of = [this](const TaskView& of) { return lookout_.of(of); };
  auto key_at = Clock::now() + until_key_is_asked();
  for (;;) {
    const auto now = Clock::now();
    const std::string text = feed.say(task, names_, prospect_of, now);
    if (!text.empty() && !call.exchange().send(text)) {
      co_return;
    }
    if (is_final(task.state) || now >= end) {
      break;
    }
    const auto rest =
        std::chrono::ceil<std::chrono::milliseconds>(std::min({feed.due_at(), key_at, end}) - now);
    const bool waited = co_await waits_.until_changed(call, task, rest);
    if (!waited || call.exchange().client_ended()) {
      break;
    }
    // Before anything of what has changed is told.
    if (Clock::now() >= key_at) {
      const bool valid = co_await StillValid(authenticators_, call);
      if (!valid) {
        break;
      }
      key_at = Clock::now() + until_key_is_asked();
    }
  }
  place.reset();  // Before its client can tell.
  call.exchange().end_stream();
}

Handling Generations::estimate(Call call) {
  const auto body = co_await call.json_body();
  if (!body) {
    call.fail(body.error());
    co_return;
  }
  const auto parsed = parse_request(*body, rules_);
  if (!parsed) {
    call.fail(parsed.error().param.empty()
                  ? invalid_request(parsed.error().message)
                  : invalid_parameter(parsed.error().param, parsed.error().message));
    co_return;
  }
  const auto released_max =
      static_cast<std::uint32_t>(config_.plan_of(call.key().paid).running_tasks);
  const auto look = [&](StoreDoors& doors) {
    return doors.accounts.next_lane(call.key().user, released_max);
  };
  // Apart from what else he asks the pool for, which estimates must not keep out.
  const auto lane = co_await on_store(pool_, ~call.holder(), look);
  // What it costs is told without the database, too.
  const auto start_in = lane && *lane ? lookout_.start_in(**lane) : std::nullopt;
  call.answer(200, render_estimate(audiogen::estimate(*parsed), start_in));
}

Handling Generations::cancel(Call call) {
  const auto id = TaskId::parse(call.parameter(0));
  if (!id) {
    call.fail(task_not_found());
    co_return;
  }
  store::CancelCommand command{.task = *id, .user = call.key().user};
  const auto canceled = co_await ask_there(cancels_, std::move(command), call);
  if (!canceled) {
    call.fail(service_unavailable());
    co_return;
  }
  answer_canceled(call, *canceled);
}

void Generations::answer_canceled(const Call& call, const store::Cancellation& canceled) {
  using Outcome = store::CancelOutcome;
  switch (canceled.outcome) {
    case Outcome::kFailed:
      call.fail(service_unavailable());
      return;
    case Outcome::kNotFound:
      call.fail(task_not_found());
      return;
    case Outcome::kAlreadyFinal:
      if (canceled.task.state != TaskState::kCanceled) {
        call.fail(already_final(canceled.task.state));
        return;
      }
      break;
    case Outcome::kCanceled:
      log::info("task canceled",
                about(canceled.task.id, canceled.trail),
                {{"canceled_by_request", call.request_id()}, {"user_id", call.key().user}});
      break;
  }
  call.answer(200, render_task(canceled.task, names_, Members::kAll));
}

void Generations::stop() {
  waits_.release();
  creates_.stop();
  finds_.stop();
  cancels_.stop();
}

}  // namespace audiogen::api
