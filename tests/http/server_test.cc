// The server over real sockets: order, timeouts, slow and vanishing clients, failing handlers,
// draining. Every wait ends with its event or with a deadline.
#include "common/http/server.h"

#include <any>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include "common/base/metrics.h"
#include "common/http/connection.h"
#include "tests/support/raw_http.h"
#include "tests/support/wait.h"

namespace audiogen::http {
namespace {

using namespace std::chrono_literals;
using namespace std::string_literals;
using test::get_request;
using test::post_request;
using test::RawConnection;
using test::RawResponse;
using testing::HasSubstr;
using testing::SizeIs;
using testing::StartsWith;
using Steady = std::chrono::steady_clock;

constexpr std::size_t kFileSize = 25'000'000;

// Where one request is to wait for it, and others beside it must not.
constexpr auto kReplyTimeout = 10s;

// Of the test file.
std::string file_content() {
  std::string out(kFileSize, '\0');
  for (std::size_t i = 0; i < kFileSize; ++i) {
    out[i] = static_cast<char>(i * 7 + i / 1000);
  }
  return out;
}

template <class Condition>
bool eventually(const Condition& condition, std::chrono::milliseconds patience = 120s) {
  return test::eventually(patience, condition);
}

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

Response text(std::string body, int status = 200) {
  Response response;
  response.status = status;
  response.headers = "Content-Type: text/plain\r\n";
  response.body = std::move(body);
  return response;
}

// Answers exchanges from a thread of its own, in order, once opened.
class Pool {
 public:
  Pool() : thread_([this] { run(); }) {}
  ~Pool() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = open_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  void hold() {
    const std::lock_guard lock(mutex_);
    open_ = false;
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void add(Exchange exchange) {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(exchange));
    changed_.notify_all();
  }
  std::size_t waiting() {
    const std::lock_guard lock(mutex_);
    return waiting_.size();
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return stopping_ || (open_ && !waiting_.empty()); });
      if (stopping_) {
        return;
      }
      std::vector<Exchange> batch;
      batch.swap(waiting_);
      lock.unlock();
      for (const Exchange& exchange : batch) {
        exchange.reply(text(std::string(exchange.request().query)));
      }
      batch.clear();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Exchange> waiting_;
  bool open_ = true, stopping_ = false;
  std::thread thread_;
};

class HttpServer : public testing::Test {
 protected:
  void TearDown() override {
    server_.reset();
    if (!file_name_.empty()) {
      std::filesystem::remove(file_name_);
    }
  }

  // Before the first request for /file.
  void make_file() {
    file_name_ = testing::TempDir() + "http_server_XXXXXX";
    const UniqueFd fd(::mkstemp(file_name_.data()));
    const std::string content = file_content();
    ASSERT_EQ(::write(fd.get(), content.data(), content.size()), static_cast<ssize_t>(kFileSize));
  }

  void serve(ServerOptions options = {}) {
    kept_.reserve(8);
    server_ = std::make_unique<Server>(
        std::move(options),
        [this](Exchange exchange) { handle(std::move(exchange)); },
        [](int status, std::string_view reason, const Request* partial) {
          Response response = text(std::string(reason), status);
          if (partial != nullptr && partial->has_header("x-request-id")) {
            response.headers +=
                "X-Request-Id: " + std::string(partial->header("x-request-id")) + "\r\n";
          }
          return response;
        });
    const auto started = server_->start();
    ASSERT_TRUE(started) << started.error().message;
  }

  void handle(Exchange exchange) {
    const Request& request = exchange.request();
    const std::string_view path = request.path;
    if (path == "/hello") {
      exchange.reply(text("{\"hello\":\"world\"}"));
    } else if (path == "/noted") {
      EXPECT_TRUE(exchange.is_told());
      exchange.note(std::string("at first"));
      exchange.note(std::string("of the handler"));
      exchange.reply(text("body"));
    } else if (path == "/echo") {
      exchange.reply(text(std::string(request.body)));
    } else if (path == "/token") {
      exchange.reply(text(std::string(request.query)));
    } else if (path == "/pool") {
      pool_.add(std::move(exchange));
    } else if (path == "/address") {
      exchange.reply(text(request.client.text()));
    } else if (path == "/status") {
      exchange.reply(text("body", std::stoi(std::string(request.query))));
    } else if (path == "/big") {
      if (request.has_header("x-holder")) {
        exchange.charge(std::hash<std::string>()(request.joined_headers("x-holder")));
      }
      exchange.reply(text(std::string(std::stoul(std::string(request.query)), 'b')));
    } else if (path == "/file") {
      Response response;
      const off_t offset = request.query.empty() ? 0 : std::stol(std::string(request.query));
      response.file = FileBody(::open(file_name_.c_str(), O_RDONLY | O_CLOEXEC),
                               offset,
                               static_cast<off_t>(kFileSize) - offset);
      exchange.reply(std::move(response));
    } else if (path == "/short-file") {
      Response response;
      response.file = FileBody(
          ::open(file_name_.c_str(), O_RDONLY | O_CLOEXEC), static_cast<off_t>(kFileSize) - 10, 20);
      exchange.reply(std::move(response));
    } else if (path == "/throw") {
      throw 42;
    } else if (path == "/reply-and-throw") {
      exchange.reply(text("first"));
      throw std::runtime_error("secret detail");
    } else if (path == "/reply-twice") {
      exchange.reply(text("first"));
      exchange.reply(text("second"));
    } else if (path == "/block") {
      blocked_ = true;
      blocked_.wait(true);
      exchange.reply(text(""));
    } else if (path == "/age") {
      const auto age = Steady::now() - exchange.received_at();
      exchange.reply(text(std::to_string(age / 1ms)));
    } else if (path == "/keep") {
      const std::lock_guard lock(kept_mutex_);
      kept_.push_back(std::move(exchange));
    } else if (path == "/forget") {
      return;
    } else {
      exchange.reply(text("no such path", 404));
    }
  }

  RawConnection connect(int receive_buffer = 0) const {
    return RawConnection(port(), "127.0.0.1", receive_buffer);
  }
  RawConnection connect_from(const std::string& source) const {
    return RawConnection(port(), "127.0.0.1", 0, source);
  }
  std::uint16_t port() const { return server_->port(); }

  static double dropped(const std::string& kind) {
    return metrics::counter("http_connections_dropped_total",
                            "Connections ended or refused for want of room or of bytes",
                            {{"server", "http"}, {"kind", kind}})
        .Value();
  }

  std::size_t kept() {
    const std::lock_guard lock(kept_mutex_);
    return kept_.size();
  }

