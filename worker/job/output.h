// Makes a file of a provider's audio: shapes it on the codecs' threads, stores it together with all
// that are ready at the same time.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/blob/blob_store.h"
#include "common/http/client.h"
#include "worker/audio/pipeline.h"
#include "worker/job/job.h"
#include "worker/job/pool.h"

namespace audiogen::worker {

// Of a job, stored.
struct OutputFile {
  std::string key;
  std::uint64_t bytes = 0;
  Sha256 sha256{};
  std::int64_t duration_ms = 0;
};

// Why there is none.
struct OutputFault {
  enum class Kind {
    kBadAudio,  // `of_provider`: another may do better.
    kOurs,      // `what` we could not do, and `why`: later.
    kLost,      // Nobody wants it any more.
  };
  Kind kind = Kind::kLost;
  std::optional<ProviderFault> of_provider{};
  std::string what{};
  std::string why{};
};

class Output {
 public:
  using Made = std::function<void(const JobPtr&, Result<OutputFile, OutputFault>)>;

  // `client` is told of audio that waits, so that it takes less of it meanwhile. `made` runs once
  // for each make(), on a thread of the pools or the caller's own; it must not block.
  Output(BlobStore& blobs, http::Client& client, Decoder& decoder, Made made);
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  // Takes the audio that a provider made for `job`. Never blocks.
  void make(const JobPtr& job, Audio audio);

  // Finishes what was taken.
  void stop();

 private:
  struct Ready {
    JobPtr job;
    Rendered rendered;
  };

  void shape(const JobPtr& job, Audio audio);
  void put(std::vector<Ready> ready);
  void end(const JobPtr& job, Result<OutputFile, OutputFault> result);
  void end_ours(const JobPtr& job, const char* what, const std::string& why);
  void end_bad(const JobPtr& job, Fault fault, const std::string& detail);

  BlobStore& blobs_;
  http::Client& client_;
  Decoder& decoder_;
  const Made made_;
  Pool codecs_;
  BatchPool<Ready> writers_;
};

}  // namespace audiogen::worker
