#include "worker/upkeep/sweeper.h"

#include <chrono>

#include <unistd.h>

#include "common/base/local_clocks.h"
#include "common/base/log.h"
#include "common/base/metrics.h"
#include "common/base/rest.h"

namespace audiogen::worker {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::seconds kLookEvery{1};
constexpr std::size_t kLookBatch = 200;  // Keeps each transaction short.
constexpr std::size_t kCrowdBatch = 500;
// A process that freezes has the turn to look after crowds for as long as its session may idle.
constexpr auto kTurnKept = 5 * kLookEvery;

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

prometheus::Counter& actions(const char* action) {
  return metrics::counter(
      "sweeper_actions_total",
      "Tasks found ready, put back after a lost lease (reaped), failed at their "
      "deadline (expired) or after their last claim (exhausted), and parked "
      "ones released",
      {{"action", action}});
}

// Here, so that they are told from the start.
prometheus::Counter& found = actions("found");
prometheus::Counter& reaped = actions("reaped");
prometheus::Counter& expired = actions("expired");
prometheus::Counter& exhausted = actions("exhausted");
prometheus::Counter& released = actions("released");

void tell(std::span<const store::Swept> swept) {
  using Kind = store::Swept::Kind;
  for (const store::Swept& task : swept) {
    log::warn(task.kind == Kind::kReaped    ? "task put back: its lease was lost"
              : task.kind == Kind::kExpired ? "task failed: its time was over"
                                            : "task failed: its workers were lost",
              about(task.task, task.trail),
              {{"lost_worker_id", task.worker ? task.worker->text() : std::string()}});
  }
}

}  // namespace

Sweeper::Sweeper(const Config& config,
                 WorkerId worker,
                 queue::Publisher& publisher,
                 Work work,
                 std::function<store::WorkerReport(const Swept& swept)> report)
    : worker_(worker),
      publisher_(publisher),
      work_(std::move(work)),
      report_(std::move(report)),
      thread_([this, url = config.database](const std::stop_token& stop) { run(stop, url); }) {}

void Sweeper::stop() {
  stop_and_join(thread_);
}

bool Sweeper::sweep_once(store::TaskStore& store) {
  const auto swept =
      store.sweep(kLookBatch, publisher_.flows(), work_.queues_seen(), work_.has_hint);
  if (!swept) {
    return false;
  }
  const std::span<const Hint> ready = swept->publish;
  const auto tried = ready.first(swept->tried), others = ready.subspan(swept->tried);
  publisher_.submit(work_.take_tried(tried));
  publisher_.submit(work_.take(others));
  found.Increment(static_cast<double>(ready.size()));
  reaped.Increment(static_cast<double>(swept->reaped));
  expired.Increment(static_cast<double>(swept->expired));
  exhausted.Increment(static_cast<double>(swept->exhausted));
  for (std::size_t i = 0; i < swept->expired + swept->exhausted; ++i) {
    swept_.ended({.failure = i < swept->expired ? FailureCode::kDeadlineExceeded
                                                : FailureCode::kInternalError},
                 steady_clock::now(),
                 LocalClocks().wall());
  }
  tell(swept->swept);
  if (swept->more && swept->looked_at == 0) {
    // A long pass past what is left as it is: one worker goes on with it, the others only look at
    // what has become due.
    const auto turn = store.take_turn(store::TaskStore::Chore::kPass);
    return turn && *turn;
  }
  return swept->more;
}

void Sweeper::look_after_crowds(store::TaskStore& store) {
  const auto turn = store.take_turn(store::TaskStore::Chore::kCrowds);
  if (!turn || !*turn) {
    return;
  }
  const auto until = steady_clock::now() + kLookEvery;
  for (bool done = false; !done && steady_clock::now() < until;) {
    const auto round = store.look_after_crowds(kCrowdBatch);
    done = !round || *round;
    const auto hints = store.released();
    publisher_.submit(hints);
    released.Increment(static_cast<double>(hints.size()));
  }
}

void Sweeper::write_minute(store::TaskStore& store) {
  const auto turn = store.take_turn(store::TaskStore::Chore::kMinutes);
  if (turn && *turn) {
    static_cast<void>(store.write_service_minute());
  }
}

void Sweeper::run(const std::stop_token& stop, const DatabaseUrl& url) {
  store::TaskStore store(url, {}, kTurnKept);
  const std::string host = host_name();
  const auto report = [&] {
    const Swept swept{.minute = swept_.last(steady_clock::now()),
                      .minutes = swept_.whole(LocalClocks().wall())};
    const auto orders = store.report_worker(worker_, host, ::getpid(), report_(swept));
    if (orders) {
      work_.obey(*orders);
    }
  };
  auto next_report = steady_clock::now(), next_crowds = next_report;
  // Between any two things that may take long: who is late with it is taken for dead.
  const auto report_if_due = [&] {
    if (const auto now = steady_clock::now(); now >= next_report) {
      report();
      write_minute(store);
      next_report = now + store::kWorkersReport;
    }
  };
  for (bool more = true; !stopped_within(stop, more ? std::chrono::seconds(0) : kLookEvery);) {
    report_if_due();
    more = sweep_once(store);
    report_if_due();
    if (steady_clock::now() >= next_crowds) {
      look_after_crowds(store);
      next_crowds = steady_clock::now() + kLookEvery;
      report_if_due();
    }
  }
  // Only for people: what it has ended last, and that it went.
  report();
  static_cast<void>(store.report_worker_ended(worker_));
}

}  // namespace audiogen::worker
