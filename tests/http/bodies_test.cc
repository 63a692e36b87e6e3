// Heads first: whose body is taken, when, and who pays when there is no memory for more.
#include <array>
#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "common/http/connection.h"
#include "common/http/server.h"
#include "tests/support/raw_http.h"
#include "tests/support/wait.h"

namespace audiogen::http {
namespace {

using namespace std::chrono_literals;
using namespace std::string_literals;
using test::get_request;
using test::post_request;
using test::RawConnection;
using testing::HasSubstr;

constexpr std::size_t kBodyMax = 64 * 1024;

template <class Condition>
bool eventually(const Condition& condition) {
  return test::eventually(60s, condition);
}

Response text(std::string body, int status = 200) {
  Response response;
  response.status = status;
  response.body = std::move(body);
  return response;
}

// "Authorization: bad" is refused, "later" waits until the test decides, all else may send a body,
// which counts for whom "X-Holder" names and comes back; "refused after all" and "thrown" are let
// in by mistake.
class HttpBodies : public testing::Test {
 protected:
  void TearDown() override {
    later_.clear();
    server_.reset();
    EXPECT_EQ(alive_.use_count(), 1) << "a request nobody waits for any more is still there";
  }

  void serve(ServerOptions options = {}) {
    options.threads = 1;  // See settle().
    options.heads_first = true;
    options.limits.body = kBodyMax;
    server_ = std::make_unique<Server>(
        std::move(options),
        [this](Exchange exchange) { handle(std::move(exchange)); },
        [this](int status, std::string_view reason, const Request*) {
          if (while_rendering_) {
            while_rendering_(status);
          }
          return text(std::string(reason), status);
        });
    const auto started = server_->start();
    ASSERT_TRUE(started) << started.error().message;
  }

  void handle(Exchange exchange) {
    ++heads_;
    const std::string_view who = exchange.request().header("authorization");
    if (who == "bad") {
      exchange.reply(text("who are you?", 401));
    } else if (who == "later") {
      const std::lock_guard lock(mutex_);
      later_.push_back(std::move(exchange));
    } else {
      accept(exchange);
      if (who == "refused after all") {
        exchange.reply(text("no", 401));
      } else if (who == "thrown") {
        throw 42;
      }
    }
  }
  void accept(const Exchange& exchange) {
    const std::string holder(exchange.request().header("x-holder"));
    exchange.read_body(std::hash<std::string>()(holder), [exchange, alive = alive_, this] {
      ++bodies_;
      exchange.reply(text(std::string(exchange.request().body)));
    });
  }
  std::vector<Exchange> take_later(std::size_t count) {
    EXPECT_TRUE(eventually([&] {
      const std::lock_guard lock(mutex_);
      return later_.size() == count;
    }));
    const std::lock_guard lock(mutex_);
    return std::exchange(later_, {});
  }

  RawConnection connect() const { return RawConnection(server_->port()); }
  // The head of a POST whose body is still to come.
  static std::string head(std::size_t length, const std::string& lines = "") {
    return "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: " + std::to_string(length) + "\r\n" +
           lines + "\r\n";
  }
  // The server has read what the client has sent: all of that is on its side, and its one thread
  // has come to somebody whose bytes are there since later.
  void settle(const RawConnection& client) const {
    ASSERT_TRUE(eventually([&] {
      int left = 0;
      return ::ioctl(client.fd(), SIOCOUTQ, &left) != 0 || left == 0;
    }));
    ASSERT_TRUE(connect().exchange(get_request("/")));
  }

