// `audio-api serve`: puts the parts together, runs until SIGTERM or SIGINT, drains.
#pragma once

#include "common/base/config.h"

namespace audiogen::api {

// Blocks until the process is told to stop. The exit code. SIGTERM and SIGINT must be blocked in
// every thread before it is called.
int serve(const Config& config);

}  // namespace audiogen::api
