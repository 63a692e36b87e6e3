// Answers that come in parts: as they were sent, to every version of HTTP, past slow and vanishing
// clients. Every wait ends with its event or with a deadline.
#include <atomic>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "common/base/metrics.h"
#include "common/http/server.h"
#include "tests/support/raw_http.h"
#include "tests/support/wait.h"

namespace audiogen::http {
namespace {

using namespace std::chrono_literals;
using test::get_request;
using test::RawConnection;
using Steady = std::chrono::steady_clock;

// "/stream…": kept for the test, which is who answers it; anything else: "hello" at once.
class HttpStreams : public testing::Test {
 protected:
  void TearDown() override {
    kept_.clear();
    server_.reset();
  }

  void serve(ServerOptions options = {}) {
    server_ = std::make_unique<Server>(
        std::move(options),
        [this](Exchange exchange) {
          if (exchange.request().path == "/stream") {
            const std::lock_guard lock(mutex_);
            kept_.push_back(std::move(exchange));
            return;
          }
          exchange.reply(text("hello"));
        },
        [](int status, std::string_view reason, const Request*) {
          Response out = text(std::string(reason));
          out.status = status;
          return out;
        });
    const auto started = server_->start();
    ASSERT_TRUE(started) << started.error().message;
  }

  static Response text(std::string body) {
    Response out;
    out.headers = "Content-Type: text/plain\r\n";
    out.body = std::move(body);
    return out;
  }

  RawConnection connect(int receive_buffer = 0) const {
    return RawConnection(server_->port(), "127.0.0.1", receive_buffer);
  }

  // The next request for a stream, begun.
  std::optional<Exchange> next(bool begin = true) {
    std::optional<Exchange> out;
    EXPECT_TRUE(test::eventually(60s, [&] {
      const std::lock_guard lock(mutex_);
      if (kept_.empty()) {
        return false;
      }
      out.emplace(std::move(kept_.front()));
      kept_.erase(kept_.begin());
      return true;
    }));
    if (out && begin) {
      out->begin_stream(text(""));
    }
    return out;
  }

  // Lets the kernel keep next to nothing for this client, so that what it does not read stays with
  // the server: its end of the connection is a descriptor of this process.
  static void shrink(const RawConnection& client) {
    sockaddr_in mine{};
    socklen_t size = sizeof mine;
    ASSERT_EQ(::getsockname(client.fd(), reinterpret_cast<sockaddr*>(&mine), &size), 0);
    int shrunk = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      const int fd = std::stoi(entry.path().filename());
      sockaddr_in peer{};
      size = sizeof peer;
      if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) == 0 &&
          peer.sin_family == AF_INET && peer.sin_port == mine.sin_port) {
        const int least = 1;
        shrunk += ::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &least, sizeof least) == 0 ? 1 : 0;
      }
    }
    EXPECT_EQ(shrunk, 1);
  }

  static double cut() {
    return metrics::counter("http_connections_dropped_total",
                            "Connections ended or refused for want of room or of bytes",
                            {{"server", "http"}, {"kind", "slow_reader"}})
        .Value();
  }

  std::mutex mutex_;
  std::vector<Exchange> kept_;  // Guarded by mutex_.
  std::unique_ptr<Server> server_;
};

TEST_F(HttpStreams, PartsArriveWhenTheyAreSent) {
  serve();
  RawConnection client = connect();
  for (int i = 0; i < 2; ++i) {  // And the connection stays.
    ASSERT_TRUE(client.send(get_request("/stream")));
    const auto stream = next();
    ASSERT_TRUE(stream);
    const auto head = client.response(true);
    ASSERT_TRUE(head);
    EXPECT_EQ(head->status, 200);
    EXPECT_EQ(head->header("transfer-encoding"), "chunked");
    EXPECT_EQ(head->header("content-length"), "");
    EXPECT_EQ(head->header("content-type"), "text/plain");
    EXPECT_EQ(head->header("connection"), "");
    EXPECT_TRUE(stream->send("one"));
    EXPECT_EQ(client.chunk(), "one");
    EXPECT_TRUE(stream->send("")) << "which is not the end";
    EXPECT_TRUE(stream->send("two\r\n\r\n"));
    EXPECT_EQ(client.chunk(), "two\r\n\r\n");
    EXPECT_EQ(server_->stats().in_flight, 1u);
    stream->end_stream();
    EXPECT_EQ(client.chunk(), "");
    EXPECT_FALSE(stream->send("three"));
    stream->reply(text("late"));
    EXPECT_EQ(server_->stats().in_flight, 0u);
  }
  EXPECT_EQ(client.exchange(get_request("/hello"))->body, "hello");
}

