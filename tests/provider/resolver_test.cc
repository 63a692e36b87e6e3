// A name whose owner answers as he likes: the check is on the address that is connected to, not on
// the one that was looked up before.
//
// This program's getaddrinfo() stands in for libcurl's.
#include <atomic>
#include <future>
#include <string>
#include <string_view>
#include <vector>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netdb.h>
#include <sys/socket.h>

#include "common/http/client.h"
#include "tests/provider/fixture.h"
#include "tests/support/connect_proxy.h"
#include "tests/support/provider_double.h"

namespace {

// What the name resolves to at the nth look-up; the last line stays.
std::vector<std::vector<std::string>> g_answers;  // Set before the client asks.
std::atomic<std::size_t> g_lookups{0};

addrinfo* entry(const std::string& address, std::uint16_t port) {
  const bool six = address.find(':') != std::string::npos;
  const std::size_t size = six ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  auto* const out = static_cast<addrinfo*>(std::calloc(1, sizeof(addrinfo)));
  auto* const raw = static_cast<sockaddr*>(std::calloc(1, size));
  out->ai_family = six ? AF_INET6 : AF_INET;
  out->ai_socktype = SOCK_STREAM;
  out->ai_protocol = IPPROTO_TCP;
  out->ai_addrlen = static_cast<socklen_t>(size);
  out->ai_addr = raw;
  raw->sa_family = static_cast<sa_family_t>(out->ai_family);
  if (six) {
    auto* const v6 = reinterpret_cast<sockaddr_in6*>(raw);
    v6->sin6_port = htons(port);
    ::inet_pton(AF_INET6, address.c_str(), &v6->sin6_addr);
  } else {
    auto* const v4 = reinterpret_cast<sockaddr_in*>(raw);
    v4->sin_port = htons(port);
    ::inet_pton(AF_INET, address.c_str(), &v4->sin_addr);
  }
  return out;
}

}  // namespace

extern "C" int getaddrinfo(const char* node,
                           const char* service,
                           const addrinfo* /*hints*/,
                           addrinfo** out) {
  if (std::string(node) != "rebinding.example") {
    return EAI_NONAME;
  }
  const std::size_t lookup = std::min(g_lookups.fetch_add(1), g_answers.size() - 1);
  addrinfo** end = out;
  for (const std::string& address : g_answers[lookup]) {
    *end = entry(address, static_cast<std::uint16_t>(std::stoi(service)));
    end = &(*end)->ai_next;
  }
  return 0;
}

extern "C" void freeaddrinfo(addrinfo* list) {
  while (list != nullptr) {
    addrinfo* const next = list->ai_next;
    std::free(list->ai_addr);
    std::free(list);
    list = next;
  }
}

