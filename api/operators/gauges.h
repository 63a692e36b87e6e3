// GET /metrics of the operations port: what this process counts, and, where it is the one that
// tells it, how the whole service stands.
#pragma once

#include "api/operators/situation_watch.h"
#include "common/base/metrics.h"
#include "common/http/server.h"

namespace audiogen::api {

// Any thread, never blocks: it is answered after the next look. Where the database does not tell,
// or another process tells of it, there are no gauges of it: so a sum over all processes is right,
// and nothing old is ever told.
void answer_metrics(SituationWatch& watch, const http::Exchange& exchange);

metrics::Snapshot situation_gauges(const SituationWatch::Seen& seen);

}  // namespace audiogen::api
