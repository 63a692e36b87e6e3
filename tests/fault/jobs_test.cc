// Jobs under way while something ends or lasts: their worker is told to leave, or killed as it
// leaves; a call outlasts a lease; what was made cannot be stored; whoever puts lost ones back
// dies.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/ids.h"
#include "common/domain/lifecycle.h"
#include "tests/e2e/chain.h"
#include "tests/support/s3_double.h"
#include "tests/support/tcp_proxy.h"

namespace audiogen::test {
namespace {

using namespace std::chrono_literals;
using testing::Each;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

constexpr double kPrice = 10;  // Of a short sound.

std::int64_t count(Stack& stack, const char* where) {
  return stack.database().number(
      store::Sql("SELECT COUNT(*) FROM tasks WHERE ").append(store::Sql::trusted(where)));
}

std::int64_t column(Stack& stack, const std::string& id, const char* name) {
  return stack.database().number(store::Sql("SELECT ").append(store::Sql::trusted(name))
                                 << " FROM tasks WHERE id=" << TaskId::parse(id).value());
}

// Of workers that are dead.
void let_leases_run_out(Stack& stack) {
  stack.database().execute(
      store::Sql("UPDATE tasks SET lease_until=UTC_TIMESTAMP(6) - INTERVAL 1 SECOND, "
                 "wake_at=UTC_TIMESTAMP(6) WHERE state=2"));
}

// What waits is due; called again and again while a worker runs.
bool all_end(Stack& stack) {
  return eventually(120s, [&] {
    pace(50ms);
    stack.database().execute(store::Sql(
        "UPDATE tasks SET next_run_at=UTC_TIMESTAMP(6), wake_at=UTC_TIMESTAMP(6) WHERE state=1"));
    return count(stack, "state<=2") == 0;
  });
}

bool says(Process& process, const char* what) {
  return eventually(60s, [&] { return process.log().find(what) != std::string::npos; });
}

// --- a worker that leaves

class Leaving : public testing::Test {
 protected:
  static constexpr int kRunning = 4;
  static constexpr const char* kDrains = "audio-worker drains";

  static Stack::Options options(const ChainFile& chain) {
    Stack::Options out = chain.options();
    out.workers = 0;
    out.environment["WORKER_IN_FLIGHT"] = "8";  // Room for more than what runs.
    return out;
  }

  // A worker with calls under way that nobody answers, and one that is answered soon.
  void begin(std::chrono::milliseconds drain_limit) {
    leaver_ = stack_.start_worker({{"DRAIN_LIMIT_MS", std::to_string(drain_limit.count())}});
    quick_ = stack_.create(ann_, wav_body("quick")).text("id");
    for (int i = 0; i < kRunning - 1; ++i) {
      slow_.push_back(stack_.create(ann_, wav_body("slow")).text("id"));
    }
    ASSERT_TRUE(provider_.wait_until([&] { return provider_.call_count() == kRunning; }, 120s));
  }
  Process& leaver() { return stack_.worker(leaver_); }

  // Whoever comes next ends all of them, once each.
  void expect_the_next_ends(std::size_t tasks) {
    hangs_ = false;
    stack_.start_worker();
    ASSERT_TRUE(all_end(stack_));
    EXPECT_EQ(count(stack_, "state=3"), static_cast<std::int64_t>(tasks));
    EXPECT_EQ(stack_.database().number(store::Sql("SELECT COUNT(*) FROM ledger WHERE kind=2")),
              static_cast<std::int64_t>(tasks));
    EXPECT_EQ(credits_of(stack_, ann_, "available_credits"),
              1000 - static_cast<double>(tasks) * kPrice);
    EXPECT_EQ(credits_of(stack_, ann_, "reserved_credits"), 0);
    stack_.database().expect_invariants();
  }

