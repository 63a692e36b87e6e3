#include "worker/job/intake.h"

#include <unordered_map>
#include <utility>

#include "common/base/check.h"
#include "common/base/log.h"
#include "worker/job/batches.h"

namespace audiogen::worker {
namespace {}  // namespace

bool needs_references(const GenerationRequest& request) {
  return !request.audio_references.empty() || request.image_url;
}

Intake::Intake(const DatabaseUrl& database,
               WorkerId worker,
               const CurrentChain& chains,
               Roster& roster,
               Scheduler& scheduler,
               Ack ack,
               Begin begin)
    : worker_(worker),
      chains_(chains),
      roster_(roster),
      scheduler_(scheduler),
      ack_(std::move(ack)),
      begin_(std::move(begin)),
      claims_(database,
              {.threads = 1,
               .batch_max = kBatchMax,
               .capacity = kWaitingMax,
               .wait_held_max = std::chrono::milliseconds(500)},
              [this](store::TaskStore& store, std::span<const Hint> hints) {
                return claim_batch(store, hints);
              }) {}

void Intake::deliver(std::vector<queue::Delivery> deliveries) {
  {
    const std::scoped_lock lock(mutex_);
    waiting_.insert(waiting_.end(), deliveries.begin(), deliveries.end());
  }
  go_on();
}

std::size_t Intake::take(std::span<const Hint> hints) {
  std::size_t count = 0;
  {
    const std::scoped_lock lock(mutex_);
    count = closed_.load() ? 0 : roster_.reserve(hints.size(), waiting_.size());
  }
  for (const Hint& hint : hints.first(count)) {
    claim(queue::Delivery{.hint = hint}, 0);
  }
  return count;
}

std::size_t Intake::room() const {
  const std::scoped_lock lock(mutex_);
  return closed_.load() ? 0 : roster_.free(waiting_.size());
}

void Intake::go_on() {
  std::vector<queue::Delivery> next;
  {
    const std::scoped_lock lock(mutex_);
    if (closed_.load()) {
      return;
    }
    for (std::size_t count = roster_.reserve(waiting_.size()); count > 0; --count) {
      next.push_back(waiting_.front());
      waiting_.pop_front();
    }
  }
  for (const queue::Delivery& delivery : next) {
    claim(delivery, 0);
  }
}

void Intake::close() {
  closed_.store(true);
}

void Intake::stop() {
  close();
  claims_.stop();
}

void Intake::claim(const queue::Delivery& delivery, int tries) {
  if (closed_.load()) {
    roster_.unreserve();
    return;  // Never acknowledged: the broker gives it to another worker.
  }
  AG_CRASH_POINT("worker.delivered");
  const auto asked_at = Clock::now();
  const bool taken =
      claims_.submit(delivery.hint, [this, delivery, tries, asked_at](Outcome outcome) {
        if (!outcome && outcome.error() == store::StoreFault::kLocked) {
          not_free(delivery);
        } else if (!outcome) {
          claim_later(delivery, tries);  // The database is away: keep the message and ask again.
        } else if (!*outcome) {
          not_claimed(delivery);
        } else {
          claimed(delivery, std::move(**outcome), asked_at);
        }
      });
  if (!taken) {
    claim_later(delivery, tries);
  }
}

void Intake::claim_later(const queue::Delivery& delivery, int tries) {
  scheduler_.after(store_pause(tries), [this, delivery, tries] { claim(delivery, tries + 1); });
}

store::Batch<std::optional<Claimed>> Intake::claim_batch(store::TaskStore& store,
                                                         std::span<const Hint> hints) {
  std::unordered_map<TaskId, std::shared_ptr<const GenerationRequest>> requests;
  auto outcomes = store.claim(hints, worker_, [&](const store::Claim& claim) {
    auto request = decode_request(claim.request);
    if (!request) {
      return std::string();
    }
    const auto chain = chains_.get();
    // What it refers to is fetched before anybody is called.
    const auto first = needs_references(*request) ? std::nullopt : chain->choose(*request, 0);
    requests[claim.task] = std::make_shared<const GenerationRequest>(std::move(*request));
    return first ? chain->at(*first).name() : std::string();
  });
  store::Batch<std::optional<Claimed>> out;
  out.reserve(outcomes.size());
  for (auto& outcome : outcomes) {
    if (!outcome) {
      out.push_back(outcome.error());
    } else if (auto& claim = *outcome) {
      auto& request = requests[claim->task];
      out.push_back(std::optional(Claimed{std::move(*claim), std::move(request)}));
    } else {
      out.push_back(std::optional<Claimed>());
    }
  }
  return out;
}

// A row that somebody keeps for seconds must not keep a place here.
void Intake::not_free(const queue::Delivery& delivery) {
  if (closed_.load()) {
    roster_.unreserve();
    return;  // Not acknowledged: the broker gives it to another worker.
  }
  not_claimed(delivery);  // Whoever pulls finds the task again, or the sweeper does.
}

// Final, taken, or not due: the table comes back to it if it must.
void Intake::not_claimed(const queue::Delivery& delivery) {
  ack_(delivery);
  roster_.unreserve();
}

void Intake::claimed(const queue::Delivery& delivery, Claimed claimed, Clock::time_point asked_at) {
  AG_CRASH_POINT("worker.claimed");
  const auto job = std::make_shared<Job>(std::move(claimed), chains_.get(), asked_at, Clock::now());
  roster_.enter(job);
  ack_(delivery);
  if (log::enabled(log::Level::kDebug)) {
    log::debug("task claimed", {{"task_id", job->claim.task}, {"claims", job->claim.claims}});
  }
  begin_(job);
}

}  // namespace audiogen::worker
