// What the screen of the queue shows, in any size, and what keys do.
#include "api/admin/queue_screen.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace audiogen::api {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

const Instant kNow = Instant(std::chrono::hours(500'000));

store::TaskRow task(std::chrono::seconds age, TaskState state = TaskState::kQueued) {
  store::TaskRow out;
  out.view.id = TaskId::make();
  out.view.state = state;
  out.view.created_at = kNow - age;
  out.view.next_run_at = out.view.created_at;
  out.lease_until = state == TaskState::kRunning ? std::optional(kNow + 20s) : std::nullopt;
  out.user = UserId::make();
  return out;
}

QueueSeen seen(std::size_t workers = 3, std::size_t tasks = 5) {
  QueueSeen out;
  out.now.at = kNow;
  out.now.ready = {1'234, true};
  out.now.running = {5'000, false};
  out.now.oldest_ready = 14s;
  out.now.arrivals_per_second = 4.25;
  out.now.credits_held = credits(150);
  for (std::size_t i = 0; i < workers; ++i) {
    Situation::Worker worker{.id = WorkerId::make(),
                             .host = "host\x1B[31m-of-a-worker-with-a-very-long-name",
                             .pid = 1000 + static_cast<std::uint32_t>(i),
                             .state = Situation::Worker::State::kWorking,
                             .started_at = kNow,
                             .seen_at = kNow - 1s,
                             .in_flight = 7,
                             .places = 200};
    worker.status.version = "1.2.3";
    worker.status.providers = std::vector<ProviderStatus>{
        {.name = "primary", .state = "open", .in_flight = 1, .waiting = 2, .limit = 64}};
    out.now.workers.push_back(worker);
  }
  out.oldest.at = kNow;
  for (std::size_t i = 0; i < tasks; ++i) {
    out.oldest.tasks.push_back(task(std::chrono::seconds(600 - 60 * static_cast<int>(i)),
                                    i % 2 == 0 ? TaskState::kQueued : TaskState::kRunning));
  }
  return out;
}

std::size_t width(const std::string& line) {
  return static_cast<std::size_t>(
      std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string all(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) {
    out += line + "\n";
  }
  return out;
}

TEST(QueueScreen, FitsIntoAnySize) {
  for (const std::size_t rows : {1U, 2U, 5U, 10U, 24U, 60U}) {
    for (const std::size_t columns : {1U, 20U, 59U, 60U, 80U, 200U}) {
      for (const std::size_t workers : {0U, 1U, 40U}) {
        for (const std::size_t tasks : {0U, 1U, 200U}) {
          QueueView view;
          view.selected = 199;
          for (const bool open : {false, true}) {
            view.task =
                open ? std::optional<std::string>(std::string(300, 'x') + "\ny\n") : std::nullopt;
            const auto lines =
                draw(seen(workers, tasks), view, {.rows = rows, .columns = columns}, Paint::kNone);
            EXPECT_THAT(lines, SizeIs(rows));
            for (const std::string& line : lines) {
              EXPECT_LE(width(line), columns);
              EXPECT_EQ(line.find('\x1B'), std::string::npos) << "also of hosts";
            }
          }
        }
      }
    }
  }
}

TEST(QueueScreen, ShowsEverythingIn24Lines) {
  const auto now = seen();
  const std::string text = all(draw(now, {}, {}, Paint::kNone));
  EXPECT_THAT(text,
              AllOf(StartsWith("queue at 2027-01-15T08:00:00Z, 0 s old\n"
                               "Trouble: provider `primary` open\n"),
                    HasSubstr("ready 1,234  running 5,000+  retry 0  parked 0  oldest 14 s+"),
                    HasSubstr("arrivals 4.2/s  done ?/min  failed ?/min  p50 ?  drain ?")));
  EXPECT_THAT(text,
              AllOf(HasSubstr("held 150+ credits  dead ?"),
                    HasSubstr("PROVIDER"),
                    HasSubstr("3/192"),
                    HasSubstr("host?[31m-of-a-worke"),
                    HasSubstr("1.2.3"),
                    HasSubstr(now.oldest.tasks[4].view.id.text()),
                    HasSubstr("no_worker"),
                    HasSubstr("q quit  p pause  s sort: age  / find  Enter open")));
}

// Clients may be turned away while every number of the queue looks well.
TEST(QueueScreen, TellsWhatPartOfTheCreationsIsRefused) {
  auto now = seen();
  const auto text = [&] { return all(draw(now, {}, {}, Paint::kNone)); };
  Situation::Api api{.alive = true, .last_minute = CreationCount{.answered = 200, .refused = 50}};
  now.now.apis = {api};
  EXPECT_THAT(text(), HasSubstr("  refused 25 %"));
  api.last_minute.reset();
  now.now.apis.push_back(api);
  EXPECT_THAT(text(), HasSubstr("  refused 25 %")) << "one of them does not tell";
  now.now.apis[0].alive = false;
  EXPECT_THAT(text(), HasSubstr("  refused ?")) << "one that is gone refuses nobody";
  now.now.apis[0] = {.alive = true, .last_minute = CreationCount{.answered = 200, .refused = 0}};
  EXPECT_THAT(text(), Not(HasSubstr("refused")));
}

TEST(QueueScreen, LeavesOutWhatMattersLeastIn60Columns) {
  const std::string wide = all(draw(seen(), {}, {.rows = 24, .columns = 80}, Paint::kNone));
  const std::string narrow = all(draw(seen(), {}, {.rows = 24, .columns = 60}, Paint::kNone));
  EXPECT_THAT(wide, AllOf(HasSubstr("VERSION"), HasSubstr("CLAIMS")));
  EXPECT_THAT(narrow, AllOf(Not(HasSubstr("VERSION")), Not(HasSubstr("CLAIMS"))));
  EXPECT_THAT(narrow, AllOf(HasSubstr("IN FLIGHT"), HasSubstr("WAITS FOR"), HasSubstr("AGE")));
}

TEST(QueueScreen, WhatIsOldIsGreyAndSaysSo) {
  auto now = seen();
  const auto fresh = draw(now, {}, {}, Paint::kColours);
  EXPECT_THAT(fresh[1], StartsWith("\x1B[1;31m"));
  EXPECT_THAT(fresh[2], Not(HasSubstr("\x1B")));
  now.age = 5s;
  for (const auto& old : {draw(now, {}, {}, Paint::kColours),
                          draw(seen(), {.trouble = "the database is away"}, {}, Paint::kColours)}) {
    EXPECT_THAT(old[1], StartsWith("\x1B[2m"));
    EXPECT_THAT(old[2], StartsWith("\x1B[2m"));
  }
  EXPECT_THAT(draw(now, {}, {}, Paint::kNone)[0], HasSubstr("5 s old"));
  EXPECT_THAT(draw(seen(), {.trouble = "the database is away"}, {}, Paint::kNone)[0],
              HasSubstr("the database is away"));
  EXPECT_THAT(draw(seen(), {}, {}, Paint::kAttributes)[1], StartsWith("\x1B[1m")) << "no colours";
}

class QueueKeys : public testing::Test {
 protected:
  Act type(std::string_view keys) {
    Act out = Act::kNone;
    for (const char key : keys) {
      out = press(view_, seen_, Key{static_cast<std::uint32_t>(key)});
    }
    return out;
  }
  QueueSeen seen_ = seen(1, 5);
  QueueView view_;
};

TEST_F(QueueKeys, QuitPauseAndSort) {
  EXPECT_EQ(type("q"), Act::kQuit);
  type("p");
  EXPECT_TRUE(view_.paused);
  EXPECT_THAT(draw(seen_, view_, {}, Paint::kNone)[0], HasSubstr("paused"));
  type("p");
  EXPECT_FALSE(view_.paused);
  const auto ages = [&] {
    std::vector<std::int64_t> out;
    for (const auto& one : tasks_of(seen_, view_)) {
      out.push_back((kNow - one.view.created_at) / 1s);
    }
    return out;
  };
  EXPECT_THAT(ages(), testing::ElementsAre(600, 540, 480, 420, 360));
  type("s");
  EXPECT_THAT(ages(), testing::ElementsAre(600, 480, 360, 540, 420)) << "by cause";
  type("s");
  const auto by_user = tasks_of(seen_, view_);
  EXPECT_TRUE(std::is_sorted(by_user.begin(), by_user.end(), [](const auto& a, const auto& b) {
    return a.user < b.user;
  }));
  type("s");
  EXPECT_EQ(view_.sort, QueueView::Sort::kAge);
}

TEST_F(QueueKeys, FindKeepsWhatHasTheWord) {
  type("/prov");
  EXPECT_TRUE(view_.finding);
  EXPECT_THAT(tasks_of(seen_, view_), SizeIs(2));
  EXPECT_THAT(draw(seen_, view_, {}, Paint::kNone).back(), HasSubstr("find: prov_"));
  press(view_, seen_, Key::kBackspace);
  EXPECT_EQ(view_.find, "pro");
  EXPECT_EQ(type("q"), Act::kNone) << "a letter like any other";
  press(view_, seen_, Key::kBackspace);
  press(view_, seen_, Key::kEnter);
  EXPECT_FALSE(view_.finding);
  EXPECT_THAT(tasks_of(seen_, view_), SizeIs(2));
  type("/" + seen_.oldest.tasks[3].user.text());
  EXPECT_THAT(tasks_of(seen_, view_), SizeIs(1));
  press(view_, seen_, Key::kEscape);
  EXPECT_THAT(tasks_of(seen_, view_), SizeIs(5));
  type("/nothing like it");
  press(view_, seen_, Key::kEnter);
  EXPECT_EQ(press(view_, seen_, Key::kEnter), Act::kNone) << "there is none to open";
}

TEST_F(QueueKeys, OneIsChosenAndOpened) {
  press(view_, seen_, Key::kUp);
  EXPECT_EQ(view_.selected, 0U);
  type("jj");
  press(view_, seen_, Key::kUp);
  EXPECT_EQ(view_.selected, 1U);
  press(view_, seen_, Key::kPageDown);
  EXPECT_EQ(view_.selected, 4U);
  EXPECT_EQ(press(view_, seen_, Key::kEnter), Act::kOpen);
  view_.task = "line one\nline two\n";
  EXPECT_THAT(draw(seen_, view_, {}, Paint::kNone), Contains(StartsWith("line two")));
  press(view_, seen_, Key::kDown);
  EXPECT_THAT(draw(seen_, view_, {}, Paint::kNone), Each(Not(StartsWith("line one"))));
  EXPECT_EQ(type("q"), Act::kNone);
  EXPECT_FALSE(view_.task) << "back";
  EXPECT_EQ(view_.selected, 4U);
  seen_.oldest.tasks.resize(2);
  press(view_, seen_, Key::kEnter);
  EXPECT_EQ(view_.selected, 1U) << "of those that are there now";
}

}  // namespace
}  // namespace audiogen::api
