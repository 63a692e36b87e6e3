// Keeps usage, and what keys with a limit have spent, up with the ledger, seconds after, on a
// thread of its own: so that a long ledger delays no other chore. Of all workers one rolls usage
// up; when that one ends or freezes, the next.
#pragma once

#include <stop_token>
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
  void run(const std::stop_token& stop, const DatabaseUrl& url);
  // Once over all users, if it is this worker's turn. Whether there is more to do at once.
  bool pass(store::Usage& usage, const std::stop_token& stop);
  bool pass(store::Spending& spending, const std::stop_token& stop);

  bool has_turn_ = false;  // The thread's own.
  std::jthread thread_;
};

}  // namespace audiogen::worker
