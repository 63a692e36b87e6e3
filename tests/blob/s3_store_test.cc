// The S3 store against a service that checks every signature and fails on command.
#include "common/blob/s3_store.h"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <curl/curl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "common/base/check.h"
#include "common/base/crypto.h"
#include "common/base/unique_fd.h"
#include "common/blob/blob_key.h"
#include "tests/support/connect_proxy.h"
#include "tests/support/s3_double.h"
#include "tests/support/wait.h"

namespace audiogen {
namespace {

using namespace std::chrono_literals;
using Fault = test::S3Double::Fault;
using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

// The double's own arithmetic, against the examples in Amazon's S3 API reference ("Signature
// Calculations for the Authorization Header").
TEST(S3Signature, PublishedExamples) {
  const std::string secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
  const std::string date = "20130524T000000Z";
  const std::string host = "examplebucket.s3.amazonaws.com";
  const std::string nothing = to_hex(sha256(""));
  EXPECT_EQ(test::s3_signature({.method = "GET",
                                .path = "/test.txt",
                                .query = "",
                                .headers = {{"host", host},
                                            {"range", "bytes=0-9"},
                                            {"x-amz-content-sha256", nothing},
                                            {"x-amz-date", date}},
                                .payload_hash = nothing,
                                .date = date},
                               "us-east-1",
                               secret),
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
  const std::string body = to_hex(sha256("Welcome to Amazon S3."));
  EXPECT_EQ(test::s3_signature({.method = "PUT",
                                .path = "/test%24file.text",
                                .query = "",
                                .headers = {{"date", "Fri, 24 May 2013 00:00:00 GMT"},
                                            {"host", host},
                                            {"x-amz-content-sha256", body},
                                            {"x-amz-date", date},
                                            {"x-amz-storage-class", "REDUCED_REDUNDANCY"}},
                                .payload_hash = body,
                                .date = date},
                               "us-east-1",
                               secret),
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
}

// No attempt of a service that answers ends by its time, however long this machine stands still.
constexpr S3Limits kPatient{.total = 300s, .attempt = 120s, .connect = 60s, .first_pause = 5ms};
// Its first pause is longer than its time.
constexpr S3Limits kOnce{.total = 60s, .attempt = 60s, .connect = 60s, .first_pause = 600s};
// For a service that does not answer.
constexpr S3Limits kHasty{.total = 60s, .attempt = 200ms, .connect = 60s, .first_pause = 5ms};

class S3StoreTest : public testing::Test {
 protected:
  S3Store store(const std::string& query = "region=eu-west-3",
                const S3Credentials& credentials = {"id", "hush"},
                const std::string& bucket = "audio",
                const S3Limits& limits = kPatient) {
    return S3Store(
        *parse_s3_url("s3://" + bucket + "?" + query + "&endpoint=" + double_.endpoint()),
        credentials,
        limits);
  }
  std::string failure(S3Store store) const { return store.put(key_, "audio").error().message; }

  const std::string key_ = make_blob_name(TaskId::make(), OutputFormat::kPcm, 44100);
  test::S3Double double_{"audio", "eu-west-3", {"id", "hush"}};
};

TEST_F(S3StoreTest, SendsTheMediaType) {
  auto s3 = store();
  for (const auto format :
       {OutputFormat::kMp3, OutputFormat::kWav, OutputFormat::kPcm, OutputFormat::kOggOpus}) {
    const std::string key = make_blob_name(TaskId::make(), format, 44100);
    const auto stored = s3.put(key, "audio");
    ASSERT_TRUE(stored) << stored.error().message;
    EXPECT_EQ(double_.object(key)->content_type, blob_content_type(key));
  }
}

// Credentials of a role end by themselves, and are none without the third of them.
TEST(S3SessionToken, IsSentAndSigned) {
  test::S3Double service("audio", "eu-west-3", {"id", "hush", "token/+=="});
  const auto put = [&](const S3Credentials& credentials) {
    S3Store store(*parse_s3_url("s3://audio?region=eu-west-3&endpoint=" + service.endpoint()),
                  credentials,
                  kPatient);
    const auto stored =
        store.put(make_blob_name(TaskId::make(), OutputFormat::kPcm, 44100), "audio");
    return stored ? "" : stored.error().message;
  };
  EXPECT_EQ(put({"id", "hush", "token/+=="}), "");
  EXPECT_THAT(put({"id", "hush", "another"}),
              AllOf(HasSubstr("InvalidToken: check AWS_SESSION_TOKEN"), Not(HasSubstr("another"))));
  EXPECT_THAT(put({"id", "hush"}), HasSubstr("InvalidToken"));
  EXPECT_EQ(service.objects(), 1U);
}

// The setting holds for all calls that go out. The name is nobody's: only the proxy can know it.
TEST(S3Egress, GoesOutAsTheProcessDoes) {
  const std::string key = make_blob_name(TaskId::make(), OutputFormat::kPcm, 44100);
  const auto store = [](const std::string& endpoint, const S3Limits& limits = kPatient) {
    return S3Store(
        *parse_s3_url("s3://audio?region=eu-west-3&endpoint=" + endpoint), {"id", "hush"}, limits);
  };
  const test::ConnectProxy proxy;
  {
    const test::GoingOut out({.user_agent = "audiogen/9", .proxy = proxy.url()});
    S3Store plain = store("http://storage.invalid");
    EXPECT_TRUE(plain.put(key, "audio"));
    EXPECT_TRUE(plain.remove(key));
    ASSERT_EQ(proxy.heads().size(), 2U);
    EXPECT_THAT(proxy.heads()[0],
                AllOf(testing::StartsWith("PUT http://storage.invalid/audio/"),
                      HasSubstr("User-Agent: audiogen/9")));
    EXPECT_THAT(proxy.heads()[1], testing::StartsWith("DELETE http://storage.invalid/audio/"));
    EXPECT_FALSE(store("https://storage.invalid", kOnce).put(key, "audio"))
        << "that one has no TLS";
    ASSERT_GT(proxy.heads().size(), 2U);
    EXPECT_THAT(proxy.heads()[2], testing::StartsWith("CONNECT storage.invalid:443"));
  }
  const std::size_t before = proxy.heads().size();
  const test::S3Double service("audio", "eu-west-3", {"id", "hush"});
  const test::GoingOut out({.user_agent = "", .proxy = proxy.url(), .direct = "127.0.0.1"});
  EXPECT_TRUE(store(service.endpoint()).put(key, "audio")) << "an address that it is not for";
  EXPECT_EQ(proxy.heads().size(), before);
}

TEST_F(S3StoreTest, KeepsItsConnection) {
  auto s3 = store();
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(s3.put(key_, "audio"));
    ASSERT_TRUE(s3.remove(key_));
    EXPECT_EQ(double_.connections(), 1U);
  }
  EXPECT_EQ(double_.requests(), 40);
}

TEST_F(S3StoreTest, ARefusalIsToldAtOnceAndSaysWhatToCheck) {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {failure(store("region=eu-west-3", {"id", "wrong hush"})), "check AWS_SECRET_ACCESS_KEY"},
      {failure(store("region=eu-west-3", {"stranger", "hush"})), "check AWS_ACCESS_KEY_ID"},
      {failure(store("region=us-east-1")), "check the region in BLOB_URL"},
      {failure(store("region=eu-west-3", {"id", "hush"}, "elsewhere")),
       "check the bucket in BLOB_URL"},
  };
  for (const auto& [message, hint] : rows) {
    EXPECT_THAT(
        message,
        AllOf(HasSubstr("S3 store: PUT: HTTP 40"), HasSubstr(hint), Not(HasSubstr("hush"))));
  }
  EXPECT_EQ(double_.requests(), static_cast<int>(rows.size()));
  double_.fail_next({Fault::kSkewed});
  EXPECT_THAT(failure(store()), HasSubstr("RequestTimeTooSkewed: check this machine's clock"));
  double_.fail_next({Fault::kRejectPayload});
  EXPECT_EQ(failure(store()), "S3 store: PUT: HTTP 400");
  EXPECT_EQ(double_.objects(), 0U);
}

// A limit of the service, or of what stands before it, which answers without a document.
TEST_F(S3StoreTest, WhatIsTooLargeSaysNothingOfOthers) {
  const auto refused_alone = [&](Fault fault) {
    double_.fail_next({fault});
    const int before = double_.requests();
    const auto stored = store().put(key_, "audio");
    EXPECT_EQ(double_.requests(), before + 1) << "sent again";
    return !stored && stored.error().of_this_blob;
  };
  EXPECT_TRUE(refused_alone(Fault::kTooLarge));
  EXPECT_TRUE(refused_alone(Fault::kEntityTooLarge));
  EXPECT_FALSE(refused_alone(Fault::kRejectPayload));
  EXPECT_FALSE(refused_alone(Fault::kSkewed));
}

TEST_F(S3StoreTest, RetriesWhatMayPass) {
  auto s3 = store();
  for (const auto& faults : std::vector<std::vector<Fault>>{
           {Fault::kUnavailable, Fault::kUnavailable}, {Fault::kTooMany}, {Fault::kTruncated}}) {
    const int before = double_.requests();
    double_.fail_next(faults);
    const auto stored = s3.put(key_, "audio");
    ASSERT_TRUE(stored) << stored.error().message;
    EXPECT_EQ(double_.requests() - before, static_cast<int>(faults.size()) + 1);
    EXPECT_EQ(double_.object(key_)->bytes, "audio");
    double_.fail_next(faults);
    EXPECT_TRUE(s3.remove(key_));
    EXPECT_EQ(double_.objects(), 0U);
  }
}

// By its own limit for one attempt, long before that for all of them.
TEST_F(S3StoreTest, RetriesWhatIsNotAnswered) {
  auto s3 = store("region=eu-west-3", {"id", "hush"}, "audio", kHasty);
  double_.fail_next({Fault::kSilent});
  const auto stored = s3.put(key_, "audio");
  ASSERT_TRUE(stored) << stored.error().message;
  EXPECT_GE(double_.requests(), 2);
  EXPECT_EQ(double_.object(key_)->bytes, "audio");
  const int before = double_.requests();
  double_.fail_next({Fault::kSilent});
  EXPECT_TRUE(s3.remove(key_));
  EXPECT_GE(double_.requests(), before + 2);
  EXPECT_EQ(double_.objects(), 0U);
}

// The last attempt gets what is left of the time, so that it may end by that instead of an answer.
TEST_F(S3StoreTest, GivesUpInTime) {
  constexpr S3Limits kShort{.total = 500ms, .attempt = 200ms, .connect = 200ms, .first_pause = 5ms};
  auto s3 = store("region=eu-west-3", {"id", "hush"}, "audio", kShort);
  constexpr int kFaults = 100;  // Ten times what there is time for: after them it would be taken.
  for (const Fault fault : {Fault::kUnavailable, Fault::kSilent}) {
    const int before = double_.requests();
    double_.fail_next(std::vector<Fault>(kFaults, fault));
    const auto began = std::chrono::steady_clock::now();
    const auto stored = s3.put(key_, "audio");
    const auto took = std::chrono::steady_clock::now() - began;
    ASSERT_FALSE(stored);
    EXPECT_GT(took, 150ms) << "gave up early";
    EXPECT_LT(double_.requests() - before, kFaults) << "it would have gone on";
    const auto timeout = HasSubstr("Timeout");
    if (fault == Fault::kSilent) {
      EXPECT_THAT(stored.error().message, timeout);
    } else {
      EXPECT_THAT(stored.error().message, AnyOf(HasSubstr("HTTP 503 SlowDown"), timeout));
    }
  }
}

// Over a line of 15 Mbit/s what had more than nine megabytes never came through: it was cut off,
// however much still flowed, and the whole store counted as down.
TEST_F(S3StoreTest, ALargeBodyHasLonger) {
  constexpr S3Limits kBySize{.total = 60s,
                             .attempt = 200ms,
                             .connect = 60s,
                             .first_pause = 5ms,
                             .slowest = 1000,
                             .still = 600s};
  auto s3 = store("region=eu-west-3", {"id", "hush"}, "audio", kBySize);
  const std::string small = make_blob_name(TaskId::make(), OutputFormat::kPcm, 44100);
  const std::string body(1'000'000, 'x');  // Which may take a thousand seconds.
  double_.fail_next({Fault::kLate});
  std::thread putting([&] {
    const auto stored = s3.put(key_, body);
    EXPECT_TRUE(stored) << stored.error().message;
  });
  EXPECT_TRUE(test::eventually(60s, [&] { return double_.requests_for(key_) == 1; }));
  // Meanwhile the time of a small one passes, three times.
  double_.fail_next({Fault::kSilent, Fault::kSilent, Fault::kSilent});
  EXPECT_TRUE(s3.put(small, "audio"));
  EXPECT_GE(double_.requests_for(small), 4);
  double_.let_go();
  putting.join();
  EXPECT_EQ(double_.requests_for(key_), 1) << "it was cut off, and sent once more";
  EXPECT_EQ(double_.object(key_)->bytes, body);
  EXPECT_EQ(s3.put_shape().time_for(body.size()), 1000s) << "whoever waits for it is told";
}

// By whoever offered it: its job is lost, or its worker is to end.
TEST_F(S3StoreTest, APutThatIsNotWantedAnyMoreEnds) {
  constexpr S3Limits kLong{.total = 60s, .attempt = 20s, .connect = 20s, .first_pause = 20s};
  auto s3 = store("region=eu-west-3", {"id", "hush"}, "audio", kLong);
  std::atomic<bool> wanted{true};
  double_.fail_next({Fault::kSilent});
  std::thread putting([&] {
    const NewBlob blob{key_, "audio", [&] { return wanted.load(); }};
    const auto stored = s3.put({&blob, 1});
    ASSERT_FALSE(stored.front());
    EXPECT_TRUE(stored.front().error().unwanted);
    EXPECT_THAT(stored.front().error().message,
                HasSubstr(::curl_easy_strerror(CURLE_ABORTED_BY_CALLBACK)));
  });
  EXPECT_TRUE(test::eventually(60s, [&] { return double_.requests() == 1; }));
  wanted = false;
  putting.join();
  EXPECT_EQ(double_.requests(), 1);
}

// While the service is silent, and while the next attempt waits for its time.
TEST_F(S3StoreTest, NobodyWaitsForARemovalThatIsToEnd) {
  constexpr S3Limits kLong{.total = 60s, .attempt = 20s, .connect = 20s, .first_pause = 20s};
  auto s3 = store("region=eu-west-3", {"id", "hush"}, "audio", kLong);
  const auto ended = HasSubstr(::curl_easy_strerror(CURLE_ABORTED_BY_CALLBACK));
  for (const Fault fault : {Fault::kSilent, Fault::kUnavailable}) {
    const int before = double_.requests();
    double_.fail_next({fault});
    std::jthread remover([&](const std::stop_token& stop) {
      const auto removed = s3.remove(key_, stop);
      ASSERT_FALSE(removed);
      EXPECT_THAT(removed.error().message, AnyOf(ended, HasSubstr("HTTP 503 SlowDown")));
    });
    EXPECT_TRUE(test::eventually(60s, [&] { return double_.requests() > before; }));
    remover.request_stop();
    remover.join();
    EXPECT_EQ(double_.requests(), before + 1);
  }
}

// Before the store is asked.
TEST_F(S3StoreTest, AProxyOfTheEnvironmentIsNotUsed) {
  for (const char* name : {"http_proxy", "https_proxy", "all_proxy", "ALL_PROXY"}) {
    ASSERT_EQ(setenv(name, "http://127.0.0.1:9", 1), 0);  // Nobody listens there.
  }
  auto s3 = store();
  const auto stored = s3.put(key_, "audio");
  for (const char* name : {"http_proxy", "https_proxy", "all_proxy", "ALL_PROXY"}) {
    unsetenv(name);
  }
  EXPECT_TRUE(stored) << stored.error().message;
  EXPECT_EQ(double_.requests(), 1);
}

// A service to which anybody can connect, and that takes nothing of what he says.
class Deaf {
 public:
  Deaf() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const raw = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof address;
    const int little = 4096;  // Bytes that the system takes for it.
    AG_CHECK(::setsockopt(listener_.get(), SOL_SOCKET, SO_RCVBUF, &little, sizeof little) == 0);
    AG_CHECK(::bind(listener_.get(), raw, size) == 0);
    AG_CHECK(::listen(listener_.get(), 16) == 0);
    AG_CHECK(::getsockname(listener_.get(), raw, &size) == 0);
    endpoint_ = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  }

