// The door to how the service stands: the one look at the queue of record, the workers and the
// API's processes that all that operators see is made of.
#pragma once

#include <cstdint>

#include "common/base/result.h"
#include "common/domain/situation.h"
#include "common/store/door.h"

namespace audiogen::store {

// What one look reads at most: open tasks of those that are released, and of the newest tasks;
// users with parked tasks; workers and processes of the API. Beyond that a count says that there
// are more, and a rate is that of the last so many. So a look costs the same however many tasks
// wait, and however many have ended.
inline constexpr std::uint64_t kOpenLooked = 5'000, kNewestLooked = 2'000, kCrowdsLooked = 10'000,
                               kProcessesLooked = 1'000;
// What is released is looked at sooner than so far ahead, with some time for its row to be written;
// what is parked at its deadline.
inline constexpr std::chrono::seconds kReleasedWithin = kLookWithin + std::chrono::seconds(20);

// For the session of who looks again and again. Its transactions only read, so one that idles holds
// nobody up; and it keeps a turn for as long as it may idle, also on MySQL, which knows but this
// limit.
inline constexpr SessionOptions kLooksPatience{.read_timeout = std::chrono::seconds(4),
                                               .statement_max = std::chrono::seconds(3),
                                               .lock_wait = std::chrono::seconds(0),
                                               .idle_in_transaction_max = std::chrono::seconds(60)};

// Those that are there, and those that are gone, for a day: kProcessesLooked at most. By their
// start. Throws DbError.
std::vector<Situation::Worker> read_workers(Session& session, Instant now);

// See Door for threads, blocking and failures.
class Situations : private Door {
 public:
  explicit Situations(Session& session) : Door(session) {}

  // All of it as of one instant, without locks: a task that others hold is in nobody's way.
  Result<Situation, Fault> look();

  // Whether it is this session's turn to tell monitors of it, so that one process alone does. Kept
  // until its connection ends, or has idled for a minute.
  Result<bool, Fault> take_turn();
  // It is nobody's then, if it was this session's. False.
  Result<bool, Fault> leave_turn();

 private:
  // Users who have parked tasks: whether there are any, and any whose plan limits them.
  struct Crowds {
    bool any = false, by_plan = false;
  };
  Crowds count_parked(Situation& out);
  void count_open(Situation& out, const Crowds& crowds);
  // Over so much time.
  std::chrono::duration<double> read_arrivals(Situation& out);
  void read_by_plan(Situation& out, std::chrono::duration<double> arrivals_of);
  void read_apis(Situation& out);
  void read_switches(Situation& out);
  void read_audit(Situation& out);
};

}  // namespace audiogen::store
