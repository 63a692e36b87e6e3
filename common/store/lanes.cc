#include "common/store/lanes.h"

#include <algorithm>
#include <map>

#include "common/domain/lifecycle.h"
#include "common/domain/shares.h"
#include "common/store/task_rows.h"

namespace audiogen::store {
namespace {

// Of one user, of all, and users, in one transaction: it is to be short.
constexpr std::uint32_t kReleasedAtOnce = 200, kReleasedTogether = 400;
constexpr std::size_t kUsersAtOnce = 64;

// A hold of the ledger, and what has become of its task.
struct Held {
  std::uint64_t seq = 0;
  TaskId task;
  bool parked = false;
};

// The oldest holds of each user that are not known to be before all parked ones, in order: found
// by the ledger's primary key, where a user's holds stand in the order of their creation.
std::map<UserId, std::vector<Held>> oldest_holds(Session& session,
                                                 const std::map<UserId, std::uint32_t>& wanted,
                                                 std::uint32_t beyond,
                                                 Books& books) {
  Sql sql("");
  bool any = false;
  for (const auto& [user, count] : wanted) {
    if (any) {
      sql << " UNION ALL ";
    }
    sql << "SELECT l.user_id, l.seq, t.id, t.state, t.lane FROM (SELECT user_id, seq, source_id "
           "FROM ledger FORCE INDEX (PRIMARY) WHERE user_id="
        << user << " AND seq>" << books.open_tasks(user)->parked_after
        << " AND kind=" << EntryKind::kHold << " ORDER BY seq LIMIT " << count + beyond
        << ") l STRAIGHT_JOIN tasks t FORCE INDEX (PRIMARY) ON t.id=l.source_id";
    any = true;
  }
  std::map<UserId, std::vector<Held>> out;
  Rows rows = session.query(sql);
  while (rows.next()) {
    out[rows.id<UserId>(1)].push_back(
        {.seq = rows.u64(2),
         .task = rows.id<TaskId>(3),
         .parked = static_cast<TaskState>(rows.u32(4)) == TaskState::kQueued &&
                   static_cast<Lane>(rows.u32(5)) == Lane::kParked});
  }
  for (auto& [user, holds] : out) {
    std::sort(
        holds.begin(), holds.end(), [](const Held& a, const Held& b) { return a.seq < b.seq; });
  }
  return out;
}

}  // namespace

Released release_next(Session& session,
                      Books& books,
                      std::span<const UserId> users,
                      Instant now,
                      std::uint32_t beyond) {
  Released out;
  std::map<UserId, std::uint32_t> wanted;
  std::uint32_t together = 0;
  for (const UserId user : users) {
    const OpenTasks* const open = books.open_tasks(user);
    const std::uint32_t count =
        open == nullptr ? 0 : std::min(may_release(*open, books.window().size), kReleasedAtOnce);
    if (count == 0 || wanted.contains(user)) {
      continue;
    }
    if (wanted.size() == kUsersAtOnce || (together > 0 && together + count > kReleasedTogether)) {
      out.left.push_back(user);
      continue;
    }
    wanted[user] = count;
    together += count;
  }
  if (wanted.empty()) {
    return {};
  }
  const auto found = oldest_holds(session, wanted, beyond, books);
  std::vector<TaskId> ids;
  for (const auto& [user, holds] : found) {
    std::uint32_t count = 0;
    for (const Held& held : holds) {
      if (held.parked && count++ < wanted.at(user)) {
        ids.push_back(held.task);
      }
    }
  }
  // What is parked leaves that state under its user's balance alone; its row may be held all the
  // same, by an operator's session.
  LockedTasks locked;
  if (!ids.empty()) {
    locked = lock_tasks(session, ids, Columns::kRules, Ahead::kBroughtBack);
  }
  for (const auto& [user, holds] : found) {
    OpenTasks& open = *books.open_tasks(user);
    std::uint32_t count = 0;
    std::uint64_t seq = open.parked_after;
    bool in_use = false;
    for (const Held& held : holds) {
      if (held.parked) {
        const TaskRecord* const task = count < wanted.at(user) ? locked.find(held.task) : nullptr;
        if (task == nullptr) {
          in_use = true;
          break;
        }
        out.hints.push_back({.task = task->id, .epoch = task->epoch + 1, .lane = Lane::kBulk});
        ++count;
      }
      seq = held.seq;
    }
    release_tasks(open, count, seq);
    books.touch(user);
    if (!in_use && count < wanted.at(user) && holds.size() >= wanted.at(user) + beyond) {
      out.further.push_back(user);
    }
  }
  if (!out.hints.empty()) {
    // A new epoch, so that nobody takes it for a new task whose first hint was confirmed.
    Sql sql("UPDATE tasks FORCE INDEX (PRIMARY) SET lane=");
    sql << Lane::kBulk << ", epoch=epoch+1, next_run_at=" << now << ", wake_at=LEAST(deadline_at,"
        << now + kFirstLook << "), updated_at=" << now << " WHERE id IN (";
    list(sql, out.hints, [&](const Hint& hint) { sql << hint.task; }) << ")";
    session.later(sql);
  }
  return out;
}

}  // namespace audiogen::store
