#include "worker/audio/codec.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>

#include <opusenc.h>
#include <sndfile.h>

#include "worker/audio/block.h"
#include "worker/audio/foreign.h"
#include "worker/audio/levels.h"
#include "worker/audio/memory_file.h"

namespace audiogen {
namespace {

constexpr int kOpusComplexity = 5;
// Ogg wants a number that differs between streams multiplexed together; ours stand alone, and a
// fixed one makes the file repeatable.
constexpr int kOggSerial = 1;

using OpusEncoder = std::unique_ptr<OggOpusEnc, Deleter<ope_encoder_destroy>>;

std::int16_t to_s16(float sample) {
  return static_cast<std::int16_t>(std::lrintf(std::clamp(sample, -1.0F, 1.0F) * 32767.0F));
}

// Constant bit rates, so that a file's size follows from its length; each carries what its sample
// rate can (README.md, "Encoders").
int mp3_kbps(int rate) {
  return rate <= 8000 ? 32 : rate <= 16000 ? 48 : rate <= 24000 ? 64 : 96;
}

int opus_bits_per_second(int rate) {
  return rate <= 16000 ? 24000 : rate <= 24000 ? 32000 : 48000;
}

// libsndfile takes the bit rate as a place between the best and the least of the MPEG version.
double mp3_compression_level(int rate) {
  const Range kbps = rate >= 32000 ? Range{32, 320} : rate >= 16000 ? Range{8, 160} : Range{8, 64};
  return (kbps.high - mp3_kbps(rate)) / (kbps.high - kbps.low);
}

std::string encode_pcm(std::span<const float> samples) {
  std::string out;
  out.reserve(samples.size() * 2);
  for (const float sample : samples) {
    const auto value = static_cast<std::uint16_t>(to_s16(sample));
    out.push_back(static_cast<char>(value & 0xFFU));
    out.push_back(static_cast<char>(value >> 8U));
  }
  return out;
}

Result<std::string> encode_sndfile(int sf_format, std::span<const float> samples, int rate) {
  std::string out;
  MemoryFile file{{}, &out};
  SF_VIRTUAL_IO io = memory_io();
  SF_INFO info{};
  info.samplerate = rate;
  info.channels = 1;
  info.format = sf_format;
  SoundFile sound(sf_open_virtual(&io, SFM_WRITE, &info, &file));
  if (!sound) {
    return Error{sf_strerror(nullptr)};
  }
  if ((sf_format & SF_FORMAT_TYPEMASK) == SF_FORMAT_MPEG) {
    int mode = SF_BITRATE_MODE_CONSTANT;
    double level = mp3_compression_level(rate);
    // The first command answers false even when it takes effect.
    sf_command(sound.get(), SFC_SET_BITRATE_MODE, &mode, sizeof(mode));
    if (sf_command(sound.get(), SFC_GET_BITRATE_MODE, nullptr, 0) != SF_BITRATE_MODE_CONSTANT ||
        sf_command(sound.get(), SFC_SET_COMPRESSION_LEVEL, &level, sizeof(level)) != SF_TRUE) {
      return Error{"the mp3 encoder takes no constant bit rate"};
    }
  }
  // Without this a sample above full scale wraps around to the other end.
  sf_command(sound.get(), SFC_SET_CLIPPING, nullptr, SF_TRUE);
  for (std::size_t at = 0; at < samples.size(); at += kBlockSamples) {
    const auto block = samples.subspan(at, std::min(kBlockSamples, samples.size() - at));
    const auto count = static_cast<sf_count_t>(block.size());
    if (sf_writef_float(sound.get(), block.data(), count) != count) {
      return Error{sf_strerror(sound.get())};
    }
  }
  if (sf_close(sound.release()) != 0) {
    return Error{"the encoder failed to finish"};
  }
  return out;
}

Result<std::string> encode_opus(std::span<const float> samples, int rate) {
  std::string out;
  const OpusEncCallbacks callbacks{[](void* user, const unsigned char* data, opus_int32 size) {
                                     static_cast<std::string*>(user)->append(
                                         reinterpret_cast<const char*>(data),
                                         static_cast<std::size_t>(size));
                                     return 0;
                                   },
                                   [](void*) { return 0; }};
  const std::unique_ptr<OggOpusComments, Deleter<ope_comments_destroy>> comments(
      ope_comments_create());
  int error = OPE_OK;
  const OpusEncoder encoder(
      ope_encoder_create_callbacks(&callbacks, &out, comments.get(), rate, 1, 0, &error));
  if (!encoder) {
    return Error{ope_strerror(error)};
  }
  const std::array<std::array<int, 2>, 4> settings = {{
      {OPUS_SET_BITRATE_REQUEST, opus_bits_per_second(rate)},
      {OPUS_SET_COMPLEXITY_REQUEST, kOpusComplexity},
      {OPE_SET_SERIALNO_REQUEST, kOggSerial},
      {OPE_SET_COMMENT_PADDING_REQUEST, 0},
  }};
  for (const auto& [request, value] : settings) {
    error = ope_encoder_ctl(encoder.get(), request, value);
    if (error != OPE_OK) {
      return Error{ope_strerror(error)};
    }
  }
  for (std::size_t at = 0; at < samples.size() && error == OPE_OK; at += kBlockSamples) {
    const auto block = samples.subspan(at, std::min(kBlockSamples, samples.size() - at));
    error = ope_encoder_write_float(encoder.get(), block.data(), static_cast<int>(block.size()));
  }
  if (error == OPE_OK) {
    error = ope_encoder_drain(encoder.get());
  }
  if (error != OPE_OK) {
    return Error{ope_strerror(error)};
  }
  return out;
}

AudioType type_of(OutputFormat format) {
  switch (format) {
    case OutputFormat::kMp3:
      return AudioType::kMp3;
    case OutputFormat::kWav:
      return AudioType::kWav;
    case OutputFormat::kPcm:
      return AudioType::kPcmS16Le;
    case OutputFormat::kOggOpus:
      return AudioType::kOgg;
  }
  return AudioType::kPcmS16Le;
}

}  // namespace

Result<std::string> encode(OutputFormat format, std::span<const float> samples, int rate) {
  if (samples.empty()) {
    return Error{"nothing to encode"};  // The mp3 and opus encoders would "succeed".
  }
  if (!std::all_of(
          samples.begin(), samples.end(), [](float sample) { return std::isfinite(sample); })) {
    return Error{"not a sound"};  // The mp3 encoder would end the process.
  }
  switch (format) {
    case OutputFormat::kMp3:
      return encode_sndfile(SF_FORMAT_MPEG | SF_FORMAT_MPEG_LAYER_III, samples, rate);
    case OutputFormat::kWav:
      return encode_sndfile(SF_FORMAT_WAV | SF_FORMAT_PCM_16, samples, rate);
    case OutputFormat::kPcm:
      return encode_pcm(samples);
    case OutputFormat::kOggOpus:
      return encode_opus(samples, rate);
  }
  return Error{"unknown format"};
}

Result<std::uint64_t> decoded_samples(OutputFormat format,
                                      std::string_view bytes,
                                      int rate,
                                      double* true_peak) {
  if (format == OutputFormat::kPcm) {
    return std::uint64_t{bytes.size() / 2};
  }
  const bool listen = true_peak != nullptr && format != OutputFormat::kWav;
  std::uint64_t count = 0;
  std::optional<TruePeakMeter> meter;
  const auto decoded =
      unpack_foreign(bytes, type_of(format), [&](std::span<const float> samples, int its_rate) {
        count += samples.size();
        if (listen) {
          if (!meter) {
            meter.emplace(its_rate);
          }
          *true_peak = std::max(*true_peak, meter->add(samples).value_or(0));
        }
        return true;
      });
  if (!decoded) {
    return Error{describe(decoded.error())};
  }
  if (decoded->rate == rate) {
    return count;
  }
  if (format != OutputFormat::kOggOpus) {
    return Error{"the encoder changed the sample rate"};
  }
  // 32000 and 44100 Hz are not among Opus's own rates; the decoder answers at 48 kHz, where the
  // encoder rounded the length up (RFC 7845 section 4.4 counts in that rate).
  return count * static_cast<std::uint64_t>(rate) / static_cast<std::uint64_t>(decoded->rate);
}

}  // namespace audiogen
