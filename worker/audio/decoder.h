// Turns foreign bytes into sound, or says what picture they are. The plain kinds (PCM, plain WAV)
// are read right here; everything else goes through third-party parsers, wherever an
// implementation runs them.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/domain/request.h"
#include "worker/audio/audio.h"
#include "worker/audio/plain.h"
#include "worker/audio/sniff.h"

namespace audiogen {

inline constexpr std::size_t kMediaBytesMax = 64UL * 1024 * 1024;
inline constexpr int kRateMin = 8000, kRateMax = 96000;  // Hz
inline constexpr int kDecodedSecondsMax = 600;
static_assert(kMediaBytesMax > kDecodedSecondsMax * 48'000UL * 2,
              "the longest sound there may be, in the largest form in which we ask for any");
inline constexpr unsigned kImageSideMax = 8192;  // pixels
inline constexpr std::int64_t kImagePixelsMax = 40'000'000;

enum class DecodeFault : std::uint32_t {
  kNotThisType = 1,  // other bytes than they are said to be, or a kind that is never taken
  kCorrupt,          // of this type, but not decodable
  kChannels,         // more than two
  kRate,             // outside kRateMin to kRateMax
  kTooLong,          // above kDecodedSecondsMax
  kTooManyBytes,     // above kMediaBytesMax
  kNotFinite,        // a sample that is no number, or far above full scale
  kEmpty,            // no samples
  kChained,          // a second stream, which of Ogg is dropped without a word; in MP3, a new shape
  kImageTooLarge,    // above kImageSideMax or kImagePixelsMax
  kCrashed,          // the decoder, on these bytes
  kTimedOut,         // the decoder, on these bytes
  kUnavailable,      // the decoder does not run: says nothing of the bytes
};
// For operators.
const char* describe(DecodeFault fault);

// Mono sound; full scale is -1..1.
struct Pcm {
  std::vector<float> samples;
  int rate = 0;  // Hz
};

// A file as it stands: one of our own formats, its headers true and nothing left over.
struct ExactFile {
  OutputFormat format = OutputFormat::kPcm;
  int rate = 0;  // Hz; of Opus, what its header keeps
  int channels = 0;
  std::uint64_t samples = 0;  // of one channel at `rate`: what any player plays
};

struct Decoded {
  Pcm pcm;  // two channels are averaged
  std::optional<ExactFile> exact;
};

struct ImageInfo {
  ImageType type = ImageType::kPng;
  int width = 0, height = 0;  // pixels
};

// What a parser found besides the samples.
struct Unpacked {
  int rate = 0;                    // Hz
  std::optional<ExactFile> exact;  // `samples` is left for the caller to count
};

// The sound that needs no third party, if it is of that kind; a view into the audio's bytes.
std::optional<PlainSound> plain_of(const Audio& audio);

// The file a plain sound comes in, if it is one as it stands.
std::optional<ExactFile> exact_file(const Audio& audio, const PlainSound& sound);

// Takes the next mono samples and their rate; false ends the decoding.
using Sink = std::function<bool(std::span<const float>, int)>;

// Thread-safe.
class Decoder {
 public:
  virtual ~Decoder() = default;

  // Decodes to mono. Stops after `seconds_max`; without it more than kDecodedSecondsMax is refused.
  // Blocks: for some milliseconds, at worst for the limits of the implementation.
  Result<Decoded, DecodeFault> decode(const Audio& audio,
                                      double seconds_max = std::numeric_limits<double>::infinity());

  // Decodes the whole picture and throws the pixels away. Blocks as decode() does.
  Result<ImageInfo, DecodeFault> inspect_image(std::string_view bytes);

 private:
  virtual Result<Unpacked, DecodeFault> unpack(std::string_view bytes,
                                               AudioType type,
                                               const Sink& sink) = 0;
  virtual Result<ImageInfo, DecodeFault> unpack_image(std::string_view bytes, ImageType type) = 0;
};

// Averages interleaved frames in place and returns the mono samples. `channels` is 1 or 2.
std::span<const float> mix_to_mono(std::span<float> interleaved, int channels);

// nullopt when sound of this shape is taken.
std::optional<DecodeFault> check_shape(long rate, int channels);

}  // namespace audiogen