  const std::string& endpoint() const { return endpoint_; }
  // Who have connected so far.
  std::size_t callers() {
    for (;;) {
      UniqueFd caller(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!caller) {
        return callers_.size();
      }
      callers_.push_back(std::move(caller));
    }
  }

 private:
  const UniqueFd listener_{::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
  std::string endpoint_;
  std::vector<UniqueFd> callers_;
};

// The time that its size gives it is for what flows.
TEST(S3StoreAlone, WhatStandsStillIsNotTakenForSlow) {
  constexpr S3Limits kSlow{
      .total = 120s, .attempt = 120s, .connect = 60s, .first_pause = 5ms, .still = 200ms};
  Deaf service;
  S3Store store(*parse_s3_url("s3://audio?endpoint=" + service.endpoint()), {"id", "hush"}, kSlow);
  const std::string name = make_blob_name(TaskId::make(), OutputFormat::kWav, 8000);
  const std::string body(std::size_t{32} << 20, 'x');  // More than lies between the two.
  std::atomic<bool> wanted{true};
  std::thread putting([&] {
    const NewBlob blob{name, body, [&] { return wanted.load(); }};
    EXPECT_FALSE(store.put({&blob, 1}).front());
  });
  EXPECT_TRUE(test::eventually(60s, [&] { return service.callers() >= 3; }))
      << "it is not offered again";
  wanted = false;
  putting.join();
}

TEST(S3StoreAlone, NobodyListensIsAnError) {
  S3Store store(*parse_s3_url("s3://audio?endpoint=http://127.0.0.1:1"), {"id", "hush"}, kOnce);
  const auto stored = store.put(make_blob_name(TaskId::make(), OutputFormat::kMp3, 8000), "audio");
  ASSERT_FALSE(stored);
  EXPECT_EQ(stored.error().message,
            std::string("S3 store: PUT: ") + ::curl_easy_strerror(CURLE_COULDNT_CONNECT));
}

}  // namespace
}  // namespace audiogen
