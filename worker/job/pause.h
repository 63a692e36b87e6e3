// A wait that is a step of a job.
#pragma once

#include <chrono>
#include <functional>

#include "worker/job/job.h"
#include "worker/job/scheduler.h"

namespace audiogen::worker {

// Runs `then` on the scheduler's thread after `length`, or at once when the job is given back or
// lost: who leaves must not wait for a pause, as nobody has the task before its lease is over. Not
// run when the scheduler stops. Never blocks. Between two steps of the job only.
void pause(Scheduler& scheduler,
           const JobPtr& job,
           std::chrono::milliseconds length,
           std::function<void()> then);

}  // namespace audiogen::worker
