#include "common/store/situations.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/domain/task.h"
#include "common/store/commands.h"
#include "common/store/switches.h"

namespace audiogen::store {
namespace {

using std::chrono::seconds;

constexpr seconds kArrivalsOf{60}, kLater{60};
// An id is made before its row, by another clock, which may be behind for hours without anybody's
// notice. No more than kNewestLooked are read in any case.
constexpr std::chrono::hours kIdsBefore{24};

std::chrono::milliseconds age(const Rows& rows, std::uint32_t column, Instant now) {
  const auto since = rows.maybe_time(column);
  return since ? std::chrono::duration_cast<std::chrono::milliseconds>(
                     std::max(now - *since, Instant::duration::zero()))
               : std::chrono::milliseconds(0);
}

std::uint64_t sum(const Rows& rows, std::uint32_t column) {
  return rows.is_null(column) ? 0 : rows.u64(column);
}

}  // namespace

Result<Situation, Fault> Situations::look() {
  return guarded([&]() -> Result<Situation, Fault> {
    // Of the next transaction alone. On a connection that is opened in between it is lost; then the
    // numbers are of some milliseconds instead of one instant.
    session_.execute(Sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"));
    Situation out;
    session_.transact(
        [&] {
          out = {};
          out.at = session_.now();
          const bool crowded = count_parked(out);
          count_open(out, crowded);
          read_arrivals(out);
          out.workers = read_workers(session_, out.at);
          read_apis(out);
          read_switches(out);
          read_audit(out);
        },
        "look");
    return out;
  });
}

// Only open tasks have a wake_at: the index holds just those, however many final ones there are.
void Situations::count_open(Situation& out, bool crowded) {
  Sql sql("SELECT COUNT(*), SUM(state=");
  sql << TaskState::kRunning << "), SUM(state=" << TaskState::kQueued << " AND lane<>"
      << Lane::kParked << " AND next_run_at<=" << out.at << "), SUM(state=" << TaskState::kQueued
      << " AND lane<>" << Lane::kParked << " AND next_run_at>" << out.at
      << "), MIN(IF(state=" << TaskState::kQueued << " AND lane<>" << Lane::kParked
      << " AND next_run_at<=" << out.at << ", created_at, NULL)), SUM(state=" << TaskState::kQueued
      << " AND lane<>" << Lane::kParked << " AND next_run_at>" << out.at + kLater << "), SUM(";
  // What crowds hold is counted with them. Mostly there is none, which saves a look-up for each
  // task.
  (crowded ? sql << "IF(c.user_id IS NULL, held, 0)" : sql << "held")
      << "), MIN(created_at) FROM (SELECT user_id, state, lane, next_run_at, created_at, held FROM "
         "tasks FORCE INDEX (k_wake) WHERE wake_at<="
      << out.at + kReleasedWithin << " ORDER BY wake_at LIMIT " << kOpenLooked << ") t";
  if (crowded) {
    sql << " LEFT JOIN (SELECT user_id FROM balances FORCE INDEX (k_crowded) WHERE crowded=1 LIMIT "
        << kCrowdsLooked << ") c ON c.user_id=t.user_id";
  }
  Rows rows = session_.query(sql);
  AG_CHECK(rows.next());
  const bool all = rows.u64(1) < kOpenLooked;
  out.running = {sum(rows, 2), all};
  out.ready = {sum(rows, 3), all};
  out.waiting_retry = {sum(rows, 4), all};
  out.oldest_ready = age(rows, 5, out.at);
  out.retry_later = sum(rows, 6);
  out.credits_held = out.credits_held + (rows.is_null(7) ? Units{} : rows.units(7));
  out.oldest_hold = std::max(out.oldest_hold, age(rows, 8, out.at));
}

// Each user has them counted beside his balance, and what all of his open tasks hold. Whether there
// is any who has more than are released.
bool Situations::count_parked(Situation& out) {
  Sql sql(
      "SELECT COUNT(*), SUM(parked), SUM(held), SUM(IF(released_max=0, 0, parked)), "
      "SUM(LEAST(released_max, parked)) FROM (SELECT parked, held, released_max FROM balances "
      "FORCE INDEX (k_crowded) WHERE crowded=1 LIMIT ");
  Rows rows = session_.query(sql << kCrowdsLooked << ") b");
  AG_CHECK(rows.next());
  out.parked = {sum(rows, 2), rows.u64(1) < kCrowdsLooked};
  const bool crowded = rows.u64(1) > 0;
  out.credits_held = rows.is_null(3) ? Units{} : rows.units(3);
  out.parked_by_plan = sum(rows, 4);
  out.places_by_plan = sum(rows, 5);
  if (out.parked.value == 0) {
    return crowded;
  }
  // They are in the order of their deadlines, which is that of their creation. A few of the others
  // may be among them when the clock was set.
  constexpr std::uint64_t kFew = 100;
  Sql oldest("SELECT MIN(created_at) FROM (SELECT created_at, state, lane FROM tasks FORCE INDEX ");
  oldest << "(k_wake) WHERE wake_at>" << out.at + kReleasedWithin << " ORDER BY wake_at LIMIT "
         << kFew << ") o WHERE state=" << TaskState::kQueued << " AND lane=" << Lane::kParked;
  rows = session_.query(oldest);
  AG_CHECK(rows.next());
  out.oldest_parked = age(rows, 1, out.at);
  out.oldest_hold = out.oldest_parked;
  return crowded;
}

// Ids sort by their creation.
void Situations::read_arrivals(Situation& out) {
  const TaskId from{first_uuid_at(out.at - kArrivalsOf - kIdsBefore)};
  Sql sql("SELECT COUNT(*), MIN(created_at), SUM(created_at>");
  sql << out.at - kArrivalsOf
      << ") FROM (SELECT created_at FROM tasks FORCE INDEX (PRIMARY) WHERE id>=" << from
      << " ORDER BY id DESC LIMIT " << kNewestLooked << ") t";
  Rows rows = session_.query(sql);
  AG_CHECK(rows.next());
  const bool all = rows.u64(1) < kNewestLooked;
  const auto begin = rows.maybe_time(2);
  auto over = std::chrono::duration<double>(kArrivalsOf);
  if (!all && begin && out.at - *begin < kArrivalsOf) {
    constexpr std::chrono::duration<double> kLeast{0.001};
    over = std::max(std::chrono::duration<double>(out.at - *begin), kLeast);
  }
  out.arrivals_per_second = static_cast<double>(sum(rows, 3)) / over.count();
}

std::vector<Situation::Worker> read_workers(Session& session, Instant now) {
  using State = Situation::Worker::State;
  Sql sql(
      "SELECT id, host, pid, in_flight, places, status, started_at, seen_at, ended_at FROM workers "
      "ORDER BY (ended_at IS NULL) DESC, seen_at DESC LIMIT ");
  Rows rows = session.query(sql << kProcessesLooked);
  std::vector<Situation::Worker> out;
  while (rows.next()) {
    Situation::Worker worker{.id = rows.id<WorkerId>(1),
                             .host = rows.text(2),
                             .pid = rows.u32(3),
                             .started_at = rows.time(7),
                             .seen_at = rows.time(8),
                             .ended_at = rows.maybe_time(9),
                             .status = parse_worker_status(rows.text(6))};
    worker.state = worker.ended_at                      ? State::kEnded
                   : now - worker.seen_at < kWorkerLost ? State::kWorking
                                                        : State::kLost;
    if (worker.works()) {
      worker.in_flight = rows.u64(4);
      worker.places = rows.u64(5);
    }
    out.push_back(std::move(worker));
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  return out;
}

void Situations::read_apis(Situation& out) {
  Sql sql(
      "SELECT id, unsent_from, seen_at, creations, refused FROM api_processes ORDER BY seen_at "
      "DESC LIMIT ");
  Rows rows = session_.query(sql << kProcessesLooked);
  while (rows.next()) {
    const Instant seen_at = rows.time(3);
    const bool alive = out.at - seen_at < kApiGone;
    // Where none waits, it is of when it was told, but for a hint on its way to the broker, and for
    // what two clocks differ by.
    constexpr std::chrono::milliseconds kTold{2'000};
    const auto unsent =
        std::chrono::duration_cast<std::chrono::milliseconds>(seen_at - made_at(rows.uuid(2)));
    out.apis.push_back({.id = rows.id<ApiId>(1),
                        .seen_at = seen_at,
                        .alive = alive,
                        .unsent = unsent < kTold ? std::chrono::milliseconds(0) : unsent,
                        .last_minute = !alive || rows.is_null(4) ? std::nullopt
                                                                 : std::optional(CreationCount{
                                                                       rows.u64(4), rows.u64(5)})});
  }
  std::sort(
      out.apis.begin(), out.apis.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
}

void Situations::read_switches(Situation& out) {
  out.intake_paused = read_intake(session_);
  Sql sql("SELECT provider, state, ends_at FROM provider_overrides WHERE ends_at>");
  Rows rows = session_.query(sql << out.at << " ORDER BY provider LIMIT " << kProcessesLooked);
  while (rows.next()) {
    out.overrides.push_back(
        {.provider = rows.text(1), .open = rows.u32(2) == kHeldOpen, .until = rows.time(3)});
  }
}

void Situations::read_audit(Situation& out) {
  Rows rows = session_.query(Sql("SELECT name, bad, ended_at FROM audit_checks ORDER BY name"));
  while (rows.next()) {
    out.audit.push_back({.name = rows.text(1), .bad = rows.u64(2)});
    out.audited_at = out.audited_at ? std::min(*out.audited_at, rows.time(3)) : rows.time(3);
  }
}

Result<bool, Fault> Situations::leave_turn() {
  return guarded([&]() -> Result<bool, Fault> {
    // Null where there is no such lock, 0 where it is another's.
    session_.query(Sql("SELECT RELEASE_LOCK(").append(lock_name("monitors")) << ")");
    return false;
  });
}

Result<bool, Fault> Situations::take_turn() {
  return guarded([&]() -> Result<bool, Fault> {
    // A lock of the server's: it ends with its holder's connection.
    Rows rows = session_.query(
        Sql("SELECT COALESCE(IS_USED_LOCK(n)=CONNECTION_ID(), GET_LOCK(n,0), 0) FROM (SELECT ")
            .append(lock_name("monitors"))
        << " AS n) l");
    AG_CHECK(rows.next());
    return rows.i64(1) == 1;
  });
}

}  // namespace audiogen::store
