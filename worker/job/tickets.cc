#include "worker/job/tickets.h"

#include <utility>

#include "worker/job/batches.h"

namespace audiogen::worker {

using Kind = store::TicketCommand::Kind;

namespace {

// After the deadline there is nobody left to ask for it: what cannot be written is not kept on
// being tried for a task that has long ended. A job that is lost has no more to ask for, but what
// it was given is written all the same: nothing of it was withdrawn, as it was to be kept.
bool is_late(const Job& job, Kind kind) {
  return (kind != Kind::kKeep && job.is_lost()) || Job::Clock::now() >= job.deadline;
}

}  // namespace

Tickets::Tickets(const DatabaseUrl& database, Scheduler& scheduler)
    : scheduler_(scheduler),
      tickets_(database,
               {.use = "ticket", .threads = 1, .batch_max = kBatchMax, .capacity = kWaitingMax},
               [](store::TaskStore& store, std::span<const store::TicketCommand> commands) {
                 return store.tickets(commands);
               }) {}

bool Tickets::keep(const JobPtr& job,
                   std::uint32_t row,
                   const std::string& provider,
                   const std::string& ticket) {
  if (ticket.size() > store::kTicketMax || job->is_lost() || is_late(*job, Kind::kKeep)) {
    return false;
  }
  ++job->tickets_unwritten;
  ask(job,
      {.kind = Kind::kKeep,
       .task = job->claim.task,
       .n = row,
       .provider = provider,
       .ticket = ticket},
      nullptr);
  return true;
}

void Tickets::forget(const JobPtr& job, std::uint32_t row) {
  ask(job, {.kind = Kind::kForget, .task = job->claim.task, .n = row}, nullptr);
}

void Tickets::find(const JobPtr& job, Found found) {
  ask(job, {.kind = Kind::kFind, .task = job->claim.task}, std::move(found));
}

void Tickets::ask(const JobPtr& job, store::TicketCommand command, Found found) {
  const bool keeps = command.kind == Kind::kKeep;
  if (is_late(*job, command.kind)) {
    job->tickets_unwritten -= keeps ? 1 : 0;
    if (found) {
      found(std::nullopt);
    }
    return;
  }
  const auto later = [this, job, command, found] {
    scheduler_.after(store_pause(1), [this, job, command, found] { ask(job, command, found); });
  };
  const bool taken = tickets_.submit(
      command,
      [job, keeps, later, found](const Result<store::TicketOutcome, store::StoreFault>& answer) {
        if (answer && keeps) {
          --job->tickets_unwritten;
        } else if (!answer || job->tickets_unwritten > 0) {
          later();  // What was to be kept before, and is not there yet, is neither gone nor
                    // missing.
          return;
        }
        if (found) {
          found(*answer);
        }
      });
  if (!taken) {
    later();
  }
}

}  // namespace audiogen::worker
