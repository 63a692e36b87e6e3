// Fetching what requests refer to: only from public addresses, within a budget of memory, and not
// longer than somebody waits for it.
#include "worker/job/references.h"

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <future>
#include <mutex>
#include <thread>

#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/unique_fd.h"
#include "tests/support/closed_port.h"
#include "tests/support/provider_double.h"
#include "tests/support/wait.h"
#include "worker/audio/in_process_decoder.h"
#include "worker/job/byte_share.h"
#include "worker/job/spool.h"

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
    bool ended() const { return answer.wait_for(0s) == std::future_status::ready; }
  };
  Open fetch(ReferenceFetcher& fetcher,
             const std::vector<std::string>& urls,
             bool keep = false,
             const UserId& user = UserId::make(),
             std::chrono::seconds time = 10min) {
    auto request = std::make_shared<GenerationRequest>();
    request->audio_references = urls;
    auto promise = std::make_shared<std::promise<Fetched>>();
    Open out;
    out.answer = promise->get_future();
    out.call = fetcher.fetch(
        user, request, keep, std::chrono::steady_clock::now() + time, [promise](Fetched got) {
          promise->set_value(std::move(got));
        });
    return out;
  }

  InProcessDecoder decoder_;
  Pool codecs_{2, 100};
};

DoubleReply sound(const DoubleCall&) {
  return {.body = test::tone_wav(1.0)};
}

TEST_F(Fetching, KeepsTheBytesOnlyWhereSomebodySendsThem) {
  const ProviderDouble files(sound);
  ReferenceFetcher fetcher(decoder_, codecs_, http::Reach::kAny);
  const auto kept = fetch(fetcher, {files.url() + "/a", files.url() + "/b"}, true).wait();
  ASSERT_TRUE(kept) << kept.error().message;
  ASSERT_EQ((*kept)->sounds.size(), 2U);
  EXPECT_EQ((*kept)->sounds[1].bytes, test::tone_wav(1.0));
  EXPECT_NEAR((*kept)->sounds[1].traits.seconds, 1.0, 1e-9);
  const auto dropped = fetch(fetcher, {files.url() + "/a"}).wait();
  ASSERT_TRUE(dropped);
  EXPECT_TRUE((*dropped)->sounds[0].bytes.empty());
}

TEST_F(Fetching, NamesTheSampleRatesThatAreTaken) {
  const ProviderDouble files(
      [](const DoubleCall&) { return DoubleReply{.body = test::tone_wav(1.0, 7999)}; });
  ReferenceFetcher fetcher(decoder_, codecs_, http::Reach::kAny);
  const auto got = fetch(fetcher, {files.url() + "/a"}).wait();
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().message,
            "audio_references[0] cannot be used: its sample rate is not between 8 and 96 kHz.");
}

// Every spelling of an address that is not public.
TEST_F(Fetching, NeverConnectsToAnAddressThatIsNotPublic) {
  // Of both families, or of the one that there is.
  constexpr int kType = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
  UniqueFd canary(::socket(AF_INET6, kType, 0));
  sockaddr_in6 any{};
  any.sin6_family = AF_INET6;
  if (!canary) {
    canary = UniqueFd(::socket(AF_INET, kType, 0));
    any.sin6_family = AF_INET;
  }
  socklen_t size = sizeof any;
  ASSERT_EQ(::bind(canary.get(), reinterpret_cast<sockaddr*>(&any), size), 0);
  ASSERT_EQ(::listen(canary.get(), 64), 0);
  ASSERT_EQ(::getsockname(canary.get(), reinterpret_cast<sockaddr*>(&any), &size), 0);
  const std::string port = ":" + std::to_string(ntohs(any.sin6_port));  // Of either family.
  ReferenceFetcher fetcher(decoder_, codecs_, http::Reach::kPublicOnly);
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
      EXPECT_EQ(
          got.error().message,
          "audio_references[0] cannot be used: it could not be fetched from a public address.")
          << where;
    }
  }
  for (const char* url : {"file:///etc/passwd", "gopher://example.com/", "ftp://example.com/a"}) {
    EXPECT_FALSE(fetch(fetcher, {url}).wait()) << url;
  }
  EXPECT_LT(::accept(canary.get(), nullptr, nullptr), 0) << "somebody connected";
}

