#include "worker/job/runner.h"

#include <algorithm>
#include <random>
#include <thread>
#include <utility>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/metrics.h"
#include "common/blob/blob_key.h"

namespace audiogen::worker {
namespace {

// Of one transaction. 64 cost the database a fifth more per task; 512 keep locks longer and gain
// nothing.
constexpr std::size_t kBatchMax = 256;
// At 1,000 values MariaDB turns IN into a subquery (in_predicate_conversion_threshold), which may
// lock every row of a small table.
constexpr std::size_t kRenewalsMax = 500;
constexpr std::size_t kWaitingMax = 20'000;
// A task whose row another session holds is asked for again after this.
constexpr auto kHeldPause = std::chrono::seconds(5);
constexpr auto kWatchEvery = std::chrono::seconds(1);
constexpr auto kGiveBackLimit = std::chrono::seconds(5);

std::size_t cores() {
  return std::max(1U, std::thread::hardware_concurrency());
}

double jitter() {
  thread_local std::minstd_rand random(std::random_device{}());
  return std::uniform_real_distribution<double>(-1.0, 1.0)(random);
}

// Between tries of a database command: the database is away, and the lease still runs.
std::chrono::milliseconds store_pause(int tries) {
  return std::chrono::milliseconds(std::min(200 << std::min(tries, 4), 2000));
}

std::uint8_t attempt_state(Fault fault) {
  return fault == Fault::kUnknownOutcome ? store::kAttemptUnknown : store::kAttemptFailed;
}

bool refers(const GenerationRequest& request) {
  return !request.audio_references.empty() || request.image_url;
}

// Silence and next to nothing come from what was asked for; the rest from who made it.
Fault fault_of(PipelineFault::Kind kind) {
  switch (kind) {
    case PipelineFault::Kind::kSilent:
    case PipelineFault::Kind::kTooShort:
      return Fault::kUnsupportedInput;
    case PipelineFault::Kind::kUndecodable:
    case PipelineFault::Kind::kInternal:
    case PipelineFault::Kind::kNoDecoder:
      return Fault::kTryNext;
  }
  return Fault::kTryNext;
}

// A quarter of what the worker holds at once is fetched for, twice as many tasks as it holds wait.
ReferenceLimits reference_limits(const Config& config) {
  constexpr std::size_t kFewest = 8, kMost = 64;
  const auto in_flight = static_cast<std::size_t>(config.worker_in_flight);
  return {.bytes_max = static_cast<std::size_t>(config.references_max_mb) << 20U,
          .tasks_max = std::clamp(in_flight / 4, kFewest, kMost),
          .waiting_max = std::max(in_flight * 2, kFewest),
          .time_max = std::chrono::seconds(config.references_seconds),
          .folder = config.references_folder};
}

void count_settled(const char* outcome) {
  metrics::counter(
      "worker_tasks_total", "Tasks that left this worker, by how", {{"outcome", outcome}})
      .Increment();
}

}  // namespace

// One call to a provider.
struct JobRunner::Attempt {
  std::uint64_t step = 0;    // of the job; later steps make its answer meaningless
  std::size_t provider = 0;  // position in the chain
  std::uint32_t row = 0;     // its number among the task's attempts
};

// One claimed task. The fields above the mutex never change; those below are guarded by it.
struct JobRunner::Job {
  store::Claim claim;
  std::shared_ptr<const GenerationRequest> request;
  std::shared_ptr<const References> references;  // fetched before the first call that needs them
  Clock::time_point began_at;
  Clock::time_point deadline;
  std::shared_ptr<const Chain> chain;  // The one in force at the claim, to the end.
  bool aside = false;                  // Guarded by the runner's mutex_, as aside_ is.

  // Of the step under way: there is only one at a time, and only its end changes them.
  std::size_t provider = 0;   // Position in the chain.
  int tries = 0;              // Calls to this provider in this claim.
  std::uint32_t attempt = 0;  // Number of its attempt row.
  // Positions of the providers that said, in this claim, that they cannot.
  std::vector<std::size_t> unable;
  std::shared_ptr<void> audio_kept;  // While its audio waits for a codec or for the disk.

  std::mutex mutex;
  Clock::time_point
      lease_from;  // Asked for at this time: the lease runs at least kLease from here.
  bool renewing = false;
  bool lost = false;
  bool giving_back = false;
  std::uint32_t attempts = 0;  // Number of the newest attempt row.
  // What may still answer for step `step`: one call, or two where it is hedged.
  std::uint64_t step = 0;
  int awaited = 0;
  std::size_t reached = 0;  // the last provider of the chain asked in this step
  std::vector<std::shared_ptr<ProviderCall>> calls;

