#include "worker/upkeep/usage_roller.h"

#include <chrono>

#include "common/base/log.h"
#include "common/base/metrics.h"
#include "common/base/occasionally.h"
#include "common/base/rest.h"

namespace audiogen::worker {
namespace {

// Here, so that they are told from the start.
prometheus::Counter& entries =
    metrics::counter("usage_entries_total", "Ledger entries that were added to usage");
prometheus::Gauge& turn_here =
    metrics::gauge("usage_turn", "1 where usage is rolled up, which one worker at a time does");

using std::chrono::steady_clock;

constexpr std::chrono::seconds kRollEvery{5};
// Nothing here waits for a lock, and nobody waits for it but the users behind the one whose rows
// are just taken in: what takes longer is given up and tried again with fewer of them. A process
// that freezes has the turn for as long as its session may idle.
constexpr store::SessionOptions kNeverWaits{.read_timeout = std::chrono::seconds(8),
                                            .statement_max = std::chrono::seconds(5),
                                            .lock_wait = std::chrono::seconds(0),
                                            .idle_max = 3 * kRollEvery,
                                            .rests = true};

void tell(const store::Fault& fault) {
  static Occasionally line;
  if (line.due()) {
    log::warn("usage cannot be rolled up", {{"reason", fault.detail}});
  }
}

}  // namespace

UsageRoller::UsageRoller(const Config& config)
    : thread_([this, url = config.database](const std::stop_token& stop) { run(stop, url); }) {}

void UsageRoller::stop() {
  stop_and_join(thread_);
}

bool UsageRoller::pass(store::Usage& usage, const std::stop_token& stop) {
  bool more = false;
  std::optional<UserId> after;
  do {
    const auto turn = usage.take_turn();
    const auto began = steady_clock::now();
    const auto rolled = turn && *turn ? usage.roll_up(after) : store::RolledUp{};
    const auto took = steady_clock::now() - began;
    has_turn_ = turn && *turn;
    turn_here.Set(has_turn_ ? 1 : 0);
    if (!turn || !rolled) {
      tell(turn ? rolled.error() : turn.error());
      return false;
    }
    entries.Increment(static_cast<double>(rolled->entries));
    more = more || rolled->more;
    after = rolled->next;
    // It has the database for half of the time at most, whether there is much to take in or only
    // very many users to look at.
    if (stopped_within(stop, took)) {
      break;
    }
  } while (after);
  return more;
}

bool UsageRoller::pass(store::Spending& spending, const std::stop_token& stop) {
  const auto began = steady_clock::now();
  const auto rolled = spending.roll_up();
  const auto took = steady_clock::now() - began;
  if (!rolled) {
    static Occasionally line;
    if (line.due()) {
      log::warn("what keys spend cannot be rolled up", {{"reason", rolled.error().detail}});
    }
    return false;
  }
  return !stopped_within(stop, took) && rolled->more;
}

void UsageRoller::run(const std::stop_token& stop, const DatabaseUrl& url) {
  store::Session session(url, kNeverWaits);
  store::Usage usage(session);
  store::Spending spending(session);
  for (bool more = true; !stopped_within(stop, more ? std::chrono::seconds(0) : kRollEvery);) {
    more = pass(usage, stop);
    more = (!stop.stop_requested() && has_turn_ && pass(spending, stop)) || more;
  }
}

}  // namespace audiogen::worker
