// Removes the files of what its owners have deleted, seconds after, and goes on with those past
// their retention that the janitor could not remove. On a thread of its own: no slower chore may
// keep it from its minute. Any number of workers may do it at once.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <unordered_map>

#include "common/base/config.h"
#include "common/base/ids.h"
#include "common/blob/blob_store.h"
#include "common/store/task_store.h"

namespace audiogen::worker {

// The notes that one worker could not see to, and when it tries each again: after 5 s, then after
// twice as long each time, up to 40 s. It gives none up: a corrected key, or a store that is
// back, removes the file after all. For one thread at a time.
class Postponed {
 public:
  using Clock = std::chrono::steady_clock;

  // Notes of which this is remembered; those beyond are tried every time.
  static constexpr std::size_t kMost = 10'000;

  bool rests(TaskId task, Clock::time_point now) const;
  void failed(TaskId task, Clock::time_point now);
  void done(TaskId task) { notes_.erase(task); }
  // After a look at all notes that began then: what was due and did not fail again has been seen
  // to, by this worker or by another.
  void forget_seen_to(Clock::time_point began);
  std::size_t size() const { return notes_.size(); }

  // A look at those past their retention takes many passes. Behind which the next one goes on;
  // nullopt: a new look begins with it.
  std::optional<TaskId> old_after{};
  Clock::time_point old_began = Clock::now();

 private:
  struct Note {
    std::chrono::seconds pause;
    Clock::time_point next;
  };
  std::unordered_map<TaskId, Note> notes_;
};

// Removes the files of all tasks that are noted, and then their notes: what owners deleted first.
// What cannot be removed keeps its note and is postponed, and nobody else's waits for it.
// Interrupted anywhere, the next run goes on. Whoever reads such a file meanwhile may be left with
// a piece of it: it is the owner's wish. After `stop` none is begun. The number of tasks. Blocks.
std::size_t erase_deleted(store::TaskStore& store,
                          BlobStore& blobs,
                          Postponed& postponed,
                          Postponed::Clock::time_point now,
                          const std::stop_token& stop);

// Counts a file past its retention that stays for good, because its key is not known here, and logs
// it now and then. Any thread.
void stays_for_good();

class Eraser {
 public:
  Eraser(const Config& config, BlobStore& blobs);
  ~Eraser() { stop(); }
  Eraser(const Eraser&) = delete;
  Eraser& operator=(const Eraser&) = delete;

  void stop();

 private:
  void run(const std::stop_token& stop, const DatabaseUrl& url);

  BlobStore& blobs_;
  const std::optional<std::string> folder_;  // Nullopt: a bucket.
  std::jthread thread_;
};

}  // namespace audiogen::worker
