// Following a generation: all there is about it, and its events as they happen.
#include <csignal>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/e2e/chain.h"
#include "tests/support/places.h"
#include "tests/support/raw_http.h"
#include "tests/support/wait.h"

namespace audiogen::test {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr const char* kDetails = "/audio/generations/{task_id}/details";
constexpr const char* kEvents = "/audio/generations/{task_id}/events";

Stack::Options without_worker() {
  Stack::Options options;
  options.workers = 0;
  return options;
}

Reply details(Stack& stack, const Account& account, const std::string& id) {
  return stack.judged("GET",
                      kDetails,
                      http("GET",
                           stack.base() + "/audio/generations/" + id + "/details",
                           Stack::bearer(account.key)));
}

// To their end.
Reply events(Stack& stack,
             const Account& account,
             const std::string& id,
             const std::vector<std::string>& headers = {}) {
  return stack.judged("GET",
                      kEvents,
                      http("GET",
                           stack.base() + "/audio/generations/" + id + "/events",
                           Stack::bearer(account.key, headers)));
}

struct Event {
  std::string id, name, data;
};

// What a client makes of a stream (WHATWG HTML, 9.2.6), as far as we write one.
std::vector<Event> parse_events(const std::string& text) {
  std::vector<Event> out;
  Event event;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    const std::string line = text.substr(at, end - at);
    at = end == std::string::npos ? text.size() : end + 1;
    if (line.empty()) {
      if (!event.data.empty()) {
        out.push_back(event);
      }
      event = {};
    } else if (line.starts_with("id: ")) {
      event.id = line.substr(4);
    } else if (line.starts_with("event: ")) {
      event.name = line.substr(7);
    } else if (line.starts_with("data: ")) {
      event.data = line.substr(6);
    } else {
      EXPECT_TRUE(line.starts_with(":") || line.starts_with("retry: ")) << line;
    }
  }
  return out;
}

Reply as_reply(const std::string& json) {
  Reply out;
  out.body = json;
  return out;
}

// A stream that a test reads as it comes.
class Follower {
 public:
  Follower(Stack& stack,
           const std::string& key,
           const std::string& id,
           const std::string& lines = "",
           const std::string& source = "")
      : Follower(stack.api_port(),
                 source,
                 get_request("/api/v1/audio/generations/" + id + "/events",
                             "Authorization: Bearer " + key + "\r\n" + lines)) {}
  // As the console does it.
  static Follower by_session(Stack& stack, const std::string& cookie, const std::string& id) {
    return {stack.api_port(),
            "",
            get_request("/console/api/v1/audio/generations/" + id + "/events",
                        "Cookie: session=" + cookie + "\r\nSec-Fetch-Site: same-origin\r\n")};
  }

  // The status of the answer; a refusal has a body.
  int status() {
    head_ = client_.response(true);
    return head_ ? head_->status : 0;
  }
  std::string header(const std::string& name) const { return head_ ? head_->header(name) : ""; }
  // The next event of that name; nothing when the stream has ended.
  std::optional<Event> next(const std::string& name) {
    for (;;) {
      while (!events_.empty()) {
        Event event = events_.front();
        events_.erase(events_.begin());
        if (event.name == name) {
          return event;
        }
      }
      const auto part = client_.chunk();
      if (!part || part->empty()) {
        ended_ = part.has_value();
        return std::nullopt;
      }
      events_ = parse_events(*part);
    }
  }
  // True when it ends as it should.
  bool ends() {
    while (!ended_ && next("")) {
    }
    return ended_;
  }
  RawConnection& client() { return client_; }

 private:
  Follower(std::uint16_t port, const std::string& source, const std::string& request)
      : client_(port, "127.0.0.1", 0, source) {
    EXPECT_TRUE(client_.send(request));
  }

  RawConnection client_;
  std::optional<RawResponse> head_;
  std::vector<Event> events_;
  bool ended_ = false;
};

