// Generations, one at a time: create, get, follow, cancel.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "api/generations/event_stream.h"
#include "api/generations/lookout.h"
#include "api/generations/publishing.h"
#include "api/generations/resource.h"
#include "api/generations/waits.h"
#include "api/server/auth.h"
#include "api/server/call.h"
#include "api/server/handling.h"
#include "api/server/places.h"
#include "api/server/store_doors.h"
#include "common/base/config.h"
#include "common/base/metrics.h"
#include "common/domain/request.h"
#include "common/store/group_commit.h"
#include "common/store/probe.h"

namespace audiogen::api {

// What is held open.
struct HeldOptions {
  // At most so many requests at a time are held back until their task is final, and as many streams
  // are open.
  std::size_t max = 2'000;
  std::chrono::milliseconds stream_max = kStreamMax;
};

class Generations {
 public:
  // All but the options are to live as long as this.
  Generations(const Config& config,
              TaskPublisher& publisher,
              const Lookout& lookout,
              DoorsPool& pool,
              const Authenticators& authenticators,
              const store::Probe& database,
              const HeldOptions& held);

  Handling create(Call call);
  Handling get(Call call);
  // Tells what becomes of a task for as long as it takes, HeldOptions::stream_max at most, and the
  // key or the session works.
  Handling events(Call call);
  Handling cancel(Call call);
  // What a creation with this body would be refused for or cost. Reserves and stores nothing.
  Handling estimate(Call call);

  // True when a creation that came then is to be refused before anything is done for it.
  bool late(std::chrono::steady_clock::time_point received_at) {
    return creates_.late(received_at);
  }

  // Answers whoever waits for a task, ends all streams, and lets nobody wait any more: the server
  // drains.
  void release_waits() { waits_.release(); }
  // Finishes what was accepted.
  void stop();

 private:
  class StillValid;

  // What a request asks the store for, or why it is refused.
  Result<store::CreateCommand, ApiError> read_create(const Call& call, std::string_view body) const;
  void answer_created(const Call& call, const store::CreateOutcome& outcome, const Trail& trail);
  void answer_canceled(const Call& call, const store::Cancellation& canceled);
  // Begins the answer, and holds a place for it. Nullopt: that was the answer already. `seen`: the
  // event that the client saw last; who has seen the end is told, by 204, to ask no more.
  std::optional<Places::Place> begin_stream(const Call& call,
                                            const TaskView& task,
                                            std::optional<std::uint64_t> seen);

  const Config& config_;
  const WireNames names_;
  const RequestRules rules_;
  TaskPublisher& publisher_;
  const Lookout& lookout_;
  DoorsPool& pool_;
  const Authenticators authenticators_;
  const store::Probe& database_;
  const std::chrono::milliseconds stream_max_;
  store::GroupCommit<store::CreateCommand, store::CreateOutcome> creates_;
  store::GroupCommit<store::FindCommand, store::FindOutcome> finds_;
  store::GroupCommit<store::CancelCommand, store::Cancellation> cancels_;
  Places streams_;
  Waits waits_;
};

}  // namespace audiogen::api
