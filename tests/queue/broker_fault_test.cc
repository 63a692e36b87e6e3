// Publisher and consumer while a broker of the test's own is killed, frozen, or out of memory.
#include <gtest/gtest.h>

#include "common/base/metrics.h"
#include "common/queue/consumer.h"
#include "common/queue/publisher.h"
#include "tests/queue/collector.h"
#include "tests/support/test_broker.h"

namespace audiogen::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using queue::Publisher;

constexpr std::chrono::seconds kRecovery{120};  // A cold broker start on a busy machine included.

double reconnects() {
  return metrics::counter("broker_reconnects_total", "", {{"role", "publisher"}}).Value();
}

// RabbitMQ 3.10, killed within a second of a queue's declaration, loses that queue
// (common/queue/README.md, "Young queues"); the check here is about messages.
void let_the_queue_settle(const PrivateBroker& broker) {
  const auto start = Clock::now();
  ASSERT_TRUE(eventually(
      [&] { return queue::read_depth(broker.url()).has_value() && Clock::now() - start > 3s; }));
}

TEST(BrokerFault, KilledWhilePublishingLosesNothingConfirmed) {
  PrivateBroker broker;
  Collector confirmed;
  // So many messages that the kill comes in their midst, however long its process takes to begin.
  Publisher publisher(broker.url(), {.hints_per_message = 4}, [&](std::span<const Hint> hints) {
    confirmed.add(hints);
  });
  ASSERT_TRUE(eventually([&] { return publisher.connected(); }));
  let_the_queue_settle(broker);
  const std::vector<Hint> hints = make_hints(60'000);
  ASSERT_EQ(publisher.submit(hints), hints.size());
  ASSERT_TRUE(confirmed.wait_for(2'000));
  broker.kill();
  const std::size_t before = confirmed.size();
  ASSERT_LT(before, hints.size()) << "killed too late";
  ASSERT_TRUE(eventually([&] { return !publisher.connected(); }));
  broker.start();
  ASSERT_TRUE(confirmed.wait_for(hints.size(), kRecovery)) << confirmed.size();
  TestConsumer in(broker.url(), {});
  ASSERT_TRUE(in.received().wait_for(hints.size(), kRecovery)) << in.received().size();
  EXPECT_TRUE(in.received().contains_all_of(confirmed));
}

TEST(BrokerFault, KilledUnderAConsumerDeliversAgain) {
  PrivateBroker broker;
  TestConsumer in(broker.url(), {}, false);
  Collector confirmed;
  Publisher publisher(broker.url(), {}, [&](std::span<const Hint> hints) { confirmed.add(hints); });
  ASSERT_TRUE(eventually([&] { return publisher.connected() && in->connected(); }));
  let_the_queue_settle(broker);
  ASSERT_EQ(publisher.submit(make_hints(100)), 100U);
  ASSERT_TRUE(confirmed.wait_for(100));
  ASSERT_TRUE(in.received().wait_for(100));
  broker.kill();
  broker.start();
  ASSERT_TRUE(eventually([&] { return in.deliveries().size() >= 200; }, kRecovery));
  for (const queue::Delivery& delivery : in.deliveries()) {
    in->ack(delivery);
  }
  in->stop(10s);
  EXPECT_EQ(depth_of(broker.url()).ready, 0U);
}

TEST(BrokerFault, AFrozenBrokerBlocksNobody) {
  PrivateBroker broker;
  Collector confirmed;
  // Heartbeats would notice in the end: later than is waited for here.
  Publisher publisher(
      broker.url(), {.heartbeat = 60s}, [&](std::span<const Hint> hints) { confirmed.add(hints); });
  Publisher stopped(broker.url(), {.heartbeat = 60s}, [](std::span<const Hint>) {});
  // Nothing ends its connection while the broker is frozen: whoever waited for it would do so until
  // this thread goes on.
  Publisher patient(
      broker.url(), {.confirm_timeout = 600s, .heartbeat = 60s}, [](std::span<const Hint>) {});
  ASSERT_TRUE(eventually(
      [&] { return publisher.connected() && stopped.connected() && patient.connected(); }));
  broker.freeze();
  const auto submit = [&](Publisher& to, std::size_t count) {
    const auto start = Clock::now();
    EXPECT_EQ(to.submit(make_hints(count)), count);
    EXPECT_LT(Clock::now() - start, 30s) << "submit never waits";
  };
  submit(publisher, 1'000);
  submit(stopped, 1'000);
  submit(patient, 1'000);
  // The confirm deadline ends the connection, and new ones do not get past the handshake.
  ASSERT_TRUE(eventually([&] { return !publisher.connected() && !stopped.connected(); }));
  submit(publisher, 10'000);
  submit(patient, 1'000);
  // By then the other one is in the middle of such a handshake.
  EXPECT_FALSE(eventually([&] { return stopped.connected(); }, 2s));
  const auto start = Clock::now();
  stopped.stop(100ms);
  EXPECT_LT(Clock::now() - start, 30s) << "no call of the thread lasts longer";
  EXPECT_EQ(confirmed.size(), 0U);
  broker.thaw();
  const auto thawed = Clock::now();
  EXPECT_TRUE(confirmed.wait_for(11'000, kRecovery));
  EXPECT_LT(Clock::now() - thawed, 60s);
}

TEST(BrokerFault, ABrokerOutOfMemoryIsLeftAlone) {
  PrivateBroker broker;
  Collector confirmed;
  Publisher publisher(broker.url(), {}, [&](std::span<const Hint> hints) { confirmed.add(hints); });
  ASSERT_TRUE(eventually([&] { return publisher.connected(); }));
  broker.alarm();
  const double before = reconnects();
  ASSERT_EQ(publisher.submit(make_hints(5'000)), 5'000U);
  // Well past the confirm deadline of 5 s, which must not fire: each new connection would leave a
  // window of messages in the broker's socket.
  EXPECT_FALSE(confirmed.wait_for(5'000, 12s));
  EXPECT_TRUE(publisher.blocked());
  EXPECT_LE(confirmed.size(), 200U);
  EXPECT_GE(publisher.waiting(), 4'800U);
  EXPECT_TRUE(publisher.connected());
  EXPECT_EQ(reconnects(), before);
  broker.no_alarm();
  EXPECT_TRUE(confirmed.wait_for(5'000, kRecovery));
  EXPECT_FALSE(publisher.blocked());
  EXPECT_EQ(reconnects(), before);
}

// Who publishes is kept waiting, as without memory; who consumes goes on, or nothing would ever
// leave the disk.
TEST(BrokerFault, ABrokerOutOfDiskIsLeftAloneAndStillTakesAcks) {
  PrivateBroker broker;
  constexpr std::size_t kAtOnce = 5, kBefore = 10, kDuring = 5'000;
  TestConsumer in(broker.url(), {.prefetch = kAtOnce}, false);
  Collector confirmed;
  Publisher first(broker.url(), {.hints_per_message = 1}, [](std::span<const Hint>) {});
  Publisher publisher(broker.url(), {}, [&](std::span<const Hint> hints) { confirmed.add(hints); });
  ASSERT_TRUE(eventually([&] { return publisher.connected() && in->connected(); }));
  let_the_queue_settle(broker);
  ASSERT_EQ(first.submit(make_hints(kBefore)), kBefore);
  ASSERT_TRUE(in.received().wait_for(kAtOnce));
  ASSERT_TRUE(eventually([&] { return first.waiting() == 0; }));
  broker.disk_alarm();
  const double before = reconnects();
  ASSERT_EQ(publisher.submit(make_hints(kDuring)), kDuring);
  for (std::size_t i = 0; i < kAtOnce; ++i) {
    in->ack(in.deliveries()[i]);
  }
  EXPECT_TRUE(in.received().wait_for(kBefore)) << "the next ones come when those are acknowledged";
  // Well past the confirm deadline of 5 s, which must not fire.
  EXPECT_FALSE(confirmed.wait_for(kDuring, 12s));
  EXPECT_LE(confirmed.size(), 200U);
  EXPECT_TRUE(publisher.connected());
  EXPECT_EQ(reconnects(), before);
  broker.no_disk_alarm();
  std::size_t acknowledged = kAtOnce;
  EXPECT_TRUE(eventually(
      [&] {
        for (const auto all = in.deliveries(); acknowledged < all.size(); ++acknowledged) {
          in->ack(all[acknowledged]);
        }
        return confirmed.size() == kDuring && in.received().size() == kBefore + kDuring;
      },
      kRecovery))
      << confirmed.size() << " " << in.received().size();
  EXPECT_EQ(reconnects(), before);
  for (const queue::Delivery& delivery : in.deliveries()) {
    ASSERT_FALSE(delivery.redelivered) << "an ack was lost";
    ASSERT_EQ(delivery.connection, 1U);
  }
}

// The broker ends a channel on which a message waits for its ack for too long, or when its own
// clock has jumped by as much.
TEST(BrokerFault, WhatIsKeptTooLongComesAgainOnANewConnection) {
  PrivateBroker broker;
  broker.end_channels_after(5s);
  constexpr std::size_t kCount = 10;
  TestConsumer in(broker.url(), {}, false);
  Publisher publisher(broker.url(), {}, [](std::span<const Hint>) {});
  ASSERT_TRUE(eventually([&] { return publisher.connected() && in->connected(); }));
  let_the_queue_settle(broker);
  ASSERT_EQ(publisher.submit(make_hints(kCount)), kCount);
  ASSERT_TRUE(in.received().wait_for(kCount));
  ASSERT_TRUE(eventually([&] { return in.deliveries().size() >= 2 * kCount; }, kRecovery));
  const std::vector<queue::Delivery> deliveries = in.deliveries();
  for (std::size_t i = 0; i < deliveries.size(); ++i) {
    EXPECT_EQ(deliveries[i].connection, i < kCount ? 1U : 2U) << i;
    EXPECT_EQ(deliveries[i].redelivered, i >= kCount) << i;
  }
  EXPECT_EQ(in.received().size(), kCount) << "the same ones";
  for (const queue::Delivery& delivery : deliveries) {
    in->ack(delivery);  // Those of the old connection do nothing.
  }
  // On that connection nothing is kept any more, so it stays; later ones come there.
  ASSERT_EQ(publisher.submit(make_hints(1)), 1U);
  ASSERT_TRUE(in.received().wait_for(kCount + 1));
  EXPECT_EQ(in.deliveries().back().connection, 2U);
  EXPECT_FALSE(in.deliveries().back().redelivered);
  in->ack(in.deliveries().back());
  in->stop(10s);
  EXPECT_EQ(depth_of(broker.url()).ready, 0U);
}

}  // namespace
}  // namespace audiogen::test