TEST_F(HttpStreams, ARequestSentAheadIsAnsweredAfterwards) {
  serve();
  RawConnection client = connect();
  ASSERT_TRUE(client.send(get_request("/stream") + get_request("/hello")));
  const auto stream = next();
  ASSERT_TRUE(stream);
  ASSERT_TRUE(client.response(true));
  EXPECT_TRUE(stream->send("part"));
  EXPECT_EQ(client.chunk(), "part");
  stream->end_stream();
  EXPECT_EQ(client.chunk(), "");
  const auto response = client.response();
  ASSERT_TRUE(response);
  EXPECT_EQ(response->body, "hello");
}

// It knows no chunks.
TEST_F(HttpStreams, EndWithTheConnectionForHttp10) {
  serve();
  for (const std::string lines : {"", "Connection: keep-alive\r\n"}) {
    RawConnection client = connect();
    ASSERT_TRUE(client.send("GET /stream HTTP/1.0\r\nHost: a\r\n" + lines + "\r\n"));
    const auto stream = next();
    ASSERT_TRUE(stream);
    const auto head = client.response(true);
    ASSERT_TRUE(head);
    EXPECT_EQ(head->header("transfer-encoding"), "");
    EXPECT_EQ(head->header("content-length"), "");
    EXPECT_EQ(head->header("connection"), "close");
    EXPECT_TRUE(stream->send("one "));
    EXPECT_TRUE(stream->send(""));
    EXPECT_TRUE(stream->send("two"));
    stream->end_stream();
    EXPECT_EQ(client.rest(), "one two");
  }
}

TEST_F(HttpStreams, CloseWhereTheClientAsksForIt) {
  serve();
  RawConnection client = connect();
  ASSERT_TRUE(client.send(get_request("/stream", "Connection: close\r\n")));
  const auto stream = next();
  ASSERT_TRUE(stream);
  EXPECT_EQ(client.response(true)->header("connection"), "close");
  EXPECT_TRUE(stream->send("part"));
  EXPECT_EQ(client.chunk(), "part");
  stream->end_stream();
  EXPECT_EQ(client.chunk(), "");
  EXPECT_TRUE(client.closed());
}

// And what is left of the first one does nothing to the next.
TEST_F(HttpStreams, HeadGetsTheHeadAlone) {
  serve();
  RawConnection client = connect();
  ASSERT_TRUE(client.send("HEAD /stream HTTP/1.1\r\nHost: a\r\n\r\n"));
  auto head_only = next();
  ASSERT_TRUE(head_only);
  ASSERT_TRUE(client.response(true));
  EXPECT_FALSE(head_only->send("part"));
  ASSERT_TRUE(client.send(get_request("/stream")));
  const auto stream = next();
  ASSERT_TRUE(stream);
  EXPECT_FALSE(head_only->send("part"));
  head_only->end_stream();
  head_only.reset();
  ASSERT_TRUE(client.response(true));
  EXPECT_TRUE(stream->send("mine"));
  EXPECT_EQ(client.chunk(), "mine");
}

// No deadline of other answers is on it.
TEST_F(HttpStreams, LastAsLongAsTheyTake) {
  constexpr auto kShort = 100ms;
  serve({.keep_alive_timeout = kShort, .reply_timeout = kShort, .write_stall_timeout = kShort});
  RawConnection client = connect();
  std::optional<Exchange> stream;
  // Up to its begin they are on it as well, and a busy machine may let one of them pass.
  ASSERT_TRUE(test::eventually(60s, [&] {
    client = connect();
    if (!client.send(get_request("/stream"))) {
      return false;
    }
    stream = next();
    const auto head = client.response(true);
    return head && head->status == 200;
  }));
  const auto begun = Steady::now();
  ASSERT_TRUE(test::eventually(60s, [&] { return Steady::now() - begun > 6 * kShort; }));
  EXPECT_TRUE(stream->send("still"));
  EXPECT_EQ(client.chunk(), "still");
}

