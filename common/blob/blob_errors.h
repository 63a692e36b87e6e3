// What the blob store could not do, counted for /metrics (blob_errors_total).
#pragma once

#include <cstdint>

#include "common/base/result.h"

namespace audiogen {

enum class BlobOp : std::uint8_t { kPut, kRead, kRemove, kFlush };

// Thread-safe, never blocks.
void count_blob_error(BlobOp op);

// `result`, counted if it is an error.
template <class T>
Result<T> counted(BlobOp op, Result<T> result) {
  if (!result) {
    count_blob_error(op);
  }
  return result;
}

}  // namespace audiogen
