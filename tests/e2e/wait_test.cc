// Status reads that are held back until their task is final (Prefer: wait).
#include "tests/support/wait.h"

#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/raw_http.h"
#include "tests/support/stack.h"

namespace audiogen::test {
namespace {

Stack::Options without_worker() {
  Stack::Options options;
  options.workers = 0;
  return options;
}

Reply get_preferring(Stack& stack,
                     const Account& account,
                     const std::string& id,
                     const std::string& prefer) {
  return stack.judged("GET",
                      "/audio/generations/{task_id}",
                      http("GET",
                           stack.base() + "/audio/generations/" + id,
                           Stack::bearer(account.key, {"Prefer: " + prefer})));
}

std::string read_of(const Account& account, const std::string& id, const std::string& prefer) {
  return get_request("/api/v1/audio/generations/" + id,
                     "Authorization: Bearer " + account.key + "\r\nPrefer: " + prefer + "\r\n");
}

TEST(Wait, EndsWithTheTask) {
  Stack stack;
  const Account ann = stack.account();
  const std::string id = stack.create(ann, Stack::body()).text("id");
  const Reply reply = get_preferring(stack, ann, id, "wait=25");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.text("status"), "succeeded");
  EXPECT_EQ(reply.header("preference-applied"), "wait=25");
  EXPECT_EQ(reply.header("vary"), "Prefer");
  EXPECT_EQ(reply.body, stack.get(ann, id).body);
  // What is final is answered at once.
  EXPECT_EQ(get_preferring(stack, ann, id, "wait=99").header("preference-applied"), "wait=25");
}

TEST(Wait, EndsWithItsTimeAndIsIgnoredWhereItMustBe) {
  Stack stack(without_worker());
  const Account ann = stack.account();
  // A creation never waits, and says nothing of it.
  const Reply created = stack.create(ann, Stack::body(), {"Prefer: wait=20"});
  EXPECT_EQ(created.status, 202);
  EXPECT_EQ(created.text("status"), "processing");
  EXPECT_EQ(created.header("preference-applied"), "");
  EXPECT_EQ(created.header("vary"), "");
  const std::string id = created.text("id");
  // Longer than any other request may take.
  std::thread long_one([&] {
    const Reply reply = get_preferring(stack, ann, id, "wait=11");
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(reply.header("preference-applied"), "wait=11");
  });
  const Reply waited = get_preferring(stack, ann, id, "respond-async, wait=1");
  EXPECT_EQ(waited.text("status"), "processing");
  EXPECT_EQ(waited.header("preference-applied"), "wait=1");
  EXPECT_EQ(waited.header("vary"), "Prefer");
  for (const char* const other : {"wait=0", "wait=soon", "return=minimal"}) {
    const Reply ignored = get_preferring(stack, ann, id, other);
    EXPECT_EQ(ignored.status, 200);
    EXPECT_EQ(ignored.header("preference-applied"), "") << other;
    EXPECT_EQ(ignored.header("vary"), "Prefer") << other;
  }
  const Reply plain = stack.get(ann, id);
  EXPECT_EQ(plain.header("preference-applied"), "");
  EXPECT_EQ(plain.header("vary"), "");
  EXPECT_EQ(get_preferring(stack, stack.account(), id, "wait=20").status, 404) << "another's";
  long_one.join();
}

TEST(Wait, AKeyHasTwentyAndADrainEndsThem) {
  Stack stack(without_worker());
  const Account ann = stack.account();
  const std::string id = stack.create(ann, Stack::body()).text("id");
  std::vector<RawConnection> clients;
  const auto hold = [&] {
    clients.emplace_back(stack.api_port());
    ASSERT_TRUE(clients.back().send(read_of(ann, id, "wait=25")));
  };
  for (int i = 0; i < 19; ++i) {
    hold();
  }
  // One more asks until it gets no place, and may itself have taken the last one.
  ASSERT_TRUE(eventually(std::chrono::seconds(60), [&] {
    hold();
    return get_preferring(stack, ann, id, "wait=1").header("preference-applied").empty();
  }));
  EXPECT_EQ(stack.get(ann, id).status, 200) << "who does not wait";
  const Account bob = stack.account();
  const std::string his = stack.create(bob, Stack::body()).text("id");
  EXPECT_EQ(get_preferring(stack, bob, his, "wait=1").header("preference-applied"), "wait=1");
  stack.api().signal(SIGTERM);
  for (RawConnection& client : clients) {
    const auto response = client.response(false, std::chrono::seconds(20));  // By itself: 25 s.
    ASSERT_TRUE(response);
    EXPECT_EQ(response->status, 200);
    EXPECT_NE(response->body.find("\"processing\""), std::string::npos);
  }
  EXPECT_EQ(stack.api().wait(std::chrono::seconds(20)), 0);
}

// Whoever has a key that leaked got the address of what was made after its end.
TEST(Wait, EndsWithItsKey) {
  Stack stack(without_worker());
  const Account ann = stack.account();
  const std::string id = stack.create(ann, Stack::body()).text("id");
  RawConnection client(stack.api_port());
  ASSERT_TRUE(client.send(read_of(ann, id, "wait=25")));
  // One that has waited for a second came after it.
  ASSERT_EQ(get_preferring(stack, ann, id, "wait=1").status, 200);
  stack.database().execute(store::Sql("UPDATE api_keys SET deleted_at=UTC_TIMESTAMP(6)"));
  ASSERT_TRUE(
      eventually(std::chrono::seconds(60), [&] { return stack.get(ann, id).status == 401; }));
  stack.start_worker();
  const auto response = client.response();
  ASSERT_TRUE(response);
  EXPECT_EQ(response->status, 401) << response->body;
}

// A twentieth of the 2,000 that there are.
TEST(Wait, AUserWithManyKeysHasAHundred) {
  Stack stack(without_worker());
  const Account ann = stack.account();
  const std::string id = stack.create(ann, Stack::body()).text("id");
  std::vector<std::string> keys;
  for (int i = 0; i < 6; ++i) {
    keys.emplace_back(
        stack.admin({"key", "create", "--user", ann.user, "--name", "k"})["key"].GetString());
  }
  std::vector<RawConnection> clients;
  const auto hold = [&](const std::string& key) {
    Account holder = ann;
    holder.key = key;
    clients.emplace_back(stack.api_port());
    ASSERT_TRUE(clients.back().send(read_of(holder, id, "wait=25")));
  };
  for (std::size_t i = 0; i < 100; ++i) {
    hold(keys.at(i / 20));
  }
  // Another key asks until there is no place, and may itself have taken the last one.
  ASSERT_TRUE(eventually(std::chrono::seconds(60), [&] {
    hold(keys.back());
    return get_preferring(stack, ann, id, "wait=1").header("preference-applied").empty();
  }));
  const Account bob = stack.account();
  const std::string his = stack.create(bob, Stack::body()).text("id");
  EXPECT_EQ(get_preferring(stack, bob, his, "wait=1").header("preference-applied"), "wait=1");
}

}  // namespace
}  // namespace audiogen::test
