// What a request will probably cost, before it is made.
#pragma once

#include <cstdint>

#include "common/domain/pricing.h"
#include "common/domain/request.h"

namespace audiogen {

// Lengths of speech in milliseconds: one of ten is shorter than `short_ms`, one of ten longer than
// `long_ms`.
struct Estimate {
  Units expected, least, most;
  std::int64_t short_ms = 0, long_ms = 0;
};

// Speech of the prompt at the request's speed, cut where its max_credits end. `least` and `most`
// are certain if the generation succeeds; all else is a guess from the number of characters. Pure.
Estimate estimate(const GenerationRequest& request);

}  // namespace audiogen