  std::mutex mutex_;
  std::vector<Exchange> later_;
  // Runs while the server renders what it says by itself.
  std::function<void(int status)> while_rendering_;
  std::atomic<int> heads_{0}, bodies_{0};
  std::shared_ptr<int> alive_ = std::make_shared<int>();
  std::unique_ptr<Server> server_;
};

TEST_F(HttpBodies, ABadHeadIsAnsweredWithoutItsBody) {
  serve();
  for (const std::string& framing : {"Content-Length: 5000\r\n"s,
                                     "Transfer-Encoding: chunked\r\n"s,
                                     "Content-Length: 900000\r\n"s}) {
    RawConnection client = connect();
    const auto response =
        client.exchange("POST /x HTTP/1.1\r\nHost: a\r\n" + framing + "Authorization: bad\r\n\r\n");
    ASSERT_TRUE(response) << framing;
    EXPECT_EQ(response->status, 401) << framing;
    EXPECT_EQ(response->header("connection"), "close");
    // What it sends on is dropped, and no request.
    client.send(get_request("/"));
    EXPECT_TRUE(client.closed());
  }
  EXPECT_EQ(heads_, 3);
  EXPECT_EQ(bodies_, 0);
  EXPECT_TRUE(eventually([&] { return server_->stats().in_flight == 0; }));
}

TEST_F(HttpBodies, TheBodyOfAGoodOneComesInPieces) {
  serve();
  RawConnection client = connect();
  for (int i = 0; i < 3; ++i) {
    const std::string body(kBodyMax - static_cast<std::size_t>(i), static_cast<char>('a' + i));
    ASSERT_TRUE(client.send(head(body.size())));
    settle(client);
    ASSERT_TRUE(client.send(body.substr(0, 1000)));
    settle(client);
    ASSERT_TRUE(client.send(body.substr(1000)));
    EXPECT_EQ(client.response()->body, body);
  }
  ASSERT_TRUE(
      client.send("POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc"));
  settle(client);
  ASSERT_TRUE(client.send("\r\n2\r\nde\r\n0\r\n\r\n"));
  EXPECT_EQ(client.response()->body, "abcde");
  EXPECT_TRUE(eventually([&] { return server_->stats().in_flight == 0; }));
}

TEST_F(HttpBodies, AWholeRequestIsHandedOverOnce) {
  serve();
  RawConnection client = connect();
  EXPECT_EQ(client.exchange(post_request("/x", "hello"))->body, "hello");
  EXPECT_EQ(client.exchange(post_request("/x", "", "Authorization: bad\r\n"))->status, 401);
  // Nothing was to come: the connection stays.
  EXPECT_EQ(client.exchange(get_request("/"))->body, "");
  EXPECT_EQ(heads_, 3);
  EXPECT_EQ(server_->stats().requests, 3u);
}

TEST_F(HttpBodies, TheBodyMayComeBeforeTheVerdict) {
  serve();
  for (const bool good : {true, false}) {
    for (const bool whole : {true, false}) {
      RawConnection client = connect();
      const std::string body(10'000, 'x');
      ASSERT_TRUE(client.send(head(body.size(), "Authorization: later\r\n")));
      auto exchanges = take_later(1);
      ASSERT_EQ(exchanges.size(), 1u);
      ASSERT_TRUE(client.send(body.substr(0, whole ? body.size() : 5'000)));
      settle(client);
      if (good) {
        accept(exchanges[0]);
      } else {
        exchanges[0].reply(text("no", 401));
      }
      exchanges.clear();
      if (!whole) {
        ASSERT_TRUE(client.send(body.substr(5'000)));
      }
      const auto response = client.response();
      ASSERT_TRUE(response);
      EXPECT_EQ(response->status, good ? 200 : 401);
      EXPECT_EQ(response->body, good ? body : "no");
      EXPECT_EQ(response->header("connection"), good ? "" : "close");
    }
  }
}

// A key that has to be looked up takes a moment, in which a client sends on. It is told what is
// wrong whatever came meanwhile: a reset would take the answer with it.
TEST_F(HttpBodies, WhatIsTooLargeMayComeBeforeTheVerdict) {
  serve();
  const std::string later = "Authorization: later\r\n";
  const std::string chunked =
      "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n" + later + "\r\n";
  std::string wordy;  // Few bytes of a body, and much about each.
  while (wordy.size() < 6 * kBodyMax) {
    wordy += "1\r\nx\r\n";
  }
  const std::string body(6 * kBodyMax, 'x');
  const std::vector<std::pair<std::string, std::string>> requests = {
      {head(body.size(), later), body},
      {chunked, "60000\r\n" + body},
      {chunked, wordy + "0\r\n\r\n"},
  };
  for (const auto& [start, rest] : requests) {
    for (const bool good : {true, false}) {
      RawConnection client = connect();
      ASSERT_TRUE(client.send(start));
      auto exchanges = take_later(1);
      ASSERT_EQ(exchanges.size(), 1U);
      ASSERT_TRUE(client.send(rest));
      settle(client);
      if (good) {
        accept(exchanges[0]);
      } else {
        exchanges[0].reply(text("no", 401));
      }
      exchanges.clear();
      const auto response = client.response();
      ASSERT_TRUE(response) << rest.substr(0, 20);
      EXPECT_EQ(response->status, good ? 400 : 401) << response->body;
      EXPECT_EQ(response->header("connection"), "close");
    }
  }
}

// The first is a request like any other; the client asks again for what has no answer.
TEST_F(HttpBodies, MoreThanIsKeptOfRequestsSentAheadEndsTheConnectionAfterTheFirst) {
  serve();
  RawConnection client = connect();
  ASSERT_TRUE(client.send(head(5, "Authorization: later\r\n") + "he"));
  auto exchanges = take_later(1);
  ASSERT_EQ(exchanges.size(), 1U);
  const std::string next = post_request("/x", std::string(kBodyMax, 'x'));
  ASSERT_TRUE(client.send("llo" + next + next + next));
  settle(client);
  const int before = bodies_;
  accept(exchanges[0]);
  exchanges.clear();
  const auto response = client.response();
  ASSERT_TRUE(response);
  EXPECT_EQ(response->body, "hello");
  EXPECT_EQ(response->header("connection"), "close");
  EXPECT_TRUE(client.closed());
  EXPECT_EQ(bodies_, before + 1);
}

TEST_F(HttpBodies, SaysContinueToWhomItKnows) {
  serve();
  RawConnection bad = connect(), good = connect();
  const std::string expect = "Expect: 100-continue\r\n";
  EXPECT_EQ(bad.exchange(head(5, expect + "Authorization: bad\r\n"))->status, 401);
  EXPECT_EQ(good.exchange(head(5, expect))->status, 100);
  EXPECT_EQ(good.exchange("hello")->body, "hello");
}

TEST_F(HttpBodies, TooLargeIsSaidToWhomItKnows) {
  serve();
  EXPECT_EQ(connect().exchange(head(kBodyMax + 1, "Authorization: bad\r\n"))->status, 401);
  const auto sized = connect().exchange(head(kBodyMax + 1));
  EXPECT_EQ(sized->status, 400);
  EXPECT_THAT(sized->body, HasSubstr("larger than 65536"));
  RawConnection chunked = connect();
  ASSERT_TRUE(chunked.send("POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"));
  settle(chunked);
  EXPECT_EQ(chunked.exchange("10001\r\n")->status, 400);
}

TEST_F(HttpBodies, ABodyThatDoesNotComeIsForgotten) {
  serve({.body_timeout = 300ms});
  RawConnection late = connect();
  ASSERT_TRUE(late.send(head(5) + "he"));
  EXPECT_EQ(late.response()->status, 408);
  EXPECT_TRUE(late.closed());
  serve({.body_timeout = 60s});  // What follows has no need of that time to end.
  RawConnection gone = connect(), half = connect();
  ASSERT_TRUE(gone.send(head(5) + "he"));
  ASSERT_TRUE(half.send(head(5) + "he"));
  ASSERT_TRUE(eventually([&] { return server_->stats().in_flight == 2; }));
  gone.reset();
  half.finish_sending();
  EXPECT_TRUE(half.closed());
  EXPECT_TRUE(eventually([&] { return server_->stats().in_flight == 0; }));
  EXPECT_TRUE(eventually([&] { return alive_.use_count() == 1; }));
  EXPECT_EQ(bodies_, 0);
}

TEST_F(HttpBodies, AVerdictThatDoesNotComeIsA503) {
  serve({.reply_timeout = 200ms});
  RawConnection client = connect();
  EXPECT_EQ(client.exchange(head(5, "Authorization: later\r\n") + "he")->status, 503);
  EXPECT_TRUE(client.closed());
  for (const Exchange& exchange : take_later(1)) {
    accept(exchange);  // Nobody is there.
  }
  EXPECT_EQ(bodies_, 0);
}

TEST_F(HttpBodies, AVerdictMayComeAfterTheClientOrTheServerIsGone) {
  serve();
  {
    RawConnection client = connect();
    ASSERT_TRUE(client.send(head(5, "Authorization: later\r\n") + "he"));
    auto exchanges = take_later(1);
    client.reset();
    settle(client);
    accept(exchanges[0]);
    exchanges.clear();
    EXPECT_TRUE(eventually([&] { return server_->stats().connections == 0; }));
  }
  RawConnection waiting = connect(), receiving = connect();
  ASSERT_TRUE(waiting.send(head(5, "Authorization: later\r\n") + "he"));
  auto exchanges = take_later(1);
  ASSERT_TRUE(receiving.send(head(5) + "he"));
  EXPECT_TRUE(eventually([&] { return server_->stats().in_flight == 2; }));
  server_.reset();
  accept(exchanges[0]);
}

TEST_F(HttpBodies, RequestsSentAheadAreAnsweredInOrder) {
  serve();
  RawConnection client = connect();
  const std::string large(9'000, 'x');
  ASSERT_TRUE(client.send(post_request("/x", large) + post_request("/x", "second") +
                          post_request("/x", large + "!") + get_request("/")));
  for (const std::string& body : {large, "second"s, large + "!", ""s}) {
    const auto response = client.response();
    ASSERT_TRUE(response);
    EXPECT_EQ(response->body, body);
  }
}

// One client with many slow bodies pays itself, oldest first; its neighbour does not notice.
TEST_F(HttpBodies, WhoHoldsMostMakesRoom) {
  serve({.body_budget = 100'000, .body_timeout = 60s});
  const std::string part(18'000, 'x');
  const auto begin_body = [&](const std::string& holder) {
    RawConnection client = connect();
    EXPECT_TRUE(client.send(head(30'000, "X-Holder: " + holder + "\r\n") + part));
    settle(client);
    return client;
  };
  RawConnection neighbour = begin_body("neighbour");
  std::vector<RawConnection> greedy;
  for (int i = 0; i < 4; ++i) {
    greedy.push_back(begin_body("greedy"));
  }
  // 5 × 18,000 and the heads fit. One more of anybody's does not.
  RawConnection third = begin_body("third");
  const auto refused = greedy[0].response();
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->status, 503);
  EXPECT_TRUE(greedy[0].closed());
  const std::string rest(30'000 - part.size(), 'y');
  // These need more than is left: greedy's next one goes.
  for (RawConnection* client : {&neighbour, &third}) {
    ASSERT_TRUE(client->send(rest));
    const auto response = client->response();
    ASSERT_TRUE(response);
    EXPECT_EQ(response->status, 200);
    EXPECT_EQ(response->body, part + rest);
  }
  // Its last is still welcome.
  ASSERT_TRUE(greedy[3].send(rest));
  EXPECT_EQ(greedy[3].response()->status, 200);
}

TEST_F(HttpBodies, BytesCountAsLongAsTheyAreThere) {
  serve({.body_budget = 70'000, .body_timeout = 60s});
  const std::string body(60'000, 'x');
  for (int i = 0; i < 5; ++i) {
    RawConnection kept = connect(), gone = connect();
    ASSERT_TRUE(gone.send(head(60'000) + body.substr(0, 50'000)));
    settle(gone);
    gone.reset();
    EXPECT_TRUE(eventually([&] { return server_->stats().in_flight == 0; }));
    ASSERT_TRUE(kept.send(head(60'000) + body));
    EXPECT_EQ(kept.response()->body, body);
  }
}

// Before anybody knows whose they are, they count for the address.
TEST_F(HttpBodies, BodiesThatWaitForTheirVerdictCountToo) {
  serve({.body_budget = 50'000});
  RawConnection first = connect(), second = connect();
  const std::string lines = "Authorization: later\r\n";
  ASSERT_TRUE(first.send(head(40'000, lines) + std::string(30'000, 'x')));
  settle(first);
  ASSERT_TRUE(second.send(head(40'000, lines) + std::string(30'000, 'x')));
  EXPECT_EQ(first.response()->status, 503);
  auto exchanges = take_later(2);
  accept(exchanges[0]);
  accept(exchanges[1]);
  exchanges.clear();
  ASSERT_TRUE(second.send(std::string(10'000, 'x')));
  EXPECT_EQ(second.response()->body, std::string(40'000, 'x'));
}

// The verdict comes while the server is about to say that it did not: the client is told so, and
// the connection ends. It used to wait for ever for the reply that was already given.
TEST_F(HttpBodies, AVerdictThatCrossesItsDeadlineLeavesNothingBehind) {
  while_rendering_ = [this](int status) {
    const std::lock_guard lock(mutex_);
    if (status == 503 && !later_.empty()) {
      accept(later_.front());
      later_.clear();
    }
  };
  serve({.body_timeout = 60s, .reply_timeout = 200ms});
  RawConnection client = connect();
  const auto response = client.exchange(head(5, "Authorization: later\r\n") + "he");
  EXPECT_TRUE(response && response->status == 503);
  client.send("llo");
  client.finish_sending();
  EXPECT_TRUE(client.closed());
  EXPECT_TRUE(eventually(
      [&] { return server_->stats().connections == 0 && server_->stats().in_flight == 0; }));
  EXPECT_EQ(bodies_, 0);
}

TEST_F(HttpBodies, AVerdictThatCrossesTheBudgetLeavesNothingBehind) {
  while_rendering_ = [this](int status) {
    const std::lock_guard lock(mutex_);
    if (status == 503 && later_.size() == 2) {
      accept(later_.front());
      later_.erase(later_.begin());
    }
  };
  serve({.body_budget = 50'000, .body_timeout = 60s});
  const std::string lines = "Authorization: later\r\n", rest(10'000, 'x');
  RawConnection first = connect(), second = connect();
  ASSERT_TRUE(first.send(head(40'000, lines) + std::string(30'000, 'x')));
  settle(first);
  const int before = bodies_;
  // Its head is there before its body, so that both are when the first has to go.
  ASSERT_TRUE(second.send(head(40'000, lines)));
  ASSERT_TRUE(eventually([&] {
    const std::lock_guard lock(mutex_);
    return later_.size() == 2;
  }));
  ASSERT_TRUE(second.send(std::string(30'000, 'x')));
  const auto response = first.response();
  EXPECT_TRUE(response && response->status == 503);
  first.send(rest);
  first.finish_sending();
  EXPECT_TRUE(first.closed());
  EXPECT_TRUE(eventually([&] { return server_->stats().connections == 1; }));
  EXPECT_EQ(bodies_, before);
  for (const Exchange& exchange : take_later(1)) {
    accept(exchange);
  }
  ASSERT_TRUE(second.send(rest));
  EXPECT_EQ(second.response()->body, std::string(40'000, 'x'));
}

// Whatever the reason, the first reply is the answer.
TEST_F(HttpBodies, AReplyBeforeTheBodyIsHereEndsTheConnection) {
  serve({.body_timeout = 60s});
  for (const auto& [who, status] : {std::pair{"refused after all"s, 401}, {"thrown"s, 500}}) {
    RawConnection client = connect();
    const auto response = client.exchange(head(5, "Authorization: " + who + "\r\n") + "he");
    EXPECT_TRUE(response && response->status == status) << who;
    client.send("llo");
    client.finish_sending();
    EXPECT_TRUE(client.closed()) << who;
    EXPECT_TRUE(eventually([&] {
      return server_->stats().connections == 0 && server_->stats().in_flight == 0;
    })) << who;
  }
  EXPECT_EQ(bodies_, 0);
}

// Nobody is left to answer: the deadline ends even that.
TEST_F(HttpBodies, AConnectionWhoseAnswerHangsIsEnded) {
  std::promise<void> enough;
  const std::shared_future<void> wait(enough.get_future());
  while_rendering_ = [wait](int status) {
    if (status == 400) {
      wait.wait();
    }
  };
  serve({.reply_timeout = 100ms});
  RawConnection client = connect();
  ASSERT_TRUE(client.send("NONSENSE\r\n\r\n"));
  EXPECT_TRUE(client.closed());
  EXPECT_EQ(server_->stats().in_flight, 0u);
  enough.set_value();
}

// One connection without the threads of a server: what crosses there by chance crosses here always.
class OneConnection : public testing::Test {
 protected:
  void make(std::size_t body_budget, Handler handler) {
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends_.data()), 0);
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, others_.data()), 0);
    ServerOptions options;
    options.heads_first = true;
    options.body_budget = body_budget;
    core_ = std::make_shared<ServerCore>(std::move(options),
                                         std::move(handler),
                                         [](int status, std::string_view reason, const Request*) {
                                           return text(std::string(reason), status);
                                         });
    connection_ =
        std::make_shared<Connection>(core_, std::make_shared<Loop>(), ends_[0], IpAddress());
    neighbour_ =
        std::make_shared<Connection>(core_, std::make_shared<Loop>(), others_[0], IpAddress());
    ASSERT_TRUE(core_->add(connection_));
    ASSERT_TRUE(core_->add(neighbour_));
  }
  void TearDown() override {
    connection_->on_eof();
    neighbour_->on_eof();
    if (ticks_ == 0) {
      run_housekeeper();
    }
    core_->housekeeper.stop();
    for (const int fd : {ends_[0], ends_[1], others_[0], others_[1]}) {
      ::close(fd);
    }
  }
  // From now on; what was posted before has had its turn when this returns.
  void run_housekeeper() {
    core_->housekeeper.start(1ms, [this](auto) { ++ticks_; });
    EXPECT_TRUE(eventually([&] { return ticks_ > 0; }));
  }
  // A neighbour's body makes it too much: what there is to be told to whom.
  ConnectionBudget::Victims crowd(std::size_t bytes) {
    return core_->bodies.add(neighbour_, 1, /*holder=*/7, bytes);
  }
  // What the client has been sent, at least one piece of it.
  std::string received() const {
    pollfd ready{ends_[1], POLLIN, 0};
    std::array<char, 4096> buffer;
    if (::poll(&ready, 1, 60'000) != 1) {
      return "nothing";
    }
    return {buffer.data(),
            static_cast<std::size_t>(std::max<ssize_t>(
                ::recv(ends_[1], buffer.data(), buffer.size(), MSG_DONTWAIT), 0))};
  }
  static std::string head(std::size_t length) {
    return "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: " + std::to_string(length) + "\r\n\r\n";
  }

  std::array<int, 2> ends_{}, others_{};  // The server's and the client's.
  std::shared_ptr<ServerCore> core_;
  std::shared_ptr<Connection> connection_, neighbour_;
  std::atomic<int> ticks_{0};
};

TEST_F(OneConnection, ANoteAboutABodyIsNotForTheNextOne) {
  std::vector<Exchange> heads;
  const auto accept = [&] {
    const Exchange exchange = heads.back();
    heads.clear();
    exchange.read_body(1, [exchange] { exchange.reply(text("whole")); });
  };
  make(1'000, [&](Exchange exchange) { heads.push_back(std::move(exchange)); });
  connection_->on_bytes(head(900) + std::string(800, 'x'));
  ASSERT_EQ(heads.size(), 1u);
  accept();
  const auto victims = crowd(300);
  ASSERT_EQ(victims.size(), 1u);
  ASSERT_EQ(victims[0].connection, connection_);
  // It is whole before it hears of that …
  connection_->on_bytes(std::string(100, 'x'));
  EXPECT_THAT(received(), HasSubstr(" 200 OK"));
  // … and the next one has begun when it does.
  connection_->on_bytes(head(10) + "12345");
  ASSERT_EQ(heads.size(), 1u);
  connection_->give_up_body(victims[0].number);
  connection_->resume();
  accept();
  connection_->resume();
  connection_->on_bytes("67890");
  EXPECT_THAT(received(), HasSubstr(" 200 OK"));
}

TEST_F(OneConnection, ANoteAboutAnAnswerIsNotForTheNextOne) {
  constexpr std::size_t kBytes = 4'000'000;  // More than the socket takes.
  make(1'000, [&](const Exchange& exchange) { exchange.reply(text(std::string(kBytes, 'x'))); });
  run_housekeeper();
  // Of one whole answer, its head included, all that comes.
  const auto taken = [&] {
    std::size_t all = 0;
    std::array<char, 65536> buffer;
    pollfd ready{ends_[1], POLLIN, 0};
    while (all < kBytes && ::poll(&ready, 1, 60'000) == 1) {
      const ssize_t size = ::recv(ends_[1], buffer.data(), buffer.size(), MSG_DONTWAIT);
      if (size <= 0) {
        break;
      }
      all += static_cast<std::size_t>(size);
    }
    // The head is more than nothing, so some of the last bytes may be left.
    while (all >= kBytes && ::poll(&ready, 1, 100) == 1 &&
           ::recv(ends_[1], buffer.data(), buffer.size(), MSG_DONTWAIT) > 0) {
    }
    return all;
  };
  const std::string get = "GET /x HTTP/1.1\r\nHost: a\r\n\r\n";
  connection_->on_bytes(get);
  EXPECT_GE(taken(), kBytes);
  ASSERT_TRUE(eventually([&] { return !connection_->active(); }));
  connection_->on_bytes(get);
  connection_->give_up_answer(1);  // It comes late.
  EXPECT_GE(taken(), kBytes);
  ASSERT_TRUE(eventually([&] { return !connection_->active(); }));
  connection_->on_bytes(get);
  connection_->give_up_answer(3);
  EXPECT_LT(taken(), kBytes) << "that is its own";
}

// It came while nobody looked at it, so that the head is no longer where it was.
TEST_F(OneConnection, ABodyGivenUpAsSoonAsItIsWantedIsRefused) {
  std::vector<Exchange> heads;
  make(1'000, [&](Exchange exchange) { heads.push_back(std::move(exchange)); });
  connection_->on_bytes(head(90'000) + "x");
  connection_->on_bytes(std::string(50'000, 'x'));
  ASSERT_EQ(heads.size(), 1u);
  const Exchange exchange = heads.front();
  heads.clear();
  exchange.read_body(1, [exchange] { exchange.reply(text("whole")); });
  connection_->resume();
  EXPECT_THAT(received(), HasSubstr(" 503 "));
}

TEST_F(OneConnection, ABodyGivenUpWhileItsHeadIsHandledIsRefused) {
  make(1'000, [&](const Exchange& exchange) {
    exchange.read_body(1, [exchange] { exchange.reply(text("whole")); });
    for (const auto& victim : crowd(300)) {
      victim.connection->give_up_body(victim.number);
    }
    run_housekeeper();
  });
  connection_->on_bytes(head(900) + std::string(800, 'x'));
  EXPECT_THAT(received(), HasSubstr(" 503 "));
}

}  // namespace
}  // namespace audiogen::http
