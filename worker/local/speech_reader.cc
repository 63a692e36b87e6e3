#include "worker/local/speech_reader.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>

#include "common/base/check.h"
#include "worker/audio/levels.h"

namespace audiogen {
namespace {

using sandbox::Taken;

// Hz, of flite and of espeak-ng. Between others a part of nothing might become gigabytes.
constexpr std::uint32_t kFliteRate = 16000, kEspeakRate = 22050;

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

}  // namespace

// The rate changes between utterances alone.
SpeechReader::SpeechReader(const speech::Request& request)
    : bytes_max_(std::size_t{request.seconds_max} * kEspeakRate * sizeof(std::int16_t)),
      parts_max_(request.utterances.size()) {}

Taken SpeechReader::take(speech::BlockKind kind, std::string_view payload) {
  std::uint32_t value = 0;
  switch (kind) {
    case speech::BlockKind::kStart:
      if (payload.size() != sizeof(value)) {
        return Taken::kNonsense;
      }
      std::memcpy(&value, payload.data(), sizeof(value));
      if ((value != kFliteRate && value != kEspeakRate) || parts_.size() == parts_max_) {
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

Result<Speech, SpeechFault> SpeechReader::speech() && {
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

Speech SpeechReader::joined() {
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

}  // namespace audiogen
