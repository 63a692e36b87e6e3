// Issuers that open an account: what its owner sees of them, and what ends and begins a link.
#include "common/store/issuer_links.h"

#include <optional>
#include <string>

#include "common/domain/sign_in.h"
#include "common/store/passkeys.h"
#include "common/store/web_sessions.h"
#include "tests/store/doors_fixture.h"
#include "tests/support/tcp_proxy.h"

namespace audiogen::store {
namespace {

class IssuerLinksTest : public DoorsTest {
 protected:
  IssuerLinksTest() : ann_(make_user("ann@example.com")), bob_(make_user("bob@example.com")) {
    anns_ = signed_in(ann_, cookie_);
    bobs_ = signed_in(bob_);
  }

  static NewWebSession made(const NewToken& token = make_token()) {
    return {.id = SessionId::make(), .token_hash = token.hash};
  }
  SessionId signed_in(UserId user, const NewToken& cookie = make_token()) {
    const NewToken link = make_token();
    EXPECT_TRUE(sessions_.add_link(user, link.hash));
    const auto out = sessions_.open_by_link(link.hash, made(cookie));
    EXPECT_TRUE(out);
    return out ? out->session.id : SessionId{};
  }
  // By the issuer, in a browser that has the session of `cookie`.
  Result<OpenedWebSession, Fault> by_issuer(const NamedPerson& person,
                                            const std::optional<NewToken>& cookie = std::nullopt) {
    NewWebSession terms = made();
    if (cookie) {
      terms.replaces = cookie->hash;
    }
    return sessions_.open_by_identity(person, SignUp::kClosed, terms);
  }
  void set_password(SessionId asker) {
    ASSERT_TRUE(sessions_.set_password(ann_, asker, "encoded", std::nullopt));
  }
  void no_longer_fresh() {
    db_.execute(Sql("UPDATE sessions SET created_at=created_at - INTERVAL 11 MINUTE"));
  }

