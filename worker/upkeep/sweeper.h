// The part of every worker that makes sure nothing is ever stuck: it looks at the rows whose
// wake_at has come (lost leases, due retries, hints that were never sent, deadlines), and does the
// rare housekeeping. Any number may run.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <thread>

#include "common/base/config.h"
#include "common/domain/worker_status.h"
#include "common/queue/publisher.h"
#include "common/store/task_store.h"

namespace audiogen::worker {

class Sweeper {
 public:
  // What it asks of those who do the work. Thread-safe, none blocks.
  struct Work {
    // Works on those of the hints for which there is room here, and returns the others; of tasks
    // that were tried before it takes some to wait here, too.
    std::function<std::vector<Hint>(std::span<const Hint>)> take, take_tried;
    std::function<QueuesSeen()> queues_seen;
    // Does this hint wait here? Then nobody need send it.
    std::function<bool(const Hint&)> has_hint;
    // What operators want of this worker, each time that it has told of itself.
    std::function<void(const WorkerOrders&)> obey = [](const WorkerOrders&) {};
  };
  // In the last minute, and by whole ones.
  struct Swept {
    MinuteEnded minute;
    WholeMinutes minutes;
  };
  // `report` is what this worker tells of itself; it is given what the sweeper has ended.
  Sweeper(const Config& config,
          WorkerId worker,
          queue::Publisher& publisher,
          Work work,
          std::function<store::WorkerReport(const Swept& swept)> report);
  ~Sweeper() { stop(); }
  Sweeper(const Sweeper&) = delete;
  Sweeper& operator=(const Sweeper&) = delete;

  // And says that this worker has ended: stop it when the work is done.
  void stop();

  // One look. True when there may be more to do at once.
  bool sweep_once(store::TaskStore& store);
  // Writes how the service did in the last minute, where it is this worker's turn and nobody has.
  static void write_minute(store::TaskStore& store);
  // Releases parked tasks that nobody else has released, where it is this worker's turn.
  void look_after_crowds(store::TaskStore& store);

 private:
  void run(const std::stop_token& stop, const DatabaseUrl& url);

  const WorkerId worker_;
  queue::Publisher& publisher_;
  const Work work_;
  const std::function<store::WorkerReport(const Swept& swept)> report_;
  MinuteWatch swept_;
  std::jthread thread_;
};

}  // namespace audiogen::worker
