// Sessions of the console, links and passwords in the database: what opens one, what ends one, who
// may make keys by one.
#include "common/store/web_sessions.h"

#include <atomic>
#include <thread>
#include <vector>

#include "common/domain/sign_in.h"
#include "common/store/mail_links.h"
#include "tests/store/doors_fixture.h"
#include "tests/store/task_fixture.h"
#include "tests/support/tcp_proxy.h"

namespace audiogen::store {
namespace {

using namespace std::chrono_literals;

class WebSessionsTest : public DoorsTest {
 protected:
  WebSessionsTest() : ann_(make_user("ann@example.com")), bob_(make_user("bob@example.com")) {}

  static NewWebSession made(const NewToken& token = make_token()) {
    return {.id = SessionId::make(),
            .token_hash = token.hash,
            .user_agent = "Agent/1.0",
            .address = "192.0.2.1",
            .replaces = std::nullopt};
  }
  Sha256 link_of(UserId user) {
    const NewToken token = make_token();
    EXPECT_TRUE(sessions_.add_link(user, token.hash));
    return token.hash;
  }
  // A session of `user`, by a link.
  WebSession opened(UserId user, const NewWebSession& terms = made()) {
    const auto out = sessions_.open_by_link(link_of(user), terms);
    EXPECT_TRUE(out) << out.error().detail;
    return out ? out->session : WebSession{};
  }
  bool looks_up(const Sha256& token) {
    const auto found = tasks_.find_sessions(std::span(&token, 1)).front();
    EXPECT_TRUE(found);
    return found && *found;
  }
  void age(SessionId id, const char* column, int minutes) {
    db_.execute(Sql::trusted("UPDATE sessions SET " + std::string(column) +
                             "=UTC_TIMESTAMP(6) - INTERVAL " + std::to_string(minutes) +
                             " MINUTE WHERE id=" + (Sql() << id).text()));
  }

