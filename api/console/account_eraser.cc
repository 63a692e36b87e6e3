#include "api/console/account_eraser.h"

#include <chrono>
#include <vector>

#include "common/base/log.h"
#include "common/base/occasionally.h"

namespace audiogen::api {
namespace {

constexpr std::chrono::seconds kEvery{5}, kWhileSome{1};

void tell(const store::Fault& fault) {
  static Occasionally line;
  if (line.due()) {
    log::warn("ended accounts cannot be wiped just now", {{"reason", fault.detail}});
  }
}

}  // namespace

bool wipe_ended_accounts(store::AccountEnds& ends,
                         store::TaskStore& tasks,
                         const std::function<bool()>& stopping) {
  auto users = ends.open();
  if (!users) {
    tell(users.error());
    return false;
  }
  for (const UserId user : *users) {
    if (stopping()) {
      return false;
    }
    if (const auto canceled = ends.cancel_tasks(tasks, user, stopping); !canceled) {
      tell(canceled.error());
    }
  }
  bool all = true;
  std::vector<UserId> turn = *std::move(users);
  while (!turn.empty() && !stopping()) {
    std::vector<UserId> next;
    for (const UserId user : turn) {
      if (stopping()) {
        return false;
      }
      const auto wiped = ends.wipe(user);
      if (!wiped) {
        tell(wiped.error());
      } else if (*wiped == store::Wiping::kDone) {
        log::info("an ended account is wiped", {{"user_id", user}});
      } else if (*wiped == store::Wiping::kMore) {
        next.push_back(user);
      }
      all = all && wiped && *wiped != store::Wiping::kLater;
    }
    turn = std::move(next);
  }
  return all && turn.empty();
}

AccountEraser::AccountEraser(const Config& config)
    : thread_([this, url = config.database] { run(url); }) {}

void AccountEraser::stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) {
    thread_.join();
  }
}

void AccountEraser::run(const DatabaseUrl& url) {
  store::Session session(url);
  store::AccountEnds ends(session);
  store::TaskStore tasks(url);
  const auto stopping = [this] {
    const MutexLock lock(mutex_);
    return stopping_;
  };
  auto pause = kEvery;
  MutexLock lock(mutex_);
  while (!changed_.wait_for(lock, pause, [this]() LOCKS_REQUIRED(mutex_) { return stopping_; })) {
    lock.unlock();
    pause = wipe_ended_accounts(ends, tasks, stopping) ? kEvery : kWhileSome;
    lock.lock();
  }
}

}  // namespace audiogen::api
