// The service's own database user needs no right to change the ledger: every operation works with
// INSERT and SELECT there, and UPDATE and DELETE are refused (DESIGN 3 "Money").
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/store/account_store.h"
#include "common/store/migrate.h"
#include "common/store/task_store.h"
#include "tests/support/test_database.h"

namespace audiogen::store {
namespace {

using test::TestDatabase;
using testing::Each;
using testing::Field;
using testing::HasSubstr;

constexpr const char* kHosts[] = {"localhost", "127.0.0.1"};

class Privileges : public testing::Test {
 protected:
  Privileges() {
    const auto migrated = migrate(db_.url());
    EXPECT_TRUE(migrated) << (migrated ? "" : migrated.error().message);
    url_ = db_.url();
    url_.user = "ag_" + random_base32(12);
    url_.password = random_base32(20);
    Rows tables =
        db_.session().query(Sql("SELECT TABLE_NAME, TABLE_TYPE FROM information_schema.TABLES "
                                "WHERE TABLE_SCHEMA=DATABASE()"));
    std::vector<std::pair<std::string, std::string>> rights_on;
    while (tables.next()) {
      const std::string name = tables.text(1);
      const bool only_read = tables.text(2) == "VIEW" || name == "schema_migrations";
      rights_on.emplace_back(name,
                             only_read          ? "SELECT"
                             : name == "ledger" ? "SELECT, INSERT"
                                                : "SELECT, INSERT, UPDATE, DELETE");
    }
    for (const char* host : kHosts) {
      const std::string who = "'" + url_.user + "'@'" + host + "'";
      db_.execute(Sql::trusted("CREATE USER " + who + " IDENTIFIED BY '" + url_.password + "'"));
      for (const auto& [name, rights] : rights_on) {
        db_.execute(
            Sql::trusted("GRANT " + rights + " ON " + url_.database + "." + name + " TO " + who));
      }
    }
  }

  ~Privileges() override {
    for (const char* host : kHosts) {
      db_.execute(Sql::trusted("DROP USER '" + url_.user + "'@'" + host + "'"));
    }
  }

