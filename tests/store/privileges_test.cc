// Each program has a database user of its own (schema/grants.sql): all it does works with that
// user's rights, and what it has no business doing is refused.
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/domain/sign_in.h"
#include "common/store/account_ends.h"
#include "common/store/accounts.h"
#include "common/store/audit.h"
#include "common/store/grants.h"
#include "common/store/history.h"
#include "common/store/issuer_links.h"
#include "common/store/keys.h"
#include "common/store/mail_links.h"
#include "common/store/migrate.h"
#include "common/store/operators.h"
#include "common/store/passkeys.h"
#include "common/store/provider_days.h"
#include "common/store/service_minutes.h"
#include "common/store/situations.h"
#include "common/store/spending.h"
#include "common/store/task_store.h"
#include "common/store/usage.h"
#include "common/store/web_sessions.h"
#include "tests/support/dates.h"
#include "tests/support/places.h"
#include "tests/support/test_database.h"

namespace audiogen::store {
namespace {

using test::TestDatabase;
using testing::AllOf;
using testing::Each;
using testing::Field;
using testing::HasSubstr;

class Privileges : public testing::Test {
 protected:
  // Why the worker's account is not given its rights; "": it is.
  std::string why() {
    const auto brought = bring_grants(
        db_.url(), std::vector<Grantee>{{"worker", db_.as("worker").user + "@localhost"}});
    return brought ? std::string() : brought.error().message;
  }
  // Whether `role` is refused the statement: for want of a right, not for anything else.
  testing::AssertionResult refused(const std::string& role, const std::string& statement) {
    constexpr int kTableDenied = 1142, kColumnDenied = 1143;
    Session session(db_.as(role));
    try {
      session.execute(Sql::trusted(statement));
      return testing::AssertionFailure() << role << " may: " << statement;
    } catch (const DbError& e) {
      if (e.code() == kTableDenied || e.code() == kColumnDenied) {
        return testing::AssertionSuccess();
      }
      return testing::AssertionFailure() << role << ": " << statement << ": " << e.what();
    }
  }

