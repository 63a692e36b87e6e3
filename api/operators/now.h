// GET /ops/now of the operations port: all that the page of operators shows of how the service
// stands, from the look that the terminal, /scale and /metrics are told of.
#pragma once

#include <string>

#include "api/operators/situation_watch.h"
#include "common/http/server.h"

namespace audiogen::api {

// Any thread, never blocks: it is answered after the next look, 503 if the database does not tell.
void answer_now(SituationWatch& watch, const http::Exchange& exchange);

// Null is what is not known, and never 0.
std::string now_json(const SituationWatch::Seen& seen);

}  // namespace audiogen::api
