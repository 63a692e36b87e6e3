// TLS to a real broker with real certificates. Wherever it is refused, the password is wrong too:
// had the login gone out before the certificate was judged, the answer would be about it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/queue/connection.h"
#include "common/queue/publisher.h"
#include "tests/queue/collector.h"
#include "tests/support/certificates.h"
#include "tests/support/test_broker.h"

namespace audiogen::test {
namespace {

using queue::Connection;
using testing::HasSubstr;
using testing::Not;

std::string refusal(AmqpUrl url) {
  url.password = "not-the-password";
  const auto opened = Connection::open(url, {}, {.declare = false});
  return opened ? "connected" : opened.error().reason;
}

class BrokerTls : public testing::Test {
 protected:
  AmqpUrl url(const std::string& ca) const {
    AmqpUrl out = broker_.url();
    out.host = "localhost";
    out.tls =
        TlsFiles{.ca = ca, .cert = certificates_.client_cert(), .key = certificates_.client_key()};
    return out;
  }

  Certificates certificates_;
  PrivateBroker broker_{
      [this](const std::string& folder) { certificates_.give_to_server(folder); }};
};

TEST_F(BrokerTls, OnlyTheRightBrokerIsTold) {
  const AmqpUrl right = url(certificates_.ca());
  EXPECT_TRUE(queue::read_depth(right) || Connection::open(right, {}, {}));
  EXPECT_THAT(refusal(right), HasSubstr("credentials refused")) << "the login goes out";

  EXPECT_THAT(refusal(url(certificates_.other_ca())), HasSubstr("nobody signed it whom we trust"));
  EXPECT_THAT(refusal(url("")), HasSubstr("nobody signed it whom we trust"));
  EXPECT_THAT(refusal(url("/nonexistent.pem")), HasSubstr("no usable certificate"));

  AmqpUrl other_host = right;
  other_host.host = "127.0.0.1";
  EXPECT_THAT(refusal(other_host), HasSubstr("not for the host of AMQP_URL"));

  AmqpUrl without_own = right;
  without_own.tls->cert.clear();
  without_own.tls->key.clear();
  EXPECT_THAT(refusal(without_own), Not(HasSubstr("credentials")));
  EXPECT_THAT(refusal(without_own), Not(HasSubstr("connected")));

  certificates_.give_to_server(broker_.folder(), "localhost", -1);
  broker_.renew_certificate();
  EXPECT_THAT(refusal(right), HasSubstr("has expired"));
}

// The library buffers what a record of TLS brought beyond the frame that was asked for; whoever
// sleeps on the socket then must not miss it.
TEST_F(BrokerTls, ManyHintsPassBothWays) {
  const AmqpUrl right = url(certificates_.ca());
  constexpr std::size_t kCount = 20'000;
  Collector confirmed;
  queue::Publisher publisher(right, {}, [&](std::span<const Hint> hints) { confirmed.add(hints); });
  TestConsumer in(right, {});
  const std::vector<Hint> hints = make_hints(kCount);
  ASSERT_EQ(publisher.submit(hints), kCount);
  ASSERT_TRUE(confirmed.wait_for(kCount)) << confirmed.size();
  ASSERT_TRUE(in.received().wait_for(kCount)) << in.received().size();
}

TEST(BrokerWithoutTls, IsRefusedWhenTlsIsAskedFor) {
  const Certificates certificates;
  AmqpUrl url = test_broker_url();
  url.tls = TlsFiles{.ca = certificates.ca(), .cert = {}, .key = {}};
  EXPECT_THAT(refusal(url), HasSubstr("does the broker speak TLS"));
}

}  // namespace
}  // namespace audiogen::test