  std::string file_name_;
  Pool pool_;
  std::mutex kept_mutex_;
  std::vector<Exchange> kept_;
  std::atomic<bool> blocked_{false};  // Set by /block, which waits until it is not.
  std::unique_ptr<Server> server_;
};

// Whoever answers: the handler, once or twice, late or not at all, or the server itself.
TEST_F(HttpServer, TellsOfEachAnswerOnce) {
  make_file();
  std::mutex mutex;
  std::vector<std::string> told;
  const auto lines = [&] {
    const std::lock_guard lock(mutex);
    return told;
  };
  const auto within = [&](std::chrono::milliseconds reply_timeout) {
    ServerOptions options;
    options.reply_timeout = reply_timeout;
    options.answered = [&](const Answered& answered) {
      const std::lock_guard lock(mutex);
      const auto* const note = std::any_cast<std::string>(answered.note);
      told.push_back(std::string(answered.request.path) + " " + std::to_string(answered.status) +
                     " " + std::to_string(answered.bytes) + (note == nullptr ? "" : " " + *note));
    };
    return options;
  };
  serve(within(60s));
  const auto ask = [&](const std::string& method, const std::string& target) {
    auto connection = connect();
    connection.send(method + " " + target + " HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_TRUE(connection.response(method == "HEAD")) << target;
    return lines().back();
  };
  EXPECT_EQ(ask("GET", "/noted"), "/noted 200 4 of the handler");
  EXPECT_EQ(ask("GET", "/hello"), "/hello 200 17");
  EXPECT_EQ(ask("HEAD", "/hello"), "/hello 200 0");
  EXPECT_EQ(ask("GET", "/status?304"), "/status 304 0");
  EXPECT_EQ(ask("GET", "/file?1000"), "/file 200 " + std::to_string(kFileSize - 1000));
  EXPECT_EQ(ask("GET", "/reply-twice"), "/reply-twice 200 5");
  EXPECT_THAT(ask("GET", "/throw"), StartsWith("/throw 500 "));
  EXPECT_THAT(ask("GET", "/forget"), StartsWith("/forget 500 "));
  auto connection = connect();
  connection.send("GET /bad HTTP/1.1\r\nHost: x\r\nbad header\r\n\r\n");
  ASSERT_TRUE(connection.response());
  EXPECT_THAT(lines().back(), StartsWith("/bad 400 "));
  serve(within(200ms));
  EXPECT_THAT(ask("GET", "/keep"), StartsWith("/keep 503 "));
  kept_.front().reply(text("too late"));
  EXPECT_THAT(lines(), SizeIs(10));
  kept_.clear();
  server_.reset();  // Before what it tells.
}

TEST_F(HttpServer, AnswersOverOneConnectionManyTimes) {
  serve();
  RawConnection client = connect();
  for (int i = 0; i < 50; ++i) {
    const auto response = client.exchange(get_request("/token?" + std::to_string(i)));
    ASSERT_TRUE(response);
    EXPECT_EQ(response->status, 200);
    EXPECT_EQ(response->body, std::to_string(i));
    EXPECT_EQ(response->header("connection"), "");
    EXPECT_EQ(response->header("content-type"), "text/plain");
    EXPECT_EQ(response->header("date").size(), 29u);
    EXPECT_TRUE(response->head.starts_with("HTTP/1.1 200 OK\r\n"));
  }
  EXPECT_EQ(server_->stats().requests, 50u);
  EXPECT_EQ(server_->stats().connections, 1u);
  EXPECT_TRUE(eventually([&] { return server_->stats().in_flight == 0; }));
  EXPECT_EQ(client.exchange(get_request("/address"))->body, "127.0.0.1");
}

// It was received when its bytes were there, not when the thread came to read them.
TEST_F(HttpServer, CountsTheTimeARequestWaitedForItsThread) {
  // Of the kernel, by whose clock it is known and which may tick late on a busy machine.
  constexpr auto kTick = 100ms;
  serve({.threads = 1});
  RawConnection blocking = connect(), waiting = connect();
  const auto age = [&] { return std::stoi(waiting.response()->body) * 1ms; };
  auto sent = Steady::now();
  ASSERT_TRUE(waiting.send(get_request("/age")));
  const auto at_once = age();
  EXPECT_LE(at_once, Steady::now() - sent + kTick) << "no more than there was";
  ASSERT_TRUE(blocking.send(get_request("/block")));
  ASSERT_TRUE(eventually([&] { return blocked_.load(); }));
  ASSERT_TRUE(waiting.send(get_request("/age")));
  sent = Steady::now();
  ASSERT_TRUE(eventually([&] { return Steady::now() - sent > 200ms; }));
  blocked_ = false;
  blocked_.notify_all();
  EXPECT_GE(age(), 200ms - kTick);
}

TEST_F(HttpServer, ReadsARequestThatComesByteByByte) {
  serve();
  RawConnection client = connect();
  for (const char c : post_request("/echo", "hello") +
                          "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                          "3\r\nabc\r\n2;x\r\nde\r\n0\r\n\r\n") {
    ASSERT_TRUE(client.send({&c, 1}));
  }
  EXPECT_EQ(client.response()->body, "hello");
  EXPECT_EQ(client.response()->body, "abcde");
}

TEST_F(HttpServer, ReadsAChunkedRequestCutAtEveryByte) {
  serve();
  const std::string bytes =
      "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: "
      "chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
  RawConnection client = connect();
  for (std::size_t cut = 1; cut < bytes.size(); ++cut) {
    const std::uint64_t before = server_->stats().requests;
    ASSERT_TRUE(client.send(bytes.substr(0, cut)));
    // Only a probe on another connection tells that the first part may have been read.
    ASSERT_TRUE(connect().exchange(get_request("/hello")));
    ASSERT_TRUE(client.send(bytes.substr(cut)));
    const auto response = client.response();
    ASSERT_TRUE(response) << cut;
    ASSERT_EQ(response->body, "abcde") << cut;
    ASSERT_EQ(server_->stats().requests, before + 2);
  }
}

TEST_F(HttpServer, RefusesMalformedFramingOnceAndCloses) {
  serve();
  for (
      const std::string& bytes : {
          "GET / HTTP/1.1\r\n\r\n"s,
          "GET / HTTP/1.1\n\n"s,
          "GET /\r\n\r\n"s,
          "GET / HTTP/1.1\r\nHost: a\r\nContent-Length : 5\r\n\r\nhello"s,
          "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!"s,
          "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"s,
          "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\nhello"s,
          "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 263168\r\n\r\nhello"s,
          "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10000000000\r\nExpect: 100-continue\r\n\r\n"s,
          "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n"s,
          "GET http:///hello HTTP/1.1\r\nHost: a\r\n\r\n"s,
          "GET " + std::string(60'000, '/') + " HTTP/1.1\r\nHost: a\r\n\r\n",
          "GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n"s,
          "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n"s,
      }) {
    RawConnection client = connect();
    // Whatever follows must not be taken for a request.
    ASSERT_TRUE(client.send(bytes + get_request("/hello") + get_request("/hello")));
    const auto response = client.response();
    ASSERT_TRUE(response) << bytes.substr(0, 200);
    EXPECT_EQ(response->status, 400) << bytes.substr(0, 200);
    EXPECT_EQ(response->header("connection"), "close");
    EXPECT_NE(response->body, "");
    EXPECT_TRUE(client.closed()) << bytes.substr(0, 200);
  }
}

TEST_F(HttpServer, ShowsTheErrorRendererWhatItKnowsOfTheRequest) {
  serve();
  RawConnection client = connect();
  const auto response = client.exchange("GET / HTTP/1.1\r\nX-Request-Id: abc\r\nbroken\r\n\r\n");
  EXPECT_EQ(response->header("x-request-id"), "abc");
  EXPECT_THAT(response->body, HasSubstr("colon"));
}

TEST_F(HttpServer, GivesAReadableAnswerToAHugePost) {
  serve({.linger_timeout = 60s});
  for (int i = 0; i < 10; ++i) {
    RawConnection client = connect();
    ASSERT_TRUE(client.send(post_request("/echo", std::string(5'000'000, 'x'))));
    const auto response = client.response();
    ASSERT_TRUE(response);
    EXPECT_EQ(response->status, 400);
    EXPECT_THAT(response->body, HasSubstr("larger than 262144"));
    EXPECT_TRUE(client.closed());
  }
}

TEST_F(HttpServer, CutsOffAClientThatNeverStopsSending) {
  serve({.linger_timeout = 60s});
  RawConnection client = connect();
  ASSERT_TRUE(client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10000000000\r\n\r\n"));
  const std::string part(100'000, 'x');
  std::size_t sent = 0;
  while (sent < 200'000'000 && client.send(part)) {
    sent += part.size();
  }
  EXPECT_LT(sent, 200'000'000u);
}

TEST_F(HttpServer, AnswersPipelinedRequestsInOrder) {
  serve();
  RawConnection client = connect();
  pool_.hold();
  ASSERT_TRUE(client.send(get_request("/pool?1") + post_request("/token?2", "body") +
                          get_request("/pool?3") + get_request("/token?4")));
  EXPECT_TRUE(eventually([&] { return pool_.waiting() == 1; }));
  EXPECT_EQ(server_->stats().in_flight, 1u);  // One at a time.
  pool_.open();
  for (const char* token : {"1", "2", "3", "4"}) {
    const auto response = client.response();
    ASSERT_TRUE(response) << token;
    EXPECT_EQ(response->body, token);
  }
  EXPECT_EQ(client.exchange(get_request("/token?5"))->body, "5");
}

TEST_F(HttpServer, ClosesAfterTheReplyWhenTooMuchIsPipelined) {
  serve();
  RawConnection client = connect();
  pool_.hold();
  ASSERT_TRUE(client.send(get_request("/pool?1")));
  EXPECT_TRUE(eventually([&] { return pool_.waiting() == 1; }));
  // More than the buffers of both kernels hold: the server has read past its limit.
  ASSERT_TRUE(client.send(std::string(12'000'000, 'x')));
  pool_.open();
  const auto response = client.response();
  ASSERT_TRUE(response);
  EXPECT_EQ(response->body, "1");
  EXPECT_TRUE(client.closed());
}

TEST_F(HttpServer, AnswersAClientThatHasFinishedSending) {
  make_file();
  serve();
  {
    RawConnection client = connect();
    pool_.hold();
    ASSERT_TRUE(
        client.send(get_request("/pool?1") + get_request("/pool?2") + get_request("/token?3")));
    client.finish_sending();
    EXPECT_TRUE(eventually([&] { return pool_.waiting() == 1; }));
    // The reactor has seen the end: it serves its other connections on.
    ASSERT_TRUE(connect().exchange(get_request("/hello")));
    ASSERT_TRUE(connect().exchange(get_request("/hello")));
    pool_.open();
    EXPECT_EQ(client.response()->body, "1");
    EXPECT_EQ(client.response()->body, "2");
    EXPECT_EQ(client.response()->body, "3");
    EXPECT_TRUE(client.closed());
  }
  RawConnection client = connect();
  ASSERT_TRUE(client.send(get_request("/file")));
  client.finish_sending();
  EXPECT_EQ(client.response()->body.size(), kFileSize);
  EXPECT_TRUE(client.closed());
  EXPECT_TRUE(eventually([&] { return server_->stats().connections == 0; }));
}

TEST_F(HttpServer, KeepsConnectionsByVersionAndConnectionHeader) {
  serve();
  {
    RawConnection client = connect();
    EXPECT_EQ(client.exchange(get_request("/hello", "Connection: close\r\n"))->header("connection"),
              "close");
    EXPECT_TRUE(client.closed());
  }
  {
    RawConnection client = connect();
    EXPECT_EQ(client.exchange("GET /hello HTTP/1.0\r\n\r\n")->header("connection"), "close");
    EXPECT_TRUE(client.closed());
  }
  RawConnection client = connect();
  for (int i = 0; i < 3; ++i) {
    const auto response = client.exchange("GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    EXPECT_EQ(response->header("connection"), "keep-alive");
  }
}

TEST_F(HttpServer, SendsNoBodyWhereThereIsNone) {
  make_file();
  serve();
  RawConnection client = connect();
  ASSERT_TRUE(client.send("HEAD /hello HTTP/1.1\r\nHost: a\r\n\r\n"));
  EXPECT_EQ(client.response(true)->header("content-length"), "17");
  ASSERT_TRUE(client.send("HEAD /file HTTP/1.1\r\nHost: a\r\n\r\n"));
  EXPECT_EQ(client.response(true)->header("content-length"), std::to_string(kFileSize));
  for (const char* status : {"204", "304"}) {
    const auto response = client.exchange(get_request(std::string("/status?") + status));
    EXPECT_EQ(response->headers.count("content-length"), 0u);
  }
  EXPECT_EQ(client.exchange(get_request("/token?still"))->body, "still");
}

TEST_F(HttpServer, SaysContinueWhenAsked) {
  serve();
  RawConnection client = connect();
  ASSERT_TRUE(client.send(
      "POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"));
  EXPECT_EQ(client.response()->status, 100);
  ASSERT_TRUE(client.send("hello"));
  EXPECT_EQ(client.response()->body, "hello");
}

TEST_F(HttpServer, SurvivesFailingHandlers) {
  serve();
  RawConnection client = connect();
  const auto thrown = client.exchange(get_request("/throw"));
  EXPECT_EQ(thrown->status, 500);
  const auto once = client.exchange(get_request("/reply-and-throw"));
  EXPECT_EQ(once->status, 200);
  EXPECT_EQ(once->body, "first");
  EXPECT_EQ(client.exchange(get_request("/reply-twice"))->body, "first");
  EXPECT_EQ(client.exchange(get_request("/forget"))->status, 500);
  EXPECT_EQ(client.exchange(get_request("/token?fine"))->body, "fine");
}

TEST_F(HttpServer, AnswersForAHandlerThatTakesTooLong) {
  serve({.reply_timeout = 200ms});
  RawConnection client = connect();
  pool_.hold();
  const auto response = client.exchange(get_request("/pool?late"));
  ASSERT_TRUE(response);
  EXPECT_EQ(response->status, 503);
  // A busy machine may take as long for what is answered at once.
  const auto said = [&](const std::string& token) {
    std::optional<RawResponse> answer;
    EXPECT_TRUE(eventually([&] {
      answer = client.exchange(get_request("/token?" + token));
      return !answer || answer->status != 503;
    }));
    return answer ? answer->body : "nothing";
  };
  EXPECT_EQ(said("next"), "next");
  pool_.open();  // The late reply goes nowhere …
  EXPECT_TRUE(eventually([&] { return pool_.waiting() == 0; }));
  EXPECT_EQ(said("after"), "after");  // … not even here.
}

// The one that is allowed more has been there for longer than the one that is not: when that one
// has its refusal, its own would be there as well.
TEST_F(HttpServer, AllowsAHandlerMoreTimeForOneRequest) {
  serve({.reply_timeout = kReplyTimeout});
  RawConnection client = connect(), other = connect();
  ASSERT_TRUE(other.send(get_request("/keep")));
  ASSERT_TRUE(eventually([&] { return kept() == 1; }));
  kept_[0].reply(text("in time"));
  const auto in_time = other.response();
  ASSERT_TRUE(in_time);
  ASSERT_EQ(in_time->body, "in time");
  ASSERT_TRUE(client.send(get_request("/keep")));
  ASSERT_TRUE(eventually([&] { return kept() == 2; }));
  kept_[1].allow(60s);
  ASSERT_TRUE(other.send(get_request("/keep")));
  ASSERT_TRUE(eventually([&] { return kept() == 3; }));
  kept_[0].allow(60s);  // Answered already: no other request has that time.
  const auto refused = other.response(false, 60s);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->status, 503);
  EXPECT_FALSE(client.response(false, 300ms)) << "answered for the handler";
  kept_[1].reply(text("late"));
  const auto late = client.response();
  ASSERT_TRUE(late);
  EXPECT_EQ(late->body, "late");
}

TEST_F(HttpServer, TellsWhetherItsClientHasEnded) {
  serve();
  RawConnection client = connect();
  ASSERT_TRUE(client.send(get_request("/keep")));
  ASSERT_TRUE(eventually([&] { return kept() == 1; }));
  EXPECT_FALSE(kept_[0].client_ended());
  client.finish_sending();
  EXPECT_TRUE(eventually([&] { return kept_[0].client_ended(); }));
  kept_[0].reply(text("still read"));
  EXPECT_EQ(client.response()->body, "still read");
  RawConnection other = connect();
  ASSERT_TRUE(other.send(get_request("/keep")));
  ASSERT_TRUE(eventually([&] { return kept() == 2; }));
  other.reset();
  EXPECT_TRUE(eventually([&] { return kept_[1].client_ended(); }));
}

TEST_F(HttpServer, TakesNoReplyForAnotherRequest) {
  serve({.reply_timeout = kReplyTimeout});
  RawConnection client = connect();
  ASSERT_TRUE(client.send(get_request("/keep") + get_request("/keep") + get_request("/keep")));
  ASSERT_TRUE(eventually([&] { return kept() == 1; }));
  kept_[0].reply(text("one"));
  ASSERT_TRUE(eventually([&] { return kept() == 2; }));
  kept_[0].reply(text("one again"));  // The second request is the one in hand now …
  ASSERT_TRUE(eventually([&] { return kept() == 3; }));
  kept_[1].reply(text("two too late"));  // … and here the third.
  kept_[2].reply(text("three"));
  EXPECT_EQ(client.response()->body, "one");
  EXPECT_EQ(client.response()->status, 503);
  EXPECT_EQ(client.response()->body, "three");
}

TEST_F(HttpServer, EndsSlowRequestsInTime) {
  serve({.head_timeout = 400ms, .body_timeout = 400ms});
  for (const std::string begin :
       {"GET /hello HTTP/1.1\r\nX: ",
        "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 9999\r\n\r\n"}) {
    RawConnection client = connect();
    ASSERT_TRUE(client.send(begin));
    const auto end = Steady::now() + 60s;
    std::optional<RawResponse> response;
    // The trickle must not extend the deadline.
    while (!response && Steady::now() < end) {
      client.send("x");
      response = client.response(false, 20ms);
    }
    ASSERT_TRUE(response) << begin;
    EXPECT_EQ(response->status, 408);
    EXPECT_EQ(response->header("connection"), "close");
    EXPECT_TRUE(client.closed());
  }
}

// Each of the two times on a server of its own, where the other one does not end.
TEST_F(HttpServer, EndsIdleConnectionsSilently) {
  EXPECT_EQ(ServerOptions().first_byte_timeout, 5s) << "what nobody sets for the public port";
  serve({.first_byte_timeout = 400ms, .keep_alive_timeout = 60s});
  RawConnection fresh = connect();
  EXPECT_TRUE(fresh.closed());
  serve({.first_byte_timeout = 60s, .keep_alive_timeout = 400ms});
  RawConnection used = connect();
  ASSERT_TRUE(used.exchange(get_request("/hello")));
  EXPECT_TRUE(used.closed());
}

TEST_F(HttpServer, WaitsForARefusedClientToCloseButNotForEver) {
  serve({.linger_timeout = 200ms});
  RawConnection client = connect();
  EXPECT_EQ(client.exchange("nonsense\r\n")->status, 400);
  EXPECT_TRUE(eventually([&] { return server_->stats().connections == 0; }));
}

TEST_F(HttpServer, SendsFilesWholeAndFromAnOffset) {
  make_file();
  serve({.write_stall_timeout = 600s});
  RawConnection client = connect();
  ASSERT_TRUE(client.exchange(get_request("/hello")));
  const std::size_t descriptors = open_descriptors();
  const auto whole = client.exchange(get_request("/file"));
  ASSERT_TRUE(whole);
  EXPECT_TRUE(eventually([&] { return open_descriptors() == descriptors; }));
  ASSERT_EQ(whole->body.size(), kFileSize);
  EXPECT_TRUE(whole->body == file_content());
  const auto tail = client.exchange(get_request("/file?" + std::to_string(kFileSize - 3)));
  ASSERT_TRUE(tail);
  EXPECT_EQ(tail->body, file_content().substr(kFileSize - 3));
  const auto nothing = client.exchange(get_request("/file?" + std::to_string(kFileSize)));
  ASSERT_TRUE(nothing);
  EXPECT_EQ(nothing->body, "");
  const auto big = client.exchange(get_request("/big?5000000"));
  ASSERT_TRUE(big);
  EXPECT_TRUE(big->body == std::string(5'000'000, 'b'));
  // A file that has become shorter ends the connection: the promised length cannot be met.
  EXPECT_FALSE(client.exchange(get_request("/short-file")));
  EXPECT_TRUE(eventually([&] { return server_->stats().connections == 0; }));
}

// A length that came out negative would be announced as nearly 2^64 bytes, and the next response
// read as part of this one.
TEST(HttpFileBody, IsAPartOfAFile) {
  constexpr off_t kMax = std::numeric_limits<off_t>::max();
  EXPECT_DEATH(FileBody(UniqueFd(), 0, -1), "length >= 0");
  EXPECT_DEATH(FileBody(UniqueFd(), -1, 5), "offset >= 0");
  EXPECT_DEATH(FileBody(UniqueFd(), 1, kMax), "kMax|max");
  EXPECT_EQ(FileBody(UniqueFd(), 0, kMax).length, kMax);
}

TEST_F(HttpServer, ServesOthersWhileReadersStall) {
  make_file();
  constexpr auto kStall = 10s;
  serve({.write_stall_timeout = kStall});
  const std::size_t descriptors = open_descriptors();
  const auto begin = Steady::now();
  std::vector<RawConnection> stalled;
  for (int i = 0; i < 20; ++i) {
    stalled.push_back(connect(4096));
    ASSERT_TRUE(stalled.back().send(get_request(i % 2 == 0 ? "/file" : "/big?25000000")));
  }
  EXPECT_TRUE(eventually([&] { return server_->stats().requests == 20; }));
  RawConnection client = connect();
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(client.exchange(get_request("/hello")));
  }
  const auto file = client.exchange(get_request("/file"));
  ASSERT_TRUE(file);
  EXPECT_EQ(file->body.size(), kFileSize);
  EXPECT_TRUE(eventually([&] { return server_->stats().connections == 1; }));
  EXPECT_GE(Steady::now() - begin, kStall);
  stalled.clear();
  client.close();
  EXPECT_TRUE(eventually([&] { return open_descriptors() == descriptors; }));
}

// One user with many answers that he does not take pays himself; his neighbour, who is slow as
// well, does not notice, and neither does any user notice strangers.
TEST_F(HttpServer, WhoLeavesMostAnswersUntakenMakesRoom) {
  // More than the kernel takes from us for a client that does not read.
  constexpr std::size_t kBytes = 25'000'000;
  serve({.answer_budget = 3 * kBytes + kBytes / 2, .write_stall_timeout = 60s});
  const double before = dropped("answer_budget");
  const auto begin = [&](const std::string& holder) {
    RawConnection client = connect(4096);
    const std::uint64_t requests = server_->stats().requests;
    EXPECT_TRUE(client.send(get_request("/big?" + std::to_string(kBytes),
                                        holder.empty() ? "" : "X-Holder: " + holder + "\r\n")));
    EXPECT_TRUE(eventually([&] { return server_->stats().requests > requests; }));
    pollfd head{client.fd(), POLLIN, 0};
    EXPECT_EQ(::poll(&head, 1, 60'000), 1);
    return client;
  };
  const auto takes_all = [](RawConnection& client) {
    const auto response = client.response();
    return response && response->body == std::string(kBytes, 'b');
  };
  RawConnection neighbour = begin("neighbour");
  RawConnection first = begin("greedy"), second = begin("greedy");
  EXPECT_EQ(dropped("answer_budget"), before) << "all fit";
  RawConnection stranger = begin("");  // For them there is a quarter.
  ASSERT_TRUE(eventually([&] { return dropped("answer_budget") == before + 1; }));
  EXPECT_FALSE(takes_all(stranger));
  RawConnection third = begin("greedy");
  ASSERT_TRUE(eventually([&] { return dropped("answer_budget") == before + 2; }));
  EXPECT_TRUE(eventually([&] { return server_->stats().connections == 3; }));
  EXPECT_TRUE(takes_all(neighbour));
  EXPECT_TRUE(takes_all(third));
  EXPECT_NE(takes_all(first), takes_all(second));
  // What was taken counts no more.
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(
        neighbour.exchange(get_request("/big?" + std::to_string(kBytes), "X-Holder: n\r\n")));
  }
  EXPECT_EQ(dropped("answer_budget"), before + 2);
}

// A file is no memory of ours, and whoever downloads one is not to make room for others' answers.
TEST_F(HttpServer, AFileThatIsNotTakenCountsForNothing) {
  make_file();
  serve({.answer_budget = 1});
  const double before = dropped("answer_budget");
  RawConnection client = connect(4096);
  const auto response = client.exchange(get_request("/file"));
  ASSERT_TRUE(response);
  EXPECT_EQ(response->body.size(), kFileSize);
  EXPECT_EQ(dropped("answer_budget"), before);
}

TEST_F(HttpServer, LosesNoDescriptorToVanishingClients) {
  make_file();
  serve();
  // Before the first client: a connection is no longer counted a moment before its descriptor is
  // closed, and one that was open here would be waited for until the test is given up.
  const std::size_t descriptors = open_descriptors();
  for (int i = 0; i < 300; ++i) {
    RawConnection client = connect(4096);
    ASSERT_TRUE(client.send(get_request(i % 3 == 0 ? "/pool?x" : "/file")));
    if (i % 2 == 0) {
      ASSERT_TRUE(i % 3 == 0 || client.response(true));
    }
    if (i % 5 == 0) {
      client.close();
    } else {
      client.reset();
    }
  }
  EXPECT_TRUE(eventually([&] { return open_descriptors() == descriptors; }))
      << open_descriptors() << " instead of " << descriptors;
  EXPECT_TRUE(eventually([&] { return server_->stats().in_flight == 0; }));
  EXPECT_EQ(connect().exchange(get_request("/token?alive"))->body, "alive");
}

// Clients that send and vanish make descriptor numbers come back quickly; their replies must never
// reach the client that has the number next.
TEST_F(HttpServer, NeverAnswersTheWrongClient) {
  serve();
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0}, failed{0}, right{0}, vanished{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; !stop; ++i) {
        // Not so many that the honest ones no longer get a turn.
        if (vanished > 5 * right + 50) {
          test::pace(1ms);
          continue;
        }
        ++vanished;
        RawConnection client = connect();
        ASSERT_TRUE(client.connected());
        client.send(
            get_request((i % 2 == 0 ? "/pool?vanished-" : "/token?vanished-") + std::to_string(t)));
        if (i % 3 == 0) {
          client.reset();
        }
      }
    });
    threads.emplace_back([&, t] {
      for (int i = 0; !stop; ++i) {
        RawConnection client = connect();
        for (int k = 0; k < 3; ++k) {
          const std::string token =
              std::to_string(t) + "-" + std::to_string(i) + "-" + std::to_string(k);
          const auto response =
              client.exchange(get_request((k % 2 == 0 ? "/pool?" : "/token?") + token));
          ++(!response ? failed : response->body == token ? right : wrong);
        }
      }
    });
  }
  EXPECT_TRUE(eventually([&] { return right > 2000; }, 100s));
  stop = true;
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(failed, 0);
  RecordProperty("verified", right.load());
}

TEST_F(HttpServer, DrainsUnderLoadWithoutLosingAnAnswer) {
  serve({.reply_timeout = 60s});  // The held one must outlast a slow machine's drain.
  pool_.hold();
  RawConnection waiting = connect();
  ASSERT_TRUE(waiting.send(get_request("/pool?waited")));
  EXPECT_TRUE(eventually([&] { return pool_.waiting() == 1; }));
  RawConnection idle = connect();
  ASSERT_TRUE(idle.exchange(get_request("/hello")));

  std::array<std::atomic<int>, 4> answered{};
  std::atomic<int> lost{0};
  std::vector<std::thread> clients;
  for (std::atomic<int>& own : answered) {
    clients.emplace_back([&] {
      RawConnection client = connect();
      for (;;) {
        const auto response = client.exchange(get_request("/token?x"));
        if (!response) {
          ++lost;
          return;
        }
        ++own;
        if (response->header("connection") == "close") {
          return;
        }
      }
    });
  }
  // Each of them: one that had not connected yet would find the port closed, and rightly.
  EXPECT_TRUE(eventually(
      [&] { return std::ranges::all_of(answered, [](const auto& own) { return own > 50; }); }));
  std::atomic<bool> drained{false};
  std::thread drainer([&] {
    server_->drain(60s);
    drained = true;
  });
  for (std::thread& client : clients) {
    client.join();  // Each is told to close.
  }
  EXPECT_EQ(lost, 0);
  EXPECT_FALSE(RawConnection(port()).connected());
  EXPECT_FALSE(eventually([&] { return drained.load(); }, 300ms));
  pool_.open();
  const auto response = waiting.response();
  ASSERT_TRUE(response);
  EXPECT_EQ(response->body, "waited");
  EXPECT_EQ(response->header("connection"), "close");
  drainer.join();
  const auto late = idle.exchange(get_request("/hello"));
  ASSERT_TRUE(late);
  EXPECT_EQ(late->status, 503);
  // The port is free for the next process while this one still runs.
  Server next(
      {.port = port()},
      [](const Exchange&) {},
      [](int, std::string_view, const Request*) { return Response(); });
  EXPECT_TRUE(next.start());
}

// It sends a creation once: one that met a connection that the server has closed would be lost.
TEST_F(HttpServer, DrainsUntilTrustedProxiesHaveClosedWhatTheyKeep) {
  serve({.trusted_proxies = *parse_networks("127.0.0.2"), .proxy_idle = 600s});
  RawConnection kept = connect_from("127.0.0.2"), unused = connect_from("127.0.0.2");
  RawConnection direct = connect();
  for (RawConnection* const connection : {&kept, &unused, &direct}) {
    ASSERT_TRUE(connection->exchange(get_request("/hello")));
  }
  std::atomic<bool> drained{false};
  std::thread drainer([&] {
    server_->drain(600s);
    drained = true;
  });
  EXPECT_TRUE(eventually([&] { return !RawConnection(port()).connected(); }));
  EXPECT_FALSE(eventually([&] { return drained.load(); }, 500ms));
  // It is told to close from a moment after the port is free.
  EXPECT_TRUE(eventually([&] {
    const auto late = kept.exchange(post_request("/echo", "late"));
    EXPECT_TRUE(late && late->status == 200 && late->body == "late");
    return !late || late->header("connection") == "close";
  }));
  kept.close();
  EXPECT_FALSE(eventually([&] { return drained.load(); }, 500ms));
  unused.close();
  EXPECT_TRUE(eventually([&] { return drained.load(); })) << "nobody waits for direct clients";
  drainer.join();
}

TEST_F(HttpServer, DrainsNoLongerThanAProxyMayKeepAConnection) {
  serve({.trusted_proxies = *parse_networks("127.0.0.2"), .proxy_idle = 200ms});
  RawConnection kept = connect_from("127.0.0.2");
  ASSERT_TRUE(kept.exchange(get_request("/hello")));
  const auto begin = Steady::now();
  server_->drain(600s);
  EXPECT_GE(Steady::now() - begin, 200ms);
  EXPECT_LT(Steady::now() - begin, 300s);
  const auto late = kept.exchange(get_request("/hello"));
  ASSERT_TRUE(late);
  EXPECT_EQ(late->status, 503);
}

TEST_F(HttpServer, GivesUpDrainingAtItsLimit) {
  serve({.reply_timeout = 120s});
  pool_.hold();
  RawConnection client = connect();
  ASSERT_TRUE(client.send(get_request("/pool?x")));
  EXPECT_TRUE(eventually([&] { return pool_.waiting() == 1; }));
  const auto begin = Steady::now();
  server_->drain(300ms);
  EXPECT_LT(Steady::now() - begin, 60s);
  server_->stop();
  EXPECT_TRUE(client.closed());
  pool_.open();  // A reply after the end of everything is dropped.
  EXPECT_TRUE(eventually([&] { return pool_.waiting() == 0; }));
}

TEST_F(HttpServer, AcceptsRepliesAfterItIsGone) {
  serve();
  pool_.hold();
  RawConnection client = connect();
  ASSERT_TRUE(client.send(get_request("/pool?x")));
  EXPECT_TRUE(eventually([&] { return pool_.waiting() == 1; }));
  server_.reset();
  pool_.open();
  EXPECT_TRUE(eventually([&] { return pool_.waiting() == 0; }));
  EXPECT_TRUE(client.closed());
}

TEST_F(HttpServer, SaysWhenThePortIsTaken) {
  serve();
  const auto error = [](int, std::string_view, const Request*) { return Response(); };
  Server second(
      {.port = port()}, [](const Exchange&) {}, error);
  const auto started = second.start();
  ASSERT_FALSE(started);
  EXPECT_THAT(started.error().message, HasSubstr("in use"));
  Server nowhere(
      {.host = "203.0.113.1"}, [](const Exchange&) {}, error);
  EXPECT_FALSE(nowhere.start());
  Server unresolvable(
      {.host = "no such host"}, [](const Exchange&) {}, error);
  EXPECT_FALSE(unresolvable.start());
  EXPECT_EQ(connect().exchange(get_request("/hello"))->status, 200);
}

TEST_F(HttpServer, ListensOnOtherLoopbackAddresses) {
  serve({.host = "localhost"});
  EXPECT_TRUE(RawConnection(port()).exchange(get_request("/hello")));
  const std::size_t connections_before = server_->stats().connections;
  EXPECT_LE(connections_before, 1u);
  const UniqueFd probe(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in6 loopback{.sin6_family = AF_INET6,
                              .sin6_port = 0,
                              .sin6_flowinfo = 0,
                              .sin6_addr = IN6ADDR_LOOPBACK_INIT,
                              .sin6_scope_id = 0};
  if (::bind(probe.get(), reinterpret_cast<const sockaddr*>(&loopback), sizeof loopback) != 0) {
    GTEST_SKIP() << "this machine has no IPv6";
  }
  serve({.host = "::1", .threads = 1});
  EXPECT_EQ(RawConnection(port(), "::1").exchange(get_request("/address"))->body, "::1");
  serve({.host = "::"});
  EXPECT_EQ(RawConnection(port(), "::1").exchange(get_request("/address"))->body, "::1");
  EXPECT_EQ(RawConnection(port()).exchange(get_request("/address"))->body, "127.0.0.1");
}

TEST_F(HttpServer, ANewConnectionTakesThePlaceOfTheLongestIdleOne) {
  serve({.connections_max = 5, .make_room_timeout = 60s});
  std::vector<RawConnection> clients;
  for (int i = 0; i < 5; ++i) {
    clients.push_back(connect());
    ASSERT_TRUE(clients.back().exchange(get_request("/hello")));
  }
  ASSERT_TRUE(clients[0].exchange(get_request("/hello")));  // Now the second is it.
  const double before = dropped("evicted_idle");
  RawConnection next = connect();
  ASSERT_TRUE(next.exchange(get_request("/hello")));
  EXPECT_TRUE(clients[1].closed());
  for (const std::size_t i : {0u, 2u, 3u, 4u}) {
    EXPECT_TRUE(clients[i].exchange(get_request("/hello"))) << i;
  }
  EXPECT_EQ(dropped("evicted_idle"), before + 1);
  EXPECT_EQ(server_->stats().connections, 5u);
}

TEST_F(HttpServer, OneThatIsSilentGoesBeforeOneThatWasOfUse) {
  serve({.connections_max = 3, .make_room_timeout = 60s});
  RawConnection used = connect();
  ASSERT_TRUE(used.exchange(get_request("/hello")));
  RawConnection silent = connect();
  RawConnection last = connect();
  ASSERT_TRUE(last.exchange(get_request("/hello")));
  ASSERT_TRUE(connect().exchange(get_request("/hello")));
  EXPECT_TRUE(silent.closed());
  EXPECT_TRUE(used.exchange(get_request("/hello")));
}

TEST_F(HttpServer, NoRequestIsEndedToMakeRoom) {
  serve({.connections_max = 5, .make_room_timeout = 60s, .reply_timeout = 60s});
  pool_.hold();
  std::vector<RawConnection> clients;
  for (int i = 0; i < 4; ++i) {
    clients.push_back(connect());
    ASSERT_TRUE(clients.back().send(get_request("/pool?" + std::to_string(i))));
  }
  clients.push_back(connect());
  ASSERT_TRUE(clients.back().send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhe"));
  ASSERT_TRUE(eventually([&] { return pool_.waiting() == 4; }));
  const double before = dropped("refused_full");
  EXPECT_TRUE(connect().closed());
  EXPECT_EQ(dropped("refused_full"), before + 1);
  ASSERT_TRUE(clients[4].send("llo"));
  EXPECT_EQ(clients[4].response()->body, "hello");
  pool_.open();
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(clients[i].response()->body, std::to_string(i));
  }
  EXPECT_TRUE(connect().exchange(get_request("/hello")));
}

// A part of a head is no request yet, but of more use than silence.
TEST_F(HttpServer, HalfAHeadGoesWhenNobodyIsIdle) {
  // One thread, which has read that half before it comes to a later request.
  serve({.threads = 1, .connections_max = 3, .make_room_timeout = 60s});
  RawConnection half = connect();
  ASSERT_TRUE(half.send("GET /hello HTTP/1.1\r\n"));
  RawConnection silent = connect();
  pool_.hold();
  RawConnection busy = connect();
  ASSERT_TRUE(busy.send(get_request("/pool?busy")));
  ASSERT_TRUE(eventually([&] { return pool_.waiting() == 1; }));
  RawConnection other = connect();
  ASSERT_TRUE(other.send(get_request("/pool?other")));
  EXPECT_TRUE(silent.closed());
  ASSERT_TRUE(eventually([&] { return pool_.waiting() == 2; }));
  const double before = dropped("evicted_head");
  ASSERT_TRUE(connect().exchange(get_request("/hello")));
  EXPECT_TRUE(half.closed());
  EXPECT_EQ(dropped("evicted_head"), before + 1);
  pool_.open();
  EXPECT_EQ(busy.response()->body, "busy");
  EXPECT_EQ(other.response()->body, "other");
}

TEST_F(HttpServer, TheAddressWithMostConnectionsLosesOne) {
  serve({.connections_max = 10, .make_room_timeout = 60s});
  std::vector<RawConnection> few, many;
  for (int i = 0; i < 3; ++i) {
    few.push_back(connect_from("127.0.0.2"));
    ASSERT_TRUE(few.back().exchange(get_request("/hello")));
  }
  for (int i = 0; i < 7; ++i) {
    many.push_back(connect_from("127.0.0.3"));
    ASSERT_TRUE(many.back().exchange(get_request("/hello")));
  }
  // Three more, and each time it is the one that has most who pays.
  std::vector<RawConnection> more;
  for (std::size_t i = 0; i < 3; ++i) {
    more.push_back(connect_from("127.0.0.4"));
    ASSERT_TRUE(more.back().exchange(get_request("/hello")));
    EXPECT_TRUE(many[i].closed()) << i;
  }
  for (RawConnection& client : few) {
    EXPECT_TRUE(client.exchange(get_request("/hello")));
  }
}

// The client has not read it yet. Somebody else makes room, though it rests for less long.
TEST_F(HttpServer, NoLastAnswerIsCutOffToMakeRoom) {
  serve({.connections_per_address = 2, .first_byte_timeout = 60s, .linger_timeout = 60s});
  RawConnection reading = connect(4096);
  ASSERT_TRUE(reading.send(get_request("/big?60000", "Connection: close\r\n")));
  ASSERT_TRUE(eventually(
      [&] { return server_->stats().requests == 1 && server_->stats().in_flight == 0; }));
  RawConnection silent = connect();
  EXPECT_TRUE(connect().exchange(get_request("/hello")));
  EXPECT_TRUE(silent.closed());
  const auto response = reading.response();
  ASSERT_TRUE(response);
  EXPECT_EQ(response->body.size(), 60'000u);
}

// Where nobody else can make room the connection ends, but not before its answer is delivered.
TEST_F(HttpServer, WhoMakesRoomStillGetsTheAnswerBefore) {
  const auto evicted = [] { return dropped("evicted_idle") + dropped("evicted_head"); };
  for (const std::string& next : {""s, "GET /hel"s}) {
    serve({.connections_per_address = 1, .head_timeout = 60s});
    const double before = evicted();
    RawConnection reading = connect(4096);
    ASSERT_TRUE(reading.send(get_request("/big?60000")));
    ASSERT_TRUE(eventually(
        [&] { return server_->stats().requests == 1 && server_->stats().in_flight == 0; }));
    ASSERT_TRUE(reading.send(next));
    // Half a head is not one before it is read, and until then there is no room.
    EXPECT_TRUE(eventually([&] { return connect().exchange(get_request("/hello")).has_value(); }));
    EXPECT_GE(evicted(), before + 1);
    const auto response = reading.response();
    ASSERT_TRUE(response) << next;
    EXPECT_EQ(response->body.size(), 60'000u);
    EXPECT_TRUE(reading.closed());
  }
}

TEST_F(HttpServer, WhoTakesNothingOfItsAnswerMakesRoom) {
  make_file();
  for (const auto grace : {60'000ms, 100ms}) {
    serve({.connections_max = 2, .stall_grace = grace, .write_stall_timeout = 60s});
    std::vector<RawConnection> stalled;
    for (int i = 0; i < 2; ++i) {
      stalled.push_back(connect());
      ASSERT_TRUE(stalled.back().send(get_request("/file")));
    }
    ASSERT_TRUE(eventually([&] { return server_->stats().in_flight == 2; }));
    if (grace > 1s) {
      EXPECT_TRUE(connect().closed());
      for (RawConnection& client : stalled) {
        const auto response = client.response();
        ASSERT_TRUE(response);
        EXPECT_EQ(response->body.size(), kFileSize);
      }
    } else {
      const double before = dropped("evicted_stalled");
      EXPECT_TRUE(
          eventually([&] { return connect().exchange(get_request("/hello")).has_value(); }));
      EXPECT_GE(dropped("evicted_stalled"), before + 1);
    }
  }
}

TEST(ConnectionsOfOneAddress, AreAQuarterOfAllAtMost) {
  EXPECT_EQ(connections_of_one_address(1000, 16384), 1000u);
  EXPECT_EQ(connections_of_one_address(1000, 4000), 1000u);
  EXPECT_EQ(connections_of_one_address(1000, connections_for(1024)), 72u);
  EXPECT_EQ(connections_of_one_address(5, 100), 5u);
  EXPECT_EQ(connections_of_one_address(1000, 3), 1u);
}

TEST_F(HttpServer, AnAddressHasItsShareOfConnections) {
  serve({.connections_per_address = 3, .reply_timeout = 60s});
  std::vector<RawConnection> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(connect_from("127.0.0.2"));
    ASSERT_TRUE(clients.back().exchange(get_request("/hello")));
  }
  RawConnection neighbour = connect_from("127.0.0.3");
  ASSERT_TRUE(neighbour.exchange(get_request("/hello")));
  // Its own longest idle one makes room …
  RawConnection fourth = connect_from("127.0.0.2");
  ASSERT_TRUE(fourth.exchange(get_request("/hello")));
  EXPECT_TRUE(clients[0].closed());
  // … and when none is idle, there is none. Others do not notice.
  pool_.hold();
  ASSERT_TRUE(clients[1].send(get_request("/pool?1")));
  ASSERT_TRUE(clients[2].send(get_request("/pool?2")));
  ASSERT_TRUE(fourth.send(get_request("/pool?4")));
  ASSERT_TRUE(eventually([&] { return pool_.waiting() == 3; }));
  const double before = dropped("refused_address");
  EXPECT_TRUE(connect_from("127.0.0.2").closed());
  EXPECT_EQ(dropped("refused_address"), before + 1);
  EXPECT_TRUE(neighbour.exchange(get_request("/hello")));
  EXPECT_TRUE(connect_from("127.0.0.3").exchange(get_request("/hello")));
  pool_.open();
  EXPECT_EQ(fourth.response()->body, "4");
}

// Connections of which none is ever closed, as while the threads of a server are busy.
class Crowd : public testing::Test {
 protected:
  ~Crowd() override {
    for (const auto& connection : all_) {
      connection->on_eof();
    }
    for (const auto& [server, client] : sockets_) {
      ::close(server);
      ::close(client);
    }
  }
  bool add(const char* address) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    sockets_.emplace_back(ends[0], ends[1]);
    all_.push_back(std::make_shared<Connection>(
        core_, std::make_shared<Loop>(), ends[0], *IpAddress::parse(address)));
    return core_->add(all_.back());
  }

  const std::shared_ptr<ServerCore> core_ = std::make_shared<ServerCore>(
      ServerOptions{.trusted_proxies = *parse_networks("2001:db8:0:10ff::/64"),
                    .connections_max = 40,
                    .connections_per_address = 3},
      [](const Exchange&) {},
      [](int, std::string_view, const Request*) { return Response(); });
  std::vector<std::shared_ptr<Connection>> all_;
  std::vector<std::pair<int, int>> sockets_;
};

// It would be the thread that accepts everybody's connections.
TEST_F(Crowd, NobodyWaitsForWhoGoesWhereOneAddressHasTooMany) {
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(add("192.0.2.1"));
  }
  EXPECT_TRUE(add("192.0.2.1")) << "the longest idle one has been told to go";
  EXPECT_EQ(core_->count(), 4U) << "but it is still there";
  EXPECT_TRUE(add("192.0.2.1"));
  EXPECT_TRUE(add("192.0.2.1"));
  EXPECT_FALSE(add("192.0.2.1")) << "as many are on their way out as it may have";
  EXPECT_TRUE(add("192.0.2.2"));
  all_.front()->on_eof();
  EXPECT_TRUE(add("192.0.2.1"));
  EXPECT_EQ(core_->count(), 7U);
}

// A customer has 2^64 addresses: they count as one.
TEST_F(Crowd, ACustomersIpv6NetworkIsOneAddress) {
  for (const char* const address : {"2001:db8:0:1::1",
                                    "2001:db8:0:1::2",
                                    "2001:db8:0:1:ffff::",
                                    "2001:db8:0:1::4",
                                    "2001:db8:0:1:5::",
                                    "2001:db8:0:1::6"}) {
    EXPECT_TRUE(add(address)) << address;
  }
  EXPECT_FALSE(add("2001:db8:0:1::7")) << "three, and three on their way out";
  EXPECT_TRUE(add("2001:db8:0:2::1"));
}

// A home has 256 such networks, and a site 65,536: each below its own limit, together all there is.
TEST_F(Crowd, OneHomeOrSiteLeavesRoomForOthers) {
  const auto network = [](int home, int number) {
    constexpr int kNetworks = 16;  // Of each home: the last digit.
    return "2001:db8:0:" + std::to_string(home) + "0" +
           std::string(1, "0123456789abcdef"[number % kNetworks]) + "::1";
  };
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(add(network(1, i).c_str())) << i;
  }
  // Of a proxy in between, through which others come, nothing counts, coming or going.
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(add("2001:db8:0:10ff::1"));
    all_.back()->on_eof();
  }
  EXPECT_FALSE(add(network(1, 10).c_str())) << "a quarter of all";
  EXPECT_TRUE(add(network(1, 0).c_str())) << "of the same address one goes that rests";
  all_.front()->on_eof();
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(add(network(2, i).c_str())) << i;
  }
  EXPECT_FALSE(add(network(3, 0).c_str())) << "half of all";
  EXPECT_TRUE(add("2001:db8:1::1"));
  EXPECT_TRUE(add("192.0.2.1"));
  all_[1]->on_eof();
  EXPECT_TRUE(add(network(3, 1).c_str()));
}

