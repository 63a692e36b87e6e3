// Wipes what ended accounts have made, on a thread of its own: open tasks are canceled and refunded
// first, then texts and files go as by DELETE of a generation, some hundred tasks a second. Here
// and not in the workers, because only the API may empty a request. Any number of processes may do
// it at once, and one that ends leaves the rest to the others.
#pragma once

#include <cstdint>
#include <stop_token>
#include <thread>
#include <unordered_map>

#include "common/base/config.h"
#include "common/base/ids.h"
#include "common/base/rest.h"
#include "common/store/account_ends.h"
#include "common/store/task_store.h"

namespace audiogen::api {

// How far the tasks of those who are ending have been canceled (AccountEnds::cancel_tasks).
using Canceled = std::unordered_map<UserId, std::uint64_t>;

// Does what can be done in some seconds. False: something is left, or could not be seen. Users take
// turns, a step each; `canceled` is where the next look goes on. Blocks.
bool wipe_ended_accounts(store::AccountEnds& ends,
                         store::TaskStore& tasks,
                         Canceled& canceled,
                         const std::stop_token& stop);

class AccountEraser {
 public:
  explicit AccountEraser(const Config& config);
  ~AccountEraser() = default;
  AccountEraser(const AccountEraser&) = delete;
  AccountEraser& operator=(const AccountEraser&) = delete;

  void stop() { stop_and_join(thread_); }

 private:
  static void run(const std::stop_token& stop, const DatabaseUrl& url);

  std::jthread thread_;
};

}  // namespace audiogen::api