// An address that everybody takes for public, on a loopback interface of this process's own. For a
// process with one thread, which cannot go back. False where the kernel does not let it.
bool live_at_a_public_address(const char* address) {
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
    return false;
  }
  const UniqueFd any(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const auto set = [&any](const char* name, unsigned long what, const char* to, short flags) {
    ifreq request{};
    std::snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    if (to != nullptr) {
      auto* const in = reinterpret_cast<sockaddr_in*>(&request.ifr_addr);
      in->sin_family = AF_INET;
      ::inet_pton(AF_INET, to, &in->sin_addr);
    } else {
      request.ifr_flags = flags;
    }
    return ::ioctl(any.get(), what, &request) == 0;
  };
  return set("lo", SIOCSIFFLAGS, nullptr, IFF_UP | IFF_RUNNING) &&
         set("lo:1", SIOCSIFADDR, address, 0) && set("lo:1", SIOCSIFNETMASK, "255.255.255.255", 0);
}

// On the port that references may name.
UniqueFd listen_at(const char* address) {
  UniqueFd out(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(80);
  ::inet_pton(AF_INET, address, &at.sin_addr);
  const bool listens = ::bind(out.get(), reinterpret_cast<sockaddr*>(&at), sizeof at) == 0 &&
                       ::listen(out.get(), 64) == 0;
  return listens ? std::move(out) : UniqueFd();
}

// Runs in a process of its own. 0: refused, and nobody was asked for it on the private side.
int follow_a_redirect_to(const std::string& target_host) {
  constexpr const char* kPublic = "11.0.0.1";
  if (!live_at_a_public_address(kPublic)) {
    return 77;
  }
  const UniqueFd server = listen_at(kPublic), canary = listen_at("127.0.0.1");
  if (!server || !canary) {
    return 4;
  }
  ::fcntl(canary.get(), F_SETFL, O_NONBLOCK);
  std::atomic<int> asked{0};
  std::thread redirects([&] {
    while (const UniqueFd client{::accept(server.get(), nullptr, nullptr)}) {
      std::string head;
      for (char byte = 0; !head.ends_with("\r\n\r\n") && ::read(client.get(), &byte, 1) == 1;) {
        head.push_back(byte);
      }
      ++asked;
      const std::string answer = "HTTP/1.1 302 Found\r\nLocation: http://" + target_host +
                                 "/a.wav\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
      static_cast<void>(::send(client.get(), answer.data(), answer.size(), MSG_NOSIGNAL));
    }
  });
  int result = 1;
  {
    InProcessDecoder decoder;
    Pool codecs{2, 100};
    ReferenceFetcher fetcher(decoder, codecs, http::Reach::kPublicOnly);
    auto request = std::make_shared<GenerationRequest>();
    request->audio_references = {"http://" + std::string(kPublic) + "/a.wav"};
    std::promise<Fetched> promise;
    const auto call = fetcher.fetch(
        UserId::make(), request, false, std::chrono::steady_clock::now() + 10min, [&](Fetched got) {
          promise.set_value(std::move(got));
        });
    const Fetched got = promise.get_future().get();
    if (asked == 0) {
      result = 2;  // The first hop was to be followed.
    } else if (::accept(canary.get(), nullptr, nullptr) >= 0) {
      result = 3;
    } else if (!got && got.error().kind == Kind::kUnusable) {
      result = 0;
    }
  }
  ::shutdown(server.get(), SHUT_RDWR);
  redirects.join();
  return result;
}

// Every hop is judged, not only the address that the client gave.
TEST(Redirects, FromAPublicAddressDoNotLeadToAPrivateOne) {
  for (const char* const target : {"127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0"}) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::_exit(follow_a_redirect_to(target));
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status)) << status;
    if (WEXITSTATUS(status) == 77) {
      GTEST_SKIP() << "this kernel lets nobody have a network of his own";
    }
    EXPECT_EQ(WEXITSTATUS(status), 0)
        << target
        << ": 1 it was taken, 2 the first hop was refused, 3 somebody connected inside, "
           "4 nobody can listen";
  }
}

DoubleReply hang(const DoubleCall&) {
  return {.form = DoubleReply::Form::kHang};
}

// Takes minutes, and is never so slow that it would be given up.
DoubleReply trickle(const DoubleCall&) {
  static const std::string file = test::tone_wav(25);
  return {.headers = {"Content-Type: audio/wav"},
          .body = file,
          .form = DoubleReply::Form::kDrip,
          .drip_every = std::chrono::milliseconds(100),
          .drip_bytes = 1024};
}

