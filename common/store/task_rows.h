// Rows of `tasks` as transactions read and change them: what becomes of one is decided by
// common/domain/lifecycle.h, and every change is written by one of five statements.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "common/base/crypto.h"
#include "common/domain/ledger.h"
#include "common/domain/lifecycle.h"
#include "common/store/books.h"
#include "common/store/commands.h"
#include "common/store/session.h"

namespace audiogen::store {

struct TaskRecord : TaskFacts {
  UserId user;
  std::uint32_t calls = 0;
  bool call_open = false;  // The newest call has not ended.
  Trail trail{};           // Read only with Columns::kWithTrail or kWithWork.
  // Read only with Columns::kWithWork.
  std::string request{};
  Instant created_at{};
};

// What leaving a state writes. The rest of the row stays, or follows from it.
struct TaskChange : TaskMove {
  TaskId id{};
  UserId user{};
  Units held{};
  std::uint32_t calls = 0;                 // Provider calls so far; never changed by this.
  bool call_open = false;                  // The newest of them has not ended: this ends it.
  const SettleCommand* command = nullptr;  // Brings the output and the call's outcome, if any.
};
// `command` must outlive it.
TaskChange change_of(const TaskRecord& task, TaskMove move, const SettleCommand* command = nullptr);

// Characters in tasks.failure_message and the detail of a call, and in its provider.
inline constexpr std::size_t kMessageMax = 200;
inline constexpr std::size_t kProviderMax = 64;

// --- rows

// Locks those of these tasks that nobody else holds, in order. After balances, before everything
// else.
struct LockedTasks {
  Instant now;  // The database's clock when the locks were asked for. Unset without rows.
  std::unordered_map<TaskId, TaskRecord> rows;
  std::unordered_set<TaskId> held;  // There, but another transaction holds them.
  TaskRecord* find(TaskId id);
};
enum class Columns { kRules, kWithTrail, kWithWork };
// What was written before the database's clock was set back, by so much that no two clocks differ
// by it. Whoever wrote such a row by the new clock, and left its deadline, would make that look
// like one that this clock has set: so workers bring it back first. Others end tasks, or have not
// the right to change a deadline.
enum class Ahead { kLeft, kBroughtBack };
LockedTasks lock_tasks(Session& session,
                       std::vector<TaskId> ids,
                       Columns columns = Columns::kRules,
                       Ahead ahead = Ahead::kLeft);

// Of tasks that are locked and were written before the database's clock was set back: their times
// are by its clock from now on.
void bring_back(Session& session, std::span<const TaskId> tasks, Instant now);

// The columns of a TaskRecord, and reading them from column `first` on.
inline constexpr char kRecordColumns[] =
    "t.id, t.user_id, t.state, t.epoch, t.claims, t.attempts, t.held, t.worker, t.lease_until, "
    "t.next_run_at, t.deadline_at, t.wake_at, t.output_key, t.attempt_state, t.attempt_epoch, "
    "t.lost_leases, t.lane";
inline constexpr std::uint32_t kRecordColumnCount = 17;
TaskRecord read_record(const Rows& rows, std::uint32_t first);
// From the columns request_id and trace.
Trail read_trail(const Rows& rows, std::uint32_t first);

// The columns of a TaskView, and reading them from column `first` on.
inline constexpr char kViewColumns[] =
    "t.id, t.state, t.claims, t.created_at, t.updated_at, t.held, t.charged, t.output_key, "
    "t.output_format, t.duration_ms, t.failure, t.failure_message, t.output_deleted_at, t.epoch, "
    "t.next_run_at, t.attempt_epoch, t.lane, t.route";
TaskView read_view(const Rows& rows, std::uint32_t first);

// The voice that a request asks for, of a row of `tasks`; null: none, or the request is emptied, or
// cannot be read, which is an error to MySQL.
// JSON by name and not by place: texts of the client's own may look like a member.
inline constexpr char kVoiceOfRequest[] =
    "IF(LENGTH(request)=0 OR NOT JSON_VALID(CONVERT(request USING utf8mb4)), NULL, "
    "LEFT(JSON_UNQUOTE(JSON_EXTRACT(CONVERT(request USING utf8mb4), '$.voice')), 40))";

// Those of these tasks that are there, each once, and whose they are: one indexed read without
// locks.
struct OwnedView {
  UserId user;
  TaskView view;
};
std::vector<OwnedView> read_views(Session& session, std::span<const TaskId> ids);

// Books the end of the task, and of its hold. False, and logged, when its balance is not locked or
// holds less than that: then nothing is booked.
bool book_end(Books& books, const TaskRecord& task, Units charged);

// What follows is written together with what the session sends next.

// Writes the changes of locked rows. Of their calls, the one a settlement tells about ends as it
// says, any other still open with an unknown outcome: nobody is left to tell. Where nobody settles,
// calls of which nothing is written yet are written as lost.
void write_changes(Session& session, std::span<const TaskChange> changes, Instant now);

// Whether the command tells of its task's first call, and that it went well: nearly all do.
bool tells_of_first_call(const SettleCommand& command);
// Writes the ends of tasks whose rows nobody has read, each a success of its task's only provider
// call. False: one task is not as its claim left it any more, or another transaction holds its row;
// what this transaction wrote is to be rolled back.
bool write_unread_ends(Session& session, std::span<const TaskChange> changes, Instant now);

// Writes what calls were, in place of what was written of them as lost. `earned` of one that was
// delivered. `now` is the database's.
struct RecordRow {
  const CallRecord* call = nullptr;
  std::optional<Units> earned{};
};
enum class ToldBy : std::uint8_t {
  kSettlement,  // It knows what became of the calls.
  kWorker,      // Later: it replaces only what others wrote who knew nothing.
};
// Of those that waited for their turn: when they were sent is when their calls started, whose
// rows were written before. Their tasks are locked.
void write_starts(Session& session, std::span<const RecordRow> calls, Instant now);
void write_calls(Session& session, std::vector<RecordRow> calls, ToldBy told_by, Instant now);

// Sets the next look of locked rows. No lease is left that lasts longer than a new one: the clock
// may have been set back since it was given.
struct Look {
  TaskId id;
  std::optional<Instant> wake_at;
};
void write_looks(Session& session, std::span<const Look> looks, Instant now);

// Sets when locked rows of queued tasks are due, and looked at next.
struct DueAt {
  TaskId id;
  Instant at;
};
void write_due(Session& session, std::span<const DueAt> tasks, Instant now);

}  // namespace audiogen::store
