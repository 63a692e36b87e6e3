// Passkeys in the database: who may have how many, what opens a session once, the last way in.
#include "common/store/passkeys.h"

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "common/domain/sign_in.h"
#include "common/domain/webauthn.h"
#include "tests/store/doors_fixture.h"

namespace audiogen::store {
namespace {

using namespace std::chrono_literals;

class PasskeysTest : public DoorsTest {
 protected:
  PasskeysTest()
      : ann_(make_user("ann@example.com")),
        bob_(make_user("bob@example.com")),
        anns_(signed_in(ann_)),
        bobs_(signed_in(bob_)) {}

  static NewWebSession new_session() {
    return {.id = SessionId::make(), .token_hash = make_token().hash, .address = "192.0.2.1"};
  }
  SessionId signed_in(UserId user) {
    const NewToken link = make_token();
    EXPECT_TRUE(sessions_.add_link(user, link.hash));
    const auto opened = sessions_.open_by_link(link.hash, new_session());
    EXPECT_TRUE(opened);
    return opened ? opened->session.id : SessionId{};
  }
  AnsweredChallenge answered() {
    return {.hash = make_token().hash, .expires_at = session_.now() + 5min};
  }
  static NewPasskey made(const std::string& credential_id = make_token().text) {
    return {.id = PasskeyId::make(),
            .name = "Phone",
            .credential_id = credential_id,
            .public_key = std::string("a\0key", 5)};
  }
  PasskeyId added(UserId user, SessionId asker, const NewPasskey& passkey = made()) {
    const auto out = passkeys_.add(user, asker, passkey, answered());
    EXPECT_TRUE(out) << out.error().detail;
    return passkey.id;
  }
  void no_longer_fresh() {
    db_.execute(Sql("UPDATE sessions SET created_at=created_at - INTERVAL 11 MINUTE"));
  }

