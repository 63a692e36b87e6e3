// What the answers of the store's doors are to a client.
#pragma once

#include <optional>
#include <utility>

#include "api/server/call.h"
#include "common/base/result.h"
#include "common/domain/api_error.h"
#include "common/store/fault.h"

namespace audiogen::api {

// What `fault` is to whoever makes this call. Where the database was in the way, 503 and a line in
// the log, once a second at most.
ApiError worded(const store::Fault& fault, const Call& call);

// What on_store() brought, or what to tell the client; in words of the caller's own where a fault
// means more to him than worded() knows.
using Words = ApiError (*)(const store::Fault& fault, const Call& call);
template <class T>
Result<T, ApiError> told(std::optional<Result<T, store::Fault>> outcome,
                         const Call& call,
                         Words words = worded) {
  if (!outcome) {
    return service_unavailable();
  }
  if (!*outcome) {
    return words(outcome->error(), call);
  }
  return **std::move(outcome);
}

}  // namespace audiogen::api
