// Outputs that came too late: their tasks have ended, or are somebody else's now. A removal may
// take 10 s (S3), and whoever finds out that an output is one has others to see to.
#pragma once

#include <stop_token>
#include <string>

#include "common/blob/blob_store.h"
#include "worker/job/pool.h"

namespace audiogen::worker {

class Removals {
 public:
  explicit Removals(BlobStore& blobs);
  ~Removals() { stop(); }
  Removals(const Removals&) = delete;
  Removals& operator=(const Removals&) = delete;

  // Removes the blob of `key` soon, if it can be; "" is none. What is not removed stays like what a
  // crash leaves. False: too many wait already, or it has stopped. Never blocks. Thread-safe.
  bool post(std::string key);

  // Ends the removal under way, which is a moment's work unless the store is silent, and drops
  // those that wait.
  void stop();

 private:
  BlobStore& blobs_;
  std::stop_source stop_;
  Pool thread_;
};

}  // namespace audiogen::worker
