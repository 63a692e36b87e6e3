// Encoding and decoding of audio files in memory. Pure functions: no I/O, thread-safe, equal input
// gives equal bytes.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/domain/request.h"
#include "worker/audio/audio.h"

namespace audiogen {

// Encodes mono `samples` at one of kSampleRates. mp3 is constant bit rate with a LAME tag, so that
// decoders drop the padding; pcm and wav are 16 bit, clipped; opus keeps `rate` as the input rate
// of its header and is 48 kHz inside (RFC 7845 section 5.1). Empty input is an error.
Result<std::string> encode(OutputFormat format, std::span<const float> samples, int rate);

// Decodes to mono; two channels are averaged. Stops after `seconds_max`. Known lies of headers are
// repaired (audio 2.2). Errors: not of this type, more than two channels, a rate outside 8-96 kHz,
// a sample that is no finite number, nothing inside, a second stream chained to the first, more
// than kForeignMax bytes. In this process: foreign bytes that need more than our own reader
// (is_plain) belong to the sandbox.
Result<Decoded> decode(const Audio& audio,
                       double seconds_max = std::numeric_limits<double>::infinity());
inline constexpr std::size_t kForeignMax = 32U << 20U;

// True for raw PCM and for WAV files that our own reader takes: no third-party code sees them.
bool is_plain(const Audio& audio);

// Decodes what encode() made and counts samples at `rate`: what a player will play.
Result<std::uint64_t> decoded_samples(OutputFormat format, std::string_view bytes, int rate);

}  // namespace audiogen
