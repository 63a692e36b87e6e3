#include "worker/local/speech_helper.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "worker/audio/levels.h"

namespace audiogen {
namespace {

using sandbox::Taken;

constexpr std::uint32_t kRateMax = 48000;  // Hz; espeak-ng speaks at 22050, flite at 16000

// `samples` at another rate.
std::string at_rate(const Speech& speech, int rate) {
  if (speech.rate == rate) {
    return speech.samples;
  }
  std::vector<float> in(speech.samples.size() / sizeof(std::int16_t));
  for (std::size_t i = 0; i < in.size(); ++i) {
    std::int16_t sample = 0;
    std::memcpy(&sample, speech.samples.data() + i * sizeof(sample), sizeof(sample));
    in[i] = static_cast<float>(sample);
  }
  std::string out;
  const Result<std::vector<float>> resampled = resample(in, speech.rate, rate);
  AG_CHECK(resampled);  // fails for rates out of all bounds alone
  for (const float sample : *resampled) {
    const auto value =
        static_cast<std::int16_t>(std::lround(std::clamp(sample, -32768.0F, 32767.0F)));
    out.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  return out;
}

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
        value = std::min(value, kRateMax);
        if (value == 0) {
          return Taken::kNonsense;
        }
        parts_.push_back({{}, static_cast<int>(value)});
        return Taken::kMore;
      case speech::BlockKind::kSamples:
        bytes_ += payload.size();
        if (parts_.empty() || payload.size() % 2 != 0 || bytes_ > bytes_max_) {
          return Taken::kNonsense;
        }
        parts_.back().samples.append(payload);
        return Taken::kMore;
      case speech::BlockKind::kEnd:
        if (payload.size() != sizeof(value)) {
          return Taken::kNonsense;
        }
        std::memcpy(&value, payload.data(), sizeof(value));
        end_ = static_cast<speech::EndReason>(value);
        return parts_.empty() ? Taken::kNonsense : Taken::kLast;
    }
    return Taken::kNonsense;
  }

  Result<Speech, SpeechFault> speech() && {
    switch (end_) {
      case speech::EndReason::kDone:
        return joined();
      case speech::EndReason::kVoiceMissing:
        return SpeechFault::kVoiceMissing;
      case speech::EndReason::kEngineFailed:
        break;
    }
    return SpeechFault::kCrashed;
  }

 private:
  Speech joined() {
    if (parts_.size() == 1) {
      return std::move(parts_.front());
    }
    Speech out;
    for (const Speech& part : parts_) {
      out.rate = std::max(out.rate, part.rate);
    }
    for (const Speech& part : parts_) {
      out.samples += at_rate(part, out.rate);
    }
    return out;
  }

  std::size_t bytes_max_, bytes_ = 0;
  std::vector<Speech> parts_;  // each at one rate
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
