// A million tasks that wait, and what everybody else feels of them.
#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "common/store/queue_figures.h"
#include "common/store/session.h"
#include "tests/bench/drivers.h"
#include "tests/bench/requests.h"
#include "tests/support/http_client.h"
#include "tests/support/test_broker.h"

namespace audiogen::bench {
namespace {

using store::Rows;
using store::Session;
using store::Sql;

constexpr store::SessionOptions kPatient{
    .read_timeout = std::chrono::hours(1),
    .statement_max = std::chrono::seconds(0),
    .idle_in_transaction_max = std::chrono::hours(1),
    .reconnects = false,
};
constexpr int kPlaces = 20;
constexpr int kCallMs = 1000;

// How the tasks that wait are spread over users.
struct Shape {
  const char* name;
  std::int64_t tasks_of_a_user;  // 0: of eight users in all.
  bool parked;
};
constexpr Shape kFewUsers{.name = "of eight users", .tasks_of_a_user = 0, .parked = true};
constexpr Shape kManyUsers{
    .name = "of very many users", .tasks_of_a_user = kExpressMax, .parked = false};

// Waiting tasks made inside the database, as creations leave them: some minutes old, their first
// hints confirmed (the caller sends them).
class Backlog {
 public:
  Backlog(Stand& stand, const Shape& shape, std::int64_t size)
      : session_(stand.database(), kPatient),
        shape_(shape),
        users_(shape.tasks_of_a_user == 0 ? 8 : size / shape.tasks_of_a_user),
        each_(size / users_) {
    constexpr std::int64_t kChunk = 50'000;
    session_.execute(Sql("SET @began=UTC_TIMESTAMP(6) - INTERVAL 300 SECOND"));
    for (std::int64_t from = 0; from < users_; from += kChunk) {
      add_users(from, std::min(kChunk, users_ - from));
    }
    for (std::int64_t from = 0; from < this->size(); from += kChunk) {
      add_tasks(from, std::min(kChunk, this->size() - from));
    }
    session_.execute(Sql("FLUSH TABLES tasks, ledger FOR EXPORT"));
    session_.execute(Sql("UNLOCK TABLES"));
  }

  std::int64_t size() const { return users_ * each_; }

 private:
  static std::string user(const std::string& n) {
    return "UNHEX(CONCAT('0190', LPAD(HEX(" + n + "), 28, '0')))";
  }

  void add_users(std::int64_t from, std::int64_t count) {
    const std::string hold = std::to_string(kHoldAmount.value), each = std::to_string(each_);
    const std::string granted = std::to_string(kGranted.value), id = user("n");
    const std::string these = " FROM " + numbers(from, count) + " ORDER BY n";
    session_.execute(
        Sql::trusted("INSERT INTO users (id, email, plan, purchased, created_at) SELECT " + id +
                     ", CONCAT('waits', n, '@example.com'), 1, 1, @began" + these));
    session_.execute(Sql::trusted(
        "INSERT INTO grants (id, reference, user_id, kind, amount, created_at) SELECT " + id +
        ", CONCAT('waits-', n)," + id + ",1," + granted + ",@began" + these));
    session_.execute(Sql::trusted(
        "INSERT INTO ledger (user_id, seq, kind, source_id, d_available, d_held, d_system, "
        "available_after, held_after, created_at) SELECT " +
        id + ",1,3," + id + "," + granted + ",0,-" + granted + "," + granted + ",0,@began" +
        these));
    const std::string released = shape_.parked ? "0" : each, parked = shape_.parked ? each : "0";
    session_.execute(Sql::trusted(
        "INSERT INTO balances (user_id, available, held, seq, released, parked, parked_after, "
        "released_max, crowded) SELECT " +
        id + "," + granted + "-" + hold + "*" + each + "," + hold + "*" + each + "," + each +
        "+1," + released + "," + parked + ",1,0," + (shape_.parked ? "1" : "0") + these));
    // As it is when the roll-up has come to the end: it is not what is measured.
    session_.execute(Sql::trusted("INSERT INTO usage_marks (user_id, seq) SELECT " + id + "," +
                                  each + "+1" + these));
  }