TEST(Details, TellAllThereIsBeforeAndAfter) {
  Stack stack(without_worker());
  const Account ann = stack.account(1'000);
  const std::string id =
      stack
          .create(
              ann,
              R"({"model":"svc-audio-1.0","prompt":"Hello there.","voice":"aria","metadata":{"a":"b"}})")
          .text("id");
  const Reply before = details(stack, ann, id);
  ASSERT_EQ(before.status, 200) << before.body;
  EXPECT_EQ(before.header("cache-control"), "no-store");
  EXPECT_EQ(before.header("etag"), "");
  EXPECT_EQ(before.header("ratelimit-policy").substr(0, 6), "\"read\"");
  EXPECT_EQ(before.text("object"), "audio.generation.details");
  EXPECT_EQ(before.text("id"), id);
  EXPECT_EQ(before.text("status"), "processing");
  EXPECT_EQ(before.text("request.prompt"), "Hello there.");
  EXPECT_EQ(before.text("request.voice"), "aria");
  EXPECT_EQ(before.text("request.metadata"), R"({"a":"b"})");
  EXPECT_EQ(before.text("request.references"), "[]");
  EXPECT_THAT(before.text("key_id"), StartsWith("key_"));
  EXPECT_EQ(before.text("waiting_on"), "capacity");
  EXPECT_EQ(before.text("attempts"), "0");
  EXPECT_EQ(before.text("timeline"),
            R"([{"type":"created","at":")" + before.text("created_at") + R"("}])");
  EXPECT_EQ(before.json()["ledger"].Size(), 1u);
  const std::int64_t left = stack.database().number(
      store::Sql("SELECT TIMESTAMPDIFF(SECOND, created_at, deadline_at) FROM tasks"));
  const auto created = parse_iso(before.text("created_at")),
             by = parse_iso(before.text("settled_by"));
  ASSERT_TRUE(created && by);
  EXPECT_EQ(*by - *created, std::chrono::seconds(left));
  // Its place, as soon as anybody has looked.
  EXPECT_TRUE(eventually(30s, [&] { return details(stack, ann, id).text("position") == "1"; }));
  stack.start_worker();
  ASSERT_EQ(stack.wait_final(ann, id).text("status"), "succeeded");
  const Reply after = details(stack, ann, id);
  EXPECT_EQ(after.text("status"), "succeeded");
  for (const char* const gone :
       {"waiting_on", "position", "start_in_seconds", "done_in_seconds", "settled_by"}) {
    EXPECT_EQ(after.text(gone), "null") << gone;
  }
  const auto document = after.json();
  ASSERT_EQ(document["timeline"].Size(), 3u) << after.body;
  EXPECT_STREQ(document["timeline"][1]["outcome"].GetString(), "succeeded");
  EXPECT_STREQ(document["timeline"][2]["type"].GetString(), "succeeded");
  EXPECT_EQ(document["ledger"][1]["charged_credits"].GetDouble(), 10);
  EXPECT_THAT(after.body, Not(HasSubstr("local"))) << "who made it";
  ASSERT_EQ(
      http("DELETE", stack.base() + "/audio/generations/" + id, Stack::bearer(ann.key)).status,
      204);
  const Reply deleted = details(stack, ann, id);
  EXPECT_EQ(deleted.text("request"), "null");
  EXPECT_THAT(deleted.text("timeline"), HasSubstr(R"("type":"deleted")"));
  stack.database().expect_invariants();
}

TEST(Details, AndEventsAreForTheOwnerAlone) {
  Stack stack(without_worker());
  const Account ann = stack.account(), bob = stack.account();
  const std::string id = stack.create(ann, Stack::body()).text("id");
  const Account nobody{.user = "", .email = "", .key = "wrong"};
  for (const auto& ask :
       {details, +[](Stack&s, const Account&a, const std::string&i) { return events(s, a, i); }}) {
    EXPECT_EQ(ask(stack, bob, id).text("error.code"), "task_not_found");
    EXPECT_EQ(ask(stack, ann, "aud_1").status, 404);
    EXPECT_EQ(ask(stack, ann, TaskId::make().text()).status, 404);
    EXPECT_EQ(ask(stack, nobody, id).text("error.code"), "invalid_api_key");
  }
  EXPECT_EQ(http("POST", stack.base() + "/audio/generations/" + id + "/events").status, 405);
}

// Faults have reasons for people, and nobody's name.
TEST(Details, TellOfCallsWithoutNamingWhoFailed) {
  const ProviderDouble broken(
      [](const DoubleCall&) { return DoubleReply{.status = 500, .body = "canary-of-its-text"}; });
  const ProviderDouble working([](const DoubleCall&) { return wav_reply(1); });
  const ChainFile chain({openai_entry("canary-one", broken), openai_entry("canary-two", working)});
  Stack stack(chain.options());
  const Account ann = stack.account();
  const std::string id = stack.create(ann, wav_body("x")).text("id");
  ASSERT_EQ(stack.wait_final(ann, id).text("status"), "succeeded");
  const Reply reply = details(stack, ann, id);
  EXPECT_THAT(reply.text("timeline"), HasSubstr(R"("number":1,)"));
  EXPECT_THAT(reply.text("timeline"), HasSubstr(R"("outcome":"failed")"));
  EXPECT_THAT(reply.text("timeline"), HasSubstr(R"("outcome":"succeeded")"));
  EXPECT_THAT(reply.body, Not(HasSubstr("canary")));
}

// And no call is counted before anybody is called.
TEST(Details, TellThatAReferenceIsWaitedFor) {
  const ProviderDouble files(
      [](const DoubleCall&) { return DoubleReply{.form = DoubleReply::Form::kHang}; });
  Stack::Options options;
  options.environment["URL_POLICY"] = "any";
  Stack stack(options);
  const Account ann = stack.account();
  const std::string id =
      stack
          .create(ann,
                  R"({"model":"svc-audio-1.0","prompt":"x","audio_references":[")" + files.url() +
                      R"(/canary-path?token=canary"]})")
          .text("id");
  EXPECT_TRUE(
      eventually(30s, [&] { return details(stack, ann, id).text("waiting_on") == "reference"; }));
  const Reply reply = details(stack, ann, id);
  EXPECT_EQ(reply.text("attempts"), "0");
  EXPECT_EQ(reply.text("request.references"),
            R"([{"param":"audio_references[0]","kind":"audio"}])");
  EXPECT_THAT(reply.body, Not(HasSubstr("canary")));
  const std::string cancel = stack.base() + "/audio/generations/" + id + "/cancel";
  EXPECT_EQ(http("POST", cancel, Stack::bearer(ann.key)).status, 200);
  EXPECT_EQ(details(stack, ann, id).text("waiting_on"), "null");
}

