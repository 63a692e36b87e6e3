// Processes die at every step, and every task still ends once, charged once.
//
// A lease lasts 30 s; instead of waiting, the test lets the time pass in the database.
#include <algorithm>
#include <csignal>

#include <gtest/gtest.h>

#include "tests/fault/crash_points.h"
#include "tests/support/stack.h"

namespace audiogen::test {
namespace {

constexpr int kCrashed = 137;

void let_leases_run_out(Stack& stack) {
  stack.database().execute(
      store::Sql("UPDATE tasks SET lease_until = UTC_TIMESTAMP(6) - INTERVAL 1 SECOND WHERE "
                 "lease_until IS NOT NULL"));
  stack.database().execute(
      store::Sql("UPDATE tasks SET wake_at = UTC_TIMESTAMP(6) WHERE wake_at IS NOT NULL"));
}

std::int64_t count(Stack& stack, const store::Sql& sql) {
  return stack.database().number(sql);
}

std::string point_name(const testing::TestParamInfo<const char*>& point) {
  std::string name = point.param;
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

// Where the broker has the hint, or will have it, whatever becomes of who sent it.
bool hint_was_sent_before(std::string_view point) {
  return point.starts_with("publisher.");
}

class ApiCrash : public testing::TestWithParam<const char*> {};

TEST_P(ApiCrash, TheRetryGivesExactlyOneTask) {
  Stack::Options options;
  options.api = false;
  Stack stack(options);
  stack.start_api({{"CRASH_POINT", std::string(GetParam()) + ":1"}});
  const Account ann = stack.account(1000);
  const std::vector<std::string> headers =
      Stack::bearer(ann.key, {"Content-Type: application/json", "Idempotency-Key: k"});
  const std::string url = stack.base() + "/audio/generations";
  http("POST", url, headers, Stack::body());
  ASSERT_EQ(stack.api().wait(std::chrono::seconds(60)), kCrashed)
      << "the crash point was never passed";
  stack.start_api();
  const Reply again = http("POST", url, headers, Stack::body());
  ASSERT_EQ(again.status, 202) << again.body;
  if (!hint_was_sent_before(GetParam())) {
    // The publisher of the dead process took its memory with it. The sweeper finds the task at its
    // first look, after 15 s, which pass in the database here.
    stack.database().execute(
        store::Sql("UPDATE tasks SET wake_at = UTC_TIMESTAMP(6) WHERE wake_at IS NOT NULL"));
  }
  EXPECT_EQ(stack.wait_final(ann, again.text("id")).text("status"), "succeeded");
  EXPECT_EQ(count(stack, store::Sql("SELECT COUNT(*) FROM tasks")), 1);
  EXPECT_EQ(stack.admin({"task", "show", again.text("id")})["attempts"].Size(), 1U)
      << "whoever has a second hint to it finds it taken, or done";
  EXPECT_EQ(count(stack, store::Sql("SELECT COUNT(*) FROM ledger WHERE kind = 2")), 1);
  EXPECT_EQ(stack.admin({"user", "show", "--user", ann.user})["available_credits"].GetDouble(),
            990);
  stack.database().expect_invariants();
}

INSTANTIATE_TEST_SUITE_P(Points, ApiCrash, testing::ValuesIn(kApiCrashPoints), point_name);

class WorkerCrash : public testing::TestWithParam<const char*> {};

TEST_P(WorkerCrash, AnotherWorkerFinishesTheTask) {
  Stack::Options options;
  options.workers = 0;
  Stack stack(options);
  const Account ann = stack.account(1000);
  const std::size_t first = stack.start_worker({{"CRASH_POINT", std::string(GetParam()) + ":1"}});
  const std::string id = stack.create(ann, Stack::body()).text("id");
  ASSERT_EQ(stack.worker(first).wait(std::chrono::seconds(30)), kCrashed)
      << "the crash point was never passed";
  stack.start_worker();
  let_leases_run_out(stack);
  const Reply done = stack.wait_final(ann, id);
  EXPECT_EQ(done.text("status"), "succeeded") << done.body;
  EXPECT_EQ(stack.admin({"user", "show", "--user", ann.user})["available_credits"].GetDouble(),
            990);
  EXPECT_EQ(http("GET", done.text("output.url")).status, 200);
  stack.database().expect_invariants();
}

INSTANTIATE_TEST_SUITE_P(Points, WorkerCrash, testing::ValuesIn(kWorkerCrashPoints), point_name);

TEST(Poison, ATaskThatKillsEveryWorkerFailsAndIsRefunded) {
  Stack::Options options;
  options.workers = 0;
  Stack stack(options);
  const Account ann = stack.account(1000);
  const std::string id = stack.create(ann, Stack::body()).text("id");
  for (int i = 0; i < 5; ++i) {
    const std::size_t worker = stack.start_worker({{"CRASH_POINT", "worker.call_row:1"}});
    let_leases_run_out(stack);
    ASSERT_EQ(stack.worker(worker).wait(std::chrono::seconds(60)), kCrashed);
  }
  stack.start_worker();
  let_leases_run_out(stack);
  const Reply done = stack.wait_final(ann, id);
  EXPECT_EQ(done.text("status"), "failed");
  EXPECT_EQ(done.text("error.code"), "internal_error");
  EXPECT_EQ(stack.admin({"user", "show", "--user", ann.user})["available_credits"].GetDouble(),
            1000);
  // Its neighbours are not affected.
  EXPECT_EQ(stack.wait_final(ann, stack.create(ann, Stack::body()).text("id")).text("status"),
            "succeeded");
  stack.database().expect_invariants();
}

TEST(Zombie, AFrozenWorkerComesBackAndChargesNothing) {
  Stack::Options options;
  options.workers = 0;
  Stack stack(options);
  const Account ann = stack.account(1000);
  // It stands still between the stored file and its settlement, as one stopped for minutes would.
  const std::size_t frozen = stack.start_worker({{"CRASH_POINT", "worker.stored:1:stop"}});
  const std::string id = stack.create(ann, Stack::body()).text("id");
  const pid_t process = stack.worker(frozen).pid();
  ASSERT_TRUE(eventually(std::chrono::seconds(60), [&] { return all_threads_stopped(process); }))
      << "the crash point was never passed";
  stack.start_worker();
  let_leases_run_out(stack);
  // The broker may hand the new hint to the frozen worker too; the sweeper sends another one later.
  Reply done;
  ASSERT_TRUE(eventually(std::chrono::seconds(60), [&] {
    stack.database().execute(
        store::Sql("UPDATE tasks SET wake_at = UTC_TIMESTAMP(6) WHERE state = 1"));
    done = stack.get(ann, id);
    return done.text("status") == "succeeded";
  }));
  stack.worker(frozen).signal(SIGCONT);
  ASSERT_TRUE(eventually(std::chrono::seconds(30), [&] {
    return stack.worker(frozen).log().find("lease lost") != std::string::npos;
  })) << stack.worker(frozen).log();
  EXPECT_EQ(stack.get(ann, id).body, done.body);
  EXPECT_EQ(stack.admin({"user", "show", "--user", ann.user})["available_credits"].GetDouble(),
            990);
  stack.database().expect_invariants();
}

// A worker that stands still between two statements of a settlement holds its user's rows, which
// the server takes from it after a second, and nobody else's.
TEST(Frozen, InsideATransactionKeepsItsRowsForSeconds) {
  Stack::Options options;
  options.workers = 0;
  Stack stack(options);
  const Account ann = stack.account(1000), ben = stack.account(1000);
  const std::size_t frozen = stack.start_worker({{"CRASH_POINT", "settle.locked:1:stop"}});
  const std::string id = stack.create(ann, Stack::body()).text("id");
  const pid_t process = stack.worker(frozen).pid();
  ASSERT_TRUE(eventually(std::chrono::seconds(60), [&] { return all_threads_stopped(process); }))
      << "the crash point was never passed";
  EXPECT_EQ(stack.create(ben, Stack::body()).status, 202) << "at the first try";
  EXPECT_TRUE(eventually(std::chrono::seconds(20),
                         [&] { return stack.create(ann, Stack::body()).status == 202; }));
  EXPECT_TRUE(all_threads_stopped(process)) << "all this time";
  stack.worker(frozen).signal(SIGCONT);
  EXPECT_EQ(stack.wait_final(ann, id).text("status"), "succeeded");
  EXPECT_TRUE(eventually(std::chrono::seconds(60), [&] {
    return count(stack, store::Sql("SELECT COUNT(*) FROM tasks WHERE state<3")) == 0;
  }));
  stack.database().expect_invariants();
}

// It says so: else its last word would keep the hints of all other processes from counting.
TEST(CleanStop, AnApiProcessThatEndedCountsNoMore) {
  Stack stack;
  const Account ann = stack.account(1000);
  EXPECT_EQ(stack.wait_final(ann, stack.create(ann, Stack::body()).text("id")).text("status"),
            "succeeded");
  stack.api().signal(SIGTERM);
  EXPECT_EQ(stack.api().wait(std::chrono::seconds(60)), 0);
  EXPECT_EQ(count(stack, store::Sql("SELECT COUNT(*) FROM api_processes")), 1);
  EXPECT_EQ(count(stack,
                  store::Sql("SELECT COUNT(*) FROM api_processes WHERE seen_at>UTC_TIMESTAMP(6) - "
                             "INTERVAL 60 SECOND")),
            0);
}

TEST(Deadline, AnUnservedTaskFailsAndIsRefunded) {
  Stack::Options options;
  options.workers = 0;
  options.environment = {{"TASK_DEADLINE_SECONDS", "1"}};
  Stack stack(options);
  const Account ann = stack.account(1000);
  const std::string id = stack.create(ann, Stack::body()).text("id");
  stack.database().execute(
      store::Sql("UPDATE tasks SET deadline_at = UTC_TIMESTAMP(6) - INTERVAL 1 SECOND, wake_at = "
                 "UTC_TIMESTAMP(6)"));
  stack.start_worker();
  const Reply done = stack.wait_final(ann, id);
  EXPECT_EQ(done.text("status"), "failed");
  EXPECT_EQ(done.text("error.code"), "deadline_exceeded");
  EXPECT_EQ(stack.admin({"user", "show", "--user", ann.user})["available_credits"].GetDouble(),
            1000);
  stack.database().expect_invariants();
}

TEST(Cancel, RacesSettlement) {
  Stack::Options options;
  options.environment = {{"RATE_LIMIT_CREATE_BURST", "1000"}};
  Stack stack(options);
  const Account ann = stack.account(100'000);
  constexpr int kTrials = 30;
  std::vector<std::string> ids;
  for (int i = 0; i < kTrials; ++i) {
    ids.push_back(stack.create(ann, Stack::body("Race " + std::to_string(i))).text("id"));
  }
  for (const std::string& id : ids) {
    stack.admin_raw({"task", "cancel", id});
  }
  std::int64_t succeeded = 0;
  for (const std::string& id : ids) {
    const std::string status = stack.wait_final(ann, id).text("status");
    EXPECT_TRUE(status == "succeeded" || status == "canceled") << status;
    succeeded += status == "succeeded" ? 1 : 0;
  }
  EXPECT_EQ(stack.admin({"user", "show", "--user", ann.user})["available_credits"].GetDouble(),
            static_cast<double>(100'000 - succeeded * 10));
  EXPECT_EQ(count(stack, store::Sql("SELECT COUNT(*) FROM ledger WHERE kind = 2")), kTrials);
  stack.database().expect_invariants();
}

}  // namespace
}  // namespace audiogen::test
