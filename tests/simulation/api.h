// An API process: creates and cancels tasks, and sends their first hints.
#pragma once

#include <cstdint>

#include "common/queue/unsent.h"
#include "tests/simulation/broker.h"
#include "tests/simulation/store.h"

namespace audiogen::simulation {

class Api : public Process {
 public:
  // `number`: unlike that of any other start of an API process.
  Api(Shared& shared, Database& database, Store& store, Broker& broker, std::size_t number);

  // `released_max`: by the user's plan.
  void create(UserId user, std::uint16_t task_number, std::uint32_t released_max);
  void cancel(TaskId task);

 private:
  void report();
  Instant wall_time() const { return kBeginning + wall(); }

  Shared& shared_;
  Database& database_;
  const std::size_t number_;
  queue::UnsentHints unsent_;
  Group<store::CreateCommand, store::CreateOutcome> creates_;
  Group<store::CancelCommand, store::Cancellation> cancels_;
  Publisher publisher_;
};

// Ids sort by the clock of whoever made them; the last bytes are a number for people.
TaskId make_task_id(Instant at, std::uint16_t number);

}  // namespace audiogen::simulation