  WebSessions sessions_{session_};
  IssuerLinks links_{session_};
  UserId ann_, bob_;
  const NewToken cookie_ = make_token();
  SessionId anns_, bobs_;
  const NamedPerson person_{.identity = make_token().hash,
                            .issuer = "https://login.example.com",
                            .email = "ann@example.com"};
  const IssuerLinkId id_ = issuer_link_id(person_.identity);
};

// He would be signed in to an empty account, and his own be out of sight.
TEST_F(IssuerLinksTest, WhoIsSignedInGetsNoSecondAccount) {
  const NamedPerson other{.identity = make_token().hash,
                          .issuer = "https://login.example.com",
                          .email = "ann@work.example"};
  NewWebSession terms = made();
  terms.replaces = cookie_.hash;
  EXPECT_EQ(code_of(sessions_.open_by_identity(other, SignUp::kOpen, terms)), FaultCode::kBadLogin);
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM users WHERE email='ann@work.example'")), 0);
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM sessions WHERE id=") << anns_), 1)
      << "and stays signed in";
  // A cookie of a session that is over is none.
  db_.execute(
      Sql("UPDATE sessions SET created_at=created_at - INTERVAL 1 YEAR, "
          "last_seen_at=last_seen_at - INTERVAL 1 YEAR"));
  EXPECT_TRUE(sessions_.open_by_identity(other, SignUp::kOpen, terms));
}

TEST_F(IssuerLinksTest, AreListedForTheirOwner) {
  EXPECT_TRUE(links_.list(ann_)->empty());
  const auto first = by_issuer(person_);
  ASSERT_TRUE(first);
  EXPECT_TRUE(first->linked);
  const auto listed = *links_.list(ann_);
  ASSERT_EQ(listed.size(), 1U);
  EXPECT_EQ(listed[0].id, id_);
  EXPECT_EQ(listed[0].issuer, "https://login.example.com");
  EXPECT_EQ(listed[0].email, "ann@example.com");
  EXPECT_EQ(listed[0].linked_at, listed[0].last_used_at);
  EXPECT_TRUE(links_.list(bob_)->empty());
  // What it says of him later, and when.
  db_.execute(
      Sql("UPDATE oidc_identities SET created_at=created_at - INTERVAL 1 DAY, "
          "last_used_at=last_used_at - INTERVAL 1 DAY"));
  const auto again = by_issuer({.identity = person_.identity, .issuer = person_.issuer});
  ASSERT_TRUE(again);
  EXPECT_FALSE(again->linked);
  const auto now = links_.list(ann_)->front();
  EXPECT_EQ(now.email, std::nullopt) << "none that it has verified";
  EXPECT_GT(now.last_used_at, now.linked_at);
  // Of a program of the release before.
  db_.execute(Sql("UPDATE oidc_identities SET issuer=NULL, email=NULL, last_used_at=NULL"));
  EXPECT_EQ(links_.list(ann_)->front().issuer, std::nullopt);
  EXPECT_EQ(links_.list(ann_)->front().last_used_at, std::nullopt);
}

TEST_F(IssuerLinksTest, OfANewAccountNobodyIsTold) {
  const NamedPerson stranger{
      .identity = make_token().hash, .issuer = person_.issuer, .email = "new@example.com"};
  const auto opened = sessions_.open_by_identity(stranger, SignUp::kOpen, made());
  ASSERT_TRUE(opened);
  EXPECT_FALSE(opened->linked);
}

TEST_F(IssuerLinksTest, AreRemovedByAFreshSessionOfTheirOwner) {
  ASSERT_TRUE(by_issuer(person_));
  set_password(anns_);
  EXPECT_EQ(code_of(links_.remove(bob_, bobs_, id_)), FaultCode::kNoSuchIssuer);
  EXPECT_EQ(code_of(links_.remove(ann_, bobs_, id_)), FaultCode::kNoSuchSession);
  EXPECT_EQ(code_of(links_.remove(ann_, anns_, IssuerLinkId::make())), FaultCode::kNoSuchIssuer);
  no_longer_fresh();
  EXPECT_EQ(code_of(links_.remove(ann_, anns_, id_)), FaultCode::kNotFresh);
  // By a clock that has been set back since.
  db_.execute(
      Sql("UPDATE sessions SET created_at=UTC_TIMESTAMP(6) + INTERVAL 1 HOUR, "
          "last_seen_at=UTC_TIMESTAMP(6) + INTERVAL 1 HOUR"));
  EXPECT_EQ(code_of(links_.remove(ann_, anns_, id_)), FaultCode::kNotFresh);
  EXPECT_EQ(links_.list(ann_)->size(), 1U);
  EXPECT_TRUE(by_issuer(person_)) << "what was refused changed nothing";
  const auto fresh = signed_in(ann_);
  ASSERT_TRUE(links_.remove(ann_, fresh, id_));
  EXPECT_TRUE(links_.list(ann_)->empty());
  EXPECT_EQ(code_of(links_.remove(ann_, fresh, id_)), FaultCode::kNoSuchIssuer);
  EXPECT_TRUE(sessions_.find(ann_, fresh)) << "sessions stay";
}

TEST_F(IssuerLinksTest, TheLastWayInStays) {
  ASSERT_TRUE(by_issuer(person_));
  EXPECT_EQ(code_of(links_.remove(ann_, anns_, id_)), FaultCode::kLastWayIn);
  EXPECT_EQ(links_.list(ann_)->size(), 1U);
  Passkeys passkeys(session_);
  const NewPasskey phone{
      .id = PasskeyId::make(), .name = "Phone", .credential_id = "credential", .public_key = "key"};
  ASSERT_TRUE(
      passkeys.add(ann_, anns_, phone, {.hash = make_token().hash, .expires_at = session_.now()}));
  ASSERT_TRUE(links_.remove(ann_, anns_, id_)) << "a passkey is another";
  EXPECT_EQ(code_of(passkeys.remove(ann_, anns_, phone.id)), FaultCode::kLastWayIn);
}

// An issuer's word is worth no more than its owner lets it: else the next sign-in would undo it.
TEST_F(IssuerLinksTest, OnceRemovedOnlyItsOwnerLinksItAgain) {
  const NewToken bobs_cookie = make_token(), stale = make_token();
  signed_in(bob_, bobs_cookie);
  ASSERT_TRUE(by_issuer(person_));
  set_password(anns_);
  ASSERT_TRUE(links_.remove(ann_, anns_, id_));
  EXPECT_EQ(code_of(by_issuer(person_)), FaultCode::kBadLogin);
  EXPECT_EQ(code_of(by_issuer({.identity = make_token().hash, .email = person_.email})),
            FaultCode::kBadLogin)
      << "nor for another who has her address there";
  EXPECT_EQ(code_of(by_issuer(person_, bobs_cookie)), FaultCode::kBadLogin);
  EXPECT_EQ(code_of(by_issuer(person_, make_token())), FaultCode::kBadLogin) << "no session";
  signed_in(ann_, stale);
  no_longer_fresh();
  EXPECT_EQ(code_of(by_issuer(person_, stale)), FaultCode::kBadLogin);
  const NewToken fresh = make_token();
  signed_in(ann_, fresh);
  const auto again = by_issuer(person_, fresh);
  ASSERT_TRUE(again) << again.error().detail;
  EXPECT_EQ(again->session.user, ann_);
  EXPECT_TRUE(again->linked);
  EXPECT_EQ(links_.list(ann_)->size(), 1U);
  EXPECT_TRUE(by_issuer(person_)) << "from then on as before";
  // And the others are as they were.
  EXPECT_TRUE(by_issuer({.identity = make_token().hash, .email = "bob@example.com"}));
}

TEST_F(IssuerLinksTest, ThoseOfAnotherIssuerKeepNobodyOut) {
  const std::string next = "https://new.example.com";
  const NamedPerson moved{
      .identity = make_token().hash, .issuer = next, .email = "ann@example.com"};
  const NamedPerson second{
      .identity = make_token().hash, .issuer = next, .email = "ann@example.com"};
  ASSERT_TRUE(by_issuer(person_));
  db_.execute(Sql("UPDATE oidc_identities SET issuer=NULL"));
  EXPECT_EQ(code_of(by_issuer(moved)), FaultCode::kBadLogin) << "perhaps it was this one";
  ASSERT_TRUE(by_issuer(person_));
  const auto opened = by_issuer(moved);
  ASSERT_TRUE(opened) << opened.error().detail;
  EXPECT_EQ(opened->session.user, ann_);
  EXPECT_TRUE(opened->linked);
  EXPECT_EQ(links_.list(ann_)->size(), 2U);
  EXPECT_EQ(code_of(by_issuer(second)), FaultCode::kBadLogin)
      << "another who has her address there";
  set_password(anns_);
  ASSERT_TRUE(links_.remove(ann_, anns_, issuer_link_id(moved.identity)));
  EXPECT_EQ(code_of(by_issuer(moved)), FaultCode::kBadLogin) << "unlinked";
}

TEST_F(IssuerLinksTest, ALostReplyIsFoundOut) {
  ASSERT_TRUE(by_issuer(person_));
  set_password(anns_);
  test::TcpProxy proxy(db_.url().port);
  Session session(db_.tcp_url(proxy.port()), kOperatorPatience);
  IssuerLinks through(session);
  ASSERT_TRUE(through.list(ann_));
  proxy.drop_reply_after("COMMIT", test::TcpProxy::Cut::kReset);
  EXPECT_TRUE(through.remove(ann_, anns_, id_));
  EXPECT_EQ(proxy.triggered(), 1);
  EXPECT_TRUE(links_.list(ann_)->empty());
}

}  // namespace
}  // namespace audiogen::store