TEST_F(HttpStreams, AClientThatGoesHasNoTaker) {
  serve();
  RawConnection client = connect();
  ASSERT_TRUE(client.send(get_request("/stream")));
  const auto stream = next();
  ASSERT_TRUE(stream);
  ASSERT_TRUE(client.response(true));
  client.reset();
  EXPECT_TRUE(test::eventually(60s, [&] { return !stream->send("part"); }));
  EXPECT_TRUE(stream->client_ended());
  EXPECT_TRUE(test::eventually(60s, [&] { return server_->stats().connections == 0; }));
  EXPECT_EQ(server_->stats().in_flight, 0u);
}

TEST_F(HttpStreams, AClientThatSendsNoMoreMayStillRead) {
  serve();
  RawConnection client = connect();
  ASSERT_TRUE(client.send(get_request("/stream")));
  const auto stream = next();
  ASSERT_TRUE(stream);
  client.finish_sending();
  EXPECT_TRUE(test::eventually(60s, [&] { return stream->client_ended(); }));
  EXPECT_TRUE(stream->send("part"));
  stream->end_stream();
  ASSERT_TRUE(client.response(true));
  EXPECT_EQ(client.chunk(), "part");
  EXPECT_EQ(client.chunk(), "");
  EXPECT_TRUE(client.closed());
}

