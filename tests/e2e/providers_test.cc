// Providers that fail in every way: the client gets audio from the next one, pays once and exactly,
// and learns nothing of it.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <csignal>

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "common/base/mutex.h"
#include "common/base/time.h"
#include "common/base/unique_fd.h"
#include "common/domain/pricing.h"
#include "tests/e2e/chain.h"
#include "tests/e2e/failures.h"
#include "tests/support/closed_port.h"
#include "tests/support/connect_proxy.h"
#include "tests/support/tcp_proxy.h"
#include "tests/support/test_broker.h"

namespace audiogen::test {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::AnyOf;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kFirst = "alpha-upstream";
constexpr const char* kSecond = "beta-upstream";

// Counts connections to every address of this machine, IPv4 and IPv6.
class Canary {
 public:
  Canary() : listener_(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    const int off = 0;
    ::setsockopt(listener_.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_addr = in6addr_any;
    socklen_t size = sizeof address;
    auto* const raw = reinterpret_cast<sockaddr*>(&address);
    if (::bind(listener_.get(), raw, size) != 0 || ::listen(listener_.get(), 128) != 0 ||
        ::getsockname(listener_.get(), raw, &size) != 0) {
      throw std::runtime_error("cannot listen");
    }
    port_ = std::to_string(ntohs(address.sin6_port));
  }
  const std::string& port() const { return port_; }
  int connections() {
    while (UniqueFd(::accept(listener_.get(), nullptr, nullptr))) {
      ++accepted_;
    }
    return accepted_;
  }

 private:
  UniqueFd listener_;
  std::string port_;
  int accepted_ = 0;
};

double second_length(std::size_t number) {
  return 8.0 + 0.037 * static_cast<double>(number);
}

TEST(Fallback, EveryFailureOfTheFirstIsServedByTheNextAndChargedOnce) {
  Canary canary;
  const std::vector<Failure> all = failures("http://127.0.0.1:" + canary.port() + "/");
  // "n" is the number of the failure; "good" goes well.
  ProviderDouble first([&](const DoubleCall& call) {
    const std::string text = member_of(call, "input");
    return text.starts_with("good") ? wav_reply(0.3) : all.at(std::stoul(text)).reply;
  });
  // On a machine that stands still for long, a good one may come here as well.
  ProviderDouble second([&](const DoubleCall& call) {
    const std::string text = member_of(call, "input");
    return wav_reply(text.starts_with("good") ? 0.3 : second_length(std::stoul(text)));
  });
  const ChainFile chain(
      {openai_entry(kFirst, first, R"(,"timeout_seconds":10)"), openai_entry(kSecond, second)});
  Stack stack(chain.options());
  const Account ann = stack.account(100'000);
  std::string seen;  // Everything the client ever got.
  const auto note = [&seen](const Reply& reply) {
    seen += reply.body;
    for (const auto& [name, value] : reply.headers) {
      seen += name + ": " + value + "\n";
    }
    return reply;
  };

  // More good calls than bad ones beside each, however slow this machine is: or the breaker, which
  // forgets what was half a minute ago, would spare the provider the rest.
  std::vector<std::string> good, ids;
  const auto go_well = [&](std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      good.push_back(stack.create(ann, wav_body("good")).text("id"));
    }
  };
  go_well(10);
  for (std::size_t i = 0; i < all.size(); ++i) {
    go_well(all[i].calls + 1);
    const std::string prompt = std::to_string(i) + " " + kUserWords;
    ids.push_back(note(stack.create(ann, wav_body(prompt))).text("id"));
  }
  for (const std::string& id : good) {
    ASSERT_EQ(stack.wait_final(ann, id).text("status"), "succeeded");
  }
  Units spent = kChargeMin;
  spent.value *= static_cast<std::int64_t>(good.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    SCOPED_TRACE(all[i].name);
    const Reply done = note(stack.wait_final(ann, ids[i]));
    ASSERT_EQ(done.text("status"), "succeeded") << done.body;
    const auto milliseconds = std::llround(second_length(i) * 1000);
    EXPECT_EQ(std::llround(std::stod(done.text("output.duration_seconds")) * 1000), milliseconds);
    EXPECT_EQ(done.text("usage.credits"), format_credits(charge_for(milliseconds)));
    spent = spent + charge_for(milliseconds);
    const Reply file = note(http("GET", done.text("output.url")));
    EXPECT_EQ(file.body.size(), 44 + static_cast<std::size_t>(milliseconds) * 24 * 2);

    std::vector<std::string> story = calls_of(stack, ids[i]);
    ASSERT_EQ(story.size(), all[i].calls + 1);
    EXPECT_EQ(story.back(), std::string(kSecond) + " succeeded");
    story.pop_back();
    EXPECT_THAT(story, Each(HasSubstr(std::string(kFirst) + " " + all[i].state)));
  }
  const auto asked = second.calls();
  EXPECT_EQ(std::count_if(asked.begin(),
                          asked.end(),
                          [](const DoubleCall& call) {
                            return !member_of(call, "input").starts_with("good");
                          }),
            std::ssize(all));
  // What an operator is shown of one of them: both calls, why the first failed, hold and charge.
  const auto shown = stack.admin({"task", "show", ids[0]});
  ASSERT_EQ(shown["attempts"].Size(), 2U);
  EXPECT_STREQ(shown["attempts"][0]["provider"].GetString(), kFirst);
  EXPECT_STREQ(shown["attempts"][0]["detail"].GetString(), "HTTP 400 some_code");
  EXPECT_STREQ(shown["attempts"][1]["state"].GetString(), "succeeded");
  EXPECT_EQ(shown["ledger"].Size(), 2U);
  EXPECT_DOUBLE_EQ(credits_of(stack, ann, "available_credits"),
                   100'000 - static_cast<double>(spent.value) / 1000);
  EXPECT_EQ(credits_of(stack, ann, "reserved_credits"), 0);
  EXPECT_TRUE(stack.admin({"audit"})["ok"].GetBool());
  stack.database().expect_invariants();
  EXPECT_EQ(canary.connections(), 0) << "a redirect was followed";

  for (const std::string& word : {std::string(kFirst),
                                  std::string(kSecond),
                                  std::string(kWords),
                                  std::string(kUserWords),
                                  std::string(kProviderKey),
                                  std::to_string(first.port()),
                                  std::to_string(second.port())}) {
    EXPECT_THAT(seen, Not(HasSubstr(word)));
  }
  for (const char* word : {kWords, kUserWords, kProviderKey}) {
    EXPECT_THAT(stack.worker(0).log(), Not(HasSubstr(word)));
    EXPECT_THAT(stack.api().log(), Not(HasSubstr(word)));
  }
}

TEST(Fallback, TheLocalEngineStandsIn) {
  ProviderDouble first([](const DoubleCall&) { return at(401); });
  const ChainFile chain({openai_entry(kFirst, first), kLocalEntry});
  Stack stack(chain.options());
  const Account ann = stack.account();
  const std::string id = stack.create(ann, Stack::body()).text("id");
  EXPECT_EQ(stack.wait_final(ann, id).text("status"), "succeeded");
  EXPECT_THAT(calls_of(stack, id), ElementsAre("alpha-upstream failed", "local succeeded"));
  stack.database().expect_invariants();
}

TEST(Fallback, RefusedContentIsNotShoppedAroundAndIsRefunded) {
  ProviderDouble first([](const DoubleCall&) { return at(400, "content_policy_violation"); });
  ProviderDouble second([](const DoubleCall&) { return wav_reply(1.0); });
  const ChainFile chain({openai_entry(kFirst, first), openai_entry(kSecond, second)});
  Stack stack(chain.options());
  const Account ann = stack.account(1000);
  const std::string id = stack.create(ann, Stack::body()).text("id");
  const Reply done = stack.wait_final(ann, id);
  EXPECT_EQ(done.text("status"), "failed");
  EXPECT_EQ(done.text("error.code"), "content_rejected");
  EXPECT_EQ(done.text("error.retriable"), "false");
  EXPECT_EQ(done.text("billing"),
            R"({"reserved_credits":150,"charged_credits":0,"returned_credits":150})");
  EXPECT_EQ(first.call_count(), 1U);
  EXPECT_EQ(second.call_count(), 0U);
  EXPECT_EQ(credits_of(stack, ann, "available_credits"), 1000);
  stack.database().expect_invariants();
}

TEST(Fallback, RetryAfterIsHonouredInPlace) {
  std::atomic<int> calls{0};
  std::atomic<std::chrono::steady_clock::time_point> refused_at, called_again_at;
  ProviderDouble first([&](const DoubleCall&) {
    if (calls.fetch_add(1) == 0) {
      refused_at = std::chrono::steady_clock::now();
      DoubleReply out = at(429, "rate_limit_exceeded");
      out.headers.emplace_back("Retry-After: 2");
      return out;
    }
    called_again_at = std::chrono::steady_clock::now();
    return wav_reply(1.0);
  });
  ProviderDouble second([](const DoubleCall&) { return wav_reply(1.0); });
  const ChainFile chain({openai_entry(kFirst, first), openai_entry(kSecond, second)});
  Stack stack(chain.options());
  const Account ann = stack.account();
  const std::string id = stack.create(ann, Stack::body()).text("id");
  EXPECT_EQ(stack.wait_final(ann, id).text("status"), "succeeded");
  EXPECT_THAT(calls_of(stack, id),
              ElementsAre("alpha-upstream failed", "alpha-upstream succeeded"));
  EXPECT_GE(called_again_at.load() - refused_at.load(), 2s);
  EXPECT_EQ(second.call_count(), 0U);
}

// Five times "later", and the task failed, though nobody had taken it. One attempt it does use up,
// so that it comes again before those that wait for their first turn; and one the call that makes
// it.
TEST(Fallback, WhoIsToldLaterUsesUpOneAttemptHoweverOften) {
  constexpr std::size_t kLater = 3;
  ProviderDouble first([&](const DoubleCall& call) {
    if (call.number >= kLater) {
      return wav_reply(1.0);
    }
    DoubleReply out = at(429, "rate_limit_exceeded");
    out.headers.emplace_back("Retry-After: 3");
    return out;
  });
  const ChainFile chain({openai_entry(kFirst, first)});
  Stack stack(chain.options());
  const Account ann = stack.account();
  const std::string id = stack.create(ann, Stack::body()).text("id");
  EXPECT_EQ(stack.wait_final(ann, id, 120s).text("status"), "succeeded");
  EXPECT_EQ(first.call_count(), kLater + 1);
  EXPECT_EQ(stack.database().number(store::Sql("SELECT claims FROM tasks")), 2);
}

// Its task has ended without it: what it was its worker tells by itself.
TEST(Costs, ACallWhoseTaskWasCanceledIsRecorded) {
  ProviderDouble first([](const DoubleCall&) { return DoubleReply{.form = Form::kHang}; });
  const ChainFile chain({openai_entry(kFirst, first, R"(,"price":{"amount":0.02,"per":"call"})")});
  Stack stack(chain.options());
  const Account ann = stack.account();
  const std::string id = stack.create(ann, Stack::body()).text("id");
  ASSERT_TRUE(first.wait_until([&] { return first.call_count() == 1; }, 60s));
  stack.admin({"task", "cancel", id});
  const auto calls = [&] {
    return stack.database().text(
        store::Sql("SELECT GROUP_CONCAT(CONCAT_WS(' ', provider, outcome, cost, earned)) FROM "
                   "provider_calls"));
  };
  EXPECT_TRUE(eventually(60s, [&] { return calls() == "alpha-upstream 6 20000"; })) << calls();
  stack.database().expect_invariants();
}

TEST(Fallback, AllFailingForLongIsUnavailableAndRefunded) {
  ProviderDouble first([](const DoubleCall&) { return at(503); });
  std::atomic<bool> nearly_over{false};
  ProviderDouble second([&](const DoubleCall& call) {
    if (call.number > 0) {
      static_cast<void>(eventually(60s, [&] { return nearly_over.load(); }));
    }
    return on_the_wire(Form::kReset);
  });
  const ChainFile chain({openai_entry(kFirst, first), openai_entry(kSecond, second)});
  Stack stack(chain.options());
  const Account ann = stack.account(1000);
  const std::string id = stack.create(ann, Stack::body()).text("id");
  ASSERT_TRUE(second.wait_until([&] { return second.call_count() == 2; }, 60s))
      << "more than one claim is tried: the first retry comes after two seconds";
  // The next would come after six seconds at least, and the time is over before.
  stack.database().execute(
      store::Sql("UPDATE tasks SET deadline_at=UTC_TIMESTAMP(6) + INTERVAL 5 SECOND"));
  nearly_over = true;
  const Reply done = stack.wait_final(ann, id);
  EXPECT_EQ(done.text("status"), "failed");
  EXPECT_EQ(done.text("error.code"), "provider_unavailable");
  EXPECT_EQ(done.text("error.retriable"), "true");
  EXPECT_EQ(done.text("billing"),
            R"({"reserved_credits":150,"charged_credits":0,"returned_credits":150})");
  EXPECT_EQ(second.call_count(), 2U);
  EXPECT_EQ(credits_of(stack, ann, "available_credits"), 1000);
  stack.database().expect_invariants();
}

// The last provider cannot, but the first only stumbled: the task waits for it.
TEST(Fallback, AnInputOnlyTheFirstCanServeWaitsForIt) {
  std::atomic<int> calls{0};
  ProviderDouble first([&](const DoubleCall&) {
    return calls.fetch_add(1) == 0 ? on_the_wire(Form::kReset) : wav_reply(1.0);
  });
  ProviderDouble second([](const DoubleCall&) { return at(413); });
  const ChainFile chain({openai_entry(kFirst, first), openai_entry(kSecond, second)});
  Stack stack(chain.options());
  const Account ann = stack.account();
  const std::string id = stack.create(ann, Stack::body()).text("id");
  EXPECT_EQ(stack.wait_final(ann, id).text("status"), "succeeded");
  EXPECT_THAT(
      calls_of(stack, id),
      ElementsAre(
          "alpha-upstream unknown outcome", "beta-upstream failed", "alpha-upstream succeeded"));
  stack.database().expect_invariants();
}

// Nothing was sent, so nothing can have been made there.
TEST(Fallback, FromAPortNobodyListensOnAndAHostNobodyHas) {
  const ProviderDouble second([](const DoubleCall&) { return wav_reply(0.5); });
  const ClosedPort closed;
  const auto entry = [](const std::string& base_url) {
    return R"({"name":")" + std::string(kFirst) + R"(","kind":"openai","base_url":")" + base_url +
           R"(","api_key_env":"PROVIDER_KEY","model":"m","voices":{"aria":"coral"}})";
  };
  for (const std::string& base_url :
       {closed.url() + "/v1", std::string("http://no-such-host.invalid/v1")}) {
    SCOPED_TRACE(base_url);
    const std::size_t before = second.call_count();
    const ChainFile chain({entry(base_url), openai_entry(kSecond, second)});
    Stack stack(chain.options());
    const Account ann = stack.account(1000);
    const std::string id = stack.create(ann, wav_body("Nobody is there.")).text("id");
    const Reply done = stack.wait_final(ann, id);
    EXPECT_EQ(done.text("status"), "succeeded") << done.body;
    EXPECT_THAT(calls_of(stack, id),
                ElementsAre(std::string(kFirst) + " failed", std::string(kSecond) + " succeeded"));
    EXPECT_EQ(second.call_count() - before, 1U);
    EXPECT_EQ(stack.admin({"task", "show", id})["claims"].GetInt(), 1);
    EXPECT_EQ(done.body.find("upstream"), std::string::npos) << "the client learns nothing of it";
    EXPECT_EQ(credits_of(stack, ann, "available_credits"), 990);
    EXPECT_EQ(credits_of(stack, ann, "reserved_credits"), 0);
    stack.database().expect_invariants();
  }
}

