#include "tests/fault/faults.h"

#include <array>
#include <csignal>

#include <gtest/gtest.h>

#include "tests/e2e/failures.h"
#include "tests/fault/crash_points.h"
#include "tests/support/wait.h"
#include "tests/support/wrong_clock.h"

namespace audiogen::test {
namespace {

using namespace std::chrono_literals;
using Cut = TcpProxy::Cut;

// More than the places of both workers: each of them meets it.
constexpr int kOften = 12;

// Of a process that a crash point has ended.
constexpr int kCrashed = 137;

// Ends once and for all what was left silent.
void mend(TcpProxy& link) {
  link.accept_again();
  link.resume();
  link.delay(0ms);
  link.throttle(0);
  link.drop_reply_after("", Cut::kClose, 0);
  link.truncate_reply(0);
  link.cut_all(Cut::kReset);
}

// What a fault waits for must have come before it is mended, else it has broken nothing, and what
// is found says nothing. Clients go on meanwhile; on a busy machine most of their answers say that
// nothing has changed yet.
template <class... Links>
void expect_struck(const Links&... links) {
  EXPECT_TRUE(eventually(60s, [&] { return (links.triggered() + ...) > 0; }));
}

void mend_databases(Arena& arena) {
  mend(arena.api_database());
  for (std::size_t place = 0; place < Arena::kWorkers; ++place) {
    mend(arena.worker_database(place));
  }
}

void mend_struck_api(Arena& arena) {
  expect_struck(arena.api_database());
  mend(arena.api_database());
}

void mend_struck_workers(Arena& arena) {
  static_assert(Arena::kWorkers == 2);
  expect_struck(arena.worker_database(0), arena.worker_database(1));
  mend_databases(arena);
}

void mend_first_provider(Arena& arena) {
  arena.provider_answers(nullptr);
  mend(arena.first_provider());
}

void start_dead_workers(Arena& arena) {
  for (std::size_t place = 0; place < Arena::kWorkers; ++place) {
    if (!arena.worker(place).running()) {
      arena.start_worker(place);
    }
  }
}

// By a session that is there already: there may be no room for another one.
void end_sessions(Arena& arena) {
  store::Session& session = arena.stack().database().session();
  std::vector<std::int64_t> ids;
  {
    store::Rows rows = session.query(
        store::Sql("SELECT id FROM information_schema.processlist WHERE id<>CONNECTION_ID() AND "
                   "db=DATABASE() AND (user LIKE 'api%' OR user LIKE 'worker%')"));
    while (rows.next()) {
      ids.push_back(rows.i64(1));
    }
  }
  for (const std::int64_t id : ids) {
    try {
      session.execute(store::Sql("KILL ") << id);
    } catch (const store::DbError&) {
      continue;  // It has ended by itself.
    }
  }
}

// How many connections the database has refused because it had too many.
std::int64_t turned_away(Arena& arena) {
  TestDatabase& database = arena.stack().database();
  return database.number(
      database.is_mariadb()
          ? store::Sql("SELECT variable_value FROM information_schema.global_status WHERE "
                       "variable_name='CONNECTION_ERRORS_MAX_CONNECTIONS'")
          : store::Sql("SELECT variable_value FROM performance_schema.global_status WHERE "
                       "variable_name='Connection_errors_max_connections'"));
}

// As an operator's session does that was left open after an UPDATE.
void hold_rows(Arena& arena, const char* table) {
  store::SessionOptions options;
  options.idle_in_transaction_max = options.idle_max = 60s;
  store::Session session(arena.stack().database().url(), options);
  session.transact([&] {
    session.execute(store::Sql::trusted(std::string("UPDATE ") + table));
    arena.felt(150);
  });
}

// Each way to fail on the wire or in words that a provider has, one after the other.
DoubleReply next_failure() {
  static const std::vector<Failure> all = failures("http://127.0.0.1:1/");
  static std::size_t next = 0;
  DoubleReply reply = all[next++ % all.size()].reply;
  // These end a generation for good, which is right and not what is tried here.
  return reply.status == 400 || reply.status == 413 || reply.status == 422 ? at(500) : reply;
}

// A worker that dies as it passes `point` for the third time, and nobody notices.
void die_at(Arena& arena, const char* point) {
  arena.worker(0).kill();
  arena.end_leases(0);
  arena.start_worker(0, {{"CRASH_POINT", std::string(point) + ":3"}});
  EXPECT_EQ(arena.worker(0).wait(60s), kCrashed) << point << " was not passed three times";
  arena.end_leases(0);
}

void api_dies_at(Arena& arena, const char* point) {
  arena.stack().api().kill();
  arena.start_api({{"CRASH_POINT", std::string(point) + ":3"}});
  EXPECT_EQ(arena.stack().api().wait(60s), kCrashed) << point << " was not passed three times";
}

// As an update does: it is asked to stop, and another one takes its place.
void replace_worker(Arena& arena,
                    std::size_t place,
                    const std::map<std::string, std::string>& environment = {}) {
  arena.worker(place).signal(SIGTERM);
  EXPECT_EQ(arena.worker(place).wait(60s), 0);
  arena.start_worker(place, environment);
}

void replace_api(Arena& arena, const std::map<std::string, std::string>& environment = {}) {
  arena.stack().api().signal(SIGTERM);
  EXPECT_EQ(arena.stack().api().wait(60s), 0);
  arena.start_api(environment);
}

template <class Use>
void at_each_worker(Arena& arena, const Use& use) {
  for (std::size_t place = 0; place < Arena::kWorkers; ++place) {
    use(arena.worker_database(place));
  }
}

constexpr std::array kLinkFaults = {
    Fault{"ApiCutFromDatabase",
          [](Arena& a) {
            a.api_database().refuse();
            a.api_database().cut_all();
          },
          [](Arena& a) { mend(a.api_database()); },
          12},
    Fault{"ApiHearsNothingFromDatabase",
          [](Arena& a) { a.api_database().blackhole(); },
          [](Arena& a) { mend(a.api_database()); },
          8},
    Fault{"WorkersCutFromDatabase",
          [](Arena& a) {
            at_each_worker(a, [](TcpProxy& link) {
              link.refuse();
              link.cut_all();
            });
          },
          mend_databases},
    Fault{"WorkersHearNothingFromDatabase",
          [](Arena& a) { at_each_worker(a, [](TcpProxy& link) { link.blackhole(); }); },
          mend_databases,
          500},
    // The other one finishes what it had. What comes back is late for everything.
    Fault{"AWorkerHearsNothingFromDatabaseForLong",
          [](Arena& a) { a.worker_database(0).blackhole(); },
          [](Arena& a) { a.worker_database(0).resume(); },
          kNoEnd,
          kLong},
    Fault{"ApiNeverHearsThatItCommitted",
          [](Arena& a) { a.api_database().drop_reply_after("COMMIT", Cut::kClose, kOften); },
          mend_struck_api},
    Fault{"WorkersNeverHearThatTheyCommitted",
          [](Arena& a) {
            at_each_worker(
                a, [](TcpProxy& link) { link.drop_reply_after("COMMIT", Cut::kClose, kOften); });
          },
          mend_struck_workers},
    Fault{"ApiIsCutAtItsCommit",
          [](Arena& a) { a.api_database().cut_before("COMMIT", Cut::kClose, kOften); },
          mend_struck_api},
    Fault{"WorkersAreCutAtTheirCommit",
          [](Arena& a) {
            at_each_worker(a,
                           [](TcpProxy& link) { link.cut_before("COMMIT", Cut::kClose, kOften); });
          },
          mend_struck_workers},
    Fault{"AnsweredCommitsGoSilent",
          [](Arena& a) { a.api_database().drop_reply_after("COMMIT", Cut::kSilence, 2); },
          mend_struck_api,
          40},
    Fault{"DatabaseFarAway",
          [](Arena& a) {
            a.api_database().delay(15ms);
            at_each_worker(a, [](TcpProxy& link) { link.delay(15ms); });
          },
          mend_databases},
    Fault{"DatabaseBehindAThinLine",
          [](Arena& a) {
            a.api_database().throttle(20'000);
            at_each_worker(a, [](TcpProxy& link) { link.throttle(20'000); });
          },
          mend_databases},
    Fault{"SessionsAreKilled", end_sessions},
    Fault{"BalancesAreHeldByAnOperator", [](Arena& a) { hold_rows(a, "balances SET held=held"); }},
    Fault{"TasksAreHeldByAnOperator",
          [](Arena& a) { hold_rows(a, "tasks SET charged=charged WHERE state<3"); }},

    Fault{"ApiCutFromBroker",
          [](Arena& a) {
            a.api_broker().refuse();
            a.api_broker().cut_all();
          },
          [](Arena& a) { mend(a.api_broker()); }},
    Fault{"ApiHearsNothingFromBroker",
          [](Arena& a) { a.api_broker().blackhole(); },
          [](Arena& a) { mend(a.api_broker()); },
          300},
    Fault{"WorkersCutFromBroker",
          [](Arena& a) {
            a.worker_broker().refuse();
            a.worker_broker().cut_all();
          },
          [](Arena& a) { mend(a.worker_broker()); }},
    Fault{"WorkersHearNothingFromBroker",
          [](Arena& a) { a.worker_broker().blackhole(); },
          [](Arena& a) { mend(a.worker_broker()); },
          300},
    Fault{"QueuesArePurged", [](Arena& a) { purge_jobs(a.broker_url()); }},
    Fault{"QueuesAreDeleted", [](Arena& a) { delete_jobs(a.broker_url()); }},
    Fault{"QueuesAreUnbound", [](Arena& a) { unbind_jobs(a.broker_url()); }},
    Fault{"NonsenseIsInTheQueue",
          [](Arena& a) {
            publish(a.broker_url(), "not json");
            publish(a.broker_url(), R"({"hints":[{"task":"aud_0","epoch":-1}]})");
            publish(a.broker_url(),
                    R"({"hints":[{"task":"aud_00000000000000000000000001","epoch":0}]})");
            publish(a.broker_url(), std::string(1 << 20, 'x'));
            publish(a.broker_url(), "{}", 60);
          },
          nullptr,
          100,
          5s,
          5},

    Fault{"AWorkerIsKilled",
          [](Arena& a) {
            a.worker(0).kill();
            a.end_leases(0);
          },
          start_dead_workers},
    Fault{"AllWorkersAreKilled",
          [](Arena& a) {
            a.worker(0).kill();
            a.worker(1).kill();
            a.end_leases(0);
            a.end_leases(1);
          },
          start_dead_workers},
    Fault{"AWorkerIsFrozenBeyondItsLeases",
          [](Arena& a) {
            a.worker(0).signal(SIGSTOP);
            a.end_leases(0);
          },
          [](Arena& a) { a.worker(0).signal(SIGCONT); },
          300},
    Fault{"AWorkerLeaves",
          [](Arena& a) { a.worker(0).signal(SIGTERM); },
          [](Arena& a) {
            EXPECT_EQ(a.worker(0).wait(60s), 0);
            start_dead_workers(a);
          }},
    Fault{"WorkersAreUpdatedOneAfterTheOther",
          [](Arena& a) {
            for (std::size_t place = 0; place < Arena::kWorkers; ++place) {
              replace_worker(a, place);
              a.felt(100);
            }
          },
          nullptr,
          1},
    Fault{"AWorkerIsKilledWhileItLeaves",
          [](Arena& a) {
            a.worker(0).signal(SIGTERM);
            eventually(60s, [&] {
              return !a.worker(0).running() ||
                     a.worker(0).log().find("audio-worker drains") != std::string::npos;
            });
            a.worker(0).kill();
            a.end_leases(0);
          },
          start_dead_workers},
    Fault{"WorkersDieAtEveryStep",
          [](Arena& a) {
            for (const char* const point : kWorkerCrashPoints) {
              die_at(a, point);
            }
            for (const char* const point : {"store.commit_sent", "store.committed"}) {
              die_at(a, point);
            }
          },
          start_dead_workers,
          1},
    Fault{"TheApiDiesAtEveryStep",
          [](Arena& a) {
            for (const char* const point : kApiCrashPoints) {
              api_dies_at(a, point);
            }
          },
          [](Arena& a) { a.start_api(); },
          1},
    Fault{"WorkersClocksAreHoursApart",
          [](Arena& a) {
            replace_worker(a, 0, wrong_clock(1h));
            replace_worker(a, 1, wrong_clock(-1h));
          },
          [](Arena& a) {
            replace_worker(a, 0);
            replace_worker(a, 1);
          },
          300},
    Fault{"TheApisClockIsAhead",
          [](Arena& a) { replace_api(a, wrong_clock(1h)); },
          [](Arena& a) { replace_api(a); },
          300},
    Fault{"TheApisClockIsBehind",
          [](Arena& a) { replace_api(a, wrong_clock(-1h)); },
          [](Arena& a) { replace_api(a); },
          300},
    Fault{"TheApiIsKilled",
          [](Arena& a) { a.stack().api().kill(); },
          [](Arena& a) { a.start_api(); },
          12},
    Fault{"TheApiLeaves",
          [](Arena& a) { a.stack().api().signal(SIGTERM); },
          [](Arena& a) {
            EXPECT_EQ(a.stack().api().wait(60s), 0);
            a.start_api();
          },
          12},
    Fault{"TheApiIsFrozen",
          [](Arena& a) { a.stack().api().signal(SIGSTOP); },
          [](Arena& a) { a.stack().api().signal(SIGCONT); },
          1},

    Fault{"AProviderIsGone",
          [](Arena& a) {
            a.first_provider().refuse();
            a.first_provider().cut_all();
          },
          mend_first_provider},
    Fault{"AProviderIsSilent",
          [](Arena& a) { a.first_provider().blackhole(); },
          mend_first_provider,
          300},
    Fault{"AProviderFailsInEveryWay",
          [](Arena& a) { a.provider_answers(next_failure); },
          mend_first_provider,
          500},
    Fault{"AProviderIsCutInTheMiddle",
          [](Arena& a) { a.first_provider().truncate_reply(10'000, Cut::kReset); },
          [](Arena& a) {
            expect_struck(a.first_provider());
            mend_first_provider(a);
          }},
};

constexpr std::array kDatabaseFaults = {
    Fault{"DatabaseIsKilled",
          [](Arena& a) { a.database().kill(); },
          [](Arena& a) { a.database().start(); },
          12},
    Fault{"DatabaseIsFrozen",
          [](Arena& a) { a.database().freeze(); },
          [](Arena& a) { a.database().thaw(); },
          8},
    Fault{"DatabaseIsFrozenForLong",
          [](Arena& a) { a.database().freeze(); },
          [](Arena& a) { a.database().thaw(); },
          kNoEnd,
          kLong},
    Fault{"DatabaseTakesNoMoreConnections",
          [](Arena& a) {
            const std::int64_t before = turned_away(a);
            a.stack().database().execute(store::Sql("SET GLOBAL max_connections=10"));
            end_sessions(a);
            // Whose they are is chance: the few places may all be the API's, and no client's
            // request is refused.
            EXPECT_TRUE(eventually(60s, [&] { return turned_away(a) > before; }));
          },
          [](Arena& a) {
            a.stack().database().execute(store::Sql("SET GLOBAL max_connections=300"));
          }},
};

constexpr std::array kBrokerFaults = {
    Fault{"BrokerIsKilled",
          [](Arena& a) { a.broker().kill(); },
          [](Arena& a) { a.broker().start(); }},
    Fault{"BrokerIsFrozen",
          [](Arena& a) { a.broker().freeze(); },
          [](Arena& a) { a.broker().thaw(); },
          300},
    Fault{"BrokerIsFrozenForLong",
          [](Arena& a) { a.broker().freeze(); },
          [](Arena& a) { a.broker().thaw(); },
          kNoEnd,
          kLong},
    Fault{"BrokerIsOutOfMemory",
          [](Arena& a) { a.broker().alarm(); },
          [](Arena& a) { a.broker().no_alarm(); },
          300},
    Fault{"BrokerForgetsEverything",
          [](Arena& a) { a.broker().wipe(); },
          [](Arena& a) { a.broker().start(); }},
};

}  // namespace

std::span<const Fault> link_faults() {
  return kLinkFaults;
}

std::span<const Fault> database_faults() {
  return kDatabaseFaults;
}

std::span<const Fault> broker_faults() {
  return kBrokerFaults;
}

}  // namespace audiogen::test
