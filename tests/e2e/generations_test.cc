// What can be done with generations beyond creating and polling them: through HTTP, with the real
// processes.
#include <map>

#include <gtest/gtest.h>

#include "common/store/session.h"
#include "tests/support/stack.h"

namespace audiogen::test {
namespace {

Stack::Options without_worker() {
  Stack::Options options;
  options.workers = 0;
  return options;
}

void expect_error(const Reply& reply, int status, const std::string& code) {
  EXPECT_EQ(reply.status, status) << reply.body;
  EXPECT_EQ(reply.text("error.code"), code);
  EXPECT_EQ(reply.text("error.request_id"), reply.header("x-request-id"));
  EXPECT_EQ(reply.header("x-should-retry"), status == 409 ? "false" : "");
}

Reply cancel(Stack& stack,
             const Account& account,
             const std::string& id,
             std::string_view body = "",
             const std::vector<std::string>& headers = {}) {
  return stack.judged("POST",
                      "/audio/generations/{task_id}/cancel",
                      http("POST",
                           stack.base() + "/audio/generations/" + id + "/cancel",
                           Stack::bearer(account.key, headers),
                           body));
}

// Of an account with one key.
std::string key_of(Stack& stack, const Account& account) {
  const auto keys = stack.admin({"key", "list", "--user", account.user});
  return keys["keys"][0]["id"].GetString();
}

double available(Stack& stack, const Account& account) {
  return stack.admin({"user", "show", "--user", account.user})["available_credits"].GetDouble();
}

TEST(Cancel, ReturnsEverythingAndMayBeRepeated) {
  Stack stack(without_worker());
  const Account ann = stack.account(1000);
  const std::string id = stack.create(ann, Stack::body(), {"Idempotency-Key: k"}).text("id");
  const Reply canceled = cancel(stack, ann, id);
  ASSERT_EQ(canceled.status, 200) << canceled.body;
  EXPECT_EQ(canceled.text("id"), id);
  EXPECT_EQ(canceled.text("status"), "canceled");
  EXPECT_EQ(canceled.text("error"), "null");
  EXPECT_EQ(canceled.text("billing"),
            R"({"reserved_credits":150,"charged_credits":0,"returned_credits":150})");
  EXPECT_EQ(canceled.header("cache-control"), "no-store");
  EXPECT_FALSE(canceled.header("ratelimit").empty());
  EXPECT_EQ(available(stack, ann), 1000);
  // Again, and with a body that nobody reads: the same.
  EXPECT_EQ(cancel(stack, ann, id).body, canceled.body);
  const Reply with_body = cancel(stack, ann, id, "not json", {"Content-Type: text/plain"});
  EXPECT_EQ(with_body.status, 200);
  EXPECT_EQ(with_body.body, canceled.body);
  EXPECT_EQ(stack.get(ann, id).body, canceled.body);
  // Its key stays used, and a worker that comes now does nothing with it.
  EXPECT_EQ(stack.create(ann, Stack::body(), {"Idempotency-Key: k"}).text("status"), "canceled");
  stack.start_worker();
  const std::string other = stack.create(ann, Stack::body()).text("id");
  EXPECT_EQ(stack.wait_final(ann, other).text("status"), "succeeded");
  EXPECT_EQ(stack.get(ann, id).body, canceled.body);
  stack.database().expect_invariants();
}

TEST(Cancel, WhatIsFinalStays) {
  Stack stack;
  const Account ann = stack.account(1000);
  const std::string id = stack.create(ann, Stack::body()).text("id");
  const Reply done = stack.wait_final(ann, id);
  ASSERT_EQ(done.text("status"), "succeeded");
  const Reply refused = cancel(stack, ann, id);
  expect_error(refused, 409, "already_final");
  EXPECT_EQ(refused.text("error.message"), "The task has already succeeded.");
  EXPECT_EQ(stack.get(ann, id).text("status"), "succeeded");
  const std::string bad =
      stack.create(ann, R"({"model":"svc-audio-1.0","prompt":"   "})").text("id");
  EXPECT_EQ(stack.wait_final(ann, bad).text("status"), "failed");
  expect_error(cancel(stack, ann, bad), 409, "already_final");
  stack.database().expect_invariants();
}

TEST(Cancel, OnlyByWhoseItIsAndWhoMay) {
  Stack stack(without_worker());
  const Account ann = stack.account(), bob = stack.account();
  const std::string id = stack.create(ann, Stack::body()).text("id");
  for (const std::string& path : {id,
                                  std::string("aud_01jd0000000000000000000000"),
                                  std::string("nonsense"),
                                  std::string()}) {
    expect_error(cancel(stack, bob, path), 404, "task_not_found");
  }
  EXPECT_EQ(stack.get(ann, id).text("status"), "processing");
  expect_error(
      cancel(stack, {.user = "", .email = "", .key = "wrong"}, id), 401, "invalid_api_key");
  stack.admin({"user", "create", "--email", "free@example.com", "--plan", "free"});
  const Account free{
      .user = "",
      .email = "",
      .key = stack.admin({"key", "create", "--user", "free@example.com", "--name", "k"})["key"]
                 .GetString()};
  expect_error(cancel(stack, free, id), 403, "api_access_required");
  EXPECT_EQ(http("GET", stack.base() + "/audio/generations/" + id + "/cancel").header("allow"),
            "POST");
}

// A row that somebody holds: 503, and nobody else notices.
TEST(Cancel, AHeldRowKeepsNobodyElse) {
  Stack stack(without_worker());
  const Account ann = stack.account(), bob = stack.account();
  const std::string held = stack.create(ann, Stack::body()).text("id");
  const std::string free = stack.create(ann, Stack::body()).text("id");
  const std::string his = stack.create(bob, Stack::body()).text("id");
  store::Session holder(stack.database().url(),
                        {.idle_in_transaction_max = std::chrono::seconds(600)});
  holder.execute(store::Sql("BEGIN"));
  ASSERT_TRUE(holder
                  .query(store::Sql("SELECT epoch FROM tasks WHERE id=")
                         << TaskId::parse(held).value() << " FOR UPDATE")
                  .next());
  expect_error(cancel(stack, ann, held), 503, "service_unavailable");
  EXPECT_EQ(cancel(stack, ann, free).status, 200);
  EXPECT_EQ(cancel(stack, bob, his).status, 200);
  holder.execute(store::Sql("ROLLBACK"));
  EXPECT_EQ(cancel(stack, ann, held).status, 200);
  stack.database().expect_invariants();
}

Reply list(Stack& stack,
           const Account& account,
           const std::string& query = "",
           const std::vector<std::string>& headers = {}) {
  return stack.judged(
      "GET",
      "/audio/generations",
      http(
          "GET", stack.base() + "/audio/generations" + query, Stack::bearer(account.key, headers)));
}

TEST(List, HasEveryGenerationNewestFirst) {
  Stack stack;
  const Account ann = stack.account(), bob = stack.account();
  std::vector<std::string> ids;
  for (const char* const prompt : {"first \u00e9", "second", "   "}) {
    ids.push_back(
        stack.create(ann, R"({"model":"svc-audio-1.0","prompt":")" + std::string(prompt) + "\"}")
            .text("id"));
  }
  for (const std::string& id : ids) {
    stack.wait_final(ann, id);
  }
  const Reply page = list(stack, ann);
  ASSERT_EQ(page.status, 200) << page.body;
  EXPECT_EQ(page.text("has_more"), "false");
  EXPECT_EQ(page.text("next_cursor"), "null");
  const auto document = page.json();
  const auto& data = document["data"];
  ASSERT_EQ(data.Size(), 3U);
  EXPECT_STREQ(data[0]["id"].GetString(), ids[2].c_str());
  EXPECT_STREQ(data[0]["status"].GetString(), "failed");
  EXPECT_STREQ(data[1]["prompt"].GetString(), "second");
  EXPECT_STREQ(data[2]["prompt"].GetString(), "first \xc3\xa9");
  // An item is what GET of one answers, and what was asked for.
  const std::string alone = stack.get(ann, ids[1]).body;
  const std::string key = key_of(stack, ann);
  EXPECT_NE(page.body.find(alone.substr(0, alone.size() - 1) +
                           R"(,"prompt":"second","metadata":{},"key_id":")" + key + "\"}"),
            std::string::npos);
  EXPECT_EQ(list(stack, bob).json()["data"].Size(), 0U) << "nothing of another's";