// Of a fetcher that gives neither of them up before its test has ended, nor asks for it once more.
ReferenceLimits patient(std::size_t tasks_max, std::size_t waiting_max) {
  return {.tasks_max = tasks_max, .waiting_max = waiting_max, .time_max = 10min, .slow_for = 10min};
}

// What a client cannot tell apart: an address that is not public, a name that nobody has, a port
// where nobody listens. Each is asked for twice.
TEST_F(Fetching, SaysTheSameOfWhatIsNotPublicAndWhatIsNotThere) {
  const test::ClosedPort closed;
  ReferenceFetcher fetcher(decoder_, codecs_, http::Reach::kAny);
  ReferenceFetcher guarded(decoder_, codecs_, http::Reach::kPublicOnly);
  const auto nobody = fetch(fetcher, {closed.url() + "/a"}).wait();
  const auto unknown = fetch(fetcher, {"http://no-such-host.invalid/a"}).wait();
  const auto inside = fetch(guarded, {"http://10.0.0.1/a"}).wait();
  for (const auto* const got : {&nobody, &unknown, &inside}) {
    ASSERT_FALSE(*got);
    EXPECT_EQ(got->error().kind, Kind::kUnusable);
    EXPECT_EQ(got->error().message,
              "audio_references[0] cannot be used: it could not be fetched from a public address.");
  }
}

// One user's servers that never answer leave room for others, and for tasks of others that wait.
TEST_F(Fetching, OneUserHasAQuarterOfTheTurnsAndOneHostHalf) {
  const ProviderDouble slow(hang);
  const ProviderDouble good(sound);
  ReferenceFetcher fetcher(decoder_, codecs_, http::Reach::kAny, patient(8, 16));
  const UserId ann = UserId::make();
  std::vector<Open> open;
  for (int i = 0; i < 6; ++i) {
    open.push_back(fetch(fetcher, {slow.url()}, false, ann));
  }
  // Two tasks begin; four wait. What would be one too many is refused, not before a while.
  ASSERT_TRUE(slow.wait_until([&] { return slow.call_count() == 2; }));
  const auto refused = fetch(fetcher, {slow.url()}, false, ann).wait();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, Kind::kBusy);
  EXPECT_GE(refused.error().after, 1s);
  const auto next = fetch(fetcher, {slow.url()}, false, ann).wait();
  EXPECT_GT(next.error().after, refused.error().after - 100ms) << "they come back in their order";
  // Others of the same host get what is left of its six files, and no more.
  for (int i = 0; i < 5; ++i) {
    open.push_back(fetch(fetcher, {slow.url()}));
  }
  ASSERT_TRUE(slow.wait_until([&] { return slow.call_count() == 6; }));
  EXPECT_TRUE(fetch(fetcher, {good.url(), good.url()}).wait()) << "another host's turn";
  EXPECT_TRUE(fetch(fetcher, {good.url()}).wait());
  EXPECT_EQ(slow.call_count(), 6U);
  open[0].call->cancel();
  EXPECT_EQ(open[0].wait().error().kind, Kind::kCanceled);
  EXPECT_TRUE(slow.wait_until([&] { return slow.call_count() == 7; })) << "its turn goes on";
  open[5].call->cancel();  // One that waits.
  EXPECT_EQ(open[5].wait().error().kind, Kind::kCanceled);
}

// Four who want much fill the room where tasks wait, most of them behind one host's share.
TEST_F(Fetching, WhoHasNextToNothingThereHasRoom) {
  const ProviderDouble slow(hang);
  const ProviderDouble good(sound);
  ReferenceFetcher fetcher(decoder_, codecs_, http::Reach::kAny, patient(8, 16));
  std::vector<Open> open;
  for (int user = 0; user < 4; ++user) {
    const UserId one = UserId::make();
    for (int i = 0; i < 6; ++i) {
      open.push_back(fetch(fetcher, {slow.url()}, false, one));
    }
  }
  ASSERT_TRUE(slow.wait_until([&] { return slow.call_count() == 6; }));
  const auto others = fetch(fetcher, {good.url()}).wait();
  EXPECT_TRUE(others) << others.error().message;
}

