// Keeps usage, and what keys with a limit have spent, up with the ledger, seconds after, on a
// thread of its own: so that a long ledger delays no other chore. Of all workers one rolls usage
// up; when that one ends or freezes, the next.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "common/base/config.h"
#include "common/store/spending.h"
#include "common/store/usage.h"

namespace audiogen::worker {

class UsageRoller {
 public:
  explicit UsageRoller(const Config& config);
  ~UsageRoller() { stop(); }
  UsageRoller(const UsageRoller&) = delete;
  UsageRoller& operator=(const UsageRoller&) = delete;

  void stop();

 private:
  void run(const DatabaseUrl& url);
  // Once over all users, if it is this worker's turn. Whether there is more to do at once. `lock`
  // is held but while it looks.
  bool pass(store::Usage& usage, std::unique_lock<std::mutex>& lock);
  bool pass(store::Spending& spending, std::unique_lock<std::mutex>& lock);

  bool has_turn_ = false;  // The thread's own.
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;  // Guarded by mutex_.
  std::thread thread_;
};

}  // namespace audiogen::worker