  std::atomic<bool> hangs_{true};
  ProviderDouble provider_{[this](const DoubleCall& call) {
    DoubleReply reply = wav_reply(0.5);
    if (member_of(call, "input") == "quick") {
      reply.delay = 500ms;
    } else if (hangs_) {
      reply.form = DoubleReply::Form::kHang;
    }
    return reply;
  }};
  ChainFile chain_{{openai_entry("primary", provider_, R"(,"timeout_seconds":600)")}};
  Stack stack_{options(chain_)};
  Account ann_ = stack_.account(1000);
  std::size_t leaver_ = 0;
  std::string quick_;
  std::vector<std::string> slow_;
};

// A call that is cut off is paid, and whoever has the task next pays again.
TEST(Drain, BeginsNoCallThatWouldBeCutOff) {
  std::atomic<bool> drains{false}, hangs{true};
  ProviderDouble slow([&](const DoubleCall&) {
    static_cast<void>(eventually(120s, [&] { return drains.load(); }));
    return DoubleReply{.status = 404, .body = "{}"};
  });
  ProviderDouble next([&](const DoubleCall&) {
    DoubleReply reply = wav_reply(0.5);
    reply.form = hangs ? DoubleReply::Form::kHang : reply.form;
    return reply;
  });
  const ChainFile chain({openai_entry("slow", slow, R"(,"timeout_seconds":600)"),
                         openai_entry("next", next, R"(,"timeout_seconds":600)")});
  Stack::Options options = chain.options();
  options.workers = 0;
  Stack stack(options);
  const Account ann = stack.account(1000);
  const std::size_t leaver = stack.start_worker({{"DRAIN_LIMIT_MS", "60000"}});
  const std::string task = stack.create(ann, wav_body("x")).text("id");
  ASSERT_TRUE(eventually(60s, [&] {
    return stack.database().number(store::Sql("SELECT COUNT(*) FROM attempts WHERE state=1")) == 1;
  }));
  stack.worker(leaver).signal(SIGTERM);
  ASSERT_TRUE(says(stack.worker(leaver), "audio-worker drains"));
  drains = true;
  EXPECT_EQ(stack.worker(leaver).wait(60s), 0) << "it waits for nothing more";
  EXPECT_EQ(next.call_count(), 0U);
  EXPECT_EQ(column(stack, task, "claims"), 0) << "that a worker leaves uses up nothing";
  hangs = false;
  stack.start_worker();
  ASSERT_TRUE(all_end(stack));
  EXPECT_EQ(stack.get(ann, task).text("status"), "succeeded");
  EXPECT_EQ(next.call_count(), 1U);
  stack.database().expect_invariants();
}

TEST_F(Leaving, ClaimsNothingMoreEndsInTimeAndGivesBackTheRest) {
  constexpr auto kLimit = 5s;
  begin(kLimit);
  leaver().signal(SIGTERM);
  ASSERT_TRUE(says(leaver(), kDrains)) << leaver().log();
  const std::string late = stack_.create(ann_, wav_body("late")).text("id");
  EXPECT_EQ(leaver().wait(kLimit + 15s), 0) << "giving back takes 5 s at most, and closing little";
  EXPECT_EQ(column(stack_, late, "epoch"), 0) << "nobody has ever claimed it";
  EXPECT_EQ(stack_.get(ann_, quick_).text("status"), "succeeded") << "it was waited for";
  for (const std::string& id : slow_) {
    EXPECT_EQ(column(stack_, id, "state"), 1);
    EXPECT_EQ(column(stack_, id, "claims"), 0) << "that a worker leaves uses up nothing";
    EXPECT_EQ(column(stack_, id, "lost_leases"), 0);
    EXPECT_EQ(column(stack_, id, "lease_until IS NULL"), 1) << "nobody waits for a lease to end";
    const std::vector<std::string> story = calls_of(stack_, id);
    EXPECT_THAT(story, SizeIs(1));
    EXPECT_THAT(story, Each(Not(HasSubstr("started")))) << "the row of its call has an end";
  }
  EXPECT_TRUE(provider_.wait_until([&] { return provider_.open_connections() == 0; }));
  expect_the_next_ends(kRunning + 1);
  EXPECT_EQ(provider_.call_count(), 2U * kRunning) << "each of the slow ones was called again";
}

// It was given back after 20 s, whatever was to be expected of its provider, and paid again.
TEST(LongDrain, WaitsAsLongAsItIsTold) {
  const ProviderDouble provider([](const DoubleCall&) {
    DoubleReply reply = wav_reply(0.5);
    reply.delay = 24s;
    return reply;
  });
  const ChainFile chain({openai_entry("primary", provider, R"(,"timeout_seconds":700)")});
  Stack::Options options = chain.options();
  options.workers = 0;
  Stack stack(options);
  const std::size_t leaver = stack.start_worker({{"DRAIN_SECONDS", "600"}});
  ASSERT_TRUE(says(stack.worker(leaver), "a call may outlast DRAIN_SECONDS"));
  const Account ann = stack.account(1000);
  const std::string id = stack.create(ann, wav_body("slow")).text("id");
  ASSERT_TRUE(provider.wait_until([&] { return provider.call_count() == 1; }, 60s));
  stack.worker(leaver).signal(SIGTERM);
  EXPECT_EQ(stack.worker(leaver).wait(120s), 0);
  EXPECT_EQ(stack.get(ann, id).text("status"), "succeeded");
  EXPECT_EQ(provider.call_count(), 1U);
}

// Of themselves they waited 60 s, which is nothing to a provider of 700.
TEST(LongDrain, FollowsFromTheLongestTimeout) {
  const ProviderDouble provider([](const DoubleCall&) { return wav_reply(0.5); });
  const ChainFile chain({openai_entry("primary", provider, R"(,"timeout_seconds":700)")});
  Stack::Options options = chain.options();
  options.workers = 0;
  Stack stack(options);
  const auto limit_of = [&](const std::map<std::string, std::string>& told) {
    const std::size_t leaver = stack.start_worker(told);
    stack.worker(leaver).signal(SIGTERM);
    EXPECT_EQ(stack.worker(leaver).wait(60s), 0);
    const std::string log = stack.worker(leaver).log();
    constexpr std::string_view kMember = "limit_seconds\":";
    const auto at = log.find(kMember);
    return at == std::string::npos ? log : log.substr(at + kMember.size(), 3);
  };
  EXPECT_EQ(limit_of({}), "705");
  EXPECT_EQ(limit_of({{"DRAIN_SECONDS", "100"}}), "100");
}

TEST_F(Leaving, KilledMeanwhileStrandsNothing) {
  begin(10min);
  leaver().signal(SIGTERM);
  ASSERT_TRUE(says(leaver(), kDrains)) << leaver().log();
  leaver().kill();
  EXPECT_GE(count(stack_, "state=2"), kRunning - 1);
  let_leases_run_out(stack_);
  expect_the_next_ends(kRunning);
  for (const std::string& id : slow_) {
    EXPECT_EQ(column(stack_, id, "lost_leases"), 1);
  }
}

// --- a call that outlives its worker

class Resumed : public testing::Test {
 protected:
  static constexpr const char* kTicket =
      R"({"status_url":"BASE/status","response_url":"BASE/result","cancel_url":"BASE/cancel"})";