  // Before a step's first call is opened.
  std::uint64_t begin_step() {
    const std::scoped_lock lock(mutex);
    calls.clear();
    awaited = 1;
    reached = provider;
    return ++step;
  }
  // Would anybody take an answer for step `of`?
  bool awaits(std::uint64_t of) {
    const std::scoped_lock lock(mutex);
    return of == step && awaited > 0;
  }
  // Keeps a call of step `of`, so that it can be ended from outside; ends it when it is too late
  // for it already.
  void hold(std::uint64_t of, std::shared_ptr<ProviderCall> call) {
    bool stop = false;
    {
      const std::scoped_lock lock(mutex);
      const bool late = of != step || awaited == 0;
      stop = late || lost || giving_back;
      if (!late) {
        calls.push_back(call);
      }
    }
    if (stop) {
      call->cancel();
    }
  }
  // One call of step `of` has answered. Nullopt: the step had ended before. Else whether it ends
  // now: by audio, or because nobody else is awaited. What loses the race is ended.
  std::optional<bool> answered(std::uint64_t of, bool audio) {
    std::vector<std::shared_ptr<ProviderCall>> losers;
    bool ends = false;
    {
      const std::scoped_lock lock(mutex);
      if (of != step || awaited == 0) {
        return std::nullopt;
      }
      --awaited;
      ends = audio || awaited == 0;
      if (ends) {
        awaited = 0;
        if (reached != provider) {  // Else it is the one that answered.
          losers = std::move(calls);
        }
        calls.clear();
      }
    }
    for (const auto& call : losers) {
      call->cancel();
    }
    return ends;
  }

