// The interface of everything that makes audio from a request.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/domain/provider_price.h"
#include "common/domain/request.h"
#include "common/domain/trace.h"
#include "worker/audio/audio.h"
#include "worker/audio/reference.h"

namespace audiogen {

// What the caller should do about a failed call. Adapters collapse everything they see to these.
enum class Fault : std::uint8_t {
  kRetrySame,      // briefly broken: the same provider, later
  kThrottled,      // it works, and wants fewer calls of us: the same provider, later
  kTryNext,        // this provider cannot do it now: another may
  kMisconfigured,  // it refuses our key, account, model or voice, until a person acts: another may
                   // do it
  kBrokenByInput,  // it broke down over this very request, or refused it and did not say what for,
                   // which says nothing of others: another may do it
  kRejected,       // refused for its content
  kUnsupportedInput,  // this provider cannot make audio of this input, however often it is asked
  kUnknownOutcome,    // may have happened (and be billed) there: not again without the request key
  kOutOfTime,         // ended by the request's deadline, not by the provider's own limit: the same,
                      // but the provider's fault it is not
  kNotCalled,         // nobody was asked to make it: the breaker is open, no time was left for a
                      // call, or what was to be gone on with is not there any more
  kCanceled,          // by ProviderCall::cancel
};

constexpr std::string_view fault_name(Fault fault) {
  switch (fault) {
    case Fault::kRetrySame:
      return "retry_same";
    case Fault::kThrottled:
      return "throttled";
    case Fault::kTryNext:
      return "try_next";
    case Fault::kMisconfigured:
      return "misconfigured";
    case Fault::kBrokenByInput:
      return "broken_by_input";
    case Fault::kRejected:
      return "rejected";
    case Fault::kUnsupportedInput:
      return "unsupported_input";
    case Fault::kUnknownOutcome:
      return "unknown_outcome";
    case Fault::kOutOfTime:
      return "out_of_time";
    case Fault::kNotCalled:
      return "not_called";
    case Fault::kCanceled:
      return "canceled";
  }
  return "unknown";
}

// Whether the same provider may do it a moment later.
constexpr bool is_brief(Fault fault) {
  return fault == Fault::kRetrySame || fault == Fault::kThrottled;
}

struct ProviderFault {
  Fault fault;
  std::string detail;  // for operators; never text of the user, of a reference or a secret
  std::optional<std::chrono::seconds> retry_after;
  bool made = false;  // audio was made there, and is billed, and did not come or is no good
  std::optional<Thousandths> billed{};  // of which the provider says that it bills so much
  // kUnsupportedInput because of the script or language of the prompt, which the client is told
  bool no_voice = false;
};

// What is known of a call beside its answer.
struct CallFacts {
  using Clock = std::chrono::steady_clock;
  std::optional<Clock::time_point> sent{};        // Its request left; nullopt: nobody was asked.
  std::optional<Clock::time_point> first_byte{};  // Of the answer that brought audio.
  // What the provider says it bills, in the unit in which its kind does.
  std::optional<Thousandths> reported{};
  bool goes_on = false;  // We ended it, and a later call may ask for its audio.
  // For so long its answers waited to be read, for room of ours: no time of the provider's.
  Clock::duration unread{0};
};

// What the request refers to, fetched and found to be what the interface allows.
struct References {
  std::vector<AudioReference> sounds;  // in the order of the request
  std::optional<ImageReference> image;
};

struct ProviderRequest {
  std::shared_ptr<const GenerationRequest> request;
  std::string request_key;  // the same for every call that must have one effect
  std::chrono::steady_clock::time_point deadline;
  std::chrono::milliseconds lifetime{0};           // of the task, from its creation to the deadline
  std::shared_ptr<const References> references{};  // null when the request has none
  bool fallback = false;  // another before it in the chain could have served it, too
  std::optional<TraceSpan>
      span{};  // of this call; told to the provider, where it is asked directly
  // What on_ticket got of an earlier call to this provider: that call's audio is asked for, and
  // nothing is made anew. Empty: none.
  std::string ticket{};
  // Gets what a later call may ask for the same audio by, where the provider gives such: once at
  // most, before the answer, on a thread that it must not block. False: nobody will. May be null.
  std::function<bool(const std::string& ticket)> on_ticket{};
  // Where the provider writes what becomes known of the call, until it answers. May be null.
  std::shared_ptr<CallFacts> facts{};
  // When whoever asks leaves: a call that waits for its turn and would not have ended by then is
  // answered with kCanceled, but for one by a ticket. May change, and be null: never.
  std::shared_ptr<const std::atomic<std::chrono::steady_clock::time_point>> leaves_at{};
  // Whether whoever asks still has the task. If not, another may be at it by now: no call begins,
  // and what the other can go on with is not withdrawn. Any thread; must not block; null: always.
  std::function<bool()> is_ours{};
};

// What makes audio in the house costs nothing, and sounds like it.
inline constexpr int kTierOfTheHouse = 2;

// Constant for a provider's life.
struct Capabilities {
  std::vector<std::string> voices;  // ids of common/domain/voices.h
  bool scenes = false;              // makes what a prompt describes; else it reads it aloud
  bool speaks = true;               // has voices: a request for one of them is for it, too
  bool cues = false;                // but for the sounds of common/domain/cues.h, by their names
  bool audio_references = false;
  bool image = false;
  bool reference_bytes = false;         // sends the files themselves, not their addresses
  std::size_t prompt_max = kPromptMax;  // code points
  bool gives_tickets = false;           // so its calls outlive who made them
  // Done by the provider itself; outside these the pipeline does the rest.
  Range native_speed{1.0, 1.0};
  Range native_pitch{0.0, 0.0};
  // Not answered by then: the next provider of the same tier is asked as well, and the first audio
  // wins. 0: never.
  std::chrono::milliseconds hedge_after{0};
  int tier = kTierOfTheHouse;  // Of quality: who is fast must not win by being worse.
  // When our patience with a call ends. 0: a call ends by itself.
  std::chrono::milliseconds timeout{0};
  // Calls open at once; to keep to it is the caller's part.
  int max_in_flight = 1;
  // The account whose calls, of all workers, are so many at once at most. Empty: nobody has said.
  std::string account{};
  std::uint32_t account_max_in_flight = 0;
  // A call whose turn has not come by then goes to another provider that is free. 0: it waits.
  std::chrono::milliseconds queue_wait{0};
  std::optional<ProviderPrice> price{};  // What its calls cost; nullopt: nobody has said.
  std::optional<PriceUnit> reports{};    // Its answers may say how much of this they cost.
};

// A call that is left has ended by then.
inline constexpr std::chrono::seconds kLeaveLimit{10};

class ProviderCall {
 public:
  virtual ~ProviderCall() = default;
  // Asks for an early end; `done` is still called once. Never blocks; may come at any time, from
  // any thread, repeatedly.
  virtual void cancel() = 0;
  // The same, but what has a ticket goes on there: somebody may ask for it. What is being handed
  // over is waited for, until kLeaveLimit.
  virtual void leave() { cancel(); }
  // Does it wait for its turn, so that nobody is asked yet?
  virtual bool waits() const { return false; }
  // Has its answer come, and waits for room of ours to be read?
  virtual bool is_unread() const { return false; }
  // If it waits for its turn, it ends with kNotCalled.
  virtual void stop_waiting() {}
};

class AudioProvider {
 public:
  using Done = std::function<void(Result<Audio, ProviderFault>)>;

  // Ends open calls as canceled before it returns.
  virtual ~AudioProvider() = default;
  // As in the configuration; for calls, logs and metrics.
  virtual const std::string& name() const = 0;
  virtual const Capabilities& capabilities() const = 0;
  // Starts what it cannot do without, where that may be missing or wrong: says why it will never
  // work, for operators. To be called once, before start(). Blocks, for a minute at most.
  virtual std::optional<std::string> prepare() { return std::nullopt; }
  // Starts a call and returns at once. `done` runs exactly once, on a thread of the provider, never
  // inside start(); it must not block and must not destroy the provider. Thread-safe.
  virtual std::shared_ptr<ProviderCall> start(ProviderRequest request, Done done) = 0;
};

}  // namespace audiogen
