// Slow chores on a thread of their own, so that they never delay the sweeper: forgotten idempotency
// keys, sessions that have ended, processes that are silent, old provider calls and minutes, files
// no task knows of, files past their retention. Any number of workers may run; each chore is one's
// at a time. What they delete is gone, so they do it only while the clocks can be believed, and a
// day's worth in a run. A row that somebody holds keeps nobody's but itself.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <stop_token>
#include <thread>

#include "common/base/config.h"
#include "common/blob/blob_store.h"
#include "common/domain/clock_trust.h"
#include "common/store/task_store.h"

namespace audiogen::worker {

// Waits as long as that; true when the run is to end instead.
using Rest = std::function<bool(std::chrono::steady_clock::duration)>;

// Forgets idempotency keys more than 7 days old of tasks that are final: of a day, from the oldest
// on. It has the database for half of the time at most. The number of keys. Blocks.
std::size_t purge_keys(store::TaskStore& store, const Rest& rest);

// Forgets the provider calls before their task's newest, of tasks created longer than `age` ago and
// made within a day from the oldest on. It has the database for half of the time at most. The
// number. Blocks.
std::size_t purge_past_calls(store::TaskStore& store, std::chrono::seconds age, const Rest& rest);

// The same for what calls were and cost, of the newest call of a task as well.
std::size_t purge_calls(store::TaskStore& store, std::chrono::seconds age, const Rest& rest);

// The same for claims that are over.
std::size_t purge_claims(store::TaskStore& store, std::chrono::seconds age, const Rest& rest);

// Forgets how the service did in minutes more than 30 days old: of a day, from the oldest on. The
// number. Blocks.
std::size_t purge_minutes(store::TaskStore& store, const Rest& rest);

// Deletes the files of tasks created longer than `age` ago, of those made within a day from the
// oldest on, as many at once as the store is written to best; the tasks stay and say so from before
// their file goes. Interrupted anywhere, or by `stop`, the next run goes on. A file that
// cannot be removed is noted for the eraser, of very many no more than that remembers; where
// none of a batch can be, it ends once it has lasted a minute. The
// number of files. Blocks.
std::size_t delete_old_outputs(store::TaskStore& store,
                               BlobStore& blobs,
                               std::chrono::seconds age,
                               const std::stop_token& stop);

// Deletes the files that crashes left: of final tasks, more than a day old, and not their output;
// and segments without any. Looks at each slot of segments once, at no more than some hours of them
// a call, and ends early when `stopping` says so, which is asked at each file: the next run, of any
// worker, goes on with that slot. A slot of which not all can be read or removed keeps no other: it
// is looked at again by each run. The number of files. Blocks.
std::size_t delete_orphans(store::TaskStore& store,
                           DirectoryStore& blobs,
                           const std::function<bool()>& stopping);

// All of them, once each time. For one thread at a time.
class Chores {
 public:
  // How long files are kept, and provider calls before their task's newest. 0: for ever.
  Chores(BlobStore& blobs,
         std::chrono::seconds retention,
         std::chrono::seconds calls_retention = std::chrono::seconds(0))
      : blobs_(blobs), retention_(retention), calls_retention_(calls_retention) {}

  // Looks at the clocks. Whether they can be believed.
  bool believes(store::TaskStore& store);
  // Does nothing unless it believes them. False: they cannot be believed, or the database is away.
  // `stop` is what ends the rests, and a wait for the store of files.
  bool run(store::TaskStore& store, const Rest& rest, const std::stop_token& stop);

 private:
  BlobStore& blobs_;
  const std::chrono::seconds retention_, calls_retention_;
  DeletionTrust trust_;
};

struct JanitorOptions {
  std::chrono::milliseconds first = std::chrono::minutes(1);  // From the start to the first run.
  std::chrono::milliseconds every = std::chrono::minutes(10);
  LocalClocks clocks{};
};

class Janitor {
 public:
  Janitor(const Config& config, BlobStore& blobs, JanitorOptions options = {});
  ~Janitor() { stop(); }
  Janitor(const Janitor&) = delete;
  Janitor& operator=(const Janitor&) = delete;

  void stop();

 private:
  void run(const std::stop_token& stop, const DatabaseUrl& url);

  const JanitorOptions options_;
  Chores chores_;  // The thread's.
  std::jthread thread_;
};

}  // namespace audiogen::worker