TEST(Fallback, ALateSuccessIsNeitherDeliveredNorCharged) {
  ProviderDouble first([](const DoubleCall&) {
    DoubleReply out = wav_reply(60.0);
    out.delay = 1500ms;
    return out;
  });
  // Answers when the first one's answer is out, so that it could still get in between.
  ProviderDouble second([](const DoubleCall&) {
    DoubleReply out = wav_reply(9.0);
    out.delay = 1500ms;
    return out;
  });
  const ChainFile chain(
      {openai_entry(kFirst, first, R"(,"timeout_seconds":1)"), openai_entry(kSecond, second)});
  Stack stack(chain.options());
  const Account ann = stack.account(1000);
  const std::string id = stack.create(ann, wav_body("x")).text("id");
  const Reply done = stack.wait_final(ann, id);
  EXPECT_EQ(done.text("status"), "succeeded");
  EXPECT_EQ(done.text("output.duration_seconds"), "9.0");
  EXPECT_EQ(done.text("usage.credits"), "11.25");
  EXPECT_THAT(calls_of(stack, id),
              ElementsAre("alpha-upstream unknown outcome", "beta-upstream succeeded"));
  EXPECT_EQ(credits_of(stack, ann, "available_credits"), 988.75);
  stack.database().expect_invariants();
}