// A user whose tasks have three files each at one host leaves room there for others.
TEST_F(Fetching, OneUserHasHalfOfAHostsFiles) {
  const ProviderDouble shared(
      [](const DoubleCall& call) { return call.target == "/slow" ? trickle(call) : sound(call); });
  ReferenceFetcher fetcher(decoder_, codecs_, http::Reach::kAny, patient(24, 48));
  const UserId ann = UserId::make();
  std::vector<Open> open;
  for (int i = 0; i < 6; ++i) {
    open.push_back(fetch(fetcher, std::vector<std::string>(3, shared.url() + "/slow"), false, ann));
  }
  EXPECT_TRUE(fetch(fetcher, std::vector<std::string>(3, shared.url() + "/a")).wait());
  EXPECT_TRUE(shared.wait_until([&] { return shared.call_count() >= 9; }));
  EXPECT_EQ(shared.call_count(), 9U) << "two of hers are asked for, six files";
}

// Nor does what a redirect leads to fill it: that waits for nobody.
TEST_F(Fetching, OneUsersRedirectsLeaveAHostToOthers) {
  const ProviderDouble shared(
      [](const DoubleCall& call) { return call.target == "/slow" ? trickle(call) : sound(call); });
  const ProviderDouble own([&](const DoubleCall&) {
    return DoubleReply{.status = 302, .headers = {"Location: " + shared.url() + "/slow"}};
  });
  const ProviderDouble other([&](const DoubleCall&) {
    return DoubleReply{.status = 302, .headers = {"Location: " + shared.url() + "/slow"}};
  });
  ReferenceFetcher fetcher(decoder_, codecs_, http::Reach::kAny, patient(24, 48));
  const UserId ann = UserId::make();
  std::vector<Open> open;
  for (const ProviderDouble* const from : {&own, &other}) {
    for (int i = 0; i < 2; ++i) {
      open.push_back(fetch(fetcher, std::vector<std::string>(3, from->url()), false, ann));
    }
  }
  ASSERT_TRUE(shared.wait_until([&] { return shared.call_count() == 12; }));
  EXPECT_TRUE(fetch(fetcher, std::vector<std::string>(3, shared.url() + "/a")).wait());
  for (const Open& one : open) {
    EXPECT_FALSE(one.ended()) << "its place was free only because another's time was over";
  }
}

// Turns go to those who have the fewest, not to whoever came first with many.
TEST_F(Fetching, OneUsersWaitingTasksAreNotBeforeEverybodyElses) {
  const ProviderDouble shared(
      [](const DoubleCall& call) { return call.target == "/slow" ? trickle(call) : sound(call); });
  ReferenceFetcher fetcher(decoder_, codecs_, http::Reach::kAny, patient(12, 24));
  const UserId ann = UserId::make();
  const UserId ben = UserId::make();
  std::vector<Open> open;
  for (int i = 0; i < 5; ++i) {  // Three begin, two wait …
    open.push_back(fetch(fetcher, {shared.url() + "/slow"}, false, ann));
  }
  for (int i = 0; i < 3; ++i) {  // … and the host is full.
    open.push_back(fetch(fetcher, {shared.url() + "/slow"}, false, ben));
  }
  ASSERT_TRUE(shared.wait_until([&] { return shared.call_count() == 6; }));
  Open eve = fetch(fetcher, {shared.url() + "/eve"});
  open[0].call->cancel();
  EXPECT_TRUE(eve.wait());
  for (std::size_t i = 1; i < open.size(); ++i) {
    EXPECT_FALSE(open[i].ended()) << "one place was enough for her";
  }
}

// Keeps whoever inspects a FLAC file until somebody inspects an Ogg one.
class GateDecoder : public Decoder {
 public:
  std::size_t flacs() const { return flacs_; }
  std::size_t flacs_before_ogg() const { return before_; }

 private:
  Result<Unpacked, DecodeFault> unpack(std::string_view /*bytes*/,
                                       AudioType type,
                                       const Sink& /*sink*/) override {
    std::unique_lock lock(mutex_);
    if (type == AudioType::kOgg) {
      before_ = flacs_.load();
      open_ = true;
      opened_.notify_all();
    } else {
      ++flacs_;
      opened_.wait_for(lock, 60s, [&] { return open_; });
    }
    return DecodeFault::kCorrupt;
  }
  Result<ImageInfo, DecodeFault> unpack_image(std::string_view /*bytes*/,
                                              ImageType /*type*/) override {
    return DecodeFault::kCorrupt;
  }

