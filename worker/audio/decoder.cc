#include "worker/audio/decoder.h"

#include <algorithm>
#include <cmath>

#include "worker/audio/block.h"
#include "worker/audio/plain.h"

namespace audiogen {
namespace {

// 60 dB above full scale: nobody's sound, and what follows would overflow.
constexpr float kLevelMax = 1000.0F;

// Gathers samples up to the limits, whoever they come from.
class Gatherer {
 public:
  explicit Gatherer(double seconds_max) : seconds_max_(seconds_max) {}

  bool take(std::span<const float> samples, int rate) {
    // One more than is let through shows that there is more.
    const double most = std::min(seconds_max_, double{kDecodedSecondsMax}) * rate;
    const double room = std::floor(most) - static_cast<double>(out_.samples.size());
    if (static_cast<double>(samples.size()) > room) {
      cut_ = true;
      samples = samples.first(static_cast<std::size_t>(std::max(room, 0.0)));
    }
    // Also false for what is no number.
    finite_ = std::all_of(
        samples.begin(), samples.end(), [](float sample) { return std::abs(sample) <= kLevelMax; });
    out_.samples.insert(out_.samples.end(), samples.begin(), samples.end());
    return finite_ && !cut_;
  }

  std::optional<DecodeFault> fault() const {
    if (!finite_) {
      return DecodeFault::kNotFinite;
    }
    if (cut_ && seconds_max_ > kDecodedSecondsMax) {
      return DecodeFault::kTooLong;
    }
    return out_.samples.empty() ? std::optional(DecodeFault::kEmpty) : std::nullopt;
  }

  bool cut() const { return cut_; }
  Pcm take_pcm(int rate) {
    out_.rate = rate;
    return std::move(out_);
  }

 private:
  const double seconds_max_;
  Pcm out_;
  bool finite_ = true, cut_ = false;
};

PlainSound pcm_sound(const Audio& audio) {
  const auto frame = 2 * static_cast<std::size_t>(std::clamp(audio.channels, 1, 2));
  PlainSound out{SampleKind::kS16, audio.rate, audio.channels, audio.bytes, false};
  out.data = out.data.substr(0, out.data.size() / frame * frame);
  out.honest = out.data.size() == audio.bytes.size();
  return out;
}

Result<Unpacked, DecodeFault> unpack_plain(const Audio& audio,
                                           const PlainSound& sound,
                                           const Sink& sink) {
  if (const auto fault = check_shape(sound.rate, sound.channels)) {
    return *fault;
  }
  std::vector<float> block(kBlockSamples);
  for (std::size_t at = 0;;) {
    const std::size_t count = read_samples(sound, at, block);
    if (count == 0 ||
        !sink(mix_to_mono(std::span(block).first(count), sound.channels), sound.rate)) {
      break;
    }
    at += count;
  }
  return Unpacked{sound.rate, exact_file(audio, sound)};
}

// At the rate of the file, for the price.
std::uint64_t samples_at(int rate, const Pcm& pcm) {
  return static_cast<std::uint64_t>(pcm.samples.size()) * static_cast<std::uint64_t>(rate) /
         static_cast<std::uint64_t>(pcm.rate);
}

}  // namespace

std::optional<PlainSound> plain_of(const Audio& audio) {
  if (audio.type == AudioType::kPcmS16Le) {
    return pcm_sound(audio);
  }
  if (audio.type != AudioType::kWav) {
    return std::nullopt;
  }
  const std::optional<WavView> view = view_wav(audio.bytes);
  return view ? plain_sound(*view, audio.bytes) : std::nullopt;
}

std::optional<ExactFile> exact_file(const Audio& audio, const PlainSound& sound) {
  if (!sound.honest) {
    return std::nullopt;
  }
  const auto frame = sample_size(sound.kind) * static_cast<std::size_t>(sound.channels);
  return ExactFile{audio.type == AudioType::kWav ? OutputFormat::kWav : OutputFormat::kPcm,
                   sound.rate,
                   sound.channels,
                   sound.data.size() / frame};
}

const char* describe(DecodeFault fault) {
  switch (fault) {
    case DecodeFault::kNotThisType:
      return "not of this type";
    case DecodeFault::kCorrupt:
      return "not decodable";
    case DecodeFault::kChannels:
      return "more than two channels";
    case DecodeFault::kRate:
      return "sample rate out of range";
    case DecodeFault::kTooLong:
      return "too long";
    case DecodeFault::kTooManyBytes:
      return "too many bytes";
    case DecodeFault::kNotFinite:
      return "a sample is not a number";
    case DecodeFault::kEmpty:
      return "no samples";
    case DecodeFault::kChained:
      return "more than one stream";
    case DecodeFault::kImageTooLarge:
      return "the picture is too large";
    case DecodeFault::kCrashed:
      return "crashes the decoder";
    case DecodeFault::kTimedOut:
      return "takes the decoder too long";
    case DecodeFault::kUnavailable:
      return "the decoder does not run";
  }
  return "unknown";
}

std::span<const float> mix_to_mono(std::span<float> interleaved, int channels) {
  if (channels == 1) {
    return interleaved;
  }
  const std::size_t frames = interleaved.size() / 2;
  for (std::size_t i = 0; i < frames; ++i) {
    interleaved[i] = 0.5F * (interleaved[2 * i] + interleaved[2 * i + 1]);
  }
  return interleaved.first(frames);
}

std::optional<DecodeFault> check_shape(long rate, int channels) {
  if (channels < 1 || channels > 2) {
    return DecodeFault::kChannels;
  }
  return rate < kRateMin || rate > kRateMax ? std::optional(DecodeFault::kRate) : std::nullopt;
}

Result<Decoded, DecodeFault> Decoder::decode(const Audio& audio, double seconds_max) {
  if (audio.bytes.size() > kMediaBytesMax) {
    return DecodeFault::kTooManyBytes;
  }
  Gatherer gatherer(seconds_max);
  const Sink sink = [&](std::span<const float> samples, int rate) {
    return gatherer.take(samples, rate);
  };
  const std::optional<PlainSound> plain = plain_of(audio);
  const Result<Unpacked, DecodeFault> unpacked =
      plain ? unpack_plain(audio, *plain, sink) : unpack(audio.bytes, audio.type, sink);
  if (!unpacked) {
    return unpacked.error();
  }
  if (const auto fault = gatherer.fault()) {
    return *fault;  // Without any sample there is no rate either.
  }
  Decoded out{gatherer.take_pcm(unpacked->rate), unpacked->exact};
  if (gatherer.cut()) {
    out.exact.reset();
  }
  if (out.exact) {
    out.exact->samples = samples_at(out.exact->rate, out.pcm);
  }
  return out;
}

Result<ImageInfo, DecodeFault> Decoder::inspect_image(std::string_view bytes) {
  if (bytes.size() > kMediaBytesMax) {
    return DecodeFault::kTooManyBytes;
  }
  const std::optional<ImageType> type = sniff_image(bytes);
  return type ? unpack_image(bytes, *type)
              : Result<ImageInfo, DecodeFault>(DecodeFault::kNotThisType);
}

}  // namespace audiogen
