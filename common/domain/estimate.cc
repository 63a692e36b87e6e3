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

std::int64_t character_ms(char32_t character) {
  const auto within = [&](char32_t first, char32_t last) {
    return character >= first && character <= last;
  };
  if (within(0x3400, 0x9FFF) || within(0xF900, 0xFAFF) || within(0x20000, 0x3FFFF)) {
    return kHanMs;
  }
  return within(0x3040, 0x30FF) || within(0xAC00, 0xD7A3) ? kSyllableMs : kLetterMs;
}

}  // namespace

Estimate estimate(const GenerationRequest& request) {
  std::int64_t normal = 0;
  for (std::string_view rest = request.prompt; !rest.empty();) {
    const std::size_t length = utf8_sequence_length(rest);
    normal += length == 0 ? kLetterMs : character_ms(utf8_code_point(rest.substr(0, length)));
    rest.remove_prefix(std::max<std::size_t>(1, length));
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