TEST(Events, TellWhatBecomesOfATask) {
  Stack stack;
  const Account ann = stack.account();
  const std::string id = stack.create(ann, Stack::body()).text("id");
  const Reply reply = events(stack, ann, id);
  ASSERT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(reply.header("content-type"), "text/event-stream");
  EXPECT_EQ(reply.header("cache-control"), "no-store");
  EXPECT_EQ(reply.header("x-accel-buffering"), "no");
  EXPECT_EQ(reply.header("content-length"), "");
  EXPECT_THAT(reply.body, StartsWith("retry: 3000\n\n"));
  std::uint64_t last = 0;
  bool first = true;
  const auto all = parse_events(reply.body);
  ASSERT_FALSE(all.empty());
  for (const Event& event : all) {
    if (event.name == "status") {
      EXPECT_TRUE(first || std::stoull(event.id) > last) << reply.body;
      last = std::stoull(event.id);
      first = false;
      EXPECT_EQ(as_reply(event.data).text("id"), id);
    } else {
      EXPECT_EQ(event.name, "progress");
      EXPECT_EQ(event.id, "");
      EXPECT_TRUE(as_reply(event.data).json().HasMember("waiting_on"));
    }
  }
  EXPECT_EQ(all.back().name, "status");
  EXPECT_EQ(all.back().data, stack.get(ann, id).body) << "the same resource";
  // Whoever has seen the end need not come again; whoever has not is told.
  const Reply seen = events(stack, ann, id, {"Last-Event-ID: " + std::to_string(last)});
  EXPECT_EQ(seen.status, 204);
  const auto missed =
      parse_events(events(stack, ann, id, {"Last-Event-ID: " + std::to_string(last - 1)}).body);
  ASSERT_EQ(missed.size(), 1u);
  EXPECT_EQ(missed[0].id, std::to_string(last));
  EXPECT_EQ(parse_events(events(stack, ann, id, {"Last-Event-ID: x"}).body).size(), 1u);
  const Reply head =
      http("HEAD", stack.base() + "/audio/generations/" + id + "/events", Stack::bearer(ann.key));
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.header("content-type"), "text/event-stream");
}

