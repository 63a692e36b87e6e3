// Fetches what a request refers to, through the public-address guard, and makes sure that it is
// what the interface allows, before any provider is asked (README.md, "References").
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/config.h"
#include "common/base/ids.h"
#include "common/base/ip_address.h"
#include "common/base/result.h"
#include "common/http/client.h"
#include "worker/audio/decoder.h"
#include "worker/audio/reference.h"
#include "worker/chain/provider.h"
#include "worker/job/pool.h"

namespace audiogen::worker {

struct ReferenceFault {
  enum class Kind {
    kUnusable,  // for good, as far as we can tell: `message` is for the client
    kOurs,      // our decoder or our disk is down or full: later
    kBusy,      // too many of its user's, or of all, wait already: not before `after`
    kCanceled,
  };
  Kind kind = Kind::kUnusable;
  std::string message{};
  std::string detail{};  // more for operators: what the client must not learn
  std::chrono::milliseconds after{0};
};

// "audio_references[1] cannot be used: it is longer than 30 seconds." `member` is how the request
// names it. Pure.
std::string reference_message(std::string_view member, std::string_view reason);

// What fetching may use, over all tasks. A single user gets a quarter of the tasks and the bytes,
// a single host half of the tasks, and of that a single user half: whoever's server dawdles keeps
// the rest from nobody. Turns go to those first who have the fewest. Of one user, one task is
// inspected at a time.
struct ReferenceLimits {
  std::size_t bytes_max = 256UL << 20U;  // received and not yet let go; further ones wait
  std::size_t tasks_max = 50;            // fetched for at once; others wait for their turn …
  // … and more than so many are refused as kBusy, or twice as many of users with next to none.
  std::size_t waiting_max = 400;
  // All of one task's files together, redirects and retries included; waiting for a turn is not.
  std::chrono::milliseconds time_max{30'000};
  // A server that sends less than 4 KB a second on average, for so long, is not serving.
  std::chrono::seconds slow_for{8};
  std::string folder = "/var/tmp";  // where files lie meanwhile, without a name
};

// What the configuration leaves them: a quarter of what the worker holds at once is fetched for,
// twice as many tasks as it holds wait.
ReferenceLimits reference_limits(const Config& config);

class ReferenceFetcher {
 public:
  using References = std::shared_ptr<const audiogen::References>;
  using Done = std::function<void(Result<References, ReferenceFault>)>;

  static constexpr std::size_t kBytesEach = 10UL << 20U;  // a longer file is refused

  // Files are inspected on `inspectors`: foreign files of any client, at seconds of CPU each.
  // Both must outlive the fetcher. The client that fetches is its own: nothing that a provider or
  // another user waits for is behind a reference. It refuses `deny` besides what is not public.
  ReferenceFetcher(Decoder& decoder,
                   Pool& inspectors,
                   http::Reach reach,
                   ReferenceLimits limits = {},
                   std::vector<IpNetwork> deny = {});
  // Ends open calls as canceled before it returns. Never on a thread of its client or the pool.
  ~ReferenceFetcher();
  ReferenceFetcher(const ReferenceFetcher&) = delete;
  ReferenceFetcher& operator=(const ReferenceFetcher&) = delete;

  // Starts fetching everything `request` of `user` refers to and returns at once; `done` runs
  // exactly once, on a thread of the fetcher's client or of the pool. A failure that may pass is
  // tried once more. With `keep_bytes` the files stay in the result, else only what was found out
  // about them. Thread-safe.
  std::shared_ptr<ProviderCall> fetch(const UserId& user,
                                      const std::shared_ptr<const GenerationRequest>& request,
                                      bool keep_bytes,
                                      std::chrono::steady_clock::time_point deadline,
                                      Done done);

 private:
  struct Budget;
  struct Fetch;

  Decoder& decoder_;
  Pool& inspectors_;
  const http::Reach reach_;
  const std::shared_ptr<Budget> budget_;
  http::Client client_;
};

}  // namespace audiogen::worker
