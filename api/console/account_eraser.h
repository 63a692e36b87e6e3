// Wipes what ended accounts have made, on a thread of its own: open tasks are canceled and refunded
// first, then texts and files go as by DELETE of a generation, some hundred tasks a second. Here
// and not in the workers, because only the API may empty a request. Any number of processes may do
// it at once, and one that ends leaves the rest to the others.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "common/base/config.h"
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

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;  // Guarded by mutex_.
  std::thread thread_;
};

}  // namespace audiogen::api
