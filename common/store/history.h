// The door of a user's own history: his tasks, newest first, and all there is about one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/base/time.h"
#include "common/domain/call_failure.h"
#include "common/domain/task.h"
#include "common/store/accounts.h"
#include "common/store/door.h"

namespace audiogen::store {

struct HistoryFilter {
  std::optional<std::string> status{};      // One of kPublicStatuses.
  std::optional<Instant> created_after{};   // Then or later.
  std::optional<Instant> created_before{};  // Before, not then.
  std::optional<KeyId> key{};               // The key that asked for it.
};

struct HistoryPage {
  struct Item {
    TaskView view;
    std::string request;       // Canonical JSON; empty once deleted.
    std::optional<KeyId> key;  // That asked for it; nullopt when that is not known.
  };
  std::vector<Item> items;  // Newest first.
  // Where the next page begins; nullopt: older tasks there are none.
  std::optional<std::uint64_t> next;
};

// One call, without what is for operators alone: who was asked, and what he said.
struct CallEntry {
  enum class End {
    kNone,         // It is under way.
    kSucceeded,    // It brought the audio that was delivered.
    kFailed,       // It brought none, or none that could be kept.
    kInterrupted,  // Nobody can tell.
    kNotBegun,     // Nobody was asked.
  };
  std::uint32_t n = 0;  // 1, 2, 3 …
  End end = End::kNone;
  CallFailure why = CallFailure::kOther;  // Of kFailed.
  Instant started_at{};
  std::optional<Instant> ended_at{};
};

// All there is to tell its owner about a task.
struct TaskDetails {
  TaskView view{};
  std::string request{};  // Canonical JSON; empty once deleted.
  std::optional<KeyId> key{};
  Instant deadline_at{};
  std::optional<Instant> deleted_at{};
  std::uint32_t calls = 0;  // All there were …
  // … and the newest kCallsShown, oldest first; only the last once the others are forgotten.
  std::vector<CallEntry> timeline{};
  std::vector<LedgerEntry> ledger{};  // The hold and, once it is final, its resolution.
};
inline constexpr std::uint32_t kCallsShown = 100;

enum class Erasure {
  kErased,    // Now or before.
  kNotFound,  // There is no such task of this user.
  kNotFinal,
};

// What one page looks at, at most, and the requests in it: a page may be short while there is a
// next one.
inline constexpr std::uint64_t kHistoryRowsMax = 2'000;  // Of the ledger: some 1,000 tasks.
inline constexpr std::size_t kHistoryBytesMax = std::size_t{256} * 1024;

// See Door for threads, blocking and failures. Lists without locks: a row that others hold is in
// nobody's way.
class History : private Door {
 public:
  explicit History(Session& session) : Door(session) {}

  // Up to `limit` tasks of `user` that the filter lets pass, from `before`, the `next` of the page
  // before, or from the newest on. The user's ledger is the index of his tasks: each has its hold
  // there, in the order of creation, and its rows are numbered without gaps. So a page is one range
  // of the primary key, however many tasks there are, and a time is found by halving.
  Result<HistoryPage, Fault> list(UserId user,
                                  const HistoryFilter& filter,
                                  std::optional<std::uint64_t> before,
                                  std::size_t limit);

  // Nullopt: there is no such task of this user. Three reads by keys, or two before a second
  // call.
  Result<std::optional<TaskDetails>, Fault> details(UserId user, TaskId task);

  // Empties what a final task was asked for, says that its file is gone, and leaves a note for the
  // workers to see to that (TaskStore::deletions). All or nothing; once more does no harm. Waits
  // for nobody: kLocked when another session holds the task.
  Result<Erasure, Fault> erase(UserId user, TaskId task);

  // The same for final tasks of one user in one transaction; those that another session holds are
  // left out, and so are those that were deleted before. How many were erased.
  Result<std::size_t, Fault> erase_all(std::span<const TaskId> tasks);

 private:
  // The first of the ledger rows 1 to `last` that was not written before `at`; `last` + 1 without
  // one.
  std::uint64_t first_since(UserId user, std::uint64_t last, Instant at);
  // Inside a transaction that has locked them, and found them final and not deleted.
  void wipe(std::span<const TaskId> tasks, Instant now);
};

}  // namespace audiogen::store