namespace audiogen::test {
namespace {

using Answer = Result<http::ClientResponse, http::ClientError>;

// Public by its range, and nobody is there.
constexpr const char* kPublicNobody = "2d00::1";

Answer fetch(std::uint16_t port, http::Reach reach, std::vector<IpNetwork> deny = {}) {
  http::Client client({.deny = std::move(deny)});
  std::promise<Answer> promise;
  http::ClientRequest request;
  request.url = "http://rebinding.example:" + std::to_string(port) + "/";
  request.reach = reach;
  request.connect_timeout = 10s;
  request.total_timeout = 30s;
  client.start(request, [&](Answer answer) { promise.set_value(std::move(answer)); });
  auto answer = promise.get_future();
  EXPECT_EQ(answer.wait_for(kPatience), std::future_status::ready);
  return answer.get();
}

TEST(Resolver, APublicAddressFirstDoesNotOpenTheWayToAPrivateOne) {
  ProviderDouble canary([](const DoubleCall&) { return DoubleReply{.body = "private"}; });
  // The test's own resolver is the one that is asked, and the canary sings when it may.
  g_answers = {{"127.0.0.1"}};
  const Answer allowed = fetch(canary.port(), http::Reach::kAny);
  ASSERT_TRUE(allowed) << allowed.error().detail;
  ASSERT_EQ(canary.connections(), 1U);

  for (const auto& answers :
       std::vector<std::vector<std::vector<std::string>>>{{{"127.0.0.1"}},
                                                          {{kPublicNobody, "127.0.0.1"}},
                                                          {{kPublicNobody}, {"127.0.0.1"}},
                                                          {{"::1"}},
                                                          {{"::ffff:127.0.0.1"}},
                                                          {{"0.0.0.0"}}}) {
    g_answers = answers;
    g_lookups = 0;
    for (std::size_t i = 0; i < answers.size(); ++i) {
      const Answer answer = fetch(canary.port(), http::Reach::kPublicOnly);
      ASSERT_FALSE(answer);
      if (i + 1 == answers.size()) {
        EXPECT_EQ(answer.error().fault, http::ClientFault::kForbidden) << answer.error().detail;
      }
    }
    EXPECT_EQ(g_lookups.load(), answers.size());
  }
  EXPECT_EQ(canary.connections(), 1U);
}

// A proxy would look the name up again: it gets the address that was checked, once.
TEST(Resolver, AProxyIsToldTheAddressNotTheName) {
  const ConnectProxy proxy;
  const GoingOut out({.proxy = proxy.url()});
  g_answers = {{"8.8.8.8"}, {"127.0.0.1"}};
  g_lookups = 0;
  const Answer answer = fetch(81, http::Reach::kPublicOnly);
  ASSERT_TRUE(answer) << answer.error().detail;
  EXPECT_EQ(answer->body, "ok");
  EXPECT_EQ(answer->header("x-proxy"), "") << "of the proxy, not of the answer";
  EXPECT_EQ(g_lookups.load(), 1U);
  ASSERT_EQ(proxy.heads().size(), 2U);
  EXPECT_TRUE(proxy.heads()[0].starts_with("CONNECT 8.8.8.8:81 HTTP/1.1\r\n")) << proxy.heads()[0];
  EXPECT_TRUE(proxy.heads()[1].starts_with("GET / HTTP/1.1\r\nHost: rebinding.example:81\r\n"))
      << proxy.heads()[1];
  for (const char* inside : {"127.0.0.1", "10.0.0.1", "::1", "169.254.169.254"}) {
    g_answers = {{inside}};
    const Answer refused = fetch(81, http::Reach::kPublicOnly);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().fault, http::ClientFault::kForbidden) << inside;
  }
  EXPECT_EQ(proxy.heads().size(), 2U);
}

// Whom a proxy was asked to connect to, in order.
std::vector<std::string> targets(const ConnectProxy& proxy) {
  constexpr std::string_view kConnect = "CONNECT ";
  std::vector<std::string> out;
  for (const std::string& head : proxy.heads()) {
    if (head.starts_with(kConnect)) {
      out.push_back(head.substr(kConnect.size(), head.find(" HTTP/") - kConnect.size()));
    }
  }
  return out;
}

// What libcurl does without a proxy: an address that leads nowhere is not the end.
TEST(Resolver, AProxyIsAskedForOneAddressAfterTheOther) {
  using Strings = std::vector<std::string>;
  struct Case {
    Strings unreachable, addresses, asked;
    const char* outcome;
  };
  for (const auto& [unreachable, addresses, asked, outcome] : std::vector<Case>{
           // A proxy without IPv6, though libcurl would rather have that.
           {{"["}, {"2d00::1", "2d00::2", "8.8.8.8"}, {"8.8.8.8:81"}, "ok"},
           {{"8.8.8.8:"}, {"8.8.8.8", "8.8.4.4", "2d00::1"}, {"8.8.8.8:81", "[2d00::1]:81"}, "ok"},
           {{"8.8.8.8:", "["},
            {"2d00::1", "2d00::2", "8.8.8.8", "8.8.4.4"},
            {"8.8.8.8:81", "[2d00::1]:81", "8.8.4.4:81"},
            "ok"},
           {{"8.8.8.8:"}, {"8.8.8.8", "8.8.4.4"}, {"8.8.8.8:81", "8.8.4.4:81"}, "ok"},
           // What is forbidden takes nothing from what is allowed, and gets nothing from it.
           {{}, {"127.0.0.1", "::1", "8.8.8.8", "10.0.0.1"}, {"8.8.8.8:81"}, "ok"},
           {{"8.8.8.8:"}, {"8.8.8.8", "127.0.0.1", "::1"}, {"8.8.8.8:81"}, "fault"},
           // Not for ever.
           {{"8.8.", "["},
            {"8.8.8.1", "8.8.8.2", "8.8.8.3", "8.8.8.4", "8.8.8.5", "8.8.8.6"},
            {"8.8.8.1:81", "8.8.8.2:81", "8.8.8.3:81", "8.8.8.4:81"},
            "fault"},
       }) {
    const ConnectProxy proxy(unreachable);
    const GoingOut out({.proxy = proxy.url()});
    g_answers = {addresses, {"127.0.0.1"}};
    g_lookups = 0;
    const Answer answer = fetch(81, http::Reach::kPublicOnly);
    EXPECT_EQ(answer ? answer->body : "fault", outcome) << addresses[0];
    EXPECT_EQ(targets(proxy), asked) << addresses[0];
    EXPECT_EQ(g_lookups.load(), 1U);
    if (!answer) {
      EXPECT_EQ(answer.error().fault, http::ClientFault::kNotSent) << answer.error().detail;
    }
  }
}

// What is not heard of after the request has left may have done its work.
TEST(Resolver, ARequestThatLeftByTheProxyIsNotSentAgain) {
  const ConnectProxy proxy({"8.8.8.8:"}, /*mute=*/true);
  const GoingOut out({.proxy = proxy.url()});
  g_answers = {{"8.8.8.8", "8.8.4.4", "8.8.4.5"}};
  const Answer answer = fetch(81, http::Reach::kPublicOnly);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().fault, http::ClientFault::kUnknown) << answer.error().detail;
  EXPECT_EQ(targets(proxy), (std::vector<std::string>{"8.8.8.8:81", "8.8.4.4:81"}));
}

// What an operator denies is refused like what is private, and only that; of what the operator
// configured himself nothing is.
TEST(Resolver, WhatIsDeniedIsNotPublic) {
  const std::vector<IpNetwork> deny = {*IpNetwork::parse("2d00::/64"),
                                       *IpNetwork::parse("127.0.0.0/8")};
  for (const char* inside : {"2d00::1",
                             "2d00::ffff",
                             "168.63.129.16",
                             "64:ff9b::808:808",
                             "64:ff9b:1::808:808",
                             "2002:7f00:1::1",
                             "2001:0:7f00:1::1",
                             "::ffff:127.0.0.1",
                             "::127.0.0.1"}) {
    g_answers = {{inside}};
    const Answer answer = fetch(9, http::Reach::kPublicOnly, deny);
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().fault, http::ClientFault::kForbidden) << inside;
  }
  g_answers = {{"2d00:0:0:1::1"}};
  const Answer outside = fetch(9, http::Reach::kPublicOnly, deny);
  ASSERT_FALSE(outside);
  EXPECT_NE(outside.error().fault, http::ClientFault::kForbidden) << outside.error().detail;
  const ProviderDouble own([](const DoubleCall&) { return DoubleReply{.body = "x"}; });
  g_answers = {{"127.0.0.1"}};
  EXPECT_TRUE(fetch(own.port(), http::Reach::kAny, deny));
}

}  // namespace
}  // namespace audiogen::test
