#include "api/admin/queue_watch.h"

#include <chrono>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include <sys/ioctl.h>
#include <unistd.h>

#include "api/admin/queue_screen.h"
#include "api/admin/terminal.h"
#include "common/base/mutex.h"
#include "common/queue/amqp.h"

namespace audiogen::api {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::seconds;

constexpr std::size_t kTasks = 200;

std::optional<std::uint64_t> dead_messages() {
  const auto broker = load_amqp_url();
  const auto depth = broker ? queue::read_depth(*broker) : std::nullopt;
  return depth ? std::optional(depth->dead) : std::nullopt;
}

// What there is to see now.
Result<QueueSeen, store::Fault> look(Doors& doors) {
  auto now = doors.situations.look();
  if (!now) {
    return now.error();
  }
  auto oldest = doors.operators.oldest_open(seconds(0), kTasks);
  if (!oldest) {
    return oldest.error();
  }
  return QueueSeen{.now = *std::move(now), .oldest = *std::move(oldest)};
}

Paint paint_of() {
  const char* const no_colour = std::getenv("NO_COLOR");
  return no_colour != nullptr && *no_colour != '\0' ? Paint::kAttributes : Paint::kColours;
}

// Looks every two seconds on a thread of its own, so that keys and signals never wait for the
// database.
class Looker {
 public:
  Looker(const DatabaseUrl& url, const ShowTask& show)
      : thread_([this, url, show] { work(url, show); }) {}
  ~Looker() {
    {
      const MutexLock lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Looker(const Looker&) = delete;
  Looker& operator=(const Looker&) = delete;

  struct Seen {
    std::optional<QueueSeen> queue;
    std::string trouble;
  };
  Seen seen() const {
    const MutexLock lock(mutex_);
    Seen out = seen_;
    if (out.queue) {
      out.queue->age = std::chrono::duration_cast<seconds>(Clock::now() - seen_at_);
    }
    return out;
  }
  void pause(bool paused) {
    {
      const MutexLock lock(mutex_);
      paused_ = paused;
    }
    changed_.notify_all();
  }
  // Its text comes with opened(), once.
  void open(std::string task) {
    {
      const MutexLock lock(mutex_);
      wanted_ = std::move(task);
    }
    changed_.notify_all();
  }
  std::optional<std::string> opened() {
    const MutexLock lock(mutex_);
    return std::exchange(opened_, std::nullopt);
  }

 private:
  void work(const DatabaseUrl& url, const ShowTask& show) {
    constexpr seconds kEvery{2}, kBrokerEvery{30};
    Doors doors(url, nullptr, store::kLooksPatience);
    std::optional<Clock::time_point> looked_at, broker_at;
    std::optional<std::uint64_t> dead;
    for (;;) {
      std::optional<std::string> task;
      {
        MutexLock lock(mutex_);
        changed_.wait_for(lock, seconds(1), [&]() LOCKS_REQUIRED(mutex_) {
          return stopping_ || wanted_ || (!looked_at && !paused_);
        });
        if (stopping_) {
          return;
        }
        task = std::exchange(wanted_, std::nullopt);
        if (!task && (paused_ || (looked_at && Clock::now() - *looked_at < kEvery))) {
          continue;
        }
      }
      if (task) {
        auto text = show(doors, *task);
        const MutexLock lock(mutex_);
        opened_ = std::move(text);
        continue;
      }
      looked_at = Clock::now();
      auto queue = look(doors);
      if (!broker_at || Clock::now() - *broker_at >= kBrokerEvery) {
        broker_at = Clock::now();
        dead = dead_messages();
      }
      const MutexLock lock(mutex_);
      if (queue) {
        queue->dead = dead;
        seen_ = {.queue = *std::move(queue), .trouble = {}};
        seen_at_ = *looked_at;
      } else {
        seen_.trouble = worded(queue.error());
      }
    }
  }

  mutable Mutex mutex_;
  ConditionVariable changed_;
  Seen seen_ GUARDED_BY(mutex_);
  Clock::time_point seen_at_ GUARDED_BY(mutex_) = Clock::now();
  bool stopping_ GUARDED_BY(mutex_) = false, paused_ GUARDED_BY(mutex_) = false;
  std::optional<std::string> wanted_ GUARDED_BY(mutex_), opened_ GUARDED_BY(mutex_);
  std::thread thread_;
};

// Until its user, or a signal, ends it.
Answer follow(Looker& looker, Terminal& terminal) {
  const Paint paint = paint_of();
  QueueView view;
  for (;;) {
    const auto seen = looker.seen();
    if (auto text = looker.opened()) {
      view.task = std::move(text);
      view.task_line = 0;
    }
    view.trouble = seen.trouble;
    terminal.show(seen.queue ? draw(*seen.queue, view, terminal.size(), paint)
                             : std::vector<std::string>{
                                   seen.trouble.empty() ? "looking …" : seen.trouble, "q quit"});
    constexpr std::chrono::milliseconds kFirst{100}, kRedraw{1'000};
    const auto event = terminal.wait(seen.queue ? kRedraw : kFirst);
    if (!event) {
      continue;
    }
    if (const auto* const ended = std::get_if<Terminal::Ended>(&*event)) {
      constexpr int kBySignal = 128;
      return {.json = "{}", .text = "", .code = kBySignal + ended->signal};
    }
    const auto* const key = std::get_if<Key>(&*event);
    if (key == nullptr) {
      continue;
    }
    const QueueSeen shown = seen.queue.value_or(QueueSeen());
    switch (press(view, shown, *key)) {
      case Act::kQuit:
        return {.json = "{}", .text = ""};
      case Act::kOpen:
        looker.open(tasks_of(shown, view).at(view.selected).view.id.text());
        break;
      case Act::kNone:
        looker.pause(view.paused);
        break;
    }
  }
}

Answer watch(const DatabaseUrl& url, const ShowTask& show) {
  // The terminal first: signals are blocked then in the thread that looks, too. There they would
  // end the process, and leave the terminal as it is.
  std::optional<Terminal> terminal(std::in_place);
  Looker looker(url, show);
  Answer out = follow(looker, *terminal);
  terminal.reset();  // Nobody waits for the database without his terminal.
  return out;
}

}  // namespace

Reply queue_watch(Doors& doors, const Options& o, const ShowTask& show) {
  if (!o.once && !Terminal::there()) {
    return Failure{"--watch needs a terminal; --once prints one picture"};
  }
  if (!o.once) {
    return watch(doors.url, show);
  }
  auto seen = look(doors);
  if (!seen) {
    return failure(seen.error());
  }
  seen->dead = dead_messages();
  ScreenSize size;
  winsize window{};
  const bool terminal = ::isatty(STDOUT_FILENO) == 1;
  if (terminal && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 0) {
    size.columns = window.ws_col;
  } else if (const char* const columns = std::getenv("COLUMNS")) {
    const int number = std::atoi(columns);
    size.columns = number > 0 ? static_cast<std::size_t>(number) : size.columns;
  }
  std::string text;
  auto lines = draw(*seen, {}, size, terminal ? paint_of() : Paint::kNone);
  lines.pop_back();  // What its keys do.
  while (!lines.empty() && lines.back().empty()) {
    lines.pop_back();
  }
  for (const std::string& line : lines) {
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return Answer{.json = "{}", .text = text};
}

}  // namespace audiogen::api
