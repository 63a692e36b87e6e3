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

// What a look reads at most. `t`: open tasks of those that are released. Only open tasks have a
// wake_at: the index holds just those, however many final ones there are.
Sql open_tasks(Instant now) {
  return Sql("(SELECT user_id, state, lane, next_run_at, created_at, held FROM tasks FORCE INDEX "
             "(k_wake) WHERE wake_at<=")
         << now + kReleasedWithin << " ORDER BY wake_at LIMIT " << kOpenLooked << ") t";
}

// `t`: the newest tasks. Ids sort by their creation.
Sql newest_tasks(Instant now) {
  return Sql("(SELECT user_id, created_at FROM tasks FORCE INDEX (PRIMARY) WHERE id>=")
         << TaskId{first_uuid_at(now - kArrivalsOf - kIdsBefore)} << " ORDER BY id DESC LIMIT "
         << kNewestLooked << ") t";
}

// `c`: users who have parked tasks.
Sql crowd_rows() {
  return Sql("(SELECT user_id, parked, held, released_max FROM balances FORCE INDEX (k_crowded) "
             "WHERE crowded=1 LIMIT ")
         << kCrowdsLooked << ") c";
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
          const Crowds crowds = count_parked(out);
          count_open(out, crowds);
          const auto arrivals_of = read_arrivals(out);
          if (crowds.by_plan) {
            read_by_plan(out, arrivals_of);
          }
          out.workers = read_workers(session_, out.at);
          read_apis(out);
          read_switches(out);
          read_audit(out);
        },
        "look");
    return out;
  });
}

void Situations::count_open(Situation& out, const Crowds& crowds) {
  Sql sql("SELECT COUNT(*), SUM(state=");
  sql << TaskState::kRunning << "), SUM(state=" << TaskState::kQueued << " AND lane<>"
      << Lane::kParked << " AND next_run_at<=" << out.at << "), SUM(state=" << TaskState::kQueued
      << " AND lane<>" << Lane::kParked << " AND next_run_at>" << out.at
      << "), MIN(IF(state=" << TaskState::kQueued << " AND lane<>" << Lane::kParked
      << " AND next_run_at<=" << out.at << ", created_at, NULL)), SUM(state=" << TaskState::kQueued
      << " AND lane<>" << Lane::kParked << " AND next_run_at>" << out.at + kLater
      << "), MIN(created_at), SUM(";
  // What crowds hold is counted with them. Mostly there is none, which saves a look-up for each
  // task.
  (crowds.any ? sql << "IF(c.user_id IS NULL, t.held, 0)" : sql << "t.held") << ") FROM ";
  sql.append(open_tasks(out.at));
  if (crowds.any) {
    (sql << " LEFT JOIN ").append(crowd_rows()) << " ON c.user_id=t.user_id";
  }
  Rows rows = session_.query(sql);
  AG_CHECK(rows.next());
  const bool all = rows.u64(1) < kOpenLooked;
  out.running = {sum(rows, 2), all};
  out.ready = {sum(rows, 3), all};
  out.waiting_retry = {sum(rows, 4), all};
  out.oldest_ready = age(rows, 5, out.at);
  out.retry_later = sum(rows, 6);
  out.oldest_hold = std::max(out.oldest_hold, age(rows, 7, out.at));
  out.credits_held = out.credits_held + (rows.is_null(8) ? Units{} : rows.units(8));
}

// Each user has them counted beside his balance, and what all of his open tasks hold.
Situations::Crowds Situations::count_parked(Situation& out) {
  Rows rows =
      session_.query(Sql("SELECT COUNT(*), SUM(parked), SUM(held), SUM(released_max<>0) FROM ")
                         .append(crowd_rows()));
  AG_CHECK(rows.next());
  out.parked = {sum(rows, 2), rows.u64(1) < kCrowdsLooked};
  out.credits_held = rows.is_null(3) ? Units{} : rows.units(3);
  const Crowds crowds{.any = rows.u64(1) > 0, .by_plan = sum(rows, 4) > 0};
  if (out.parked.value == 0) {
    return crowds;
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
  return crowds;
}

std::chrono::duration<double> Situations::read_arrivals(Situation& out) {
  Sql sql("SELECT COUNT(*), MIN(created_at), SUM(created_at>");
  (sql << out.at - kArrivalsOf << ") FROM ").append(newest_tasks(out.at));
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
  return over;
}

// Of each user for himself, as the places that his plan gives him are for his own tasks alone.
void Situations::read_by_plan(Situation& out, std::chrono::duration<double> arrivals_of) {
  Sql sql("SELECT released_max, parked+COALESCE(ready, 0), COALESCE(arrived, 0) FROM ");
  sql.append(crowd_rows()) << " LEFT JOIN (SELECT user_id, COUNT(*) AS ready FROM ";
  sql.append(open_tasks(out.at))
      << " WHERE state=" << TaskState::kQueued << " AND lane<>" << Lane::kParked
      << " AND next_run_at<=" << out.at + kLater
      << " GROUP BY user_id) r ON r.user_id=c.user_id LEFT JOIN (SELECT user_id, COUNT(*) AS "
         "arrived FROM ";
  sql.append(newest_tasks(out.at))
      << " WHERE created_at>" << out.at - kArrivalsOf
      << " GROUP BY user_id) a ON a.user_id=c.user_id WHERE released_max<>0";
  Rows rows = session_.query(sql);
  while (rows.next()) {
    out.by_plan.push_back(
        {.places = rows.u64(1),
         .waiting = rows.u64(2),
         .arrivals_per_second = static_cast<double>(rows.u64(3)) / arrivals_of.count()});
  }
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
    worker.state = worker.ended_at                                     ? State::kEnded
                   : was_seen_within(kWorkerLost, worker.seen_at, now) ? State::kWorking
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
    const bool alive = was_seen_within(kApiGone, seen_at, out.at);
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