TEST(Events, ComeWhenSomethingHappensAndEndWithTheTask) {
  Stack stack(without_worker());
  const Account ann = stack.account();
  const std::string id = stack.create(ann, Stack::body()).text("id");
  Follower follower(stack, ann.key, id, "Origin: https://page.example.com\r\n");
  ASSERT_EQ(follower.status(), 200);
  EXPECT_EQ(follower.header("transfer-encoding"), "chunked");
  EXPECT_EQ(follower.header("access-control-allow-origin"), "*");
  const auto begun = follower.next("status");
  ASSERT_TRUE(begun);
  EXPECT_EQ(begun->id, "0");
  EXPECT_EQ(as_reply(begun->data).text("status"), "processing");
  // Of a client that has seen as much: no status, but what can be said of progress.
  Follower again(stack, ann.key, id, "Last-Event-ID: 0\r\n");
  ASSERT_EQ(again.status(), 200);
  const auto progress = again.next("progress");
  ASSERT_TRUE(progress);
  EXPECT_EQ(as_reply(progress->data).text("waiting_on"), "capacity");
  const std::string cancel = stack.base() + "/audio/generations/" + id + "/cancel";
  ASSERT_EQ(http("POST", cancel, Stack::bearer(ann.key)).status, 200);
  for (Follower* const each : {&follower, &again}) {
    const auto end = each->next("status");
    ASSERT_TRUE(end);
    EXPECT_EQ(as_reply(end->data).text("status"), "canceled");
    EXPECT_EQ(end->id, "2");
    EXPECT_TRUE(each->ends());
  }
}

TEST(Events, AKeyHasTwentyStreamsAndAUserAPartOfAll) {
  Stack stack(without_worker());
  const Account ann = stack.account(), bob = stack.account();
  const std::string id = stack.create(ann, Stack::body()).text("id");
  std::vector<Follower> followers;
  const auto hold = [&](const std::string& key) {
    followers.emplace_back(stack, key, id);
    return followers.back().status();
  };
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(hold(ann.key), 200) << i;
  }
  const Reply refused = events(stack, ann, id);
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(refused.text("error.code"), "rate_limit_exceeded");
  EXPECT_EQ(refused.header("retry-after"), "5");
  EXPECT_EQ(stack.get(ann, id).status, 200);
  const Reply head =
      http("HEAD", stack.base() + "/audio/generations/" + id + "/events", Stack::bearer(ann.key));
  EXPECT_EQ(head.status, 200) << "which takes none";
  // A place that is free again, because its client went.
  followers.pop_back();
  EXPECT_TRUE(eventually(60s, [&] {
    Follower next(stack, ann.key, id);
    if (next.status() != 200) {
      return false;
    }
    followers.push_back(std::move(next));
    return true;
  }));
  // A twentieth of all, which are as many as the descriptors allow, and 2,000 at most.
  int status = 200;
  for (int k = 0; k < 5 && status == 200; ++k) {
    const std::string key =
        stack.admin({"key", "create", "--user", ann.user, "--name", "k"})["key"].GetString();
    for (int i = 0; i < 20 && status == 200; ++i) {
      status = hold(key);
    }
  }
  EXPECT_EQ(status, 429);
  EXPECT_GT(followers.size(), 20u);
  EXPECT_LE(followers.size(), 101u);
  Follower his(stack, bob.key, stack.create(bob, Stack::body()).text("id"));
  EXPECT_EQ(his.status(), 200);
}