  WebSessions sessions_{session_};
  UserId ann_, bob_;
};

constexpr int kDay = 24 * 60;

TEST_F(WebSessionsTest, ALinkOpensOneSession) {
  const NewToken link = make_token();
  const auto expires = sessions_.add_link(ann_, link.hash);
  ASSERT_TRUE(expires);
  EXPECT_GT(*expires, session_.now() + 9min);
  EXPECT_LE(*expires, session_.now() + 10min);
  EXPECT_EQ(code_of(sessions_.open_by_link(make_token().hash, made())), FaultCode::kBadLogin);
  const NewToken cookie = make_token();
  const auto first = sessions_.open_by_link(link.hash, made(cookie));
  ASSERT_TRUE(first);
  EXPECT_EQ(first->email, "ann@example.com");
  EXPECT_EQ(first->session.user, ann_);
  EXPECT_EQ(first->session.user_agent, "Agent/1.0");
  EXPECT_EQ(first->session.address, "192.0.2.1");
  EXPECT_EQ(first->session.created_at, first->session.last_seen_at);
  EXPECT_EQ(code_of(sessions_.open_by_link(link.hash, made())), FaultCode::kBadLogin) << "used";
  EXPECT_EQ(sessions_.list(ann_)->size(), 1U);
  const auto found = tasks_.find_sessions(std::span(&cookie.hash, 1)).front();
  ASSERT_TRUE(found && *found);
  EXPECT_EQ((*found)->user, ann_);
  EXPECT_EQ((*found)->session, first->session.id);
  EXPECT_TRUE((*found)->api_access) << "whatever the plan";
  EXPECT_TRUE((*found)->scopes.has(Scope::kGenerate) && (*found)->scopes.has(Scope::kManage));
  EXPECT_FALSE(looks_up(link.hash)) << "a link is no cookie";
  EXPECT_EQ(code_of(sessions_.add_link(UserId::make(), make_token().hash)), FaultCode::kNoSuchUser);
}

TEST_F(WebSessionsTest, WhomAnIssuerNamesIsKnownFromThenOn) {
  const Sha256 one = make_token().hash, other = make_token().hash;
  const auto open = [&](const Sha256& identity,
                        const std::optional<std::string>& email,
                        SignUp sign_up = SignUp::kClosed) {
    return sessions_.open_by_identity(
        {.identity = identity, .issuer = "https://login.example.com", .email = email},
        sign_up,
        made());
  };
  EXPECT_EQ(code_of(open(one, std::nullopt)), FaultCode::kBadLogin) << "no verified address";
  EXPECT_EQ(code_of(open(one, "new@example.com")), FaultCode::kBadLogin) << "no account";
  const auto first = open(one, "ann@example.com");
  ASSERT_TRUE(first) << first.error().detail;
  EXPECT_EQ(first->session.user, ann_);
  // From then on by his name there, whatever his address is there, or hers here.
  for (const std::optional<std::string>& email :
       {std::optional<std::string>(), std::optional<std::string>("bob@example.com")}) {
    const auto again = open(one, email);
    ASSERT_TRUE(again);
    EXPECT_EQ(again->session.user, ann_);
  }
  EXPECT_EQ(open(other, "bob@example.com")->session.user, bob_);
  EXPECT_EQ(code_of(open(make_token().hash, "ann@example.com")), FaultCode::kBadLogin)
      << "somebody else has her address there by now";
  EXPECT_EQ(code_of(open(make_token().hash, "new@example.com", SignUp::kInvite)),
            FaultCode::kBadLogin)
      << "nobody has invited him";
  ASSERT_TRUE(MailLinks(session_).invite("new@example.com", make_token().hash));
  EXPECT_EQ(code_of(open(make_token().hash, "new@example.com")), FaultCode::kBadLogin);
  const auto invited = open(make_token().hash, "new@example.com", SignUp::kInvite);
  ASSERT_TRUE(invited);
  EXPECT_EQ(invited->email, "new@example.com");
  const auto stranger = open(make_token().hash, "any@example.com", SignUp::kOpen);
  ASSERT_TRUE(stranger);
  EXPECT_EQ(accounts_.find(stranger->session.user)->plan, Plan::kFree);
  expect_sound();
}

TEST_F(WebSessionsTest, ALinkIsOverAfterTenMinutes) {
  const Sha256 link = link_of(ann_);
  db_.execute(Sql("UPDATE login_links SET expires_at=UTC_TIMESTAMP(6)"));
  EXPECT_EQ(code_of(sessions_.open_by_link(link, made())), FaultCode::kBadLogin);
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM sessions")), 0);
}

TEST_F(WebSessionsTest, OfManyWhoUseALinkAtOnceOneSignsIn) {
  const Sha256 link = link_of(ann_);
  std::atomic<int> in{0}, refused{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      Session session(db_.url(), kOperatorPatience);
      const auto result = WebSessions(session).open_by_link(link, made());
      (result ? in : refused)++;
      EXPECT_TRUE(result || result.error().code == FaultCode::kBadLogin) << result.error().detail;
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(in, 1);
  EXPECT_EQ(refused, 7);
}

TEST_F(WebSessionsTest, EndsWithTimeAndIsForgotten) {
  const NewToken idle = make_token(), old = make_token(), used = make_token();
  const auto a = opened(ann_, made(idle)).id;
  const auto b = opened(ann_, made(old)).id;
  const auto c = opened(ann_, made(used)).id;
  age(a, "created_at", 15 * kDay);
  age(a, "last_seen_at", 14 * kDay);
  age(b, "created_at", 30 * kDay);
  age(c, "created_at", 29 * kDay);
  age(c, "last_seen_at", 13 * kDay);
  EXPECT_FALSE(looks_up(idle.hash));
  EXPECT_FALSE(looks_up(old.hash));
  EXPECT_TRUE(looks_up(used.hash));
  const auto list = sessions_.list(ann_);
  ASSERT_EQ(list->size(), 1U);
  EXPECT_EQ(list->front().id, c);
  EXPECT_EQ(code_of(sessions_.find(ann_, a)), FaultCode::kNoSuchSession);
  EXPECT_EQ(code_of(keys_.add(ann_, {.name = "k"}, make_api_key("svc"), Asker(a))),
            FaultCode::kAskerIsGone);
  ASSERT_TRUE(tasks_.touch_sessions(std::span(&c, 1)).front());
  EXPECT_GT(sessions_.list(ann_)->front().last_seen_at, session_.now() - 1min);
  age(c, "last_seen_at", 13 * kDay);
  RowHolder holder(db_.url(), Sql("SELECT 1 FROM sessions WHERE id=") << a);
  const auto noted = tasks_.touch_sessions(std::vector{a, c});
  holder.release();
  EXPECT_EQ(noted[0].error(), StoreFault::kLocked);
  EXPECT_TRUE(noted[1]);
  EXPECT_GT(sessions_.list(ann_)->front().last_seen_at, session_.now() - 1min)
      << "one that is held keeps no other";
  // Ids tell their age: one that is old enough, whatever was seen of it, and the idle one.
  const SessionId ancient{first_uuid_at(session_.now() - 32 * 24h)};
  db_.execute(Sql("UPDATE sessions SET id=") << ancient << " WHERE id=" << b);
  static_cast<void>(link_of(ann_));
  db_.execute(
      Sql("UPDATE login_links SET expires_at=UTC_TIMESTAMP(6) - INTERVAL 1 SECOND WHERE "
          "used_at IS NOT NULL"));
  EXPECT_EQ(*tasks_.purge_sessions(100), 3U) << "links";
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM sessions")), 1);
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM login_links")), 1);
  EXPECT_EQ(*tasks_.purge_sessions(100), 0U);
  EXPECT_TRUE(looks_up(used.hash));
}

TEST_F(WebSessionsTest, IsFreshAsLongAsItsOwnerHasShownHimself) {
  const auto state = [&](std::chrono::seconds fresh_for) {
    NewWebSession terms = made();
    terms.fresh_for = fresh_for;
    const WebSession session = opened(ann_, terms);
    EXPECT_EQ(session.fresh_until, session.created_at + fresh_for);
    return *sessions_.find(ann_, session.id);
  };
  EXPECT_TRUE(state(kFreshFor).fresh);
  // By a clock that has been set back since.
  const auto to_come = state(kFreshFor);
  db_.execute(Sql("UPDATE sessions SET created_at=UTC_TIMESTAMP(6) + INTERVAL 1 HOUR, "
                  "last_seen_at=created_at WHERE id=")
              << to_come.session.id);
  EXPECT_FALSE(sessions_.find(ann_, to_come.session.id)->fresh);
  EXPECT_EQ(code_of(sessions_.set_password(ann_, to_come.session.id, "encoded", std::nullopt)),
            FaultCode::kNotFresh);
  EXPECT_TRUE(state(60s).fresh);
  const auto never = state(kNeverFresh);
  EXPECT_FALSE(never.fresh);
  EXPECT_EQ(code_of(sessions_.set_password(ann_, never.session.id, "encoded", std::nullopt)),
            FaultCode::kNotFresh);
  EXPECT_TRUE(sessions_.set_password(ann_, state(60s).session.id, "encoded", std::nullopt));
  // A program of the release before writes none.
  NewWebSession before = made();
  ASSERT_TRUE(opened(ann_, before).id == before.id);
  db_.execute(Sql("UPDATE sessions SET fresh_seconds=DEFAULT(fresh_seconds) WHERE id=")
              << before.id);
  EXPECT_TRUE(sessions_.find(ann_, before.id)->fresh);
}

TEST_F(WebSessionsTest, EndsByItsOwnerAndByNobodyElse) {
  const NewToken token = make_token();
  const auto mine = opened(ann_, made(token)).id;
  const auto other = opened(bob_).id;
  EXPECT_EQ(code_of(sessions_.close(ann_, other)), FaultCode::kNoSuchSession);
  EXPECT_EQ(code_of(sessions_.find(ann_, other)), FaultCode::kNoSuchSession);
  EXPECT_EQ(code_of(sessions_.set_password(ann_, other, "x", std::nullopt)),
            FaultCode::kNoSuchSession);
  EXPECT_EQ(sessions_.list(bob_)->size(), 1U);
  ASSERT_TRUE(sessions_.close(ann_, mine));
  EXPECT_FALSE(looks_up(token.hash));
  EXPECT_EQ(code_of(sessions_.close(ann_, mine)), FaultCode::kNoSuchSession);
}

TEST_F(WebSessionsTest, ANewOneTakesThePlaceOfTheCookies) {
  const NewToken before = make_token(), now = make_token();
  opened(ann_, made(before));
  NewWebSession terms = made(now);
  terms.replaces = before.hash;
  opened(ann_, terms);
  EXPECT_FALSE(looks_up(before.hash));
  EXPECT_TRUE(looks_up(now.hash));
  terms = made();
  terms.replaces = make_token().hash;
  opened(ann_, terms);
  EXPECT_EQ(sessions_.list(ann_)->size(), 2U);
}

TEST_F(WebSessionsTest, OfTooManyTheLongestUnusedEnd) {
  std::vector<SessionId> ids;
  for (std::size_t i = 0; i < kSessionsMax; ++i) {
    ids.push_back(opened(ann_).id);
  }
  opened(bob_);
  age(ids[7], "last_seen_at", 60);
  opened(ann_);
  const auto list = sessions_.list(ann_);
  EXPECT_EQ(list->size(), kSessionsMax);
  EXPECT_EQ(code_of(sessions_.find(ann_, ids[7])), FaultCode::kNoSuchSession);
  EXPECT_TRUE(sessions_.find(ann_, ids[0]));
  EXPECT_EQ(sessions_.list(bob_)->size(), 1U);
  // One that somebody holds keeps nobody from signing in, and ends with the next.
  age(ids[8], "last_seen_at", 60);
  RowHolder holder(db_.url(), Sql("SELECT 1 FROM sessions WHERE id=") << ids[8]);
  opened(ann_);
  EXPECT_EQ(sessions_.list(ann_)->size(), kSessionsMax + 1);
  holder.release();
  opened(ann_);
  EXPECT_EQ(sessions_.list(ann_)->size(), kSessionsMax);
  EXPECT_EQ(code_of(sessions_.find(ann_, ids[8])), FaultCode::kNoSuchSession);
}

TEST_F(WebSessionsTest, APasswordIsSetByAFreshSessionAndEndsTheOthers) {
  const NewToken other = make_token();
  opened(ann_, made(other));
  const auto own = opened(ann_);
  const auto bobs = opened(bob_);
  EXPECT_FALSE(*sessions_.password_of("ann@example.com"));
  EXPECT_EQ(sessions_.find(ann_, own.id)->password, std::nullopt);
  EXPECT_TRUE(sessions_.find(ann_, own.id)->fresh);
  ASSERT_TRUE(sessions_.set_password(ann_, own.id, "encoded-1", std::nullopt));
  EXPECT_FALSE(looks_up(other.hash));
  EXPECT_EQ(sessions_.list(ann_)->size(), 1U);
  EXPECT_EQ(sessions_.list(bob_)->size(), 1U);
  const auto stored = *sessions_.password_of("ann@example.com");
  ASSERT_TRUE(stored);
  EXPECT_EQ(stored->user, ann_);
  EXPECT_EQ(stored->encoded, "encoded-1");
  EXPECT_FALSE(*sessions_.password_of("bob@example.com"));
  EXPECT_FALSE(*sessions_.password_of("nobody@example.com"));

  age(own.id, "created_at", 10);
  EXPECT_FALSE(sessions_.find(ann_, own.id)->fresh);
  EXPECT_EQ(code_of(sessions_.set_password(ann_, own.id, "encoded-2", std::nullopt)),
            FaultCode::kNotFresh);
  EXPECT_EQ(code_of(sessions_.set_password(ann_, own.id, "encoded-2", "encoded-0")),
            FaultCode::kNotFresh)
      << "changed meanwhile";
  ASSERT_TRUE(sessions_.set_password(ann_, own.id, "encoded-2", "encoded-1"));
  EXPECT_EQ(sessions_.find(ann_, own.id)->password, "encoded-2");
  age(own.id, "created_at", 30 * kDay);
  EXPECT_EQ(code_of(sessions_.set_password(ann_, own.id, "encoded-3", "encoded-2")),
            FaultCode::kNoSuchSession)
      << "it has ended";
}

// Whoever sets a password is sure that nobody is in by another way, also at the same moment.
TEST_F(WebSessionsTest, APasswordEndsASessionThatIsJustOpened) {
  const auto own = opened(ann_);
  Sql opening(
      "INSERT INTO sessions (id, user_id, token_hash, created_at, last_seen_at, user_agent, "
      "address) VALUES (");
  opening << SessionId::make() << "," << ann_ << ",";
  opening.bytes(make_token().hash) << ",UTC_TIMESTAMP(6),UTC_TIMESTAMP(6),'','')";
  during(opening, "FROM sessions WHERE user_id=", [&] {
    EXPECT_TRUE(sessions_.set_password(ann_, own.id, "encoded-1", std::nullopt));
  });
  EXPECT_EQ(sessions_.list(ann_)->size(), 1U);
}

TEST_F(WebSessionsTest, ALostReplyIsFoundOut) {
  test::TcpProxy proxy(db_.url().port);
  Session session(db_.tcp_url(proxy.port()), kOperatorPatience);
  WebSessions sessions(session);
  session.now();  // What opens a session has the word as well.
  const auto lose_next = [&] { proxy.drop_reply_after("COMMIT", test::TcpProxy::Cut::kReset); };
  const NewToken link = make_token();
  lose_next();
  ASSERT_TRUE(sessions.add_link(ann_, link.hash));
  lose_next();
  const auto own = sessions.open_by_link(link.hash, made());
  ASSERT_TRUE(own) << "the link is used, by this very call";
  EXPECT_EQ(sessions_.list(ann_)->size(), 1U);
  ASSERT_TRUE(sessions_.set_password(ann_, own->session.id, "encoded-1", std::nullopt));
  age(own->session.id, "created_at", 10);
  lose_next();
  EXPECT_TRUE(sessions.set_password(ann_, own->session.id, "encoded-2", "encoded-1"));
  lose_next();
  EXPECT_TRUE(sessions.close(ann_, own->session.id));
  EXPECT_EQ(proxy.triggered(), 4);
}

// The link was used up, and nobody ever got the cookie.
TEST_F(WebSessionsTest, ALinkIsNotUsedWhereNothingCanBeToldOfTheSession) {
  test::TcpProxy proxy(db_.url().port);
  Session session(db_.tcp_url(proxy.port()), kOperatorPatience);
  WebSessions sessions(session);
  session.now();
  const Sha256 link = link_of(ann_);
  proxy.cut_before("SELECT email FROM users", test::TcpProxy::Cut::kReset);
  EXPECT_FALSE(sessions.open_by_link(link, made()));
  EXPECT_EQ(proxy.triggered(), 1);
  EXPECT_TRUE(sessions_.open_by_link(link, made()));
}

TEST_F(WebSessionsTest, APasswordOpensASessionWhileItIsTheOne) {
  const auto own = opened(ann_);
  ASSERT_TRUE(sessions_.set_password(ann_, own.id, "encoded-1", std::nullopt));
  const auto known = *sessions_.password_of("ann@example.com");
  ASSERT_TRUE(known);
  const auto in = sessions_.open_by_password(*known, made());
  ASSERT_TRUE(in);
  EXPECT_EQ(in->session.user, ann_);
  ASSERT_TRUE(sessions_.set_password(ann_, own.id, "encoded-2", std::nullopt));
  EXPECT_EQ(code_of(sessions_.open_by_password(*known, made())), FaultCode::kBadLogin)
      << "changed while it was looked at";
  const auto changed = *sessions_.password_of("ann@example.com");
  during(Sql("UPDATE passwords SET encoded='encoded-3' WHERE user_id=") << ann_,
         "FROM passwords WHERE user_id=",
         [&] {
           EXPECT_EQ(code_of(sessions_.open_by_password(*changed, made())), FaultCode::kBadLogin)
               << "and at this moment";
         });
}

TEST_F(WebSessionsTest, ANewPasswordEndsTheLinksThatNobodyHasUsed) {
  const Sha256 unused = link_of(ann_), other = link_of(ann_), bobs = link_of(bob_);
  const auto own = opened(ann_);
  age(own.id, "created_at", 10);
  EXPECT_EQ(code_of(sessions_.set_password(ann_, own.id, "encoded", std::nullopt)),
            FaultCode::kNotFresh);
  EXPECT_EQ(code_of(sessions_.set_password(ann_, SessionId::make(), "encoded", std::nullopt)),
            FaultCode::kNoSuchSession);
  EXPECT_TRUE(sessions_.open_by_link(other, made())) << "nothing was set";
  ASSERT_TRUE(sessions_.set_password(ann_, opened(ann_).id, "encoded", std::nullopt));
  EXPECT_EQ(code_of(sessions_.open_by_link(unused, made())), FaultCode::kBadLogin);
  EXPECT_TRUE(sessions_.open_by_link(bobs, made()));
  EXPECT_TRUE(sessions_.open_by_link(link_of(ann_), made())) << "one of later";
}

TEST_F(WebSessionsTest, OnlyAFreshOneMakesAKeyThatManages) {
  const auto own = opened(ann_).id;
  const KeyTerms manages{.name = "k", .scopes = kAllScopes};
  ASSERT_TRUE(keys_.add(ann_, manages, make_api_key("svc"), Asker(own)));
  const auto plain = keys_.add(ann_, {.name = "plain"}, make_api_key("svc"), Asker(own));
  ASSERT_TRUE(plain);
  age(own, "created_at", 10);
  EXPECT_EQ(code_of(keys_.add(ann_, manages, make_api_key("svc"), Asker(own))),
            FaultCode::kNotFresh);
  EXPECT_EQ(code_of(keys_.change(ann_, plain->id, {.scopes = kAllScopes}, Asker(own))),
            FaultCode::kNotFresh);
  EXPECT_TRUE(keys_.change(ann_, plain->id, {.name = "renamed"}, Asker(own)));
  EXPECT_TRUE(keys_.add(ann_, {.name = "another"}, make_api_key("svc"), Asker(own)));
  const auto bobs = opened(bob_).id;
  EXPECT_EQ(code_of(keys_.add(ann_, {.name = "k"}, make_api_key("svc"), Asker(bobs))),
            FaultCode::kAskerIsGone);
  during(Sql("DELETE FROM sessions WHERE id=") << own, "FROM sessions WHERE id=", [&] {
    EXPECT_EQ(code_of(keys_.add(ann_, {.name = "k"}, make_api_key("svc"), Asker(own))),
              FaultCode::kAskerIsGone)
        << "also at this moment";
  });
  EXPECT_EQ(code_of(keys_.add(ann_, {.name = "k"}, make_api_key("svc"), Asker(own))),
            FaultCode::kAskerIsGone);
}

TEST_F(WebSessionsTest, WhatIsTooLongOrNoTextIsCut) {
  NewWebSession terms = made();
  terms.user_agent = std::string(500, 'x') + "\xFF";
  terms.address = std::string(60, '1');
  const auto session = opened(ann_, terms);
  EXPECT_EQ(session.user_agent, std::string(kUserAgentMax, 'x'));
  EXPECT_EQ(session.address, std::string(45, '1'));
  terms = made();
  terms.user_agent = "a\xFF";
  EXPECT_EQ(opened(ann_, terms).user_agent, "a?");
}

}  // namespace
}  // namespace audiogen::store
