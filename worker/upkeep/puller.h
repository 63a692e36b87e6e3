// Takes ready tasks from the database while there is room here and no hint brings any: the broker
// is away, its queue was purged or is full, or another worker keeps more hints than it can work
// on. The database is the queue of record; a hint only makes it instant.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <span>
#include <stop_token>
#include <thread>

#include "common/base/config.h"
#include "common/domain/shares.h"
#include "common/domain/task.h"

namespace audiogen::worker {

// From one look to the next, where this one found tasks or not, and one of the last half minute
// did; longer where it `took` its time, for what waits in this worker. What one sees of a broker is
// not all: with its memory full it takes no hints from the API, and this worker, which has none to
// send, does not hear of that.
std::chrono::milliseconds pause_of_pull(bool hints_come,
                                        bool found,
                                        bool found_lately,
                                        std::chrono::milliseconds took);

class Puller {
 public:
  // `room`: how many tasks could be taken now, by lane. `take` works on the first of the hints and
  // says how many it took. `known`: which it would take in vain. `hints_come`: does the broker
  // bring hints, as far as one can see? All are called on the puller's thread.
  Puller(const Config& config,
         std::function<Room()> room,
         std::function<std::vector<Hint>(std::span<const Hint>)> take,
         std::function<std::vector<TaskId>()> known,
         std::function<bool()> hints_come);
  ~Puller() { stop(); }
  Puller(const Puller&) = delete;
  Puller& operator=(const Puller&) = delete;

  // Takes nothing more. Waits for the look under way: a few seconds at most.
  void stop();

 private:
  void run(const std::stop_token& stop, const DatabaseUrl& url);

  const std::function<Room()> room_;
  const std::function<std::vector<Hint>(std::span<const Hint>)> take_;
  const std::function<std::vector<TaskId>()> known_;
  const std::function<bool()> hints_come_;
  std::jthread thread_;
};

}  // namespace audiogen::worker
