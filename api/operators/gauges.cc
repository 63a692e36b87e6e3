#include "api/operators/gauges.h"

#include <algorithm>
#include <chrono>

#include "common/http/ops_server.h"

namespace audiogen::api {
namespace {

double seconds(std::chrono::duration<double> time) {
  return time.count();
}

}  // namespace

metrics::Snapshot situation_gauges(const SituationWatch::Seen& seen) {
  const Situation& now = seen.situation;
  metrics::Snapshot out;
  const auto count = [&](const char* name, const char* help, const AtLeast& tasks) {
    out.gauge(name, help, static_cast<double>(tasks.value));
  };
  count("tasks_ready", "Open tasks that workers may take", now.ready);
  count("tasks_running", "Open tasks that are worked on", now.running);
  count("tasks_waiting_retry", "Open tasks that were put back and are not due", now.waiting_retry);
  count("tasks_parked", "Open tasks behind others of their users", now.parked);
  out.gauge("tasks_counts_exact",
            "0 while there are more open tasks than are counted",
            now.open().exact ? 1 : 0);
  out.gauge("oldest_ready_seconds",
            "Since the oldest ready task was created; 0: there is none",
            seconds(now.oldest_ready));
  out.gauge("oldest_parked_seconds",
            "Since the oldest parked task was created; 0: there is none",
            seconds(now.oldest_parked));
  out.gauge("oldest_hold_seconds",
            "Since the oldest open task was created, which holds credits; 0: there is none",
            seconds(now.oldest_hold));
  constexpr double kUnits = 1000;
  out.gauge("credits_held",
            "Credits that open tasks reserve",
            static_cast<double>(now.credits_held.value) / kUnits);
  if (const auto drain = drain_seconds(now.backlog(), completions_per_second(now))) {
    out.gauge("drain_seconds", "Until what waits is done, as things go", *drain);
  }
  double working = 0, draining = 0, lost = 0;
  for (const Situation::Worker& worker : now.workers) {
    (worker.drains() ? draining : working) += worker.works() ? 1 : 0;
    lost += worker.state == Situation::Worker::State::kLost ? 1 : 0;
  }
  const char* const workers = "Workers, and those that were lost within a day";
  out.gauge("workers", workers, working, {{"state", "working"}})
      .gauge("workers", workers, draining, {{"state", "draining"}})
      .gauge("workers", workers, lost, {{"state", "lost"}});
  std::chrono::milliseconds unsent{0};
  for (const Situation::Api& api : now.apis) {
    unsent = api.alive ? std::max(unsent, api.unsent) : unsent;
  }
  out.gauge("hints_unsent_age_seconds",
            "For how long the oldest hint that the broker does not have has waited",
            seconds(unsent));
  for (const AuditCheck& check : now.audit) {
    out.gauge("audit_violations",
              "Rows or users that break a rule of the books, at the last audit",
              static_cast<double>(check.bad),
              {{"check", check.name}});
  }
  if (now.audited_at) {
    out.gauge("audit_last_success_timestamp_seconds",
              "When the last audit that came to its end did, since 1970",
              seconds(now.audited_at->time_since_epoch()));
  }
  if (seen.dead) {
    out.gauge("dead_messages",
              "Messages that nobody could read, half a minute ago at most",
              static_cast<double>(*seen.dead));
  }
  return out;
}

void answer_metrics(SituationWatch& watch, const http::Exchange& exchange) {
  watch.ask(SituationWatch::Asks::kMonitor, [exchange](const auto& seen) {
    exchange.reply(http::metrics_answer(seen && seen->tells_monitors ? situation_gauges(*seen)
                                                                     : metrics::Snapshot()));
  });
}

}  // namespace audiogen::api