  // Page by page.
  const Reply first = list(stack, ann, "?limit=2");
  EXPECT_EQ(first.json()["data"].Size(), 2U);
  EXPECT_EQ(first.text("has_more"), "true");
  const std::string cursor = first.text("next_cursor");
  const Reply second = list(stack, ann, "?limit=2&cursor=" + cursor);
  EXPECT_EQ(second.json()["data"].Size(), 1U);
  EXPECT_EQ(second.text("has_more"), "false");
  EXPECT_EQ(list(stack, bob, "?cursor=" + cursor).json()["data"].Size(), 0U);

  // Filters.
  EXPECT_EQ(list(stack, ann, "?status=succeeded").json()["data"].Size(), 2U);
  EXPECT_EQ(list(stack, ann, "?status=canceled").json()["data"].Size(), 0U);
  const std::string created = stack.get(ann, ids[0]).text("created_at");
  EXPECT_EQ(list(stack, ann, "?created_after=" + created).json()["data"].Size(), 3U);
  EXPECT_EQ(list(stack, ann, "?created_before=" + created).json()["data"].Size(), 0U);
  EXPECT_EQ(list(stack, ann, "?status=failed&created_after=2020-01-01T00:00:00%2B02:00")
                .json()["data"]
                .Size(),
            1U);
}

