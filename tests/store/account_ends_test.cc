// The end of an account: what is over at once, what is wiped after it, and that the books stay.
#include "common/store/account_ends.h"

#include <algorithm>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "api/console/account_eraser.h"
#include "common/domain/sign_in.h"
#include "common/store/mail_links.h"
#include "common/store/passkeys.h"
#include "common/store/web_sessions.h"
#include "tests/store/doors_fixture.h"
#include "tests/store/task_fixture.h"

namespace audiogen::store {
namespace {

constexpr const char* kAddress = "ann@example.com";

class AccountEndsTest : public DoorsTest {
 protected:
  AccountEndsTest() : ann_(make_user(kAddress, Plan::kPaid)) {
    const NewToken link = make_token();
    EXPECT_TRUE(sessions_.add_link(ann_, link.hash));
    const auto opened = sessions_.open_by_link(link.hash,
                                               {.id = SessionId::make(),
                                                .token_hash = cookie_.hash,
                                                .user_agent = "",
                                                .address = "192.0.2.1",
                                                .replaces = std::nullopt});
    EXPECT_TRUE(opened);
    session_id_ = opened->session.id;
  }

  void grant(std::int64_t whole) {
    EXPECT_TRUE(accounts_.grant(
        ann_, credits(whole), GrantKind::kPurchase, "r" + std::to_string(++grants_)));
  }
  // Settles those that are open, with an output each.
  void finish(const std::vector<TaskId>& ids) {
    for (const TaskId id : ids) {
      const Hint hint{.task = id, .epoch = 0};
      const WorkerId worker = WorkerId::make();
      const auto claimed =
          tasks_.claim({&hint, 1}, worker, [](const Claim&) { return std::string("local"); })
              .front();
      ASSERT_TRUE(claimed && *claimed);
      SettleCommand settle{{.kind = ClaimEnd::Kind::kSucceed,
                            .epoch = (*claimed)->epoch,
                            .output_key = "key",
                            .duration_ms = 1'000}};
      settle.task = id;
      settle.user = ann_;
      settle.output_bytes = 1;
      settle.call = 1;
      settle.call_state = 2;
      const auto settled = tasks_.settle({&settle, 1}).front();
      EXPECT_TRUE(settled && *settled == SettleOutcome::kSettled);
    }
  }
  void end() {
    const auto ended = ends_.end(ann_, session_id_, kAddress, true);
    ASSERT_TRUE(ended) << ended.error().detail;
  }
  Wiping wipe() {
    const auto wiped = ends_.wipe(ann_);
    EXPECT_TRUE(wiped);
    return wiped ? *wiped : Wiping::kLater;
  }
  // Until something is in the way, or nothing is left.
  Wiping wipe_on() {
    Wiping last = Wiping::kMore;
    while (last == Wiping::kMore) {
      last = wipe();
    }
    return last;
  }
  void cancel_all() {
    std::uint64_t to = 0;
    for (auto more = ends_.cancel_tasks(tasks_, ann_, to); more && *more;
         more = ends_.cancel_tasks(tasks_, ann_, to)) {
    }
  }
  void a_minute_later() {
    db_.execute(Sql("UPDATE account_deletions SET asked_at=asked_at - INTERVAL 2 MINUTE"));
  }
  std::int64_t not_wiped() {
    return db_.number(Sql("SELECT COUNT(*) FROM tasks WHERE request<>'' OR deleted_at IS NULL"));
  }

  AccountEnds ends_{session_};
  WebSessions sessions_{session_};
  const NewToken cookie_ = make_token();
  const UserId ann_;
  SessionId session_id_{};
  int grants_ = 0;
};

// Of every table there is, so that one that comes later is thought of.
TEST_F(AccountEndsTest, NothingOfHisStaysButTheBooks) {
  ASSERT_TRUE(keys_.add(ann_,
                        {.name = "k", .spend_limit = SpendLimit{.amount = credits(1000)}},
                        make_api_key("svc")));
  ASSERT_TRUE(sessions_.set_password(ann_, session_id_, "encoded", std::nullopt));
  const NewPasskey passkey{
      .id = PasskeyId::make(), .name = "p", .credential_id = "id", .public_key = "key"};
  const AnsweredChallenge answered{.hash = make_token().hash,
                                   .expires_at = session_.now() + std::chrono::minutes(5)};
  ASSERT_TRUE(Passkeys(session_).add(ann_, session_id_, passkey, answered));
  ASSERT_TRUE(sessions_.add_link(ann_, make_token().hash));
  ASSERT_TRUE(
      MailLinks(session_).ask_change(ann_, session_id_, "x@example.com", make_token().hash));
  end();
  const std::set<std::string> books = {"balances",
                                       "ledger",
                                       "grants",
                                       "tasks",
                                       "api_keys",
                                       "usage_hours",
                                       "usage_marks",
                                       "account_deletions",
                                       "idempotency"};
  std::set<std::string> kept;
  const std::string tables =
      db_.text(Sql("SELECT GROUP_CONCAT(DISTINCT table_name) FROM information_schema.columns WHERE "
                   "table_schema=DATABASE() AND column_name='user_id'"));
  std::istringstream names(tables);
  for (std::string name; std::getline(names, name, ',');) {
    if (!books.contains(name) &&
        db_.number(Sql::trusted("SELECT COUNT(*) FROM " + name + " WHERE user_id=") << ann_) != 0) {
      kept.insert(name);
    }
  }
  EXPECT_EQ(kept, std::set<std::string>());
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM spend_days")), 0);
}

TEST_F(AccountEndsTest, EveryWayInEndsAtOnce) {
  const NewApiKey key = make_api_key("svc");
  ASSERT_TRUE(keys_.add(ann_, {.name = "laptop"}, key));
  const auto rotated = keys_.list(ann_);
  const NewApiKey second = make_api_key("svc");
  ASSERT_TRUE(keys_.rotate(ann_, rotated->front().id, std::chrono::hours(2), second, {}));
  ASSERT_TRUE(sessions_.set_password(ann_, session_id_, "encoded", std::nullopt));
  const auto password = sessions_.password_of("ann@example.com");
  const NewToken link = make_token(), change = make_token();
  ASSERT_TRUE(sessions_.add_link(ann_, link.hash));
  ASSERT_TRUE(MailLinks(session_).ask_change(ann_, session_id_, "x@example.com", change.hash));
  const NewWebSession by_issuer{.id = SessionId::make(),
                                .token_hash = make_token().hash,
                                .user_agent = "",
                                .address = "",
                                .replaces = std::nullopt};
  const NamedPerson named{.identity = make_token().hash,
                          .issuer = "https://login.example.com",
                          .email = "ann@example.com"};
  ASSERT_TRUE(sessions_.open_by_identity(named, SignUp::kClosed, by_issuer));
  end();
  EXPECT_EQ(
      code_of(sessions_.open_by_identity({.identity = named.identity}, SignUp::kClosed, by_issuer)),
      FaultCode::kBadLogin);
  for (const Sha256& hash : {key.hash, second.hash}) {
    const auto found = tasks_.find_keys(std::span(&hash, 1)).front();
    EXPECT_TRUE(found && !*found);
  }
  const auto session = tasks_.find_sessions(std::span(&cookie_.hash, 1)).front();
  EXPECT_TRUE(session && !*session);
  const NewWebSession made{.id = SessionId::make(),
                           .token_hash = make_token().hash,
                           .user_agent = "",
                           .address = "",
                           .replaces = std::nullopt};
  EXPECT_EQ(code_of(sessions_.open_by_link(link.hash, made)), FaultCode::kBadLogin);
  EXPECT_EQ(code_of(sessions_.open_by_password(**password, made)), FaultCode::kBadLogin);
  EXPECT_EQ(code_of(MailLinks(session_).confirm_change(ann_, change.hash)), FaultCode::kBadLogin);
  EXPECT_EQ(code_of(sessions_.add_link(ann_, make_token().hash)), FaultCode::kNoSuchUser);
  EXPECT_EQ(code_of(keys_.add(ann_, {.name = "k"}, make_api_key("svc"))), FaultCode::kNoSuchUser);
  EXPECT_EQ(code_of(accounts_.set_email(ann_, "ann@example.com")), FaultCode::kNoSuchUser);
  EXPECT_EQ(accounts_.find(ann_)->email, address_of_deleted(ann_));
  make_user("ann@example.com");
  expect_sound();
}

TEST_F(AccountEndsTest, ItTakesAFreshSessionOfItsOwn) {
  const UserId bob = make_user("bob@example.com");
  EXPECT_EQ(code_of(ends_.end(bob, session_id_, "bob@example.com", true)),
            FaultCode::kNoSuchSession);
  db_.execute(Sql("UPDATE sessions SET created_at=created_at - INTERVAL 10 MINUTE"));
  EXPECT_EQ(code_of(ends_.end(ann_, session_id_, kAddress, true)), FaultCode::kNotFresh);
  EXPECT_EQ(accounts_.find(ann_)->email, "ann@example.com");
  EXPECT_EQ(ends_.open()->size(), 0U);
}

TEST_F(AccountEndsTest, ItTakesItsAddress) {
  make_user("bob@example.com");
  EXPECT_EQ(code_of(ends_.end(ann_, session_id_, "bob@example.com", true)),
            FaultCode::kOtherAddress);
  EXPECT_EQ(ends_.open()->size(), 0U);
  EXPECT_TRUE(ends_.end(ann_, session_id_, kAddress, true));
}

TEST_F(AccountEndsTest, CreditsAreLostOnlyWhenThatIsSaid) {
  grant(200);
  create_tasks(ann_, 1);
  const auto refused = ends_.end(ann_, session_id_, kAddress, false);
  ASSERT_EQ(code_of(refused), FaultCode::kCreditsLeft);
  EXPECT_EQ(refused.error().available, credits(200)) << "what is reserved comes back, too";
  EXPECT_TRUE(keys_.add(ann_, {.name = "k"}, make_api_key("svc"))) << "nothing has ended";
  ASSERT_TRUE(ends_.end(ann_, session_id_, kAddress, true));
  cancel_all();
  EXPECT_EQ(accounts_.find(ann_)->balance.available, credits(200)) << "it stays on the books";
  expect_sound();
}

TEST_F(AccountEndsTest, OneWithManyOpenTasksKeepsNoOtherWaiting) {
  grant(1'000'000);
  create_tasks(ann_, 4'100);
  const UserId bob = make_user("bob@example.com");
  ASSERT_TRUE(accounts_.grant(bob, credits(1'000), GrantKind::kPurchase, "bob"));
  create_tasks(bob, 1);
  end();
  db_.execute(Sql("UPDATE users SET deleted_at=UTC_TIMESTAMP(6) WHERE id=") << bob);
  db_.execute(Sql("INSERT INTO account_deletions (user_id, asked_at, next_seq) SELECT ")
              << bob << ", asked_at, next_seq FROM account_deletions");
  ASSERT_EQ(*ends_.open(), (std::vector<UserId>{ann_, bob}));
  api::Canceled canceled;
  EXPECT_FALSE(api::wipe_ended_accounts(ends_, tasks_, canceled, {}));
  EXPECT_TRUE(canceled.empty());
  const auto ended = [&](UserId user) {
    return db_.number(
        Sql("SELECT UNIX_TIMESTAMP(MAX(updated_at))*1000000 FROM tasks WHERE user_id=") << user);
  };
  EXPECT_LT(ended(bob), ended(ann_));
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM tasks WHERE charged IS NULL")), 0);
  EXPECT_EQ(accounts_.find(ann_)->balance.held, Units{});
}

// Nobody could use it. What was booked before is told so again, and the books can be put right.
TEST_F(AccountEndsTest, NothingIsGivenToItAnyMore) {
  grant(200);
  end();
  const auto again = accounts_.grant(ann_, credits(200), GrantKind::kPurchase, "r1");
  ASSERT_TRUE(again) << again.error().detail;
  EXPECT_TRUE(again->repeated);
  for (const GrantKind kind :
       {GrantKind::kPurchase, GrantKind::kPlan, GrantKind::kBonus, GrantKind::kAdjustment}) {
    const auto refused = accounts_.grant(ann_, credits(1), kind, "late");
    EXPECT_EQ(code_of(refused), FaultCode::kAccountEnded);
    EXPECT_EQ(refused.error().about, ann_.text());
  }
  EXPECT_EQ(code_of(accounts_.set_plan(ann_, Plan::kFree)), FaultCode::kAccountEnded);
  EXPECT_EQ(accounts_.find(ann_)->plan, Plan::kPaid);
  EXPECT_EQ(
      accounts_.grant(ann_, credits(-200), GrantKind::kAdjustment, "back")->user.balance.available,
      Units{});
  expect_sound();
}

TEST_F(AccountEndsTest, NothingIsGivenToItWhileItEnds) {
  const Sql ending = Sql("UPDATE users SET deleted_at=UTC_TIMESTAMP(6) WHERE id=") << ann_;
  during(ending, "FROM users WHERE id=", [&] {
    EXPECT_EQ(code_of(accounts_.grant(ann_, credits(1), GrantKind::kBonus, "late")),
              FaultCode::kAccountEnded);
  });
}

TEST_F(AccountEndsTest, NothingNeedsToBeSaidWithoutCredits) {
  EXPECT_TRUE(ends_.end(ann_, session_id_, kAddress, false));
}

TEST_F(AccountEndsTest, OpenTasksAreCanceledAndAllAreWiped) {
  grant(100'000);
  const auto done = create_tasks(ann_, 3);
  finish(done);
  const auto open = create_tasks(ann_, 70);
  const UserId bob = make_user("bob@example.com");
  ASSERT_TRUE(accounts_.grant(bob, credits(1'000), GrantKind::kPurchase, "bob"));
  create_tasks(bob, 1);
  const Hint hint{.task = open[0], .epoch = 0};
  ASSERT_TRUE(
      tasks_.claim({&hint, 1}, WorkerId::make(), [](const Claim&) { return std::string("local"); })
          .front());
  const std::int64_t ledger = db_.number(Sql("SELECT COUNT(*) FROM ledger"));
  end();
  EXPECT_EQ(*ends_.open(), std::vector<UserId>{ann_});
  EXPECT_EQ(wipe(), Wiping::kLater) << "open ones are in the way";
  cancel_all();
  EXPECT_EQ(accounts_.find(ann_)->balance.held, Units{});
  EXPECT_EQ(wipe_on(), Wiping::kLater) << "somebody may still come";
  EXPECT_EQ(not_wiped(), 1) << "bob's";
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM deletions")), 73);
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM tasks WHERE output_deleted_at IS NOT NULL")), 3);
  expect_sound();
  // A creation of somebody who was looked up just before the end.
  const auto late = create_tasks(ann_, 1);
  EXPECT_EQ(not_wiped(), 2);
  a_minute_later();
  EXPECT_EQ(wipe(), Wiping::kLater) << "it is open";
  cancel_all();
  EXPECT_EQ(wipe_on(), Wiping::kDone);
  EXPECT_EQ(not_wiped(), 1);
  EXPECT_TRUE(ends_.open()->empty());
  EXPECT_EQ(wipe(), Wiping::kDone) << "once more does no harm";
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM ledger")), ledger + 70 + 2) << "only added to";
  expect_sound();
}

TEST_F(AccountEndsTest, AKeyOrSessionThatSlippedInEndsWithTheRest) {
  end();
  db_.execute(Sql("UPDATE users SET deleted_at=NULL"));
  ASSERT_TRUE(keys_.add(ann_, {.name = "late"}, make_api_key("svc")));
  ASSERT_TRUE(sessions_.add_link(ann_, make_token().hash));
  db_.execute(Sql("UPDATE users SET deleted_at=UTC_TIMESTAMP(6)"));
  a_minute_later();
  EXPECT_EQ(wipe_on(), Wiping::kDone);
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM api_keys WHERE deleted_at IS NULL")), 0);
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM api_keys WHERE name<>''")), 0);
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM login_links")), 0);
  expect_sound();
}

TEST_F(AccountEndsTest, AStepIsSmallAndTheNextGoesOn) {
  grant(1'000'000);
  const auto ids = create_tasks(ann_, 250);
  for (const TaskId id : ids) {
    ASSERT_TRUE(tasks_.cancel(id));
  }
  end();
  std::int64_t before = not_wiped();
  int steps = 0;
  while (before > 0) {
    ASSERT_EQ(wipe(), Wiping::kMore);
    const std::int64_t now = not_wiped();
    EXPECT_LE(before - now, static_cast<std::int64_t>(kWipeRows));
    before = now;
    ++steps;
  }
  EXPECT_GE(steps, 2);
  EXPECT_EQ(wipe(), Wiping::kMore) << "the rows of their ends";
}

TEST_F(AccountEndsTest, ATaskThatSomebodyHoldsIsWipedLater) {
  grant(1'000);
  const auto ids = create_tasks(ann_, 3);
  for (const TaskId id : ids) {
    ASSERT_TRUE(tasks_.cancel(id));
  }
  end();
  RowHolder holder(db_.url(), row_of_task(ids[1]));
  EXPECT_EQ(wipe(), Wiping::kLater);
  EXPECT_EQ(not_wiped(), 1);
  holder.release();
  EXPECT_EQ(wipe_on(), Wiping::kLater);
  EXPECT_EQ(not_wiped(), 0);
}

// What it deletes is removed by the workers, who take others' notes in the same order.
TEST_F(AccountEndsTest, ItWaitsForTheFilesOfWhatIsDeleted) {
  grant(1'000);
  ASSERT_TRUE(tasks_.cancel(create_tasks(ann_, 1)[0]));
  end();
  const UserId bob = make_user("bob@example.com");
  ASSERT_TRUE(accounts_.grant(bob, credits(1'000'000), GrantKind::kPurchase, "bob"));
  const auto others = create_tasks(bob, kWipeBacklog + 1);
  Sql notes("INSERT INTO deletions (task_id, deleted_at) VALUES ");
  list(notes, others, [&](TaskId task) { notes << "(" << task << ",UTC_TIMESTAMP(6))"; });
  db_.execute(notes);
  db_.execute(Sql("UPDATE tasks SET request='', deleted_at=UTC_TIMESTAMP(6) WHERE user_id=")
              << bob);
  EXPECT_EQ(wipe(), Wiping::kLater);
  EXPECT_EQ(not_wiped(), 1);
  // Those whose files retention could not remove are nobody's reason to wait.
  db_.execute(Sql("UPDATE tasks SET deleted_at=NULL WHERE user_id=") << bob);
  EXPECT_EQ(wipe(), Wiping::kMore);
  EXPECT_EQ(
      db_.number(Sql("SELECT COUNT(*) FROM tasks WHERE deleted_at IS NULL AND user_id=") << ann_),
      0);
}

}  // namespace
}  // namespace audiogen::store
