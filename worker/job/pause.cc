#include "worker/job/pause.h"

#include <memory>
#include <utility>

namespace audiogen::worker {
namespace {

// Held by the scheduler alone, as it holds the job.
class Pause final : public std::enable_shared_from_this<Pause> {
 public:
  Pause(Scheduler& scheduler, std::function<void()> then)
      : scheduler_(scheduler), then_(std::move(then)) {}

  void end_after(std::chrono::milliseconds length) {
    scheduler_.after(length, [self = shared_from_this()] {
      if (const auto then = std::exchange(self->then_, nullptr)) {
        then();
      }
    });
  }

 private:
  Scheduler& scheduler_;
  std::function<void()> then_;  // Of the scheduler's thread.
};

// What a job ends when it ends its calls. Each would keep the other for ever where the scheduler
// stops first.
class PauseOfJob final : public ProviderCall {
 public:
  explicit PauseOfJob(std::weak_ptr<Pause> pause) : pause_(std::move(pause)) {}

  void cancel() override {
    if (const auto pause = pause_.lock()) {
      pause->end_after(std::chrono::milliseconds(0));
    }
  }

 private:
  const std::weak_ptr<Pause> pause_;
};

}  // namespace

void pause(Scheduler& scheduler,
           const JobPtr& job,
           std::chrono::milliseconds length,
           std::function<void()> then) {
  const auto step = job->begin_step();
  const auto begun = std::make_shared<Pause>(scheduler, [job, step, then = std::move(then)] {
    job->answered(step, true);
    then();
  });
  begun->end_after(length);
  job->hold(step, std::make_shared<PauseOfJob>(begun));
}

}  // namespace audiogen::worker
