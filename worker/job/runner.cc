#include "worker/job/runner.h"

#include <algorithm>
#include <utility>

#include "common/base/log.h"
#include "worker/job/batches.h"
#include "worker/job/next_step.h"
#include "worker/job/pause.h"

namespace audiogen::worker {
namespace {

// Until every task is given back: its call ends first.
constexpr auto kGiveBackLimit = kLeaveLimit + std::chrono::seconds(5);
constexpr auto kGiveBackEvery = std::chrono::milliseconds(500);
// References mostly come sooner. For longer no provider's slot is kept for what waits for them: it
// would be as slow as the servers of a user's choice.
constexpr auto kSlotKeptMax = std::chrono::seconds(2);

}  // namespace

JobRunner::JobRunner(const Config& config,
                     WorkerId worker,
                     const CurrentChain& chains,
                     BlobStore& blobs,
                     http::Client& client,
                     Decoder& decoder,
                     Intake::Ack ack,
                     Settling::Send send)
    : roster_(static_cast<std::size_t>(config.worker_in_flight),
              [this] {
                suspects_.look();
                intake_.go_on();
              }),
      suspects_(
          roster_,
          scheduler_,
          [this](const JobPtr& job) { begin(job); },
          [this](const JobPtr& job, std::chrono::milliseconds after) {
            endings_.give_up_uncalled(job, end_of_claim(*job, Trouble::kNoRoom, after));
          }),
      intake_(
          config.database,
          worker,
          chains,
          roster_,
          suspects_,
          scheduler_,
          [this] { return !output_.store_is_down() && !output_.decoder_is_down(); },
          std::move(ack),
          [this](const JobPtr& job) { claimed(job); }),
      records_(config.database, scheduler_),
      settling_(config.database, blobs, roster_, scheduler_, records_, std::move(send)),
      leases_(config.database, worker, roster_, scheduler_),
      output_(blobs,
              client,
              decoder,
              scheduler_,
              [this](const JobPtr& job, Result<OutputFile, OutputFault> made) {
                output_made(job, std::move(made));
              }),
      tickets_(config.database, scheduler_),
      endings_(roster_, settling_, records_, tickets_),
      calls_(config.database,
             roster_,
             scheduler_,
             tickets_,
             records_,
             [this](const JobPtr& job, Calls::Answer answer) {
               provider_answered(job, std::move(answer));
             }),
      inspectors_(std::max<std::size_t>(cores() / 2, 1), kWaitingMax),
      references_(
          decoder,
          inspectors_,
          config.url_policy == UrlPolicy::kAny ? http::Reach::kAny : http::Reach::kPublicOnly,
          reference_limits(config),
          config.url_deny) {}

// Each room finishes what it has taken, while those that come after it are still open.
JobRunner::~JobRunner() {
  intake_.close();
  scheduler_.stop();
  intake_.stop();
  inspectors_.stop();
  output_.stop();
  calls_.stop();
  tickets_.stop();
  leases_.stop();
  settling_.stop();
  records_.stop();
}

void JobRunner::claimed(const JobPtr& job) {
  if (gives_back_) {  // It was on its way when all others were given back.
    endings_.give_up(job, Trouble::kStopping, not_called());
  } else if (runs_alone(job->claim.lost_leases)) {
    suspects_.came(job);
  } else {
    begin(job);
  }
}

void JobRunner::begin(const JobPtr& job) {
  if (!job->request) {
    log::error("a stored request cannot be read", about(*job));
    endings_.give_up_uncalled(job, end_of_claim(*job, Trouble::kUnreadable));
  } else if (job->call_written && !calls_.would_be_cut_off(*job, job->provider)) {
    calls_.call(job);
  } else if (may_have_ticket(job->claim, *job->chain)) {
    look_for_ticket(job);
  } else {
    choose_provider(job);
  }
}

// Its worker before may have left a call that goes on.
void JobRunner::look_for_ticket(const JobPtr& job) {
  tickets_.find(job, [this, job](store::TicketOutcome found) {
    // The ticket of what ended is forgotten, so what is found goes on, also where another was asked
    // beside it, later; but for one that is just being forgotten, which ends as it did before.
    const auto at = found ? job->chain->find(found->provider) : std::nullopt;
    if (!at || !job->chain->at(*at).capabilities().gives_tickets) {
      choose_provider(job);
      return;
    }
    log::info("a call is resumed", about(*job), {{"provider", found->provider}, {"of", found->n}});
    job->provider = *at;
    job->ticket = std::move(found->ticket);
    call_next(job, not_called());
  });
}

void JobRunner::choose_provider(const JobPtr& job) {
  const TaskTime time = job->time(Job::Clock::now());
  // There may be some where a ticket has led nowhere.
  auto first = job->choose_unraced(&Chain::choose, job->first, time);
  first = first ? first : job->choose_unraced(&Chain::choose, 0, time);
  if (!first) {
    const Nobody nobody = job->chain->nobody(*job->request, time, job->unable, job->later);
    const bool failed = job->called && nobody.passes();
    endings_.give_up(job,
                     failed ? Trouble::kNobodyNow : nobody.trouble,
                     not_called(),
                     failed ? nobody.said : nobody.wait);
    return;
  }
  job->provider = *first;
  job->raced_from.reset();
  call_next(job, not_called());
}

// `previous`: how the call before ended.
void JobRunner::fetch_references(const JobPtr& job, const CallEnd& previous) {
  const auto step = job->begin_step();
  // Else its slot would be there for the next one as well, and the one after that.
  const auto slot = job->chain->keep_slot(job->provider);
  job->slot = slot;
  scheduler_.after(kSlotKeptMax, [kept = std::weak_ptr(slot)] {
    if (const auto still = kept.lock()) {
      still->give_back();
    }
  });
  roster_.go_out(job);
  auto call = references_.fetch(job->claim.user,
                                job->request,
                                job->chain->sends_reference_bytes(),
                                job->deadline,
                                [this, job, step, previous](Fetched fetched) {
                                  job->answered(step, true);
                                  references_fetched(job, previous, std::move(fetched));
                                });
  if (call->waits()) {
    slot->give_back();  // Behind others of its user, whose servers may dawdle.
  }
  job->hold(step, std::move(call));
}

void JobRunner::references_fetched(const JobPtr& job, const CallEnd& previous, Fetched fetched) {
  if (job->is_lost()) {
    endings_.drop(job);
  } else if (!fetched) {
    endings_.give_up_unreferenced(job, fetched.error(), previous);
  } else {
    job->references = std::move(*fetched);
    if (job->called) {
      call_next(job, previous);
    } else {
      choose_provider(job);  // It may have taken long.
    }
  }
}

void JobRunner::call_next(const JobPtr& job, const CallEnd& previous) {
  if (job->is_given_back() || calls_.would_be_cut_off(*job, job->provider)) {
    endings_.give_up(job, Trouble::kStopping, previous);
  } else if (job->ticket.empty() && needs_references(*job->request) && !job->references) {
    // What goes on by its ticket has sent them: it needs none, and they may be gone by now.
    fetch_references(job, previous);
  } else {
    // What has fetched its references, and has to wait for its provider, takes no place for that
    // either.
    if (job->chain->at(job->provider).idle() > 0 || job->chain->openings(job->provider) > 0) {
      roster_.come_in(job);
    }
    calls_.write_and_call(job, previous);
  }
}

void JobRunner::provider_answered(const JobPtr& job, Calls::Answer answer) {
  roster_.come_in(job);
  intake_.go_on();  // Its provider has room again.
  if (job->is_lost()) {
    endings_.drop(job);
  } else if (answer) {
    output_.make(job, std::move(*answer));
  } else {
    provider_failed(job, answer.error());
  }
}

void JobRunner::provider_failed(const JobPtr& job, const ProviderFault& fault) {
  if (!std::exchange(job->ticket, {}).empty() && fault.fault == Fault::kNotCalled) {
    // Its ticket leads nowhere, which tells nothing of its provider: as if there had been none.
    job->tries = 0;
    choose_provider(job);
    return;
  }
  job->note(job->provider, fault);
  log::warn("provider call failed",
            about(*job),
            {{"provider", job->chain->at(job->provider).name()},
             {"call", job->row},
             {"fault", fault_name(fault.fault)},
             {"detail", fault.detail}});
  const CallEnd call = end_of(fault);
  const Next next = after_fault(*job, fault);
  switch (next.step) {
    case NextStep::kNextProvider:
      job->provider = next.provider;
      job->raced_from.reset();
      job->tries = 0;
      call_next(job, call);
      break;
    case NextStep::kSameProvider:
      pause(
          scheduler_,
          job,
          next.wait,
          [this, job, call, slot = job->chain->keep_slot(job->provider)] { call_next(job, call); });
      break;
    case NextStep::kRetryLater:
    case NextStep::kFail:
    case NextStep::kGiveBack:
      endings_.give_up(job, next.trouble, call, next.wait);
      break;
  }
}

void JobRunner::output_made(const JobPtr& job, Result<OutputFile, OutputFault> made) {
  if (made) {
    endings_.succeed(job, std::move(*made));
    return;
  }
  const OutputFault& fault = made.error();
  job->chain->at(job->provider).undelivered();
  if (!fault.of_provider) {
    endings_.give_up_undelivered(job, fault);
    return;
  }
  if (job->chain->at(job->provider).capabilities().gives_tickets) {
    tickets_.forget(job, job->row);
  }
  provider_failed(job, *fault.of_provider);
}

void JobRunner::drain(std::chrono::milliseconds limit) {
  close(limit);
  suspects_.stop();
  if (roster_.wait_empty(limit)) {
    return;
  }
  gives_back_ = true;
  log::info("giving tasks back", {{"count", roster_.size()}});
  const auto until = Job::Clock::now() + kGiveBackLimit;
  do {
    // Again and again: a step that was between two calls may have begun one.
    for (const JobPtr& job : roster_.all()) {
      job->give_back();
    }
    output_.end_what_is_over();
  } while (!roster_.wait_empty(kGiveBackEvery) && Job::Clock::now() < until);
  if (roster_.size() > 0) {
    // What a disk that stands still has in hand cannot be given back. No lease is renewed any more:
    // somebody else has it when the last one is over, not when this process is at last killed.
    scheduler_.stop();
  }
}

}  // namespace audiogen::worker
