// The consumer against a real broker.
#include "common/queue/consumer.h"

#include <algorithm>
#include <atomic>
#include <fstream>
#include <thread>

#include <gtest/gtest.h>

#include "common/queue/publisher.h"
#include "tests/queue/collector.h"
#include "tests/support/tcp_proxy.h"
#include "tests/support/test_broker.h"

namespace audiogen::test {
namespace {

using namespace std::chrono_literals;
using queue::Publisher;

constexpr std::size_t kPrefetch = queue::ConsumerOptions().prefetch;

// Publishes and waits until the broker has all of it.
void publish(const TestTopology& topology,
             std::span<const Hint> hints,
             std::size_t hints_per_message = 1) {
  Collector confirmed;
  Publisher publisher(test_broker_url(),
                      {.hints_per_message = hints_per_message, .topology = topology.names()},
                      [&](std::span<const Hint> some) { confirmed.add(some); });
  ASSERT_EQ(publisher.submit(hints), hints.size());
  ASSERT_TRUE(confirmed.wait_for(hints.size()));
  publisher.stop(10s);
}

bool empty(const TestTopology& topology) {
  return depth_of(test_broker_url(), topology.names()).ready == 0;
}

bool dead_are(const TestTopology& topology, std::uint64_t count) {
  return depth_of(test_broker_url(), topology.names()).dead == count;
}

// A worker may take tasks without the broker for days.
TEST(Consumer, RemembersNothingOfWhatCameWithoutTheBroker) {
  constexpr int kMany = 5'000'000;
  constexpr std::size_t kPages = 8'000;  // Of 4 KB; what each would leave are 80 MB.
  const auto resident = [] {
    std::ifstream in("/proc/self/statm");
    std::size_t total = 0, pages = 0;
    in >> total >> pages;
    return pages;
  };
  AmqpUrl nowhere = test_broker_url();
  nowhere.port = 1;
  TestConsumer in(nowhere, {});
  const queue::Delivery pulled{.hint = make_hints(1)[0]};
  const std::size_t before = resident();
  for (int i = 0; i < kMany; ++i) {
    in->ack(pulled);
  }
  EXPECT_LT(resident(), before + kPages);
}

TEST(Consumer, DeliversInBatchesAndAcknowledges) {
  TestTopology topology;
  const std::vector<Hint> hints = make_hints(2'000);
  publish(topology, hints);
  {
    TestConsumer in(test_broker_url(), {.topology = topology.names()});
    ASSERT_TRUE(in.received().wait_for(hints.size()));
    EXPECT_GT(in.largest_batch(), 1U);
    EXPECT_LE(in.largest_batch(), 128U);
    in->stop(10s);
  }
  TestConsumer again(test_broker_url(), {.topology = topology.names()});
  const Hint last = make_hints(1)[0];
  publish(topology, {{last}});
  ASSERT_TRUE(eventually([&] { return again.received().counts().contains(last.task); }));
  // RabbitMQ may drop the very last acks of a connection that ends; all others hold.
  EXPECT_LE(again.received().size(), kPrefetch + 1);
}

TEST(Consumer, UnacknowledgedMessagesComeBack) {
  TestTopology topology;
  const std::vector<Hint> hints = make_hints(10);
  publish(topology, hints);
  std::vector<Hint> acknowledged;
  {
    TestConsumer in(test_broker_url(), {.topology = topology.names()}, false);
    ASSERT_TRUE(in.received().wait_for(hints.size()));
    for (const queue::Delivery& delivery : in.deliveries()) {
      EXPECT_FALSE(delivery.redelivered);
      if (delivery.tag % 2 == 0) {
        in->ack(delivery);
        acknowledged.push_back(delivery.hint);
      }
    }
    in->stop(10s);
  }
  TestConsumer again(test_broker_url(), {.topology = topology.names()});
  ASSERT_TRUE(again.received().wait_for(5));
  for (const queue::Delivery& delivery : again.deliveries()) {
    EXPECT_TRUE(delivery.redelivered);
    EXPECT_EQ(std::count(acknowledged.begin(), acknowledged.end(), delivery.hint), 0);
  }
  EXPECT_EQ(again.deliveries().size(), 5U);
}

TEST(Consumer, AMessageComesBackUntilAllOfItsHintsAreAcknowledged) {
  TestTopology topology;
  publish(topology, make_hints(10), 5);
  {
    TestConsumer in(test_broker_url(), {.topology = topology.names()}, false);
    ASSERT_TRUE(in.received().wait_for(10));
    const std::vector<queue::Delivery> deliveries = in.deliveries();
    for (std::size_t i = 0; i < 9; ++i) {
      in->ack(deliveries[i]);
    }
    in->stop(10s);
  }
  TestConsumer again(test_broker_url(), {.topology = topology.names()});
  ASSERT_TRUE(again.received().wait_for(5)) << "the second message, whole";
  again->stop(10s);
  EXPECT_EQ(again.received().size(), 5U);
}

TEST(Consumer, PrefetchLimitsWhatIsUnacknowledged) {
  TestTopology topology;
  publish(topology, make_hints(20));
  TestConsumer in(test_broker_url(), {.prefetch = 7, .topology = topology.names()}, false);
  ASSERT_TRUE(in.received().wait_for(7));
  ASSERT_TRUE(
      eventually([&] { return depth_of(test_broker_url(), topology.names()).ready == 13; }));
  EXPECT_EQ(in.received().size(), 7U);
  in->ack(in.deliveries()[3]);
  EXPECT_TRUE(in.received().wait_for(8));
  EXPECT_EQ(in.received().size(), 8U);
}

TEST(Consumer, GarbageGoesToTheDeadLetterQueue) {
  TestTopology topology;
  TestConsumer in(test_broker_url(), {.topology = topology.names()});
  ASSERT_TRUE(eventually([&] { return in->connected(); }));
  topology.publish("not json");
  topology.publish("");
  topology.publish(R"({"task":"aud_short","epoch":1})");
  topology.publish(std::string(1'000'000, '['));
  topology.publish(R"({"task":1})", deepest());
  EXPECT_TRUE(eventually([&] { return dead_are(topology, 5); }));
  const Hint hint{TaskId::make(), 2};
  topology.publish(queue::encode_hints({&hint, 1}), deepest());
  ASSERT_TRUE(in.received().wait_for(1)) << "the consumer is alive, whatever the headers";
  EXPECT_EQ(in.deliveries()[0].hint, hint);
  EXPECT_EQ(in.deliveries()[0].connection, 1U) << "on its first connection";
  EXPECT_TRUE(empty(topology));
}

TEST(Consumer, ADeletedQueueIsMadeAgain) {
  TestTopology topology;
  TestConsumer in(test_broker_url(), {.check_interval = 1h, .topology = topology.names()});
  publish(topology, make_hints(1));
  ASSERT_TRUE(in.received().wait_for(1));
  topology.delete_jobs();
  // The broker tells; no check comes in time.
  ASSERT_TRUE(eventually(
      [&] { return queue::read_depth(test_broker_url(), topology.names()).has_value(); }));
  publish(topology, make_hints(1));
  EXPECT_TRUE(in.received().wait_for(2));
}

TEST(Consumer, AnAckOfAnOldConnectionIsDropped) {
  TestTopology topology;
  TcpProxy proxy(test_broker_url().port);
  AmqpUrl url = test_broker_url();
  url.host = "127.0.0.1";
  url.port = proxy.port();
  TestConsumer in(url, {.topology = topology.names()}, false);
  publish(topology, make_hints(3));
  ASSERT_TRUE(in.received().wait_for(3));
  proxy.cut_all();
  ASSERT_TRUE(eventually([&] { return in.deliveries().size() == 6; })) << "delivered again";
  const std::vector<queue::Delivery> deliveries = in.deliveries();
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(deliveries[i].connection, 1U);
    in->ack(deliveries[i]);
  }
  in->ack(deliveries[3]);
  in->stop(10s);
  EXPECT_EQ(deliveries[3].connection, 2U);
  EXPECT_TRUE(deliveries[3].redelivered);
  // The broker puts back what was not acknowledged when it has noticed the end of the connection.
  EXPECT_TRUE(eventually([&] { return depth_of(test_broker_url(), topology.names()).ready == 2; }));
}

TEST(Consumer, ASilentNetworkIsNoticed) {
  TestTopology topology;
  TcpProxy proxy(test_broker_url().port);
  AmqpUrl url = test_broker_url();
  url.host = "127.0.0.1";
  url.port = proxy.port();
  TestConsumer in(url, {.heartbeat = 2s, .topology = topology.names()});
  ASSERT_TRUE(eventually([&] { return in->connected(); }));
  proxy.cut_all(TcpProxy::Cut::kSilence);
  publish(topology, make_hints(5));
  EXPECT_TRUE(in.received().wait_for(5));
}

TEST(Consumer, AnIdleConnectionStaysAliveAndIsChecked) {
  // One of a machine that stands still for two seconds ends, as it should: then another one shows.
  bool stayed = false;
  for (int tries = 0; tries < 3 && !stayed; ++tries) {
    TestTopology topology;
    TestConsumer in(test_broker_url(),
                    {.heartbeat = 1s, .check_interval = 100ms, .topology = topology.names()});
    ASSERT_TRUE(eventually([&] { return in->connected(); }));
    stayed = !eventually([&] { return !in->connected(); }, 6s);
    publish(topology, make_hints(1));
    ASSERT_TRUE(in.received().wait_for(1));
    stayed = stayed && in.deliveries()[0].connection == 1;
  }
  EXPECT_TRUE(stayed);
}

TEST(Consumer, ManyThreadsAcknowledge) {
  TestTopology topology;
  const std::vector<Hint> hints = make_hints(4'000);
  publish(topology, hints);
  TestConsumer in(test_broker_url(), {.topology = topology.names()}, false);
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t mine = next++; mine < hints.size(); mine = next++) {
      if (!eventually([&] { return in.received().size() > mine; })) {
        return;
      }
      in->ack(in.deliveries()[mine]);
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back(work);
    }
  }
  EXPECT_EQ(in.received().size(), hints.size());
  in->stop(10s);
  EXPECT_EQ(in.deliveries().size(), hints.size());
  EXPECT_LE(depth_of(test_broker_url(), topology.names()).ready, kPrefetch);
}

TEST(Depth, CountsReadyAndDead) {
  TestTopology topology;
  EXPECT_FALSE(queue::read_depth(test_broker_url(), topology.names())) << "no queue yet";
  publish(topology, make_hints(3));
  const queue::Depth depth = depth_of(test_broker_url(), topology.names());
  EXPECT_EQ(depth.ready, 3U);
  EXPECT_EQ(depth.dead, 0U);
  AmqpUrl nowhere = test_broker_url();
  nowhere.port = 1;
  EXPECT_FALSE(queue::read_depth(nowhere));
}

}  // namespace
}  // namespace audiogen::test
