#include "worker/local/speech_helper.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace audiogen {
namespace {

using sandbox::Taken;

constexpr std::uint32_t kRateMax = 48000;  // Hz; espeak-ng speaks at 22050

// Puts the blocks of one answer together (protocol.h).
class SpeechReader {
 public:
  explicit SpeechReader(std::size_t bytes_max) : bytes_max_(bytes_max) {}

  Taken take(speech::BlockKind kind, std::string_view payload) {
    std::uint32_t value = 0;
    switch (kind) {
      case speech::BlockKind::kStart:
        if (payload.size() != sizeof(value)) {
          return Taken::kNonsense;
        }
        std::memcpy(&value, payload.data(), sizeof(value));
        speech_.rate = static_cast<int>(std::min(value, kRateMax));
        return Taken::kMore;
      case speech::BlockKind::kSamples:
        speech_.samples.append(payload);
        return payload.size() % 2 == 0 && speech_.samples.size() <= bytes_max_ ? Taken::kMore
                                                                               : Taken::kNonsense;
      case speech::BlockKind::kEnd:
        if (payload.size() != sizeof(value)) {
          return Taken::kNonsense;
        }
        std::memcpy(&value, payload.data(), sizeof(value));
        end_ = static_cast<speech::EndReason>(value);
        return speech_.rate > 0 ? Taken::kLast : Taken::kNonsense;
    }
    return Taken::kNonsense;
  }

  Result<Speech, SpeechFault> speech() && {
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
  std::size_t bytes_max_;
  Speech speech_;
  speech::EndReason end_ = speech::EndReason::kEngineFailed;
};

SpeechFault fault_of(sandbox::Ending ending) {
  switch (ending) {
    case sandbox::Ending::kComplete:
    case sandbox::Ending::kCrashed:
      return SpeechFault::kCrashed;
    case sandbox::Ending::kDeadline:
      return SpeechFault::kDeadline;
    case sandbox::Ending::kCanceled:
      return SpeechFault::kCanceled;
    case sandbox::Ending::kUnavailable:
      return SpeechFault::kUnavailable;
  }
  return SpeechFault::kUnavailable;
}

}  // namespace

std::string SpeechHelper::default_path() {
  return sandbox::Helper::path_of("audio-speech", "SPEECH_HELPER");
}

SpeechHelper::SpeechHelper(std::string path) : helper_(std::move(path), speech::kProtocolVersion) {}

Result<Speech, SpeechFault> SpeechHelper::speak(const speech::Request& request,
                                                std::chrono::steady_clock::time_point deadline,
                                                const Cancellation& cancellation) {
  std::optional<std::string> packet = speech::encode(request);
  if (!packet) {
    return SpeechFault::kCrashed;  // no engine takes so much at once
  }
  const SpeechReader fresh(std::size_t{request.seconds_max} * kRateMax * sizeof(std::int16_t));
  SpeechReader reader = fresh;
  const sandbox::Ending ending = helper_.ask(
      {.packet = *std::move(packet), .deadline = deadline, .cancellation = &cancellation},
      [&] { reader = fresh; },
      [&](std::uint32_t kind, std::string_view payload) {
        return reader.take(static_cast<speech::BlockKind>(kind), payload);
      });
  if (ending != sandbox::Ending::kComplete) {
    return fault_of(ending);
  }
  return std::move(reader).speech();
}

}  // namespace audiogen