TEST(Breaker, OpensAfterFailuresAndAProbeClosesIt) {
  constexpr auto kOpenFor = 15s;
  std::atomic<bool> broken{true};
  Mutex mutex;
  std::vector<std::chrono::steady_clock::time_point> called;  // When the first was, by `mutex`.
  ProviderDouble first([&](const DoubleCall&) {
    const MutexLock lock(mutex);
    called.push_back(std::chrono::steady_clock::now());
    return broken.load() ? at(501) : wav_reply(0.3);
  });
  ProviderDouble second([](const DoubleCall&) { return wav_reply(0.3); });
  const ChainFile chain({openai_entry(kFirst, first), openai_entry(kSecond, second)});
  Stack stack(chain.options());
  const Account ann = stack.account(100'000);
  const auto served_by = [&] {
    const std::string id = stack.create(ann, wav_body("x")).text("id");
    EXPECT_EQ(stack.wait_final(ann, id).text("status"), "succeeded");
    return calls_of(stack, id).back();
  };
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(served_by(), "beta-upstream succeeded");
  }
  EXPECT_EQ(first.call_count(), 3U) << "three in a row are enough where few calls are made";
  EXPECT_TRUE(eventually(120s, [&] {
    const std::string state = provider_state(stack, kFirst);
    if (state == "half_open") {
      // On a busy machine nobody has looked in time: a probe that fails opens it again.
      EXPECT_EQ(served_by(), "beta-upstream succeeded");
    }
    return state == "open";
  }));
  EXPECT_EQ(provider_state(stack, kSecond), "ready");
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(served_by(), "beta-upstream succeeded");
  }
  {
    const MutexLock lock(mutex);
    for (std::size_t i = 3; i < called.size(); ++i) {
      EXPECT_GE(called[i] - called[i - 1], kOpenFor) << "an open breaker lets nothing through";
    }
  }

  broken = false;
  EXPECT_TRUE(eventually(120s, [&] {
    pace(300ms);
    return served_by() == "alpha-upstream succeeded";
  }));
  EXPECT_EQ(served_by(), "alpha-upstream succeeded");
  EXPECT_TRUE(eventually(60s, [&] { return provider_state(stack, kFirst) == "ready"; }));
  stack.database().expect_invariants();
}