  bool is_lost() {
    const std::scoped_lock lock(mutex);
    return lost;
  }
  bool is_given_back() {
    const std::scoped_lock lock(mutex);
    return giving_back;
  }
  store::SettleCommand command(store::SettleCommand::Kind kind) {
    store::SettleCommand out;
    out.kind = kind;
    out.task = claim.task;
    out.user = claim.user;
    out.epoch = claim.epoch;
    out.attempt = attempt;
    return out;
  }
};

JobRunner::JobRunner(const Config& config,
                     WorkerId worker,
                     const CurrentChain& chains,
                     BlobStore& blobs,
                     http::Client& client,
                     Decoder& decoder,
                     std::function<void(const queue::Delivery&)> ack)
    : config_(config),
      worker_(worker),
      chains_(chains),
      blobs_(blobs),
      client_(client),
      decoder_(decoder),
      ack_(std::move(ack)),
      codecs_(cores(), kWaitingMax),
      inspectors_(std::max<std::size_t>(cores() / 2, 1), kWaitingMax),
      writers_(blobs.put_shape().threads,
               blobs.put_shape().batch_max,
               kWaitingMax,
               [this](std::vector<Output> outputs) { store_outputs(std::move(outputs)); }),
      references_(
          decoder,
          inspectors_,
          config.url_policy == UrlPolicy::kAny ? http::Reach::kAny : http::Reach::kPublicOnly,
          reference_limits(config),
          config.url_deny),
      claims_(config.database,
              {.threads = 1,
               .batch_max = kBatchMax,
               .capacity = kWaitingMax,
               .wait_held_max = std::chrono::milliseconds(500)},
              [this](store::TaskStore& store, std::span<const Hint> hints) {
                return claim_batch(store, hints);
              }),
      renewals_(config.database,
                {.threads = 1, .batch_max = kRenewalsMax, .capacity = kWaitingMax},
                [this](store::TaskStore& store, std::span<const store::Lease> leases) {
                  return store.renew(leases, worker_);
                }),
      attempts_(config.database,
                {.threads = 1, .batch_max = kBatchMax, .capacity = kWaitingMax},
                [](store::TaskStore& store, std::span<const store::AttemptStart> starts) {
                  return store.start_attempts(starts);
                }),
      settlements_(config.database,
                   {.threads = 1, .batch_max = kBatchMax, .capacity = kWaitingMax},
                   [](store::TaskStore& store, std::span<const store::SettleCommand> commands) {
                     return store.settle(commands);
                   }) {
  scheduler_.after(kWatchEvery, [this] { watch_leases(); });
}

JobRunner::~JobRunner() {
  draining_.store(true);
  scheduler_.stop();
  claims_.stop();
  inspectors_.stop();
  codecs_.stop();
  writers_.stop();
  attempts_.stop();
  renewals_.stop();
  settlements_.stop();
}

std::size_t JobRunner::in_flight() const {
  const std::scoped_lock lock(mutex_);
  return jobs_.size();
}

void JobRunner::deliver(std::vector<queue::Delivery> deliveries) {
  {
    const std::scoped_lock lock(mutex_);
    waiting_.insert(waiting_.end(), deliveries.begin(), deliveries.end());
  }
  claim_waiting();
}

void JobRunner::claim_waiting() {
  std::vector<queue::Delivery> next;
  {
    const std::scoped_lock lock(mutex_);
    const auto room = static_cast<std::size_t>(config_.worker_in_flight);
    while (!waiting_.empty() && busy() < room) {
      next.push_back(waiting_.front());
      waiting_.pop_front();
      ++claiming_;
    }
  }
  for (const queue::Delivery& delivery : next) {
    claim(delivery, 0);
  }
}

std::size_t JobRunner::take(std::span<const Hint> hints) {
  std::size_t count = 0;
  {
    const std::scoped_lock lock(mutex_);
    const std::size_t used = busy() + waiting_.size();
    const auto room = static_cast<std::size_t>(config_.worker_in_flight);
    count = draining_.load() || used >= room ? 0 : std::min(hints.size(), room - used);
    claiming_ += count;
  }
  for (const Hint& hint : hints.first(count)) {
    claim(queue::Delivery{.hint = hint}, 0);
  }
  return count;
}

void JobRunner::claim(const queue::Delivery& delivery, int tries) {
  if (draining_.load()) {
    {
      const std::scoped_lock lock(mutex_);
      --claiming_;
    }
    idle_.notify_all();
    return;  // Never acknowledged: the broker gives it to another worker.
  }
  AG_CRASH_POINT("worker.delivered");
  const auto asked_at = Clock::now();
  const auto again = [this, delivery, tries] {
    scheduler_.after(store_pause(tries), [this, delivery, tries] { claim(delivery, tries + 1); });
  };
  const bool taken = claims_.submit(
      delivery.hint,
      [this, delivery, asked_at, again](Result<std::optional<Claimed>, store::StoreFault> outcome) {
        const bool held = !outcome && outcome.error() == store::StoreFault::kLocked;
        if (!outcome && !held) {
          again();  // The database is away: keep the message and ask again.
        } else if (held) {
          not_free(delivery);
        } else if (!*outcome) {
          not_claimed(delivery);
        } else {
          begin(delivery, std::move(**outcome), asked_at);
        }
      });
  if (!taken) {
    again();
  }
}

store::Batch<std::optional<JobRunner::Claimed>> JobRunner::claim_batch(
    store::TaskStore& store, std::span<const Hint> hints) {
  std::unordered_map<TaskId, std::shared_ptr<const GenerationRequest>> requests;
  auto outcomes = store.claim(hints, worker_, [&](const store::Claim& claim) {
    auto request = decode_request(claim.request);
    if (!request) {
      return std::string();
    }
    const auto chain = chains_.get();
    // What it refers to is fetched before anybody is called.
    const auto first = refers(*request) ? std::nullopt : chain->choose(*request, 0);
    requests[claim.task] = std::make_shared<const GenerationRequest>(std::move(*request));
    return first ? chain->at(*first).name() : std::string();
  });
  store::Batch<std::optional<Claimed>> claimed;
  claimed.reserve(outcomes.size());
  for (auto& outcome : outcomes) {
    if (!outcome) {
      claimed.push_back(outcome.error());
    } else if (auto& claim = *outcome) {
      auto& request = requests[claim->task];
      claimed.push_back(std::optional(Claimed{std::move(*claim), std::move(request)}));
    } else {
      claimed.push_back(std::optional<Claimed>());
    }
  }
  return claimed;
}

// A row that somebody keeps for seconds must not keep a place here.
void JobRunner::not_free(const queue::Delivery& delivery) {
  if (draining_.load()) {  // Not acknowledged: the broker gives it to another worker.
    {
      const std::scoped_lock lock(mutex_);
      --claiming_;
    }
    idle_.notify_all();
    return;
  }
  not_claimed(delivery);
  scheduler_.after(kHeldPause, [this, hint = delivery.hint] { take({&hint, 1}); });
}

// Final, taken, or not due: the table comes back to it if it must.
void JobRunner::not_claimed(const queue::Delivery& delivery) {
  {
    const std::scoped_lock lock(mutex_);
    --claiming_;
  }
  ack_(delivery);
  idle_.notify_all();
  claim_waiting();
}

void JobRunner::begin(const queue::Delivery& delivery,
                      Claimed claimed,
                      Clock::time_point asked_at) {
  AG_CRASH_POINT("worker.claimed");
  auto job = std::make_shared<Job>();
  job->began_at = Clock::now();
  job->deadline = job->began_at + claimed.claim.until_deadline;
  job->lease_from = asked_at;
  job->claim = std::move(claimed.claim);
  job->claim.request = {};
  job->request = std::move(claimed.request);
  {
    const std::scoped_lock lock(mutex_);
    --claiming_;
    jobs_[job->claim.task] = job;
  }
  ack_(delivery);
  if (log::enabled(log::Level::kDebug)) {
    log::debug("task claimed", {{"task_id", job->claim.task}, {"claims", job->claim.claims}});
  }
  if (!job->request) {
    log::error("a stored request cannot be read", {{"task_id", job->claim.task}});
    auto command = job->command(store::SettleCommand::Kind::kFail);
    command.failure = FailureCode::kInternalError;
    settle(job, std::move(command), 0);
    return;
  }
  job->chain = chains_.get();
  job->attempt = job->attempts = job->claim.attempts;
  const auto named = job->chain->find(job->claim.provider);
  if (named) {
    job->provider = *named;
    job->attempt = ++job->attempts;  // Its row was written with the claim.
    call_provider(job);
    return;
  }
  // Nobody could be named at the claim, or the configuration has changed since.
  if (!job->claim.provider.empty()) {
    job->attempt = ++job->attempts;
  }
  no_provider(job);
}

void JobRunner::no_provider(const JobPtr& job) {
  if (const auto now = job->chain->choose(*job->request, 0)) {
    job->provider = *now;
    if (refers(*job->request) && !job->references) {
      fetch_references(job);
    } else {
      start_attempt(job, store::kAttemptFailed, store::kNotCalled);
    }
    return;
  }
  const bool later = job->chain->serves(*job->request);  // Their breakers are open.
  auto command =
      job->command(later ? store::SettleCommand::Kind::kRetry : store::SettleCommand::Kind::kFail);
  command.failure = later ? FailureCode::kProviderUnavailable : FailureCode::kUnsupportedInput;
  command.retry_after = retry_delay(job->claim.claims, jitter());
  command.attempt_state = store::kAttemptFailed;
  command.attempt_detail = store::kNotCalled;
  settle(job, std::move(command), 0);
}

void JobRunner::fetch_references(const JobPtr& job) {
  const auto step = job->begin_step();
  {
    const std::scoped_lock lock(mutex_);
    ++fetching_;
  }
  auto call = references_.fetch(
      job->claim.user,
      job->request,
      job->chain->sends_reference_bytes(),
      job->deadline,
      [this, job, step](Result<std::shared_ptr<const References>, ReferenceFault> fetched) {
        {
          const std::scoped_lock lock(mutex_);
          --fetching_;
        }
        job->answered(step, true);
        references_fetched(job, std::move(fetched));
      });
  job->hold(step, std::move(call));
  claim_waiting();
}

void JobRunner::references_fetched(
    const JobPtr& job, Result<std::shared_ptr<const References>, ReferenceFault> fetched) {
  using Kind = store::SettleCommand::Kind;
  if (job->is_lost()) {
    finish(job);
    return;
  }
  if (fetched) {
    job->references = std::move(*fetched);
    no_provider(job);
    return;
  }
  const ReferenceFault& fault = fetched.error();
  if (fault.kind == ReferenceFault::Kind::kCanceled) {
    auto command = job->command(Kind::kRelease);
    command.attempt = 0;
    settle(job, std::move(command), 0);
    return;
  }
  log::info("references refused",
            {{"task_id", job->claim.task}, {"why", fault.message}, {"detail", fault.detail}});
  auto command = job->command(Kind::kFail);
  command.attempt = 0;  // Nobody was called.
  command.failure = FailureCode::kReferenceUnavailable;
  command.failure_message = fault.message;
  if (fault.kind != ReferenceFault::Kind::kUnusable) {
    const bool busy = fault.kind == ReferenceFault::Kind::kBusy;
    command.kind = busy ? Kind::kRelease : Kind::kRetry;
    command.failure = FailureCode::kInternalError;
    command.failure_message.clear();
    command.retry_after = busy ? fault.after : retry_delay(job->claim.claims, jitter());
  }
  settle(job, std::move(command), 0);
}

void JobRunner::call_provider(const JobPtr& job) {
  if (!job->chain->admit(job->provider)) {
    attempt_failed(job, ProviderFault{Fault::kTryNext, "breaker open", std::nullopt});
    return;
  }
  ++job->tries;
  AG_CRASH_POINT("worker.attempt_row");
  const Attempt attempt{job->begin_step(), job->provider, job->attempt};
  job->hold(attempt.step, open_call(job, attempt));
  const auto patience = job->chain->at(attempt.provider).capabilities().hedge_after;
  if (patience.count() > 0) {
    scheduler_.after(patience, [this, job, attempt] { hedge(job, attempt); });
  }
}

std::shared_ptr<ProviderCall> JobRunner::open_call(const JobPtr& job, const Attempt& attempt) {
  ProviderRequest request;
  request.request = job->request;
  request.references = job->references;
  request.request_key = job->claim.task.text() + "-" + std::to_string(attempt.row);
  request.deadline = job->deadline;
  return job->chain->at(attempt.provider)
      .start(std::move(request), [this, job, attempt](Result<Audio, ProviderFault> answer) {
        provider_answered(job, attempt, std::move(answer));
      });
}

// Asks the next provider as well. Both may charge us; the client pays for the one that wins.
void JobRunner::hedge(const JobPtr& job, const Attempt& slow) {
  const auto second = job->chain->choose(*job->request, slow.provider + 1);
  store::AttemptStart start;
  {
    const std::scoped_lock lock(job->mutex);
    if (!second || job->step != slow.step || job->awaited == 0 || job->lost || job->giving_back) {
      return;
    }
    ++job->awaited;
    job->reached = *second;
    start.n = ++job->attempts;
  }
  const Attempt attempt{slow.step, *second, start.n};
  start.task = job->claim.task;
  start.epoch = job->claim.epoch;
  start.provider = job->chain->at(*second).name();
  open_hedge(job, attempt, start);
}

// The row's number is taken, so it is written whatever happens; the call is made if somebody still
// waits for it.
void JobRunner::open_hedge(const JobPtr& job,
                           const Attempt& attempt,
                           const store::AttemptStart& start) {
  const auto again = [this, job, attempt, start] {
    scheduler_.after(store_pause(1),
                     [this, job, attempt, start] { open_hedge(job, attempt, start); });
  };
  const bool taken = attempts_.submit(
      start, [this, job, attempt, again](const Result<bool, store::StoreFault>& ours) {
        if (!ours) {
          again();
        } else if (*ours && job->awaits(attempt.step) && job->chain->admit(attempt.provider)) {
          job->hold(attempt.step, open_call(job, attempt));
        } else {
          step_answered(
              job, attempt, ProviderFault{Fault::kTryNext, store::kNotCalled, std::nullopt});
        }
      });
  if (!taken) {
    again();
  }
}

void JobRunner::provider_answered(const JobPtr& job,
                                  const Attempt& attempt,
                                  Result<Audio, ProviderFault> answer) {
  AG_CRASH_POINT("worker.answered");
  if (answer) {
    job->chain->answered(attempt.provider);
  } else {
    job->chain->failed(attempt.provider, answer.error().fault);
  }
  step_answered(job, attempt, std::move(answer));
}

void JobRunner::step_answered(const JobPtr& job,
                              const Attempt& attempt,
                              Result<Audio, ProviderFault> answer) {
  const auto ends = job->answered(attempt.step, static_cast<bool>(answer));
  if (!ends) {
    return;  // Another was faster.
  }
  if (!*ends) {
    log::warn("provider attempt failed, its hedge goes on",
              {{"task_id", job->claim.task},
               {"provider", job->chain->at(attempt.provider).name()},
               {"attempt", attempt.row},
               {"fault", fault_name(answer.error().fault)}});
    return;
  }
  // Where both failed, the chain goes on after the later one.
  job->provider = answer ? attempt.provider : job->reached;
  job->attempt = attempt.row;
  if (job->is_lost()) {
    finish(job);
    return;
  }
  if (!answer) {
    attempt_failed(job, answer.error());
    return;
  }
  job->audio_kept = client_.keep(answer->bytes.size());
  // std::function must be copyable, the audio is big: share it.
  auto audio = std::make_shared<Audio>(std::move(*answer));
  if (!codecs_.post([this, job, audio] { render(job, std::move(*audio)); })) {
    attempt_failed(job, ProviderFault{Fault::kTryNext, "codec pool full", std::nullopt});
  }
}

void JobRunner::attempt_failed(const JobPtr& job, const ProviderFault& fault) {
  job->audio_kept.reset();
  if (fault.fault == Fault::kUnsupportedInput) {
    job->unable.push_back(job->provider);
  }
  const auto another = job->chain->choose(*job->request, job->provider + 1);
  const auto time_left =
      std::chrono::duration_cast<std::chrono::milliseconds>(job->deadline - Clock::now());
  const Decision decision = after_fault(fault,
                                        {.tries = job->tries,
                                         .another = another.has_value(),
                                         .later = job->chain->serves(*job->request, job->unable),
                                         .time_left = time_left,
                                         .jitter = jitter()});
  log::warn("provider attempt failed",
            {{"task_id", job->claim.task},
             {"provider", job->chain->at(job->provider).name()},
             {"attempt", job->attempt},
             {"fault", fault_name(fault.fault)},
             {"detail", fault.detail}});
  if (decision.step == NextStep::kNextProvider) {
    job->provider = *another;
    job->tries = 0;
    start_attempt(job, attempt_state(fault.fault), fault.detail);
    return;
  }
  if (decision.step == NextStep::kSameProvider) {
    scheduler_.after(decision.wait, [this, job, fault] {
      start_attempt(job, attempt_state(fault.fault), fault.detail);
    });
    return;
  }
  using Kind = store::SettleCommand::Kind;
  auto command = job->command(decision.step == NextStep::kRetryLater ? Kind::kRetry
                              : decision.step == NextStep::kGiveBack ? Kind::kRelease
                                                                     : Kind::kFail);
  command.failure = decision.failure;
  if (command.kind != Kind::kRelease) {
    command.retry_after = retry_delay(job->claim.claims, jitter());
    if (fault.retry_after && *fault.retry_after > command.retry_after) {
      command.retry_after = *fault.retry_after;
    }
  }
  command.attempt_state = attempt_state(fault.fault);
  command.attempt_detail = fault.detail;
  settle(job, std::move(command), 0);
}

void JobRunner::start_attempt(const JobPtr& job,
                              std::uint8_t previous_state,
                              const std::string& previous_detail) {
  if (job->is_lost()) {
    finish(job);
    return;
  }
  if (job->is_given_back()) {
    auto command = job->command(store::SettleCommand::Kind::kRelease);
    command.attempt_state = previous_state;
    command.attempt_detail = previous_detail;
    settle(job, std::move(command), 0);
    return;
  }
  store::AttemptStart start;
  start.task = job->claim.task;
  start.epoch = job->claim.epoch;
  {
    const std::scoped_lock lock(job->mutex);
    start.n = ++job->attempts;
  }
  start.provider = job->chain->at(job->provider).name();
  if (job->attempt > job->claim.attempts) {  // The one before was of this claim.
    start.previous = job->attempt;
    start.previous_state = previous_state;
    start.previous_detail = previous_detail;
  }
  write_attempt(job, start);
}

void JobRunner::write_attempt(const JobPtr& job, const store::AttemptStart& start) {
  const auto again = [this, job, start] {
    scheduler_.after(store_pause(1), [this, job, start] { write_attempt(job, start); });
  };
  if (job->is_lost()) {
    finish(job);
    return;
  }
  const bool taken = attempts_.submit(
      start, [this, job, again, row = start.n](const Result<bool, store::StoreFault>& ours) {
        if (!ours) {
          again();
        } else if (!*ours) {
          lose(job, "lease lost before the next attempt");
          finish(job);
        } else {
          job->attempt = row;
          call_provider(job);
        }
      });
  if (!taken) {
    again();
  }
}

void JobRunner::render(const JobPtr& job, Audio audio) {
  if (job->is_lost()) {
    finish(job);
    return;
  }
  const GenerationRequest& request = *job->request;
  const RenderSpec spec = render_spec(request, audio);
  auto rendered = audiogen::render(std::move(audio), spec, decoder_);
  if (!rendered && rendered.error().kind == PipelineFault::Kind::kNoDecoder) {
    give_up_for_now(job, "audio could not be decoded", rendered.error().detail);
    return;
  }
  // Only audio that can be delivered counts as a success of its provider. Bad audio means the next
  // provider, never a bill.
  const auto fault = rendered ? std::nullopt : std::optional(fault_of(rendered.error().kind));
  job->chain->proved(job->provider, fault);
  if (fault) {
    attempt_failed(job, ProviderFault{*fault, rendered.error().detail, std::nullopt});
    return;
  }
  static auto& passed =
      metrics::counter("worker_passed_through_total", "Audio delivered as the provider sent it");
  passed.Increment(rendered->passed_through ? 1 : 0);
  if (!writers_.post({job, std::move(*rendered)})) {
    give_up_for_now(job, "audio could not be stored", "writer pool full");
  }
}

void JobRunner::store_outputs(std::vector<Output> outputs) {
  std::erase_if(outputs, [this](const Output& output) {
    const bool lost = output.job->is_lost();
    if (lost) {
      finish(output.job);
    }
    return lost;
  });
  if (outputs.empty()) {
    return;
  }
  std::vector<std::string> names;
  std::vector<NewBlob> files;
  names.reserve(outputs.size());  // The views into it stay valid.
  for (const auto& [job, rendered] : outputs) {
    names.push_back(
        make_blob_name(job->claim.task, job->request->output_format, job->request->sample_rate));
    files.push_back({names.back(), rendered.bytes});
  }
  auto stored = blobs_.put(files);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto& [job, rendered] = outputs[i];
    if (!stored[i]) {
      // Not the provider's fault: made again later, by a worker whose store may work.
      give_up_for_now(job, "audio could not be stored", stored[i].error().message);
      continue;
    }
    AG_CRASH_POINT("worker.stored");
    auto command = job->command(store::SettleCommand::Kind::kSucceed);
    command.output_key = std::move(*stored[i]);
    command.output_bytes = rendered.bytes.size();
    command.output_sha256 = rendered.sha256;
    command.duration_ms = duration_ms(static_cast<std::int64_t>(rendered.samples), rendered.rate);
    command.charge_max = job->request->max_credits;
    command.attempt_state = store::kAttemptSucceeded;
    settle(job, std::move(command), 0);
  }
}

