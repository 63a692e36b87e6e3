// Fetching what requests refer to: only from public addresses, within a budget of memory, and not
// longer than somebody waits for it.
#include "worker/references.h"

#include <future>

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "common/http/unique_fd.h"
#include "tests/support/provider_double.h"
#include "worker/audio/in_process_decoder.h"

namespace audiogen::worker {
namespace {

using namespace std::chrono_literals;
using test::DoubleCall;
using test::DoubleReply;
using test::ProviderDouble;
using testing::HasSubstr;
using Kind = ReferenceFault::Kind;
using Fetched = Result<std::shared_ptr<const References>, ReferenceFault>;

class Fetching : public testing::Test {
 protected:
  struct Open {
    std::shared_ptr<ProviderCall> call;
    std::future<Fetched> answer;
    Fetched wait() { return answer.get(); }
  };
  Open fetch(ReferenceFetcher& fetcher,
             const std::vector<std::string>& urls,
             bool keep = false,
             std::chrono::seconds time = 30s) {
    auto request = std::make_shared<GenerationRequest>();
    request->audio_references = urls;
    auto promise = std::make_shared<std::promise<Fetched>>();
    Open out;
    out.answer = promise->get_future();
    out.call = fetcher.fetch(
        request, keep, std::chrono::steady_clock::now() + time, [promise](Fetched got) {
          promise->set_value(std::move(got));
        });
    return out;
  }

  http::Client client_;
  InProcessDecoder decoder_;
  Pool codecs_{2, 100};
};

DoubleReply sound(const DoubleCall&) {
  return {.body = test::tone_wav(1.0)};
}

TEST_F(Fetching, KeepsTheBytesOnlyWhereSomebodySendsThem) {
  const ProviderDouble files(sound);
  ReferenceFetcher fetcher(client_, decoder_, codecs_, http::Reach::kAny);
  const auto kept = fetch(fetcher, {files.url() + "/a", files.url() + "/b"}, true).wait();
  ASSERT_TRUE(kept) << kept.error().message;
  ASSERT_EQ((*kept)->sounds.size(), 2U);
  EXPECT_EQ((*kept)->sounds[1].bytes, test::tone_wav(1.0));
  EXPECT_NEAR((*kept)->sounds[1].traits.seconds, 1.0, 1e-9);
  const auto dropped = fetch(fetcher, {files.url() + "/a"}).wait();
  ASSERT_TRUE(dropped);
  EXPECT_TRUE((*dropped)->sounds[0].bytes.empty());
}

// Row 112 of the fault plan: every spelling of an address that is not public.
TEST_F(Fetching, NeverConnectsToAnAddressThatIsNotPublic) {
  const http::UniqueFd canary(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in6 any{};
  any.sin6_family = AF_INET6;
  socklen_t size = sizeof any;
  ASSERT_EQ(::bind(canary.get(), reinterpret_cast<sockaddr*>(&any), size), 0);
  ASSERT_EQ(::listen(canary.get(), 64), 0);
  ASSERT_EQ(::getsockname(canary.get(), reinterpret_cast<sockaddr*>(&any), &size), 0);
  const std::string port = ":" + std::to_string(ntohs(any.sin6_port));
  ReferenceFetcher fetcher(client_, decoder_, codecs_, http::Reach::kPublicOnly);
  for (const std::string host : {"127.0.0.1",
                                 "localhost",
                                 "2130706433",
                                 "0x7f.1",
                                 "127.1",
                                 "0177.0.0.1",
                                 "0.0.0.0",
                                 "[::1]",
                                 "[::]",
                                 "[::ffff:127.0.0.1]",
                                 "[64:ff9b::7f00:1]",
                                 "[2002:7f00:1::]",
                                 "127.0.0.1.",
                                 "user@127.0.0.1",
                                 "169.254.169.254",
                                 "10.0.0.1",
                                 "192.168.1.1"}) {
    for (const std::string& where : {host + port, host}) {
      const auto got = fetch(fetcher, {"http://" + where + "/a.wav"}).wait();
      ASSERT_FALSE(got) << where;
      EXPECT_EQ(got.error().kind, Kind::kUnusable);
      EXPECT_EQ(got.error().message,
                "audio_references[0] cannot be used: its address is not public.")
          << where;
    }
  }
  for (const char* url : {"file:///etc/passwd", "gopher://example.com/", "ftp://example.com/a"}) {
    EXPECT_FALSE(fetch(fetcher, {url}).wait()) << url;
  }
  EXPECT_LT(::accept(canary.get(), nullptr, nullptr), 0) << "somebody connected";
}

TEST_F(Fetching, MoreThanTheBudgetWaitsForItsTurn) {
  const ProviderDouble files(
      [](const DoubleCall&) { return DoubleReply{.form = DoubleReply::Form::kHang}; });
  ReferenceFetcher fetcher(client_, decoder_, codecs_, http::Reach::kAny);
  constexpr std::size_t kFit = ReferenceFetcher::kBytesAtOnce / (3 * ReferenceFetcher::kBytesEach);
  std::vector<Open> open;
  for (std::size_t i = 0; i < kFit + 2; ++i) {
    open.push_back(fetch(fetcher, {files.url(), files.url(), files.url()}));
  }
  ASSERT_TRUE(files.wait_until([&] { return files.call_count() == 3 * kFit; }));
  open[kFit].call->cancel();  // One that waits.
  EXPECT_EQ(open[kFit].wait().error().kind, Kind::kCanceled);
  EXPECT_EQ(files.call_count(), 3 * kFit);
  open[0].call->cancel();  // One at work: its share goes to the next.
  EXPECT_EQ(open[0].wait().error().kind, Kind::kCanceled);
  EXPECT_TRUE(files.wait_until([&] { return files.call_count() == 3 * kFit + 3; }));
}

TEST_F(Fetching, EndsWithItsDeadlineAndWithTheFetcher) {
  const ProviderDouble files(
      [](const DoubleCall&) { return DoubleReply{.form = DoubleReply::Form::kHang}; });
  Open late;
  {
    ReferenceFetcher fetcher(client_, decoder_, codecs_, http::Reach::kAny);
    const auto got = fetch(fetcher, {files.url()}, false, 1s).wait();
    ASSERT_FALSE(got);
    EXPECT_THAT(got.error().message, HasSubstr("did not deliver it in time"));
    late = fetch(fetcher, {files.url()});
    ASSERT_TRUE(files.wait_until([&] { return files.call_count() == 2; }));
  }
  EXPECT_EQ(late.wait().error().kind, Kind::kCanceled);
}

}  // namespace
}  // namespace audiogen::worker
