// Encoding of audio files in memory. Pure functions: no I/O, thread-safe, equal input
// gives equal bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/domain/request.h"

namespace audiogen {

// Encodes mono `samples` at one of kSampleRates. mp3 is constant bit rate with a LAME tag, so that
// decoders drop the padding; pcm and wav are 16 bit, clipped; opus keeps `rate` as the input rate
// of its header and is 48 kHz inside (RFC 7845 section 5.1). An error of empty input, and of
// samples that are not finite.
Result<std::string> encode(OutputFormat format, std::span<const float> samples, int rate);

// Decodes what encode() made and counts samples at `rate`: what a player will play. Of MP3 and
// Opus, whose encoders move peaks, `true_peak` becomes the highest one (1 is full scale), where it
// is given.
Result<std::uint64_t> decoded_samples(OutputFormat format,
                                      std::string_view bytes,
                                      int rate,
                                      double* true_peak = nullptr);

}  // namespace audiogen