// Of connections, so that others have some.
TEST(Events, AllTogetherHaveAPartOfAllConnections) {
  Stack::Options options = without_worker();
  options.descriptors = 400;  // 80 connections, of which a quarter may be streams.
  Stack stack(options);
  const Account ann = stack.account(), bob = stack.account();
  std::vector<Follower> followers;
  for (const auto& [account, source] : {std::pair(ann, "127.0.0.2"), std::pair(bob, "127.0.0.3")}) {
    const std::string id = stack.create(account, Stack::body()).text("id");
    for (int i = 0; i < 10; ++i) {
      followers.emplace_back(stack, account.key, id, "", source);
      ASSERT_EQ(followers.back().status(), 200) << source << " " << i;
    }
  }
  const std::string id = stack.create(bob, Stack::body()).text("id");
  const Reply refused = events(stack, bob, id);
  EXPECT_EQ(refused.status, 503);
  EXPECT_NE(refused.header("retry-after"), "");
  EXPECT_EQ(stack.get(bob, id).status, 200);
}

// So long that a test would wait for minutes: it says how long.
TEST(Events, EndAfterATimeAndGoOnWhereTheyWere) {
  Stack stack(without_worker());
  stack.start_api({{"STREAM_MAX_MS", "1500"}});
  const Account ann = stack.account();
  const std::string id = stack.create(ann, Stack::body()).text("id");
  Follower follower(stack, ann.key, id);
  ASSERT_EQ(follower.status(), 200);
  const auto begun = follower.next("status");
  ASSERT_TRUE(begun);
  EXPECT_FALSE(follower.next("status")) << "nothing has happened";
  EXPECT_TRUE(follower.ends());
  // Whoever comes back hears what he has missed, and no more; here he may take his time for it.
  stack.start_api();
  Follower again(stack, ann.key, id, "Last-Event-ID: " + begun->id + "\r\n");
  ASSERT_EQ(again.status(), 200);
  const std::string cancel = stack.base() + "/audio/generations/" + id + "/cancel";
  ASSERT_EQ(http("POST", cancel, Stack::bearer(ann.key)).status, 200);
  const auto end = again.next("status");
  ASSERT_TRUE(end);
  EXPECT_EQ(as_reply(end->data).text("status"), "canceled");
}

// A stream is no way to go on with what opens nothing any more.
TEST(Events, EndWithTheirKey) {
  Stack stack(without_worker());
  const Account ann = stack.account(), bob = stack.account();
  const std::string id = stack.create(ann, Stack::body()).text("id");
  const auto key = [&](const char* name) {
    return stack.admin({"key", "create", "--user", ann.user, "--name", name});
  };
  const auto deleted = key("deleted"), expired = key("expired");
  Follower first(stack, deleted["key"].GetString(), id),
      second(stack, expired["key"].GetString(), id), stays(stack, ann.key, id);
  for (Follower* const each : {&first, &second, &stays}) {
    ASSERT_EQ(each->status(), 200);
    ASSERT_TRUE(each->next("status"));
  }
  stack.admin({"key", "delete", "--key", deleted["id"].GetString()});
  EXPECT_FALSE(first.next("status"));
  EXPECT_TRUE(first.ends());
  stack.database().execute(
      store::Sql("UPDATE api_keys SET expires_at=UTC_TIMESTAMP(6) WHERE name='expired'"));
  EXPECT_FALSE(second.next("status"));
  EXPECT_TRUE(second.ends());
  const std::string cancel = stack.base() + "/audio/generations/" + id + "/cancel";
  ASSERT_EQ(http("POST", cancel, Stack::bearer(ann.key)).status, 200);
  const auto end = stays.next("status");
  ASSERT_TRUE(end) << "another key's goes on";
  EXPECT_EQ(as_reply(end->data).text("status"), "canceled");
  EXPECT_EQ(events(stack, bob, id).status, 404);
}

TEST(Events, OfTheConsoleEndWithTheirSession) {
  Stack::Options options = without_worker();
  options.environment["CONSOLE_DIR"] = source_path("tests/e2e/console_pages");
  Stack stack(options);
  const Account ann = stack.account();
  const std::string id = stack.create(ann, Stack::body()).text("id");
  const std::string console = stack.public_url() + "/console/api/v1/sessions";
  const std::string own = "Sec-Fetch-Site: same-origin";
  const auto made = stack.admin({"user", "login-link", "--user", ann.email});
  const std::string url = made["url"].GetString();
  const Reply in = http("POST",
                        console,
                        {own, "Content-Type: application/json"},
                        R"({"login_token":")" + url.substr(url.find('=') + 1) + R"("})");
  ASSERT_EQ(in.status, 201) << in.body;
  const std::string line = in.header("set-cookie");
  const std::string cookie = line.substr(line.find('=') + 1, line.find(';') - line.find('=') - 1);
  Follower follower = Follower::by_session(stack, cookie, id);
  ASSERT_EQ(follower.status(), 200);
  ASSERT_TRUE(follower.next("status"));
  EXPECT_EQ(http("DELETE", console + "/current", {own, "Cookie: session=" + cookie}).status, 204);
  EXPECT_FALSE(follower.next("status"));
  EXPECT_TRUE(follower.ends());
}

