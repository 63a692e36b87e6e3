// The publisher against a real broker.
#include "common/queue/publisher.h"

#include <ctime>

#include <gtest/gtest.h>

#include "common/base/metrics.h"
#include "tests/queue/collector.h"
#include "tests/support/tcp_proxy.h"
#include "tests/support/test_broker.h"

namespace audiogen::test {
namespace {

using namespace std::chrono_literals;
using queue::Publisher;
using queue::PublisherOptions;

double counter(const std::string& name) {
  return metrics::counter(name, "").Value();
}

double cpu_seconds() {
  timespec spent{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent);
  return static_cast<double>(spent.tv_sec) + static_cast<double>(spent.tv_nsec) * 1e-9;
}

struct Published {
  explicit Published(const AmqpUrl& url, PublisherOptions options)
      : publisher(url, std::move(options), [this](std::span<const Hint> hints) {
          confirmed.add(hints);
        }) {}
  Collector confirmed;
  Publisher publisher;
};

TEST(Publisher, EachLaneHasItsQueueAndTheConsumerKnowsByWhichAHintCame) {
  TestTopology topology;
  Published out(test_broker_url(), {.topology = topology.names()});
  std::vector<Hint> hints = make_hints(300);
  for (std::size_t i = 0; i < hints.size(); i += 3) {
    hints[i].lane = Lane::kExpress;
  }
  ASSERT_EQ(out.publisher.submit(hints), hints.size());
  ASSERT_TRUE(out.confirmed.wait_for(hints.size()));
  TestConsumer in(test_broker_url(), {.topology = topology.names()});
  ASSERT_TRUE(in.received().wait_for(hints.size()));
  std::map<TaskId, Lane> lanes;
  for (const queue::Delivery& delivery : in.deliveries()) {
    lanes[delivery.hint.task] = delivery.hint.lane;
  }
  for (const Hint& hint : hints) {
    EXPECT_EQ(lanes[hint.task], hint.lane);
  }
}

// A crowd's hints fill one queue; the other one is nobody's to fill but those who want little.
TEST(Publisher, AFullBulkQueueKeepsNobodyFromTheExpressLane) {
  TestTopology topology(test_broker_url(), 1);
  Published out(test_broker_url(), {.hints_per_message = 1, .topology = topology.names()});
  ASSERT_TRUE(eventually([&] { return out.publisher.connected(); }));
  ASSERT_EQ(out.publisher.submit(make_hints(20)), 20U);
  ASSERT_TRUE(eventually([&] { return out.publisher.waiting() == 0; })) << "the rest is refused";
  std::vector<Hint> express = make_hints(1);
  express.front().lane = Lane::kExpress;
  out.publisher.submit(express);
  EXPECT_TRUE(eventually([&] { return out.confirmed.counts().contains(express.front().task); }));
}

// After an outage of the broker there may be hundreds of thousands.
TEST(Publisher, AnExpressHintIsNotBehindABacklogOfBulkOnes) {
  TestTopology topology;
  std::atomic<std::size_t> confirmed = 0, before = 0;
  Publisher publisher(test_broker_url(),
                      {.hints_per_message = 1, .topology = topology.names()},
                      [&](std::span<const Hint> hints) {
                        for (const Hint& hint : hints) {
                          before = hint.lane == Lane::kExpress ? confirmed.load() : before.load();
                          ++confirmed;
                        }
                      });
  std::vector<Hint> express = make_hints(1);
  express.front().lane = Lane::kExpress;
  // Where this thread has slept meanwhile nothing is shown, and a longer one is tried.
  bool shown = false;
  for (std::size_t backlog = 1'000; !shown && backlog <= 64'000; backlog *= 2) {
    confirmed = 0;
    ASSERT_EQ(publisher.submit(make_hints(backlog)), backlog);
    ASSERT_TRUE(eventually([&] { return confirmed > 0; }));
    ASSERT_EQ(publisher.submit(express), 1U);
    shown = confirmed < backlog / 2;
    ASSERT_TRUE(eventually([&] { return confirmed == backlog + 1; }));
    EXPECT_TRUE(!shown || before < backlog);
  }
  EXPECT_TRUE(shown);
}

TEST(Publisher, EveryConfirmedHintIsDelivered) {
  constexpr std::size_t kCount = 20'000;
  TestTopology topology;
  Published out(test_broker_url(), {.topology = topology.names()});
  ASSERT_TRUE(eventually([&] { return out.publisher.connected(); }));

  const std::vector<Hint> hints = make_hints(kCount);
  const double cpu = cpu_seconds();
  const auto start = std::chrono::steady_clock::now();
  ASSERT_EQ(out.publisher.submit(hints), kCount);
  ASSERT_TRUE(out.confirmed.wait_for(kCount));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  RecordProperty("published_per_second", static_cast<int>(kCount / took.count()));
  RecordProperty("publisher_cpu_ns_each", static_cast<int>((cpu_seconds() - cpu) * 1e9 / kCount));
  EXPECT_EQ(out.publisher.waiting(), 0U);
  EXPECT_GT(out.confirmed.batches(), 1U);
  EXPECT_LT(out.confirmed.batches(), kCount / 4);

  TestConsumer in(test_broker_url(), {.topology = topology.names()});
  ASSERT_TRUE(in.received().wait_for(kCount));
  EXPECT_EQ(in.received().counts(), out.confirmed.counts()) << "each exactly once";
  std::map<TaskId, std::uint32_t> epochs;
  for (const Hint& hint : hints) {
    epochs[hint.task] = hint.epoch;
  }
  for (const queue::Delivery& delivery : in.deliveries()) {
    ASSERT_EQ(delivery.hint.epoch, epochs[delivery.hint.task]);
  }
}

TEST(Publisher, MemoryIsBounded) {
  AmqpUrl nowhere = test_broker_url();
  nowhere.port = 1;
  Publisher publisher(nowhere, {.capacity = 100}, [](std::span<const Hint>) {});
  EXPECT_EQ(publisher.submit(make_hints(70)), 70U);
  EXPECT_EQ(publisher.submit(make_hints(70)), 30U);
  EXPECT_EQ(publisher.submit(make_hints(1)), 0U);
  EXPECT_EQ(publisher.waiting(), 100U);
  EXPECT_FALSE(publisher.connected());
  const auto start = std::chrono::steady_clock::now();
  publisher.stop(100ms);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 30s);
}

TEST(Publisher, StopSendsWhatWaits) {
  TestTopology topology;
  Published out(test_broker_url(), {.topology = topology.names()});
  ASSERT_EQ(out.publisher.submit(make_hints(5'000)), 5'000U);  // Perhaps not yet connected.
  out.publisher.stop(30s);
  EXPECT_EQ(out.confirmed.size(), 5'000U);
  EXPECT_EQ(out.publisher.waiting(), 0U);
  EXPECT_EQ(depth_of(test_broker_url(), topology.names()).ready, 79U) << "64 to a message";
}

TEST(Publisher, HintsSoonAfterAMessageWaitForCompany) {
  TestTopology topology;
  Published out(test_broker_url(), {.gather = 1h, .topology = topology.names()});
  ASSERT_TRUE(eventually([&] { return out.publisher.connected(); }));
  ASSERT_EQ(out.publisher.submit(make_hints(1)), 1U);
  ASSERT_TRUE(out.confirmed.wait_for(1)) << "the first one is alone";
  for (std::size_t i = 0; i < queue::kHintsMax; ++i) {
    ASSERT_EQ(out.publisher.submit(make_hints(1)), 1U);
  }
  ASSERT_TRUE(out.confirmed.wait_for(1 + queue::kHintsMax)) << "a full message waits for nothing";
  ASSERT_EQ(out.publisher.submit(make_hints(1)), 1U);
  out.publisher.stop(30s);
  EXPECT_EQ(out.confirmed.size(), 2 + queue::kHintsMax);
  EXPECT_EQ(depth_of(test_broker_url(), topology.names()).ready, 3U);
}

TEST(Publisher, AHintAloneDoesNotWaitForCompany) {
  TestTopology topology;
  Published out(test_broker_url(), {.topology = topology.names()});
  ASSERT_TRUE(eventually([&] { return out.publisher.connected(); }));
  for (std::size_t i = 1; i <= 3; ++i) {
    ASSERT_EQ(out.publisher.submit(make_hints(1)), 1U);
    ASSERT_TRUE(out.confirmed.wait_for(i));
  }
  EXPECT_EQ(depth_of(test_broker_url(), topology.names()).ready, 3U);
}

TEST(Publisher, AnUnroutableHintIsNotConfirmedAndTheBindingIsRepaired) {
  TestTopology topology;
  Published out(test_broker_url(),
                {.hints_per_message = 1, .redeclare_interval = 10s, .topology = topology.names()});
  ASSERT_TRUE(eventually([&] { return out.publisher.connected(); }));
  topology.unbind_jobs();
  const double returned = counter("hints_returned_total");
  ASSERT_EQ(out.publisher.submit(make_hints(10)), 10U);
  ASSERT_TRUE(eventually([&] { return counter("hints_returned_total") >= returned + 10; }));
  EXPECT_TRUE(eventually([&] { return out.publisher.waiting() == 0; })) << "left to the sweeper";
  EXPECT_EQ(out.confirmed.size(), 0U);

  ASSERT_TRUE(eventually([&] {
    out.publisher.submit(make_hints(1));
    return out.confirmed.size() > 0;
  }));
  out.publisher.stop(30s);
  EXPECT_EQ(depth_of(test_broker_url(), topology.names()).ready, out.confirmed.size());
}

TEST(Publisher, AFullQueueRefusesAndNothingIsLostThatWasConfirmed) {
  TestTopology topology(test_broker_url(), 50);
  Published out(test_broker_url(), {.hints_per_message = 1, .topology = topology.names()});
  const double nacked = counter("hints_nacked_total");
  ASSERT_EQ(out.publisher.submit(make_hints(1'000)), 1'000U);
  ASSERT_TRUE(eventually([&] { return out.publisher.waiting() == 0; }));
  const double refused = counter("hints_nacked_total") - nacked;
  EXPECT_GT(refused, 0);
  // The last of them are told a moment later.
  EXPECT_TRUE(eventually([&] {
    return out.confirmed.size() + static_cast<std::size_t>(refused) == 1'000U;
  })) << out.confirmed.size()
      << " and " << refused;

  TestConsumer in(test_broker_url(), {.topology = topology.names()});
  ASSERT_TRUE(in.received().wait_for(out.confirmed.size()));
  EXPECT_TRUE(in.received().contains_all_of(out.confirmed));
  const std::size_t before = out.confirmed.size();
  ASSERT_TRUE(eventually([&] {
    out.publisher.submit(make_hints(1));
    return out.confirmed.size() > before;
  })) << "room again";
}

TEST(Publisher, ALostConnectionSendsTheUnknownOnceMore) {
  TestTopology topology;
  TcpProxy proxy(test_broker_url().port);
  AmqpUrl url = test_broker_url();
  url.host = "127.0.0.1";
  url.port = proxy.port();
  Published out(url, {.topology = topology.names()});
  ASSERT_TRUE(eventually([&] { return out.publisher.connected(); }));
  const std::vector<Hint> hints = make_hints(20'000);
  ASSERT_EQ(out.publisher.submit(hints), hints.size());
  ASSERT_TRUE(out.confirmed.wait_for(1'000));
  proxy.cut_all();
  ASSERT_TRUE(out.confirmed.wait_for(hints.size())) << out.confirmed.size();
  EXPECT_TRUE(eventually([&] { return proxy.connections() >= 2; }));
  TestConsumer in(test_broker_url(), {.topology = topology.names()});
  EXPECT_TRUE(in.received().wait_for(hints.size()));
}

// rabbitmq-c 0.11 would block for ever in the first publish after two silent heartbeats, were the
// connection not read first. Confirm deadlines are kept out of the way.
TEST(Publisher, ASilentNetworkIsNoticedBeforePublishing) {
  TestTopology topology;
  TcpProxy proxy(test_broker_url().port);
  AmqpUrl url = test_broker_url();
  url.host = "127.0.0.1";
  url.port = proxy.port();
  Published out(url, {.confirm_timeout = 120s, .heartbeat = 2s, .topology = topology.names()});
  ASSERT_TRUE(eventually([&] { return out.publisher.connected(); }));
  proxy.cut_all(TcpProxy::Cut::kSilence);
  std::size_t submitted = 0;
  // Hints keep coming, so that one meets every moment of the silence.
  ASSERT_TRUE(eventually([&] {
    submitted += out.publisher.submit(make_hints(1));
    return out.confirmed.size() > 0;
  })) << "the publisher's thread is stuck";
  EXPECT_TRUE(out.confirmed.wait_for(submitted)) << "those sent into the silence come again";
}

TEST(Publisher, AMissingConfirmEndsTheConnection) {
  TestTopology topology;
  TcpProxy proxy(test_broker_url().port);
  AmqpUrl url = test_broker_url();
  url.host = "127.0.0.1";
  url.port = proxy.port();
  Published out(url, {.confirm_timeout = 5s, .heartbeat = 60s, .topology = topology.names()});
  ASSERT_TRUE(eventually([&] { return out.publisher.connected(); }));
  proxy.cut_all(TcpProxy::Cut::kSilence);
  ASSERT_EQ(out.publisher.submit(make_hints(300)), 300U);
  EXPECT_TRUE(out.confirmed.wait_for(300)) << "long before the heartbeat would notice";
}

TEST(Publisher, WrongPasswordKeepsTryingAndSaysSoWithoutIt) {
  TcpProxy proxy(test_broker_url().port);
  AmqpUrl url = test_broker_url();
  url.host = "127.0.0.1";
  url.port = proxy.port();
  url.password = "not-the-password";
  testing::internal::CaptureStderr();
  auto end = std::chrono::steady_clock::now();
  {
    Publisher publisher(url, {}, [](std::span<const Hint>) {});
    EXPECT_TRUE(eventually([&] { return proxy.connections() >= 3; }, 60s))
        << "who tries for the third time has been refused twice";
    EXPECT_FALSE(publisher.connected());
    end = std::chrono::steady_clock::now();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - end, 30s) << "no call of the thread lasts longer";
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("credentials refused"), std::string::npos) << log;
  EXPECT_EQ(log.find("not-the-password"), std::string::npos) << log;
  EXPECT_EQ(log.find("broker unreachable"), log.rfind("broker unreachable")) << log;
}

TEST(Publisher, WrongQueueArgumentsAreOneClearError) {
  TestTopology topology;
  topology.declare_jobs_otherwise();
  TcpProxy proxy(test_broker_url().port);
  AmqpUrl url = test_broker_url();
  url.host = "127.0.0.1";
  url.port = proxy.port();
  testing::internal::CaptureStderr();
  {
    Publisher publisher(url, {.topology = topology.names()}, [](std::span<const Hint>) {});
    EXPECT_TRUE(eventually([&] { return proxy.connections() >= 3; }, 60s))
        << "who tries for the third time has been refused twice";
    EXPECT_FALSE(publisher.connected());
  }
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("PRECONDITION_FAILED"), std::string::npos) << log;
  EXPECT_NE(log.find(topology.names().jobs()), std::string::npos) << log;
  EXPECT_EQ(log.find("broker unreachable"), log.rfind("broker unreachable")) << log;
}

}  // namespace
}  // namespace audiogen::test