  TestDatabase db_;
};

TEST_F(Privileges, NobodyChangesTheBooks) {
  for (const char* const role : {"api", "worker", "admin"}) {
    for (const char* const table : {"ledger", "grants", "admin_actions"}) {
      const std::string name = table;
      EXPECT_TRUE(refused(role, "DELETE FROM " + name));
      EXPECT_TRUE(refused(role, "TRUNCATE TABLE " + name));
      EXPECT_TRUE(refused(role, "REPLACE INTO " + name + " SELECT * FROM " + name));
      EXPECT_TRUE(refused(role, "DROP TABLE " + name));
    }
    EXPECT_TRUE(refused(role, "UPDATE ledger SET d_available=d_available+1"));
    EXPECT_TRUE(refused(role, "UPDATE grants SET amount=amount+1"));
    EXPECT_TRUE(refused(role, "UPDATE admin_actions SET who='nobody'"));
    EXPECT_TRUE(refused(role, "ALTER TABLE ledger DROP CONSTRAINT ledger_zero"));
    EXPECT_TRUE(refused(role, "UPDATE schema_migrations SET version=9"));
    EXPECT_TRUE(refused(role, "DELETE FROM tasks"));
    EXPECT_TRUE(refused(role, "DELETE FROM users"));
    EXPECT_TRUE(refused(role, "DELETE FROM balances"));
    EXPECT_TRUE(refused(role, "DELETE FROM api_keys"));
    EXPECT_TRUE(refused(role, "UPDATE tasks SET user_id='x'"));
    EXPECT_TRUE(refused(role, "UPDATE tasks SET held=0"));
    EXPECT_TRUE(refused(role, "UPDATE api_keys SET user_id='x'"));
  }
}

TEST_F(Privileges, TheProgramsDoNotMakeUsersOrGrants) {
  for (const char* const role : {"api", "worker"}) {
    for (const char* const table : {"users", "api_keys", "grants", "admin_actions"}) {
      // The API's own users; what operators do by it is recorded.
      const bool some = std::string_view(table) != "grants";
      if (std::string_view(role) != "api" || !some) {
        EXPECT_TRUE(refused(role, std::string("INSERT INTO ") + table + " () VALUES ()"));
      }
    }
    EXPECT_TRUE(refused(role, "UPDATE users SET plan=1"));
    EXPECT_TRUE(refused(role, "UPDATE users SET purchased=1"));
    EXPECT_TRUE(refused(role, "DELETE FROM admin_actions"));
    EXPECT_TRUE(refused(role, "UPDATE admin_actions SET who='x'"));
    EXPECT_TRUE(refused(role, "INSERT INTO users (plan) VALUES (1)"));
    EXPECT_TRUE(refused(role, "INSERT INTO users (purchased) VALUES (1)"));
  }
  EXPECT_TRUE(refused("worker", "SELECT * FROM admin_actions"));
  EXPECT_TRUE(refused("worker", "UPDATE users SET email='x'"));
  Session worker(db_.as("worker"));  // Older ones write it.
  EXPECT_NO_THROW(worker.execute(Sql("UPDATE tasks SET output_sha256=NULL")));
  EXPECT_TRUE(refused("admin", "UPDATE users SET deleted_at=NULL")) << "its owner ends an account";
  // Whoever signs up has the address that an operator invited, or that the link was mailed to.
  EXPECT_TRUE(refused("api", "UPDATE sign_ups SET email='x'"));
  EXPECT_TRUE(refused("api", "UPDATE sign_ups SET expires_at=UTC_TIMESTAMP(6)"));
  EXPECT_TRUE(refused("api", "UPDATE account_deletions SET asked_at=UTC_TIMESTAMP(6)"));
  for (const char* const table : {"sign_ups", "mail_changes"}) {
    EXPECT_TRUE(refused("worker", "SELECT token_hash FROM " + std::string(table)));
  }
  EXPECT_TRUE(refused("admin", "SELECT * FROM mail_changes"));
  EXPECT_TRUE(refused("worker", "SELECT * FROM account_deletions"));
  EXPECT_TRUE(refused("api", "UPDATE oidc_identities SET user_id='x'"));
  for (const char* const role : {"worker", "admin"}) {
    EXPECT_TRUE(refused(role, "SELECT * FROM oidc_identities"));
    EXPECT_TRUE(refused(role, "SELECT * FROM issuer_refusals"));
  }
  // The API may cancel, which is a state and nothing that belongs to another end.
  EXPECT_TRUE(refused("api", "UPDATE tasks SET state=3, output_key='x'"));
  EXPECT_TRUE(refused("api", "UPDATE tasks SET state=4, failure=1"));
  EXPECT_TRUE(refused("admin", "UPDATE tasks SET state=3, output_key='x'"));
  EXPECT_TRUE(refused("api", "UPDATE past_attempts SET detail='x'"));
  EXPECT_TRUE(refused("api", "DELETE FROM deletions"));
  // It alone deletes what was asked for; the others only see to the file.
  for (const char* const role : {"worker", "admin"}) {
    EXPECT_TRUE(refused(role, "UPDATE tasks SET request=''"));
    EXPECT_TRUE(refused(role, "UPDATE tasks SET deleted_at=UTC_TIMESTAMP(6)"));
  }
  EXPECT_TRUE(refused("admin", "INSERT INTO deletions () VALUES ()"));
  EXPECT_TRUE(refused("api", "UPDATE tasks SET deadline_at=UTC_TIMESTAMP(6)"));
  EXPECT_TRUE(refused("api", "DELETE FROM idempotency"));
  EXPECT_TRUE(refused("api", "UPDATE workers SET in_flight=0"));
  // A worker gives no key another secret; and what keys may spend changes where their owners ask.
  EXPECT_TRUE(refused("worker", "UPDATE api_keys SET key_hash='x'"));
  EXPECT_TRUE(refused("worker", "UPDATE api_keys SET prefix='x'"));
  EXPECT_TRUE(refused("worker", "UPDATE api_keys SET previous_until=NULL"));
  for (const char* const role : {"worker", "admin"}) {
    EXPECT_TRUE(refused(role, "UPDATE api_keys SET spend_limit=NULL"));
    EXPECT_TRUE(refused(role, "UPDATE spend_marks SET after_seq=0"));
  }
  EXPECT_TRUE(refused("api", "UPDATE spend_marks SET after_seq=0"));
  EXPECT_TRUE(refused("api", "UPDATE spend_marks SET user_id='x'"));
  EXPECT_TRUE(refused("admin", "UPDATE spend_days SET spent=0"));
  EXPECT_TRUE(refused("worker", "DELETE FROM spend_marks"));
  EXPECT_TRUE(refused("worker", "INSERT INTO spend_marks () VALUES ()"));
  EXPECT_TRUE(refused("api", "UPDATE api_keys SET created_at='2026-01-01'"));
  EXPECT_TRUE(refused("api", "INSERT INTO api_keys (last_used_at) VALUES (NULL)"));
  EXPECT_TRUE(refused("worker", "UPDATE api_keys SET deleted_at=NULL"));
  EXPECT_TRUE(refused("worker", "INSERT INTO tasks () VALUES ()"));
  EXPECT_TRUE(refused("worker", "SELECT * FROM api_keys"));
  EXPECT_TRUE(refused("worker", "SELECT * FROM users"));
  EXPECT_TRUE(refused("worker", "SELECT available_after FROM ledger"));
  EXPECT_TRUE(refused("worker", "UPDATE tasks SET key_id=NULL"));
  EXPECT_TRUE(refused("api", "UPDATE tasks SET key_id=NULL"));
  for (const char* const role : {"api", "admin"}) {
    EXPECT_TRUE(refused(role, "UPDATE usage_hours SET charged=0"));
    EXPECT_TRUE(refused(role, "UPDATE usage_marks SET seq=0"));
    EXPECT_TRUE(refused(role, "INSERT INTO usage_hours () VALUES ()"));
  }
  EXPECT_TRUE(refused("worker", "DELETE FROM usage_hours"));
  EXPECT_TRUE(refused("worker", "UPDATE service_minutes SET arrivals=0"));
  EXPECT_TRUE(refused("api", "DELETE FROM service_minutes"));
  EXPECT_TRUE(refused("worker", "INSERT INTO idempotency () VALUES ()"));
  EXPECT_TRUE(refused("admin", "INSERT INTO tasks () VALUES ()"));
  // Nobody takes over a session, nor a link, and only the API sees a password.
  EXPECT_TRUE(refused("api", "UPDATE sessions SET user_id='x'"));
  EXPECT_TRUE(refused("api", "UPDATE sessions SET created_at=UTC_TIMESTAMP(6)"));
  EXPECT_TRUE(refused("api", "UPDATE login_links SET user_id='x'"));
  EXPECT_TRUE(refused("api", "UPDATE login_links SET expires_at=UTC_TIMESTAMP(6)"));
  EXPECT_TRUE(refused("admin", "UPDATE login_links SET used_at=NULL"));
  EXPECT_TRUE(refused("admin", "SELECT * FROM sessions"));
  EXPECT_TRUE(refused("worker", "SELECT token_hash FROM sessions"));
  EXPECT_TRUE(refused("worker", "SELECT token_hash FROM login_links"));
  for (const char* const role : {"worker", "admin"}) {
    EXPECT_TRUE(refused(role, "SELECT * FROM passwords"));
    EXPECT_TRUE(refused(role, "UPDATE passwords SET encoded='x'"));
    EXPECT_TRUE(refused(role, "INSERT INTO sessions () VALUES ()"));
    EXPECT_TRUE(refused(role, "INSERT INTO passkeys () VALUES ()"));
    EXPECT_TRUE(refused(role, "SELECT * FROM challenge_key"));
  }
  // Nobody puts his key in the place of another's, and what was answered stays so.
  EXPECT_TRUE(refused("api", "UPDATE passkeys SET public_key='x'"));
  EXPECT_TRUE(refused("api", "UPDATE passkeys SET user_id='x'"));
  EXPECT_TRUE(refused("api", "UPDATE challenge_key SET secret='x'"));
  EXPECT_TRUE(refused("api", "DELETE FROM used_challenges"));
  EXPECT_TRUE(refused("worker", "SELECT challenge_hash FROM used_challenges"));
  EXPECT_TRUE(refused("admin", "SELECT token_hash FROM sessions"));
  EXPECT_TRUE(refused("admin", "DELETE FROM workers"));
}

TEST_F(Privileges, RightsThatAreTooManyAreTakenAndNothingElseChanges) {
  const DatabaseUrl worker = db_.as("worker");
  const std::string account = worker.user + "@localhost";
  const std::vector<Grantee> grantees = {{"worker", account}};
  const auto unchanged = bring_grants(db_.url(), grantees);
  ASSERT_TRUE(unchanged) << unchanged.error().message;
  EXPECT_THAT(*unchanged, testing::IsEmpty()) << "given before";
  const std::string to = " TO '" + worker.user + "'@'localhost'";
  const std::string on = " ON " + worker.database + ".";
  db_.execute(Sql::trusted("GRANT INSERT, UPDATE" + on + "users" + to));
  db_.execute(Sql::trusted("GRANT UPDATE, UPDATE (request)" + on + "tasks" + to));
  db_.execute(Sql::trusted("GRANT DELETE" + on + "*" + to));
  db_.execute(Sql::trusted("REVOKE INSERT" + on + "ledger FROM '" + worker.user + "'@'localhost'"));
  EXPECT_EQ(bring_grants(db_.url(), grantees, true)->size(), 5U);
  ASSERT_TRUE(bring_grants(db_.url(), grantees));
  EXPECT_TRUE(refused("worker", "INSERT INTO users () VALUES ()"));
  EXPECT_TRUE(refused("worker", "UPDATE tasks SET request=''"));
  EXPECT_TRUE(refused("worker", "UPDATE tasks SET user_id='x'"));
  Session session(worker);
  EXPECT_NO_THROW(session.execute(Sql("UPDATE tasks SET lane=0, updated_at=UTC_TIMESTAMP(6)")))
      << "the columns that are its own";
  EXPECT_TRUE(refused("worker", "DELETE FROM ledger"));
  EXPECT_THAT(*bring_grants(db_.url(), grantees), testing::IsEmpty());

  EXPECT_FALSE(bring_grants(db_.url(), {{"nobody", account}}));
  EXPECT_FALSE(bring_grants(db_.url(), {{"worker", "no-host"}}));
  EXPECT_FALSE(bring_grants(db_.url(), {{"worker", "x'@localhost"}}));
  EXPECT_FALSE(bring_grants(db_.url(), {{"worker", "missing@localhost"}}));
}

// As where a small service has one user of the database.
TEST_F(Privileges, AnAccountOfTwoRolesHasTheRightsOfBoth) {
  const std::string account = db_.as("api").user + "@localhost";
  const std::vector<Grantee> grantees = {{"api", account}, {"worker", account}, {"api", account}};
  ASSERT_TRUE(bring_grants(db_.url(), grantees));
  EXPECT_THAT(*bring_grants(db_.url(), grantees), testing::IsEmpty());
  Session session(db_.as("api"));
  EXPECT_NO_THROW(session.execute(Sql("UPDATE api_keys SET name='x'"))) << "the API's";
  EXPECT_NO_THROW(session.execute(Sql("UPDATE tasks SET lane=0"))) << "the workers'";
  EXPECT_NO_THROW(session.execute(Sql("UPDATE tasks SET request=''"))) << "the API's";
  EXPECT_TRUE(refused("api", "UPDATE users SET plan=1")) << "nobody's of both";
  db_.execute(Sql::trusted("REVOKE INSERT ON " + db_.url().database + ".ledger FROM '" +
                           db_.as("api").user + "'@'localhost'"));
  EXPECT_EQ(bring_grants(db_.url(), grantees)->size(), 1U) << "once, whoever needs it";
}

// What took effect before a failure is told: an operator has to know how far it came.
TEST_F(Privileges, WhatFailsInTheMiddleTellsWhatWasDone) {
  const DatabaseUrl worker = db_.as("worker");
  const std::string account = worker.user + "@localhost";
  const std::string on = " ON " + worker.database + ".";
  const std::string of = "'" + worker.user + "'@'localhost'";
  db_.execute(Sql::trusted("REVOKE INSERT" + on + "ledger FROM " + of));
  db_.execute(Sql::trusted("REVOKE SELECT" + on + "tasks FROM " + of));
  // Nothing is begun that could not be ended: this one's second account is wrong.
  std::vector<std::string> done;
  EXPECT_FALSE(
      bring_grants(db_.url(), {{"worker", account}, {"api", "missing@localhost"}}, false, &done));
  EXPECT_THAT(done, testing::IsEmpty());

  // It may give the first of the two rights alone.
  DatabaseUrl admin = db_.as("admin");
  const std::string granter = "'" + admin.user + "'@'localhost'";
  db_.execute(Sql::trusted("GRANT SELECT ON mysql.* TO " + granter));
  db_.execute(Sql::trusted("GRANT INSERT" + on + "ledger TO " + granter + " WITH GRANT OPTION"));
  EXPECT_FALSE(bring_grants(admin, {{"worker", account}}, false, &done));
  EXPECT_THAT(done, testing::ElementsAre(HasSubstr("`ledger`")));
  EXPECT_EQ(bring_grants(db_.url(), {{"worker", account}}, false, &done)->size(), 1U);
  EXPECT_EQ(done.size(), 2U);
}

// They were never looked at, and nothing said so: its owner could change the books.
TEST_F(Privileges, RightsBeyondTheDatabaseAreToldOf) {
  const DatabaseUrl worker = db_.as("worker");
  const std::string of = "'" + worker.user + "'@'localhost'";
  db_.execute(Sql::trusted("GRANT PROCESS ON *.* TO " + of));
  EXPECT_EQ(why(), "") << "no table is reached by it";
  db_.execute(Sql::trusted("GRANT UPDATE ON *.* TO " + of));
  EXPECT_THAT(why(), HasSubstr("all databases (UPDATE)"));
  db_.execute(Sql::trusted("REVOKE UPDATE ON *.* FROM " + of));
  const std::string pattern = "`" + worker.database.substr(0, worker.database.size() - 1) + "%`.*";
  db_.execute(Sql::trusted("GRANT DELETE ON " + pattern + " TO " + of));
  EXPECT_THAT(why(), HasSubstr("databases like"));
  db_.execute(Sql::trusted("REVOKE DELETE ON " + pattern + " FROM " + of));
  EXPECT_EQ(why(), "");
}

// They were not looked at either: whoever has the role may what it may, and the books are
// everybody's whose PUBLIC may change them.
TEST_F(Privileges, RightsByRolesAndOfEverybodyAreToldOf) {
  const DatabaseUrl worker = db_.as("worker");
  const std::string of = "'" + worker.user + "'@'localhost'";
  const std::string role = worker.user + "_role";
  db_.execute(Sql::trusted("CREATE ROLE " + role));
  EXPECT_EQ(why(), "") << "it is nobody's";
  db_.execute(Sql::trusted("GRANT " + role + " TO " + of));
  EXPECT_THAT(why(), AllOf(HasSubstr(of + " has rights by roles"), HasSubstr(role)));
  db_.execute(Sql::trusted("REVOKE " + role + " FROM " + of));
  EXPECT_EQ(why(), "");
  db_.execute(Sql::trusted("DROP ROLE " + role));
  if (!db_.is_mariadb()) {
    return;  // Nobody is everybody there.
  }
  for (const char* const where : {".*", ".ledger"}) {
    const std::string on = " ON " + worker.database + where;
    db_.execute(Sql::trusted("GRANT DELETE" + on + " TO PUBLIC"));
    EXPECT_THAT(why(), HasSubstr("everybody has rights on")) << where;
    db_.execute(Sql::trusted("REVOKE DELETE" + on + " FROM PUBLIC"));
    EXPECT_EQ(why(), "") << where;
  }
  const std::string column = " (d_available) ON " + worker.database + ".ledger";
  db_.execute(Sql::trusted("GRANT UPDATE" + column + " TO PUBLIC"));
  EXPECT_THAT(why(), HasSubstr("`ledger`"));
  db_.execute(Sql::trusted("REVOKE UPDATE" + column + " FROM PUBLIC"));
  EXPECT_EQ(why(), "");
}

// The statements of README.md: what their owner may is enough, and no more than that is said there.
TEST_F(Privileges, TheOwnerThatTheReadmeMakesHasWhatHeNeeds) {
  std::ostringstream page;
  page << std::ifstream(test::source_path("README.md")).rdbuf();
  const std::string text = page.str(), begin = "```sql\nCREATE DATABASE audiogen ";
  const auto from = text.find(begin);
  ASSERT_NE(from, std::string::npos);
  const auto first = text.find('\n', from) + 1;
  std::string made = text.substr(first, text.find("```", first) - first);
  const auto replace = [&](const std::string& what, const std::string& by) {
    ASSERT_NE(made.find(what), std::string::npos) << what;
    for (auto at = made.find(what); at != std::string::npos; at = made.find(what, at + by.size())) {
      made.replace(at, what.size(), by);
    }
  };
  // Names of its own, in a server that others use as well.
  const std::string own = db_.url().database.substr(db_.url().database.rfind('_'));
  DatabaseUrl owner = db_.url();
  owner.database += "_o";
  owner.user = "owner" + own;
  owner.password = "Audiogen-1";
  replace("audiogen", owner.database);
  replace("…", owner.password);
  for (const char* const user : {"owner", "api", "worker", "admin"}) {
    replace(" " + std::string(user) + "@", " " + (user + own) + "@");
  }
  for (const std::string& statement : split_statements(made)) {
    db_.execute(Sql::trusted(statement));
  }
  const std::vector<Grantee> grantees = {{"api", "api" + own + "@%"},
                                         {"worker", "worker" + own + "@%"},
                                         {"admin", "admin" + own + "@%"}};
  const auto migrated = migrate(owner);
  EXPECT_TRUE(migrated) << migrated.error().message;
  const auto given = bring_grants(owner, grantees);
  EXPECT_TRUE(given) << given.error().message;
  EXPECT_THAT(*bring_grants(owner, grantees), testing::IsEmpty());
  Session session(owner);
  EXPECT_NO_THROW(session.query(Sql("SELECT COUNT(*) FROM information_schema.innodb_trx")));
  EXPECT_THROW(session.execute(Sql::trusted("CREATE USER more" + own)), DbError);
  session.disconnect();
  db_.execute(Sql::trusted("DROP DATABASE " + owner.database));
  for (const char* const user : {"owner", "api", "worker", "admin"}) {
    db_.execute(Sql::trusted("DROP USER " + (user + own)));
  }
}

// What other accounts have is told to whoever may read these alone: it gave, took nothing, and said
// that all was well.
TEST_F(Privileges, WhoDoesNotSeeWhatOthersHaveTakesNothingInSilence) {
  const DatabaseUrl worker = db_.as("worker"), admin = db_.as("admin");
  const std::string granter = "'" + admin.user + "'@'localhost'";
  db_.execute(Sql::trusted("GRANT SELECT ON mysql.user TO " + granter));
  EXPECT_FALSE(bring_grants(admin, {{"worker", worker.user + "@localhost"}}, true));
  db_.execute(Sql::trusted("GRANT SELECT ON mysql.* TO " + granter));
  EXPECT_TRUE(bring_grants(admin, {{"worker", worker.user + "@localhost"}}, true));
}

// On the way back from a newer release, whose programs still run and whose schema stays.
TEST_F(Privileges, WhatANewerSchemaMayNeedIsNotTaken) {
  const DatabaseUrl worker = db_.as("worker");
  const std::vector<Grantee> grantees = {{"worker", worker.user + "@localhost"}};
  const int next = newest_migration() + 1;
  db_.execute(Sql("INSERT INTO schema_migrations VALUES (") << next << ",0,0,NULL,1)");
  const std::string account = "'" + worker.user + "'@'localhost'";
  const std::string on = " ON " + worker.database + ".";
  db_.execute(Sql::trusted("GRANT UPDATE (request)" + on + "tasks TO " + account));
  db_.execute(Sql::trusted("REVOKE INSERT" + on + "ledger FROM " + account));
  EXPECT_EQ(bring_grants(db_.url(), grantees)->size(), 1U) << "what was missing";
  EXPECT_TRUE(refused("worker", "UPDATE tasks SET user_id='x'"));
  EXPECT_FALSE(refused("worker", "UPDATE tasks SET request=''"));
  db_.execute(Sql("DELETE FROM schema_migrations WHERE version=") << next);
  EXPECT_EQ(bring_grants(db_.url(), grantees)->size(), 1U) << "what is too much";
  EXPECT_TRUE(refused("worker", "UPDATE tasks SET request=''"));
}

TEST_F(Privileges, EveryOperationOfOperatorsWorks) {
  const DatabaseUrl url = db_.as("admin");
  const ActionNote note({.who = "w", .action = "a", .target = "t", .detail = "", .reason = {}});
  Session session(url);
  Accounts accounts(session, &note);
  Keys keys(session, &note);
  Operators operators(session, &note);
  const auto user = accounts.create("a@b", Plan::kFree);
  ASSERT_TRUE(user) << user.error().detail;
  EXPECT_TRUE(accounts.resolve("a@b"));
  EXPECT_TRUE(accounts.find(user->id));
  EXPECT_TRUE(accounts.set_plan(user->id, Plan::kPaid));
  const auto granted = accounts.grant(user->id, credits(500), GrantKind::kPurchase, "r");
  EXPECT_TRUE(granted) << granted.error().detail;
  EXPECT_TRUE(accounts.grant(user->id, credits(500), GrantKind::kPurchase, "r"));
  EXPECT_TRUE(accounts.grant(user->id, Units{-1}, GrantKind::kAdjustment, "s"));
  const auto key = keys.add(user->id, {.name = "k"}, make_api_key("svc"));
  ASSERT_TRUE(key) << key.error().detail;
  const auto limited = keys.add(
      user->id, {.name = "l", .spend_limit = SpendLimit{credits(150)}}, make_api_key("svc"));
  ASSERT_TRUE(limited) << limited.error().detail;
  EXPECT_TRUE(keys.list(user->id));
  const auto rotated = keys.rotate(limited->id, 1h, make_api_key("svc"));
  EXPECT_TRUE(rotated) << rotated.error().detail;
  const auto removed = keys.remove(limited->id);
  EXPECT_TRUE(removed) << removed.error().detail;
  EXPECT_TRUE(keys.remove(key->id));
  TaskStore api(db_.as("api"));
  CreateCommand command{.id = TaskId::make(), .user = user->id, .request = "{}"};
  ASSERT_TRUE(api.create(std::span(&command, 1)).front());
  EXPECT_TRUE(operators.list_tasks(user->id, TaskState::kQueued, 5));
  EXPECT_TRUE(operators.list_tasks(std::nullopt, TaskState::kQueued, 5));
  EXPECT_TRUE(operators.show_task(command.id));
  TaskStore tasks(url);
  const auto canceled = operators.cancel_task(tasks, command.id);
  EXPECT_TRUE(canceled) << canceled.error().detail;
  for (const char* const role : {"api", "admin"}) {
    Session looking(db_.as(role), kLooksPatience);
    EXPECT_TRUE(Situations(looking).look()) << role;
  }
  EXPECT_TRUE(ProviderDays(session).read(1));
  EXPECT_TRUE(operators.note_result(ActionResult::kRefused, "once more"));
  EXPECT_TRUE(operators.list_actions(5));
  const auto checks = audit(url);
  ASSERT_TRUE(checks) << checks.error().detail;
  EXPECT_THAT(*checks, Each(Field(&Check::bad, 0U)));
  for (const char* const role : {"api", "worker", "admin"}) {
    EXPECT_EQ(look_at_schema(db_.as(role))->complete, newest_migration());
  }
}

// What the owner of an account does through the interface.
TEST_F(Privileges, EveryOperationOfAnOwnerWorks) {
  Session operators(db_.as("admin"));
  const auto user = Accounts(operators).create("a@b", Plan::kPaid);
  ASSERT_TRUE(user);
  const auto first =
      Keys(operators).add(user->id, {.name = "k", .scopes = {3}}, make_api_key("svc"));
  ASSERT_TRUE(first);
  Session session(db_.as("api"));
  Accounts accounts(session);
  Keys keys(session);
  EXPECT_TRUE(accounts.find(user->id));
  EXPECT_TRUE(accounts.ledger(user->id, std::nullopt, 10));
  const auto made = keys.add(
      user->id, {.name = "made", .expires_at = session.now() + 1h}, make_api_key("svc"), first->id);
  ASSERT_TRUE(made) << made.error().detail;
  EXPECT_TRUE(keys.page(user->id, made->id, 10));
  const auto changed =
      keys.change(user->id,
                  made->id,
                  {.name = "x", .scopes = Scopes{}, .expires_at = std::optional<Instant>()},
                  first->id);
  EXPECT_TRUE(changed) << changed.error().detail;
  for (const auto& limit : {std::optional(SpendLimit{credits(150)}), std::optional<SpendLimit>()}) {
    const auto spends = keys.change(user->id, made->id, {.spend_limit = limit}, first->id);
    EXPECT_TRUE(spends) << spends.error().detail;
  }
  const auto rotated = keys.rotate(user->id, made->id, 1h, make_api_key("svc"), first->id);
  EXPECT_TRUE(rotated) << rotated.error().detail;
  const auto removed = keys.remove_own(user->id, made->id);
  EXPECT_TRUE(removed) << removed.error().detail;
}

// What somebody does who signs in.
TEST_F(Privileges, EveryOperationOfASessionWorks) {
  Session operators(db_.as("admin"));
  const auto user = Accounts(operators).create("a@b", Plan::kFree);
  ASSERT_TRUE(user);
  const NewToken link = make_token(), first = make_token(), second = make_token();
  const auto expires = WebSessions(operators).add_link(user->id, link.hash);
  ASSERT_TRUE(expires) << expires.error().detail;
  Session session(db_.as("api"));
  WebSessions sessions(session);
  const auto opened = sessions.open_by_link(link.hash,
                                            {.id = SessionId::make(),
                                             .token_hash = first.hash,
                                             .address = "::1",
                                             .replaces = first.hash});
  ASSERT_TRUE(opened) << opened.error().detail;
  const SessionId id = opened->session.id;
  const auto set = sessions.set_password(user->id, id, "e", std::nullopt);
  EXPECT_TRUE(set) << set.error().detail;
  const auto password = sessions.password_of("a@b");
  ASSERT_TRUE(password && *password);
  const auto again = sessions.open_by_password(**password,
                                               {.id = SessionId::make(),
                                                .token_hash = second.hash,
                                                .address = "::1",
                                                .replaces = std::nullopt});
  EXPECT_TRUE(again) << again.error().detail;
  EXPECT_TRUE(sessions.set_password(user->id, id, "f", std::nullopt)) << "ends the other";
  EXPECT_EQ(sessions.list(user->id)->size(), 1U);
  EXPECT_TRUE(sessions.find(user->id, id));
  const auto key = Keys(session).add(user->id, {.name = "k"}, make_api_key("svc"), Asker(id));
  EXPECT_TRUE(key) << key.error().detail;
  TaskStore api(db_.as("api"));
  EXPECT_TRUE(*api.find_sessions(std::span(&first.hash, 1)).front());
  EXPECT_TRUE(api.touch_sessions(std::span(&id, 1)).front());
  TaskStore worker(db_.as("worker"));
  EXPECT_TRUE(worker.purge_sessions(10));
  for (const auto kind :
       {TicketCommand::Kind::kKeep, TicketCommand::Kind::kForget, TicketCommand::Kind::kFind}) {
    const TicketCommand command{
        .kind = kind, .task = TaskId::make(), .n = 1, .provider = "p", .ticket = "t"};
    EXPECT_TRUE(worker.tickets(std::span(&command, 1)).front());
  }
  EXPECT_TRUE(worker.forget_tickets(std::chrono::hours(1), 10));
  const CallRecord call{.task = TaskId::make(), .n = 1, .provider = "p"};
  EXPECT_TRUE(worker.record_calls(std::span(&call, 1)).front());
  EXPECT_TRUE(worker.oldest_call());
  EXPECT_TRUE(worker.forget_calls(std::chrono::hours(1), 10, session.now()));
  EXPECT_TRUE(worker.oldest_claim());
  EXPECT_TRUE(worker.forget_claims(std::chrono::hours(1), 10, session.now()));
  EXPECT_TRUE(refused("worker", "UPDATE past_claims SET ended_as=1"));
  EXPECT_TRUE(refused("api", "DELETE FROM past_claims"));
  EXPECT_TRUE(refused("api", "SELECT cost FROM provider_calls"));
  EXPECT_TRUE(refused("api", "SELECT ticket FROM tickets"));
  Passkeys passkeys(session);
  EXPECT_TRUE(passkeys.challenge_key());
  const AnsweredChallenge made{.hash = make_token().hash, .expires_at = session.now()};
  const AnsweredChallenge used{.hash = make_token().hash, .expires_at = session.now()};
  const PasskeyId phone = PasskeyId::make();
  const auto added = passkeys.add(
      user->id, id, {.id = phone, .name = "n", .credential_id = "c", .public_key = "k"}, made);
  EXPECT_TRUE(added) << added.error().detail;
  EXPECT_EQ(passkeys.credential_ids(user->id)->size(), 1U);
  EXPECT_TRUE(*passkeys.find("c"));
  const auto by_passkey = passkeys.open_session(
      phone, 0, used, {.id = SessionId::make(), .token_hash = make_token().hash, .address = "::1"});
  EXPECT_TRUE(by_passkey) << by_passkey.error().detail;
  const auto renamed = passkeys.rename(user->id, phone, "m");
  EXPECT_TRUE(renamed) << renamed.error().detail;
  const auto removed = passkeys.remove(user->id, id, phone);
  EXPECT_TRUE(removed) << removed.error().detail;
  EXPECT_TRUE(sessions.close(user->id, id));
  EXPECT_EQ(*WebSessions(operators).close_all(user->id), 1U);
}

// Accounts by mail, from an invitation to the end.
TEST_F(Privileges, EveryOperationOfMailsWorks) {
  Session operating(db_.as("admin"));
  const NewToken invitation = make_token(), link = make_token(), change = make_token();
  const auto invited = MailLinks(operating).invite("ann@example.com", invitation.hash);
  ASSERT_TRUE(invited) << invited.error().detail;
  Session session(db_.as("api"));
  MailLinks links(session);
  WebSessions sessions(session);
  const auto added = links.add("bob@example.com", make_token().hash, SignUp::kOpen);
  EXPECT_TRUE(added) << added.error().detail;
  const auto opened = sessions.open_by_sign_up(invitation.hash,
                                               {.id = SessionId::make(),
                                                .token_hash = make_token().hash,
                                                .address = "::1",
                                                .replaces = std::nullopt});
  ASSERT_TRUE(opened) << opened.error().detail;
  const UserId user = opened->session.user;
  const auto mailed = links.add("ann@example.com", link.hash, SignUp::kClosed);
  ASSERT_TRUE(mailed) << mailed.error().detail;
  EXPECT_EQ(*mailed, MailedLink::kSignIn);
  const auto asked = links.ask_change(user, opened->session.id, "eve@example.com", change.hash);
  ASSERT_TRUE(asked) << asked.error().detail;
  const auto changed = links.confirm_change(user, change.hash);
  ASSERT_TRUE(changed) << changed.error().detail;
  const auto by_operator = Accounts(operating).set_email(user, "ann@example.net");
  ASSERT_TRUE(by_operator) << by_operator.error().detail;
  ASSERT_TRUE(Accounts(operating).grant(user, credits(500), GrantKind::kPurchase, "of-ann"));
  TaskStore api(db_.as("api"));
  CreateCommand command{.id = TaskId::make(), .user = user, .request = "{}"};
  ASSERT_TRUE(api.create(std::span(&command, 1)).front());
  ASSERT_TRUE(
      Keys(session).add(user, {.name = "k"}, make_api_key("svc"), Asker(opened->session.id)));
  // Linked, used, unlinked, and linked again.
  const NamedPerson ann{
      .identity = make_token().hash, .issuer = "https://i.example", .email = "ann@example.net"};
  const NewToken cookie = make_token();
  const auto by_issuer = [&](const NewToken& token, const std::optional<Sha256>& replaces) {
    return sessions.open_by_identity(ann,
                                     SignUp::kOpen,
                                     {.id = SessionId::make(),
                                      .token_hash = token.hash,
                                      .address = "::1",
                                      .replaces = replaces});
  };
  ASSERT_TRUE(by_issuer(make_token(), std::nullopt));
  const auto named = by_issuer(cookie, std::nullopt);
  ASSERT_TRUE(named) << named.error().detail;
  ASSERT_TRUE(sessions.set_password(user, named->session.id, "encoded", std::nullopt));
  IssuerLinks issuers(session);
  const auto listed = issuers.list(user);
  ASSERT_TRUE(listed && listed->size() == 1U);
  const auto removed = issuers.remove(user, named->session.id, listed->front().id);
  ASSERT_TRUE(removed) << removed.error().detail;
  const auto again = by_issuer(make_token(), cookie.hash);
  ASSERT_TRUE(again) << again.error().detail;
  AccountEnds ends(session);
  const auto ended = ends.end(user, again->session.id, "ann@example.net", true);
  ASSERT_TRUE(ended) << ended.error().detail;
  EXPECT_EQ(ends.open()->size(), 1U);
  std::uint64_t to = 0;
  const auto canceled = ends.cancel_tasks(api, user, to);
  ASSERT_TRUE(canceled) << canceled.error().detail;
  db_.execute(Sql("UPDATE account_deletions SET asked_at=asked_at - INTERVAL 2 MINUTE"));
  auto wiped = ends.wipe(user);
  ASSERT_TRUE(wiped) << wiped.error().detail;
  EXPECT_EQ(*wiped, Wiping::kMore);
  wiped = ends.wipe(user);
  ASSERT_TRUE(wiped) << wiped.error().detail;
  EXPECT_EQ(*wiped, Wiping::kDone);
  EXPECT_TRUE(TaskStore(db_.as("worker")).purge_sessions(10));
  const auto checks = audit(db_.as("admin"));
  ASSERT_TRUE(checks) << checks.error().detail;
  EXPECT_THAT(*checks, Each(Field(&Check::bad, 0U)));
}

TEST_F(Privileges, EveryOperationOfTheTaskStoreWorks) {
  test::wait_out_midnight();  // What a key has spent is counted by the day.
  Session session(db_.as("admin"));
  Accounts accounts(session);
  Operators operators(session);
  const auto user = accounts.create("a@b", Plan::kPaid);
  ASSERT_TRUE(user);
  ASSERT_TRUE(accounts.grant(user->id, credits(5000), GrantKind::kPurchase, "r"));
  const NewApiKey key = make_api_key("svc");
  const auto stored = Keys(session).add(user->id, {.name = "k"}, key);
  ASSERT_TRUE(stored);
  TaskStore api(db_.as("api"));
  TaskStore tasks(db_.as("worker"));
  EXPECT_TRUE(api.ping());
  EXPECT_TRUE(tasks.ping());
  const auto found = api.find_keys(std::span(&key.hash, 1)).front();
  ASSERT_TRUE(found && *found);
  EXPECT_TRUE(api.touch_keys(std::span(&**found, 1)).front());
  const WorkerId worker = WorkerId::make();
  EXPECT_TRUE(tasks.report_worker(worker, "h", 1, {.in_flight = 0, .places = 200}));
  EXPECT_TRUE(tasks.report_worker_ended(worker));
  EXPECT_TRUE(tasks.write_service_minute());
  EXPECT_TRUE(api.report_api(ApiId::make(), TaskId::make()));
  EXPECT_TRUE(api.report_api_ended(ApiId::make()));

  using Kind = SettleCommand::Kind;
  struct End {
    Kind kind;
    std::uint32_t calls = 2;
  };
  for (const auto& [kind, calls] : {End{Kind::kSucceed, 1},
                                    End{Kind::kSucceed},
                                    End{Kind::kFail},
                                    End{Kind::kRetry},
                                    End{Kind::kRelease}}) {
    CreateCommand command{
        .id = TaskId::make(),
        .user = user->id,
        .idempotency_key = std::to_string(static_cast<int>(kind)) + std::to_string(calls),
        .request = "{}"};
    const auto created = api.create(std::span(&command, 1)).front();
    ASSERT_TRUE(created && created->kind == CreateOutcome::Kind::kCreated);
    const FindCommand find{.id = command.id, .user = user->id};
    EXPECT_TRUE((*api.find(std::span(&find, 1)).front()));
    const Hint hint{.task = command.id, .epoch = 0};
    const auto claimed =
        tasks.claim(std::span(&hint, 1), worker, [](const Claim&) { return std::string("local"); })
            .front();
    ASSERT_TRUE(claimed && *claimed);
    const Lease lease{.task = command.id, .epoch = (*claimed)->epoch};
    EXPECT_EQ(*tasks.renew(std::span(&lease, 1), worker).front(), Renewal::kRenewed);
    const CallStart next{.task = command.id,
                         .epoch = lease.epoch,
                         .n = 2,
                         .provider = "local",
                         .previous = 1,
                         .previous_state = 3};
    if (calls > 1) {
      EXPECT_TRUE((*tasks.start_calls(std::span(&next, 1)).front()));
    }
    SettleCommand settle{
        {.kind = kind, .epoch = lease.epoch, .output_key = "k", .duration_ms = 1000}};
    settle.task = command.id;
    settle.user = user->id;
    settle.output_bytes = 1;
    settle.held = (*claimed)->held;
    settle.call = calls;
    settle.call_state = 2;
    const auto settled = tasks.settle(std::span(&settle, 1)).front();
    ASSERT_TRUE(settled);
    EXPECT_EQ(*settled,
              kind == Kind::kSucceed || kind == Kind::kFail ? SettleOutcome::kSettled
                                                            : SettleOutcome::kRequeued);
    // So may the operations port.
    Session page(db_.as("api"));
    EXPECT_TRUE(Operators(page).show_task(command.id));
    EXPECT_TRUE(Operators(page).find_tasks("a@b", 1));
    EXPECT_TRUE(Operators(page).stuck(1));
    EXPECT_TRUE(Operators(page).heaviest_users(1));
    EXPECT_TRUE(ServiceMinutes(page).history(std::chrono::hours(1), std::chrono::minutes(1)));
    EXPECT_TRUE(ServiceMinutes(page).failures(std::chrono::hours(1)));
    const auto shown = operators.show_task(command.id);
    ASSERT_TRUE(shown) << shown.error().detail;
    EXPECT_EQ(shown->calls.size(), calls);
  }

  // The sweeper: a lost lease, a deadline, a cancel.
  std::vector<TaskId> ids;
  for (int i = 0; i < 3; ++i) {
    CreateCommand command{.id = TaskId::make(), .user = user->id, .request = "{}"};
    ASSERT_TRUE(api.create(std::span(&command, 1)).front());
    ids.push_back(command.id);
  }
  const Hint hint{.task = ids[0], .epoch = 0};
  ASSERT_TRUE(
      (*tasks.claim(std::span(&hint, 1), worker, [](const Claim&) { return std::string("local"); })
            .front()));
  db_.execute(Sql("UPDATE tasks SET lease_until=UTC_TIMESTAMP(6) - INTERVAL 10 SECOND, "
                  "wake_at=UTC_TIMESTAMP(6) - INTERVAL 1 SECOND WHERE id=")
              << ids[0]);
  db_.execute(Sql("UPDATE tasks SET deadline_at=UTC_TIMESTAMP(6) - INTERVAL 10 SECOND, "
                  "wake_at=UTC_TIMESTAMP(6) - INTERVAL 1 SECOND WHERE id=")
              << ids[1]);
  const auto swept = tasks.sweep(100);
  ASSERT_TRUE(swept);
  EXPECT_EQ(swept->reaped, 1U);
  EXPECT_EQ(swept->expired, 1U);
  Session reading(db_.as("api")), rolling(db_.as("worker"));
  EXPECT_TRUE(History(reading).list(user->id, {}, std::nullopt, 100));
  EXPECT_TRUE(History(reading).list(user->id, {.key = stored->id}, std::nullopt, 100));
  // As after a step back of the clock: who ends a task may not, and need not, change its deadline.
  const auto write_ahead = [&](TaskId task) {
    db_.execute(Sql("UPDATE tasks SET updated_at=UTC_TIMESTAMP(6) + INTERVAL 1 HOUR WHERE id=")
                << task);
  };
  write_ahead(ids[0]);
  const CancelCommand cancel{.task = ids[0], .user = user->id};
  const auto canceled = api.cancel(std::span(&cancel, 1)).front();
  ASSERT_TRUE(canceled);
  EXPECT_EQ(canceled->outcome, CancelOutcome::kCanceled);
  const auto erased = History(reading).erase(user->id, ids[0]);
  ASSERT_TRUE(erased) << erased.error().detail;
  EXPECT_EQ(*erased, Erasure::kErased);
  const auto limited = Keys(session).add(
      user->id, {.name = "l", .spend_limit = SpendLimit{credits(300)}}, make_api_key("svc"));
  ASSERT_TRUE(limited) << limited.error().detail;
  CreateCommand counted{
      .id = TaskId::make(), .user = user->id, .key = limited->id, .limited = true, .request = "{}"};
  const auto spent = api.create(std::span(&counted, 1)).front();
  ASSERT_TRUE(spent && spent->kind == CreateOutcome::Kind::kCreated);
  EXPECT_EQ(roll_up_spending(reading, user->id, 100), 0U);
  counted.id = TaskId::make();
  ASSERT_TRUE(api.create(std::span(&counted, 1)).front());
  EXPECT_EQ(roll_up_spending(rolling, user->id, 100), 0U);
  EXPECT_TRUE(Spending(rolling).roll_up());
  EXPECT_EQ(Keys(session).list(user->id)->back().spent, credits(300));
  const auto rolled = Usage(rolling).roll_up(std::nullopt);
  ASSERT_TRUE(rolled) << rolled.error().detail;
  EXPECT_GT(rolled->entries, 0U);
  const auto used = Usage(reading).read(
      user->id, {.from = reading.now() - 1h, .to = reading.now() + 1h}, UsageGroup::kKey);
  ASSERT_TRUE(used) << used.error().detail;
  EXPECT_EQ(used->totals.succeeded, 2U);
  const auto deletions = tasks.deletions(Noted::kDeleted, {}, 10);
  ASSERT_TRUE(deletions);
  ASSERT_EQ(deletions->size(), 1U);
  EXPECT_TRUE(tasks.deletions_done(std::span(&deletions->front().task, 1)));
  write_ahead(ids[2]);
  EXPECT_EQ(*TaskStore(db_.as("admin")).cancel(ids[2]), CancelOutcome::kCanceled);
  db_.execute(Sql("UPDATE idempotency SET created_at=created_at - INTERVAL 8 DAY"));
  const auto oldest = tasks.oldest_idempotency();
  ASSERT_TRUE(oldest && *oldest);
  const auto old_keys = tasks.old_idempotency(100, **oldest, **oldest + std::chrono::days(1));
  ASSERT_TRUE(old_keys);
  const auto purged = tasks.forget_idempotency(*old_keys);
  ASSERT_TRUE(purged);
  EXPECT_EQ(*purged, 3U);  // Two of the five are still open.
  EXPECT_TRUE(tasks.take_turn(TaskStore::Chore::kOutputs));
  EXPECT_TRUE(tasks.look_at_clocks());
  EXPECT_TRUE(tasks.oldest_output());
  const auto old =
      tasks.take_old_outputs(std::chrono::seconds(0), 100, session.now() + std::chrono::days(1));
  ASSERT_TRUE(old);
  EXPECT_TRUE(tasks.old_outputs_deleted(old->last));
  ASSERT_FALSE(old->files.empty());
  EXPECT_TRUE(tasks.note_deletions(std::vector{old->files.front().task}, 100));
  EXPECT_TRUE(tasks.deletions_done(std::vector{old->files.front().task}));
  EXPECT_TRUE(tasks.doubtful_outputs(TaskId(), old->last, 10));
  EXPECT_TRUE(tasks.now());
  const auto checks = audit(db_.as("admin"));
  ASSERT_TRUE(checks);
  for (const Check& check : *checks) {
    EXPECT_EQ(check.bad, 0U) << check.name;
  }
}

}  // namespace
}  // namespace audiogen::store