  // A task whose provider has taken its job, which goes on.
  void begin(std::string_view more = "") {
    worker_ = stack_.start_worker({{"DRAIN_LIMIT_MS", "100"}});
    id_ = stack_.create(ann_, wav_body("paid", more)).text("id");
    ASSERT_TRUE(has_tickets(1, ""));
  }
  bool has_tickets(std::int64_t many, const char* where) {
    return eventually(60s, [&] {
      return stack_.database().number(
                 store::Sql("SELECT COUNT(*) FROM tickets").append(store::Sql::trusted(where))) ==
             many;
    });
  }
  // The next worker has the audio of the first one's call.
  void expect_paid_once() {
    ready_ = true;
    stack_.start_worker();
    ASSERT_TRUE(all_end(stack_));
    const Reply done = stack_.get(ann_, id_);
    EXPECT_EQ(done.text("status"), "succeeded") << done.body;
    EXPECT_EQ(asked("POST"), 1) << "it was made, and paid, twice";
    EXPECT_EQ(asked("PUT"), 0) << "it was withdrawn";
    EXPECT_THAT(calls_of(stack_, id_), SizeIs(2));
    stack_.database().expect_invariants();
  }
  std::ptrdiff_t asked(std::string_view method) const {
    const auto calls = provider_.calls();
    return std::count_if(
        calls.begin(), calls.end(), [&](const DoubleCall& call) { return call.method == method; });
  }
  DoubleReply play(const DoubleCall& call) {
    if (call.target == "/file") {
      return wav_reply(0.5);
    }
    std::string body = call.method == "POST"      ? kTicket
                       : call.target == "/result" ? R"({"audio":{"url":"BASE/file"}})"
                       : ready_                   ? R"({"status":"COMPLETED"})"
                                                  : R"({"status":"IN_PROGRESS"})";
    const bool next = call.target.starts_with("/owner/next") || call.target.starts_with("/next/");
    gone_ = gone_ && call.method != "POST";  // What is handed over from now on is there.
    if (call.target == "/status" && gone_) {
      return {.status = 404, .body = R"({"detail":"Not Found"})", .delay = gone_late_ ? 1s : 0s};
    }
    if (call.target == "/result" && fails_) {
      body = "{}";
    } else if (call.target == "/next/status") {
      body = R"({"status":"COMPLETED"})";
    } else if (call.target == "/next/result") {
      body = R"({"audio":{"url":"BASE/file"}})";
    }
    const std::string base =
        (moved_ ? elsewhere() : provider_.url()) + (next && call.method == "POST" ? "/next" : "");
    for (std::size_t at = body.find("BASE"); at != std::string::npos; at = body.find("BASE")) {
      body.replace(at, 4, base);
    }
    return {.headers = {"Content-Type: application/json"},
            .body = std::move(body),
            .delay = slow_ && call.method == "POST" ? 2s : 0s};
  }
  static Stack::Options options(const ChainFile& chain) {
    Stack::Options out = chain.options();
    out.workers = 0;
    out.environment["URL_POLICY"] = "any";
    return out;
  }
  std::string entry(const std::string& name,
                    const std::string& more = "",
                    const std::string& model = "owner/app") const {
    return R"({"name":")" + name + R"(","kind":"fal","model":")" + model + R"(","base_url":")" +
           provider_.url() + R"(","api_key_env":"PROVIDER_KEY")" + more + "}";
  }

  // The same server by another name.
  std::string elsewhere() const {
    std::string url = provider_.url();
    const auto at = url.find("127.0.0.1");
    return at == std::string::npos ? url : url.replace(at, 9, "localhost");
  }
  std::atomic<bool> ready_{false}, fails_{false}, slow_{false}, gone_{false}, moved_{false};
  std::atomic<bool> gone_late_{false};
  ProviderDouble provider_{[this](const DoubleCall& call) { return play(call); }};
  ChainFile chain_{{entry("queue")}};
  Stack stack_{options(chain_)};
  Account ann_ = stack_.account(1000);
  std::size_t worker_ = 0;
  std::string id_;
};

