// Each rule of the audit is broken by hand, past the constraints, and must be the only one
// reported.
#include "common/store/audit.h"

#include <atomic>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/store/accounts.h"
#include "common/store/keys.h"
#include "common/store/spending.h"
#include "common/store/task_store.h"
#include "common/store/usage.h"
#include "tests/support/tcp_proxy.h"
#include "tests/support/test_database.h"
#include "tests/support/wait.h"

namespace audiogen::store {
namespace {

using test::TestDatabase;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

// A database in which every kind of row exists and every rule holds.
class AuditTest : public testing::Test {
 protected:
  AuditTest() {
    user_ = make_user("ann@example.com");
    other_ = make_user("bob@example.com");
    grant(credits(10'000), GrantKind::kPurchase, "purchase");
    grant(credits(10), GrantKind::kBonus, "bonus");
    grant(Units{-1}, GrantKind::kAdjustment, "adjustment");
    queued_ = create();
    waiting_ = create();
    running_ = create();
    done_ = create();
    failed_ = create();
    canceled_ = create();
    settle(waiting_, {.kind = ClaimEnd::Kind::kRetry, .retry_after = 1h});
    settle(done_, {.kind = ClaimEnd::Kind::kSucceed, .output_key = "key", .duration_ms = 60'000});
    settle(failed_, {.kind = ClaimEnd::Kind::kFail});
    EXPECT_EQ(*tasks_.cancel(canceled_), CancelOutcome::kCanceled);
    claim(running_);
  }

  UserId make_user(const char* email) {
    const auto user = accounts_.create(email, Plan::kPaid);
    EXPECT_TRUE(user);
    return user->id;
  }

  void grant(Units amount, GrantKind kind, const char* reference) {
    EXPECT_TRUE(accounts_.grant(user_, amount, kind, reference));
  }

  TaskId create() {
    CreateCommand command{.id = TaskId::make(),
                          .user = user_,
                          .idempotency_key = std::to_string(++keys_),
                          .request = "{}"};
    const auto outcome = tasks_.create({&command, 1}).front();
    EXPECT_TRUE(outcome && outcome->kind == CreateOutcome::Kind::kCreated);
    return command.id;
  }

  std::uint32_t claim(TaskId task) {
    const Hint hint{.task = task, .epoch = 0};
    const auto claimed =
        tasks_
            .claim({&hint, 1}, WorkerId::make(), [](const Claim&) { return std::string("local"); })
            .front();
    EXPECT_TRUE(claimed && *claimed);
    return (*claimed)->epoch;
  }

  void settle(TaskId task, ClaimEnd claim_end) {
    SettleCommand command{std::move(claim_end)};
    command.task = task;
    command.user = user_;
    command.epoch = claim(task);
    command.output_bytes = 1;
    command.call = 1;
    command.call_state = 2;
    const auto settled = tasks_.settle({&command, 1}).front();
    EXPECT_TRUE(settled && *settled != SettleOutcome::kNotOurs);
  }

  // The first words of the rules that are broken, by an audit of everything: in few parts, and in
  // as many as there can be.
  std::vector<std::string> broken() {
    const auto out = broken_by({});
    EXPECT_EQ(broken_by({.part = 1}), out) << "in other parts";
    EXPECT_EQ(broken_by({.recent = true, .resumes = true, .part = 3}), out) << "on the same day";
    return out;
  }
  std::vector<std::string> broken_by(const AuditOptions& options) {
    std::vector<std::string> out;
    const auto checks = audit(db_.url(), options);
    EXPECT_TRUE(checks) << (checks ? "" : checks.error().detail);
    for (const Check& check : *checks) {
      if (check.bad != 0) {
        out.push_back(check.name.substr(0, check.name.find(' ')));
      }
    }
    return out;
  }

  void run(const Sql& sql) { db_.execute(sql); }

  TestDatabase db_;
  Session session_{db_.url(), kOperatorPatience};
  Accounts accounts_{session_};
  TaskStore tasks_{db_.url()};
  int keys_ = 0;
  UserId user_, other_;
  TaskId queued_, waiting_, running_, done_, failed_, canceled_;
};

// It had other rules, and was stopped a moment ago.
TEST_F(AuditTest, AnAuditOfAnotherReleaseIsNotGoneOnWith) {
  for (const char* const bad : {"1,0", "", "many", "1,,2"}) {
    Sql note(
        "REPLACE INTO audit_runs (kind, stage, at, clean, bad, over_before, touched_at) "
        "VALUES (1,1,'',1,");
    db_.execute(note.bytes(bad) << ",UTC_TIMESTAMP(6),UTC_TIMESTAMP(6))");
    EXPECT_THAT(broken_by({.recent = true, .resumes = true}), IsEmpty()) << bad;
  }
}

TEST_F(AuditTest, NothingIsBrokenAtFirst) {
  EXPECT_THAT(broken(), IsEmpty());
  EXPECT_THAT(*audit(db_.url()), SizeIs(28));
}

TEST_F(AuditTest, I1BalanceDiffers) {
  run(Sql("UPDATE balances SET available=available+1 WHERE user_id=") << user_);
  EXPECT_THAT(broken(), ElementsAre("I1"));
}

TEST_F(AuditTest, I1BalanceIsMissing) {
  run(Sql("DELETE FROM balances WHERE user_id=") << other_);
  EXPECT_THAT(broken(), ElementsAre("I1"));
}

TEST_F(AuditTest, I1RowsAreMiscounted) {
  run(Sql("UPDATE balances SET seq=seq+1 WHERE user_id=") << user_);
  EXPECT_THAT(broken(), ElementsAre("I1"));
}

TEST_F(AuditTest, I1RowsOfNobody) {
  run(Sql("DELETE FROM users WHERE id=") << other_);
  EXPECT_THAT(broken(), ElementsAre("I1"));
}

TEST_F(AuditTest, I1RowsAreAllThatIsLeftOfAUser) {
  run(Sql("DELETE FROM users"));
  run(Sql("DELETE FROM balances"));
  EXPECT_THAT(broken(), testing::Contains("I1"));
}

TEST_F(AuditTest, I19UsageOfNobody) {
  for (const UserId user :
       {UserId{first_uuid_at(Instant(std::chrono::hours(1)))}, UserId::make()}) {
    run(Sql("INSERT INTO usage_hours VALUES (")
        << user << ",'2026-01-01',REPEAT('k',16),'',1,0,0,0,0,0)");
    EXPECT_THAT(broken(), ElementsAre("I19"));
    run(Sql("DELETE FROM usage_hours"));
  }
}

TEST_F(AuditTest, I2RowIsNotZero) {
  run(Sql("ALTER TABLE ledger DROP CONSTRAINT ledger_zero"));
  run(Sql("UPDATE ledger SET d_system=d_system+1 WHERE seq=1 AND user_id=") << user_);
  EXPECT_THAT(broken(), ElementsAre("I2"));
}

TEST_F(AuditTest, I3BalanceWasNegative) {
  run(Sql("ALTER TABLE ledger DROP CONSTRAINT ledger_after"));
  const Uuid first = new_uuid(), second = new_uuid();
  run(Sql("INSERT INTO ledger VALUES (") << other_ << ",1,4," << first << ",-5,0,5,-5,0,NOW(6)),("
                                         << other_ << ",2,3," << second << ",5,0,-5,0,0,NOW(6))");
  run(Sql("INSERT INTO grants VALUES (") << first << ",'x'," << other_ << ",4,-5,NOW(6)),("
                                         << second << ",'y'," << other_ << ",4,5,NOW(6))");
  run(Sql("UPDATE balances SET seq=2 WHERE user_id=") << other_);
  EXPECT_THAT(broken(), ElementsAre("I3"));
}

TEST_F(AuditTest, I4ChainIsBroken) {
  run(Sql("UPDATE ledger SET available_after=available_after+1 WHERE seq=2 AND user_id=") << user_);
  EXPECT_THAT(broken(), ElementsAre("I4"));
}

TEST_F(AuditTest, I5HoldHasAnotherSize) {
  run(Sql("UPDATE tasks SET held=held+1 WHERE id=") << failed_);
  EXPECT_THAT(broken(), ElementsAre("I5"));
}

TEST_F(AuditTest, I6ChargeDiffersFromTheLedger) {
  run(Sql("UPDATE tasks SET charged=charged-1 WHERE id=") << done_);
  EXPECT_THAT(broken(), ElementsAre("I6"));
}

TEST_F(AuditTest, I7FailureWasCharged) {
  run(Sql("ALTER TABLE tasks DROP CONSTRAINT tasks_refund"));
  run(Sql("UPDATE tasks SET state=4, failure=7, output_key=NULL, output_bytes=NULL, "
          "output_checksum=NULL, duration_ms=NULL WHERE id=")
      << done_);
  EXPECT_THAT(broken(), ElementsAre("I7"));
}

TEST_F(AuditTest, I8MoreIsReservedThanTheOpenHolds) {
  run(Sql("ALTER TABLE ledger DROP CONSTRAINT ledger_kind"));
  const Uuid id = new_uuid();
  run(Sql("INSERT INTO ledger VALUES (") << other_ << ",1,3," << id << ",5,7,-12,5,7,NOW(6))");
  run(Sql("INSERT INTO grants VALUES (") << id << ",'x'," << other_ << ",3,5,NOW(6))");
  run(Sql("UPDATE balances SET available=5, held=7, seq=1 WHERE user_id=") << other_);
  EXPECT_THAT(broken(), ElementsAre("I8"));
}

TEST_F(AuditTest, I9GrantIsMissing) {
  run(Sql("DELETE FROM grants WHERE reference='bonus'"));
  EXPECT_THAT(broken(), ElementsAre("I9"));
}

TEST_F(AuditTest, I9TaskIsMissing) {
  run(Sql("DELETE FROM idempotency WHERE task_id=") << canceled_);
  run(Sql("DELETE FROM tasks WHERE id=") << canceled_);
  EXPECT_THAT(broken(), ElementsAre("I9"));
}

TEST_F(AuditTest, I10OpenTaskIsForgotten) {
  run(Sql("UPDATE tasks SET wake_at=NULL WHERE id=") << queued_);
  // What is open is found as the sweeper finds it.
  EXPECT_THAT(broken(), ElementsAre("I8", "I10", "I22"));
}

TEST_F(AuditTest, I10FinalTaskIsNot) {
  run(Sql("UPDATE tasks SET wake_at=NOW(6) WHERE id=") << done_);
  EXPECT_THAT(broken(), ElementsAre("I10"));
}

TEST_F(AuditTest, I11KeyWithoutItsTask) {
  run(Sql("UPDATE idempotency SET task_id=") << new_uuid() << " WHERE task_id=" << done_);
  EXPECT_THAT(broken(), ElementsAre("I11"));
}

TEST_F(AuditTest, I11KeyOfAnotherUser) {
  run(Sql("UPDATE idempotency SET user_id=") << other_ << " WHERE task_id=" << done_);
  EXPECT_THAT(broken(), ElementsAre("I11"));
}

TEST_F(AuditTest, I12SucceededWithoutItsOutput) {
  run(Sql("UPDATE tasks SET output_checksum=NULL WHERE id=") << done_);
  EXPECT_THAT(broken(), ElementsAre("I12"));
}

TEST_F(AuditTest, I12AnOutputOfAnOlderProgramHasItsOwnHash) {
  run(Sql("UPDATE tasks SET output_checksum=NULL, output_sha256=REPEAT('x',32) WHERE id=")
      << done_);
  EXPECT_THAT(broken(), IsEmpty());
}

TEST_F(AuditTest, I12QueuedWithAReason) {
  run(Sql("ALTER TABLE tasks DROP CONSTRAINT tasks_failure"));
  run(Sql("UPDATE tasks SET failure=1 WHERE id=") << queued_);
  EXPECT_THAT(broken(), ElementsAre("I12"));
}

TEST_F(AuditTest, I12RunningWithoutALease) {
  run(Sql("ALTER TABLE tasks DROP CONSTRAINT tasks_lease"));
  run(Sql("UPDATE tasks SET lease_until=NULL WHERE id=") << running_);
  EXPECT_THAT(broken(), ElementsAre("I12"));
}

TEST_F(AuditTest, I13GrantIsNotBookedAsItIs) {
  run(Sql("UPDATE grants SET amount=amount+1 WHERE reference='bonus'"));
  EXPECT_THAT(broken(), ElementsAre("I13"));
}

TEST_F(AuditTest, I13GrantIsNotBooked) {
  run(Sql("INSERT INTO grants VALUES (") << new_uuid() << ",'x'," << other_ << ",3,5,NOW(6))");
  EXPECT_THAT(broken(), ElementsAre("I13"));
}

TEST_F(AuditTest, I13PurchaseOpenedNoAccess) {
  run(Sql("UPDATE users SET purchased=0 WHERE id=") << user_);
  EXPECT_THAT(broken(), ElementsAre("I13"));
}

TEST_F(AuditTest, I14SweeperLooksTooLate) {
  run(Sql("UPDATE tasks SET wake_at=deadline_at + INTERVAL 4 SECOND WHERE id=") << queued_);
  EXPECT_THAT(broken(), IsEmpty());
  run(Sql("UPDATE tasks SET wake_at=deadline_at + INTERVAL 6 SECOND WHERE id=") << queued_);
  EXPECT_THAT(broken(), ElementsAre("I14"));
}

TEST_F(AuditTest, I15ProviderCallIsMissing) {
  run(Sql("UPDATE tasks SET attempts=2 WHERE id=") << done_);
  EXPECT_THAT(broken(), ElementsAre("I15"));
}

TEST_F(AuditTest, I15ProviderCallsAreNotCounted) {
  run(Sql("INSERT INTO past_attempts (task_id, n, epoch, provider, state, started_at, ended_at) "
          "VALUES (")
      << done_ << ",2,1,'p',3,NOW(6),NOW(6))");
  EXPECT_THAT(broken(), ElementsAre("I15"));
}

TEST_F(AuditTest, I15OldProviderCallsMayBeGone) {
  run(Sql("UPDATE tasks SET attempts=3 WHERE id=") << done_);
  EXPECT_THAT(broken(), ElementsAre("I15"));
  run(Sql("UPDATE retention SET attempts_to=") << done_);
  EXPECT_THAT(broken(), IsEmpty());
  run(Sql("INSERT INTO past_attempts (task_id, n, epoch, provider, state, started_at, ended_at) "
          "VALUES (")
      << done_ << ",2,1,'p',3,NOW(6),NOW(6))");
  EXPECT_THAT(broken(), ElementsAre("I15")) << "but all of them together";
}

TEST_F(AuditTest, I16NewestProviderCallSaysNotWhenItEnded) {
  run(Sql("UPDATE tasks SET attempt_ended_at=NULL WHERE id=") << done_);
  EXPECT_THAT(broken(), ElementsAre("I16"));
}

TEST_F(AuditTest, I16NewestProviderCallIsNobodys) {
  run(Sql("UPDATE tasks SET attempt_provider='p' WHERE id=") << queued_);
  EXPECT_THAT(broken(), ElementsAre("I16"));
}

TEST_F(AuditTest, I17ProviderCallOfAFinalTaskGoesOn) {
  run(Sql("UPDATE tasks SET attempt_state=1, attempt_ended_at=NULL WHERE id=") << done_);
  EXPECT_THAT(broken(), ElementsAre("I17"));
}

TEST_F(AuditTest, I22ReleasedTasksAreMiscounted) {
  run(Sql("UPDATE balances SET released=released+1 WHERE user_id=") << user_);
  EXPECT_THAT(broken(), ElementsAre("I22"));
}

TEST_F(AuditTest, I22ParkedTasksAreNotCounted) {
  run(Sql("UPDATE tasks SET lane=2, wake_at=deadline_at WHERE id=") << queued_);
  EXPECT_THAT(broken(), ElementsAre("I22"));
}

TEST_F(AuditTest, I22AParkedTaskIsBehindTheMark) {
  run(Sql("UPDATE tasks SET lane=2, wake_at=deadline_at WHERE id=") << queued_);
  run(Sql("UPDATE balances SET released=released-1, parked=1, crowded=1, parked_after=seq WHERE "
          "user_id=(SELECT user_id FROM tasks WHERE id=")
      << queued_ << ")");
  EXPECT_THAT(broken(), ElementsAre("I22"));
}

TEST_F(AuditTest, I23MoreLeasesLostThanGiven) {
  run(Sql("UPDATE tasks SET lost_leases=1, epoch=2 WHERE id=") << queued_);
  EXPECT_THAT(broken(), IsEmpty());
  run(Sql("UPDATE tasks SET lost_leases=2, epoch=3 WHERE id=") << queued_);
  EXPECT_THAT(broken(), ElementsAre("I23"));
}

TEST_F(AuditTest, L1SweeperDoesNotLook) {
  run(Sql("UPDATE tasks SET wake_at=UTC_TIMESTAMP(6) - INTERVAL 50 SECOND WHERE id=") << running_);
  EXPECT_THAT(broken(), IsEmpty());
  run(Sql("UPDATE tasks SET wake_at=UTC_TIMESTAMP(6) - INTERVAL 61 SECOND WHERE id=") << running_);
  EXPECT_THAT(broken(), ElementsAre("L1"));
}

// Without a broker nobody sends its hint, and no row is written for that it waits.
TEST_F(AuditTest, L1IsNoMatterOfHowLongTheQueueIs) {
  run(Sql("UPDATE tasks SET wake_at=UTC_TIMESTAMP(6) - INTERVAL 61 SECOND WHERE id=") << queued_);
  EXPECT_THAT(broken(), IsEmpty());
  run(Sql("UPDATE tasks SET epoch=2, next_run_at=wake_at - INTERVAL 15 SECOND WHERE id=")
      << queued_);
  EXPECT_THAT(broken(), IsEmpty()) << "given back by a worker that ended";
}

TEST_F(AuditTest, L2LeaseIsOver) {
  run(Sql("UPDATE tasks SET lease_until=UTC_TIMESTAMP(6) - INTERVAL 50 SECOND WHERE id=")
      << running_);
  EXPECT_THAT(broken(), IsEmpty());
  run(Sql("UPDATE tasks SET lease_until=UTC_TIMESTAMP(6) - INTERVAL 61 SECOND WHERE id=")
      << running_);
  EXPECT_THAT(broken(), ElementsAre("L2"));
}

TEST_F(AuditTest, L3DeadlineHasPassed) {
  // Looked at in time, and still open.
  run(Sql("UPDATE tasks SET wake_at=UTC_TIMESTAMP(6), deadline_at=UTC_TIMESTAMP(6) - INTERVAL 50 "
          "SECOND WHERE id=")
      << queued_);
  EXPECT_THAT(broken(), IsEmpty());
  run(Sql("UPDATE tasks SET deadline_at=UTC_TIMESTAMP(6) - INTERVAL 61 SECOND WHERE id=")
      << queued_);
  EXPECT_THAT(broken(), ElementsAre("L3"));
}

// On a new connection there is no snapshot and no time of it: everything would look right.
TEST_F(AuditTest, ALostConnectionEndsIt) {
  run(Sql("UPDATE tasks SET deadline_at=UTC_TIMESTAMP(6) - INTERVAL 61 SECOND WHERE id=")
      << queued_);
  for (const char* after : {"SET @now", "SNAPSHOT", "LAG(l.seq)"}) {
    test::TcpProxy proxy(db_.url().port);
    proxy.drop_reply_after(after, test::TcpProxy::Cut::kReset);
    const auto checks = audit(db_.tcp_url(proxy.port()));
    EXPECT_EQ(proxy.triggered(), 1) << after;
    EXPECT_FALSE(checks) << after;
  }
}

TEST_F(AuditTest, ALongQueueIsNoFault) {
  run(Sql("UPDATE tasks SET created_at=created_at - INTERVAL 10 MINUTE, next_run_at=next_run_at - "
          "INTERVAL 10 MINUTE WHERE id=")
      << queued_);
  EXPECT_THAT(broken(), IsEmpty());
}

TEST_F(AuditTest, I18DeletedButNotErased) {
  run(Sql("UPDATE tasks SET deleted_at=UTC_TIMESTAMP(6) WHERE id=") << failed_);
  EXPECT_THAT(broken(), ElementsAre("I18"));
}

TEST_F(AuditTest, I18ErasedButOpen) {
  run(Sql("UPDATE tasks SET deleted_at=UTC_TIMESTAMP(6), request='' WHERE id=") << queued_);
  EXPECT_THAT(broken(), ElementsAre("I18"));
}

TEST_F(AuditTest, I18DeletedWithAFile) {
  run(Sql("UPDATE tasks SET deleted_at=UTC_TIMESTAMP(6), request='' WHERE id=") << done_);
  EXPECT_THAT(broken(), ElementsAre("I18"));
}

// What usage has, in each of its columns, more or less than the ledger.
TEST_F(AuditTest, I19UsageIsNotTheLedger) {
  run(Sql("UPDATE ledger SET created_at=UTC_DATE()"));  // One hour.
  Usage usage(session_);
  ASSERT_TRUE(usage.roll_up(std::nullopt));
  EXPECT_THAT(broken(), IsEmpty());
  for (const char* const change : {"generations=generations+1",
                                   "generations=generations-1",
                                   "succeeded=succeeded+1",
                                   "failed=failed-1",
                                   "canceled=canceled+1",
                                   "audio_ms=audio_ms+1",
                                   "charged=charged-1",
                                   "starts_at=starts_at - INTERVAL 1 HOUR",
                                   "key_id=UNHEX(REPEAT('07', 16))"}) {
    run(Sql("CREATE TABLE kept AS SELECT * FROM usage_hours"));
    const std::string wrong =
        "UPDATE usage_hours SET " + std::string(change) + " ORDER BY charged DESC LIMIT 1";
    run(Sql::trusted(wrong));
    EXPECT_THAT(broken(), ElementsAre("I19")) << change;
    run(Sql("DELETE FROM usage_hours"));
    EXPECT_THAT(broken(), ElementsAre("I19")) << "nothing at all";
    run(Sql("INSERT INTO usage_hours SELECT * FROM kept"));
    run(Sql("DROP TABLE kept"));
    EXPECT_THAT(broken(), IsEmpty());
  }
}

TEST_F(AuditTest, I19TheMarkIsNotWhereUsageIs) {
  Usage usage(session_);
  ASSERT_TRUE(usage.roll_up(std::nullopt));
  run(Sql("UPDATE usage_marks SET seq=seq-1 WHERE user_id=") << user_);
  EXPECT_THAT(broken(), ElementsAre("I19"));
  run(Sql("UPDATE usage_marks SET seq=seq+2 WHERE user_id=") << user_);
  EXPECT_THAT(broken(), ElementsAre("I19")) << "ahead of the ledger";
  run(Sql("DELETE FROM usage_marks"));
  EXPECT_THAT(broken(), ElementsAre("I19")) << "it would all be added once more";
}

// What a limited key has spent, more or less than the ledger, or counted from elsewhere.
TEST_F(AuditTest, I20SpentIsNotTheLedger) {
  Keys keys(session_);
  const auto key =
      keys.add(user_, {.name = "k", .spend_limit = SpendLimit{credits(1000)}}, make_api_key("svc"));
  ASSERT_TRUE(key);
  for (const auto kind : {ClaimEnd::Kind::kSucceed, ClaimEnd::Kind::kFail}) {
    CreateCommand command{
        .id = TaskId::make(), .user = user_, .key = key->id, .limited = true, .request = "{}"};
    ASSERT_TRUE(tasks_.create({&command, 1}).front());
    settle(command.id, {.kind = kind, .output_key = "key", .duration_ms = 60'000});
  }
  EXPECT_THAT(broken(), IsEmpty());
  EXPECT_EQ(roll_up_spending(session_, user_, 100), 0U);
  EXPECT_THAT(broken(), IsEmpty());
  for (const char* const wrong : {"UPDATE spend_days SET spent=spent+1",
                                  "UPDATE spend_days SET spent=spent-1",
                                  "UPDATE spend_days SET day=day - INTERVAL 1 DAY",
                                  "UPDATE spend_days SET key_id=UNHEX(REPEAT('07', 16))",
                                  "DELETE FROM spend_days",
                                  "UPDATE spend_marks SET seq=after_seq",
                                  "UPDATE spend_marks SET seq=seq+1",
                                  "UPDATE spend_marks SET after_seq=seq",
                                  "UPDATE spend_marks SET user_id=UNHEX(REPEAT('07', 16))",
                                  "DELETE FROM spend_marks",
                                  "UPDATE api_keys SET spend_limit=NULL, spend_period=NULL"}) {
    for (const char* const table : {"api_keys", "spend_days", "spend_marks"}) {
      run(Sql::trusted("CREATE TABLE kept_" + std::string(table) + " AS SELECT * FROM " + table));
    }
    run(Sql::trusted(wrong));
    EXPECT_THAT(broken(), ElementsAre("I20")) << wrong;
    for (const char* const table : {"api_keys", "spend_days", "spend_marks"}) {
      run(Sql::trusted("DELETE FROM " + std::string(table)));
      run(Sql::trusted("INSERT INTO " + std::string(table) + " SELECT * FROM kept_" + table));
      run(Sql::trusted("DROP TABLE kept_" + std::string(table)));
    }
    EXPECT_THAT(broken(), IsEmpty()) << wrong;
  }
}

TEST_F(AuditTest, I21AnEndedAccountGoesOn) {
  const std::string end =
      "UPDATE users SET deleted_at=UTC_TIMESTAMP(6), email='x@deleted.invalid' WHERE id=";
  run(Sql("UPDATE users SET deleted_at=UTC_TIMESTAMP(6) WHERE id=") << other_);
  EXPECT_THAT(broken(), ElementsAre("I21")) << "its address is not free";
  run(Sql::trusted(end) << other_);
  EXPECT_THAT(broken(), IsEmpty());
  run(Sql("INSERT INTO api_keys (id, user_id, key_hash, prefix, name, created_at) VALUES (")
      << UserId::make() << "," << other_ << ",'h','p','n',UTC_TIMESTAMP(6))");
  EXPECT_THAT(broken(), ElementsAre("I21")) << "it has a key";
}

TEST_F(AuditTest, I21AnEndedAccountKeepsItsTasks) {
  run(Sql("UPDATE users SET deleted_at=UTC_TIMESTAMP(6), email='x@deleted.invalid' WHERE id=")
      << user_);
  EXPECT_THAT(broken(), ElementsAre("I21"));
  run(Sql("INSERT INTO account_deletions VALUES (") << user_ << ",UTC_TIMESTAMP(6),1)");
  EXPECT_THAT(broken(), IsEmpty()) << "it is being done";
  run(Sql("UPDATE account_deletions SET asked_at=asked_at - INTERVAL 61 MINUTE"));
  EXPECT_THAT(broken(), ElementsAre("L5"));
  run(Sql("UPDATE account_deletions SET asked_at=UTC_TIMESTAMP(6), user_id=") << other_);
  EXPECT_THAT(broken(), ElementsAre("I21")) << "one is wiped that has not ended";
}

TEST_F(AuditTest, L4AFileIsForgotten) {
  run(Sql("INSERT INTO deletions VALUES (") << done_ << ", UTC_TIMESTAMP(6) - INTERVAL 61 SECOND)");
  EXPECT_THAT(broken(), IsEmpty()) << "nobody deleted it: it could not be removed in time";
  run(Sql("UPDATE tasks SET request='', deleted_at=UTC_TIMESTAMP(6) - INTERVAL 61 SECOND, "
          "output_deleted_at=UTC_TIMESTAMP(6) WHERE id=")
      << done_);
  EXPECT_THAT(broken(), ElementsAre("L4"));
}

// All that is there, as though it were of a week ago and taken into usage.
class OldAuditTest : public AuditTest {
 protected:
  OldAuditTest() {
    settle(queued_, {.kind = ClaimEnd::Kind::kFail});
    for (const TaskId task : {waiting_, running_}) {
      EXPECT_TRUE(tasks_.cancel(task));
    }
    for (const char* const table : {"tasks", "ledger", "grants", "idempotency"}) {
      run(Sql::trusted("UPDATE " + std::string(table) +
                       " SET created_at=created_at - INTERVAL 7 DAY"));
    }
    EXPECT_TRUE(Usage(session_).roll_up(std::nullopt));
    EXPECT_THAT(recent(), IsEmpty());
  }

  std::vector<std::string> recent(std::size_t part = 3) {
    return broken_by({.recent = true, .part = part});
  }
  std::vector<std::string> full() { return broken_by({}); }
};

TEST_F(OldAuditTest, WhatWasRightIsNotReadAgainUnlessAllIs) {
  run(Sql("ALTER TABLE ledger DROP CONSTRAINT ledger_zero"));
  for (const auto& [wrong, right, rule] :
       {std::tuple("UPDATE tasks SET held=held+1 ORDER BY id LIMIT 1",
                   "UPDATE tasks SET held=held-1 ORDER BY id LIMIT 1",
                   "I5"),
        std::tuple("UPDATE ledger SET d_system=d_system+1 WHERE seq=2",
                   "UPDATE ledger SET d_system=d_system-1 WHERE seq=2",
                   "I2"),
        std::tuple("UPDATE grants SET amount=amount+1 WHERE reference='bonus'",
                   "UPDATE grants SET amount=amount-1 WHERE reference='bonus'",
                   "I13"),
        std::tuple("UPDATE usage_hours SET failed=failed+1",
                   "UPDATE usage_hours SET failed=failed-1",
                   "I19")}) {
    run(Sql::trusted(wrong));
    EXPECT_THAT(recent(), IsEmpty()) << rule;
    EXPECT_THAT(full(), ElementsAre(rule));
    run(Sql::trusted(right));
  }
  EXPECT_THAT(full(), IsEmpty());
}

TEST_F(OldAuditTest, WhatComesBehindItIsAddedToWhatWasRight) {
  const TaskId task = create();
  settle(task, {.kind = ClaimEnd::Kind::kSucceed, .output_key = "k", .duration_ms = 60'000});
  ASSERT_TRUE(Usage(session_).roll_up(std::nullopt));
  EXPECT_THAT(broken(), IsEmpty());
  for (const auto& [wrong, right, rule] :
       {std::tuple("UPDATE balances SET available=available+1 WHERE seq>0",
                   "UPDATE balances SET available=available-1 WHERE seq>0",
                   "I1"),
        std::tuple("UPDATE ledger SET available_after=available_after+1 ORDER BY seq DESC LIMIT 1",
                   "UPDATE ledger SET available_after=available_after-1 ORDER BY seq DESC LIMIT 1",
                   "I4"),
        std::tuple("UPDATE usage_hours SET failed=failed+1 ORDER BY starts_at DESC LIMIT 1",
                   "UPDATE usage_hours SET failed=failed-1 ORDER BY starts_at DESC LIMIT 1",
                   "I19")}) {
    run(Sql::trusted(wrong));
    EXPECT_THAT(broken(), ElementsAre(rule));
    run(Sql::trusted(right));
  }
  EXPECT_THAT(broken(), IsEmpty());
}

// The chain is held by the last row that was right.
TEST_F(OldAuditTest, AChainThatWasCutAtTheMarkIsFound) {
  create();
  EXPECT_THAT(recent(), IsEmpty());
  run(Sql("DELETE l FROM ledger l JOIN audit_marks k ON k.user_id=l.user_id AND k.seq=l.seq"));
  EXPECT_THAT(recent(), testing::Contains("I4"));
}

TEST_F(OldAuditTest, WhatIsWrongIsFoundAgainUntilItIsRight) {
  run(Sql("DELETE FROM audit_progress"));
  run(Sql("DELETE FROM audit_marks"));
  run(Sql("UPDATE tasks SET held=held+1 ORDER BY id LIMIT 1"));
  run(Sql("UPDATE balances SET available=available+1 WHERE seq>0"));
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(recent(1), ElementsAre("I1", "I5"));
  }
  run(Sql("UPDATE tasks SET held=held-1 ORDER BY id LIMIT 1"));
  run(Sql("UPDATE balances SET available=available-1 WHERE seq>0"));
  EXPECT_THAT(recent(1), IsEmpty());
}

// What is still open may change.
TEST_F(OldAuditTest, AnOpenTaskIsReadAgain) {
  run(Sql("DELETE FROM audit_progress"));
  const TaskId open = create();
  run(Sql("UPDATE tasks SET created_at=created_at - INTERVAL 7 DAY WHERE id=") << open);
  EXPECT_THAT(recent(), IsEmpty());
  run(Sql("UPDATE tasks SET held=held+1 WHERE id=") << open);
  EXPECT_THAT(recent(), testing::Contains("I5"));
}

// Nobody has said yet what usage comes to of it.
TEST_F(OldAuditTest, WhatUsageHasNotTakenInIsReadAgain) {
  run(Sql("DELETE FROM audit_marks"));
  run(Sql("DELETE FROM usage_hours"));
  run(Sql("DELETE FROM usage_marks"));
  EXPECT_THAT(recent(), IsEmpty());
  ASSERT_TRUE(Usage(session_).roll_up(std::nullopt));
  run(Sql("UPDATE usage_hours SET failed=failed+1"));
  EXPECT_THAT(recent(), ElementsAre("I19"));
}

// All of it is to be wiped, however old.
TEST_F(OldAuditTest, AnAccountThatEndsIsReadAsAWhole) {
  run(Sql("UPDATE users SET deleted_at=UTC_TIMESTAMP(6), email='x@deleted.invalid' WHERE id=")
      << user_);
  EXPECT_THAT(recent(), ElementsAre("I21"));
}

TEST_F(OldAuditTest, AnInterruptedOneGoesOnAndForgetsNothing) {
  for (const bool is_recent : {false, true}) {
    const AuditOptions options{.recent = is_recent, .resumes = true, .part = 1};
    test::TcpProxy proxy(db_.url().port);
    proxy.drop_reply_after("FROM grants g", test::TcpProxy::Cut::kReset);
    create();  // So that there is something to read of everything.
    grant(credits(1), GrantKind::kBonus, is_recent ? "recent" : "full");
    run(Sql("UPDATE balances SET available=available+1 WHERE seq>0"));
    EXPECT_FALSE(audit(db_.tcp_url(proxy.port()), options));
    ASSERT_EQ(proxy.triggered(), 1);
    // Until the server notices that nobody is there, it is still at it, and another goes on with
    // nothing.
    ASSERT_TRUE(test::eventually(std::chrono::seconds(20), [&] {
      return db_.number(Sql("SELECT IS_FREE_LOCK(").append(lock_name("audit")) << ")") == 1;
    }));
    run(Sql("UPDATE balances SET available=available-1 WHERE seq>0"));
    EXPECT_THAT(broken_by(options), ElementsAre("I1")) << "it was, when that was read";
    EXPECT_THAT(broken_by(options), IsEmpty()) << "a new one";
  }
}

TEST_F(AuditTest, WorkGoingOnIsNoFault) {
  // There is neither a sweeper nor a worker: the fixture's own tasks would be late in a minute.
  run(
      Sql("UPDATE tasks SET wake_at=wake_at + INTERVAL 1 HOUR, lease_until=lease_until + INTERVAL "
          "1 HOUR, deadline_at=deadline_at + INTERVAL 1 HOUR WHERE wake_at IS NOT NULL"));
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      Session session(db_.url(), kOperatorPatience);
      Accounts accounts(session);
      TaskStore tasks(db_.url());
      for (int n = 0; !stop; ++n) {
        EXPECT_TRUE(accounts.grant(
            other_, credits(150), GrantKind::kBonus, std::to_string(i) + "-" + std::to_string(n)));
        CreateCommand command{.id = TaskId::make(),
                              .user = other_,
                              .idempotency_key = std::to_string(i) + "-" + std::to_string(n),
                              .request = "{}"};
        // The other thread's transactions hold the balance now and then.
        EXPECT_TRUE(test::eventually(60s, [&] {
          return bool(tasks.create({&command, 1}).front());
        }));
        EXPECT_TRUE(tasks.cancel(command.id));
      }
    });
  }
  constexpr std::size_t kPart = 50;  // Which work does not outrun.
  for (int i = 0; i < 5; ++i) {
    EXPECT_THAT(broken_by({}), IsEmpty());
    EXPECT_THAT(broken_by({.part = kPart}), IsEmpty());
    EXPECT_THAT(broken_by({.recent = true, .resumes = true, .part = kPart}), IsEmpty());
  }
  stop = true;
  for (std::thread& thread : threads) {
    thread.join();
  }
}

}  // namespace
}  // namespace audiogen::store