  // Users take turns, so that neighbours in the queue are tasks of different ones.
  void add_tasks(std::int64_t from, std::int64_t count) {
    const std::string users = std::to_string(users_), hold = std::to_string(kHoldAmount.value);
    const std::string granted = std::to_string(kGranted.value);
    const std::string owner = user("n MOD " + users), place = "(n DIV " + users + ")";
    // A UUIDv7: 10,000 a second since @began.
    const std::string id =
        "UNHEX(CONCAT(LPAD(HEX(FLOOR(UNIX_TIMESTAMP(@began)*1000)+n DIV 10), 12, '0'), '70008', "
        "LPAD(HEX(n), 15, '0')))";
    const std::string created = "@began + INTERVAL n*100 MICROSECOND";
    const std::string deadline = "@began + INTERVAL 10 HOUR";
    const std::string wake = shape_.parked ? deadline : created + " + INTERVAL 15 SECOND";
    const std::string these = " FROM " + numbers(from, count);
    session_.execute(Sql("SET time_zone='+00:00'"));
    session_.execute(Sql::trusted(
        "INSERT INTO tasks (id, user_id, state, request, output_format, held, next_run_at, "
        "deadline_at, wake_at, created_at, updated_at, lane) SELECT " +
        id + "," + owner + ",1," + Sql().bytes(usual_request()).text() + ",2," + hold + "," +
        created + "," + deadline + "," + wake + "," + created + "," + created + "," +
        (shape_.parked ? "2" : "1") + these + " ORDER BY n"));
    session_.execute(Sql::trusted(
        "INSERT INTO ledger (user_id, seq, kind, source_id, d_available, d_held, d_system, "
        "available_after, held_after, created_at) SELECT " +
        owner + "," + place + "+2,1," + id + ",-" + hold + "," + hold + ",0," + granted + "-" +
        hold + "*(" + place + "+1)," + hold + "*(" + place + "+1)," + created + these +
        " ORDER BY 1, 2"));
    session_.execute(Sql::trusted(
        "INSERT INTO usage_hours (user_id, starts_at, key_id, voice, generations, succeeded, "
        "failed, canceled, audio_ms, charged) SELECT " +
        owner + " AS u, CAST(DATE_FORMAT(" + created +
        ", '%Y-%m-%d %H:00:00') AS DATETIME) AS h, REPEAT(CHAR(0), 16), '', COUNT(*), 0, 0, 0, 0, "
        "0" +
        these +
        " GROUP BY u, h ON DUPLICATE KEY UPDATE generations=generations+VALUES(generations)"));
  }

  Session session_;
  const Shape shape_;
  const std::int64_t users_, each_;
};

// While it lives, the programs of a stand stand still.
class Frozen {
 public:
  explicit Frozen(const Stand& stand) {
    for (const auto& [part, pids] : stand.processes()) {
      if (part == "api" || part == "workers") {
        pids_.insert(pids_.end(), pids.begin(), pids.end());
      }
    }
    all(SIGSTOP);
  }
  explicit Frozen(const Provider& provider) : pids_{provider.pid()} { all(SIGSTOP); }
  ~Frozen() { all(SIGCONT); }
  Frozen(const Frozen&) = delete;
  Frozen& operator=(const Frozen&) = delete;

 private:
  void all(int signal) const {
    for (const pid_t pid : pids_) {
      ::kill(pid, signal);
    }
  }
  std::vector<pid_t> pids_;
};

void wait_until_full(Stand& stand) {
  const bool full = test::eventually(std::chrono::minutes(2), [&] {
    test::pace(std::chrono::milliseconds(50));
    return stand.running() >= kPlaces;
  });
  if (!full) {
    fail("the worker's places are not taken");
  }
}

// Half of a stand's users make creations as fast as they can, so what they ask for is parked; the
// others have little under way.
std::span<const std::string> busy_keys(const Stand& stand) {
  return std::span(stand.keys()).first(stand.keys().size() / 2);
}
std::span<const UserId> quiet_users(const Stand& stand) {
  return std::span(stand.users()).last(stand.users().size() / 2);
}

// By others, as fast as the answers come; beside the backlog and beside none, in turn.
void creations(Context& context, Stand& stand, Stand& empty, const std::string& beside) {
  constexpr int kRounds = 3;
  std::array<double, 2> rates{};
  std::array<Histogram, 2> latencies;
  const std::array<Stand*, 2> stands = {&empty, &stand};
  std::array<Rounds, 2> loads = {creates_of(busy_keys(empty)), creates_of(busy_keys(stand))};
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < stands.size(); ++i) {
      const Frozen other(*stands[1 - i]);
      const LoadResult result = run_load({.port = stands[i]->api_port(),
                                          .connections = kConnections,
                                          .seconds = context.seconds,
                                          .warm_up = context.seconds / 5},
                                         loads[i]);
      rates[i] += result.good_per_second() / kRounds;
      latencies[i].add(result.all().latency);
    }
  }
  context.report.line(
      {.name = "create, nothing waits", .per_second = rates[0], .latency = &latencies[0]});
  context.report.line({.name = "create, " + beside,
                       .per_second = rates[1],
                       .latency = &latencies[1],
                       .ceiling = rates[0]});
  context.report.goal({.what = "creations, " + beside + ", of an empty queue's",
                       .figure = rates[1] / rates[0],
                       .target = 0.9,
                       .unit = "",
                       .digits = 2});
}