TEST_F(Resumed, ACrashIsPaidOnce) {
  begin();
  stack_.worker(worker_).kill();
  let_leases_run_out(stack_);
  expect_paid_once();
  EXPECT_EQ(column(stack_, id_, "lost_leases"), 1);
}

TEST_F(Resumed, ADeployIsPaidOnce) {
  begin();
  stack_.worker(worker_).signal(SIGTERM);
  EXPECT_EQ(stack_.worker(worker_).wait(60s), 0);
  expect_paid_once();
}

// What was asked as well is the newest call, and has no ticket: nobody looked for the first one's.
TEST_F(Resumed, ACrashOfARaceIsPaidOnce) {
  const ProviderDouble beside(
      [](const DoubleCall&) { return DoubleReply{.form = DoubleReply::Form::kHang}; });
  chain_.write({entry("queue", R"(,"hedge_after_seconds":0.2)"), openai_entry("beside", beside)});
  begin();
  ASSERT_TRUE(beside.wait_until([&] { return beside.call_count() == 1; }, 60s));
  stack_.worker(worker_).kill();
  let_leases_run_out(stack_);
  ready_ = true;
  stack_.start_worker();
  ASSERT_TRUE(all_end(stack_));
  EXPECT_EQ(stack_.get(ann_, id_).text("status"), "succeeded");
  EXPECT_EQ(asked("POST"), 1) << "it was made, and paid, twice";
  EXPECT_EQ(asked("PUT"), 0) << "it was withdrawn";
  stack_.database().expect_invariants();
}

// The provider takes the job, whether or not we wait to be told where.
TEST_F(Resumed, WhatIsBeingHandedOverAtADeployIsPaidOnce) {
  slow_ = true;
  worker_ = stack_.start_worker({{"DRAIN_LIMIT_MS", "100"}});
  id_ = stack_.create(ann_, wav_body("paid")).text("id");
  ASSERT_TRUE(provider_.wait_until([&] { return asked("POST") == 1; }, 60s));
  stack_.worker(worker_).signal(SIGTERM);
  EXPECT_EQ(stack_.worker(worker_).wait(60s), 0);
  EXPECT_EQ(column(stack_, id_, "lost_leases"), 0) << "it was given back";
  expect_paid_once();
}

TEST_F(Resumed, WhatWaitsForItsTurnKeepsItsTicket) {
  begin();
  stack_.worker(worker_).kill();
  const std::size_t second = stack_.start_worker();
  stack_.create(ann_, wav_body("paid as well"));
  ASSERT_TRUE(has_tickets(2, ""));
  stack_.worker(second).kill();
  chain_.write({entry("queue", R"(,"max_in_flight":1)")});
  let_leases_run_out(stack_);
  const std::size_t third = stack_.start_worker();
  ASSERT_TRUE(has_tickets(2, " WHERE n=2")) << "one of them waits, and has none that counts";
  stack_.worker(third).kill();
  let_leases_run_out(stack_);
  ready_ = true;
  stack_.start_worker();
  ASSERT_TRUE(all_end(stack_));
  EXPECT_EQ(count(stack_, "state=3"), 2);
  EXPECT_EQ(asked("POST"), 2) << "what was under way was made, and paid, twice";
  stack_.database().expect_invariants();
}