  std::mutex mutex_;
  std::condition_variable opened_;
  bool open_ = false;  // Guarded by mutex_.
  std::atomic<std::size_t> flacs_{0}, before_{0};
};

// Files that take seconds to look at keep their user's others, and nobody else's.
TEST_F(Fetching, OneUserHasOneInspectionAtATime) {
  const ProviderDouble files([](const DoubleCall& call) {
    return DoubleReply{.body = std::string(call.target == "/flac" ? "fLaC" : "OggS") +
                               std::string(1000, 'x')};
  });
  GateDecoder decoder;
  ReferenceFetcher fetcher(decoder, codecs_, http::Reach::kAny);
  const UserId ann = UserId::make();
  std::vector<Open> open;
  for (int i = 0; i < 6; ++i) {
    open.push_back(fetch(fetcher, {files.url() + "/flac"}, false, ann));
  }
  ASSERT_TRUE(files.wait_until([&] { return decoder.flacs() > 0; }));
  EXPECT_FALSE(fetch(fetcher, {files.url() + "/ogg"}).wait());
  EXPECT_EQ(decoder.flacs_before_ogg(), 1U);
  for (Open& one : open) {
    EXPECT_FALSE(one.wait());
  }
  EXPECT_EQ(decoder.flacs(), 6U);
}

// What was left unread for want of room is not said to be its server's fault, though it went on
// before its time was over.
TEST_F(Fetching, AFileThatHadNoRoomForAWhileMayComeBack) {
  const std::string tone = test::tone_wav(3.0);
  const ProviderDouble files([&](const DoubleCall& call) {
    return call.target == "/kept"   ? DoubleReply{.body = tone}
           : call.target == "/hang" ? hang(call)
           : call.target == "/stall"
               ? DoubleReply{.body = tone.substr(0, 10'000), .form = DoubleReply::Form::kStalled}
               : DoubleReply{.status = 404};
  });
  ReferenceFetcher fetcher(
      decoder_, codecs_, http::Reach::kAny, {.bytes_max = tone.size() + 1000, .slow_for = 10min});
  auto kept = fetch(fetcher, {files.url() + "/kept"}, true).wait();
  ASSERT_TRUE(kept) << kept.error().message;
  Open oldest = fetch(fetcher, {files.url() + "/hang"});
  ASSERT_TRUE(files.wait_until([&] { return files.call_count() == 2; }));
  Open starved = fetch(fetcher, {files.url() + "/stall"}, false, UserId::make(), 5s);
  ASSERT_TRUE(files.wait_until([&] { return files.call_count() == 3; }));
  // Answered after its bytes were sent, by the same thread to the same thread.
  EXPECT_FALSE(fetch(fetcher, {files.url() + "/nothing"}).wait());
  kept = ReferenceFault{};
  const auto got = starved.wait();
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().kind, Kind::kBusy) << got.error().message;
  EXPECT_GE(got.error().after, 1s);
}

// Nobody asked its server: what took its time were others.
TEST_F(Fetching, WhoseTimeIsOverBeforeItsTurnMayComeBack) {
  const ProviderDouble slow(hang);
  ReferenceFetcher fetcher(decoder_, codecs_, http::Reach::kAny, patient(1, 16));
  Open first = fetch(fetcher, {slow.url()});
  ASSERT_TRUE(slow.wait_until([&] { return slow.call_count() == 1; }));
  Open second = fetch(fetcher, {slow.url()}, false, UserId::make(), 1s);
  const auto over = std::chrono::steady_clock::now() + 1s;
  ASSERT_TRUE(slow.wait_until([&] { return std::chrono::steady_clock::now() >= over; }));
  first.call->cancel();
  const auto got = second.wait();
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().kind, Kind::kBusy) << got.error().message;
  EXPECT_EQ(slow.call_count(), 1U);
}