void JobRunner::give_up_for_now(const JobPtr& job, const char* what, const std::string& why) {
  log::error(what, {{"task_id", job->claim.task}, {"why", why}});
  auto command = job->command(store::SettleCommand::Kind::kRetry);
  command.failure = FailureCode::kInternalError;
  command.retry_after = retry_delay(job->claim.claims, jitter());
  command.attempt_state = store::kAttemptSucceeded;
  command.attempt_detail = what;
  settle(job, std::move(command), 0);
}

void JobRunner::settle(const JobPtr& job, store::SettleCommand command, int tries) {
  job->audio_kept.reset();
  if (job->is_lost()) {
    // Once it was sent it may have been committed, its answer lost: then the file is the task's.
    if (tries == 0 && !command.output_key.empty()) {
      static_cast<void>(blobs_.remove(command.output_key));
    }
    finish(job);
    return;
  }
  const auto again = [this, job, command, tries] {
    scheduler_.after(store_pause(tries),
                     [this, job, command, tries] { settle(job, command, tries + 1); });
  };
  const bool taken = settlements_.submit(
      command,
      [this, job, command, again](const Result<store::SettleOutcome, store::StoreFault>& outcome) {
        if (!outcome || *outcome == store::SettleOutcome::kFailed) {
          if (!outcome && outcome.error() == store::StoreFault::kLocked) {
            set_aside(job);
          }
          again();  // Until the lease runs out: watch_leases() marks the job lost then.
          return;
        }
        AG_CRASH_POINT("worker.settled");
        if (*outcome == store::SettleOutcome::kNotOurs) {
          log::warn("lease lost, result dropped", {{"task_id", job->claim.task}});
          count_settled("fenced");
          if (!command.output_key.empty()) {
            static_cast<void>(blobs_.remove(command.output_key));
          }
        } else if (*outcome == store::SettleOutcome::kRequeued) {
          log::info("task requeued", {{"task_id", job->claim.task}, {"claims", job->claim.claims}});
          count_settled("requeued");
        } else {
          const bool succeeded = command.kind == store::SettleCommand::Kind::kSucceed;
          log::info(
              succeeded ? "task succeeded" : "task failed",
              {{"task_id", job->claim.task},
               {"duration_ms", command.duration_ms},
               {"seconds", std::chrono::duration<double>(Clock::now() - job->began_at).count()}});
          count_settled(succeeded ? "succeeded" : "failed");
        }
        finish(job);
      });
  if (!taken) {
    again();
  }
}

