#include "common/domain/estimate.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "common/base/utf8.h"

namespace audiogen {
namespace {

// Milliseconds of one character at the normal speed: of alphabets about 15 a second, of kana and
// hangul, which are syllables, half as many, of Chinese characters, which are often more than one,
// half as many again. Measured at the local engine (Estimates in tests/audio/speech_test.cc), whose
// languages lie between 10 and 22, 6 and 8, and about 3 characters a second.
constexpr std::int64_t kLetterMs = 67, kSyllableMs = 143, kHanMs = 286;
// Nine of ten take more than the first part of what is expected, and nine of ten less than the
// second: languages, voices and pauses differ by so much.
constexpr double kShort = 0.65, kLong = 1.7;

std::int64_t character_ms(std::string_view character) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(character[i]); };
  if (character.size() == 4) {
    return byte(0) == 0xF0 && byte(1) >= 0xA0 ? kHanMs : kLetterMs;  // U+20000 to U+3FFFF
  }
  if (character.size() != 3) {
    return kLetterMs;
  }
  const unsigned code = ((byte(0) & 0x0FU) << 12U) | ((byte(1) & 0x3FU) << 6U) | (byte(2) & 0x3FU);
  const auto within = [&](unsigned first, unsigned last) { return code >= first && code <= last; };
  if (within(0x3400, 0x9FFF) || within(0xF900, 0xFAFF)) {
    return kHanMs;
  }
  return within(0x3040, 0x30FF) || within(0xAC00, 0xD7A3) ? kSyllableMs : kLetterMs;
}

}  // namespace

Estimate estimate(const GenerationRequest& request) {
  std::int64_t normal = 0;
  for (std::string_view rest = request.prompt; !rest.empty();) {
    const std::size_t length = std::max<std::size_t>(1, utf8_sequence_length(rest));
    normal += character_ms(rest.substr(0, length));
    rest.remove_prefix(length);
  }
  const std::int64_t longest = longest_ms(request.max_credits);
  const auto part = [&](double factor) {
    return std::min<std::int64_t>(
        std::llround(static_cast<double>(normal) / request.speed * factor), longest);
  };
  return {.expected = charge_for(part(1)),
          .least = kChargeMin,
          .most = request.max_credits,
          .short_ms = part(kShort),
          .long_ms = part(kLong)};
}

}  // namespace audiogen
