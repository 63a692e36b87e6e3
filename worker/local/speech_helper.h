// Speaks through the speech helper program (worker/speech).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "common/base/result.h"
#include "worker/sandbox/helper.h"
#include "worker/speech/protocol.h"

namespace audiogen {

using sandbox::Cancellation;

struct Speech {
  std::string samples;  // 16-bit little-endian mono
  int rate = 0;         // Hz: where both engines spoke, the higher one of theirs
};

enum class SpeechFault : std::uint8_t {
  kCanceled,
  kDeadline,
  kCrashed,       // the engine, on this text
  kVoiceMissing,  // not installed
  kUnavailable,   // the helper does not start, or keeps dying
};

class SpeechHelper {
 public:
  // The program beside this one, or what the environment variable SPEECH_HELPER names.
  static std::string default_path();

  // Starts nothing yet.
  explicit SpeechHelper(std::string path);

  // Speaks one request. Blocks until the speech is complete, `cancellation` comes or `deadline`
  // passes. Starts the helper when there is none, at growing intervals when it keeps failing.
  // Thread-safe; calls run beside each other.
  Result<Speech, SpeechFault> speak(const speech::Request& request,
                                    std::chrono::steady_clock::time_point deadline,
                                    const Cancellation& cancellation);

  // The helper's process id, when one runs.
  std::optional<pid_t> process() const { return helper_.process(); }

 private:
  sandbox::Helper helper_;
};

}  // namespace audiogen
