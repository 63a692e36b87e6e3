// The door to API keys on a real server.
#include "common/store/keys.h"

#include <atomic>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/store/spending.h"
#include "tests/store/doors_fixture.h"
#include "tests/store/task_fixture.h"
#include "tests/support/tcp_proxy.h"
#include "tests/support/wait.h"

namespace audiogen::store {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

class KeysTest : public DoorsTest {};

TEST_F(KeysTest, KeysAreStoredAsHashesOnly) {
  const UserId user = make_user("a@b", Plan::kPaid);
  const NewApiKey key = make_api_key("svc");
  const auto added = keys_.add(user, {.name = "lap\xC3\xA4top"}, key);
  ASSERT_TRUE(added) << added.error().detail;
  EXPECT_EQ(added->prefix, key.prefix);
  EXPECT_EQ(added->name, "lap\xC3\xA4top");
  EXPECT_FALSE(added->deleted_at);
  const std::string secret = key.text.substr(key.prefix.size());
  Sql search("SELECT COUNT(*) FROM api_keys WHERE INSTR(CONCAT_WS('|', HEX(id), name, prefix, ");
  search << "CAST(key_hash AS CHAR CHARACTER SET latin1)), ";
  search.bytes(secret) << ") > 0";
  EXPECT_EQ(db_.number(search), 0);

  const auto found = tasks_.find_keys(std::span(&key.hash, 1)).front();
  ASSERT_TRUE(found && *found);
  EXPECT_EQ((*found)->id, added->id);
  EXPECT_TRUE((*found)->api_access);
  EXPECT_EQ((*found)->scopes, kUsualScopes);
}

TEST_F(KeysTest, KeysAreListedAndDeleted) {
  const UserId user = make_user("a@b", Plan::kPaid);
  const UserId other = make_user("c@d", Plan::kPaid);
  const NewApiKey key = make_api_key("svc");
  const auto one = keys_.add(user, {.name = "one"}, key);
  ASSERT_TRUE(keys_.add(user, {.name = "two"}, make_api_key("svc")));
  ASSERT_TRUE(keys_.add(other, {.name = "other"}, make_api_key("svc")));
  const auto listed = keys_.list(user);
  ASSERT_THAT(*listed, SizeIs(2));
  EXPECT_EQ((*listed)[0].name, "one");
  EXPECT_EQ((*listed)[1].name, "two");

  const auto deleted = keys_.remove(one->id);
  ASSERT_TRUE(deleted);
  EXPECT_FALSE(deleted->repeated);
  ASSERT_TRUE(deleted->key.deleted_at);
  const auto again = keys_.remove(one->id);
  ASSERT_TRUE(again) << again.error().detail;
  EXPECT_TRUE(again->repeated);
  EXPECT_EQ(again->key.deleted_at, deleted->key.deleted_at);
  EXPECT_FALSE((*tasks_.find_keys(std::span(&key.hash, 1)).front()));
  EXPECT_THAT(*keys_.list(user), SizeIs(2));
  const KeyId unknown = KeyId::make();
  const auto none = keys_.remove(unknown);
  EXPECT_EQ(code_of(none), FaultCode::kNoSuchKey);
  EXPECT_EQ(none.error().about, unknown.text());
}

TEST_F(KeysTest, NobodyHasNoKeys) {
  const UserId nobody = UserId::make();
  EXPECT_EQ(code_of(keys_.add(nobody, {.name = "k"}, make_api_key("svc"))), FaultCode::kNoSuchUser);
  EXPECT_THAT(*keys_.list(nobody), IsEmpty());
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM api_keys")), 0);
}

TEST_F(KeysTest, KeyNamesHaveLimits) {
  const UserId user = make_user("a@b", Plan::kPaid);
  std::string wide;
  for (int i = 0; i < 100; ++i) {
    wide += "\xF0\x9F\x8E\xB5";
  }
  EXPECT_TRUE(keys_.add(user, {.name = wide}, make_api_key("svc")));
  for (const std::string& bad : {std::string(),
                                 wide + "x",
                                 std::string("a\nb"),
                                 std::string("\xFF"),
                                 std::string("a\x7F"),
                                 std::string("a ")}) {
    EXPECT_EQ(code_of(keys_.add(user, {.name = bad}, make_api_key("svc"))), FaultCode::kBadKeyName);
  }
}

constexpr Scopes kBoth{3};

class KeysOfAUserTest : public KeysTest {
 protected:
  KeyInfo must_add(const std::string& name,
                   Scopes scopes = kBoth,
                   std::optional<Instant> expires_at = std::nullopt) {
    const auto added = keys_.add(
        user_, {.name = name, .scopes = scopes, .expires_at = expires_at}, make_api_key("svc"));
    EXPECT_TRUE(added);
    return added ? *added : KeyInfo{};
  }
  // As it comes back: to the microsecond.
  Instant in(std::chrono::seconds time) { return session_.now() + time; }
  KeyId must_limit(const std::string& name,
                   Scopes scopes = kBoth,
                   SpendLimit limit = {credits(1000), SpendPeriod::kDay}) {
    const auto added = keys_.add(
        user_, {.name = name, .scopes = scopes, .spend_limit = limit}, make_api_key("svc"));
    EXPECT_TRUE(added);
    return added ? added->id : KeyId();
  }
  FaultCode added_by(KeyId asker, const KeyTerms& terms) {
    return code_of(keys_.add(user_, terms, make_api_key("svc"), asker));
  }

