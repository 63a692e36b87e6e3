// The HTTP client over real sockets: many calls on one thread, what a failure says about the other
// side, where it may connect.
#include "common/http/client.h"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "common/base/process.h"
#include "common/base/unique_fd.h"
#include "common/http/egress.h"
#include "tests/provider/fixture.h"
#include "tests/provider/silent_listener.h"
#include "tests/support/closed_port.h"
#include "tests/support/connect_proxy.h"
#include "tests/support/provider_double.h"
#include "tests/support/wait.h"

namespace audiogen::test {
namespace {

using http::ClientFault;

using Answer = Result<http::ClientResponse, http::ClientError>;

// What must run out, and a busy machine still connects and sends in.
constexpr std::chrono::milliseconds kShort = 5s;

struct Exchange {
  std::shared_ptr<http::ClientCall> call;
  std::shared_future<Answer> answer;

  Answer wait() const {
    if (answer.wait_for(kPatience) != std::future_status::ready) {
      return http::ClientError{ClientFault::kCanceled, "the test lost patience"};
    }
    return answer.get();
  }
};

Exchange send(http::Client& client, http::ClientRequest request) {
  auto promise = std::make_shared<std::promise<Answer>>();
  Exchange out;
  out.answer = promise->get_future().share();
  out.call = client.start(std::move(request),
                          [promise](Answer answer) { promise->set_value(std::move(answer)); });
  return out;
}

http::ClientRequest get(const std::string& url) {
  http::ClientRequest out;
  out.url = url;
  out.connect_timeout = out.total_timeout = 60s;
  return out;
}

http::ClientRequest post(const std::string& url) {
  http::ClientRequest out = get(url);
  out.method = "POST";
  out.body = "body";
  return out;
}

ProviderDouble::Script always(DoubleReply reply) {
  return [reply = std::move(reply)](const DoubleCall&) { return reply; };
}

std::string fault_text(const Answer& answer) {
  if (answer) {
    return "status " + std::to_string(answer->status);
  }
  switch (answer.error().fault) {
    case ClientFault::kNotSent:
      return "not sent";
    case ClientFault::kUnknown:
      return "unknown";
    case ClientFault::kTooLarge:
      return "too large";
    case ClientFault::kForbidden:
      return "forbidden";
    case ClientFault::kCanceled:
      return "canceled";
  }
  return "";
}

std::size_t threads_of_process() {
  return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator("/proc/self/task"),
                    std::filesystem::directory_iterator()));
}

std::size_t resident_kib() {
  std::ifstream in("/proc/self/statm");
  std::size_t total = 0;
  std::size_t resident = 0;
  in >> total >> resident;
  return resident * 4;
}

TEST(Client, AnswersWithStatusHeadersAndBody) {
  ProviderDouble server(always({.status = 201, .headers = {"X-One: a b "}, .body = "hello"}));
  http::Client client;
  const Answer answer = send(client, post(server.url() + "/p?q=1")).wait();
  ASSERT_TRUE(answer) << answer.error().detail;
  EXPECT_EQ(answer->status, 201);
  EXPECT_EQ(answer->header("x-one"), "a b");
  EXPECT_EQ(answer->body, "hello");
  ASSERT_EQ(server.call_count(), 1U);
  EXPECT_EQ(server.calls()[0].method, "POST");
  EXPECT_EQ(server.calls()[0].target, "/p?q=1");
  EXPECT_EQ(server.calls()[0].body, "body");
}

// Whoever refuses says why in some words. More is not read, and not kept.
TEST(Client, OfARefusalTheBeginningIsEnough) {
  ProviderDouble server(always({.status = 500, .body = std::string(8'000'000, 'x')}));
  http::Client client;
  http::ClientRequest request = post(server.url());
  request.refusal_max = 100'000;
  const Answer answer = send(client, std::move(request)).wait();
  ASSERT_TRUE(answer) << answer.error().detail;
  EXPECT_EQ(answer->status, 500);
  EXPECT_LE(answer->body.size(), 100'000U);
  EXPECT_TRUE(send(client, post(server.url())).wait()) << "on another connection";
}

TEST(Client, KeepsConnections) {
  ProviderDouble server(always({.body = "x"}));
  http::Client client;
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(send(client, post(server.url())).wait());
  }
  EXPECT_EQ(server.connections(), 1U);
}

