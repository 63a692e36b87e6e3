#include "worker/job/removals.h"

#include <utility>

#include "common/base/log.h"
#include "common/base/occasionally.h"
#include "common/blob/blob_errors.h"
#include "worker/job/batches.h"

namespace audiogen::worker {
Removals::Removals(BlobStore& blobs) : blobs_(blobs), thread_(1, kWaitingMax) {}

bool Removals::post(std::string key) {
  if (key.empty()) {
    return true;
  }
  return thread_.post([this, key = std::move(key)] {
    if (stop_.stop_requested()) {
      return;
    }
    static Occasionally line;
    const auto removed = counted(BlobOp::kRemove, blobs_.remove(key, stop_.get_token()));
    if (!removed && line.due()) {
      log::warn("an output that came too late stays", {{"why", removed.error().message}});
    }
  });
}

void Removals::stop() {
  stop_.request_stop();
  thread_.stop();
}

}  // namespace audiogen::worker
