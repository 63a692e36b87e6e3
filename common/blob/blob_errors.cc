#include "common/blob/blob_errors.h"

#include <array>

#include "common/base/metrics.h"

namespace audiogen {
namespace {

// In the order of BlobOp; here, so that they are told from the start.
const std::array errors = [] {
  std::array<prometheus::Counter*, 4> out{};
  const std::array ops = {"put", "read", "remove", "flush"};
  for (std::size_t i = 0; i < out.size(); ++i) {
    out.at(i) = &metrics::counter(
        "blob_errors_total", "What the blob store could not do", {{"op", ops.at(i)}});
  }
  return out;
}();

}  // namespace

void count_blob_error(BlobOp op) {
  errors.at(static_cast<std::size_t>(op))->Increment();
}

}  // namespace audiogen