  WebSessions sessions_{session_};
  Passkeys passkeys_{session_};
  UserId ann_, bob_;
  SessionId anns_, bobs_;
};

TEST_F(PasskeysTest, IsFoundListedAndRenamedByItsOwner) {
  NewPasskey phone = made(std::string("\0\xFF id", 5));
  phone.counter = 0xFFFFFFFF;
  phone.synced = true;
  const auto stored = passkeys_.add(ann_, anns_, phone, answered());
  ASSERT_TRUE(stored) << stored.error().detail;
  EXPECT_EQ(stored->id, phone.id);
  EXPECT_EQ(stored->name, "Phone");
  EXPECT_TRUE(stored->synced);
  EXPECT_EQ(stored->last_used_at, std::nullopt);
  const auto found = *passkeys_.find(phone.credential_id);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->id, phone.id);
  EXPECT_EQ(found->user, ann_);
  EXPECT_EQ(found->public_key, phone.public_key);
  EXPECT_TRUE(found->synced);
  EXPECT_FALSE(*passkeys_.find(std::string("\0\xFF id ", 6)));
  EXPECT_FALSE(*passkeys_.find(""));
  EXPECT_EQ(*passkeys_.credential_ids(ann_), std::vector{phone.credential_id});
  EXPECT_TRUE(passkeys_.credential_ids(bob_)->empty());
  EXPECT_EQ(passkeys_.list(ann_)->size(), 1U);
  EXPECT_TRUE(passkeys_.list(bob_)->empty());
  EXPECT_EQ(passkeys_.rename(ann_, phone.id, "Laptop")->name, "Laptop");
  EXPECT_EQ(code_of(passkeys_.rename(bob_, phone.id, "Mine")), FaultCode::kNoSuchPasskey);
  EXPECT_EQ(passkeys_.list(ann_)->front().name, "Laptop");
}

TEST_F(PasskeysTest, IsAddedByAFreshSessionOfItsOwner) {
  EXPECT_EQ(code_of(passkeys_.add(ann_, bobs_, made(), answered())), FaultCode::kNoSuchSession);
  no_longer_fresh();
  EXPECT_EQ(code_of(passkeys_.add(ann_, anns_, made(), answered())), FaultCode::kNotFresh);
  ASSERT_TRUE(sessions_.close(ann_, anns_));
  EXPECT_EQ(code_of(passkeys_.add(ann_, anns_, made(), answered())), FaultCode::kNoSuchSession);
  EXPECT_TRUE(passkeys_.list(ann_)->empty());
}

TEST_F(PasskeysTest, IsOnesAloneAndOneOfTen) {
  const NewPasskey phone = made();
  added(ann_, anns_, phone);
  EXPECT_EQ(code_of(passkeys_.add(bob_, bobs_, made(phone.credential_id), answered())),
            FaultCode::kPasskeyTaken);
  const AnsweredChallenge once = answered();
  ASSERT_TRUE(passkeys_.add(ann_, anns_, made(), once));
  EXPECT_EQ(code_of(passkeys_.add(ann_, anns_, made(), once)), FaultCode::kChallengeUsed);
  while (passkeys_.list(ann_)->size() < kPasskeysMax) {
    added(ann_, anns_);
  }
  EXPECT_EQ(code_of(passkeys_.add(ann_, anns_, made(), answered())), FaultCode::kTooManyPasskeys);
  added(bob_, bobs_);
}

TEST_F(PasskeysTest, OpensASessionOnceForEachAnswer) {
  const NewPasskey phone = made();
  added(ann_, anns_, phone);
  const AnsweredChallenge answer = answered();
  const auto opened = passkeys_.open_session(phone.id, 0, answer, new_session());
  ASSERT_TRUE(opened) << opened.error().detail;
  EXPECT_EQ(opened->session.user, ann_);
  EXPECT_EQ(opened->email, "ann@example.com");
  EXPECT_TRUE(passkeys_.list(ann_)->front().last_used_at);
  EXPECT_EQ(code_of(passkeys_.open_session(phone.id, 0, answer, new_session())),
            FaultCode::kChallengeUsed);
  EXPECT_EQ(code_of(passkeys_.open_session(PasskeyId::make(), 0, answered(), new_session())),
            FaultCode::kBadLogin);
  EXPECT_EQ(sessions_.list(ann_)->size(), 2U);
}

TEST_F(PasskeysTest, OfManyWhoSendAnAnswerAtOnceOneSignsIn) {
  const NewPasskey phone = made();
  added(ann_, anns_, phone);
  const AnsweredChallenge answer = answered();
  std::atomic<int> in{0}, refused{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      Session session(db_.url(), kOperatorPatience);
      const auto result = Passkeys(session).open_session(phone.id, 0, answer, new_session());
      (result ? in : refused)++;
      EXPECT_TRUE(result || result.error().code == FaultCode::kChallengeUsed)
          << result.error().detail;
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(in, 1);
  EXPECT_EQ(refused, 7);
}

TEST_F(PasskeysTest, ACounterGoesNeverBack) {
  NewPasskey phone = made();
  phone.counter = 5;
  added(ann_, anns_, phone);
  const auto at = [&](std::uint32_t counter) {
    return passkeys_.open_session(phone.id, counter, answered(), new_session());
  };
  EXPECT_TRUE(at(6));
  for (const std::uint32_t counter : {6U, 5U, 0U}) {
    EXPECT_EQ(code_of(at(counter)), FaultCode::kCounterBack) << counter;
  }
  EXPECT_TRUE(at(0xFFFFFFFF)) << "what was refused changed nothing";
}

TEST_F(PasskeysTest, TheLastWayInStays) {
  const PasskeyId phone = added(ann_, anns_), laptop = added(ann_, anns_);
  EXPECT_EQ(code_of(passkeys_.remove(bob_, bobs_, phone)), FaultCode::kNoSuchPasskey);
  EXPECT_EQ(code_of(passkeys_.remove(ann_, bobs_, phone)), FaultCode::kNoSuchSession);
  ASSERT_TRUE(passkeys_.remove(ann_, anns_, phone));
  EXPECT_EQ(code_of(passkeys_.remove(ann_, anns_, phone)), FaultCode::kNoSuchPasskey);
  EXPECT_EQ(code_of(passkeys_.remove(ann_, anns_, laptop)), FaultCode::kLastWayIn);
  ASSERT_TRUE(sessions_.set_password(ann_, anns_, "encoded", std::nullopt));
  no_longer_fresh();
  EXPECT_EQ(code_of(passkeys_.remove(ann_, anns_, laptop)), FaultCode::kNotFresh);
  EXPECT_EQ(passkeys_.list(ann_)->size(), 1U);
  ASSERT_TRUE(passkeys_.remove(ann_, signed_in(ann_), laptop));
  EXPECT_TRUE(passkeys_.list(ann_)->empty());
}

// Each would leave the other.
TEST_F(PasskeysTest, OfTwoRemovedAtOnceOneStays) {
  const std::vector<PasskeyId> both = {added(ann_, anns_), added(ann_, anns_)};
  std::atomic<int> removed{0};
  std::vector<std::thread> threads;
  for (const PasskeyId id : both) {
    threads.emplace_back([&, id] {
      Session session(db_.url(), kOperatorPatience);
      const auto result = Passkeys(session).remove(ann_, anns_, id);
      removed += result ? 1 : 0;
      EXPECT_TRUE(result || result.error().code == FaultCode::kLastWayIn) << result.error().detail;
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(removed, 1);
  EXPECT_EQ(passkeys_.list(ann_)->size(), 1U);
}

TEST_F(PasskeysTest, AllProcessesSealByOneKey) {
  std::vector<std::thread> threads;
  std::vector<Sha256> keys(4);
  for (Sha256& key : keys) {
    threads.emplace_back([&] {
      Session session(db_.url(), kOperatorPatience);
      const auto read = Passkeys(session).challenge_key();
      EXPECT_TRUE(read) << read.error().detail;
      key = read ? *read : Sha256{};
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_NE(keys.front(), Sha256{});
  for (const Sha256& key : keys) {
    EXPECT_EQ(key, keys.front());
  }
  EXPECT_EQ(*passkeys_.challenge_key(), keys.front());
}

TEST_F(PasskeysTest, AnswersAreForgottenLongAfterTheirTime) {
  const NewPasskey phone = made();
  added(ann_, anns_, phone);
  const Instant now = session_.now();
  for (const auto age : {std::chrono::minutes(120), std::chrono::minutes(30)}) {
    ASSERT_TRUE(passkeys_.open_session(
        phone.id, 0, {.hash = make_token().hash, .expires_at = now - age}, new_session()));
  }
  EXPECT_EQ(*tasks_.purge_sessions(100), 1U);
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM used_challenges")), 2) << "and the registration's";
}

}  // namespace
}  // namespace audiogen::store
