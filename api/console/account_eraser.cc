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
                         const std::stop_token& stop) {
  auto users = ends.open();
  if (!users) {
    tell(users.error());
    return false;
  }
  for (const UserId user : *users) {
    if (stop.stop_requested()) {
      return false;
    }
    if (const auto canceled = ends.cancel_tasks(tasks, user, stop); !canceled) {
      tell(canceled.error());
    }
  }
  bool all = true;
  std::vector<UserId> turn = *std::move(users);
  while (!turn.empty() && !stop.stop_requested()) {
    std::vector<UserId> next;
    for (const UserId user : turn) {
      if (stop.stop_requested()) {
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
    : thread_([url = config.database](const std::stop_token& stop) { run(stop, url); }) {}

void AccountEraser::run(const std::stop_token& stop, const DatabaseUrl& url) {
  store::Session session(url);
  store::AccountEnds ends(session);
  store::TaskStore tasks(url);
  for (auto pause = kEvery; !stopped_within(stop, pause);) {
    pause = wipe_ended_accounts(ends, tasks, stop) ? kEvery : kWhileSome;
  }
}

}  // namespace audiogen::api
