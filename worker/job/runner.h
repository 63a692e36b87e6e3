// One task's way through a worker, from room to room: a hint comes in and its task is claimed, what
// it refers to is fetched, a provider is called, its audio becomes a file, the task is settled.
// Here is the order of these steps, and nothing else (README.md, "The trip").
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/config.h"
#include "common/blob/blob_store.h"
#include "common/http/client.h"
#include "worker/job/calls.h"
#include "worker/job/endings.h"
#include "worker/job/intake.h"
#include "worker/job/leases.h"
#include "worker/job/output.h"
#include "worker/job/pool.h"
#include "worker/job/references.h"
#include "worker/job/roster.h"
#include "worker/job/scheduler.h"
#include "worker/job/settling.h"
#include "worker/job/suspects.h"
#include "worker/job/tickets.h"

namespace audiogen::worker {

class JobRunner {
 public:
  // `ack` tells the broker that a hint is done: its task is claimed, so that the lease guards it
  // from here on, or there is nothing to do. `send` sends hints. Both must be thread-safe and must
  // not block.
  JobRunner(const Config& config,
            WorkerId worker,
            const CurrentChain& chains,
            BlobStore& blobs,
            http::Client& client,
            Decoder& decoder,
            Intake::Ack ack,
            Settling::Send send);
  ~JobRunner();
  JobRunner(const JobRunner&) = delete;
  JobRunner& operator=(const JobRunner&) = delete;

  // Takes hints; what there is no room for waits here, its message unacknowledged. Thread-safe,
  // never blocks.
  void deliver(std::vector<queue::Delivery> deliveries) { intake_.deliver(std::move(deliveries)); }

  // Takes as many of the hints as this worker has room for, without a message of the broker.
  // Thread-safe, never blocks.
  std::vector<Hint> take(std::span<const Hint> hints) { return intake_.take(hints); }

  // Takes hints of tasks that were tried before: those have two of three places, and wait here for
  // them. How many. Thread-safe, never blocks.
  std::vector<Hint> take_tried(std::span<const Hint> hints) { return intake_.take_tried(hints); }

  // Claims nothing more, and begins no call that would still be under way after `rest`.
  // Thread-safe, never blocks.
  void close(std::chrono::milliseconds rest) {
    intake_.close();
    calls_.close(Job::Clock::now() + rest);
  }

  // How many more take() would take. Thread-safe, never blocks.
  Room room() const { return intake_.room(); }
  // The same of the bulk lane, as others are told. Thread-safe, never blocks.
  std::size_t room_told() const { return intake_.room_told(); }
  // What waits here for providers, by routes. Thread-safe, never blocks.
  RouteLines lines() const { return intake_.lines(); }
  void set_workers(std::uint64_t count) { intake_.set_workers(count); }
  // Ready tasks that wait here for their provider. Thread-safe, never blocks.
  std::vector<TaskId> waiting_for_providers() const { return intake_.waiting_for_providers(); }
  bool has_hint(const Hint& hint) const { return intake_.has_hint(hint); }
  // How far the broker has come with its queues. Thread-safe, never blocks.
  QueuesSeen queues_seen() const { return intake_.queues_seen(); }

  // False while the decoder does not run: nothing is claimed then. Thread-safe, never blocks.
  bool decodes() const { return !output_.decoder_is_down(); }

  // Tasks claimed and not yet settled, those included that wait for references.
  std::size_t in_flight() const { return roster_.size(); }

  // Tasks that have become final by this worker's jobs, ever and within the last minute.
  std::uint64_t ended() const { return settling_.ended(); }
  MinuteEnded ended_in_last_minute() const { return settling_.ended_in_last_minute(); }
  // The same of this minute, by the clock of the wall, and of the one before.
  WholeMinutes ended_by_minute() const { return settling_.ended_by_minute(); }

  // By how much the latest renewal of a lease is late. Thread-safe, never blocks.
  std::chrono::milliseconds renewal_lag() const { return leases_.lag(); }

  // Claims nothing more; waits up to `limit` for what runs, then gives the rest back without using
  // up an attempt.
  void drain(std::chrono::milliseconds limit);

 private:
  using Fetched = Result<ReferenceFetcher::References, ReferenceFault>;

  // The steps, in their order. Each ends by handing the job on.
  void claimed(const JobPtr& job);
  void begin(const JobPtr& job);
  void look_for_ticket(const JobPtr& job);
  void choose_provider(const JobPtr& job);
  void fetch_references(const JobPtr& job, const CallEnd& previous);
  void references_fetched(const JobPtr& job, const CallEnd& previous, Fetched fetched);
  void call_next(const JobPtr& job, const CallEnd& previous);
  void provider_answered(const JobPtr& job, Calls::Answer answer);
  void provider_failed(const JobPtr& job, const ProviderFault& fault);
  void output_made(const JobPtr& job, Result<OutputFile, OutputFault> made);

  Scheduler scheduler_;
  Roster roster_;
  Suspects suspects_;
  Intake intake_;
  CallRecords records_;
  Settling settling_;
  Leases leases_;
  Output output_;
  Tickets tickets_;
  Endings endings_;
  Calls calls_;
  Pool inspectors_;  // Apart from the codecs: what clients refer to may take long.
  ReferenceFetcher references_;
  std::atomic<bool> gives_back_{false};
};

}  // namespace audiogen::worker
