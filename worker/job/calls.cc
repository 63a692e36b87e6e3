#include "worker/job/calls.h"

#include <utility>

#include "common/base/check.h"
#include "common/base/crypto.h"
#include "common/base/log.h"
#include "common/base/utf8.h"
#include "worker/job/batches.h"
#include "worker/job/leases.h"

namespace audiogen::worker {
namespace {

// Its call's row says when it was written, which then is near enough.
constexpr std::chrono::milliseconds kAtOnce{100};
// Nobody tells when another provider has a free slot.
constexpr std::chrono::milliseconds kLookForFree{500};

store::CallStart row_of(const Job& job, std::size_t provider, std::uint32_t number) {
  store::CallStart start;
  start.task = job.claim.task;
  start.epoch = job.claim.epoch;
  start.n = number;
  start.trail = job.claim.trail;
  start.provider = job.chain->at(provider).name();
  return start;
}

CallOutcome outcome_of(const Job& job, const Calls::Answer& answer) {
  if (answer) {
    return CallOutcome::kUndelivered;  // Until it is.
  }
  switch (answer.error().fault) {
    case Fault::kUnknownOutcome:
    case Fault::kOutOfTime:
      return CallOutcome::kUnknown;
    case Fault::kCanceled:
      return job.is_lost() || job.is_given_back() ? CallOutcome::kDropped : CallOutcome::kBeaten;
    default:
      return answer.error().made ? CallOutcome::kUndelivered : CallOutcome::kFailed;
  }
}

// Of a call that was sent.
store::CallRecord record_of(const Job& job,
                            const Call& call,
                            const CallFacts& facts,
                            const Calls::Answer& answer) {
  using std::chrono::duration_cast;
  using std::chrono::milliseconds;
  const Capabilities& able = job.chain->at(call.provider).capabilities();
  store::CallRecord out{
      .task = job.claim.task,
      .n = call.row,
      .provider = job.chain->at(call.provider).name(),
      .outcome = outcome_of(job, answer),
      .sent = *facts.sent,
      .waited = *facts.sent - call.opened > kAtOnce,
      .took = duration_cast<milliseconds>(CallFacts::Clock::now() - *facts.sent - facts.unread),
      .price = able.price,
      .reports = able.reports};
  if (facts.first_byte) {
    out.first_byte = duration_cast<milliseconds>(*facts.first_byte - *facts.sent);
  }
  out.counted.characters = static_cast<std::int64_t>(utf8_length(job.request->prompt));
  if (!able.price || able.price->unit == able.reports) {
    out.counted.reported = facts.reported;
  }
  out.counted.goes_on = facts.goes_on;
  return out;
}

ProviderFault not_called(const char* why) {
  return {Fault::kNotCalled, why, std::nullopt};
}

// Whether a provider that ended a call so may have begun with it.
bool was_taken(Fault fault) {
  return fault != Fault::kThrottled && fault != Fault::kUnsupportedInput;
}

// Whether what it was to go on with is not there any more.
bool is_gone(const Call& call, const Calls::Answer& answer) {
  return !answer && answer.error().fault == Fault::kNotCalled && !call.ticket.empty();
}

}  // namespace

Calls::Calls(const DatabaseUrl& database,
             Roster& roster,
             Scheduler& scheduler,
             Tickets& tickets,
             CallRecords& records,
             Answered answered)
    : roster_(roster),
      scheduler_(scheduler),
      tickets_(tickets),
      late_(std::make_shared<Late>(&records, &tickets)),
      answered_(std::move(answered)),
      rows_(database,
            {.use = "attempt", .threads = 1, .batch_max = kBatchMax, .capacity = kWaitingMax},
            [](store::TaskStore& store, std::span<const store::CallStart> starts) {
              return store.start_calls(starts);
            }) {}

Calls::~Calls() {
  const MutexLock lock(late_->mutex);
  late_->records = nullptr;
  late_->tickets = nullptr;
}

void Calls::Late::write(store::CallRecord record) {
  const MutexLock lock(mutex);
  if (records != nullptr) {
    records->write({std::move(record)});
  }
}

// Nobody is to go on with it.
void Calls::Late::forget_ticket(const JobPtr& job, const Call& call) {
  // Somebody else may have the task by now, and go on with it.
  if (job->lease_is_over(Job::Clock::now())) {
    return;
  }
  const MutexLock lock(mutex);
  if (tickets != nullptr && job->chain->at(call.provider).capabilities().gives_tickets) {
    tickets->forget(job, call.row);
  }
}

void Calls::stop() {
  rows_.stop();
}

void Calls::write_and_call(const JobPtr& job, const CallEnd& previous) {
  store::CallStart start = row_of(*job, job->provider, job->next_row());
  if (job->row > job->claim.calls) {  // The one before was of this claim.
    start.previous = job->row;
    start.previous_state = previous.state;
    start.previous_detail = previous.detail;
  }
  write(job, start);
}

void Calls::write(const JobPtr& job, const store::CallStart& start) {
  if (job->is_lost()) {
    answered_(job, not_called("lost"));
    return;
  }
  const bool taken =
      rows_.submit(start, [this, job, start](const Result<bool, store::StoreFault>& ours) {
        if (!ours) {
          write_later(job, start);
        } else if (!*ours) {
          lose(*job, "lease lost before the next call");
          answered_(job, not_called("lost"));
        } else {
          job->row = start.n;
          if (!job->ticket.empty()) {
            // Whoever has the task next looks for one of the newest row, and this call may wait.
            tickets_.keep(job, start.n, start.provider, job->ticket);
          }
          call(job);
        }
      });
  if (!taken) {
    write_later(job, start);
  }
}

void Calls::write_later(const JobPtr& job, const store::CallStart& start) {
  scheduler_.after(store_pause(1), [this, job, start] { write(job, start); });
}

bool Calls::would_be_cut_off(const Job& job, std::size_t provider) const {
  const auto& asked = job.chain->at(provider);
  return !asked.capabilities().gives_tickets && asked.outlasts(leaves_at_->load());
}

void Calls::call(const JobPtr& job) {
  const auto slot = std::move(job->slot);  // Until the call has one of its own.
  // Since its row was begun, which may have taken its time.
  if (job->is_given_back() || (job->ticket.empty() && would_be_cut_off(*job, job->provider))) {
    answered_(job, ProviderFault{Fault::kCanceled, store::kNotCalled, std::nullopt});
    return;
  }
  // The process may have stood still since the row was written, and go on before whoever watches
  // the leases does: somebody else may have the task by now, and have called.
  if (job->lease_is_over(Job::Clock::now())) {
    lose(*job, "not renewed before a call");
    answered_(job, not_called("lease over"));
    return;
  }
  // What a ticket asks for is made, and paid, already.
  if (!job->ticket.empty()) {
    job->chain->resume(job->provider);
  } else if (!job->chain->admit(job->provider, job->time(Job::Clock::now()))) {
    answered_(job, not_called("breaker open, or too late"));
    return;
  }
  ++job->tries;
  AG_CRASH_POINT("worker.call_row");
  const Call call{.step = job->begin_step(),
                  .provider = job->provider,
                  .row = job->row,
                  .tries = job->tries,
                  .ticket = job->ticket};
  const auto opened = open(job, call);
  job->hold(call.step, opened);
  roster_.begin(job);
  const Capabilities& able = job->chain->at(call.provider).capabilities();
  // For what goes on by its ticket nobody has fetched the references that another needs.
  const bool may_race = !needs_references(*job->request) || job->references;
  if (able.hedge_after.count() > 0 && may_race) {
    hedge_later(job, call, opened);
  }
  // What was passed on has waited already: where others were faster it is passed on again.
  const auto patience = job->passed_on ? kLookForFree : able.queue_wait;
  // No other provider has what a ticket asks for.
  if (patience.count() > 0 && call.ticket.empty() && opened->waits()) {
    scheduler_.after(patience, [this, job, call, opened] { pass_on(job, call, opened); });
  }
}

// It has waited for its turn as long as it may: as soon as another provider is free, that one has
// it.
void Calls::pass_on(const JobPtr& job,
                    const Call& call,
                    const std::shared_ptr<ProviderCall>& waiting) {
  if (!waiting->waits()) {
    return;
  }
  if (job->choose_unraced(&Chain::choose_free, call.provider + 1, job->time(Job::Clock::now()))) {
    job->passed_on = true;
    waiting->stop_waiting();
  } else {
    scheduler_.after(kLookForFree, [this, job, call, waiting] { pass_on(job, call, waiting); });
  }
}

std::shared_ptr<ProviderCall> Calls::open(const JobPtr& job, const Call& call) {
  ProviderRequest request;
  request.request = job->request;
  request.references = job->references;
  request.request_key = job->claim.task.text() + "-" + std::to_string(call.row);
  request.deadline = job->deadline;
  request.lifetime = time_of(job->claim).whole;
  request.fallback = job->chain->is_fallback(*job->request, call.provider);
  request.is_ours = [job] { return !job->lease_is_over(Job::Clock::now()); };
  if (!job->chain->at(call.provider).capabilities().gives_tickets) {
    request.leaves_at = leaves_at_;
  } else {
    request.ticket = call.ticket;
    request.on_ticket = [this, job, call](const std::string& ticket) {
      if (call.ticket.empty()) {
        job->called = true;  // It was taken, whatever is said of it later.
      }
      return tickets_.keep(job, call.row, job->chain->at(call.provider).name(), ticket);
    };
  }
  if (const auto& task = job->claim.trail.trace) {
    request.span = child_of(*task, random_number<sizeof(SpanNumber)>());
  }
  if (log::enabled(log::Level::kDebug)) {
    log::debug("provider called",
               about(*job),
               {{"provider", job->chain->at(call.provider).name()},
                {"call", call.row},
                {"span_id", request.span ? to_hex(request.span->span) : std::string()}});
  }
  const auto facts = std::make_shared<CallFacts>();
  request.facts = facts;
  return job->chain->at(call.provider)
      .start(std::move(request), [this, job, call, facts, late = late_](Answer answer) {
        provider_answered(job, call, *facts, *late, std::move(answer));
      });
}

// Slow is who was asked and has not answered. While a call waits for its turn nobody is raced: both
// would be sent, and paid, and its provider's next slot would go to what another has made already.
void Calls::hedge_later(const JobPtr& job,
                        const Call& call,
                        const std::shared_ptr<ProviderCall>& opened) {
  const auto hedge_after = job->chain->at(call.provider).capabilities().hedge_after;
  if (opened->waits()) {
    scheduler_.after(std::min(hedge_after, kLookForFree),
                     [this, job, call, opened] { hedge_later(job, call, opened); });
  } else {
    scheduler_.after(hedge_after, [this, job, call, opened] { hedge(job, call, opened); });
  }
}

// Asks the next provider of its tier as well. Both may charge us; the client pays for the one that
// wins.
void Calls::hedge(const JobPtr& job,
                  const Call& slow,
                  const std::shared_ptr<ProviderCall>& opened) {
  if (opened->is_unread()) {
    // It is here. Another's answer would wait behind it, and be paid all the same.
    scheduler_.after(kLookForFree, [this, job, slow, opened] { hedge(job, slow, opened); });
    return;
  }
  const auto second =
      job->chain->choose_beside(*job->request, slow.provider, job->time(Job::Clock::now()));
  if (second && !job->was_raced(*second) && !would_be_cut_off(*job, *second)) {
    if (const auto call = job->hedge(slow, *second)) {
      write_hedge(job, *call);
    }
  }
}

// The row's number is taken, so it is written whatever happens; the call is made if somebody still
// waits for it.
void Calls::write_hedge(const JobPtr& job, const Call& call) {
  const bool taken = rows_.submit(
      row_of(*job, call.provider, call.row),
      [this, job, call](const Result<bool, store::StoreFault>& ours) {
        if (!ours) {
          write_hedge_later(job, call);
        } else if (*ours && job->awaits(call.step) && !job->lease_is_over(Job::Clock::now()) &&
                   !would_be_cut_off(*job, call.provider) &&
                   job->chain->admit(call.provider, job->time(Job::Clock::now()))) {
          job->hold(call.step, open(job, call));
        } else {
          call_ended(job, call, not_called("its hedge came too late"));
        }
      });
  if (!taken) {
    write_hedge_later(job, call);
  }
}

void Calls::write_hedge_later(const JobPtr& job, const Call& call) {
  scheduler_.after(store_pause(1), [this, job, call] { write_hedge(job, call); });
}

void Calls::provider_answered(
    const JobPtr& job, const Call& call, const CallFacts& facts, Late& late, Answer answer) {
  AG_CRASH_POINT("worker.answered");
  if (facts.sent) {
    store::CallRecord record = record_of(*job, call, facts, answer);
    if (!job->keep(record)) {
      late.write(std::move(record));
    }
  }
  if (!facts.sent && !answer && answer.error().fault == Fault::kCanceled) {
    answer = ProviderFault{Fault::kCanceled, store::kNotCalled, std::nullopt};
  }
  if (answer || answer.error().fault != Fault::kNotCalled) {
    if (answer || was_taken(answer.error().fault) || !call.ticket.empty()) {
      job->called = true;
    }
    job->passed_on = false;  // It has had its turn.
  }
  if (answer) {
    job->chain->answered(call.provider);
  } else {
    const Fault fault = answer.error().fault;
    const bool again = call.tries > 0 && comes_again(answer.error(), call.tries);
    job->chain->failed(call.provider, fault, job->failing(call.provider, fault, again));
  }
  const bool gone = is_gone(call, answer);
  if (gone) {
    log::info("a call that was to be resumed is gone",
              about(*job),
              {{"provider", job->chain->at(call.provider).name()}, {"why", answer.error().detail}});
  }
  // What has failed is not to be gone on with, whoever answers last. Where the job was ended from
  // outside, what has a ticket may be. Nobody waits for the ticket's end: who has the task next and
  // still finds it goes on with what has failed, and hears so once more.
  if (!answer && answer.error().fault != Fault::kCanceled &&
      (answer.error().fault != Fault::kNotCalled || gone)) {
    late.forget_ticket(job, call);
  }
  if (call_ended(job, call, std::move(answer)) == Job::Race::kOver) {
    late.forget_ticket(job, call);
  }
}

Job::Race Calls::call_ended(const JobPtr& job, const Call& call, Answer answer) {
  const Job::Race race =
      answer ? job->answered(call.step, true) : job->failed({call, answer.error()});
  switch (race) {
    case Job::Race::kOver:  // Another was faster, or it is lost.
      if (answer) {
        job->chain->at(call.provider).undelivered();
      }
      return race;
    case Job::Race::kGoesOn:
      log::warn("provider call failed, its hedge goes on",
                about(*job),
                {{"provider", job->chain->at(call.provider).name()},
                 {"call", call.row},
                 {"fault", fault_name(answer.error().fault)}});
      return race;
    case Job::Race::kEnds:
      break;
  }
  Call ended = call;
  if (answer) {
    job->provider = call.provider;
  } else {
    Job::FailedCall failed = job->end_without_audio();
    ended = std::move(failed.call);
    answer = std::move(failed.fault);
  }
  job->row = ended.row;
  if (ended.ticket.empty()) {
    job->ticket.clear();  // What it went on with had ended before.
  }
  answered_(job, std::move(answer));
  return race;
}

}  // namespace audiogen::worker