// All who come through it share its address.
TEST_F(HttpServer, ATrustedProxyHasAsManyConnectionsAsThereAre) {
  serve({.trusted_proxies = *parse_networks("127.0.0.2"), .connections_per_address = 2});
  std::vector<RawConnection> clients;
  for (int i = 0; i < 6; ++i) {
    clients.push_back(connect_from("127.0.0.2"));
    ASSERT_TRUE(clients.back().exchange(get_request("/hello")));
  }
  for (RawConnection& client : clients) {
    EXPECT_TRUE(client.exchange(get_request("/hello")));
  }
}

TEST_F(HttpServer, BelievesTrustedProxiesOnlyAboutTheClient) {
  serve({.trusted_proxies = *parse_networks("127.0.0.2")});
  const std::string told = get_request(
      "/address", "X-Forwarded-For: 198.51.100.1\r\nX-Forwarded-For: 203.0.113.9, 127.0.0.2\r\n");
  EXPECT_EQ(connect_from("127.0.0.3").exchange(told)->body, "127.0.0.3");
  RawConnection proxy = connect_from("127.0.0.2");
  EXPECT_EQ(proxy.exchange(told)->body, "203.0.113.9");
  EXPECT_EQ(proxy.exchange(get_request("/address"))->body, "127.0.0.2");
}

