// Wipes what ended accounts have made, on a thread of its own: open tasks are canceled and refunded
// first, then texts and files go as by DELETE of a generation, some hundred tasks a second. Here
// and not in the workers, because only the API may empty a request. Any number of processes may do
// it at once, and one that ends leaves the rest to the others.
#pragma once

#include <functional>
#include <thread>

#include "common/base/config.h"
#include "common/base/mutex.h"
#include "common/store/account_ends.h"
#include "common/store/task_store.h"

namespace audiogen::api {

// Does what can be done now. False: something is left, or could not be seen. Users take turns, a
// step each. Blocks.
bool wipe_ended_accounts(store::AccountEnds& ends,
                         store::TaskStore& tasks,
                         const std::function<bool()>& stopping);

class AccountEraser {
 public:
  explicit AccountEraser(const Config& config);
  ~AccountEraser() { stop(); }
  AccountEraser(const AccountEraser&) = delete;
  AccountEraser& operator=(const AccountEraser&) = delete;

  void stop();

 private:
  void run(const DatabaseUrl& url);

  Mutex mutex_;
  ConditionVariable changed_;
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace audiogen::api