  UserId user_ = make_user("owner@b", Plan::kPaid);
};

TEST_F(KeysOfAUserTest, ScopesAndExpiryAreKept) {
  const Instant end = in(1h);
  const NewApiKey key = make_api_key("svc");
  const auto added = keys_.add(user_, {.name = "k", .scopes = {}, .expires_at = end}, key);
  ASSERT_TRUE(added) << added.error().detail;
  EXPECT_EQ(added->scopes, Scopes{});
  EXPECT_EQ(added->expires_at, end);
  const auto found = tasks_.find_keys(std::span(&key.hash, 1)).front();
  ASSERT_TRUE(found && *found);
  EXPECT_EQ((*found)->scopes, Scopes{});
}

TEST_F(KeysOfAUserTest, AKeyThatHasExpiredIsNotFound) {
  const NewApiKey key = make_api_key("svc");
  const auto added = keys_.add(user_, {.name = "k", .expires_at = in(1h)}, key);
  ASSERT_TRUE(added);
  EXPECT_TRUE(*tasks_.find_keys(std::span(&key.hash, 1)).front());
  db_.execute(Sql("UPDATE api_keys SET expires_at=UTC_TIMESTAMP(6) WHERE id=") << added->id);
  EXPECT_FALSE(*tasks_.find_keys(std::span(&key.hash, 1)).front());
  EXPECT_THAT(keys_.page(user_, std::nullopt, 10)->keys, SizeIs(1)) << "and is shown";
}

TEST_F(KeysOfAUserTest, AnEndIsInTheFutureAndNotFarAway) {
  for (const std::chrono::seconds time : {-1s, 0s, std::chrono::seconds(kKeyLifeMax) + 1min}) {
    EXPECT_EQ(code_of(keys_.add(user_, {.name = "k", .expires_at = in(time)}, make_api_key("svc"))),
              FaultCode::kBadKeyExpiry);
  }
  EXPECT_TRUE(must_add("k", kBoth, in(std::chrono::seconds(kKeyLifeMax) - 1min)).expires_at);
}

TEST_F(KeysOfAUserTest, ThereAreFiftyAtMost) {
  for (std::size_t i = 1; i < kKeysMax; ++i) {
    must_add("k", kUsualScopes, in(1h));
  }
  const KeyInfo last = must_add("last");
  db_.execute(Sql("UPDATE api_keys SET expires_at=UTC_TIMESTAMP(6) WHERE id<>") << last.id);
  EXPECT_EQ(code_of(keys_.add(user_, {.name = "more"}, make_api_key("svc"))),
            FaultCode::kTooManyKeys);
  ASSERT_TRUE(keys_.add(make_user("x@y"), {.name = "another's"}, make_api_key("svc")));
  ASSERT_TRUE(keys_.remove_own(user_, last.id));
  EXPECT_TRUE(keys_.add(user_, {.name = "more"}, make_api_key("svc")));
}

// Whoever counts waits for who has counted and not committed yet: he has locked the oldest.
TEST_F(KeysOfAUserTest, TheLastOneIsMadeOnce) {
  const KeyInfo oldest = must_add("oldest");
  for (std::size_t i = 2; i < kKeysMax; ++i) {
    must_add("k");
  }
  const NewApiKey key = make_api_key("svc");
  Sql last(
      "INSERT INTO api_keys (id, user_id, key_hash, prefix, name, scopes, created_at) SELECT ");
  last << KeyId::make() << ", user_id, ";
  last.bytes(key.hash) << ", prefix, 'last', scopes, created_at FROM api_keys WHERE id="
                       << oldest.id << " FOR UPDATE";
  during(last, "ORDER BY id LIMIT 1 FOR UPDATE", [&] {
    EXPECT_EQ(code_of(keys_.add(user_, {.name = "more"}, make_api_key("svc"))),
              FaultCode::kTooManyKeys);
  });
  EXPECT_EQ(keys_.list(user_)->size(), kKeysMax);
}

// Whoever counts sees those that others make meanwhile.
TEST_F(KeysOfAUserTest, ManyAtOnceDoNotMakeOneTooMany) {
  for (std::size_t i = 2; i < kKeysMax; ++i) {
    must_add("k");
  }
  std::atomic<int> made{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      Session session(db_.url());
      Keys keys(session);
      const auto added = keys.add(user_, {.name = "k"}, make_api_key("svc"));
      EXPECT_TRUE(added || added.error().code == FaultCode::kTooManyKeys);
      made += added ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(made, 2);
}

// It had done so, and was told that it may not.
TEST_F(KeysOfAUserTest, WhoGivesUpItsRightIsToldSoThoughTheAnswerIsLost) {
  const KeyId manager = must_add("m", kBoth).id;
  test::TcpProxy proxy(db_.url().port);
  Session session(db_.tcp_url(proxy.port()), kOperatorPatience);
  Keys far(session);
  session.now();
  proxy.drop_reply_after("COMMIT");
  const auto changed = far.change(user_, manager, {.name = "less", .scopes = Scopes{1}}, manager);
  EXPECT_EQ(proxy.triggered(), 1);
  ASSERT_TRUE(changed) << changed.error().detail;
  EXPECT_EQ(changed->scopes, Scopes{1});
  EXPECT_EQ(changed->name, "less");
}

TEST_F(KeysOfAUserTest, NobodyGivesWhatHeLacks) {
  const Instant end = in(1h);
  const KeyId manager = must_add("m", {2}, end).id;
  EXPECT_EQ(added_by(manager, {.name = "k", .scopes = kBoth, .expires_at = end}),
            FaultCode::kScopeNotOwn);
  EXPECT_EQ(added_by(manager, {.name = "k", .scopes = {2}, .expires_at = end + 1us}),
            FaultCode::kExpiryNotOwn);
  const auto forever = keys_.add(user_, {.name = "k", .scopes = {2}}, make_api_key("svc"), manager);
  ASSERT_EQ(code_of(forever), FaultCode::kExpiryNotOwn);
  EXPECT_EQ(forever.error().about, format_iso(end));
  EXPECT_TRUE(keys_.add(
      user_, {.name = "k", .scopes = {2}, .expires_at = end}, make_api_key("svc"), manager));
  EXPECT_EQ(added_by(must_add("g", kUsualScopes).id, {.name = "k", .scopes = {}}),
            FaultCode::kScopeNotOwn);
  EXPECT_TRUE(keys_.add(user_, {.name = "k"}, make_api_key("svc"), must_add("both").id));
}

TEST_F(KeysOfAUserTest, AKeyThatIsGoneMakesNoOther) {
  const KeyId expired = must_add("e", kBoth, in(1h)).id;
  db_.execute(Sql("UPDATE api_keys SET expires_at=UTC_TIMESTAMP(6) WHERE id=") << expired);
  const KeyId deleted = must_add("d").id;
  ASSERT_TRUE(keys_.remove(deleted));
  const auto others =
      keys_.add(make_user("x@y"), {.name = "o", .scopes = kBoth}, make_api_key("svc"));
  for (const KeyId asker : {expired, deleted, others->id, KeyId::make()}) {
    EXPECT_EQ(added_by(asker, {.name = "k", .scopes = {}, .expires_at = in(1min)}),
              FaultCode::kAskerIsGone);
  }
}

// Whoever deletes a key is sure that it makes no other at the same moment.
TEST_F(KeysOfAUserTest, AKeyThatIsJustDeletedMakesNoOther) {
  must_add("the oldest, which stands for all");
  const KeyId asker = must_add("asker").id;
  during(Sql("UPDATE api_keys SET deleted_at=UTC_TIMESTAMP(6) WHERE id=") << asker,
         "expires_at>UTC_TIMESTAMP(6)) FOR UPDATE",
         [&] { EXPECT_EQ(added_by(asker, {.name = "k", .scopes = {}}), FaultCode::kAskerIsGone); });
}

TEST_F(KeysOfAUserTest, ALostReplyDeletesOnce) {
  const KeyId key = must_add("k").id;
  test::TcpProxy proxy(db_.url().port);
  Session session(db_.tcp_url(proxy.port()), kOperatorPatience);
  Keys keys(session);
  session.now();  // What opens a session has the word as well.
  proxy.drop_reply_after("COMMIT", test::TcpProxy::Cut::kReset);
  const auto removed = keys.remove_own(user_, key);
  EXPECT_TRUE(removed) << "it is this call that did it";
  proxy.drop_reply_after("COMMIT", test::TcpProxy::Cut::kReset);
  const auto by_operator = keys.remove(must_add("other").id);
  ASSERT_TRUE(by_operator);
  EXPECT_FALSE(by_operator->repeated);
  EXPECT_EQ(proxy.triggered(), 2);
}

// Of such a key nobody would ever see the secret.
TEST_F(KeysOfAUserTest, NoneIsMadeOfWhichNothingCanBeTold) {
  test::TcpProxy proxy(db_.url().port);
  Session session(db_.tcp_url(proxy.port()), kOperatorPatience);
  Keys keys(session);
  session.now();
  proxy.cut_before("last_used_at, deleted_at", test::TcpProxy::Cut::kReset);
  EXPECT_FALSE(keys.add(user_, {.name = "k"}, make_api_key("svc")));
  EXPECT_EQ(proxy.triggered(), 1);
  EXPECT_TRUE(keys_.list(user_)->empty());
}

TEST_F(KeysOfAUserTest, PagesAreNewestFirstAndHaveNoDeletedOnes) {
  const KeyInfo first = must_add("1"), second = must_add("2"), third = must_add("3");
  ASSERT_TRUE(keys_.add(make_user("x@y"), {.name = "another's"}, make_api_key("svc")));
  ASSERT_TRUE(keys_.remove(must_add("gone").id));
  const auto page = keys_.page(user_, std::nullopt, 2);
  ASSERT_TRUE(page);
  ASSERT_THAT(page->keys, SizeIs(2));
  EXPECT_EQ(page->keys[0].id, third.id);
  EXPECT_EQ(page->keys[1].id, second.id);
  EXPECT_TRUE(page->has_more);
  const auto rest = keys_.page(user_, second.id, 2);
  ASSERT_THAT(rest->keys, SizeIs(1));
  EXPECT_EQ(rest->keys[0].id, first.id);
  EXPECT_FALSE(rest->has_more);
  EXPECT_FALSE(keys_.page(user_, std::nullopt, 3)->has_more);
}

TEST_F(KeysOfAUserTest, AKeyIsDeletedByItsOwnUserOnce) {
  const KeyId id = must_add("k").id;
  const UserId other = make_user("x@y");
  EXPECT_EQ(code_of(keys_.remove_own(other, id)), FaultCode::kNoSuchKey);
  EXPECT_FALSE(keys_.list(user_)->front().deleted_at);
  EXPECT_TRUE(keys_.remove_own(user_, id));
  EXPECT_EQ(code_of(keys_.remove_own(user_, id)), FaultCode::kNoSuchKey);
  EXPECT_TRUE(keys_.list(user_)->front().deleted_at);
}

// It was asked for before, and waited.
TEST_F(KeysOfAUserTest, AKeyThatIsGoneDeletesNoOther) {
  const KeyId first = must_add("first").id, second = must_add("second").id,
              third = must_add("third").id;
  ASSERT_TRUE(keys_.remove_own(user_, second, first));
  EXPECT_EQ(code_of(keys_.remove_own(user_, third, second)), FaultCode::kAskerIsGone);
  EXPECT_EQ(code_of(keys_.remove_own(user_, first, second)), FaultCode::kAskerIsGone);
  EXPECT_TRUE(keys_.remove_own(user_, third, third)) << "itself";
  EXPECT_TRUE(keys_.remove_own(user_, first, first));
}

// As in the API, where a statement waits for no row: whoever ends a key that leaked is not told to
// come again because the key has just been used.
TEST_F(KeysOfAUserTest, ADeletionWaitsForWhoeverHoldsTheKey) {
  Session session(db_.url(), {.lock_wait = 0s});
  Keys keys(session);
  const KeyId id = must_add("k").id;
  // Now and then a slow machine frees the row later than the wait ends.
  bool removed = false;
  for (int i = 0; i < 50 && !removed; ++i) {
    RowHolder holder(db_.url(), Sql("SELECT 1 FROM api_keys WHERE id=") << id);
    std::atomic<bool> done{false};
    std::thread freeing([&] {
      EXPECT_TRUE(test::eventually(10s, [&] {
        return done || db_.number(Sql("SELECT COUNT(*) FROM information_schema.processlist WHERE "
                                      "db=DATABASE() AND info LIKE '%FROM api_keys%FOR UPDATE' AND "
                                      "id<>CONNECTION_ID()")) > 0;
      }));
      holder.release();
    });
    removed = static_cast<bool>(keys.remove_own(user_, id));
    done = true;
    freeing.join();
  }
  EXPECT_TRUE(removed);
}

TEST_F(KeysOfAUserTest, AChangeIsOfWhatIsGiven) {
  const KeyId asker = must_add("both").id;
  const Instant end = in(1h);
  const KeyInfo key = must_add("k", kUsualScopes, end);
  auto changed = keys_.change(user_, key.id, {.name = "other"}, asker);
  ASSERT_TRUE(changed) << changed.error().detail;
  EXPECT_EQ(changed->name, "other");
  EXPECT_EQ(changed->scopes, kUsualScopes);
  EXPECT_EQ(changed->expires_at, end);
  changed = keys_.change(user_, key.id, {.scopes = Scopes{}}, asker);
  ASSERT_TRUE(changed);
  EXPECT_EQ(changed->scopes, Scopes{});
  changed = keys_.change(user_, key.id, {.expires_at = std::optional<Instant>()}, asker);
  ASSERT_TRUE(changed);
  EXPECT_EQ(changed->expires_at, std::nullopt);
  changed = keys_.change(user_, key.id, {}, asker);
  ASSERT_TRUE(changed);
  EXPECT_EQ(changed->name, "other");
  EXPECT_EQ(code_of(keys_.change(user_, key.id, {.expires_at = in(-1s)}, asker)),
            FaultCode::kBadKeyExpiry);
  EXPECT_EQ(code_of(keys_.change(user_, key.id, {.name = ""}, asker)), FaultCode::kBadKeyName);
}

TEST_F(KeysOfAUserTest, AChangeGivesNoMoreThanTheAskerHas) {
  const Instant end = in(1h);
  const KeyId asker = must_add("m", {2}, end).id;
  const KeyInfo key = must_add("k", kBoth);
  EXPECT_EQ(code_of(keys_.change(user_, key.id, {.scopes = kBoth}, asker)),
            FaultCode::kScopeNotOwn);
  EXPECT_EQ(code_of(keys_.change(user_, asker, {.expires_at = std::optional<Instant>()}, asker)),
            FaultCode::kExpiryNotOwn);
  EXPECT_TRUE(keys_.change(user_, key.id, {.name = "what is not given is not asked"}, asker));
  EXPECT_TRUE(keys_.change(user_, asker, {.scopes = Scopes{}}, asker));
  EXPECT_EQ(code_of(keys_.change(user_, key.id, {.name = "x"}, asker)), FaultCode::kScopeNotOwn);
}

// Else a key that ends in an hour makes another, which never ends, one that manages; and one that
// only manages keeps a key that generates alive.
TEST_F(KeysOfAUserTest, WhatAChangeGivesIsGivenToTheWholeKey) {
  const Instant end = in(1h);
  const KeyId brief = must_add("both, for an hour", kBoth, end).id;
  const KeyId forever = must_add("g", kUsualScopes).id;
  const auto refused = keys_.change(user_, forever, {.scopes = kBoth}, brief);
  ASSERT_EQ(code_of(refused), FaultCode::kExpiryNotOwn);
  EXPECT_EQ(refused.error().about, format_iso(end));
  EXPECT_TRUE(keys_.change(user_, forever, {.scopes = kUsualScopes}, brief)) << "nothing is given";
  EXPECT_TRUE(
      keys_.change(user_, forever, {.scopes = kBoth, .expires_at = std::optional(end)}, brief))
      << "no longer than it lasts itself";
  EXPECT_TRUE(keys_.change(user_, forever, {.scopes = Scopes{}}, brief)) << "less is no gift";

  const KeyId manager = must_add("m", {2}).id;
  const KeyId ends = must_add("g", kUsualScopes, end).id;
  EXPECT_EQ(code_of(keys_.change(user_, ends, {.expires_at = end + 1us}, manager)),
            FaultCode::kScopeNotOwn);
  EXPECT_TRUE(keys_.change(user_, ends, {.expires_at = end - 1min}, manager)) << "sooner";
  EXPECT_TRUE(keys_.change(
      user_, ends, {.scopes = Scopes{2}, .expires_at = std::optional<Instant>()}, manager))
      << "with scopes that it has";
}

// The list was told as a database that does not work, until the workers had counted.
TEST_F(KeysOfAUserTest, WhatIsNotCountedYetIsNotTold) {
  const SpendLimit day{credits(1000), SpendPeriod::kDay};
  const auto added = keys_.add(user_, {.name = "k", .spend_limit = day}, make_api_key("svc"));
  ASSERT_TRUE(added);
  db_.execute(Sql("UPDATE balances SET seq=seq+") << kSpendTailShown << " WHERE user_id=" << user_);
  EXPECT_EQ(keys_.list(user_)->front().spent, Units{});
  db_.execute(Sql("UPDATE balances SET seq=seq+1 WHERE user_id=") << user_);
  const auto page = keys_.page(user_, std::nullopt, 10);
  ASSERT_TRUE(page) << page.error().detail;
  EXPECT_EQ(page->keys.front().spent, std::nullopt);
  EXPECT_EQ(page->keys.front().spend_limit, day);
}

TEST_F(KeysOfAUserTest, ALimitIsKeptAndChanged) {
  const NewApiKey secret = make_api_key("svc");
  const SpendLimit day{credits(1000), SpendPeriod::kDay}, month{credits(150), SpendPeriod::kMonth};
  const auto added = keys_.add(user_, {.name = "k", .spend_limit = day}, secret);
  ASSERT_TRUE(added) << added.error().detail;
  EXPECT_EQ(added->spend_limit, day);
  EXPECT_EQ(added->spent, Units{});
  const auto limited = [&] {
    return (*tasks_.find_keys(std::span(&secret.hash, 1)).front())->limited;
  };
  EXPECT_TRUE(limited());
  const KeyId asker = must_add("both").id;
  const auto change = [&](const KeyChange& wanted) {
    const auto changed = keys_.change(user_, added->id, wanted, asker);
    EXPECT_TRUE(changed) << changed.error().detail;
    return changed ? changed->spend_limit : std::nullopt;
  };
  EXPECT_EQ(change({.spend_limit = month}), month);
  EXPECT_EQ(change({.name = "other"}), month) << "what is not given stays";
  EXPECT_EQ(keys_.page(user_, std::nullopt, 10)->keys.back().spend_limit, month);
  EXPECT_EQ(change({.spend_limit = std::optional<SpendLimit>()}), std::nullopt);
  EXPECT_FALSE(limited());
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM spend_marks")), 0);
  EXPECT_EQ(change({.spend_limit = day}), day);
  EXPECT_TRUE(limited());
  for (const Units amount : {Units{}, credits(149), Units{150'001}}) {
    const SpendLimit wrong{amount, SpendPeriod::kDay};
    EXPECT_EQ(code_of(keys_.change(user_, added->id, {.spend_limit = wrong}, asker)),
              FaultCode::kBadSpendLimit);
    EXPECT_EQ(code_of(keys_.add(user_, {.name = "k", .spend_limit = wrong}, make_api_key("svc"))),
              FaultCode::kBadSpendLimit);
  }
  const auto rotated = keys_.rotate(user_, added->id, 1h, make_api_key("svc"), asker);
  ASSERT_TRUE(rotated);
  EXPECT_EQ(rotated->spend_limit, day) << "rotation keeps it";
  EXPECT_TRUE(limited()) << "by the secret before, too";
  expect_sound();
}

// Else it makes as many keys as it likes, each with a limit of its own.
TEST_F(KeysOfAUserTest, AKeyWithALimitLetsNoOtherSpend) {
  const KeyId asker = must_limit("limited");
  const SpendLimit less{credits(150), SpendPeriod::kDay};
  for (const auto& limit : {std::optional(less), std::optional<SpendLimit>()}) {
    for (const Scopes scopes : {kUsualScopes, kBoth}) {
      EXPECT_EQ(added_by(asker, {.name = "k", .scopes = scopes, .spend_limit = limit}),
                FaultCode::kSpendingNotOwn);
    }
  }
  EXPECT_TRUE(keys_.add(user_, {.name = "reads", .scopes = {}}, make_api_key("svc"), asker));
  const auto manager = keys_.add(user_, {.name = "m", .scopes = {2}}, make_api_key("svc"), asker);
  ASSERT_TRUE(manager) << "it cannot spend";
  const KeyId other = must_limit("other", kUsualScopes, less), free = must_add("free").id;
  const auto change = [&](KeyId key, const KeyChange& wanted) {
    return code_of(keys_.change(user_, key, wanted, asker));
  };
  const SpendLimit more{credits(151), SpendPeriod::kDay};
  EXPECT_EQ(change(manager->id, {.scopes = kBoth}), FaultCode::kSpendingNotOwn);
  EXPECT_EQ(change(other, {.spend_limit = more}), FaultCode::kSpendingNotOwn);
  EXPECT_EQ(change(other, {.spend_limit = std::optional<SpendLimit>()}),
            FaultCode::kSpendingNotOwn);
  const KeyId ends = must_add("ends", kUsualScopes, in(1h)).id;
  EXPECT_EQ(change(ends, {.expires_at = in(2h)}), FaultCode::kSpendingNotOwn) << "for longer";
  EXPECT_TRUE(keys_.change(user_, free, {.spend_limit = less}, asker)) << "less is no gift";
  EXPECT_TRUE(keys_.change(user_, other, {.name = "x", .scopes = Scopes{}}, asker));
  const auto rotate = [&](KeyId key, KeyId by) {
    return keys_.rotate(user_, key, 1h, make_api_key("svc"), by);
  };
  EXPECT_EQ(code_of(rotate(free, asker)), FaultCode::kSpendingNotOwn) << "he would have its secret";
  EXPECT_TRUE(rotate(asker, asker)) << "his own";
  EXPECT_TRUE(rotate(manager->id, asker));
  // Nor by way of the key that manages only.
  EXPECT_EQ(code_of(rotate(asker, manager->id)), FaultCode::kScopeNotOwn);
  EXPECT_EQ(code_of(keys_.change(
                user_, asker, {.spend_limit = std::optional<SpendLimit>()}, manager->id)),
            FaultCode::kScopeNotOwn);
}

TEST_F(KeysOfAUserTest, NoKeyRaisesItsOwnLimit) {
  const KeyId asker = must_limit("limited");
  const auto change = [&](std::optional<SpendLimit> limit) {
    return keys_.change(user_, asker, {.spend_limit = limit}, asker);
  };
  for (const auto& limit : {std::optional<SpendLimit>(),
                            std::optional(SpendLimit{credits(1001), SpendPeriod::kDay}),
                            std::optional(SpendLimit{credits(150), SpendPeriod::kMonth})}) {
    const auto refused = change(limit);
    ASSERT_EQ(code_of(refused), FaultCode::kLimitNotOwn);
    EXPECT_EQ(refused.error().about, "1000 credits a day");
  }
  EXPECT_TRUE(change(SpendLimit{credits(1000), SpendPeriod::kDay})) << "as it is";
  EXPECT_TRUE(change(SpendLimit{credits(900), SpendPeriod::kDay}));
  EXPECT_EQ(code_of(change(SpendLimit{credits(1000), SpendPeriod::kDay})), FaultCode::kLimitNotOwn);
  EXPECT_TRUE(keys_.change(user_, asker, {.name = "x", .scopes = kBoth}, asker));
}

TEST_F(KeysOfAUserTest, AKeyThatIsDeletedCountsNoMore) {
  const KeyId one = must_limit("1"), two = must_limit("2");
  ASSERT_TRUE(keys_.remove_own(user_, one));
  ASSERT_TRUE(keys_.remove(two));
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM spend_marks")), 0);
  EXPECT_THAT(*keys_.list(user_), SizeIs(2)) << "and is still listed";
  expect_sound();
}

TEST_F(KeysOfAUserTest, OnlyAKeyOfTheUserThatIsThereIsChanged) {
  const KeyId asker = must_add("both").id;
  const KeyId gone = must_add("gone").id;
  ASSERT_TRUE(keys_.remove(gone));
  const auto others = keys_.add(make_user("x@y"), {.name = "o"}, make_api_key("svc"));
  for (const KeyId id : {gone, others->id, KeyId::make()}) {
    EXPECT_EQ(code_of(keys_.change(user_, id, {.name = "x"}, asker)), FaultCode::kNoSuchKey);
  }
  const KeyId key = must_add("k").id;
  EXPECT_EQ(code_of(keys_.change(user_, key, {.name = "x"}, gone)), FaultCode::kAskerIsGone);
}

class RotationTest : public KeysOfAUserTest {
 protected:
  bool works(const NewApiKey& secret) {
    const auto found = tasks_.find_keys(std::span(&secret.hash, 1)).front();
    EXPECT_TRUE(found);
    if (found && *found) {
      EXPECT_EQ((*found)->id, key_);
      EXPECT_EQ((*found)->scopes, kBoth);
    }
    return found && *found;
  }
  KeyInfo rotate(std::chrono::hours overlap, const NewApiKey& secret) {
    const auto rotated = keys_.rotate(user_, key_, overlap, secret, key_);
    EXPECT_TRUE(rotated) << rotated.error().detail;
    return rotated ? *rotated : KeyInfo{};
  }
  // As a program does that asks something with it.
  void use(const NewApiKey& secret) {
    const auto found = tasks_.find_keys(std::span(&secret.hash, 1)).front();
    ASSERT_TRUE(found && *found);
    ASSERT_TRUE(tasks_.touch_keys(std::span(&**found, 1)).front());
  }
  void end_overlap() {
    db_.execute(Sql("UPDATE api_keys SET previous_until=UTC_TIMESTAMP(6) WHERE id=") << key_);
  }

  const NewApiKey first_ = make_api_key("svc"), second_ = make_api_key("svc"),
                  third_ = make_api_key("svc");
  const KeyId key_ = keys_.add(user_, {.name = "k", .scopes = kBoth}, first_)->id;
};

TEST_F(RotationTest, BothSecretsWorkUntilTheOverlapIsOver) {
  const KeyInfo rotated = rotate(2h, second_);
  EXPECT_EQ(rotated.id, key_);
  EXPECT_EQ(rotated.prefix, second_.prefix);
  ASSERT_TRUE(rotated.previous_until);
  EXPECT_GT(*rotated.previous_until, in(119min));
  EXPECT_LE(*rotated.previous_until, in(120min));
  EXPECT_TRUE(works(first_) && works(second_));
  const std::vector<Sha256> both = {second_.hash, first_.hash, third_.hash};
  const auto found = tasks_.find_keys(both);
  EXPECT_TRUE(*found[0] && *found[1] && !*found[2]) << "each at its place";
  // By whichever was seen where it should not be an operator finds the key.
  EXPECT_EQ(*keys_.resolve(first_.prefix), key_);
  EXPECT_EQ(*keys_.resolve(second_.prefix), key_);
  end_overlap();
  EXPECT_FALSE(keys_.resolve(first_.prefix)) << "it opens nothing any more";
  EXPECT_FALSE(works(first_));
  EXPECT_TRUE(works(second_));
  EXPECT_FALSE(keys_.list(user_)->front().previous_until) << "it is over";
}

TEST_F(RotationTest, WithoutOverlapTheOldOneEndsAtOnce) {
  EXPECT_FALSE(rotate(0h, second_).previous_until);
  EXPECT_FALSE(works(first_));
  EXPECT_TRUE(works(second_));
}

TEST_F(RotationTest, ASecondRotationEndsTheOldest) {
  rotate(168h, second_);
  use(second_);
  rotate(1h, third_);
  EXPECT_FALSE(works(first_));
  EXPECT_TRUE(works(second_) && works(third_));
  rotate(0h, make_api_key("svc"));
  EXPECT_FALSE(works(second_) || works(third_));
}

// The second secret was in an answer that nobody got; programs go on with the first, and whoever
// rotated does it once more.
TEST_F(RotationTest, ASecretThatNobodySawEndsNone) {
  rotate(24h, second_);
  use(first_);
  const KeyInfo again = rotate(2h, third_);
  EXPECT_TRUE(works(first_) && works(third_));
  EXPECT_FALSE(works(second_)) << "nobody has it";
  EXPECT_LE(*again.previous_until, in(120min)) << "as was asked for last";
  EXPECT_EQ(*keys_.resolve(first_.prefix), key_) << "an operator finds it by either";
  // What was never used and has nothing beside it is what programs will use.
  end_overlap();
  rotate(1h, second_);
  EXPECT_TRUE(works(third_) && works(second_));
  // To end everything that there was is asked for by 0 hours, used or not.
  rotate(0h, first_);
  EXPECT_TRUE(works(first_));
  EXPECT_FALSE(works(second_) || works(third_));
}

TEST_F(RotationTest, DeletionAndExpiryEndBoth) {
  rotate(1h, second_);
  db_.execute(Sql("UPDATE api_keys SET expires_at=UTC_TIMESTAMP(6) WHERE id=") << key_);
  EXPECT_FALSE(works(first_) || works(second_));
  db_.execute(Sql("UPDATE api_keys SET expires_at=NULL WHERE id=") << key_);
  EXPECT_TRUE(works(first_) && works(second_));
  ASSERT_TRUE(keys_.remove_own(user_, key_));
  EXPECT_FALSE(works(first_) || works(second_));
  EXPECT_EQ(code_of(keys_.rotate(user_, key_, 1h, third_, must_add("m").id)),
            FaultCode::kNoSuchKey);
}

// Whoever rotates a key has its new secret: it must not be more than he has himself.
TEST_F(RotationTest, NobodyGetsWhatHeLacks) {
  const KeyId manager = must_add("m", {2}).id, generator = must_add("g", kUsualScopes).id;
  const KeyId ends = must_add("e", kBoth, in(1h)).id;
  const auto others =
      keys_.add(make_user("x@y"), {.name = "o", .scopes = kBoth}, make_api_key("svc"));
  const auto fault = [&](KeyId key, KeyId asker) {
    return code_of(keys_.rotate(user_, key, 1h, second_, asker));
  };
  EXPECT_EQ(fault(key_, manager), FaultCode::kScopeNotOwn);
  EXPECT_EQ(fault(key_, generator), FaultCode::kScopeNotOwn);
  EXPECT_EQ(fault(generator, generator), FaultCode::kScopeNotOwn);
  EXPECT_EQ(fault(key_, ends), FaultCode::kExpiryNotOwn);
  EXPECT_EQ(fault(key_, others->id), FaultCode::kAskerIsGone);
  EXPECT_EQ(fault(others->id, key_), FaultCode::kNoSuchKey);
  EXPECT_EQ(fault(KeyId::make(), key_), FaultCode::kNoSuchKey);
  EXPECT_TRUE(works(first_)) << "nothing was changed";
  EXPECT_FALSE(*tasks_.find_keys(std::span(&second_.hash, 1)).front());
  EXPECT_TRUE(keys_.rotate(user_, generator, 1h, second_, key_));
  EXPECT_TRUE(keys_.rotate(user_, ends, 1h, third_, ends)) << "its own";
}

TEST_F(RotationTest, AnOperatorRotatesAnybodys) {
  const auto rotated = keys_.rotate(key_, 1h, second_);
  ASSERT_TRUE(rotated) << rotated.error().detail;
  EXPECT_EQ(rotated->prefix, second_.prefix);
  EXPECT_TRUE(works(first_) && works(second_));
  ASSERT_TRUE(keys_.remove(key_));
  for (const KeyId id : {key_, KeyId::make()}) {
    const auto none = keys_.rotate(id, 1h, third_);
    ASSERT_EQ(code_of(none), FaultCode::kNoSuchKey);
    EXPECT_EQ(none.error().about, id.text());
  }
}

TEST_F(RotationTest, ALostReplyRotatesOnce) {
  test::TcpProxy proxy(db_.url().port);
  Session session(db_.tcp_url(proxy.port()), kOperatorPatience);
  Keys keys(session);
  session.now();  // What opens a session has the word as well.
  proxy.drop_reply_after("COMMIT", test::TcpProxy::Cut::kReset);
  const auto rotated = keys.rotate(user_, key_, 1h, second_, key_);
  ASSERT_TRUE(rotated) << rotated.error().detail;
  EXPECT_EQ(proxy.triggered(), 1);
  EXPECT_TRUE(works(first_)) << "not pushed out by a second run";
  EXPECT_TRUE(works(second_));
}

// Its end is only a time: one that is over may be given another.
TEST_F(KeysOfAUserTest, AnExpiredKeyCanBeMadeToWorkAgain) {
  const NewApiKey secret = make_api_key("svc");
  const auto key = keys_.add(user_, {.name = "k", .expires_at = in(1h)}, secret);
  db_.execute(Sql("UPDATE api_keys SET expires_at=UTC_TIMESTAMP(6) WHERE id=") << key->id);
  ASSERT_TRUE(keys_.change(user_, key->id, {.expires_at = in(1h)}, must_add("both").id));
  EXPECT_TRUE(*tasks_.find_keys(std::span(&secret.hash, 1)).front());
}

}  // namespace
}  // namespace audiogen::store