  TestDatabase db_{TestDatabase::Tables::kNone};
  DatabaseUrl url_;
};

TEST_F(Privileges, TheLedgerCannotBeChanged) {
  AccountStore accounts(url_);
  ASSERT_TRUE(accounts.create_user("a@b", Plan::kPaid));
  ASSERT_TRUE(accounts.grant("a@b", credits(1), GrantKind::kBonus, "r"));
  Session session(url_);
  const auto refused = [&](const Sql& sql) {
    try {
      session.execute(sql);
      return false;
    } catch (const DbError& e) {
      return e.code() == 1142;  // ER_TABLEACCESS_DENIED_ERROR
    }
  };
  EXPECT_TRUE(refused(Sql("UPDATE ledger SET d_available=d_available+1")));
  EXPECT_TRUE(refused(Sql("DELETE FROM ledger")));
  EXPECT_TRUE(refused(Sql("REPLACE INTO ledger SELECT * FROM ledger")));
  EXPECT_TRUE(refused(Sql("TRUNCATE TABLE ledger")));
  EXPECT_TRUE(refused(Sql("ALTER TABLE ledger DROP CONSTRAINT ledger_zero")));
  EXPECT_TRUE(refused(Sql("UPDATE schema_migrations SET version=9")));
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM ledger WHERE d_available=1000")), 1);
}

TEST_F(Privileges, EveryOperationOfTheAccountStoreWorks) {
  AccountStore accounts(url_);
  const auto user = accounts.create_user("a@b", Plan::kFree);
  ASSERT_TRUE(user) << user.error().message;
  EXPECT_TRUE(accounts.find_user("a@b"));
  EXPECT_TRUE(accounts.set_plan("a@b", Plan::kPaid));
  EXPECT_TRUE(accounts.grant("a@b", credits(500), GrantKind::kPurchase, "r"));
  EXPECT_TRUE(accounts.grant("a@b", credits(500), GrantKind::kPurchase, "r"));
  EXPECT_TRUE(accounts.grant("a@b", Units{-1}, GrantKind::kAdjustment, "s"));
  const auto key = accounts.add_key("a@b", "k", make_api_key("svc"));
  ASSERT_TRUE(key) << key.error().message;
  EXPECT_TRUE(accounts.list_keys("a@b"));
  EXPECT_TRUE(accounts.delete_key(key->id));
  TaskStore tasks(url_);
  CreateCommand command{.id = TaskId::make(), .user = user->id, .request = "{}"};
  ASSERT_TRUE(tasks.create(std::span(&command, 1)));
  EXPECT_TRUE(accounts.list_tasks("a@b", TaskState::kQueued, 5));
  EXPECT_TRUE(accounts.list_tasks("", TaskState::kQueued, 5));
  EXPECT_TRUE(accounts.show_task(command.id));
  EXPECT_TRUE(accounts.queue());
  const auto checks = accounts.audit();
  ASSERT_TRUE(checks) << checks.error().message;
  EXPECT_THAT(*checks, Each(Field(&Check::bad, 0U)));
  EXPECT_EQ(*schema_version(url_), newest_migration());
}

TEST_F(Privileges, EveryOperationOfTheTaskStoreWorks) {
  AccountStore accounts(url_);
  const auto user = accounts.create_user("a@b", Plan::kPaid);
  ASSERT_TRUE(user);
  ASSERT_TRUE(accounts.grant("a@b", credits(5000), GrantKind::kPurchase, "r"));
  const NewApiKey key = make_api_key("svc");
  const auto stored = accounts.add_key("a@b", "k", key);
  ASSERT_TRUE(stored);
  TaskStore tasks(url_);
  EXPECT_TRUE(tasks.ping());
  EXPECT_TRUE(tasks.find_keys(std::span(&key.hash, 1)));
  EXPECT_TRUE(tasks.touch_keys(std::span(&stored->id, 1)));
  const WorkerId worker = WorkerId::make();
  EXPECT_TRUE(tasks.report_worker(worker, "h", 1, 0, "{}"));
  EXPECT_TRUE(tasks.report_api(ApiId::make(), TaskId::make()));

  using Kind = SettleCommand::Kind;
  for (const Kind kind : {Kind::kSucceed, Kind::kFail, Kind::kRetry, Kind::kRelease}) {
    CreateCommand command{.id = TaskId::make(),
                          .user = user->id,
                          .idempotency_key = std::to_string(static_cast<int>(kind)),
                          .request = "{}"};
    const auto created = tasks.create(std::span(&command, 1));
    ASSERT_TRUE(created && (*created)[0].kind == CreateOutcome::Kind::kCreated);
    const FindCommand find{.id = command.id, .user = user->id};
    EXPECT_TRUE((*tasks.find(std::span(&find, 1)))[0]);
    const Hint hint{.task = command.id, .epoch = 0};
    const auto claimed =
        tasks.claim(std::span(&hint, 1), worker, [](const Claim&) { return std::string("local"); });
    ASSERT_TRUE(claimed && (*claimed)[0]);
    const Lease lease{.task = command.id, .epoch = (*claimed)[0]->epoch};
    EXPECT_TRUE((*tasks.renew(std::span(&lease, 1), worker))[0]);
    const AttemptStart next{.task = command.id,
                            .epoch = lease.epoch,
                            .n = 2,
                            .provider = "local",
                            .previous = 1,
                            .previous_state = 3};
    EXPECT_TRUE((*tasks.start_attempts(std::span(&next, 1)))[0]);
    SettleCommand settle{.kind = kind,
                         .task = command.id,
                         .user = user->id,
                         .epoch = lease.epoch,
                         .output_key = "k",
                         .output_bytes = 1,
                         .duration_ms = 1000,
                         .attempt = 2,
                         .attempt_state = 2};
    const auto settled = tasks.settle(std::span(&settle, 1));
    ASSERT_TRUE(settled);
    EXPECT_EQ((*settled)[0],
              kind == Kind::kSucceed || kind == Kind::kFail ? SettleOutcome::kSettled
                                                            : SettleOutcome::kRequeued);
    const auto shown = accounts.show_task(command.id);
    ASSERT_TRUE(shown) << shown.error().message;
    EXPECT_EQ(shown->attempts.size(), 2U);
  }

  // The sweeper: a lost lease, a deadline, a cancel.
  std::vector<TaskId> ids;
  for (int i = 0; i < 3; ++i) {
    CreateCommand command{.id = TaskId::make(), .user = user->id, .request = "{}"};
    ASSERT_TRUE(tasks.create(std::span(&command, 1)));
    ids.push_back(command.id);
  }
  const Hint hint{.task = ids[0], .epoch = 0};
  ASSERT_TRUE((*tasks.claim(
      std::span(&hint, 1), worker, [](const Claim&) { return std::string("local"); }))[0]);
  db_.execute(Sql("UPDATE tasks SET lease_until=UTC_TIMESTAMP(6) - INTERVAL 1 SECOND, "
                  "wake_at=UTC_TIMESTAMP(6) - INTERVAL 1 SECOND WHERE id=")
              << ids[0]);
  db_.execute(Sql("UPDATE tasks SET deadline_at=UTC_TIMESTAMP(6) - INTERVAL 1 SECOND, "
                  "wake_at=UTC_TIMESTAMP(6) - INTERVAL 1 SECOND WHERE id=")
              << ids[1]);
  const auto swept = tasks.sweep(100);
  ASSERT_TRUE(swept);
  EXPECT_EQ(swept->reaped, 1U);
  EXPECT_EQ(swept->expired, 1U);
  EXPECT_EQ(*tasks.cancel(ids[2]), CancelOutcome::kCanceled);
  db_.execute(Sql("UPDATE idempotency SET created_at=created_at - INTERVAL 8 DAY"));
  const auto purged = tasks.purge_idempotency(100);
  ASSERT_TRUE(purged);
  EXPECT_EQ(*purged, 2U);  // Two of the four are still open.
  const auto checks = accounts.audit();
  ASSERT_TRUE(checks);
  for (const Check& check : *checks) {
    EXPECT_EQ(check.bad, 0U) << check.name;
  }
}

}  // namespace
}  // namespace audiogen::store
