// Requests that wait for a task: they share looks, end when they should, and free their places.
#include "api/generations/waits.h"

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "api/server/handling.h"
#include "common/http/server.h"
#include "tests/support/raw_http.h"
#include "tests/support/wait.h"

namespace audiogen::api {
namespace {

using namespace std::chrono_literals;
using test::eventually;
using test::get_request;
using test::RawConnection;

constexpr Route kRoute{.method = "GET",
                       .path = "/wait",
                       .access = Access::kPublic,
                       .rate = RateClass::kNone,
                       .handle = [](Parts&, Call) {}};
constexpr std::chrono::milliseconds kLooks{20};

// "GET /wait?N" waits for task N for a minute, "GET /brief?N" for one look, "GET /change?N" for a
// minute for it to change, and answers whether it waited and the task's state.
class WaitsTest : public testing::Test {
 protected:
  void serve(WaitsOptions options) {
    options.look_every = kLooks;
    waits_.emplace([this](const store::FindCommand& command,
                          Waits::Found found) { return find(command, std::move(found)); },
                   options);
    server_ = std::make_unique<http::Server>(
        http::ServerOptions{.reply_timeout = 120s},  // No wait ends by it.
        [this](http::Exchange exchange) {
          const std::string path(exchange.request().path);
          const auto limit = path == "/brief" ? kLooks : 60'000ms;
          const std::string number(exchange.request().query);
          answer(Call(std::move(exchange), kRoute, {}),
                 tasks_.at(std::stoul(number)),
                 limit,
                 path == "/change");
        },
        [](int status, std::string_view, const http::Request*) {
          http::Response out;
          out.status = status;
          return out;
        });
    ASSERT_TRUE(server_->start());
  }
  ~WaitsTest() override {
    if (waits_) {
      waits_->release();
    }
    server_.reset();
    waits_.reset();
    EXPECT_EQ(handlers_, 0) << "a handler nobody waits for any more is still there";
  }

  bool find(const store::FindCommand& command, Waits::Found found) {
    ++finds_;
    if (refusing_) {
      return false;
    }
    if (hanging_) {
      return true;
    }
    TaskView task;
    task.id = command.id;
    task.state = final_ ? TaskState::kSucceeded : TaskState::kRunning;
    task.epoch = epoch_;
    found(failing_ ? Result<store::FindOutcome, store::StoreFault>(store::StoreFault::kUnavailable)
                   : store::FindOutcome(task));
    return true;
  }

  Handling answer(Call call, TaskId id, std::chrono::milliseconds limit, bool change) {
    struct Present {
      explicit Present(std::atomic<int>& all) : count(all) { ++count; }
      Present(const Present&) = delete;
      ~Present() { --count; }
      std::atomic<int>& count;
    };
    const Present present(handlers_);
    TaskView task;
    task.id = id;
    bool waited = false;
    if (change) {
      task.state = TaskState::kRunning;
      task.epoch = 1;
      waited = co_await waits_->until_changed(call, task, limit);
    } else {
      waited = co_await waits_->until_final(call, task, limit);
    }
    call.answer(200, (waited ? "waited " : "at once ") + std::string(state_name(task.state)));
  }

  RawConnection ask(const std::string& path) {
    RawConnection out(server_->port());
    EXPECT_TRUE(out.send(get_request(path)));
    return out;
  }
  static std::string said(RawConnection& client) {
    const auto response = client.response();
    return response ? response->body : "nothing";
  }
  bool handlers(int count) {
    const bool there = eventually(60s, [&] { return handlers_ == count; });
    server_->finish_posted();  // A handler is counted a moment before it has its place.
    return there;
  }
  // Until that many more looks have begun.
  bool looks(int more) {
    return eventually(60s, [&, seen = finds_.load()] { return finds_ >= seen + more; });
  }