// They were sent with it. The next worker wanted to have them once more, and failed the task.
TEST_F(Resumed, WhatIsMadeIsDeliveredThoughItsReferencesAreGone) {
  std::atomic<bool> there{true};
  const ProviderDouble client([&](const DoubleCall&) {
    return there.load() ? wav_reply(0.5) : DoubleReply{.status = 403, .body = "expired"};
  });
  chain_.write({entry("queue", R"(,"options":{"audio_references_member":"sounds"})")});
  begin(R"(,"audio_references":[")" + client.url() + R"(/a"])");
  ASSERT_EQ(client.call_count(), 1U);
  stack_.worker(worker_).kill();
  there = false;
  let_leases_run_out(stack_);
  expect_paid_once();
}

// Nothing had fetched them for whoever is asked next.
TEST_F(Resumed, WhatFailsGoesOnWithItsReferences) {
  const auto refers = [](const std::string& more) {
    return R"(,"options":{"audio_references_member":"sounds")" + more + "}";
  };
  chain_.write({entry("queue", refers("")),
                entry("next", refers(R"(,"references":"bytes")"), "owner/next")});
  begin(R"(,"audio_references":[")" + provider_.url() + R"(/file"])");
  stack_.worker(worker_).kill();
  let_leases_run_out(stack_);
  fails_ = ready_ = true;
  stack_.start_worker();
  ASSERT_TRUE(all_end(stack_));
  EXPECT_EQ(stack_.get(ann_, id_).text("status"), "succeeded");
  EXPECT_THAT(calls_of(stack_, id_), SizeIs(3));
  EXPECT_EQ(asked("POST"), 2);
  stack_.database().expect_invariants();
}

TEST_F(Resumed, WhatIsGoneThereIsAskedForAnew) {
  const ProviderDouble next([](const DoubleCall&) { return wav_reply(0.5); });
  chain_.write({entry("queue"), openai_entry("next", next)});
  begin();
  stack_.worker(worker_).kill();
  let_leases_run_out(stack_);
  gone_ = ready_ = true;
  stack_.start_worker();
  ASSERT_TRUE(all_end(stack_));
  EXPECT_EQ(stack_.get(ann_, id_).text("status"), "succeeded");
  EXPECT_EQ(asked("POST"), 2);
  EXPECT_EQ(next.call_count(), 0U) << "it was told as a failure of the first one";
  EXPECT_THAT(calls_of(stack_, id_), SizeIs(3));
  stack_.database().expect_invariants();
}

// The other one's answer, which came last, was the job's, and the ticket was there in each claim.
TEST_F(Resumed, WhatIsGoneIsAskedForAnewAlsoWhereAnotherIsAskedBeside) {
  const ProviderDouble beside([](const DoubleCall&) {
    return DoubleReply{.status = 404, .body = R"({"error":{"message":"no"}})", .delay = 3s};
  });
  chain_.write({entry("queue", R"(,"hedge_after_seconds":0.2)"), openai_entry("beside", beside)});
  begin();
  stack_.worker(worker_).kill();
  let_leases_run_out(stack_);
  gone_ = gone_late_ = ready_ = true;
  stack_.start_worker();
  ASSERT_TRUE(all_end(stack_));
  EXPECT_EQ(stack_.get(ann_, id_).text("status"), "succeeded");
  EXPECT_EQ(asked("POST"), 2);
  stack_.database().expect_invariants();
}

TEST_F(Resumed, WhatIsAtAnotherAddressByNowIsAskedForAnew) {
  begin();
  stack_.worker(worker_).kill();
  let_leases_run_out(stack_);
  std::string moved = entry("queue");
  moved.replace(moved.find(provider_.url()), provider_.url().size(), elsewhere());
  moved_ = ready_ = true;
  chain_.write({moved});
  stack_.start_worker();
  ASSERT_TRUE(all_end(stack_));
  EXPECT_EQ(stack_.get(ann_, id_).text("status"), "succeeded");
  EXPECT_EQ(asked("POST"), 2);
  EXPECT_THAT(calls_of(stack_, id_), SizeIs(3));
  stack_.database().expect_invariants();
}

// --- a call that lasts

// In real time: renewals are counted by the clocks of worker and database.
TEST(LongCall, KeepsItsLeaseAndIsMadeOnce) {
  const ProviderDouble provider([](const DoubleCall&) {
    DoubleReply reply = wav_reply(0.5);
    reply.delay = kLease + 8s;
    return reply;
  });
  const ChainFile chain({openai_entry("primary", provider, R"(,"timeout_seconds":600)")});
  Stack::Options options = chain.options();
  options.workers = 2;  // One of them would take it over.
  Stack stack(options);
  const Account ann = stack.account(1000);
  const std::string id = stack.create(ann, wav_body("long")).text("id");
  const Reply done = stack.wait_final(ann, id, 120s);
  EXPECT_EQ(done.text("status"), "succeeded") << done.body;
  EXPECT_EQ(provider.call_count(), 1U);
  EXPECT_EQ(column(stack, id, "claims"), 1);
  EXPECT_EQ(column(stack, id, "lost_leases"), 0);
  for (std::size_t worker = 0; worker < 2; ++worker) {
    const std::string metrics = http("GET", stack.worker_ops_url(worker) + "/metrics").body;
    EXPECT_THAT(metrics, HasSubstr(R"(broker_connected{role="consumer"} 1)"));
    EXPECT_THAT(metrics, HasSubstr(R"(broker_reconnects_total{role="consumer"} 0)"));
  }
  EXPECT_EQ(credits_of(stack, ann, "available_credits"), 1000 - kPrice);
  stack.database().expect_invariants();
}