// Before the client's thread starts.
TEST(Client, AProxyOfTheEnvironmentIsNotUsed) {
  ProviderDouble server(always({.body = "x"}));
  for (const char* name : {"http_proxy", "https_proxy", "all_proxy", "ALL_PROXY"}) {
    ASSERT_EQ(setenv(name, "http://127.0.0.1:9", 1), 0);  // Nobody listens there.
  }
  {
    http::Client client;
    EXPECT_EQ(fault_text(send(client, get(server.url())).wait()), "status 200");
  }
  for (const char* name : {"http_proxy", "https_proxy", "all_proxy", "ALL_PROXY"}) {
    unsetenv(name);
  }
}

TEST(Client, RedirectsAreAnswersNotFollowed) {
  ProviderDouble canary(always({.body = "private"}));
  ProviderDouble server(always({.status = 302, .headers = {"Location: " + canary.url() + "/"}}));
  http::Client client;
  const Answer answer = send(client, get(server.url())).wait();
  EXPECT_EQ(fault_text(answer), "status 302");
  EXPECT_EQ(canary.connections(), 0U);
}

TEST(Client, SaysWhetherItCouldHaveBeenReceived) {
  const ClosedPort closed;
  http::Client client;
  EXPECT_EQ(fault_text(send(client, get(closed.url())).wait()), "not sent");
  EXPECT_EQ(fault_text(send(client, get("http://no-such-host.invalid/")).wait()), "not sent");

  for (const Form form : {Form::kReset,
                          Form::kClose,
                          Form::kTruncated,
                          Form::kTruncatedReset,
                          Form::kCutChunked,
                          Form::kGarbage}) {
    ProviderDouble server(always({.body = "some body", .form = form}));
    EXPECT_EQ(fault_text(send(client, post(server.url())).wait()), "unknown")
        << static_cast<int>(form);
    EXPECT_EQ(server.call_count(), 1U) << static_cast<int>(form);
  }
}

// All at once: each of them takes the whole time.
TEST(Client, DeadlinesHold) {
  const std::vector<Form> forms = {Form::kHang, Form::kDrip, Form::kLongLength};
  ProviderDouble server([&](const DoubleCall& call) {
    return DoubleReply{.body = std::string(1000, 'x'), .form = forms[call.number % forms.size()]};
  });
  http::Client client;
  const auto before = std::chrono::steady_clock::now();
  std::vector<Exchange> exchanges;
  for (std::size_t i = 0; i < forms.size(); ++i) {
    auto request = post(server.url());
    request.total_timeout = kShort;
    exchanges.push_back(send(client, std::move(request)));
  }
  for (const Exchange& exchange : exchanges) {
    EXPECT_EQ(fault_text(exchange.wait()), "unknown");
    EXPECT_GE(std::chrono::steady_clock::now() - before, kShort - 10ms);
  }
  EXPECT_EQ(server.call_count(), forms.size());
  EXPECT_TRUE(server.wait_until([&] { return server.open_connections() == 0; }));
}

TEST(Client, CapsBodiesAndHeadersWhileTheyStream) {
  http::Client client;
  for (const Form form : {Form::kEndless, Form::kEndlessHead}) {
    ProviderDouble server(always({.form = form}));
    auto request = get(server.url());
    request.body_max = 1'000'000;
    EXPECT_EQ(fault_text(send(client, request).wait()), "too large") << static_cast<int>(form);
    EXPECT_TRUE(server.wait_until([&] { return server.open_connections() == 0; }));
  }
}

TEST(Client, ABodyLongerThanItsLengthIsCutAndItsConnectionDropped) {
  ProviderDouble server(always({.body = "12345678", .form = Form::kShortLength}));
  http::Client client;
  for (int i = 0; i < 3; ++i) {
    const Answer answer = send(client, get(server.url())).wait();
    // The surplus must never become the start of another answer.
    if (answer) {
      EXPECT_EQ(answer->body, "1234");
    }
  }
}

