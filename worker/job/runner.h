// One task's way through a worker: deliver → claim → ack → references → provider → pipeline → blob
// → settle. From the claim on, the lease in the database stands for the task.
//
// Nothing here blocks a thread per task: claims, renewals and settlements go through group commits,
// provider calls are asynchronous, codec work runs on a pool of one thread per core. Losing the
// lease means stop and discard.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "common/base/config.h"
#include "common/blob/blob_store.h"
#include "common/queue/consumer.h"
#include "common/store/group_commit.h"
#include "worker/audio/pipeline.h"
#include "worker/chain/chain.h"
#include "worker/job/pool.h"
#include "worker/job/references.h"
#include "worker/job/scheduler.h"

namespace audiogen::worker {

class JobRunner {
 public:
  // `ack` tells the broker that a hint is done: its task is claimed, so that the lease guards it
  // from here on, or there is nothing to do. It must be thread-safe and must not block.
  JobRunner(const Config& config,
            WorkerId worker,
            const CurrentChain& chains,
            BlobStore& blobs,
            http::Client& client,
            Decoder& decoder,
            std::function<void(const queue::Delivery&)> ack);
  ~JobRunner();
  JobRunner(const JobRunner&) = delete;
  JobRunner& operator=(const JobRunner&) = delete;

  // Takes hints; what there is no room for waits here, its message unacknowledged. Thread-safe,
  // never blocks.
  void deliver(std::vector<queue::Delivery> deliveries);

  // Takes as many of the hints as this worker has room for, without a message of the broker.
  // Thread-safe, never blocks.
  std::size_t take(std::span<const Hint> hints);

  // Tasks claimed and not yet settled, those included that wait for references.
  std::size_t in_flight() const;

  // Claims nothing more; waits up to `limit` for what runs, then gives the rest back without using
  // up an attempt.
  void drain(std::chrono::milliseconds limit);

 private:
  struct Job;
  struct Attempt;
  using JobPtr = std::shared_ptr<Job>;
  struct Output {
    JobPtr job;
    Rendered rendered;
  };
  using Clock = std::chrono::steady_clock;
  struct Claimed {
    store::Claim claim;
    std::shared_ptr<const GenerationRequest> request;  // Null: it cannot be read.
  };

  // What counts against the room of the configuration. mutex_ is held.
  std::size_t busy() const { return jobs_.size() - fetching_ - aside_ + claiming_; }
  // Claims what waits, as far as there is room.
  void claim_waiting();
  void claim(const queue::Delivery& delivery, int tries);
  // What `claims_` runs: nullopt where there is nothing to do.
  store::Batch<std::optional<Claimed>> claim_batch(store::TaskStore& store,
                                                   std::span<const Hint> hints);
  void not_claimed(const queue::Delivery& delivery);
  void not_free(const queue::Delivery& delivery);
  void begin(const queue::Delivery& delivery, Claimed claimed, Clock::time_point asked_at);
  void fetch_references(const JobPtr& job);
  void references_fetched(const JobPtr& job,
                          Result<std::shared_ptr<const References>, ReferenceFault> fetched);
  void call_provider(const JobPtr& job);
  std::shared_ptr<ProviderCall> open_call(const JobPtr& job, const Attempt& attempt);
  void hedge(const JobPtr& job, const Attempt& slow);
  void open_hedge(const JobPtr& job, const Attempt& attempt, const store::AttemptStart& start);
  void no_provider(const JobPtr& job);
  void provider_answered(const JobPtr& job,
                         const Attempt& attempt,
                         Result<Audio, ProviderFault> answer);
  void step_answered(const JobPtr& job,
                     const Attempt& attempt,
                     Result<Audio, ProviderFault> answer);
  void attempt_failed(const JobPtr& job, const ProviderFault& fault);
  void start_attempt(const JobPtr& job,
                     std::uint8_t previous_state,
                     const std::string& previous_detail);
  void write_attempt(const JobPtr& job, const store::AttemptStart& start);
  void render(const JobPtr& job, Audio audio);
  void store_outputs(std::vector<Output> outputs);
  void give_up_for_now(const JobPtr& job, const char* what, const std::string& why);
  void settle(const JobPtr& job, store::SettleCommand command, int tries);
  void set_aside(const JobPtr& job);
  void finish(const JobPtr& job);
  void watch_leases();
  void renew(const std::vector<JobPtr>& jobs);
  void lose(const JobPtr& job, const char* why);

  const Config& config_;
  const WorkerId worker_;
  const CurrentChain& chains_;
  BlobStore& blobs_;
  http::Client& client_;
  Decoder& decoder_;
  const std::function<void(const queue::Delivery&)> ack_;

  mutable std::mutex mutex_;
  std::condition_variable idle_;
  std::unordered_map<TaskId, JobPtr> jobs_;  // Guarded by mutex_.
  std::deque<queue::Delivery> waiting_;      // Guarded by mutex_: not asked for yet.
  std::size_t claiming_ = 0;                 // Guarded by mutex_: asked for, no answer yet.
  // Guarded by mutex_: of jobs_, those whose references are fetched. They wait for servers of their
  // users' choice, so they take nobody's room; the fetcher bounds how many there are.
  std::size_t fetching_ = 0;
  std::size_t aside_ = 0;  // Guarded by mutex_: of jobs_, those that only wait to be settled.
  std::atomic<bool> draining_{false};

  Scheduler scheduler_;
  Pool codecs_;      // For what providers answer …
  Pool inspectors_;  // … and apart, for what clients refer to: it may take long.
  BatchPool<Output> writers_;
  ReferenceFetcher references_;
  store::GroupCommit<Hint, std::optional<Claimed>> claims_;
  store::GroupCommit<store::Lease, bool> renewals_;
  store::GroupCommit<store::AttemptStart, bool> attempts_;
  store::GroupCommit<store::SettleCommand, store::SettleOutcome> settlements_;
};

}  // namespace audiogen::worker