// --- a claim that nobody has heard of

// It was committed, its answer swallowed, and the database away for as long as one asks: the row is
// this worker's, and no job knows of it.
TEST(Unheard, AClaimIsGivenBackAsSoonAsTheDatabaseIsThereAgain) {
  const ProviderDouble provider([](const DoubleCall&) { return wav_reply(0.5); });
  const ChainFile chain({openai_entry("primary", provider)});
  Stack::Options options = chain.options();
  options.workers = 0;
  Stack stack(options);
  TcpProxy link(stack.database().url().port);
  link.drop_reply_after("claims=claims+1", TcpProxy::Cut::kSilence);
  stack.start_worker({{"DATABASE_URL", stack.database_url("worker", link.port())}});
  const Account ann = stack.account(1000);
  const std::string id = stack.create(ann, wav_body("once")).text("id");
  ASSERT_TRUE(eventually(60s, [&] { return link.triggered() == 1; }));
  link.refuse();
  link.cut_all();
  const auto failed_claims = [&] {
    const std::string log = stack.worker(0).log();
    int count = 0;
    for (auto at = log.find(R"("what":"claim")"); at != std::string::npos;
         at = log.find(R"("what":"claim")", at + 1)) {
      ++count;
    }
    return count;
  };
  // The second is of the next try: what became of the first is not asked for any more.
  ASSERT_TRUE(eventually(60s, [&] { return failed_claims() >= 2; }));
  EXPECT_EQ(column(stack, id, "state=2 AND epoch=1 AND lost_leases=0"), 1);
  link.accept_again();
  const Reply done = stack.wait_final(ann, id, 120s);
  EXPECT_EQ(done.text("status"), "succeeded") << done.body;
  EXPECT_EQ(provider.call_count(), 1U);
  EXPECT_EQ(column(stack, id, "lost_leases"), 0) << "it waited for nobody's lease to run out";
  EXPECT_EQ(column(stack, id, "claims"), 1);
  EXPECT_EQ(credits_of(stack, ann, "available_credits"), 1000 - kPrice);
  stack.database().expect_invariants();
}

// Between its claim and the answer to that the providers file became another, by which the provider
// that was named for it has not its voice: it was spoken in the first one that there was.
TEST(Claimed, KeepsTheChainThatNamedItsProvider) {
  const ProviderDouble first([](const DoubleCall&) { return wav_reply(0.5); });
  const ProviderDouble second([](const DoubleCall&) { return wav_reply(0.5); });
  const ChainFile chain({openai_entry("first", first, "", R"({"aria":"coral","atlas":"onyx"})")});
  Stack::Options options = chain.options();
  options.workers = 0;
  Stack stack(options);
  TcpProxy link(stack.database().url().port);
  stack.start_worker({{"DATABASE_URL", stack.database_url("worker", link.port())}});
  const Account ann = stack.account(1000);
  link.delay(200ms);
  const std::string id = stack.create(ann, wav_body("once", R"(,"voice":"atlas")")).text("id");
  ASSERT_TRUE(eventually(60s, [&] { return column(stack, id, "state=2") == 1; }));
  link.blackhole();  // The answer to COMMIT is on its way.
  chain.write({openai_entry("first", first, "", R"({"aria":"coral"})"),
               openai_entry("second", second, "", R"({"atlas":"onyx"})")});
  stack.worker(0).signal(SIGHUP);
  ASSERT_TRUE(says(stack.worker(0), "providers reloaded"));
  link.delay(0ms);
  link.resume();
  EXPECT_EQ(stack.wait_final(ann, id, 120s).text("status"), "succeeded");
  auto calls = first.calls();
  const auto others = second.calls();
  calls.insert(calls.end(), others.begin(), others.end());
  ASSERT_THAT(calls, SizeIs(1));
  EXPECT_NE(calls.front().body.find("onyx"), std::string::npos) << calls.front().body;
}

// --- audio that cannot be stored

