// The accept loop where it is hard: no descriptors left, and stopping.
#include "common/http/acceptor.h"

#include <atomic>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>

#include "common/base/ip_address.h"
#include "tests/support/raw_http.h"
#include "tests/support/wait.h"

namespace audiogen::http {
namespace {

using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;

std::chrono::nanoseconds own_cpu() {
  timespec used{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

// How many eventfds of this process have been written to and not been read.
int raised_eventfds() {
  int raised = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fdinfo")) {
    std::ifstream lines(entry.path());
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("eventfd-count:") && line.find_first_of("123456789") != line.npos) {
        ++raised;
      }
    }
  }
  return raised;
}

// Without descriptors the queue of new connections must not keep a thread awake for nothing.
TEST(Acceptor, RestsWhileThereAreNoDescriptors) {
  Acceptor acceptor;
  ASSERT_TRUE(acceptor.listen("127.0.0.1", 0));
  std::atomic<int> taken{0}, exhausted{0};
  std::atomic<std::int64_t> cpu{0};  // Of the acceptor's thread.
  const UniqueFd late(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  acceptor.start([&](const UniqueFd& fd, const sockaddr_storage&) { taken += fd ? 1 : 0; },
                 [&] {
                   cpu = own_cpu().count();
                   ++exhausted;
                 });
  rlimit none = before;
  none.rlim_cur = 3;  // What is open stays so.
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(acceptor.port());
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int connected =
      ::connect(late.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  const auto reaches = [&](int count) {
    return test::eventually(60s, [&] { return exhausted >= count; });
  };
  const bool first = reaches(1);
  const std::int64_t cpu_before = cpu;
  const auto begin = Steady::now();
  const bool more = reaches(exhausted + 5);
  const auto waited = Steady::now() - begin;
  const std::chrono::nanoseconds used(cpu - cpu_before);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(connected, 0);
  EXPECT_TRUE(first);
  EXPECT_TRUE(more);
  EXPECT_LT(used * 4, waited);
  // The connection was not lost by that.
  EXPECT_TRUE(test::eventually(60s, [&] { return taken == 1; }));
}

// An error that more room does not help is nobody's to pay for.
TEST(Acceptor, AsksForRoomOnlyIfThatHelps) {
  Acceptor acceptor;
  ASSERT_TRUE(acceptor.listen("127.0.0.1", 0));
  int listeners = 0;
  for (int fd = 0; fd < 1024; ++fd) {
    int listens = 0;
    socklen_t size = sizeof listens;
    if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens == 1) {
      ++listeners;
      ASSERT_EQ(::shutdown(fd, SHUT_RDWR), 0);  // From now on accept(2) says EINVAL.
    }
  }
  ASSERT_EQ(listeners, 1);
  std::atomic<int> exhausted{0};
  acceptor.start([](const UniqueFd&, const sockaddr_storage&) {}, [&] { ++exhausted; });
  EXPECT_FALSE(test::eventually(300ms, [&] { return exhausted > 0; }));
}

// Those in the queue are connected as far as they know.
TEST(Acceptor, TakesWhoHasComeBeforeItStops) {
  Acceptor acceptor(60s);
  ASSERT_TRUE(acceptor.listen("127.0.0.1", 0));
  std::vector<test::RawConnection> clients;
  for (int i = 0; i < 6; ++i) {
    clients.emplace_back(acceptor.port());
    ASSERT_TRUE(clients.back().connected());
  }
  std::atomic<int> taken{0};
  const int before = raised_eventfds();
  acceptor.start(
      [&](const UniqueFd&, const sockaddr_storage&) {
        if (++taken == 1) {
          // Acceptor::stop() has been called: it writes to one.
          EXPECT_TRUE(test::eventually(60s, [&] { return raised_eventfds() > before; }));
        }
      },
      [] {});
  ASSERT_TRUE(test::eventually(60s, [&] { return taken == 1; }));
  acceptor.stop();
  EXPECT_EQ(taken, 6);
}

// What a proxy has sent on a connection that is reset then it may not send again.
TEST(Acceptor, ResetsNobodyWhoIsConnectedWhenItStops) {
  constexpr int kClients = 4;
  std::atomic<int> lost{0};
  for (int round = 0; round < 50; ++round) {
    Acceptor acceptor(60s);
    ASSERT_TRUE(acceptor.listen("127.0.0.1", 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(acceptor.port());
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    std::atomic<int> taken{0};
    acceptor.start(
        [&](const UniqueFd& fd, const sockaddr_storage&) {
          taken += ::send(fd.get(), "x", 1, MSG_NOSIGNAL) == 1 ? 1 : 0;
        },
        [] {});
    std::atomic<bool> stopped{false};
    const auto connect = [&] {
      while (!stopped) {
        const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
        ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
        pollfd wait{fd.get(), POLLOUT, 0};
        while (::poll(&wait, 1, 1) == 0 && !stopped) {
        }
        int error = 0;
        socklen_t size = sizeof error;
        if (wait.revents == 0 || ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0 ||
            error != 0) {
          continue;  // Nobody listens.
        }
        char byte = 0;
        wait.events = POLLIN;
        ::poll(&wait, 1, 60'000);
        lost += ::recv(fd.get(), &byte, 1, 0) == 1 ? 0 : 1;
      }
    };
    std::vector<std::thread> clients;
    for (int i = 0; i < kClients; ++i) {
      clients.emplace_back(connect);
    }
    EXPECT_TRUE(test::eventually(60s, [&] { return taken > 4 * kClients; }));
    acceptor.stop();
    stopped = true;
    for (std::thread& client : clients) {
      client.join();
    }
  }
  EXPECT_EQ(lost, 0);
}

TEST(Acceptor, FreesItsPortWhenStopped) {
  Acceptor acceptor;
  ASSERT_TRUE(acceptor.listen("127.0.0.1", 0));
  const std::uint16_t port = acceptor.port();
  std::mutex mutex;
  std::vector<UniqueFd> taken;
  acceptor.start(
      [&](UniqueFd fd, const sockaddr_storage& from) {
        EXPECT_EQ(IpAddress::of(from).text(), "127.0.0.1");
        const std::lock_guard lock(mutex);
        taken.push_back(std::move(fd));
      },
      [] {});
  const test::RawConnection client(port);
  EXPECT_TRUE(client.connected());
  EXPECT_TRUE(test::eventually(60s, [&] {
    const std::lock_guard lock(mutex);
    return taken.size() == 1;
  }));
  acceptor.stop();
  EXPECT_FALSE(test::RawConnection(port).connected());
  Acceptor next;
  EXPECT_TRUE(next.listen("127.0.0.1", port));
}

}  // namespace
}  // namespace audiogen::http