TEST(List, ShowsTheNotesOfTheClientAsTheyWere) {
  Stack stack(without_worker());
  const Account ann = stack.account();
  stack.create(ann,
               R"({"model":"svc-audio-1.0","prompt":"x","metadata":)"
               R"({"b\"},{\"":"\u2028\\","a":"\ud83d\ude00"}})");
  const Reply page = list(stack, ann);
  ASSERT_EQ(page.status, 200) << page.body;
  EXPECT_NE(page.body.find("\"metadata\":{\"a\":\"\xF0\x9F\x98\x80\","
                           "\"b\\\"},{\\\"\":\"\xE2\x80\xA8\\\\\"},"),
            std::string::npos)
      << page.body;
}

TEST(List, ByKeyWithTheNotesOfTheClient) {
  Stack stack(without_worker());
  const Account ann = stack.account(), bob = stack.account();
  Account second = ann;
  const auto made = stack.admin({"key", "create", "--user", ann.user, "--name", "second"});
  second.key = made["key"].GetString();
  const std::string id = made["id"].GetString();
  stack.create(ann, Stack::body("by the first"));
  stack.create(
      second,
      R"({"model":"svc-audio-1.0","prompt":"x","metadata":{"order":"10\"42","a":"\u00e9"}})");
  const auto page = list(stack, ann, "?key=" + id).json();
  ASSERT_EQ(page["data"].Size(), 1U) << "of the other key, though the first one asks";
  const auto& item = page["data"][0];
  EXPECT_STREQ(item["key_id"].GetString(), id.c_str());
  EXPECT_STREQ(item["metadata"]["order"].GetString(), "10\"42");
  EXPECT_STREQ(item["metadata"]["a"].GetString(), "\xc3\xa9");
  EXPECT_EQ(list(stack, ann, "?key=" + key_of(stack, ann)).json()["data"].Size(), 1U);
  EXPECT_EQ(list(stack, ann).json()["data"].Size(), 2U);
  // Also when it is no more: that is what one looks for after a leak.
  stack.admin({"key", "delete", "--key", id});
  const Reply after = list(stack, ann, "?key=" + id);
  EXPECT_EQ(after.json()["data"].Size(), 1U);
  EXPECT_NE(after.body.find(R"("key_id":")" + id), std::string::npos);
  // Of others' keys there is nothing, be they there or not.
  EXPECT_EQ(list(stack, bob, "?key=" + id).json()["data"].Size(), 0U);
  EXPECT_EQ(list(stack, ann, "?key=" + KeyId::make().text()).json()["data"].Size(), 0U);
}