// Files in the way of the folders in which audio of now and soon would go: as good as a full disk,
// whoever runs the test.
std::vector<std::string> bar_the_way(const std::string& folder) {
  constexpr auto kSlot = std::chrono::milliseconds(1 << 20);
  std::filesystem::create_directories(folder);
  std::vector<std::string> files;
  const auto now = std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now());
  for (int slot = 0; slot < 3; ++slot) {
    files.push_back(folder + "/" + encode_base32(first_uuid_at(now + slot * kSlot)).substr(0, 6));
    std::ofstream(files.back()) << "in the way";
  }
  return files;
}

TEST(Storing, ThatFailsForAWhileIsPaidOnce) {
  ProviderDouble provider([](const DoubleCall&) { return wav_reply(0.5); });
  const ChainFile chain({openai_entry("primary", provider)});
  Stack::Options options = chain.options();
  options.workers = 0;
  Stack stack(options);
  const std::vector<std::string> in_the_way = bar_the_way(stack.log_folder() + "/blobs");
  stack.start_worker();
  const Account ann = stack.account(1000);
  const std::string made = stack.create(ann, wav_body("made")).text("id");
  ASSERT_TRUE(says(stack.worker(0), "the blob store takes no audio"));
  const std::string waits = stack.create(ann, wav_body("waits")).text("id");
  ASSERT_TRUE(eventually(60s, [&] {
    return http("GET", stack.worker_ops_url(0) + "/metrics").body.find("outputs_kept 1") !=
           std::string::npos;
  }));
  EXPECT_EQ(column(stack, waits, "claims"), 0) << "what is made now could not be stored";
  EXPECT_EQ(provider.call_count(), 1U);

  for (const std::string& file : in_the_way) {
    std::filesystem::remove(file);
  }
  for (const std::string& id : {made, waits}) {
    const Reply done = stack.wait_final(ann, id);
    EXPECT_EQ(done.text("status"), "succeeded") << done.body;
    EXPECT_EQ(http("GET", done.text("output.url")).body.size(), tone_wav(0.5).size());
    EXPECT_EQ(column(stack, id, "claims"), 1);
  }
  EXPECT_EQ(provider.call_count(), 2U);
  EXPECT_EQ(credits_of(stack, ann, "available_credits"), 1000 - 2 * kPrice);
  stack.database().expect_invariants();
}

TEST(Storing, ThatFailsToTheDeadlineIsRefunded) {
  ProviderDouble provider([](const DoubleCall&) { return wav_reply(0.5); });
  const ChainFile chain({openai_entry("primary", provider)});
  Stack::Options options = chain.options();
  options.workers = 0;
  options.environment["TASK_DEADLINE_SECONDS"] = "20";
  Stack stack(options);
  const std::vector<std::string> in_the_way = bar_the_way(stack.log_folder() + "/blobs");
  stack.start_worker();
  const Account ann = stack.account(1000);
  const Reply failed =
      stack.wait_final(ann, stack.create(ann, wav_body("unlucky")).text("id"), 120s);
  EXPECT_EQ(failed.text("status"), "failed") << failed.body;
  EXPECT_EQ(failed.text("output"), "null") << "nothing is served";
  EXPECT_EQ(provider.call_count(), 1U);
  EXPECT_THAT(stack.worker(0).log(), HasSubstr("audio could not be stored"));
  EXPECT_EQ(credits_of(stack, ann, "available_credits"), 1000);
  EXPECT_EQ(credits_of(stack, ann, "reserved_credits"), 0);
  stack.database().expect_invariants();
}

// It stopped its worker's claims until its deadline. In real time: it is offered for half a minute.
TEST(Storing, OneFileThatIsRefusedByItselfFailsAlone) {
  S3Double storage("audio", "eu-west-3", {"id", "hush"});
  storage.limit(tone_wav(1.0).size());
  ProviderDouble provider([](const DoubleCall& call) {
    return wav_reply(member_of(call, "input") == "long" ? 3 : 0.5);
  });
  const ChainFile chain({openai_entry("primary", provider)});
  Stack::Options options = chain.options();
  options.environment["BLOB_URL"] = "s3://audio?region=eu-west-3&endpoint=" + storage.endpoint();
  options.environment["AWS_ACCESS_KEY_ID"] = "id";
  options.environment["AWS_SECRET_ACCESS_KEY"] = "hush";
  options.environment["CDN_URL"] = "http://127.0.0.1:1";
  Stack stack(options);
  const Account ann = stack.account(1000), bob = stack.account(1000);
  const std::string large = stack.create(ann, wav_body("long")).text("id");
  ASSERT_TRUE(says(stack.worker(0), "audio could not be stored"));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(stack.wait_final(bob, stack.create(bob, wav_body("short")).text("id")).text("status"),
              "succeeded");
  }
  const Reply failed = stack.wait_final(ann, large, 120s);
  EXPECT_EQ(failed.text("status"), "failed") << failed.body;
  EXPECT_EQ(failed.text("error.code"), "internal_error");
  EXPECT_EQ(column(stack, large, "claims"), 1) << "to make it again would make it no smaller";
  EXPECT_EQ(provider.call_count(), 4U);
  EXPECT_THAT(stack.worker(0).log(), HasSubstr("audio cannot be stored"));
  EXPECT_EQ(credits_of(stack, ann, "available_credits"), 1000);
  EXPECT_EQ(credits_of(stack, ann, "reserved_credits"), 0);
  stack.database().expect_invariants();
}

