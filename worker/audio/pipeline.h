// Shapes a provider's audio into what the client asked for. Thread-safe, no I/O but the decoder's,
// equal input gives equal bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/checksum.h"
#include "common/base/result.h"
#include "common/domain/request.h"
#include "worker/audio/audio.h"
#include "worker/audio/decoder.h"

namespace audiogen {

inline constexpr int kDurationMaxSeconds = 120;       // the longest charge
inline constexpr int kDurationMinMilliseconds = 100;  // less is no answer to any prompt
inline constexpr double kSpokenLufs = -18.0;          // of a synthesiser's raw output

struct RenderSpec {
  OutputFormat format = OutputFormat::kMp3;
  int sample_rate = 24000;            // Hz, one of kSampleRates
  double speed_remaining = 1.0;       // > 0
  double pitch_remaining = 0.0;       // semitones
  double volume = 1.0;                // times the amplitude
  std::optional<double> target_lufs;  // of a synthesiser's raw output, which is told no volume
  bool stereo = false;                // two channels may pass through; what is shaped here is mono
  // What is longer is cut: what the client will pay for, at most kDurationMaxSeconds.
  std::int64_t duration_max_ms = std::int64_t{kDurationMaxSeconds} * 1000;
};

// What is left to do of `request` on `audio`.
RenderSpec render_spec(const GenerationRequest& request, const Audio& audio);

// Whether that is a change of pace or pitch. Differences that nobody hears (rounding of what the
// provider applied) are not worth a pass.
bool needs_stretch(const RenderSpec& spec);

struct Rendered {
  std::string bytes;
  std::uint64_t samples = 0;    // decoded from `bytes`, at `rate`: the price comes from these
  int rate = 0;                 // Hz, as asked
  bool truncated = false;       // cut at RenderSpec::duration_max_ms
  bool passed_through = false;  // the provider's own bytes, without its tags
  std::optional<double> loudness_lufs;  // of the source, when it was normalised
  Checksum checksum{};                  // of `bytes`
};

struct PipelineFault {
  enum class Kind {
    kUndecodable,  // not the audio it says it is
    kEmpty,        // a file without any sound
    kSilent,       // never above kSilencePeak, raw speech never above kUnspokenPeak (levels.h)
    kTooShort,     // under kDurationMinMilliseconds
    kInternal,     // our encoder's output does not decode to what went in
    kNoDecoder,    // our decoder does not run: says nothing of the audio
  };
  Kind kind;
  std::string detail;  // for operators; no text of the user
};

// Decode, stretch and shift, resample, cut, normalise, volume, limit, encode, decode again and
// count. Audio that already is what was asked for is only decoded and counted, and where
// its size says how long it is, not even that: encoding it again would cost time and quality.
// With kNoDecoder `audio` is as it was, and may be given once more; else it may be moved from.
// Blocks: at worst (120 s at 48 kHz) holds about 50 MB and takes about a second of one core, and
// what the decoder takes.
Result<Rendered, PipelineFault> render(Audio&& audio, const RenderSpec& spec, Decoder& decoder);

}  // namespace audiogen
