// What follows when a provider has failed a job.
#pragma once

#include <chrono>
#include <cstddef>

#include "worker/chain/chain.h"
#include "worker/job/job.h"

namespace audiogen::worker {

struct Next {
  NextStep step = NextStep::kFail;
  std::size_t provider = 0;  // kNextProvider: its position in the chain.
  Trouble trouble{};         // What the claim ends by, where it does.
  // Until the same provider is asked again; where the claim ends, until anybody has the task again,
  // at the least.
  std::chrono::milliseconds wait{0};
};

// By `fault`, the job's provider's, and who else could serve it now. Changes nothing. Does not
// block; of the step under way.
Next after_fault(const Job& job, const ProviderFault& fault);

}  // namespace audiogen::worker