// It was blamed on the text: all such tasks failed, and the provider was shown as ready.
TEST(Breaker, AVoiceThatIsNotThereIsTheOperatorsFault) {
  ProviderDouble first([](const DoubleCall& call) {
    return member_of(call, "voice") == "coral"
               ? wav_reply(0.3)
               : DoubleReply{.status = 400,
                             .body = R"({"error":{"message":"m","type":"invalid_request_error",
                                         "param":"voice","code":"invalid_value"}})"};
  });
  ProviderDouble second([](const DoubleCall&) { return wav_reply(0.3); });
  const auto first_with = [&](std::string_view voice) {
    return openai_entry(kFirst, first, "", R"({"aria":")" + std::string(voice) + "\"}");
  };
  const ChainFile chain({first_with("corral"), openai_entry(kSecond, second)});
  Stack stack(chain.options());
  const Account ann = stack.account(100'000);
  const auto served_by = [&] {
    const std::string id = stack.create(ann, wav_body("x")).text("id");
    EXPECT_EQ(stack.wait_final(ann, id).text("status"), "succeeded");
    return calls_of(stack, id).back();
  };
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(served_by(), "beta-upstream succeeded");
  }
  EXPECT_EQ(first.call_count(), 3U);
  EXPECT_TRUE(eventually(60s, [&] { return provider_state(stack, kFirst) == "open"; }));
  EXPECT_THAT(
      http("GET", stack.worker_ops_url(0) + "/metrics").body,
      HasSubstr(R"(provider_requests_total{outcome="misconfigured",provider="alpha-upstream"} 3)"));

  chain.write({first_with("coral"), openai_entry(kSecond, second)});
  stack.worker(0).signal(SIGHUP);
  EXPECT_TRUE(eventually(60s, [&] { return served_by() == "alpha-upstream succeeded"; }))
      << "a chain that is read again is trusted";
  stack.database().expect_invariants();
}

// Two slots for aria at the first, which may hang; atlas at the second.
std::vector<std::string> each_its_voice(const ProviderDouble& first, const ProviderDouble& second) {
  return {openai_entry(
              kFirst, first, R"(,"timeout_seconds":600,"max_in_flight":2)", R"({"aria":"coral"})"),
          openai_entry(kSecond, second, "", R"({"atlas":"onyx"})")};
}