// A server that takes a request on a kept connection and closes without a word may have acted.
TEST(Client, NeverSendsAPostTwice) {
  std::atomic<int> served{0};
  ProviderDouble server([&](const DoubleCall&) {
    return DoubleReply{.body = "x", .form = served.fetch_add(1) == 0 ? Form::kWhole : Form::kClose};
  });
  http::Client client;
  ASSERT_TRUE(send(client, post(server.url())).wait());
  EXPECT_EQ(fault_text(send(client, post(server.url())).wait()), "unknown");
  EXPECT_EQ(server.call_count(), 2U);
}

// What a server sends beyond an answer must never become the answer to somebody else's request.
TEST(Client, LeftoversOfAnAnswerAreNotTheNextAnswer) {
  const std::string forged = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged";
  const std::string announced(100'000, 'x');  // The first half; libcurl reads no further.
  const ProviderDouble server([&](const DoubleCall& call) {
    DoubleReply reply{.body = "honest"};
    if (call.target == "/long") {
      reply.body = announced + forged + std::string(announced.size() - forged.size(), ' ');
      reply.form = DoubleReply::Form::kShortLength;
    }
    return reply;
  });
  http::Client client;
  for (int i = 0; i < 20; ++i) {
    const auto first = send(client, get(server.url() + "/long")).wait();
    ASSERT_TRUE(first) << fault_text(first);
    EXPECT_EQ(first->body, announced);
    const auto next = send(client, i % 2 == 0 ? get(server.url()) : post(server.url())).wait();
    ASSERT_TRUE(next) << fault_text(next);
    EXPECT_EQ(next->body, "honest");
  }
  EXPECT_EQ(server.call_count(), 40U) << "each request left once";
}

TEST(Client, CancelEndsTheCallAndItsConnection) {
  ProviderDouble server(always({.form = Form::kHang}));
  http::Client client;
  const Exchange exchange = send(client, post(server.url()));
  ASSERT_TRUE(server.wait_until([&] { return server.call_count() == 1; }));
  exchange.call->cancel();
  EXPECT_EQ(fault_text(exchange.wait()), "canceled");
  EXPECT_TRUE(server.wait_until([&] { return server.open_connections() == 0; }));
  exchange.call->cancel();
  EXPECT_EQ(client.in_flight(), 0U);
}

TEST(Client, DestructionAnswersEverything) {
  ProviderDouble server(always({.form = Form::kHang}));
  auto client = std::make_unique<http::Client>();
  std::vector<Exchange> exchanges;
  exchanges.reserve(50);
  for (int i = 0; i < 50; ++i) {
    exchanges.push_back(send(*client, post(server.url())));
  }
  // A reply that starts another call, as one that asks again would.
  std::atomic<int> answered{0};
  http::Client* const again = client.get();
  client->start(post(server.url()), [&](const Answer&) {
    ++answered;
    again->start(post(server.url()), [&](const Answer&) { ++answered; });
  });
  client.reset();
  for (const Exchange& exchange : exchanges) {
    EXPECT_EQ(fault_text(exchange.wait()), "canceled");
    exchange.call->cancel();
  }
  EXPECT_EQ(answered.load(), 2);
}

// Answers that come all at once are taken one after the other when the first is still in use, and
// the time they wait is not theirs. At most `at_once` are in use together.
void expect_that_bodies_wait(Form form, std::size_t at_once) {
  constexpr std::size_t kCalls = 6, kBody = 600'000;
  constexpr auto kTimeout = 10s;  // Much more than a body needs, on a busy machine too.
  ProviderDouble server(always({.body = std::string(kBody, 'x'), .form = form}));
  std::mutex mutex;
  std::vector<std::shared_ptr<void>> in_use;
  std::size_t most = 0, good = 0;
  http::Client client({.bodies_max = 1'000'000});
  std::promise<void> held;
  client.after(kTimeout + 2s, [&] { held.set_value(); });
  for (std::size_t i = 0; i < kCalls; ++i) {
    auto request = get(server.url());
    request.total_timeout = kTimeout;
    client.start(std::move(request), [&](const Answer& answer) {
      const std::scoped_lock lock(mutex);
      in_use.push_back(client.keep(kBody));
      most = std::max(most, in_use.size());
      good += answer && answer->body.size() == kBody ? 1U : 0U;
    });
  }
  held.get_future().wait();
  std::size_t used = 0;
  EXPECT_TRUE(eventually(60s, [&] {
    const std::scoped_lock lock(mutex);
    used += in_use.size();
    in_use.clear();
    return used == kCalls;
  }));
  EXPECT_EQ(good, kCalls);
  EXPECT_LE(most, at_once);
}

// They count as they come, and wait half-way. One of them goes on whatever else is being read, so
// it may end right after another that has come whole: there is one body above the bound.
TEST(Client, BodiesWaitForThoseInUse) {
  expect_that_bodies_wait(Form::kWhole, 2);
}

TEST(Client, BodiesWithoutALengthWaitForThoseInUse) {
  expect_that_bodies_wait(Form::kChunked, 2);
}

// A server that announces much and sends little holds up nobody but itself.
TEST(Client, OneOriginsBodiesDoNotWaitForAnothersServer) {
  ProviderDouble slow(
      always({.body = std::string(1'000, 'x'), .form = Form::kLongLength, .missing = 899'000}));
  ProviderDouble good(always({.body = std::string(500'000, 'x')}));
  http::Client client({.bodies_max = 1'000'000});
  auto hanging = get(slow.url());
  hanging.total_timeout = 10min;
  const Exchange first = send(client, hanging), second = send(client, hanging);
  ASSERT_TRUE(slow.wait_until([&] { return slow.call_count() == 2; }));
  std::vector<Exchange> others;
  for (int i = 0; i < 10; ++i) {
    others.push_back(send(client, get(good.url())));
  }
  for (const Exchange& one : others) {
    EXPECT_EQ(fault_text(one.wait()), "status 200");
  }
  EXPECT_EQ(client.in_flight(), 2U);
  first.call->cancel();
  second.call->cancel();
  EXPECT_EQ(fault_text(second.wait()), "canceled");
}

// Nor others of its own origin: what it has announced is not here yet.
TEST(Client, WhoAnnouncesMuchAndSendsLittleKeepsNobodyWaiting) {
  ProviderDouble server([](const DoubleCall& call) {
    return call.target == "/slow" ? DoubleReply{.body = std::string(1'000, 'x'),
                                                .form = Form::kLongLength,
                                                .missing = 899'000}
                                  // All of them together are begun before there is no more room.
                                  : DoubleReply{.body = std::string(500'000, 'x'),
                                                .form = Form::kDrip,
                                                .drip_every = 1ms,
                                                .drip_bytes = 50'000};
  });
  http::Client client({.bodies_max = 1'000'000});
  std::vector<Exchange> hanging, others;
  for (int i = 0; i < 3; ++i) {
    auto request = get(server.url() + "/slow");
    request.total_timeout = 10min;
    hanging.push_back(send(client, std::move(request)));
  }
  ASSERT_TRUE(server.wait_until([&] { return server.call_count() == 3; }));
  for (int i = 0; i < 10; ++i) {
    others.push_back(send(client, get(server.url())));
  }
  for (const Exchange& one : others) {
    EXPECT_EQ(fault_text(one.wait()), "status 200");
  }
  EXPECT_EQ(client.in_flight(), 3U);
  for (const Exchange& one : hanging) {
    one.call->cancel();
    EXPECT_EQ(fault_text(one.wait()), "canceled");
  }
}

// The one that goes on whatever is read has to wait for what is kept, and must not be forgotten
// behind those that wait for it.
TEST(Client, NobodyIsForgottenHalfway) {
  ProviderDouble server([](const DoubleCall& call) {
    return DoubleReply{.body = std::string(600'000, 'x'),
                       .form = call.number % 2 == 0 ? Form::kChunked : Form::kWhole};
  });
  http::Client client({.bodies_max = 1'000'000});
  for (int round = 0; round < 5; ++round) {
    auto kept = client.keep(700'000);
    std::vector<Exchange> calls;
    for (int i = 0; i < 8; ++i) {
      calls.push_back(send(client, get(server.url())));
    }
    ASSERT_TRUE(server.wait_until(
        [&] { return server.call_count() == static_cast<std::size_t>(round) * 8 + 8; }));
    kept.reset();
    for (const Exchange& one : calls) {
      EXPECT_EQ(fault_text(one.wait()), "status 200");
    }
  }
}

// It only says how a job stands: there is room for it whatever else is kept. Whoever asked is told
// while a larger one waits.
TEST(Client, AShortAnswerWaitsForNobody) {
  ProviderDouble server([](const DoubleCall& call) {
    return DoubleReply{.body =
                           std::string(call.target == "/short" ? http::kAlwaysRead : 100'000, 'x')};
  });
  http::Client client({.bodies_max = 1});
  auto kept = client.keep(1);
  std::vector<bool> told;  // On the client's thread, until the answer is here.
  std::promise<void> waits;
  auto large = get(server.url() + "/large");
  large.on_unread = [&](bool now) {
    told.push_back(now);
    if (told.size() == 1) {
      waits.set_value();
    }
  };
  const Exchange waiting = send(client, std::move(large));
  ASSERT_EQ(waits.get_future().wait_for(kPatience), std::future_status::ready);
  EXPECT_EQ(fault_text(send(client, get(server.url() + "/short")).wait()), "status 200");
  EXPECT_EQ(client.in_flight(), 1U);
  kept.reset();
  EXPECT_EQ(fault_text(waiting.wait()), "status 200");
  EXPECT_EQ(told.size() % 2, 0U);
  EXPECT_TRUE(told.front());
  EXPECT_FALSE(told.back());
}

TEST(Client, ABodyThatWaitedHasADeadlineAndCanBeCanceled) {
  ProviderDouble server([](const DoubleCall& call) {
    return call.target == "/slow"
               ? DoubleReply{.body = std::string(100'000, 'x'), .form = Form::kDrip}
               : DoubleReply{.body = std::string(100'000, 'x')};
  });
  http::Client client({.bodies_max = 1});
  auto kept = client.keep(1);
  const Exchange canceled = send(client, get(server.url() + "/slow"));
  auto request = get(server.url() + "/slow");
  request.total_timeout = kShort;
  const Exchange late = send(client, std::move(request));
  const Exchange good = send(client, get(server.url()));
  ASSERT_TRUE(server.wait_until([&] { return server.call_count() == 3; }));
  canceled.call->cancel();
  EXPECT_EQ(fault_text(canceled.wait()), "canceled");
  kept.reset();
  EXPECT_EQ(fault_text(late.wait()), "unknown");
  EXPECT_EQ(fault_text(good.wait()), "status 200");
}

// What comes too slowly is cut off before its time.
TEST(Client, AServerThatIsTooSlowIsCutOff) {
  ProviderDouble server(always({.body = std::string(100, 'x'), .form = Form::kStalled}));
  http::Client client;
  auto request = get(server.url());
  request.total_timeout = 10min;
  request.slow_bytes = 1000;
  request.slow_for = 1s;
  EXPECT_EQ(fault_text(send(client, std::move(request)).wait()), "unknown");
}

TEST(Client, ATakerGetsTheBodyOfA200InPartsAndMayPause) {
  const std::string body(300'000, 'x');
  ProviderDouble server([&](const DoubleCall& call) {
    return DoubleReply{.status = call.target == "/no" ? 404 : 200, .body = body};
  });
  http::Client client;
  std::mutex mutex;
  std::string got;
  std::promise<void> paused;
  bool open = false;
  auto request = get(server.url());
  request.take_body = [&](std::string_view part) {
    const std::scoped_lock lock(mutex);
    if (!open && got.size() >= 50'000) {
      paused.set_value();
      open = true;  // The next time.
      return http::BodyPart::kLater;
    }
    got += part;
    return http::BodyPart::kTaken;
  };
  const Exchange exchange = send(client, request);
  ASSERT_EQ(paused.get_future().wait_for(kPatience), std::future_status::ready);
  EXPECT_EQ(client.in_flight(), 1U);
  exchange.call->go_on();
  const Answer answer = exchange.wait();
  ASSERT_EQ(fault_text(answer), "status 200");
  EXPECT_EQ(answer->body, "");
  EXPECT_EQ(got, body);

  request.url = server.url() + "/no";
  EXPECT_EQ(fault_text(send(client, request).wait()), "status 404");
  EXPECT_EQ(got, body) << "not of another answer";

  request.url = server.url();
  request.take_body = [](std::string_view) { return http::BodyPart::kRefused; };
  EXPECT_EQ(fault_text(send(client, request).wait()), "canceled");
  request.body_max = 1000;
  EXPECT_EQ(fault_text(send(client, request).wait()), "too large");
}

TEST(Client, AfterRunsOnItsThreadInTime) {
  http::Client client;
  std::promise<std::chrono::steady_clock::time_point> late;
  std::promise<void> soon;
  const auto before = std::chrono::steady_clock::now();
  client.after(120ms, [&] { late.set_value(std::chrono::steady_clock::now()); });
  client.after(0ms, [&] { soon.set_value(); });
  ASSERT_EQ(soon.get_future().wait_for(kPatience), std::future_status::ready);
  auto came = late.get_future();
  ASSERT_EQ(came.wait_for(kPatience), std::future_status::ready);
  EXPECT_GE(came.get() - before, 120ms);
  client.after(1h, [] { FAIL(); });
}

// The number of a connection that is given up while it is made may be another thread's at once: for
// the thread sanitizer.
TEST(Client, CallsEndWhileTheirConnectionsAreBeingMade) {
  const SilentListener silent("127.0.0.2");
  const std::string url = "http://127.0.0.2:" + std::to_string(silent.port()) + "/";
  http::Client client;
  auto patient = get(url);
  patient.connect_timeout = 50ms;
  ASSERT_EQ(fault_text(send(client, patient).wait()), "not sent") << "it is not silent";
  std::atomic<bool> done{false};
  std::thread neighbour([&] {
    while (!done) {
      const UniqueFd other(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    }
  });
  for (int i = 0; i < 500; ++i) {
    auto call = send(client, get(url));
    std::promise<void> begun;
    client.after(0ms, [&] { begun.set_value(); });
    begun.get_future().wait();
    call.call->cancel();
    EXPECT_EQ(fault_text(call.wait()), "canceled");
  }
  done = true;
  neighbour.join();
}

TEST(Client, PublicOnlyNeverConnectsElsewhere) {
  ProviderDouble canary(always({.body = "private"}));
  const std::string port = ":" + std::to_string(canary.port());
  http::Client client;
  // A kept connection must not become a way round the check.
  ASSERT_TRUE(send(client, get(canary.url())).wait());
  ASSERT_EQ(canary.connections(), 1U);
  for (const std::string host : {"127.0.0.1",
                                 "localhost",
                                 "[::1]",
                                 "[::ffff:127.0.0.1]",
                                 "169.254.169.254",
                                 "0.0.0.0",
                                 "0",
                                 "2130706433",
                                 "0x7f.1",
                                 "10.0.0.1",
                                 "192.168.1.1",
                                 "[fe80::1]",
                                 "[fd00::1]"}) {
    auto request = get("http://" + host + port + "/");
    request.reach = http::Reach::kPublicOnly;
    EXPECT_EQ(fault_text(send(client, request).wait()), "forbidden") << host;
  }
  for (const std::string url : {"file:///etc/passwd", "gopher://127.0.0.1/", "ftp://x/", "::"}) {
    EXPECT_EQ(fault_text(send(client, get(url)).wait()), "forbidden") << url;
  }
  EXPECT_EQ(canary.connections(), 1U);
  EXPECT_EQ(canary.call_count(), 1U);
}

TEST(Client, ThousandsOfCallsWaitOnOneThread) {
  constexpr std::size_t kCalls = 2'000, kOthers = 100;
  if (raise_descriptor_limit() < 2 * kCalls + kOthers) {
    GTEST_SKIP() << "this process may not open " << 2 * kCalls << " sockets (ulimit -Hn)";
  }
  // Long enough for all to have begun before the first of them is answered.
  ProviderDouble server([](const DoubleCall& call) {
    return DoubleReply{.body = "x", .delay = call.number == 0 ? 0s : 10s};
  });
  http::Client client;
  ASSERT_TRUE(send(client, get(server.url())).wait());
  const std::size_t threads = threads_of_process();
  const std::size_t before = resident_kib();
  std::atomic<std::size_t> good{0};
  std::atomic<std::size_t> ended{0};
  for (std::size_t i = 0; i < kCalls; ++i) {
    auto request = post(server.url());
    client.start(std::move(request), [&](const Answer& answer) {
      good.fetch_add(answer && answer->status == 200 ? 1 : 0);
      ended.fetch_add(1);
    });
  }
  ASSERT_TRUE(server.wait_until([&] { return server.open_connections() >= kCalls; }));
  EXPECT_EQ(threads_of_process(), threads);
  RecordProperty("kib_per_call", std::to_string((resident_kib() - before) / kCalls));
  std::printf("%zu calls in flight: %zu threads, %zu KiB each (with the double's part)\n",
              client.in_flight(),
              threads,
              (resident_kib() - before) / kCalls);
  EXPECT_LT(resident_kib() - before, kCalls * 256);
  ASSERT_TRUE(server.wait_until([&] { return ended.load() == kCalls; }));
  EXPECT_EQ(good.load(), kCalls);
}

TEST(Egress, NamesTheFetcher) {
  EXPECT_EQ(http::user_agent(""), "audiogen/" AUDIOGEN_VERSION);
  const GoingOut out({.user_agent = http::user_agent("ops@a.example")});
  ProviderDouble server(always({.body = "ok"}));
  http::Client client;
  EXPECT_EQ(fault_text(send(client, get(server.url())).wait()), "status 200");
  EXPECT_EQ(server.calls()[0].header("user-agent"),
            "audiogen/" AUDIOGEN_VERSION " (+ops@a.example)");
}

TEST(Egress, GoesByTheProxyButForWhatIsNear) {
  const ConnectProxy proxy;
  ProviderDouble near(always({.body = "ok"}));
  const std::string direct = "localhost,127.0.0.0/8,::1,169.254.0.0/16";
  {
    const GoingOut out({.proxy = proxy.url(), .direct = direct});
    http::Client client;
    EXPECT_EQ(fault_text(send(client, post("http://provider.example/v1")).wait()), "status 200");
    EXPECT_EQ(fault_text(send(client, get(near.url())).wait()), "status 200");
    EXPECT_EQ(near.call_count(), 1U);
  }
  ASSERT_EQ(proxy.heads().size(), 1U);
  EXPECT_THAT(proxy.heads()[0],
              testing::StartsWith("POST http://provider.example/v1 HTTP/1.1\r\n"));
  // Unless an operator says otherwise.
  const GoingOut out({.proxy = proxy.url()});
  http::Client client;
  EXPECT_EQ(fault_text(send(client, get(near.url())).wait()), "status 200");
  EXPECT_EQ(near.call_count(), 1U);
  EXPECT_EQ(proxy.heads().size(), 2U);
}

// The proxy stands in a private network, and would connect wherever a name leads it.
TEST(Egress, APublicAddressIsCheckedHereAndTheProxyGetsTheNumber) {
  const ConnectProxy proxy;
  const GoingOut out({.proxy = proxy.url()});
  http::Client client({.deny = {*IpNetwork::parse("9.9.9.0/24")}});
  const auto outcome_of = [&](const std::string& url) {
    auto request = get(url);
    request.reach = http::Reach::kPublicOnly;
    return fault_text(send(client, std::move(request)).wait());
  };
  for (const char* url : {"http://localhost/",
                          "http://127.0.0.1:1/",
                          "http://[::1]/",
                          "http://169.254.169.254/latest/meta-data",
                          "http://2130706433/",
                          "http://10.0.0.1/",
                          "http://9.9.9.9/"}) {
    EXPECT_EQ(outcome_of(url), "forbidden") << url;
  }
  EXPECT_TRUE(proxy.heads().empty());
  EXPECT_EQ(outcome_of("http://8.8.8.8:81/x"), "status 200");
  ASSERT_EQ(proxy.heads().size(), 2U);
  EXPECT_THAT(proxy.heads()[0], testing::StartsWith("CONNECT 8.8.8.8:81 HTTP/1.1\r\n"));
  EXPECT_THAT(proxy.heads()[1], testing::StartsWith("GET /x HTTP/1.1\r\nHost: 8.8.8.8:81\r\n"));
}

}  // namespace
}  // namespace audiogen::test