TEST_F(HttpServer, TheFirstByteHasATimeOfItsOwn) {
  serve({.first_byte_timeout = 300ms, .keep_alive_timeout = 60s});
  RawConnection used = connect();
  ASSERT_TRUE(eventually([&] {
    if (used.exchange(get_request("/hello"))) {
      return true;
    }
    used = connect();  // On a busy machine it may have been silent for too long itself.
    return false;
  }));
  const double before = dropped("silent");
  RawConnection silent = connect();
  EXPECT_TRUE(silent.closed());
  EXPECT_EQ(dropped("silent"), before + 1);
  EXPECT_TRUE(used.exchange(get_request("/hello")));
}

// Whose bytes are there has done his part; that the thread is late is no fault of his.
TEST_F(HttpServer, NobodyIsEndedWhoseBytesWaitForTheThread) {
  serve({.threads = 1, .first_byte_timeout = 10s});
  RawConnection blocking = connect();
  ASSERT_TRUE(blocking.exchange(get_request("/hello")));
  const double before = dropped("silent");
  RawConnection waiting = connect(), silent = connect();
  ASSERT_TRUE(eventually([&] { return server_->stats().connections == 3; }));
  ASSERT_TRUE(blocking.send(get_request("/block")));
  ASSERT_TRUE(eventually([&] { return blocked_.load(); }));
  ASSERT_TRUE(waiting.send(get_request("/hello")));
  // It has been silent for no longer than the one that waits.
  EXPECT_TRUE(eventually([&] { return dropped("silent") > before; }));
  blocked_ = false;
  blocked_.notify_all();
  const auto answer = waiting.response();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 200);
  EXPECT_EQ(dropped("silent"), before + 1);
}

TEST_F(HttpServer, AcceptsATargetInAbsoluteForm) {
  serve();
  EXPECT_EQ(
      connect().exchange("GET http://elsewhere.example/token?x HTTP/1.1\r\nHost: a\r\n\r\n")->body,
      "x");
}

// Pistache would ask for a queue of 128.
TEST_F(HttpServer, QueuesABurstOfConnections) {
  serve();
  unsigned queue = 0;
  for (int fd = 0; fd < 1024; ++fd) {
    tcp_info info{};
    socklen_t size = sizeof info;
    if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
        info.tcpi_state == TCP_LISTEN) {
      queue = info.tcpi_sacked;  // For a listening socket: the longest queue allowed.
    }
  }
  EXPECT_GE(queue, 1024u);
  std::vector<RawConnection> clients;
  for (int i = 0; i < 500; ++i) {
    clients.push_back(connect());
    ASSERT_TRUE(clients.back().send(get_request("/token?" + std::to_string(i))));
  }
  for (int i = 0; i < 500; ++i) {
    ASSERT_EQ(clients[static_cast<std::size_t>(i)].response()->body, std::to_string(i));
  }
}

}  // namespace
}  // namespace audiogen::http