// What is written and sent while nothing happens but that they wait: the calls take for ever.
void waiting(Context& context,
             Stand& stand,
             const Provider& provider,
             std::int64_t size,
             const std::string& beside) {
  const double lasts = context.smoke ? 2 : 45;  // A call is given up after 60 s.
  Session session(stand.database());
  const auto status = [&](const std::string& name) {
    Rows rows = session.query(Sql::trusted("SHOW GLOBAL STATUS LIKE '" + name + "'"));
    return rows.next() ? std::stod(rows.text(2)) : 0;
  };
  const Frozen calls(provider);
  test::pace(std::chrono::seconds(1));  // What was under way.
  const auto seen = [&] {
    return std::array{status("Handler_update"),
                      status("Innodb_os_log_written"),
                      metric(stand.stack().worker_ops_url(0), "audiogen_hints_published_total")};
  };
  const Usage before_usage = stand.usage();
  const auto before = seen();
  const auto began = Clock::now();
  test::pace(std::chrono::milliseconds(static_cast<int>(lasts * 1000)));
  const double took = since(began);
  const auto after = seen();
  const Usage usage = stand.usage();
  const double rows = (after[0] - before[0]) / took, log = (after[1] - before[1]) / took;
  const double hints = after[2] - before[2];
  const auto percent = [&](const std::string& part) {
    const auto was = before_usage.find(part);
    return fixed(100 * (usage.at(part) - (was == before_usage.end() ? 0 : was->second)) / took, 1);
  };
  context.report.line({.name = beside + ", for " + fixed(took, 0) + " s",
                       .note = fixed(rows, 1) + " rows updated/s, " + fixed(log / 1000, 1) +
                               " KB of log/s, " + fixed(hints, 0) + " hints sent, " +
                               percent("database") + " % of a core in the database, " +
                               percent("workers") + " % in the worker"});
  context.report.goal({.what = "rows written a second while nothing but waiting happens, " + beside,
                       .figure = rows,
                       .target = 20,
                       .unit = "",
                       .at_most = true,
                       .digits = 1});
  context.report.goal({.what = "hints sent again in that time, for each task, " + beside,
                       .figure = hints / static_cast<double>(size),
                       .target = 0.01,
                       .unit = "",
                       .at_most = true,
                       .digits = 3});
}

// Pages of operators that are open, beside none: each asks once a second. There is no worker yet,
// so what they cost is all the difference.
void viewers(Context& context, Stand& stand, const std::string& beside) {
  constexpr int kViewers = 10;
  const int seconds = static_cast<int>(context.scaled(60, 2));
  const auto percent = [&](int pages) {
    const Usage before = stand.usage();
    const auto began = Clock::now();
    for (int second = 0; second < seconds; ++second) {
      for (int page = 0; page < kViewers; ++page) {
        if (page < pages && test::http("GET", stand.stack().ops_url() + "/ops/now").status != 200) {
          fail("/ops/now does not answer");
        }
        std::this_thread::sleep_until(began + std::chrono::seconds(second) +
                                      std::chrono::milliseconds(100) * (page + 1));
      }
    }
    const double took = since(began);
    Usage after = stand.usage();
    std::map<std::string, double> out;
    for (const auto& [part, used] : after) {
      const auto was = before.find(part);
      out[part] = 100 * (used - (was == before.end() ? 0 : was->second)) / took;
    }
    return out;
  };
  auto without = percent(0);
  test::http("GET", stand.stack().ops_url() + "/ops/now");  // The first one, after a rest.
  auto with = percent(kViewers);
  const double api = with["api"] - without["api"];
  const double database = with["database"] - without["database"];
  context.report.line({.name = std::to_string(kViewers) + " viewers of /ops, " + beside,
                       .note = fixed(api, 2) + " % of a core in the API, " + fixed(database, 2) +
                               " % in the database, beyond " + fixed(without["api"], 2) +
                               " % and " + fixed(without["database"], 2) + " % without them"});
  context.report.goal({.what = "ten viewers of /ops, " + beside + ", of a core",
                       .figure = api + database,
                       .target = 1,
                       .unit = "%",
                       .at_most = true,
                       .digits = 2});
}