TEST(Events, ACommentComesWhenNothingElseDoes) {
  Stack stack(without_worker());
  const Account ann = stack.account();
  Follower follower(stack, ann.key, stack.create(ann, Stack::body()).text("id"));
  ASSERT_EQ(follower.status(), 200);
  bool seen = false;
  EXPECT_TRUE(eventually(40s, [&] {
    const auto part = follower.client().chunk(30s);
    seen = part == ": still there\n\n";
    return seen || !part || part->empty();
  }));
  EXPECT_TRUE(seen);
}

// Of many users; and the server's end is theirs.
TEST(Events, ADrainEndsThemAtOnce) {
  Stack stack(without_worker());
  std::vector<Account> accounts;
  std::vector<std::string> ids;
  std::vector<Follower> followers;
  for (int i = 0; i < 10; ++i) {
    accounts.push_back(stack.account());
    ids.push_back(stack.create(accounts.back(), Stack::body()).text("id"));
  }
  for (std::size_t i = 0; i < 150; ++i) {
    followers.emplace_back(stack, accounts[i % 10].key, ids[i % 10]);
  }
  for (Follower& follower : followers) {
    ASSERT_EQ(follower.status(), 200);
    ASSERT_TRUE(follower.next("status"));
  }
  stack.api().signal(SIGTERM);
  for (Follower& follower : followers) {
    EXPECT_TRUE(follower.ends());
  }
  EXPECT_EQ(stack.api().wait(20s), 0);
}

TEST(Figures, AreInTheEstimateTheAccountAndTheRead) {
  Stack stack;
  const Account ann = stack.account();
  const auto estimate = [&] {
    return stack.judged("POST",
                        "/audio/estimates",
                        http("POST",
                             stack.base() + "/audio/estimates",
                             Stack::bearer(ann.key, {"Content-Type: application/json"}),
                             Stack::body()));
  };
  EXPECT_EQ(estimate().text("start_in_seconds"), "null") << "nothing has begun yet";
  const std::string id = stack.create(ann, Stack::body()).text("id");
  const Reply done = stack.wait_final(ann, id);
  ASSERT_EQ(done.text("status"), "succeeded");
  EXPECT_EQ(done.header("retry-after"), "");
  ASSERT_TRUE(eventually(30s, [&] { return estimate().text("start_in_seconds") != "null"; }));
  const auto figures = estimate().json();
  EXPECT_LE(figures["start_in_seconds"]["p50"].GetDouble(),
            figures["start_in_seconds"]["p90"].GetDouble());
  // A creation that would be parked waits for others of its account: nobody can tell how long.
  stack.database().execute(store::Sql("UPDATE balances SET parked=1"));
  EXPECT_EQ(estimate().text("start_in_seconds"), "null");
  stack.database().execute(store::Sql("UPDATE balances SET parked=0"));
  EXPECT_TRUE(eventually(30s, [&] { return estimate().text("start_in_seconds") != "null"; }));
  const Reply account = stack.judged(
      "GET", "/account", http("GET", stack.base() + "/account", Stack::bearer(ann.key)));
  EXPECT_EQ(account.text("limits.streams"), "20");
  stack.worker(0).signal(SIGTERM);
  EXPECT_EQ(stack.worker(0).wait(40s), 0);
  const Reply open = stack.get(ann, stack.create(ann, Stack::body()).text("id"));
  EXPECT_EQ(open.text("status"), "processing");
  const int rest = std::stoi("0" + open.header("retry-after"));
  EXPECT_GE(rest, 1);
  EXPECT_LE(rest, 5);
}

}  // namespace
}  // namespace audiogen::test
