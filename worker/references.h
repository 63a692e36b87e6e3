// Fetches what a request refers to, through the public-address guard, and makes sure that it is
// what the interface allows, before any provider is asked (DESIGN 1 "References, image";
// reliability 7).
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/http/client.h"
#include "worker/audio/decoder.h"
#include "worker/audio/reference.h"
#include "worker/pool.h"
#include "worker/providers/provider.h"

namespace audiogen::worker {

struct ReferenceFault {
  enum class Kind {
    kUnusable,  // for good, as far as we can tell: `message` is for the client
    kOurs,      // our decoder is down or busy: later
    kCanceled,
  };
  Kind kind = Kind::kUnusable;
  std::string message;
};

// "audio_references[1] cannot be used: it is longer than 30 seconds." `member` is how the request
// names it. Pure.
std::string reference_message(std::string_view member, std::string_view reason);

class ReferenceFetcher {
 public:
  using References = std::shared_ptr<const audiogen::References>;
  using Done = std::function<void(Result<References, ReferenceFault>)>;

  // What is fetched and not yet let go, over all tasks: further ones wait for their turn.
  static constexpr std::size_t kBytesAtOnce = 256UL << 20U;
  static constexpr std::size_t kBytesEach = 10UL << 20U;  // a longer file is refused
  static constexpr int kRedirectsMax = 3;                 // each checked like the first address

  // Files are inspected on `codecs`. All must outlive the fetcher.
  ReferenceFetcher(http::Client& client, Decoder& decoder, Pool& codecs, http::Reach reach);
  // Ends open calls as canceled before it returns. Never on a thread of the client or the pool.
  ~ReferenceFetcher();
  ReferenceFetcher(const ReferenceFetcher&) = delete;
  ReferenceFetcher& operator=(const ReferenceFetcher&) = delete;

  // Starts fetching everything `request` refers to and returns at once; `done` runs exactly once,
  // on a thread of the client or of the pool. A failure that may pass is tried once more. With
  // `keep_bytes` the files stay in the result, else only what was found out about them.
  // Thread-safe.
  std::shared_ptr<ProviderCall> fetch(std::shared_ptr<const GenerationRequest> request,
                                      bool keep_bytes,
                                      std::chrono::steady_clock::time_point deadline,
                                      Done done);

 private:
  struct Budget;
  struct Fetch;

  http::Client& client_;
  Decoder& decoder_;
  Pool& codecs_;
  const http::Reach reach_;
  const std::shared_ptr<Budget> budget_;
};

}  // namespace audiogen::worker
