#include "worker/job/tickets.h"

#include <utility>

#include "worker/job/batches.h"

namespace audiogen::worker {

using Kind = store::TicketCommand::Kind;

Tickets::Tickets(const DatabaseUrl& database, Scheduler& scheduler)
    : scheduler_(scheduler),
      tickets_(database,
               {.use = "ticket", .threads = 1, .batch_max = kBatchMax, .capacity = kWaitingMax},
               [](store::TaskStore& store, std::span<const store::TicketCommand> commands) {
                 return store.tickets(commands);
               }) {}

void Tickets::keep(const JobPtr& job,
                   std::uint32_t row,
                   const std::string& provider,
                   const std::string& ticket) {
  if (ticket.size() <= store::kTicketMax) {
    ask(job,
        {.kind = Kind::kKeep,
         .task = job->claim.task,
         .n = row,
         .provider = provider,
         .ticket = ticket},
        nullptr);
  }
}

void Tickets::forget(const JobPtr& job, std::uint32_t row) {
  ask(job, {.kind = Kind::kForget, .task = job->claim.task, .n = row}, nullptr);
}

void Tickets::find(const JobPtr& job, Found found) {
  ask(job, {.kind = Kind::kFind, .task = job->claim.task}, std::move(found));
}

void Tickets::ask(const JobPtr& job, store::TicketCommand command, Found found) {
  // After the deadline there is nobody left to ask for it: what cannot be written is not kept on
  // being tried for a task that has long ended.
  if (job->is_lost() || Job::Clock::now() >= job->deadline) {
    if (found) {
      found(std::nullopt);
    }
    return;
  }
  const auto later = [this, job, command, found] {
    scheduler_.after(store_pause(1), [this, job, command, found] { ask(job, command, found); });
  };
  const bool taken = tickets_.submit(
      command, [later, found](const Result<store::TicketOutcome, store::StoreFault>& answer) {
        if (!answer) {
          later();
        } else if (found) {
          found(*answer);
        }
      });
  if (!taken) {
    later();
  }
}

}  // namespace audiogen::worker