// Tasks that were tried once, due one after the other: how long each is before somebody has it.
void retries(Context& context, Stand& stand, const std::string& beside) {
  constexpr auto kGivenUp = std::chrono::seconds(120);
  const std::size_t count = context.scaled(200, 10);
  stand.stack().worker(0).signal(SIGSTOP);  // Or it has some before they are retries.
  const std::vector<TaskId> tasks = stand.fill(count, quiet_users(stand));
  Session session(stand.database());
  Sql these("");
  list(these, tasks, [&](TaskId id) { these << id; });
  session.execute(Sql("SET @due=UTC_TIMESTAMP(6) + INTERVAL 2 SECOND, @n=0"));
  const std::uint64_t changed = session.execute(
      Sql("UPDATE tasks SET epoch=2, claims=1, attempts=1, attempt_provider='double', "
          "attempt_epoch=1, attempt_state=3, attempt_started_at=created_at, "
          "attempt_ended_at=created_at, next_run_at=@due + INTERVAL (@n:=@n+1)*100000 "
          "MICROSECOND, wake_at=next_run_at WHERE state=1 AND epoch=0 AND id IN (")
          .append(these)
      << ")");
  session.execute(Sql("CREATE TABLE due_retries AS SELECT id, next_run_at AS due FROM tasks WHERE "
                      "id IN (")
                      .append(these)
                  << ")");
  stand.stack().worker(0).signal(SIGCONT);
  if (changed != count) {
    fail(std::to_string(count - changed) + " tasks were claimed before they were retries");
  }
  Sql left("SELECT COUNT(*) FROM tasks WHERE attempts=1 AND id IN (");
  left.append(these) << ")";
  static_cast<void>(test::eventually(
      kGivenUp + std::chrono::seconds(2) + count * std::chrono::milliseconds(100), [&] {
        test::pace(std::chrono::milliseconds(100));
        return number(session, left) == 0;
      }));
  const std::int64_t unclaimed = number(session, left);
  Histogram waits;
  std::chrono::microseconds longest{0};
  std::int64_t failed = 0;
  // next_run_at is of the newest retry: of those whose call has failed once more a later one.
  Rows rows = session.query(
      Sql("SELECT TIMESTAMPDIFF(MICROSECOND, d.due, IF(t.attempts=1, UTC_TIMESTAMP(6), "
          "COALESCE(p.started_at, t.attempt_started_at))), t.attempts>2 FROM tasks t JOIN "
          "due_retries d ON d.id=t.id LEFT JOIN past_attempts p ON p.task_id=t.id AND p.n=2"));
  while (rows.next()) {
    const std::chrono::microseconds wait(std::max<std::int64_t>(rows.i64(1), 0));
    waits.record(wait);
    longest = std::max(longest, wait);
    failed += rows.i64(2);
  }
  session.execute(Sql("DROP TABLE due_retries"));
  context.report.line(
      {.name = "due retries, " + beside,
       .latency = &waits,
       .note = "from due to claim; " + fixed(std::chrono::duration<double>(longest).count(), 2) +
               " s at the longest, " + std::to_string(unclaimed) + " not claimed in the end, " +
               std::to_string(failed) + " tried more than once"});
  context.report.goal({.what = "a due retry is claimed, " + beside + ", at the longest",
                       .figure = std::chrono::duration<double>(longest).count(),
                       .target = 2,
                       .unit = "s",
                       .at_most = true,
                       .digits = 2});
}

// What looks at the queue all the time, as a program has it.
struct Looker {
  explicit Looker(Stand& stand)
      : sweeper(stand.database()),
        puller(stand.database()),
        session(stand.database()),
        figures(session) {}
  store::TaskStore sweeper, puller;
  Session session;
  store::QueueFigures figures;
};

