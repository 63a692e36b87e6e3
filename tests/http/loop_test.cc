// What others have an I/O thread do.
#include "common/http/loop.h"

#include <atomic>
#include <future>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include "common/http/server.h"
#include "tests/support/raw_http.h"

namespace audiogen::http {
namespace {

using testing::ElementsAre;

// One thing to be run: notes its number and thread.
struct Note {
  int number;
  std::vector<int>* numbers;
  std::set<std::thread::id>* threads;
};

void note(void* subject) {
  const std::unique_ptr<Note> it(static_cast<Note*>(subject));
  it->numbers->push_back(it->number);
  it->threads->insert(std::this_thread::get_id());
}

bool readable(const Loop& loop, int wait_ms) {
  pollfd ready{.fd = loop.fd(), .events = POLLIN, .revents = 0};
  return ::poll(&ready, 1, wait_ms) == 1;
}

TEST(Loop, RunsWhatIsPostedInOrderAndOnce) {
  Loop loop;
  std::vector<int> numbers;
  std::set<std::thread::id> threads;
  EXPECT_FALSE(readable(loop, 0));
  std::thread other([&] {
    for (int i = 0; i < 3; ++i) {
      loop.post(note, new Note{i, &numbers, &threads});
    }
  });
  other.join();
  EXPECT_TRUE(readable(loop, 0));
  EXPECT_TRUE(numbers.empty());
  loop.run_posted();
  EXPECT_THAT(numbers, ElementsAre(0, 1, 2));
  EXPECT_THAT(threads, ElementsAre(std::this_thread::get_id()));
  EXPECT_FALSE(readable(loop, 0));
  loop.run_posted();
  EXPECT_EQ(numbers.size(), 3U);
}

TEST(Loop, RunsAfterItsEndWhateverIsLeftAndComes) {
  Loop loop;
  std::vector<int> numbers;
  std::set<std::thread::id> threads;
  loop.post(note, new Note{0, &numbers, &threads});
  loop.end();
  EXPECT_THAT(numbers, ElementsAre(0));
  loop.post(note, new Note{1, &numbers, &threads});
  EXPECT_THAT(numbers, ElementsAre(0, 1));
}

TEST(Loop, LosesNothingThatManyPostAtOnce) {
  constexpr int kThreads = 4, kEach = 2'000;
  Loop loop;
  std::atomic<int> count{0};
  const auto add = [](void* counter) { ++*static_cast<std::atomic<int>*>(counter); };
  std::vector<std::thread> posting;
  for (int t = 0; t < kThreads; ++t) {
    posting.emplace_back([&] {
      for (int i = 0; i < kEach; ++i) {
        loop.post(add, &count);
      }
    });
  }
  while (count < kThreads * kEach) {
    ASSERT_TRUE(readable(loop, 60'000)) << "nobody told of what was posted";
    loop.run_posted();
  }
  for (std::thread& thread : posting) {
    thread.join();
  }
  EXPECT_EQ(count, kThreads * kEach);
}

Response bare(int status, std::string_view, const Request*) {
  Response response;
  response.status = status;
  return response;
}

// What a handler left with somebody else to go on with.
struct Waiting {
  Exchange exchange;
  std::thread::id asked_on;
  std::promise<bool>* same;
};

void go_on(void* subject) {
  const std::unique_ptr<Waiting> waiting(static_cast<Waiting*>(subject));
  waiting->same->set_value(waiting->asked_on == std::this_thread::get_id());
  Response response;
  response.body = "later";
  waiting->exchange.reply(std::move(response));
}

TEST(Loop, IsOfTheThreadThatReadsTheConnection) {
  std::promise<bool> same;
  std::thread finder;
  Server server(
      {},
      [&](Exchange exchange) {
        Loop& loop = exchange.loop();
        auto* const waiting = new Waiting{std::move(exchange), std::this_thread::get_id(), &same};
        finder = std::thread([&loop, waiting] { loop.post(go_on, waiting); });
      },
      bare);
  ASSERT_TRUE(server.start());
  test::RawConnection client(server.port());
  const auto answer = client.exchange(test::get_request("/"));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->body, "later");
  EXPECT_TRUE(same.get_future().get());
  finder.join();
}

TEST(Loop, IsFinishedWhenAServerSaysSo) {
  std::promise<Loop*> asked;
  Server server(
      {},
      [&](const Exchange& exchange) {
        asked.set_value(&exchange.loop());
        exchange.reply(Response());
      },
      bare);
  ASSERT_TRUE(server.start());
  test::RawConnection client(server.port());
  ASSERT_TRUE(client.exchange(test::get_request("/")));
  Loop& loop = *asked.get_future().get();
  std::atomic<int> count{0};
  for (int i = 0; i < 1'000; ++i) {
    loop.post([](void* counter) { ++*static_cast<std::atomic<int>*>(counter); }, &count);
  }
  server.finish_posted();
  EXPECT_EQ(count, 1'000);
}

// Whoever waits for the store when the server stops is gone on with, so that nothing of it is left.
TEST(Loop, OutlivesItsServer) {
  std::promise<bool> same;
  std::promise<Waiting*> asked;
  Server server(
      {},
      [&](Exchange exchange) {
        asked.set_value(new Waiting{std::move(exchange), std::this_thread::get_id(), &same});
      },
      bare);
  ASSERT_TRUE(server.start());
  test::RawConnection client(server.port());
  ASSERT_TRUE(client.send(test::get_request("/")));
  Waiting* const waiting = asked.get_future().get();
  server.stop();
  waiting->exchange.loop().post(go_on, waiting);
  EXPECT_FALSE(same.get_future().get());
}

}  // namespace
}  // namespace audiogen::http