  const std::vector<TaskId> tasks_{TaskId::make(), TaskId::make(), TaskId::make()};
  std::atomic<int> handlers_{0}, finds_{0};
  std::atomic<std::uint32_t> epoch_{1};
  std::atomic<bool> final_{false}, refusing_{false}, failing_{false}, hanging_{false};
  std::optional<Waits> waits_;
  std::unique_ptr<http::Server> server_;
};

TEST_F(WaitsTest, EndWithTheTask) {
  serve({});
  RawConnection client = ask("/wait?0");
  ASSERT_TRUE(looks(2));
  EXPECT_EQ(handlers_, 1);
  final_ = true;
  EXPECT_EQ(said(client), "waited succeeded");
}

TEST_F(WaitsTest, EndWithTheirTime) {
  serve({});
  RawConnection client = ask("/brief?0");
  EXPECT_EQ(said(client), "waited running") << "as it was last seen";
}

TEST_F(WaitsTest, AreNotAskedForWhenNobodyWaits) {
  serve({});
  RawConnection client = ask("/brief?0");
  EXPECT_EQ(said(client), "waited running");
  const int seen = finds_;
  RawConnection other = ask("/brief?0");
  EXPECT_EQ(said(other), "waited running");
  EXPECT_EQ(finds_, seen + 1);
}

TEST_F(WaitsTest, OfOneTaskShareALook) {
  serve({});
  std::vector<RawConnection> clients;
  for (int i = 0; i < 10; ++i) {
    clients.push_back(ask("/wait?1"));
  }
  ASSERT_TRUE(handlers(10));
  hanging_ = true;  // So that looks come one by one, with all of them.
  ASSERT_TRUE(looks(1));
  final_ = true;
  hanging_ = false;
  const int seen = finds_;
  for (RawConnection& client : clients) {
    EXPECT_EQ(said(client), "waited succeeded");
  }
  EXPECT_LE(finds_, seen + 1);
}

TEST_F(WaitsTest, HaveTwentyPlacesForAKey) {
  serve({});
  std::vector<RawConnection> clients;
  for (std::size_t i = 0; i < kWaitsPerKey; ++i) {
    clients.push_back(ask("/wait?" + std::to_string(i % tasks_.size())));
  }
  ASSERT_TRUE(handlers(kWaitsPerKey));
  RawConnection another = ask("/wait?0");
  EXPECT_EQ(said(another), "at once queued");
  // A client that goes frees its place.
  clients.front().close();
  ASSERT_TRUE(handlers(kWaitsPerKey - 1));
  RawConnection next = ask("/wait?0");
  ASSERT_TRUE(handlers(kWaitsPerKey));
  final_ = true;
  EXPECT_EQ(said(next), "waited succeeded");
}

TEST_F(WaitsTest, HaveSoManyPlacesAndNoMore) {
  serve({.places = {.total = 2, .per_key = 100}});
  const RawConnection first = ask("/wait?0"), second = ask("/wait?1");
  ASSERT_TRUE(handlers(2));
  RawConnection third = ask("/wait?2");
  EXPECT_EQ(said(third), "at once queued");
}

// However many keys he has; what ends makes room.
TEST_F(WaitsTest, HaveSoManyPlacesForAUser) {
  serve({.places = {.per_user = 2}});
  RawConnection first = ask("/wait?0");
  const RawConnection second = ask("/wait?1");
  ASSERT_TRUE(handlers(2));
  RawConnection third = ask("/wait?2");
  EXPECT_EQ(said(third), "at once queued");
  first.close();
  ASSERT_TRUE(handlers(1));
  RawConnection next = ask("/wait?2");
  ASSERT_TRUE(handlers(2));
  final_ = true;
  EXPECT_EQ(said(next), "waited succeeded");
}

// Whoever has a place of his own needs none here.
TEST_F(WaitsTest, ForAChangeEndWithItAndTakeNoPlace) {
  serve({.places = {.total = 1}});
  std::vector<RawConnection> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(ask("/change?0"));
  }
  ASSERT_TRUE(handlers(3));
  RawConnection other = ask("/wait?0");
  ASSERT_TRUE(handlers(4));
  ASSERT_TRUE(looks(2));
  EXPECT_EQ(handlers_, 4);
  epoch_ = 2;
  for (RawConnection& client : clients) {
    EXPECT_EQ(said(client), "waited running");
  }
  ASSERT_TRUE(handlers(1)) << "who waits for the end";
  RawConnection late = ask("/change?0");
  EXPECT_EQ(said(late), "waited running");
  final_ = true;
  EXPECT_EQ(said(other), "waited succeeded");
  epoch_ = 1;
  RawConnection last = ask("/change?0");
  EXPECT_EQ(said(last), "waited succeeded");
}

TEST_F(WaitsTest, ForAChangeEndWhenTheServerDrains) {
  serve({});
  RawConnection client = ask("/change?0");
  ASSERT_TRUE(looks(1));
  waits_->release();
  EXPECT_EQ(said(client), "waited running");
  RawConnection later = ask("/change?0");
  EXPECT_EQ(said(later), "at once running");
}

// It may still read.
TEST_F(WaitsTest, AClientThatSendsNoMoreIsAnsweredAtOnce) {
  serve({});
  RawConnection client = ask("/wait?0");
  ASSERT_TRUE(looks(1));
  client.finish_sending();
  EXPECT_EQ(said(client), "waited running");
}

TEST_F(WaitsTest, AreAnsweredAtOnceWhenTheServerDrains) {
  serve({});
  RawConnection client = ask("/wait?0");
  ASSERT_TRUE(looks(1));
  waits_->release();
  EXPECT_EQ(said(client), "waited running");
  RawConnection later = ask("/wait?0");
  EXPECT_EQ(said(later), "at once queued");
}

TEST_F(WaitsTest, WaitOnWhileTheStoreIsAwayAndEndInTheirTime) {
  serve({});
  RawConnection client = ask("/wait?0");
  refusing_ = true;
  ASSERT_TRUE(looks(2));
  refusing_ = false;
  failing_ = true;
  ASSERT_TRUE(looks(2));
  RawConnection brief = ask("/brief?0");
  EXPECT_EQ(said(brief), "waited queued") << "as its handler knew it";
  hanging_ = true;
  RawConnection hung = ask("/brief?1");
  EXPECT_EQ(said(hung), "waited queued") << "though the look never ended";
  hanging_ = failing_ = false;
  final_ = true;
  EXPECT_EQ(said(client), "waited succeeded");
}

}  // namespace
}  // namespace audiogen::api