void looks(Context& context, Looker& looker, const std::string& beside) {
  const std::size_t rounds = context.scaled(50, 3);
  using Look = std::pair<const char*, std::function<bool()>>;
  const std::array kinds = {
      Look{"sweep", [&] { return bool(looker.sweeper.sweep(200, false)); }},
      Look{"release", [&] { return bool(looker.sweeper.look_after_crowds(500)); }},
      Look{"pull", [&] { return bool(looker.puller.ready(kPlaces, std::chrono::seconds(1))); }},
      Look{"figures", [&] { return bool(looker.figures.sample()); }}};
  std::array<Histogram, kinds.size()> times;
  for (std::size_t round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      const auto began = Clock::now();
      if (!kinds[i].second()) {
        fail(std::string("a look failed: ") + kinds[i].first);
      }
      times[i].record(Clock::now() - began);
    }
    test::pace(std::chrono::milliseconds(100));
  }
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    context.report.line({.name = std::string(kinds[i].first) + ", " + beside,
                         .latency = &times[i],
                         .note = "one look"});
    context.report.goal(
        {.what = std::string("a look (") + kinds[i].first + "), " + beside + ", p99",
         .figure = times[i].quantile(0.99),
         .target = 50,
         .unit = "ms",
         .at_most = true,
         .digits = 1});
  }
}

// Tasks that come and go; how many.
std::size_t churn(Context& context, Stand& stand) {
  const std::size_t at_once = context.scaled(64, 8);
  const double lasts = context.seconds * 12;
  store::TaskStore store(stand.database());
  const WorkerId worker = WorkerId::make();
  std::size_t ended = 0;
  for (const auto began = Clock::now(); since(began) < lasts; ended += at_once) {
    const std::vector<TaskId> tasks = stand.fill(at_once, quiet_users(stand));
    settle_all(store, claim_all(store, tasks, worker));
  }
  return ended;
}

void backlog(Context& context, const Shape& shape) {
  const auto size =
      static_cast<std::int64_t>(context.smoke ? 400 : static_cast<std::size_t>(context.backlog));
  const std::string beside = "beside " + std::to_string(size) + " " + shape.name;
  auto broker = std::make_unique<test::PrivateBroker>();
  auto empty = std::make_unique<Stand>(Stand::Options{.api = true,
                                                      .users = context.scaled(512, 32),
                                                      .environment = {},
                                                      .amqp_url = test::text_of(broker->url())});
  Stand stand({.api = true, .users = context.scaled(512, 32), .environment = {}});
  const Provider provider(stand.stack().log_folder(), kCallMs);
  const std::map<std::string, std::string> worker = {{"PROVIDERS_FILE", provider.file()},
                                                     {"WORKER_IN_FLIGHT", std::to_string(kPlaces)}};
  const auto began = Clock::now();
  const Backlog made(stand, shape, size);
  const double filled = since(began);
  stand.publish_released();
  context.report.line({.name = std::to_string(made.size()) + " wait, " + shape.name,
                       .note = "made in " + fixed(filled, 0) + " s, hinted in " +
                               fixed(since(began) - filled, 0) + " s"});
  viewers(context, stand, beside);
  // Before there is a worker: from its pace it is known that what is made now would be too late,
  // and it is refused.
  creations(context, stand, *empty, beside);
  empty.reset();
  broker.reset();
  stand.add_worker(worker);
  wait_until_full(stand);
  waiting(context, stand, provider, made.size(), beside);
  retries(context, stand, beside);
  Looker looker(stand);
  looks(context, looker, beside);
  {
    Session old(stand.database(), kPatient);
    old.execute(Sql("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ"));
    old.execute(Sql("START TRANSACTION WITH CONSISTENT SNAPSHOT"));
    const std::size_t ended = churn(context, stand);
    const std::string behind = std::to_string(ended) + " ends behind an open snapshot, ";
    looks(context, looker, behind + beside);
    Looker fresh(stand);
    looks(context, fresh, "of a program that has just started, " + behind + beside);
    old.execute(Sql("COMMIT"));
  }
  const auto audited = Clock::now();
  stand.audit();
  context.report.line({.name = "… audited in " + fixed(since(audited), 1) + " s"});
}

}  // namespace

void bench_backlog(Context& context) {
  context.report.table(
      "Tasks that wait, a million of them. What ten open pages of operators cost; "
      "creations by others, as a closed loop of 64 connections, in turn with "
      "those of a service in which nothing waits. Then, with one worker of 20 "
      "places, all taken, and a provider that takes 1 s, what is written while "
      "nothing happens, how long a due retry is nobody's, and how long each look "
      "at the queue takes, also while a snapshot is open that is older than many "
      "ends of tasks.");
  backlog(context, kManyUsers);
  backlog(context, kFewUsers);
}

}  // namespace audiogen::bench
