// A database with the doors to it, over one session.
#pragma once

#include <atomic>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "common/store/accounts.h"
#include "common/store/audit.h"
#include "common/store/keys.h"
#include "common/store/operators.h"
#include "common/store/task_store.h"
#include "tests/support/test_database.h"
#include "tests/support/wait.h"

namespace audiogen::store {

// The code of what must be a fault.
template <class T>
FaultCode code_of(const Result<T, Fault>& result) {
  if (result) {
    ADD_FAILURE() << "no fault";
    return FaultCode::kUnexpected;
  }
  return result.error().code;
}

class DoorsTest : public testing::Test {
 protected:
  UserId make_user(std::string_view email, Plan plan = Plan::kFree) {
    const auto made = accounts_.create(email, plan);
    EXPECT_TRUE(made);
    return made ? made->id : UserId();
  }

  // Adds tasks of `user`, in order; every one is queued.
  std::vector<TaskId> create_tasks(UserId user, std::size_t count) {
    std::vector<TaskId> ids;
    for (std::size_t i = 0; i < count; ++i) {
      CreateCommand command{.id = TaskId::make(), .user = user, .request = "{}"};
      const auto outcome = tasks_.create(std::span(&command, 1)).front();
      EXPECT_TRUE(outcome && outcome->kind == CreateOutcome::Kind::kCreated);
      ids.push_back(command.id);
    }
    return ids;
  }

  // Runs `use` while another session is about to commit `change`, which it does as soon as a
  // statement with `waiting` in it waits for that, or `use` has ended without.
  template <std::size_t N, class Use>
  void during(const Sql& change, const char (&waiting)[N], const Use& use) {
    Session changing(db_.url(), test::kPatient);
    changing.execute(Sql("BEGIN"));
    changing.execute(change);
    std::atomic<bool> done{false};
    std::thread committing([&] {
      const auto look = Sql("SELECT COUNT(*) FROM information_schema.processlist WHERE "
                            "db=DATABASE() AND id<>CONNECTION_ID() AND info LIKE '%")
                        << waiting << "%'";
      EXPECT_TRUE(
          test::eventually(std::chrono::seconds(60), [&] { return done || db_.number(look) > 0; }));
      changing.execute(Sql("COMMIT"));
    });
    use();
    done = true;
    committing.join();
  }

  void expect_sound() {
    const auto checks = audit(db_.url());
    ASSERT_TRUE(checks) << checks.error().detail;
    for (const Check& check : *checks) {
      EXPECT_EQ(check.bad, 0U) << check.name;
    }
  }

  test::TestDatabase db_;
  Session session_{db_.url(), test::kPatient};
  Accounts accounts_{session_};
  Keys keys_{session_};
  Operators operators_{session_};
  TaskStore tasks_{db_.url()};
};

}  // namespace audiogen::store
