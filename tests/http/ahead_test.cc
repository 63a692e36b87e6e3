// Clients that send requests ahead of the answers: all are answered in order, and nobody else waits
// for them.
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "common/http/server.h"
#include "tests/support/raw_http.h"
#include "tests/support/wait.h"

namespace audiogen::http {
namespace {

using namespace std::chrono_literals;
using test::get_request;
using test::RawConnection;

constexpr std::string_view kRequest = "GET /x HTTP/1.1\r\nHost:\r\n\r\n";

class HttpAhead : public testing::Test {
 protected:
  void serve(ServerOptions options) {
    server_ = std::make_unique<Server>(
        std::move(options),
        [this](Exchange exchange) {
          const auto answer = [](const Exchange& asked) {
            Response response;
            response.body = std::string(asked.request().query);
            asked.reply(std::move(response));
          };
          if (exchange.request().path == "/work") {
            const auto until = std::chrono::steady_clock::now() + 300us;
            while (std::chrono::steady_clock::now() < until) {
            }
          }
          if (exchange.request().path != "/elsewhere") {
            answer(exchange);
            return;
          }
          others_.emplace_back([answer, exchange = std::move(exchange)] { answer(exchange); });
        },
        [](int status, std::string_view reason, const Request* /*partial*/) {
          Response response;
          response.status = status;
          response.body = std::string(reason);
          return response;
        });
    ASSERT_TRUE(server_->start());
  }
  void TearDown() override {
    server_.reset();
    for (std::thread& other : others_) {
      other.join();
    }
  }
  RawConnection connect() const { return RawConnection(server_->port()); }

  std::vector<std::thread> others_;
  std::unique_ptr<Server> server_;
};

TEST_F(HttpAhead, ManyRequestsAtOnceAreAnsweredInOrder) {
  serve({.threads = 1, .heads_first = true});
  for (const std::string first : {"/x", "/elsewhere"}) {
    RawConnection client = connect();
    std::string all;
    constexpr int kMany = 1'000;
    for (int i = 0; i < kMany; ++i) {
      all +=
          "GET " + (i == 0 ? first : "/x") + "?" + std::to_string(i) + " HTTP/1.1\r\nHost:\r\n\r\n";
      if (i == 300 && first != "/x") {
        break;  // While the first of them is being looked up no more than a head's bytes may wait.
      }
    }
    ASSERT_TRUE(client.send(all));
    for (int i = 0; i < (first == "/x" ? kMany : 301); ++i) {
      const auto answer = client.response(false, 60s);
      ASSERT_TRUE(answer) << first << " " << i;
      ASSERT_EQ(answer->body, std::to_string(i));
    }
    EXPECT_TRUE(client.exchange(get_request("/x"))) << "and is still there";
  }
}

// Sends without end, and takes the answers; begins again when it is cut off.
class Flood {
 public:
  explicit Flood(std::uint16_t port)
      : thread_([this, port](const std::stop_token& stop) {
          std::string many;
          for (int i = 0; i < 2'000; ++i) {
            many += kRequest;
          }
          while (!stop.stop_requested()) {
            const RawConnection connection(port);
            std::jthread answers([&](const std::stop_token&) {
              std::vector<char> taken(1 << 16);
              while (::recv(connection.fd(), taken.data(), taken.size(), 0) > 0) {
                answered_ = true;
              }
            });
            while (!stop.stop_requested() &&
                   ::send(connection.fd(), many.data(), many.size(), MSG_NOSIGNAL) > 0) {
            }
            ::shutdown(connection.fd(), SHUT_RDWR);
          }
        }) {}

  bool answered() const { return answered_; }

 private:
  std::atomic<bool> answered_{false};
  std::jthread thread_;
};

TEST_F(HttpAhead, WhoSendsWithoutEndKeepsNobodyWaiting) {
  serve({.threads = 1});
  const Flood flood(server_->port());
  ASSERT_TRUE(test::eventually(60s, [&] { return flood.answered(); }));
  for (int i = 0; i < 5; ++i) {
    RawConnection other = connect();
    ASSERT_TRUE(other.send(get_request("/x?hello")));
    const auto answer = other.response(false, 30s);
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->body, "hello");
  }
}

// What follows an answer from another thread is gone on with by the thread that keeps all times.
TEST_F(HttpAhead, WhoHasAlwaysSomeAheadStopsNoClock) {
  serve({.threads = 1, .first_byte_timeout = 300ms});
  // Some work, so that there is always more than was answered.
  constexpr std::string_view kWork = "GET /work HTTP/1.1\r\nHost:\r\n\r\n";
  std::string some = "GET /elsewhere HTTP/1.1\r\nHost:\r\n\r\n";
  for (int i = 0; i < 300; ++i) {
    some += kWork;
  }
  RawConnection greedy = connect();
  ASSERT_TRUE(test::eventually(60s, [&] {
    char first = 0;
    if (greedy.send(some) && ::recv(greedy.fd(), &first, 1, MSG_PEEK) == 1) {
      return true;
    }
    greedy = connect();  // On a busy machine it may have been silent for too long itself.
    return false;
  }));
  std::atomic<bool> going{false};
  std::jthread client([&](const std::stop_token& stop) {
    std::vector<char> taken(1 << 16);
    while (!stop.stop_requested()) {
      const auto count = ::recv(greedy.fd(), taken.data(), taken.size(), 0);
      if (count <= 0) {
        return;
      }
      going = true;
      // As many again as were answered.
      const std::string_view answers(taken.data(), static_cast<std::size_t>(count));
      std::string more;
      for (auto at = answers.find("HTTP/1.1 "); at != std::string_view::npos;
           at = answers.find("HTTP/1.1 ", at + 1)) {
        more += kWork;
      }
      ::send(greedy.fd(), more.data(), more.size(), MSG_NOSIGNAL);
    }
  });
  ASSERT_TRUE(test::eventually(60s, [&] { return going.load(); }));
  RawConnection silent = connect();
  EXPECT_TRUE(silent.closed(60s)) << "it has said nothing for too long";
  client.request_stop();
  ::shutdown(greedy.fd(), SHUT_RDWR);
}

}  // namespace
}  // namespace audiogen::http