// The work is done, and only somebody who holds its row or its user's balance is waited for: that
// takes nobody else's room, as far as there are not more of them than there is room.
void JobRunner::set_aside(const JobPtr& job) {
  {
    const std::scoped_lock lock(mutex_);
    if (job->aside || aside_ >= static_cast<std::size_t>(config_.worker_in_flight)) {
      return;
    }
    job->aside = true;
    ++aside_;
  }
  claim_waiting();
}

void JobRunner::finish(const JobPtr& job) {
  {
    const std::scoped_lock lock(mutex_);
    const auto it = jobs_.find(job->claim.task);
    if (it == jobs_.end() || it->second != job) {
      return;
    }
    aside_ -= job->aside ? 1U : 0U;
    jobs_.erase(it);
  }
  idle_.notify_all();
  claim_waiting();
}

void JobRunner::lose(const JobPtr& job, const char* why) {
  std::vector<std::shared_ptr<ProviderCall>> calls;
  {
    const std::scoped_lock lock(job->mutex);
    if (job->lost) {
      return;
    }
    job->lost = true;
    calls = job->calls;
  }
  log::warn("lease lost", {{"task_id", job->claim.task}, {"why", why}});
  for (const auto& call : calls) {
    call->cancel();
  }
}

// A worker measures its own lease from before it asked, and stops itself before another may start.
void JobRunner::watch_leases() {
  const auto now = Clock::now();
  std::vector<JobPtr> jobs;
  {
    const std::scoped_lock lock(mutex_);
    jobs.reserve(jobs_.size());
    for (const auto& [id, job] : jobs_) {
      jobs.push_back(job);
    }
  }
  std::vector<JobPtr> due;
  for (const JobPtr& job : jobs) {
    bool expired = false;
    {
      const std::scoped_lock lock(job->mutex);
      if (job->lost) {
        continue;
      }
      expired = now - job->lease_from > kLeaseSelfStop;
      if (!expired && !job->renewing && now - job->lease_from > kLeaseRenew) {
        job->renewing = true;
        due.push_back(job);
      }
    }
    if (expired) {
      lose(job, "not renewed in time");
    }
  }
  renew(due);
  scheduler_.after(kWatchEvery, [this] { watch_leases(); });
}

