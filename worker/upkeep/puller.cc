#include "worker/upkeep/puller.h"

#include <chrono>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "common/base/metrics.h"
#include "common/store/task_store.h"
#include "worker/upkeep/rest.h"

namespace audiogen::worker {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Between looks. While they find tasks, as soon as a place may be free again; while hints come,
// just often enough that one which was lost costs seconds: each look reads what waits or runs of
// the last seconds.
constexpr milliseconds kFinding{50};
constexpr milliseconds kWithoutBroker{500};
constexpr milliseconds kWithBroker{3000};
// A hint is on its way this long at most, when all is well.
constexpr std::chrono::seconds kOnItsWay{1};
// What was found is not found again while its claim is asked for.
constexpr std::chrono::seconds kClaimed{2};

}  // namespace

Puller::Puller(const Config& config,
               std::function<std::size_t()> room,
               std::function<std::size_t(std::span<const Hint>)> take,
               std::function<bool()> connected)
    : room_(std::move(room)),
      take_(std::move(take)),
      connected_(std::move(connected)),
      thread_([this, url = config.database](const std::stop_token& stop) { run(stop, url); }) {}

void Puller::stop() {
  stop_and_join(thread_);
}

void Puller::run(const std::stop_token& stop, const DatabaseUrl& url) {
  static auto& pulled =
      metrics::counter("worker_pulled_total", "Tasks taken from the database without a hint");
  store::TaskStore store(url);
  std::unordered_set<TaskId> asked_for;
  std::optional<steady_clock::time_point> asked_since;
  bool finding = false;
  milliseconds pause = kWithoutBroker;
  while (!stopped_within(stop, pause)) {
    const bool connected = connected_();
    if (asked_since && steady_clock::now() - *asked_since > kClaimed) {
      asked_for.clear();
      asked_since.reset();
    }
    const std::size_t room = room_();
    const auto found =
        room == 0 ? Result<std::vector<Hint>, store::StoreFault>(std::vector<Hint>())
                  : store.ready(room, connected ? kOnItsWay : std::chrono::seconds(0), asked_for);
    if (found && !found->empty()) {
      const std::span<const Hint> taken = std::span(*found).first(take_(*found));
      for (const Hint& hint : taken) {
        asked_for.insert(hint.task);
      }
      asked_since = asked_since.value_or(steady_clock::now());
      pulled.Increment(static_cast<double>(taken.size()));
      if (!std::exchange(finding, true)) {
        log::info("tasks are taken from the database: no hint brings them",
                  {{"found", found->size()}, {"broker", connected ? "connected" : "away"}});
      }
    } else if (room > 0) {
      finding = false;
    }
    pause = finding ? kFinding : connected ? kWithBroker : kWithoutBroker;
  }
}

}  // namespace audiogen::worker
