#include "common/store/queue_figures.h"

#include <algorithm>
#include <optional>

#include "common/base/check.h"
#include "common/store/commands.h"
#include "common/store/situations.h"

namespace audiogen::store {
namespace {

// Only open tasks have a wake_at: the index holds just those, however many final ones there are.
// Nor does it count the many that may be parked, until shortly before their deadlines: what is
// released is looked at sooner.
Sql open_tasks(std::uint64_t most) {
  Sql sql("(SELECT id FROM tasks FORCE INDEX (k_wake) WHERE wake_at<=UTC_TIMESTAMP(6) + INTERVAL ");
  sql << kReleasedWithin.count() << " SECOND LIMIT " << most << ") o";
  return sql;
}

}  // namespace

Result<QueueSample, Fault> QueueFigures::sample() {
  return guarded([&]() -> Result<QueueSample, Fault> {
    Rows rows = session_.query(
        Sql("SELECT UTC_TIMESTAMP(6), COUNT(*) FROM ").append(open_tasks(kOpenSeen + 1)));
    AG_CHECK(rows.next());
    QueueSample out;
    out.at = rows.time(1);
    out.whole = rows.u64(2) <= kOpenSeen;
    std::optional<TaskId> below;
    if (out.whole) {
      Sql waiting = Sql("SELECT t.id, t.next_run_at, t.lane FROM ").append(open_tasks(kOpenSeen));
      rows = session_.query(waiting << " STRAIGHT_JOIN tasks t FORCE INDEX (PRIMARY) ON t.id=o.id "
                                       "WHERE t.state="
                                    << TaskState::kQueued << " AND t.lane<>" << Lane::kParked
                                    << " AND t.next_run_at<=" << out.at);
      while (rows.next()) {
        out.waiting.push_back({.due = rows.time(2),
                               .id = rows.id<TaskId>(1),
                               .lane = static_cast<Lane>(rows.u32(3))});
      }
      std::sort(out.waiting.begin(), out.waiting.end());
      // With many waiting, all of the newest do: those that have begun are before them. A few that
      // wait for longer than the others are not what to go by.
      if (out.waiting.size() > kStartsSeen / 2) {
        below = out.waiting[out.waiting.size() / 10].id;
      }
    }
    // Their ids are in the order of their creation.
    Sql starts("SELECT created_at, attempt_started_at, IF(state=");
    starts << TaskState::kSucceeded << ", updated_at, NULL), attempts=1 AND claims=1 FROM tasks "
           << "FORCE INDEX (PRIMARY)";
    if (below) {
      starts << " WHERE id<" << *below;
    }
    rows = session_.query(starts << " ORDER BY id DESC LIMIT " << kStartsSeen);
    while (rows.next()) {
      if (rows.u64(4) != 0) {
        out.starts.push_back(
            {.created = rows.time(1), .began = rows.time(2), .done = rows.maybe_time(3)});
      }
    }
    return out;
  });
}

}  // namespace audiogen::store
