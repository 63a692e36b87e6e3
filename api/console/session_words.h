// What faults of the store mean to whoever changes his own account, by the session that asks.
#pragma once

#include "api/server/answers_of_store.h"

namespace audiogen::api {

// As worded(), for told().
ApiError session_worded(const store::Fault& fault, const Call& call);

}  // namespace audiogen::api
