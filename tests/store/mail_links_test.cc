// Links that are mailed: who gets one, what it makes, how an address changes hands.
#include "common/store/mail_links.h"

#include <functional>
#include <vector>

#include "common/domain/mail.h"
#include "common/domain/sign_in.h"
#include "common/store/web_sessions.h"
#include "tests/store/doors_fixture.h"

namespace audiogen::store {
namespace {

class MailLinksTest : public DoorsTest {
 protected:
  static NewWebSession made() {
    return {.id = SessionId::make(),
            .token_hash = make_token().hash,
            .user_agent = "",
            .address = "192.0.2.1",
            .replaces = std::nullopt};
  }
  MailedLink add(const std::string& email, SignUp sign_up, NewToken token = make_token()) {
    const auto added = links_.add(email, token.hash, sign_up);
    EXPECT_TRUE(added);
    return added ? *added : MailedLink::kNone;
  }
  // A fresh session of `user`.
  SessionId signed_in(UserId user) {
    const NewToken link = make_token();
    EXPECT_TRUE(sessions_.add_link(user, link.hash));
    const auto opened = sessions_.open_by_link(link.hash, made());
    EXPECT_TRUE(opened);
    return opened ? opened->session.id : SessionId();
  }
  std::string email_of(UserId user) { return accounts_.find(user)->email; }