// And costs no more than that until then.
TEST_F(HttpStreams, AClientThatNeverReadsIsCutOff) {
  serve();
  constexpr int kReceives = 4'096;
  RawConnection client = connect(kReceives);
  ASSERT_TRUE(client.send(get_request("/stream")));
  const auto stream = next();
  ASSERT_TRUE(stream);
  const double before = cut();
  const std::string part(1'000, 'p');
  std::size_t sent = 0;
  while (sent < 100 * kStreamUnsentMax && stream->send(part)) {
    sent += part.size();
  }
  EXPECT_GE(sent, kStreamUnsentMax / 2);
  EXPECT_LE(sent, 2 * kStreamUnsentMax) << "what may be here, and what its machine took";
  EXPECT_EQ(cut(), before + 1);
  EXPECT_FALSE(stream->send("part"));
  EXPECT_TRUE(test::eventually(60s, [&] { return server_->stats().connections == 0; }));
}

TEST_F(HttpStreams, ASlowClientGetsEverythingInItsOrder) {
  serve();
  RawConnection client = connect(4'096);
  ASSERT_TRUE(client.send(get_request("/stream")));
  const auto stream = next();
  ASSERT_TRUE(stream);
  shrink(client);
  std::string whole;
  for (int i = 0; i < 55; ++i) {  // As much as may be left untaken.
    const std::string part(1'000, static_cast<char>('A' + i));
    ASSERT_TRUE(stream->send(part)) << i;
    whole += part;
  }
  ASSERT_TRUE(client.response(true));
  std::string read;
  for (int i = 0; i < 30; ++i) {
    read += client.chunk().value_or("");
  }
  ASSERT_TRUE(stream->send("later"));
  whole += "later";
  stream->end_stream();
  for (std::optional<std::string> part = "x"; part && !part->empty();) {
    part = client.chunk();
    ASSERT_TRUE(part);
    read += *part;
  }
  EXPECT_TRUE(read == whole) << read.size() << " of " << whole.size();
  EXPECT_EQ(client.exchange(get_request("/hello"))->body, "hello");
}

// What is left when the stream ends is awaited for as long as any answer.
TEST_F(HttpStreams, WhatIsLeftAtTheEndIsStillSent) {
  serve();
  RawConnection client = connect(4'096);
  ASSERT_TRUE(client.send(get_request("/stream")));
  {
    const auto stream = next();
    ASSERT_TRUE(stream);
    shrink(client);
    ASSERT_TRUE(stream->send(std::string(60'000, 'e')));
    stream->end_stream();
  }
  ASSERT_TRUE(client.response(true));
  EXPECT_EQ(client.chunk(), std::string(60'000, 'e'));
  EXPECT_EQ(client.chunk(), "");
  EXPECT_EQ(client.exchange(get_request("/hello"))->body, "hello");
}

// As long as nothing waits for it, there is no deadline; else there is. Who has read everything was
// sent it before the other one was: when that one is cut off, his own time would be over as well.
TEST_F(HttpStreams, AClientThatStopsReadingHasSoLongAndNoMore) {
  serve({.write_stall_timeout = 10s});  // Within it the first one has to have read.
  const auto begin = [&](const RawConnection& client) {
    auto stream = next();
    EXPECT_TRUE(stream);
    shrink(client);
    EXPECT_TRUE(stream && stream->send(std::string(30'000, 'e')));
    return stream;
  };
  RawConnection client = connect(4'096), idle = connect(4'096);
  ASSERT_TRUE(client.send(get_request("/stream")));
  const auto stream = begin(client);
  ASSERT_TRUE(stream);
  ASSERT_TRUE(client.response(true));
  EXPECT_EQ(client.chunk(), std::string(30'000, 'e'));
  ASSERT_TRUE(idle.send(get_request("/stream")));
  const auto unread = begin(idle);
  ASSERT_TRUE(unread);
  EXPECT_TRUE(test::eventually(60s, [&] { return server_->stats().connections == 1; }));
  EXPECT_FALSE(unread->send("more"));
  EXPECT_TRUE(stream->send("more"));
  EXPECT_EQ(client.chunk(), "more");
  // He has no more time either, once something waits for him again.
  ASSERT_TRUE(stream->send(std::string(30'000, 'e')));
  EXPECT_TRUE(test::eventually(60s, [&] { return server_->stats().connections == 0; }));
  EXPECT_FALSE(stream->send("more"));
}

// And makes room where there is none.
TEST_F(HttpStreams, AClientThatTakesNothingMakesRoom) {
  serve({.connections_max = 1, .stall_grace = 100ms});
  RawConnection client = connect(4'096);
  ASSERT_TRUE(client.send(get_request("/stream")));
  const auto stream = next();
  ASSERT_TRUE(stream);
  shrink(client);
  ASSERT_TRUE(stream->send(std::string(60'000, 'e')));
  EXPECT_TRUE(
      test::eventually(60s, [&] { return connect().exchange(get_request("/hello")).has_value(); }));
  EXPECT_FALSE(stream->send("more"));
}

// What goes while something waits for it takes nothing with it.
TEST_F(HttpStreams, AClientThatGoesInTheMiddleHasNoTaker) {
  serve();
  for (int i = 0; i < 3; ++i) {
    RawConnection client = connect(4'096);
    ASSERT_TRUE(client.send(get_request("/stream")));
    const auto stream = next();
    ASSERT_TRUE(stream);
    shrink(client);
    ASSERT_TRUE(stream->send(std::string(60'000, 'e')));
    client.reset();
    EXPECT_TRUE(test::eventually(60s, [&] { return server_->stats().connections == 0; }));
    EXPECT_FALSE(stream->send("more"));
  }
}

TEST_F(HttpStreams, OneThatIsDroppedIsCutShort) {
  serve();
  RawConnection client = connect();
  ASSERT_TRUE(client.send(get_request("/stream")));
  {
    const auto stream = next();
    ASSERT_TRUE(stream);
    EXPECT_TRUE(stream->send("part"));
    ASSERT_TRUE(client.response(true));
    EXPECT_EQ(client.chunk(), "part");
  }
  EXPECT_EQ(client.chunk(), std::nullopt) << "and not the end";
}

TEST_F(HttpStreams, ADrainWaitsForTheirEndAndAStopDoesNot) {
  serve();
  RawConnection client = connect(), other = connect();
  ASSERT_TRUE(client.send(get_request("/stream")));
  const auto stream = next();
  ASSERT_TRUE(other.send(get_request("/stream")));
  const auto left = next();
  ASSERT_TRUE(stream && left);
  ASSERT_TRUE(client.response(true));
  server_->drain(50ms);
  EXPECT_TRUE(stream->send("part"));
  EXPECT_EQ(client.chunk(), "part");
  stream->end_stream();
  EXPECT_EQ(client.chunk(), "");
  server_->stop();
  EXPECT_FALSE(left->send("part"));
  left->end_stream();
}

TEST_F(HttpStreams, ThatRestMakeNoRoomForOthers) {
  serve({.connections_max = 1});
  RawConnection client = connect();
  ASSERT_TRUE(client.send(get_request("/stream")));
  const auto stream = next();
  ASSERT_TRUE(stream);
  ASSERT_TRUE(client.response(true));
  EXPECT_TRUE(connect().closed());
  EXPECT_TRUE(stream->send("mine"));
  EXPECT_EQ(client.chunk(), "mine");
}

}  // namespace
}  // namespace audiogen::http
