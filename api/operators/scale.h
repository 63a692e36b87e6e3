// GET /scale of the operations port: how many workers there should be, for whoever starts and ends
// them.
#pragma once

#include <cstdint>
#include <string>

#include "api/operators/situation_watch.h"
#include "common/base/mutex.h"
#include "common/domain/situation.h"
#include "common/http/server.h"

namespace audiogen::api {

class Scale {
 public:
  // `places`: of a worker, while none tells.
  Scale(SituationWatch& watch, std::uint64_t places) : watch_(watch), places_(places) {}

  // Any thread, never blocks: it is answered after the next look, 503 if the database does not
  // tell.
  void handle(const http::Exchange& exchange);

 private:
  SituationWatch& watch_;
  const std::uint64_t places_;
  Mutex mutex_;
  ScaleWatch wanted_ GUARDED_BY(mutex_);
};

// {"wanted_workers":…,"current":…,"limited_by":…,"backlog":…,"backlog_exact":…,"arrivals_per_s":…,
// "service_seconds_p50":…,"drain_seconds":…,"safe_to_remove":[…],"as_of":…}: null is what is not
// known.
std::string scale_json(const ScaleFigures& figures, std::uint64_t wanted, Instant as_of);

}  // namespace audiogen::api
