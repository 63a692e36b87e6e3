// The door of operators: the tasks they look at, what they end, what they did. How the queue stands
// is situations.h.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/base/time.h"
#include "common/domain/ledger.h"
#include "common/domain/task.h"
#include "common/store/door.h"
#include "common/store/task_store.h"

namespace audiogen::store {

struct TaskRow {  // For operators: everything but the prompt.
  TaskView view;
  UserId user;
  std::uint32_t epoch = 0, calls = 0;
  std::optional<WorkerId> worker;
  std::optional<Instant> lease_until, wake_at;
  Instant next_run_at, deadline_at;
  std::uint64_t output_bytes = 0;
  std::uint32_t lost_leases = 0;
  std::optional<std::string> request_id;  // Of the request that asked for it.
};
struct OldestOpen {
  Instant at;         // When it was looked.
  bool whole = true;  // False: there may be more than these.
  std::vector<TaskRow> tasks;
};
// Open tasks that are older than kStuckAfter, and what they wait for.
struct Stuck {
  Instant at;                                   // When it was looked.
  bool whole = true;                            // False: there may be more than kStuckCounted.
  std::map<std::string, std::uint64_t> causes;  // Of how many tasks, by cause_name().
  struct Task {
    TaskRow row;
    std::string cause;
  };
  std::vector<Task> tasks;  // The oldest first.
};
inline constexpr std::chrono::seconds kStuckAfter{120};
inline constexpr std::size_t kStuckCounted = 1'000;
inline constexpr std::uint64_t kRequestLooked = 20'000;
struct HeavyUser {
  UserId user;
  std::optional<std::string> mail;  // Nullopt: the account has ended.
  std::uint64_t open = 0;
  std::optional<std::uint64_t> running{};  // Nullopt: none of his was among those looked at.
};
struct CallRow {
  std::uint32_t n = 0, epoch = 0;
  std::string provider{};
  std::uint8_t state = 0;  // kCallStarted …
  std::string detail{};
  Instant started_at{};
  std::optional<Instant> ended_at{};
};
// A claim that is over, but for one whose only call went well, or that a cancellation ended.
struct ClaimRow {
  std::uint32_t epoch = 0;
  WorkerId worker{};
  Instant claimed_at{}, ended_at{};
  ClaimEndedAs ended_as = ClaimEndedAs::kSettled;
};
struct LedgerRow {
  std::uint64_t seq = 0;
  EntryKind kind = EntryKind::kHold;
  Units d_available{}, d_held{}, d_system{};
  Balance after{};
  Instant created_at{};
};
struct TaskDetail {
  TaskRow task;
  std::vector<CallRow> calls;
  std::vector<ClaimRow> claims;
  std::vector<LedgerRow> ledger;
};

// See Door for threads, blocking and failures.
class Operators : private Door {
 public:
  explicit Operators(Session& session, const ActionNote* note = nullptr) : Door(session, note) {}

  // Newest first; without `user`, of all users.
  Result<std::vector<TaskRow>, Fault> list_tasks(std::optional<UserId> user,
                                                 std::optional<TaskState> state,
                                                 std::size_t limit);
  // By its own id, by the request that asked for it, or by its user's id or mail address; newest
  // first. By a request's id that the service gave, only among the kRequestLooked tasks that were
  // created next; by one that its client gave, which tells no time, among the newest of all.
  Result<std::vector<TaskRow>, Fault> find_tasks(std::string_view what, std::size_t limit);
  // Open tasks that were created so long ago, the oldest first, and no more than `limit`. Of those
  // that are released it looks at kOpenLooked, of those that are parked at `limit`, at most:
  // beyond, there may be an older one.
  Result<OldestOpen, Fault> oldest_open(std::chrono::seconds age, std::size_t limit);
  // The oldest `limit` of them, all kStuckCounted counted.
  Result<Stuck, Fault> stuck(std::size_t limit);
  // Users with most open tasks, most first: of those that have many among the kOpenLooked that are
  // looked at, or parked ones. Of a user's running tasks those count that are looked at.
  Result<std::vector<HeavyUser>, Fault> heaviest_users(std::size_t limit);
  // Faults: kNoSuchTask.
  Result<TaskDetail, Fault> show_task(TaskId id);
  // Ends an open task by `tasks`, a store of this thread's, and returns what it reserved. Faults:
  // kNoSuchTask, kAlreadyFinal.
  Result<Done, Fault> cancel_task(TaskStore& tasks, TaskId id);

  // Newest first.
  Result<std::vector<ActionRow>, Fault> list_actions(std::size_t limit);
  // Writes the note of a call that no door has written: one that was refused or failed, or that did
  // something elsewhere. `message`: what the operator was told. Without a note nothing is to be
  // done.
  Result<Done, Fault> note_result(ActionResult result, std::string_view message);
};

}  // namespace audiogen::store