// Received bytes count, chunked ones too: what there is no room for waits half-way, and comes in
// the end.
TEST_F(Fetching, BytesWithoutRoomWaitHalfwayAndNobodyStarves) {
  const std::string tone = test::tone_wav(3.0, 96'000);  // 576 KB
  const ProviderDouble files([&](const DoubleCall& call) {
    return DoubleReply{
        .body = tone,
        .form = call.number % 2 == 0 ? DoubleReply::Form::kChunked : DoubleReply::Form::kWhole};
  });
  ReferenceFetcher fetcher(decoder_,
                           codecs_,
                           http::Reach::kAny,
                           {.bytes_max = 2'000'000, .tasks_max = 40, .time_max = 10min});
  const UserId ann = UserId::make();
  std::vector<Open> open;
  for (int i = 0; i < 12; ++i) {
    open.push_back(fetch(fetcher, {files.url() + "/a"}, true, i % 3 == 0 ? ann : UserId::make()));
  }
  // As they come: each keeps its room until it is taken.
  ASSERT_TRUE(test::eventually(60s, [&] {
    std::erase_if(open, [&](Open& one) {
      if (!one.ended()) {
        return false;
      }
      const auto got = one.wait();
      EXPECT_TRUE(got) << got.error().message;
      EXPECT_TRUE(!got || (*got)->sounds[0].bytes.size() == tone.size());
      return true;
    });
    return open.empty();
  }));
}

// Results that are kept count as long as they are.
TEST_F(Fetching, WhatIsKeptHasItsRoom) {
  const std::string tone = test::tone_wav(3.0);
  const ProviderDouble files([&](const DoubleCall&) { return DoubleReply{.body = tone}; });
  // Of each user three results.
  ReferenceFetcher fetcher(decoder_, codecs_, http::Reach::kAny, {.bytes_max = 12 * tone.size()});
  const UserId ann = UserId::make();
  std::deque<Fetched> kept;
  for (int i = 0; i < 3; ++i) {
    kept.push_back(fetch(fetcher, {files.url()}, true, ann).wait());
    ASSERT_TRUE(kept.back()) << kept.back().error().message;
  }
  Open fourth = fetch(fetcher, {files.url()}, true, ann);
  for (int i = 0; i < 9; ++i) {
    kept.push_back(fetch(fetcher, {files.url()}, true).wait());
    ASSERT_TRUE(kept.back()) << "another has room: " << kept.back().error().message;
  }
  EXPECT_EQ(files.call_count(), 12U);
  EXPECT_FALSE(fourth.ended());
  Open stranger = fetch(fetcher, {files.url()}, true);
  kept.pop_front();
  EXPECT_TRUE(fourth.wait());
  EXPECT_TRUE(stranger.wait()) << "whose turn comes when that is let go in turn";
}

// Of those under way the oldest goes on whatever the others have, and not whatever is kept: each
// that has ended would leave its bytes, and the next be the oldest.
TEST_F(Fetching, NobodyIsOldEnoughForWhatIsKept) {
  const std::string tone = test::tone_wav(3.0, 96'000);  // 576 KB
  const ProviderDouble files([&](const DoubleCall&) { return DoubleReply{.body = tone}; });
  ReferenceFetcher fetcher(
      decoder_, codecs_, http::Reach::kAny, {.bytes_max = 10 * tone.size(), .time_max = 10min});
  const UserId ann = UserId::make();
  auto first = fetch(fetcher, {files.url()}, true, ann).wait();
  auto second = fetch(fetcher, {files.url()}, true, ann).wait();
  ASSERT_TRUE(first && second);
  Open third = fetch(fetcher, {files.url()}, true, ann);
  ASSERT_TRUE(fetch(fetcher, {files.url()}, true).wait());
  EXPECT_TRUE(files.wait_until([&] { return files.call_count() == 4; })) << "it was begun";
  EXPECT_FALSE(third.ended());
  first = ReferenceFault{};
  EXPECT_TRUE(third.wait());
}

TEST(ByteShareTest, TheOldestGoesOnWhateverTheOthersUnderWayHave) {
  const ByteShare share{.bytes = 100};
  EXPECT_TRUE(share.has_room(1, 10, 30, 1, 100));
  EXPECT_FALSE(share.has_room(2, 10, 1, 1, 100));
  EXPECT_TRUE(share.has_room(2, 10, 30, 1, 130));
}

TEST(ByteShareTest, NotWhateverIsKept) {
  ByteShare share{.bytes = 100, .kept = 60};
  EXPECT_TRUE(share.has_room(1, 10, 30, 1, 100));
  EXPECT_FALSE(share.has_room(1, 10, 31, 1, 100));
  share.bytes = 80;  // Others' have been let go.
  EXPECT_FALSE(share.note(1, false));
  EXPECT_FALSE(share.has_room(2, 10, 5, 1, 100)) << "it would never end beside small ones";
  EXPECT_TRUE(share.has_room(2, 10, 5, 3, 100)) << "it is under way no more";
  EXPECT_TRUE(share.note(1, true));
  EXPECT_FALSE(share.note(1, true));
  EXPECT_TRUE(share.has_room(2, 10, 5, 1, 100));
}

// A server that redirects does not win time or tries with it.
TEST_F(Fetching, OneMoreTryAltogetherHoweverOftenItRedirects) {
  const ProviderDouble files([](const DoubleCall& call) {
    return call.number % 2 == 0
               ? DoubleReply{.status = 503}
               : DoubleReply{.status = 302,
                             .headers = {"Location: /" + std::to_string(call.number)}};
  });
  ReferenceFetcher fetcher(decoder_, codecs_, http::Reach::kAny);
  const auto got = fetch(fetcher, {files.url()}).wait();
  ASSERT_FALSE(got);
  EXPECT_THAT(got.error().message, HasSubstr("its server answered 503"));
  EXPECT_EQ(files.call_count(), 3U);
}

TEST_F(Fetching, OneLimitOfTimeForAllOfATask) {
  const ProviderDouble files([](const DoubleCall& call) {
    return call.target == "/good" ? sound(call)
           : call.target == "/"   ? DoubleReply{.status = 302, .headers = {"Location: /slow"}}
                                  : hang(call);
  });
  ReferenceFetcher fetcher(decoder_, codecs_, http::Reach::kAny, {.time_max = 5s});
  const auto got = fetch(fetcher, {files.url() + "/good", files.url() + "/"}).wait();
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().message,
            "audio_references[1] cannot be used: its server did not deliver it in time.");
  EXPECT_EQ(files.call_count(), 3U) << "no time is left for another try";
}

// Long before its time is over, so that there is some left for another try.
TEST_F(Fetching, AServerThatSendsAByteNowAndThenIsNotWaitedFor) {
  const ProviderDouble files([](const DoubleCall&) {
    return DoubleReply{.body = test::tone_wav(1.0), .form = DoubleReply::Form::kDrip};
  });
  ReferenceFetcher fetcher(decoder_, codecs_, http::Reach::kAny, {.slow_for = 1s});
  const auto got = fetch(fetcher, {files.url()}).wait();
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().message,
            "audio_references[0] cannot be used: its server did not deliver it in time.");
  EXPECT_EQ(files.call_count(), 2U);
}