TEST(Bulkhead, AHangingProviderDoesNotHoldUpWhatTheOtherServes) {
  ProviderDouble first([](const DoubleCall&) { return on_the_wire(Form::kHang); });
  ProviderDouble second([](const DoubleCall&) { return wav_reply(0.3); });
  const ChainFile chain(each_its_voice(first, second));
  Stack stack(chain.options());
  const Account ann = stack.account(100'000);
  for (int i = 0; i < 50; ++i) {
    stack.create(ann, wav_body("hang", R"(,"voice":"aria")"));
  }
  ASSERT_TRUE(first.wait_until([&] { return first.call_count() == 2; }));
  for (int i = 0; i < 20; ++i) {
    const std::string id = stack.create(ann, wav_body("go", R"(,"voice":"atlas")")).text("id");
    EXPECT_EQ(stack.wait_final(ann, id).text("status"), "succeeded");
  }
  EXPECT_EQ(first.call_count(), 2U);
  EXPECT_EQ(first.connections(), 2U);
}

// What waits for one provider must not take the places that another's tasks need, whoever brings
// them: the broker, or a look at the database.
class ManyForAHangingProvider : public testing::TestWithParam<bool> {};

TEST_P(ManyForAHangingProvider, KeepNoPlaceFromTheOther) {
  std::atomic<bool> open{false};
  ProviderDouble first(
      [&](const DoubleCall&) { return open.load() ? wav_reply(0.3) : on_the_wire(Form::kHang); });
  ProviderDouble second([](const DoubleCall&) { return wav_reply(0.3); });
  const ChainFile chain(each_its_voice(first, second));
  AmqpUrl broker = test_broker_url();
  broker.vhost = Stack::virtual_host();
  TcpProxy proxy(broker.port);
  broker.host = "127.0.0.1";
  broker.port = proxy.port();
  Stack::Options options = chain.options();
  options.environment["WORKER_IN_FLIGHT"] = "4";
  options.workers = 0;
  Stack stack(options);
  stack.start_worker({{"AMQP_URL", text_of(broker)}});
  const auto count = [&](const char* where) {
    return stack.database().number(
        store::Sql::trusted(std::string("SELECT COUNT(*) FROM tasks WHERE ") + where));
  };
  if (!GetParam()) {
    proxy.refuse();
    proxy.cut_all();
  }
  std::vector<std::string> hanging;
  for (int user = 0; user < 6; ++user) {
    const Account account = stack.account(100'000);
    for (int i = 0; i < 6; ++i) {
      hanging.push_back(stack.create(account, wav_body("hang", R"(,"voice":"aria")")).text("id"));
    }
  }
  ASSERT_TRUE(first.wait_until([&] { return first.call_count() == 2; }));
  const Account ann = stack.account(100'000);
  for (int i = 0; i < 10; ++i) {
    const std::string id = stack.create(ann, wav_body("go", R"(,"voice":"atlas")")).text("id");
    EXPECT_EQ(stack.wait_final(ann, id).text("status"), "succeeded");
  }
  EXPECT_EQ(first.call_count(), 2U);
  EXPECT_LE(count("state=2"), 3) << "two slots, and one that may wait";
  EXPECT_EQ(count("state=1 AND (epoch>0 OR claims>0)"), 0) << "what waits is left as it is";

  // Once it works, all come to their turn.
  open.store(true);
  for (const std::string& id : hanging) {
    store::Sql called("SELECT COUNT(*) FROM attempts WHERE state=1 AND task_id=");
    if (stack.database().number(called << TaskId::parse(id).value()) == 1) {
      // Those two, and the one that waits for their slots, unless it has ended by then.
      static_cast<void>(stack.admin_raw({"task", "cancel", id}));
    }
  }
  EXPECT_TRUE(eventually(120s, [&] { return count("state IN (1,2)") == 0; }))
      << count("state=1") << " wait, " << count("state=2") << " are under way";
  EXPECT_EQ(count("state=4"), 0) << "none has failed";
}

INSTANTIATE_TEST_SUITE_P(Bulkhead, ManyForAHangingProvider, testing::Bool(), [](const auto& of) {
  return of.param ? "WithHints" : "WithoutABroker";
});

// Whoever waits a moment to ask it again had left its slot, so that another was claimed for that,
// until all places of the worker were taken by those who waited.
TEST(Bulkhead, AProviderThatSaysLaterTakesNoMoreOfTheWorker) {
  ProviderDouble first([](const DoubleCall&) {
    DoubleReply out = at(429, "rate_limit_exceeded");
    out.headers.emplace_back("Retry-After: 2");
    return out;
  });
  const ChainFile chain({openai_entry(kFirst, first, R"(,"max_in_flight":2)")});
  Stack stack(chain.options());
  const Account ann = stack.account(100'000);
  for (int i = 0; i < 30; ++i) {
    stack.create(ann, wav_body("x"));
  }
  std::int64_t most = 0;
  ASSERT_TRUE(eventually(60s, [&] {
    most = std::max(
        most, stack.database().number(store::Sql("SELECT COUNT(*) FROM tasks WHERE state=2")));
    return first.call_count() >= 9;
  }));
  EXPECT_LE(most, 4) << "two slots, and one in reserve";
}

// The last of sixteen was served after eight turns, while the next provider sat idle.
TEST(Bulkhead, WhatWaitsTooLongGoesToTheNext) {
  std::atomic<bool> open{false};
  ProviderDouble first(
      [&](const DoubleCall&) { return open.load() ? wav_reply(0.3) : on_the_wire(Form::kHang); });
  ProviderDouble second([](const DoubleCall&) { return wav_reply(0.3); });
  const ChainFile chain(
      {openai_entry(
           kFirst, first, R"(,"timeout_seconds":600,"max_in_flight":2,"queue_wait_seconds":1)"),
       openai_entry(kSecond, second)});
  Stack stack(chain.options());
  const Account ann = stack.account(100'000);
  for (int i = 0; i < 16; ++i) {
    stack.create(ann, wav_body("x"));
  }
  EXPECT_TRUE(second.wait_until([&] { return second.call_count() == 14; }, 60s))
      << second.call_count();
  EXPECT_EQ(first.call_count(), 2U);
  EXPECT_EQ(provider_state(stack, kFirst), "ready");
  EXPECT_TRUE(eventually(60s, [&] {
    return stack.database().number(store::Sql("SELECT COUNT(*) FROM tasks WHERE state=3")) == 14;
  }));
}

// A call that waited for its turn seemed to have begun when its row was written.
TEST(Bulkhead, ACallStartsWhenItsTurnHasCome) {
  constexpr auto kTakes = 3000ms;
  std::atomic<Instant> first_came{local_now()};
  ProviderDouble provider([&](const DoubleCall& call) {
    DoubleReply out = wav_reply(0.3);
    if (call.number == 0) {
      first_came = local_now();
      out.delay = kTakes;
    }
    return out;
  });
  const ChainFile chain({openai_entry(kFirst, provider, R"(,"max_in_flight":1)")});
  Stack::Options options = chain.options();
  options.workers = 0;
  Stack stack(options);
  const Account ann = stack.account(100'000);
  std::vector<std::string> ids;
  for (int i = 0; i < 2; ++i) {
    ids.push_back(stack.create(ann, wav_body("x")).text("id"));
  }
  stack.start_worker();
  for (const std::string& id : ids) {
    EXPECT_EQ(stack.wait_final(ann, id).text("status"), "succeeded");
  }
  // The row of the second was written before half of the first call was over.
  EXPECT_EQ(
      stack.database().number(store::Sql("SELECT COUNT(*) FROM tasks WHERE attempt_started_at>=")
                              << first_came.load() + kTakes / 2),
      1);
}

// They went from one queue into the next, where they waited for as long again.
TEST(Bulkhead, WhatIsPassedOnGoesToWhoIsFree) {
  ProviderDouble first([](const DoubleCall&) { return on_the_wire(Form::kHang); });
  ProviderDouble second([](const DoubleCall&) { return on_the_wire(Form::kHang); });
  ProviderDouble third([](const DoubleCall&) { return wav_reply(0.3); });
  const auto full_after_one = [](const char* seconds) {
    return R"(,"timeout_seconds":600,"max_in_flight":1,"queue_wait_seconds":)" +
           std::string(seconds);
  };
  const ChainFile chain({openai_entry(kFirst, first, full_after_one("1")),
                         openai_entry(kSecond, second, full_after_one("300")),
                         openai_entry("gamma-upstream", third)});
  Stack stack(chain.options());
  const Account ann = stack.account(100'000);
  for (int i = 0; i < 6; ++i) {
    stack.create(ann, wav_body("x"));
  }
  EXPECT_TRUE(third.wait_until([&] { return third.call_count() == 4; }, 60s)) << third.call_count();
  EXPECT_EQ(first.call_count(), 1U);
  EXPECT_EQ(second.call_count(), 1U);
}

// Two that were passed on at once both saw the same free slot; one of them then waited there.
TEST(Bulkhead, WhatIsPassedOnTogetherDoesNotWaitForTheSameSlot) {
  ProviderDouble first([](const DoubleCall&) { return on_the_wire(Form::kHang); });
  ProviderDouble second([](const DoubleCall&) { return on_the_wire(Form::kHang); });
  ProviderDouble third([](const DoubleCall&) { return wav_reply(0.3); });
  const ChainFile chain(
      {openai_entry(
           kFirst, first, R"(,"timeout_seconds":600,"max_in_flight":1,"queue_wait_seconds":15)"),
       openai_entry(kSecond, second, R"(,"timeout_seconds":600,"max_in_flight":1)"),
       openai_entry("gamma-upstream", third)});
  Stack stack(chain.options());
  const Account ann = stack.account(100'000);
  stack.create(ann, wav_body("x"));
  ASSERT_TRUE(first.wait_until([&] { return first.call_count() == 1; }));
  for (int i = 0; i < 2; ++i) {
    stack.create(ann, wav_body("x"));
  }
  const auto waiting = [&](const char* count) {
    return eventually(60s, [&] {
      return http("GET", stack.worker_ops_url(0) + "/metrics")
                 .body.find(R"(provider_waiting{provider="alpha-upstream"} )" +
                            std::string(count)) != std::string::npos;
    });
  };
  ASSERT_TRUE(waiting("2"));
  {
    // The row of his next call is written by nobody before both have been passed on.
    store::Session holder(stack.database().url(), {.idle_in_transaction_max = 600s});
    holder.execute(store::Sql("BEGIN"));
    (void)holder.query(store::Sql("SELECT id FROM tasks FOR UPDATE"));
    ASSERT_TRUE(waiting("0"));
  }
  EXPECT_TRUE(third.wait_until([&] { return third.call_count() == 1; }, 60s));
  EXPECT_EQ(first.call_count(), 1U);
  EXPECT_EQ(second.call_count(), 1U);
}

// Each worker kept to the limit by itself, so an account had as many times more calls as there were
// workers.
TEST(Bulkhead, AnAccountsLimitHoldsForAllWorkersTogether) {
  constexpr std::size_t kLimit = 6;
  constexpr auto kTakes = 1500ms;
  Mutex mutex;
  std::vector<std::chrono::steady_clock::time_point> came;
  ProviderDouble provider([&](const DoubleCall&) {
    const MutexLock lock(mutex);
    came.push_back(std::chrono::steady_clock::now());
    DoubleReply out = wav_reply(0.3);
    out.delay = kTakes;
    return out;
  });
  // The most calls of those from `first` on that were under way at once: whatever comes within so
  // long of another finds that one there.
  const auto most = [&](std::size_t first) {
    const MutexLock lock(mutex);
    std::size_t out = 0;
    for (std::size_t from = first, to = first; to < came.size(); ++to) {
      while (came[to] - came[from] >= kTakes) {
        ++from;
      }
      out = std::max(out, to - from + 1);
    }
    return out;
  };
  const std::string account = R"(,"account":"shared","account_max_in_flight":)";
  // Two entries of it, which differ in their voices.
  const ChainFile chain(
      {openai_entry(kFirst, provider, account + std::to_string(kLimit), R"({"aria":"coral"})"),
       openai_entry(kSecond, provider, account + std::to_string(kLimit), R"({"atlas":"onyx"})")});
  Stack::Options options = chain.options();
  options.workers = 2;
  Stack stack(options);
  const Account ann = stack.account(100'000);
  const auto serve = [&](int count) {
    std::vector<std::string> ids;
    for (int i = 0; i < count; ++i) {
      const char* voice = i % 2 == 0 ? R"(,"voice":"aria")" : R"(,"voice":"atlas")";
      ids.push_back(stack.create(ann, wav_body("x", voice)).text("id"));
    }
    for (const std::string& id : ids) {
      EXPECT_EQ(stack.wait_final(ann, id).text("status"), "succeeded");
    }
  };
  serve(40);
  EXPECT_LE(most(0), kLimit);
  EXPECT_EQ(provider.call_count(), 40U);
  // Whoever leaves gives back what he has.
  stack.worker(1).signal(SIGTERM);
  EXPECT_EQ(stack.worker(1).wait(60s), 0);
  serve(20);
  EXPECT_LE(most(40), kLimit);
  EXPECT_EQ(provider.call_count(), 60U);
  stack.database().expect_invariants();
}

TEST(Reload, SwapsTheChainUnderLoadAndRefusesABadFile) {
  ProviderDouble first([](const DoubleCall&) {
    DoubleReply out = wav_reply(0.3);
    out.delay = 200ms;
    return out;
  });
  ProviderDouble second([](const DoubleCall&) { return wav_reply(0.3); });
  const ChainFile chain({openai_entry(kFirst, first, R"(,"max_in_flight":2)")});
  Stack stack(chain.options());
  const Account ann = stack.account(100'000);
  const auto logged = [&](const std::string& text) {
    return eventually(60s, [&] { return stack.worker(0).log().find(text) != std::string::npos; });
  };
  std::vector<std::string> ids;
  const auto create = [&](int count) {
    for (int i = 0; i < count; ++i) {
      ids.push_back(stack.create(ann, wav_body("x")).text("id"));
    }
  };
  create(30);
  ASSERT_TRUE(first.wait_until([&] { return first.call_count() > 0; }));
  chain.write({openai_entry(kSecond, second)});
  stack.worker(0).signal(SIGHUP);
  ASSERT_TRUE(logged("providers reloaded"));
  const std::size_t before = second.call_count();
  create(30);
  for (const std::string& id : ids) {
    EXPECT_EQ(stack.wait_final(ann, id).text("status"), "succeeded");
    // Tasks keep the chain they began with. One that was claimed for a provider just taken away has
    // that in its story, without a call.
    EXPECT_THAT(calls_of(stack, id),
                AnyOf(ElementsAre(HasSubstr("succeeded")),
                      ElementsAre("alpha-upstream failed", "beta-upstream succeeded")));
  }
  EXPECT_GE(second.call_count(), before + 30);
  EXPECT_EQ(first.call_count() + second.call_count(), 60U);

  chain.write({R"({"name":"a b","kind":"openai","model":"m","voices":{"nobody":"x"}})",
               R"({"name":"c","kind":"nonsense"})",
               R"({"name":"d","kind":"fal","api_key_env":"NO_SUCH_KEY","surplus":1})"});
  stack.worker(0).signal(SIGHUP);
  ASSERT_TRUE(logged("providers not reloaded"));
  for (const char* error : {"providers[0]",
                            "unknown voice",
                            "providers[1]",
                            "kind",
                            "providers[2]",
                            "NO_SUCH_KEY",
                            "surplus",
                            "model"}) {
    EXPECT_THAT(stack.worker(0).log(), HasSubstr(error));
  }
  chain.write_text("{");
  stack.worker(0).signal(SIGHUP);
  EXPECT_TRUE(logged("not JSON"));
  ids.clear();
  create(1);
  EXPECT_EQ(stack.wait_final(ann, ids[0]).text("status"), "succeeded");
  EXPECT_THAT(calls_of(stack, ids[0]), ElementsAre("beta-upstream succeeded"));
  stack.database().expect_invariants();
}

// fal's queue as a double plays it: a job is done at the second look (but for one prompt), and its
// file is where `file_of` says for its prompt.
constexpr const char* kForEver = "for ever";
class FalDouble {
 public:
  using FileOf = std::function<std::string(const std::string& base, const std::string& prompt)>;

  // `host`: the name under which the worker is told to find it.
  FalDouble(std::string host, FileOf file_of)
      : host_(std::move(host)),
        file_of_(std::move(file_of)),
        server_([this](const DoubleCall& call) { return answer(call); }) {
    base_ = "http://" + host_ + ":" + std::to_string(server_.port());
  }

  std::string entry(std::string_view more) const {
    return R"({"name":"alpha-upstream","kind":"fal","base_url":")" + base_ +
           R"(","api_key_env":"PROVIDER_KEY","model":"owner/app")" + std::string(more) + "}";
  }
  ProviderDouble& server() { return server_; }

 private:
  DoubleReply answer(const DoubleCall& call) {
    DoubleReply out{.headers = {"Content-Type: application/json"}};
    const auto number = [&] { return std::stoul(call.target.substr(call.target.rfind('/') + 1)); };
    if (call.method == "POST") {
      const std::string job = std::to_string(prompts_.size());
      prompts_.push_back(member_of(call, "prompt"));
      looks_.push_back(0);
      out.body = R"({"request_id":"r","status":"IN_QUEUE","status_url":")" + base_ + "/status/" +
                 job + R"(","response_url":")" + base_ + "/result/" + job + R"(","cancel_url":")" +
                 base_ + "/cancel/" + job + R"("})";
    } else if (call.target.starts_with("/status/")) {
      const bool waits = looks_.at(number())++ == 0 || prompts_.at(number()) == kForEver;
      out.body =
          waits ? R"({"status":"IN_QUEUE","queue_position":1})" : R"({"status":"COMPLETED"})";
    } else if (call.target.starts_with("/result/")) {
      out.headers.emplace_back("X-Fal-Billable-Units: 2.5");
      out.body = R"({"audio":{"url":")" + file_of_(base_, prompts_.at(number())) + R"("}})";
    } else {
      out = wav_reply(9.5);
    }
    return out;
  }

  const std::string host_;
  const FileOf file_of_;
  std::string base_;
  std::vector<std::string> prompts_;  // Used on the double's thread only, like looks_.
  std::vector<int> looks_;
  ProviderDouble server_;
};

TEST(Polled, FromSubmissionToTheClientsFile) {
  FalDouble fal("127.0.0.1",
                [](const std::string& base, const std::string&) { return base + "/file"; });
  const ChainFile chain({fal.entry("")});
  Stack stack(chain.options());
  const Account ann = stack.account(1000);
  const std::string id = stack.create(ann, wav_body("rain on a roof")).text("id");
  const Reply done = stack.wait_final(ann, id);
  ASSERT_EQ(done.text("status"), "succeeded") << done.body;
  EXPECT_EQ(done.text("output.duration_seconds"), "9.5");
  EXPECT_EQ(done.text("usage.credits"), "11.875");
  EXPECT_EQ(http("GET", done.text("output.url")).body.size(), 44U + 9500 * 24 * 2);
  EXPECT_THAT(calls_of(stack, id), ElementsAre("alpha-upstream succeeded"));
  // What it says it bills is told, though nobody has said what that costs.
  const auto told = stack.admin({"providers"});
  EXPECT_STREQ(told["days"][0]["units"].GetString(), "2.5 billable_unit");
  EXPECT_EQ(told["days"][0]["calls_of_unknown_cost"].GetInt(), 1);
  for (const DoubleCall& call : fal.server().calls()) {
    EXPECT_EQ(call.header("authorization"),
              call.target == "/file" ? "" : "Key " + std::string(kProviderKey));
  }
  stack.database().expect_invariants();
}

// Nothing tells the worker but its next renewal.
TEST(Polled, WhatItsOwnerCancelsIsWithdrawnFromTheProvider) {
  FalDouble fal("127.0.0.1",
                [](const std::string& base, const std::string&) { return base + "/file"; });
  const ChainFile chain({fal.entry("")});
  Stack stack(chain.options());
  const Account ann = stack.account(1000);
  const std::string id = stack.create(ann, wav_body(kForEver)).text("id");
  ASSERT_TRUE(fal.server().wait_until([&] { return fal.server().call_count() > 1; }));
  const Reply canceled = stack.judged(
      "POST",
      "/audio/generations/{task_id}/cancel",
      http("POST", stack.base() + "/audio/generations/" + id + "/cancel", Stack::bearer(ann.key)));
  EXPECT_EQ(canceled.text("status"), "canceled");
  const auto withdrawn = [&] {
    const auto calls = fal.server().calls();
    return std::any_of(calls.begin(), calls.end(), [](const DoubleCall& call) {
      return call.method == "PUT" && call.target == "/cancel/0";
    });
  };
  EXPECT_TRUE(fal.server().wait_until(withdrawn));
  EXPECT_EQ(stack.get(ann, id).body, canceled.body);
  EXPECT_THAT(calls_of(stack, id), ElementsAre("alpha-upstream unknown outcome"));
  EXPECT_EQ(credits_of(stack, ann, "available_credits"), 1000);
  stack.database().expect_invariants();
}

// Every spelling of an address that is not public, where `port` is that of a listener on this
// machine.
std::vector<std::string> forbidden_addresses(const std::string& port) {
  std::vector<std::string> out;
  for (const char* host : {"127.0.0.1",
                           "127.1",
                           "2130706433",
                           "0x7f.1",
                           "0x7f000001",
                           "0177.0.0.1",
                           "127.0.0.1.",
                           "127.9.9.9",
                           "0.0.0.0",
                           "0",
                           "localhost",
                           "LOCALHOST",
                           "a.localhost",
                           "%31%32%37.0.0.1",
                           "①②⑦.⓪.⓪.①",
                           "user@127.0.0.1",
                           "user:password@127.0.0.1",
                           "[::1]",
                           "[::]",
                           "[::ffff:127.0.0.1]",
                           "[::ffff:7f00:1]",
                           "[::127.0.0.1]",
                           "[64:ff9b::7f00:1]",
                           "[2002:7f00:1::1]",
                           "[fe80::1]",
                           "[fd00::1]",
                           "10.0.0.1",
                           "100.64.0.1",
                           "169.254.169.254",
                           "2852039166",
                           "0xA9FEA9FE",
                           "172.16.0.1",
                           "192.168.0.1",
                           "224.0.0.1"}) {
    out.push_back("http://" + std::string(host) + ":" + port + "/file");
  }
  for (const char* scheme : {"file", "gopher", "ftp", "dict", "ldap", "telnet", "tftp"}) {
    out.push_back(std::string(scheme) + "://127.0.0.1:" + port + "/etc/passwd");
  }
  out.push_back("HTTP://127.0.0.1:" + port + "/file");
  out.push_back("//127.0.0.1:" + port + "/file");
  out.push_back("127.0.0.1:" + port + "/file");
  out.push_back("http:127.0.0.1:" + port + "/file");
  out.push_back("http://127.0.0.1:" + port + "#@a.example/file");
  out.push_back("http://a.example\\\\@127.0.0.1:" + port + "/file");
  return out;
}

TEST(Ssrf, ResultsOnThisMachineAreNotFetchedAndTheNextProviderServes) {
  Canary canary;
  const std::vector<std::string> addresses = forbidden_addresses(canary.port());
  // Under a name, so that the provider does not count as one in the house, whose results may be.
  FalDouble fal("provider.localhost", [&](const std::string&, const std::string& prompt) {
    return prompt == "good" ? "data:audio/wav;base64," + encode_base64(tone_wav(0.3))
                            : addresses.at(std::stoul(prompt));
  });
  ProviderDouble second([](const DoubleCall&) { return wav_reply(0.3); });
  const ChainFile chain({fal.entry(R"(,"timeout_seconds":6)"), openai_entry(kSecond, second)});
  Stack stack(chain.options());
  const Account ann = stack.account(100'000);
  const auto run = [&](const std::vector<std::string>& prompts) {
    std::vector<std::string> ids;
    for (const std::string& prompt : prompts) {
      ids.push_back(stack.create(ann, wav_body(prompt)).text("id"));
    }
    for (const std::string& id : ids) {
      EXPECT_EQ(stack.wait_final(ann, id).text("status"), "succeeded");
    }
    return ids;
  };
  // So many good ones beside each that the breaker stays closed, however slow this machine is.
  constexpr std::size_t kGood = 3;
  std::vector<std::string> prompts(kGood, "good");
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    prompts.push_back(std::to_string(i));
    prompts.insert(prompts.end(), kGood, "good");
  }
  const auto ids = run(prompts);
  EXPECT_THAT(calls_of(stack, ids[0]), ElementsAre("alpha-upstream succeeded"));
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const auto story = calls_of(stack, ids[kGood + i * (kGood + 1)]);
    ASSERT_EQ(story.size(), 2U) << addresses[i];
    EXPECT_THAT(story[0], AnyOf("alpha-upstream failed", "alpha-upstream unknown outcome"));
    EXPECT_EQ(story[1], "beta-upstream succeeded");
  }
  EXPECT_EQ(canary.connections(), 0);
  stack.database().expect_invariants();

  // The canary would have sung: where an operator allows it, the same address is fetched.
  chain.write({fal.entry(R"(,"timeout_seconds":6,"options":{"result_address":"any"})"),
               openai_entry(kSecond, second)});
  stack.worker(0).signal(SIGHUP);
  ASSERT_TRUE(eventually(
      60s, [&] { return stack.worker(0).log().find("providers reloaded") != std::string::npos; }));
  run({"0"});
  EXPECT_GT(canary.connections(), 0);
}

// The world can reach it, but no machine of an operator who says so. Whatever goes out goes by the
// proxy, which therefore sees what is asked for.
TEST(Ssrf, ResultsOnWhatTheOperatorDeniesAreNotFetched) {
  FalDouble fal("provider.localhost",
                [](const std::string&, const std::string&) { return "http://8.8.8.8/a.wav"; });
  ProviderDouble second([](const DoubleCall&) { return wav_reply(0.3); });
  const ChainFile chain({fal.entry(R"(,"timeout_seconds":6)"), openai_entry(kSecond, second)});
  for (const bool denied : {false, true}) {
    const ConnectProxy proxy;
    Stack::Options options = chain.options();
    options.environment["EGRESS_PROXY"] = proxy.url();
    options.environment["URL_DENY"] = denied ? "8.8.8.0/24" : "";
    Stack stack(options);
    const Account ann = stack.account(1000);
    const std::string id = stack.create(ann, wav_body("rain")).text("id");
    EXPECT_EQ(stack.wait_final(ann, id).text("status"), "succeeded");
    EXPECT_EQ(calls_of(stack, id).back(), "beta-upstream succeeded");
    EXPECT_EQ(proxy.heads().empty(), denied);
  }
}

}  // namespace
}  // namespace audiogen::test