TEST(List, AnswersOnlyWhatIsNew) {
  Stack stack(without_worker());
  const Account ann = stack.account();
  const std::string id = stack.create(ann, Stack::body()).text("id");
  const Reply page = list(stack, ann);
  const std::string etag = page.header("etag");
  ASSERT_TRUE(etag.starts_with('"')) << "a strong one";
  EXPECT_EQ(page.header("cache-control"), "private, no-cache");
  const Reply same = list(stack, ann, "", {"If-None-Match: " + etag});
  EXPECT_EQ(same.status, 304);
  EXPECT_EQ(same.header("etag"), etag);
  EXPECT_TRUE(same.body.empty());
  EXPECT_EQ(cancel(stack, ann, id).status, 200);
  EXPECT_EQ(list(stack, ann, "", {"If-None-Match: " + etag}).status, 200);
  // GET of one has no such thing.
  EXPECT_EQ(stack.get(ann, id).header("etag"), "");
}

TEST(List, EveryWrongParameterIsNamed) {
  Stack stack(without_worker());
  const Account ann = stack.account();
  for (const auto& [query, param] : std::vector<std::pair<std::string, std::string>>{
           {"limit=0", "limit"},
           {"limit=101", "limit"},
           {"limit=ten", "limit"},
           {"cursor=", "cursor"},
           {"cursor=AAAA", "cursor"},
           {"cursor=!", "cursor"},
           {"status=running", "status"},
           {"key=key_1", "key"},
           {"key=", "key"},
           {"created_after=yesterday", "created_after"},
           {"created_after=2026-02-30T00:00:00Z", "created_after"},
           {"created_before=2026-01-01", "created_before"},
           {"created_after=2026-01-02T00:00:00Z&created_before=2026-01-02T00:00:00Z",
            "created_before"},
           {"statu=failed", "statu"},
           {"limit=1&limit=1", "limit"}}) {
    const Reply reply = list(stack, ann, "?" + query);
    expect_error(reply, 400, "invalid_request");
    EXPECT_EQ(reply.text("error.param"), param) << query;
  }
  expect_error(list(stack, {.user = "", .email = "", .key = "wrong"}), 401, "invalid_api_key");
}

// What the calendar has, though no row is of that time and the database knows no such year.
TEST(List, TimesBeyondAllRowsAreTimes) {
  Stack stack(without_worker());
  const Account ann = stack.account();
  stack.create(ann, Stack::body());
  for (const char* const query : {"?created_after=0000-01-01T00:00:00%2B23:59",
                                  "?created_before=9999-12-31T23:59:59-23:59"}) {
    const Reply all = list(stack, ann, query);
    ASSERT_EQ(all.status, 200) << all.body;
    EXPECT_EQ(all.json()["data"].Size(), 1U) << query;
  }
  for (const char* const query : {"?created_before=0000-01-01T00:00:00%2B23:59",
                                  "?created_after=9999-12-31T23:59:59-23:59"}) {
    const Reply none = list(stack, ann, query);
    ASSERT_EQ(none.status, 200) << none.body;
    EXPECT_EQ(none.json()["data"].Size(), 0U) << query;
  }
}

Reply erase(Stack& stack, const Account& account, const std::string& id) {
  return stack.judged(
      "DELETE",
      "/audio/generations/{task_id}",
      http("DELETE", stack.base() + "/audio/generations/" + id, Stack::bearer(account.key)));
}