TEST_F(Fetching, WithoutADiskItIsOurs) {
  const ProviderDouble files(
      [](const DoubleCall&) { return DoubleReply{.body = test::tone_wav(10.0)}; });
  ReferenceFetcher fetcher(decoder_, codecs_, http::Reach::kAny, {.folder = "/proc/nowhere"});
  const auto got = fetch(fetcher, {files.url()}).wait();
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().kind, Kind::kOurs);
}

TEST(SpoolOfBytes, IsMemoryFirstAndThenAFile) {
  Spool spool("/var/tmp");
  std::string all;
  for (const std::size_t size : {1UL, Spool::kInMemory - 1, 1UL, 200'000UL}) {
    const std::string part(size, static_cast<char>('a' + all.size() % 26));
    ASSERT_TRUE(spool.append(part));
    all += part;
    EXPECT_EQ(spool.size(), all.size());
    EXPECT_EQ(spool.read(), all);
  }
  spool.clear();
  EXPECT_EQ(spool.size(), 0U);
  EXPECT_EQ(spool.read(), "");
  EXPECT_TRUE(Spool::works_in("/var/tmp"));
  EXPECT_FALSE(Spool::works_in("/proc/nowhere"));
}

TEST_F(Fetching, EndsWithItsDeadlineAndWithTheFetcher) {
  const ProviderDouble files(hang);
  Open late;
  {
    ReferenceFetcher fetcher(decoder_, codecs_, http::Reach::kAny, {.slow_for = 10min});
    const auto got = fetch(fetcher, {files.url()}, false, UserId::make(), 5s).wait();
    ASSERT_FALSE(got);
    EXPECT_THAT(got.error().message, HasSubstr("did not deliver it in time"));
    late = fetch(fetcher, {files.url()});
    ASSERT_TRUE(files.wait_until([&] { return files.call_count() == 2; }));
  }
  EXPECT_EQ(late.wait().error().kind, Kind::kCanceled);
}

}  // namespace
}  // namespace audiogen::worker
