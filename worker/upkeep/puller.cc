#include "worker/upkeep/puller.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "common/base/metrics.h"
#include "common/base/rest.h"
#include "common/store/task_store.h"

namespace audiogen::worker {
namespace {

// Here, so that they are told from the start.
prometheus::Counter& pulled =
    metrics::counter("worker_pulled_total", "Tasks taken from the database without a hint");

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Between looks. While they find tasks, as soon as a place may be free again; while hints come,
// just often enough that one which was lost costs seconds: each look reads what waits or runs of
// the last seconds.
constexpr milliseconds kFindingWithoutBroker{50};
constexpr milliseconds kFindingWithBroker{250};  // The next ones may be those that hints bring.
constexpr milliseconds kWithoutBroker{500};
constexpr milliseconds kWithBroker{3000};
// Where a hint did not come, the next ones may not either.
constexpr std::chrono::seconds kLately{30};
// So many times as long as a look took, none is taken: one reads all that waits for providers here
// before it comes to newer tasks, and that may be many thousands.
constexpr int kRestOfLook = 4;
// A hint is on its way this long at most, when all is well.
constexpr std::chrono::seconds kOnItsWay{1};
// What was found is not found again while its claim is asked for, or its row is somebody else's.
constexpr std::chrono::seconds kAskedFor{5};

}  // namespace

milliseconds pause_of_pull(bool hints_come, bool found, bool found_lately, milliseconds took) {
  const milliseconds rare = hints_come && !found_lately ? kWithBroker : kWithoutBroker;
  const milliseconds often = hints_come ? kFindingWithBroker : kFindingWithoutBroker;
  return std::clamp(took * kRestOfLook, found ? often : rare, kWithBroker);
}

Puller::Puller(const Config& config,
               std::function<Room()> room,
               std::function<std::vector<Hint>(std::span<const Hint>)> take,
               std::function<std::vector<TaskId>()> known,
               std::function<bool()> hints_come)
    : room_(std::move(room)),
      take_(std::move(take)),
      known_(std::move(known)),
      hints_come_(std::move(hints_come)),
      thread_([this, url = config.database](const std::stop_token& stop) { run(stop, url); }) {}

void Puller::stop() {
  stop_and_join(thread_);
}

void Puller::run(const std::stop_token& stop, const DatabaseUrl& url) {
  store::TaskStore store(url);
  std::unordered_set<TaskId> asked_for;
  std::deque<std::pair<steady_clock::time_point, TaskId>> asked_at;  // Of those, the oldest first.
  bool finding = false;
  std::optional<steady_clock::time_point> found_at;
  milliseconds pause = kWithoutBroker;
  while (!stopped_within(stop, pause)) {
    const bool hints_come = hints_come_();
    while (!asked_at.empty() && steady_clock::now() - asked_at.front().first > kAskedFor) {
      asked_for.erase(asked_at.front().second);
      asked_at.pop_front();
    }
    const Room room = room_();
    const std::size_t most = std::max(room.bulk, room.express);
    Result<std::vector<Hint>, store::StoreFault> found(std::vector<Hint>{});
    milliseconds took{0};  // Where it read what waits for providers here.
    if (most > 0) {
      std::unordered_set<TaskId> without = asked_for;
      for (const TaskId task : known_()) {
        without.insert(task);
      }
      const auto began = steady_clock::now();
      found = store.ready(
          most, hints_come ? kOnItsWay : std::chrono::seconds(0), without, room.bulk == 0);
      if (found && without.size() > asked_for.size()) {
        took = std::chrono::duration_cast<milliseconds>(steady_clock::now() - began);
      }
    }
    if (found && !found->empty()) {
      std::unordered_set<TaskId> left;
      for (const Hint& hint : take_(*found)) {
        left.insert(hint.task);
      }
      for (const Hint& hint : *found) {
        if (!left.contains(hint.task)) {
          asked_for.insert(hint.task);
          asked_at.emplace_back(steady_clock::now(), hint.task);
        }
      }
      pulled.Increment(static_cast<double>(found->size() - left.size()));
      found_at = steady_clock::now();
      if (!std::exchange(finding, true)) {
        log::info(
            "tasks are taken from the database: no hint brings them",
            {{"found", found->size()}, {"broker", hints_come ? "connected" : "away or blocked"}});
      }
    } else if (most > 0) {
      finding = false;
    }
    pause = pause_of_pull(
        hints_come, finding, found_at && steady_clock::now() - *found_at < kLately, took);
  }
}

}  // namespace audiogen::worker