// --- a sweeper that dies

constexpr int kCrashed = 137;

// A look ends tasks and puts others back by the dozen, all in one transaction.
class SweeperCrash : public testing::TestWithParam<const char*> {};

TEST_P(SweeperCrash, TheNextOneEndsEachTaskOnce) {
  constexpr std::size_t kOfEach = 7;
  constexpr std::size_t kAll = 3 * kOfEach;
  std::atomic<bool> hangs{true};
  ProviderDouble provider([&](const DoubleCall&) {
    DoubleReply reply = wav_reply(0.5);
    reply.form = hangs ? DoubleReply::Form::kHang : DoubleReply::Form::kWhole;
    return reply;
  });
  const ChainFile chain({openai_entry("primary", provider, R"(,"timeout_seconds":600)")});
  Stack::Options options = chain.options();
  options.workers = 0;
  options.environment["WORKER_IN_FLIGHT"] = "32";
  Stack stack(options);
  const Account ann = stack.account(10'000);
  const std::size_t dead = stack.start_worker();
  std::vector<std::string> late, used_up, lost;
  for (std::size_t i = 0; i < kOfEach; ++i) {
    for (std::vector<std::string>* const kind : {&late, &used_up, &lost}) {
      kind->push_back(stack.create(ann, wav_body("Number " + std::to_string(i))).text("id"));
    }
  }
  ASSERT_TRUE(provider.wait_until([&] { return provider.call_count() == kAll; }, 120s));
  stack.worker(dead).kill();
  for (std::size_t i = 0; i < kOfEach; ++i) {
    stack.database().execute(
        store::Sql("UPDATE tasks SET deadline_at=UTC_TIMESTAMP(6) - INTERVAL 1 SECOND WHERE id=")
        << TaskId::parse(late[i]).value());
    stack.database().execute(
        store::Sql("UPDATE tasks SET lost_leases=4, claims=5, epoch=9, attempt_epoch=9 WHERE id=")
        << TaskId::parse(used_up[i]).value());
  }
  let_leases_run_out(stack);
  hangs = false;

  const std::size_t first = stack.start_worker({{"CRASH_POINT", GetParam()}});
  ASSERT_EQ(stack.worker(first).wait(60s), kCrashed) << "the crash point was never passed";
  const auto left = static_cast<std::size_t>(count(stack, "state=2"));
  EXPECT_TRUE(left == kAll || left == 0) << "all of a look or nothing: " << left;
  stack.database().expect_invariants();

  stack.start_worker();
  ASSERT_TRUE(all_end(stack));
  const auto expect_failed = [&](const std::vector<std::string>& ids, const char* code) {
    for (const std::string& id : ids) {
      EXPECT_EQ(stack.get(ann, id).text("error.code"), code);
    }
  };
  expect_failed(late, "deadline_exceeded");
  expect_failed(used_up, "internal_error");
  for (const std::string& id : lost) {
    EXPECT_EQ(stack.get(ann, id).text("status"), "succeeded");
    EXPECT_EQ(column(stack, id, "lost_leases"), 1) << "it was put back once";
  }
  EXPECT_EQ(provider.call_count(), kAll + kOfEach);
  EXPECT_EQ(stack.database().number(store::Sql("SELECT COUNT(*) FROM ledger WHERE kind=2")),
            static_cast<std::int64_t>(kAll));
  EXPECT_EQ(credits_of(stack, ann, "available_credits"),
            10'000 - static_cast<double>(kOfEach) * kPrice);
  stack.database().expect_invariants();
}

INSTANTIATE_TEST_SUITE_P(Points,
                         SweeperCrash,
                         testing::Values("sweep.row:5", "sweep.committed:1"),
                         [](const testing::TestParamInfo<const char*>& point) {
                           const std::string name = point.param;
                           return name.substr(name.find('.') + 1, name.find(':') - 6);
                         });

}  // namespace
}  // namespace audiogen::test
