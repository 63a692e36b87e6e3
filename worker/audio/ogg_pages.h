// The pages of an Ogg file (RFC 3533), without decoding them. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace audiogen {

struct OggSurvey {
  enum class Codec { kOther, kOpus, kVorbis };
  Codec codec = Codec::kOther;
  bool chained = false;  // more than one logical stream
  // Pages and nothing else from the first byte to the last, which belongs to the page that ends the
  // stream.
  bool whole = false;
  int opus_rate = 0;         // Hz; the rate that the header says the sound had (RFC 7845 5.1)
  std::int64_t samples = 0;  // at 48 kHz, by the last page; Opus only
  // It ends within a page. That the last one does not say so means nothing: not all who stream know
  // which it is.
  bool cut = false;
};

// Nullopt when `bytes` do not start with the first page of a stream.
std::optional<OggSurvey> survey_ogg(std::string_view bytes);

}  // namespace audiogen