void JobRunner::renew(const std::vector<JobPtr>& jobs) {
  for (const JobPtr& job : jobs) {
    const auto asked_at = Clock::now();
    const store::Lease lease{.task = job->claim.task, .epoch = job->claim.epoch};
    const bool taken =
        renewals_.submit(lease, [this, job, asked_at](const Result<bool, store::StoreFault>& ours) {
          {
            const std::scoped_lock lock(job->mutex);
            job->renewing = false;
            if (ours && *ours) {
              job->lease_from = asked_at;
            }
          }
          if (ours && !*ours) {
            lose(job, "taken back");
          }
        });
    if (!taken) {
      const std::scoped_lock lock(job->mutex);
      job->renewing = false;
    }
  }
}

void JobRunner::drain(std::chrono::milliseconds limit) {
  draining_.store(true);
  std::unique_lock lock(mutex_);
  const auto empty = [this] { return jobs_.empty() && claiming_ == 0; };
  if (idle_.wait_for(lock, limit, empty)) {
    return;
  }
  std::vector<JobPtr> rest;
  for (const auto& [id, job] : jobs_) {
    rest.push_back(job);
  }
  lock.unlock();
  log::info("giving tasks back", {{"count", rest.size()}});
  for (const JobPtr& job : rest) {
    std::vector<std::shared_ptr<ProviderCall>> calls;
    {
      const std::scoped_lock job_lock(job->mutex);
      job->giving_back = true;
      calls = job->calls;
    }
    for (const auto& call : calls) {
      call->cancel();  // Its answer, kCanceled, gives the task back.
    }
  }
  lock.lock();
  idle_.wait_for(lock, kGiveBackLimit, empty);
}

}  // namespace audiogen::worker
