#include "worker/job/pause.h"

#include <memory>
#include <utility>

namespace audiogen::worker {
namespace {

// What a job ends when it ends its calls.
class Pause final : public ProviderCall, public std::enable_shared_from_this<Pause> {
 public:
  Pause(Scheduler& scheduler, std::function<void()> then)
      : scheduler_(scheduler), then_(std::move(then)) {}

  void cancel() override { end_after(std::chrono::milliseconds(0)); }
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

}  // namespace

void pause(Scheduler& scheduler,
           const JobPtr& job,
           std::chrono::milliseconds length,
           std::function<void()> then) {
  const auto step = job->begin_step();
  const auto waiting = std::make_shared<Pause>(scheduler, [job, step, then = std::move(then)] {
    job->answered(step, true);
    then();
  });
  waiting->end_after(length);
  job->hold(step, waiting);
}

}  // namespace audiogen::worker
