#include "worker/providers/speech_helper.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <sys/eventfd.h>
#include <unistd.h>

namespace audiogen {
namespace {

constexpr std::uint32_t kRateMax = 48000;  // Hz; espeak-ng speaks at 22050

// Takes the blocks of protocol.h.
class SpeechListener final : public sandbox::Listener {
 public:
  explicit SpeechListener(std::size_t bytes_max) : bytes_max_(bytes_max) {}

  void begin() override { speech_ = {}; }

  Taken take(std::uint32_t kind, std::string_view payload) override {
    const auto block = static_cast<speech::BlockKind>(kind);
    if (block == speech::BlockKind::kSamples) {
      speech_.samples.append(payload);
      return payload.size() % 2 == 0 && speech_.samples.size() <= bytes_max_ ? Taken::kMore
                                                                             : Taken::kNonsense;
    }
    std::uint32_t value = 0;
    if (payload.size() != sizeof(value)) {
      return Taken::kNonsense;
    }
    std::memcpy(&value, payload.data(), sizeof(value));
    if (block == speech::BlockKind::kStart) {
      speech_.rate = static_cast<int>(std::min(value, kRateMax));
      return Taken::kMore;
    }
    end_ = static_cast<speech::EndReason>(value);
    return block == speech::BlockKind::kEnd && speech_.rate > 0 ? Taken::kComplete
                                                                : Taken::kNonsense;
  }

  // Of a complete answer.
  Result<Speech, SpeechFault> result() {
    switch (end_) {
      case speech::EndReason::kDone:
        return std::move(speech_);
      case speech::EndReason::kVoiceMissing:
        return SpeechFault::kVoiceMissing;
      case speech::EndReason::kEngineFailed:
        break;
    }
    return SpeechFault::kCrashed;
  }

 private:
  const std::size_t bytes_max_;
  Speech speech_;
  speech::EndReason end_ = speech::EndReason::kEngineFailed;
};

SpeechFault fault_of(sandbox::HelperFault fault) {
  switch (fault) {
    case sandbox::HelperFault::kCanceled:
      return SpeechFault::kCanceled;
    case sandbox::HelperFault::kDeadline:
      return SpeechFault::kDeadline;
    case sandbox::HelperFault::kUnavailable:
      return SpeechFault::kUnavailable;
    case sandbox::HelperFault::kCrashed:
      break;
  }
  return SpeechFault::kCrashed;
}

}  // namespace

Cancellation::Cancellation() : descriptor_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

Cancellation::~Cancellation() {
  if (descriptor_ >= 0) {
    close(descriptor_);
  }
}

void Cancellation::cancel() {
  canceled_ = true;
  const std::uint64_t one = 1;
  // Fails only when the counter is full: then it is readable already.
  [[maybe_unused]] const ssize_t written = write(descriptor_, &one, sizeof(one));
}

std::string SpeechHelper::default_path() {
  return sandbox::Helper::beside("audio-speech", "SPEECH_HELPER");
}

SpeechHelper::SpeechHelper(std::string path) : helper_(std::move(path), speech::kProtocolVersion) {}

Result<Speech, SpeechFault> SpeechHelper::speak(const speech::Request& request,
                                                std::chrono::steady_clock::time_point deadline,
                                                const Cancellation& cancellation) {
  const std::optional<std::string> packet = speech::encode(request);
  if (!packet) {
    return SpeechFault::kCrashed;  // no engine takes so much at once
  }
  SpeechListener listener(std::size_t{request.seconds_max} * kRateMax * sizeof(std::int16_t));
  const std::optional<sandbox::HelperFault> fault =
      helper_.ask({*packet, {}, deadline, cancellation.descriptor()}, listener);
  if (fault) {
    return fault_of(*fault);
  }
  return listener.result();
}

}  // namespace audiogen
