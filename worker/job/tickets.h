// Tickets of calls under way, kept where the next worker finds them: what it is given by one, it
// does not have made, and paid, once more.
#pragma once

#include <functional>
#include <string>

#include "common/base/config.h"
#include "common/store/group_commit.h"
#include "worker/job/job.h"
#include "worker/job/scheduler.h"

namespace audiogen::worker {

class Tickets {
 public:
  using Found = std::function<void(store::TicketOutcome)>;

  Tickets(const DatabaseUrl& database, Scheduler& scheduler);
  Tickets(const Tickets&) = delete;
  Tickets& operator=(const Tickets&) = delete;

  // As long as the database is away all of these ask again, until the job is lost or its deadline
  // is over, each after what is to be kept. Thread-safe, never block.

  // Of the call whose row has the number `row`. Written also when the job is lost meanwhile: the
  // next worker may still find it. False: it is too long, or the job is lost or over already.
  bool keep(const JobPtr& job,
            std::uint32_t row,
            const std::string& provider,
            const std::string& ticket);
  // That call has failed, or was withdrawn.
  void forget(const JobPtr& job, std::uint32_t row);
  // `found` gets the newest that is kept, once, on any thread; it must not block. Nullopt, too,
  // when the job is lost.
  void find(const JobPtr& job, Found found);

  // Waits for what was asked for.
  void stop() { tickets_.stop(); }

 private:
  void ask(const JobPtr& job, store::TicketCommand command, Found found);

  Scheduler& scheduler_;
  store::GroupCommit<store::TicketCommand, store::TicketOutcome> tickets_;
};

}  // namespace audiogen::worker
