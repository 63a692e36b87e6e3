// The ordered chain of providers: who can serve a request, who is trusted at the moment, and what
// to do after a fault (README.md, "After a fault").
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/domain/lifecycle.h"
#include "worker/chain/breaker.h"
#include "worker/chain/bulkhead.h"
#include "worker/chain/provider.h"

namespace audiogen::worker {

// What happens to a task after a provider's fault.
enum class NextStep {
  kSameProvider,  // Once more, after `wait`.
  kNextProvider,
  // The claim ends, by `trouble`, which means:
  kRetryLater,  // Back to the queue; ends as the failure code when attempts are used up.
  kFail,        // Now, with the failure code.
  kGiveBack,    // The worker is stopping: no attempt is used up.
};
struct Decision {
  NextStep step = NextStep::kFail;
  FailureCode failure = FailureCode::kInternalError;
  std::chrono::milliseconds wait{0};
  Trouble trouble = Trouble::kNobodyNow;
};

// Where a task stands when a provider has failed it.
struct Standing {
  int tries = 1;         // Calls to this provider in this claim, the failed one included.
  bool another = false;  // A further provider could serve it.
  bool later = false;    // Some provider that has not said it cannot may serve it another time.
  std::chrono::milliseconds time_left{0};  // Until the task's deadline.
  double jitter = 0;                       // In [-1, 1].
};

// Pure. Content that was refused is not shopped around; an unknown outcome is not repeated at the
// same provider.
Decision after_fault(const ProviderFault& fault, const Standing& standing);

// One configuration's providers. Thread-safe.
class Chain {
 public:
  explicit Chain(std::vector<std::unique_ptr<AudioProvider>> providers);

  // The first provider at or after `from` that can serve `request` and whose breaker lets calls
  // through; nullopt: none now.
  std::optional<std::size_t> choose(const GenerationRequest& request, std::size_t from) const;
  // Could any provider serve it, breakers aside? Those at the positions `except` are known not to.
  bool serves(const GenerationRequest& request, std::span<const std::size_t> except = {}) const;
  // Does any provider send the files that requests refer to, not their addresses?
  bool sends_reference_bytes() const;
  std::optional<std::size_t> find(const std::string& name) const;
  AudioProvider& at(std::size_t position) const { return links_[position]->provider; }

  // Asks the breaker for leave to call; every call that got leave is followed by failed(), or by
  // answered() and, when its audio could be delivered or not, proved().
  bool admit(std::size_t position) const;
  void failed(std::size_t position, Fault fault) const;
  void answered(std::size_t position) const;
  // nullopt: good audio. Never kBrokenByInput, which only failed() is told.
  void proved(std::size_t position, std::optional<Fault> fault) const;

  // [{"name":…,"state":…,"in_flight":…,"waiting":…}] for operators.
  std::string status_json() const;

 private:
  struct Link {
    explicit Link(std::unique_ptr<AudioProvider> of) : provider(std::move(of)) {}
    Bulkhead provider;
    std::mutex mutex;
    Breaker breaker;  // Guarded by mutex.
  };
  std::vector<std::unique_ptr<Link>> links_;
};

// The chain in force. A new one takes its place without disturbing tasks that still use the old
// one.
class CurrentChain {
 public:
  explicit CurrentChain(std::shared_ptr<const Chain> chain) : chain_(std::move(chain)) {}

  std::shared_ptr<const Chain> get() const;
  void replace(std::shared_ptr<const Chain> chain);
  // Destroys replaced chains that nobody uses any more. Blocks while their providers close: never
  // call it on a provider's thread.
  void collect();

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const Chain> chain_;                  // Guarded by mutex_.
  std::vector<std::shared_ptr<const Chain>> replaced_;  // Guarded by mutex_.
};

}  // namespace audiogen::worker