  WebSessions sessions_{session_};
  MailLinks links_{session_};
};

TEST_F(MailLinksTest, AnAccountGetsALinkThatSignsIn) {
  const UserId ann = make_user("ann@example.com");
  for (const SignUp sign_up : {SignUp::kClosed, SignUp::kInvite, SignUp::kOpen}) {
    const NewToken token = make_token();
    EXPECT_EQ(add("ann@example.com", sign_up, token), MailedLink::kSignIn);
    EXPECT_EQ(code_of(sessions_.open_by_sign_up(token.hash, made())), FaultCode::kBadLogin);
    const auto opened = sessions_.open_by_link(token.hash, made());
    ASSERT_TRUE(opened);
    EXPECT_EQ(opened->session.user, ann);
    EXPECT_EQ(code_of(sessions_.open_by_link(token.hash, made())), FaultCode::kBadLogin);
  }
}

// It was told as a database that does not work.
TEST_F(MailLinksTest, OfTwoThatSignUpWithOneAddressOneGetsIt) {
  const NewToken token = make_token();
  ASSERT_EQ(add("new@example.com", SignUp::kOpen, token), MailedLink::kSignUp);
  Sql other("INSERT INTO users (id, email, created_at) VALUES (");
  other << UserId::make() << ",'new@example.com',UTC_TIMESTAMP(6))";
  during(other, "INSERT INTO users", [&] {
    EXPECT_EQ(code_of(sessions_.open_by_sign_up(token.hash, made())), FaultCode::kBadLogin);
  });
}

TEST_F(MailLinksTest, AnAddressHasFewThatWork) {
  make_user("ann@example.com");
  std::vector<NewToken> tokens;
  for (std::uint64_t i = 0; i < kMailedLinksMax; ++i) {
    tokens.push_back(make_token());
    EXPECT_EQ(add("ann@example.com", SignUp::kClosed, tokens.back()), MailedLink::kSignIn);
    EXPECT_EQ(add("new@example.com", SignUp::kOpen), MailedLink::kSignUp);
  }
  EXPECT_EQ(add("ann@example.com", SignUp::kClosed), MailedLink::kNone);
  EXPECT_EQ(add("new@example.com", SignUp::kOpen), MailedLink::kNone);
  EXPECT_TRUE(sessions_.open_by_link(tokens[0].hash, made()));
  EXPECT_EQ(add("ann@example.com", SignUp::kClosed), MailedLink::kSignIn) << "one was used";
  EXPECT_EQ(add("ann@example.com", SignUp::kClosed), MailedLink::kNone);
  db_.execute(Sql("UPDATE login_links SET expires_at=UTC_TIMESTAMP(6)"));
  db_.execute(Sql("UPDATE sign_ups SET expires_at=UTC_TIMESTAMP(6)"));
  EXPECT_EQ(add("ann@example.com", SignUp::kClosed), MailedLink::kSignIn);
  EXPECT_EQ(add("new@example.com", SignUp::kOpen), MailedLink::kSignUp);
}

TEST_F(MailLinksTest, AStrangerGetsOneWhereAnybodyMay) {
  EXPECT_EQ(add("new@example.com", SignUp::kClosed), MailedLink::kNone);
  EXPECT_EQ(add("new@example.com", SignUp::kInvite), MailedLink::kNone);
  const NewToken token = make_token(), second = make_token();
  EXPECT_EQ(add("new@example.com", SignUp::kOpen, token), MailedLink::kSignUp);
  EXPECT_EQ(add("new@example.com", SignUp::kOpen, second), MailedLink::kSignUp);
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM users")), 0) << "asking makes nothing";
  EXPECT_EQ(code_of(sessions_.open_by_link(token.hash, made())), FaultCode::kBadLogin);
  const auto opened = sessions_.open_by_sign_up(token.hash, made());
  ASSERT_TRUE(opened) << opened.error().detail;
  EXPECT_EQ(opened->email, "new@example.com");
  const auto user = accounts_.find(opened->session.user);
  ASSERT_TRUE(user);
  EXPECT_EQ(user->plan, Plan::kFree);
  EXPECT_FALSE(user->api_access);
  EXPECT_EQ(user->balance.available, Units{});
  EXPECT_EQ(code_of(sessions_.open_by_sign_up(token.hash, made())), FaultCode::kBadLogin);
  EXPECT_EQ(code_of(sessions_.open_by_sign_up(second.hash, made())), FaultCode::kBadLogin)
      << "there is an account now, and who signs in to it has another link";
  EXPECT_EQ(add("new@example.com", SignUp::kOpen), MailedLink::kSignIn);
  expect_sound();
}

TEST_F(MailLinksTest, ALinkThatMakesAnAccountIsOverWhenItsTimeIs) {
  const NewToken token = make_token();
  ASSERT_EQ(add("new@example.com", SignUp::kOpen, token), MailedLink::kSignUp);
  EXPECT_LE(db_.number(Sql("SELECT TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(6), expires_at) FROM "
                           "sign_ups")),
            600);
  db_.execute(Sql("UPDATE sign_ups SET expires_at=UTC_TIMESTAMP(6)"));
  EXPECT_EQ(code_of(sessions_.open_by_sign_up(token.hash, made())), FaultCode::kBadLogin);
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM users")), 0);
  const auto purged = tasks_.purge_sessions(10);
  ASSERT_TRUE(purged);
  EXPECT_EQ(*purged, 1U);
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM sign_ups")), 0);
}

TEST_F(MailLinksTest, WhoIsInvitedMayComeByMailToo) {
  const NewToken invitation = make_token(), mailed = make_token();
  const auto until = links_.invite("New@Example.com", invitation.hash);
  ASSERT_TRUE(until);
  EXPECT_GT(*until, session_.now() + kInvitationLife - 1min);
  EXPECT_EQ(add("new@example.com", SignUp::kClosed), MailedLink::kNone);
  EXPECT_EQ(add("other@example.com", SignUp::kInvite), MailedLink::kNone);
  EXPECT_EQ(add("new@example.com", SignUp::kInvite, mailed), MailedLink::kSignUp);
  const auto opened = sessions_.open_by_sign_up(invitation.hash, made());
  ASSERT_TRUE(opened);
  EXPECT_EQ(opened->email, "new@example.com");
  EXPECT_EQ(code_of(sessions_.open_by_sign_up(mailed.hash, made())), FaultCode::kBadLogin);
  EXPECT_EQ(code_of(links_.invite("new@example.com", make_token().hash)), FaultCode::kEmailTaken);
  // Nor by another address, when his own is free again.
  db_.execute(Sql("UPDATE users SET email='moved@example.com'"));
  EXPECT_EQ(code_of(sessions_.open_by_sign_up(mailed.hash, made())), FaultCode::kBadLogin);
  EXPECT_EQ(code_of(links_.invite("new@example.com\nBcc: a@b", make_token().hash)),
            FaultCode::kBadEmail);
}

TEST_F(MailLinksTest, AnInvitationIsForOneAccount) {
  const NewToken invitation = make_token(), mailed = make_token();
  ASSERT_TRUE(links_.invite("new@example.com", invitation.hash));
  ASSERT_EQ(add("new@example.com", SignUp::kInvite, mailed), MailedLink::kSignUp);
  ASSERT_TRUE(sessions_.open_by_sign_up(mailed.hash, made()));
  db_.execute(Sql("UPDATE users SET email='moved@example.com'"));
  EXPECT_EQ(add("new@example.com", SignUp::kInvite), MailedLink::kNone);
  EXPECT_EQ(code_of(sessions_.open_by_sign_up(invitation.hash, made())), FaultCode::kBadLogin);
}

TEST_F(MailLinksTest, AnInvitationThatIsOverInvitesNobody) {
  ASSERT_TRUE(links_.invite("new@example.com", make_token().hash));
  db_.execute(Sql("UPDATE sign_ups SET expires_at=UTC_TIMESTAMP(6)"));
  EXPECT_EQ(add("new@example.com", SignUp::kInvite), MailedLink::kNone);
  ASSERT_TRUE(links_.invite("new@example.com", make_token().hash));
  db_.execute(Sql("UPDATE sign_ups SET used_at=UTC_TIMESTAMP(6)"));
  EXPECT_EQ(add("new@example.com", SignUp::kInvite), MailedLink::kNone);
}

TEST_F(MailLinksTest, AnAddressChangesWhenItsMailIsRead) {
  const UserId ann = make_user("ann@example.com"), bob = make_user("bob@example.com");
  const SessionId session = signed_in(ann);
  const NewToken first = make_token(), second = make_token(), login = make_token();
  ASSERT_TRUE(links_.ask_change(ann, session, "one@example.com", first.hash));
  ASSERT_TRUE(links_.ask_change(ann, session, "two@example.com", second.hash));
  EXPECT_EQ(email_of(ann), "ann@example.com") << "asking changes nothing";
  EXPECT_EQ(code_of(links_.confirm_change(ann, first.hash)), FaultCode::kBadLogin)
      << "the newest counts";
  EXPECT_EQ(code_of(links_.confirm_change(bob, second.hash)), FaultCode::kBadLogin)
      << "whoever has got the mail is not yet in the account";
  ASSERT_EQ(add("ann@example.com", SignUp::kClosed, login), MailedLink::kSignIn);
  const auto changed = links_.confirm_change(ann, second.hash);
  ASSERT_TRUE(changed) << changed.error().detail;
  EXPECT_EQ(changed->before, "ann@example.com");
  EXPECT_EQ(changed->after, "two@example.com");
  EXPECT_EQ(email_of(ann), "two@example.com");
  EXPECT_EQ(code_of(links_.confirm_change(ann, second.hash)), FaultCode::kBadLogin) << "used";
  EXPECT_EQ(code_of(sessions_.open_by_link(login.hash, made())), FaultCode::kBadLogin)
      << "it lies in the inbox that is no longer hers";
  EXPECT_EQ(add("ann@example.com", SignUp::kClosed), MailedLink::kNone);
  make_user("ann@example.com");
}

TEST_F(MailLinksTest, AnAddressIsAskedForByAFreshSession) {
  const UserId ann = make_user("ann@example.com"), bob = make_user("bob@example.com");
  const SessionId session = signed_in(ann);
  const Sha256 token = make_token().hash;
  EXPECT_EQ(code_of(links_.ask_change(bob, session, "x@example.com", token)),
            FaultCode::kNoSuchSession);
  db_.execute(Sql("UPDATE sessions SET created_at=created_at - INTERVAL 10 MINUTE"));
  EXPECT_EQ(code_of(links_.ask_change(ann, session, "x@example.com", token)), FaultCode::kNotFresh);
  db_.execute(Sql("UPDATE sessions SET created_at=created_at - INTERVAL 30 DAY"));
  EXPECT_EQ(code_of(links_.ask_change(ann, session, "x@example.com", token)),
            FaultCode::kNoSuchSession);
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM mail_changes")), 0);
}

TEST_F(MailLinksTest, AnAddressThatSomebodyHasOrALateLinkChangesNothing) {
  const UserId ann = make_user("ann@example.com");
  make_user("bob@example.com");
  const SessionId session = signed_in(ann);
  const NewToken taken = make_token(), late = make_token();
  ASSERT_TRUE(links_.ask_change(ann, session, "bob@example.com", taken.hash))
      << "nobody learns whose it is";
  EXPECT_EQ(code_of(links_.confirm_change(ann, taken.hash)), FaultCode::kBadLogin);
  ASSERT_TRUE(links_.ask_change(ann, session, "two@example.com", late.hash));
  db_.execute(Sql("UPDATE mail_changes SET expires_at=UTC_TIMESTAMP(6)"));
  EXPECT_EQ(code_of(links_.confirm_change(ann, late.hash)), FaultCode::kBadLogin);
  EXPECT_EQ(email_of(ann), "ann@example.com");
  ASSERT_TRUE(tasks_.purge_sessions(10));
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM mail_changes")), 0);
}

// Whoever takes an account back, by whatever way, ends what somebody else has asked for.
TEST_F(MailLinksTest, WhatWasAskedForEndsWithTheSessionsOfItsTime) {
  const UserId ann = make_user("ann@example.com");
  const auto taken_back_by = [&](const std::function<void(SessionId)>& by) {
    const SessionId session = signed_in(ann);
    const NewToken token = make_token(), link = make_token();
    ASSERT_TRUE(links_.ask_change(ann, session, "evil@example.com", token.hash));
    ASSERT_TRUE(sessions_.add_link(ann, link.hash));
    by(session);
    EXPECT_EQ(code_of(links_.confirm_change(ann, token.hash)), FaultCode::kBadLogin);
    EXPECT_EQ(code_of(sessions_.open_by_link(link.hash, made())), FaultCode::kBadLogin);
  };
  taken_back_by([&](SessionId session) {
    ASSERT_TRUE(sessions_.set_password(ann, session, "encoded", std::nullopt));
  });
  taken_back_by([&](SessionId) { ASSERT_TRUE(sessions_.close_all(ann)); });
  taken_back_by([&](SessionId) { ASSERT_TRUE(accounts_.set_email(ann, "ann@example.com")); });
  EXPECT_EQ(email_of(ann), "ann@example.com");
}

TEST_F(MailLinksTest, AnOperatorChangesIt) {
  const UserId ann = make_user("ann@example.com");
  make_user("bob@example.com");
  const NewToken login = make_token();
  ASSERT_EQ(add("ann@example.com", SignUp::kClosed, login), MailedLink::kSignIn);
  EXPECT_EQ(code_of(accounts_.set_email(ann, "bob@example.com")), FaultCode::kEmailTaken);
  EXPECT_EQ(code_of(accounts_.set_email(ann, "no address")), FaultCode::kBadEmail);
  EXPECT_EQ(code_of(accounts_.set_email(UserId::make(), "x@example.com")), FaultCode::kNoSuchUser);
  EXPECT_EQ(email_of(ann), "ann@example.com");
  const auto changed = accounts_.set_email(ann, "Two@Example.com");
  ASSERT_TRUE(changed);
  EXPECT_EQ(changed->email, "two@example.com");
  EXPECT_EQ(code_of(sessions_.open_by_link(login.hash, made())), FaultCode::kBadLogin);
}

}  // namespace
}  // namespace audiogen::store
