// Generations, one at a time: create, get, cancel.
#pragma once

#include <chrono>
#include <cstddef>

#include "api/generations/publishing.h"
#include "api/generations/resource.h"
#include "api/generations/waits.h"
#include "api/server/call.h"
#include "api/server/handling.h"
#include "common/base/config.h"
#include "common/base/metrics.h"
#include "common/domain/request.h"
#include "common/store/group_commit.h"

namespace audiogen::api {

class Generations {
 public:
  // At most `waits_max` requests at a time are held back until their task is final.
  Generations(const Config& config, TaskPublisher& publisher, std::size_t waits_max);

  Handling create(Call call);
  Handling get(Call call);
  Handling cancel(Call call);
  // What a creation with this body would be refused for or cost. Reserves and stores nothing.
  Handling estimate(Call call);

  // True when a creation that came then is to be refused before anything is done for it.
  bool late(std::chrono::steady_clock::time_point received_at) {
    return creates_.late(received_at);
  }

  // Answers whoever waits for a task, and lets nobody wait any more: the server drains.
  void release_waits() { waits_.release(); }
  // Finishes what was accepted.
  void stop();

 private:
  // What a request asks the store for, or why it is refused.
  Result<store::CreateCommand, ApiError> read_create(const Call& call, std::string_view body) const;
  void answer_created(const Call& call, const store::CreateOutcome& outcome);
  void answer_canceled(const Call& call, const store::Cancellation& canceled);

  const Config& config_;
  const WireNames names_;
  const RequestRules rules_;
  TaskPublisher& publisher_;
  prometheus::Counter& created_;
  prometheus::Counter& read_;
  prometheus::Counter& canceled_;
  store::GroupCommit<store::CreateCommand, store::CreateOutcome> creates_;
  store::GroupCommit<store::FindCommand, store::FindOutcome> finds_;
  store::GroupCommit<store::CancelCommand, store::Cancellation> cancels_;
  Waits waits_;
};

}  // namespace audiogen::api