TEST(Delete, PromptAndFileGoTheTaskStays) {
  Stack stack;
  const Account ann = stack.account(1000), bob = stack.account();
  const std::vector<std::string> key = {"Idempotency-Key: k"};
  const std::string secret = "Nobody else is to hear of this.";
  const std::string id = stack.create(ann, Stack::body(secret), key).text("id");
  const Reply done = stack.wait_final(ann, id);
  ASSERT_EQ(done.text("status"), "succeeded");
  const std::string url = done.text("output.url");
  EXPECT_EQ(http("GET", url).status, 200);
  expect_error(erase(stack, bob, id), 404, "task_not_found");
  expect_error(erase(stack, ann, "nonsense"), 404, "task_not_found");

  const Reply erased = erase(stack, ann, id);
  EXPECT_EQ(erased.status, 204);
  EXPECT_TRUE(erased.body.empty());
  EXPECT_EQ(erase(stack, ann, id).status, 204);
  const Reply after = stack.get(ann, id);
  EXPECT_EQ(after.status, 200);
  EXPECT_EQ(after.text("output"), done.text("output")) << "a poll has the interface's members";
  EXPECT_EQ(after.text("usage"), done.text("usage"));
  EXPECT_EQ(after.text("updated_at"), done.text("updated_at"));
  const Reply page = list(stack, ann);
  EXPECT_EQ(page.body.find(secret), std::string::npos);
  EXPECT_TRUE(page.json()["data"][0]["output"]["deleted_at"].IsString());
  EXPECT_TRUE(page.json()["data"][0]["prompt"].IsNull());
  EXPECT_TRUE(page.json()["data"][0]["metadata"].IsNull());
  EXPECT_STREQ(page.json()["data"][0]["key_id"].GetString(), key_of(stack, ann).c_str());
  // Its key stays used.
  EXPECT_EQ(stack.create(ann, Stack::body(secret), key).text("id"), id);
  EXPECT_EQ(stack.create(ann, Stack::body("other"), key).status, 409);
  EXPECT_TRUE(eventually(std::chrono::seconds(30), [&] { return http("GET", url).status == 404; }));
  EXPECT_TRUE(eventually(std::chrono::seconds(30), [&] {
    return stack.database().number(store::Sql("SELECT COUNT(*) FROM deletions")) == 0;
  }));
  EXPECT_EQ(stack.database().number(store::Sql("SELECT LENGTH(request) FROM tasks")), 0);
  EXPECT_EQ(available(stack, ann), 990);
  stack.database().expect_invariants();
}

TEST(Delete, OpenTasksHaveToBeCanceledFirst) {
  Stack stack(without_worker());
  const Account ann = stack.account();
  const std::string id = stack.create(ann, Stack::body()).text("id");
  expect_error(erase(stack, ann, id), 409, "not_final");
  EXPECT_EQ(cancel(stack, ann, id).status, 200);
  EXPECT_EQ(erase(stack, ann, id).status, 204);
  EXPECT_EQ(cancel(stack, ann, id).status, 200) << "it is canceled still";
  stack.database().expect_invariants();
}

// The worker dies between the file and the note: the next one goes on.
TEST(Delete, ACrashForgetsNoFile) {
  Stack stack;
  const Account ann = stack.account();
  const std::string id = stack.create(ann, Stack::body()).text("id");
  const std::string url = stack.wait_final(ann, id).text("output.url");
  stack.worker(0).signal(9);
  EXPECT_EQ(erase(stack, ann, id).status, 204);
  const std::size_t dying = stack.start_worker({{"CRASH_POINT", "erase.removed:1"}});
  EXPECT_NE(stack.worker(dying).wait(std::chrono::seconds(30)), 0);
  EXPECT_EQ(stack.database().number(store::Sql("SELECT COUNT(*) FROM deletions")), 1);
  stack.start_worker();
  EXPECT_TRUE(eventually(std::chrono::seconds(30), [&] {
    return stack.database().number(store::Sql("SELECT COUNT(*) FROM deletions")) == 0;
  }));
  EXPECT_EQ(http("GET", url).status, 404);
}

}  // namespace
}  // namespace audiogen::test
