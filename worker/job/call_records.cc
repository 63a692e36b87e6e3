#include "worker/job/call_records.h"

#include "common/base/metrics.h"
#include "worker/job/batches.h"

namespace audiogen::worker {
namespace {

// With the pauses between them, five minutes.
constexpr int kRecordTriesMax = 150;

}  // namespace

void count_costs(std::span<const store::CallRecord> calls) {
  for (const store::CallRecord& call : calls) {
    const auto cost = call.cost();
    if (!cost) {
      continue;
    }
    const metrics::Labels of{{"provider", call.provider}};
    const double amount = static_cast<double>(cost->value) / static_cast<double>(kMicros);
    metrics::counter(
        "provider_cost_total", "What calls to a provider cost, by the price of its entry", of)
        .Increment(amount);
    metrics::counter(
        "provider_cost_wasted_total", "That part of it that brought nobody anything", of)
        .Increment(call.outcome == CallOutcome::kDelivered ? 0 : amount);
  }
}

CallRecords::CallRecords(const DatabaseUrl& database, Scheduler& scheduler)
    : scheduler_(scheduler),
      records_(database,
               {.use = "call", .threads = 1, .batch_max = kBatchMax, .capacity = kWaitingMax},
               [](store::TaskStore& store, std::span<const store::CallRecord> calls) {
                 return store.record_calls(calls);
               }) {}

void CallRecords::stop() {
  records_.stop();
}

void CallRecords::write(const std::vector<store::CallRecord>& calls) {
  for (const store::CallRecord& call : calls) {
    write(call, 0);
  }
}

void CallRecords::write(const store::CallRecord& call, int tries) {
  const auto later = [this, call, tries] {
    if (tries < kRecordTriesMax) {
      scheduler_.after(store_pause(tries), [this, call, tries] { write(call, tries + 1); });
    }
  };
  const bool taken =
      records_.submit(call, [call, later](const Result<bool, store::StoreFault>& written) {
        if (!written) {
          later();
        } else if (*written) {
          count_costs({&call, 1});
        }
      });
  if (!taken) {
    later();
  }
}

}  // namespace audiogen::worker
