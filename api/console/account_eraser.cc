#include "api/console/account_eraser.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "common/base/log.h"
#include "common/base/occasionally.h"

namespace audiogen::api {
namespace {

constexpr std::chrono::seconds kEvery{5}, kWhileSome{1};
// So long those have turns that were ending at its begin; then whoever has ended since is one of
// them.
constexpr std::chrono::seconds kLook{5};

void tell(const store::Fault& fault) {
  static Occasionally line;
  if (line.due()) {
    log::warn("ended accounts cannot be wiped just now", {{"reason", fault.detail}});
  }
}

}  // namespace

bool wipe_ended_accounts(store::AccountEnds& ends,
                         store::TaskStore& tasks,
                         Canceled& canceled,
                         const std::stop_token& stop) {
  auto users = ends.open();
  if (!users) {
    tell(users.error());
    return false;
  }
  struct Ending {
    UserId user;
    bool cancels = true;
  };
  // Others may have wiped them since; of very many not all are told.
  std::erase_if(canceled, [&](const auto& one) {
    return std::find(users->begin(), users->end(), one.first) == users->end();
  });
  std::vector<Ending> turn;
  for (const UserId user : *users) {
    turn.push_back({.user = user});
  }
  bool all = true;
  const auto until = std::chrono::steady_clock::now() + kLook;
  while (!turn.empty() && !stop.stop_requested() && std::chrono::steady_clock::now() < until) {
    std::vector<Ending> next;
    for (Ending& ending : turn) {
      if (stop.stop_requested()) {
        return false;
      }
      if (ending.cancels) {
        const auto more = ends.cancel_tasks(tasks, ending.user, canceled[ending.user], stop);
        if (!more) {
          tell(more.error());
        }
        ending.cancels = more && *more;
        if (!ending.cancels) {
          canceled.erase(ending.user);  // What somebody held is looked for anew.
        }
      }
      if (ending.cancels) {
        next.push_back(ending);
        continue;
      }
      const auto wiped = ends.wipe(ending.user);
      if (!wiped) {
        tell(wiped.error());
      } else if (*wiped == store::Wiping::kDone) {
        log::info("an ended account is wiped", {{"user_id", ending.user}});
      } else if (*wiped == store::Wiping::kMore) {
        next.push_back(ending);
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
  Canceled canceled;
  for (auto pause = kEvery; !stopped_within(stop, pause);) {
    pause = wipe_ended_accounts(ends, tasks, canceled, stop) ? kEvery : kWhileSome;
  }
}

}  // namespace audiogen::api
