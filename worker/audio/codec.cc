#include "worker/audio/codec.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>

#include <mpg123.h>
#include <opusenc.h>
#include <sndfile.h>

#include "worker/audio/wav.h"

namespace audiogen {
namespace {

constexpr std::size_t kBlockSamples = 8192;
constexpr int kRateMin = 8000, kRateMax = 96000;
constexpr int kOpusComplexity = 5;
// Ogg wants a number that differs between streams multiplexed together; ours stand alone, and a
// fixed one makes the file repeatable.
constexpr int kOggSerial = 1;

template <auto Function>
struct Deleter {
  template <class T>
  void operator()(T* handle) const {
    Function(handle);
  }
};
using SoundFile = std::unique_ptr<SNDFILE, Deleter<sf_close>>;
using Mpg123 = std::unique_ptr<mpg123_handle, Deleter<mpg123_delete>>;
using OpusEncoder = std::unique_ptr<OggOpusEnc, Deleter<ope_encoder_destroy>>;

// libsndfile's view of a file in memory: reads from `in`, or reads and writes `out`.
struct MemoryFile {
  std::string_view in;
  std::string* out = nullptr;
  std::size_t position = 0;

  std::string_view content() const { return out != nullptr ? std::string_view(*out) : in; }
};

MemoryFile& memory_file(void* user) {
  return *static_cast<MemoryFile*>(user);
}

SF_VIRTUAL_IO memory_io() {
  SF_VIRTUAL_IO io{};
  io.get_filelen = [](void* user) {
    return static_cast<sf_count_t>(memory_file(user).content().size());
  };
  io.seek = [](sf_count_t offset, int whence, void* user) {
    MemoryFile& file = memory_file(user);
    const auto size = static_cast<sf_count_t>(file.content().size());
    const auto base = whence == SEEK_CUR   ? static_cast<sf_count_t>(file.position)
                      : whence == SEEK_END ? size
                                           : 0;
    file.position = static_cast<std::size_t>(std::clamp<sf_count_t>(base + offset, 0, size));
    return static_cast<sf_count_t>(file.position);
  };
  io.read = [](void* data, sf_count_t count, void* user) {
    MemoryFile& file = memory_file(user);
    const std::string_view part =
        file.content().substr(file.position, static_cast<std::size_t>(count));
    std::memcpy(data, part.data(), part.size());
    file.position += part.size();
    return static_cast<sf_count_t>(part.size());
  };
  io.write = [](const void* data, sf_count_t count, void* user) {
    MemoryFile& file = memory_file(user);
    const auto size = static_cast<std::size_t>(count);
    if (file.position + size > file.out->size()) {
      file.out->resize(file.position + size);
    }
    std::memcpy(file.out->data() + file.position, data, size);
    file.position += size;
    return count;
  };
  io.tell = [](void* user) { return static_cast<sf_count_t>(memory_file(user).position); };
  return io;
}

std::int16_t to_s16(float sample) {
  return static_cast<std::int16_t>(std::lrintf(std::clamp(sample, -1.0F, 1.0F) * 32767.0F));
}

// Constant bit rates that carry speech and music without audible loss of band (audio 2.1).
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

// Takes the next mono samples and their rate; false ends the decoding.
using Sink = std::function<bool(std::span<const float>, int)>;

// Averages interleaved frames in place and returns the mono samples.
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

Result<int> check_shape(long rate, int channels) {
  if (rate < kRateMin || rate > kRateMax) {
    return Error{"sample rate out of range"};
  }
  if (channels < 1 || channels > 2) {
    return Error{"more than two channels"};
  }
  return static_cast<int>(rate);
}

float from_s16(char low, char high) {
  const auto bits = static_cast<std::uint16_t>(static_cast<unsigned char>(low) |
                                               static_cast<unsigned char>(high) << 8);
  return static_cast<float>(static_cast<std::int16_t>(bits)) / 32768.0F;
}

// The decoders below return the rate of the samples they gave to `sink`.

Result<int> decode_pcm(std::string_view bytes, int rate, int channels, const Sink& sink) {
  const Result<int> shape = check_shape(rate, channels);
  if (!shape) {
    return shape;
  }
  const auto width = static_cast<std::size_t>(channels);
  const std::size_t total = bytes.size() / 2 / width * width;
  std::vector<float> block;
  for (std::size_t at = 0; at < total;) {
    block.resize(std::min(kBlockSamples, total - at));
    for (std::size_t i = 0; i < block.size(); ++i) {
      const std::size_t byte = 2 * (at + i);
      block[i] = from_s16(bytes[byte], bytes[byte + 1]);
    }
    at += block.size();
    if (!sink(mix_to_mono(block, channels), rate)) {
      break;
    }
  }
  return rate;
}

Result<int> decode_wav(const WavFile& wav, const Sink& sink) {
  const Result<int> shape = check_shape(wav.rate, wav.channels);
  if (!shape) {
    return shape;
  }
  const std::size_t frames = wav_frame_count(wav);
  const auto width = static_cast<std::size_t>(wav.channels);
  std::vector<float> block;
  for (std::size_t at = 0; at < frames;) {
    const std::size_t count = std::min(kBlockSamples, frames - at);
    block.resize(count * width);
    for (std::size_t i = 0; i < block.size(); ++i) {
      block[i] = wav_sample(wav, at + i / width, static_cast<int>(i % width));
    }
    at += count;
    if (!sink(mix_to_mono(block, wav.channels), wav.rate)) {
      break;
    }
  }
  return shape;
}

// The logical streams of an Ogg file: pages that begin one (RFC 3533 section 6).
std::size_t count_ogg_streams(std::string_view bytes) {
  constexpr std::size_t kPageHeader = 27;
  constexpr unsigned kBegins = 2;
  std::size_t streams = 0;
  for (std::size_t at = 0; at + kPageHeader <= bytes.size() && bytes.substr(at, 4) == "OggS";) {
    streams += (static_cast<unsigned char>(bytes[at + 5]) & kBegins) != 0 ? 1U : 0U;
    const std::size_t segments = static_cast<unsigned char>(bytes[at + 26]);
    if (at + kPageHeader + segments > bytes.size()) {
      break;
    }
    std::size_t size = kPageHeader + segments;
    for (std::size_t i = 0; i < segments; ++i) {
      size += static_cast<unsigned char>(bytes[at + kPageHeader + i]);
    }
    at += size;
  }
  return streams;
}

// The input rate and channels that an Opus file's header names (RFC 7845 section 5.1); nullopt: not
// Opus.
struct OpusHead {
  int channels = 0;
  std::uint32_t rate = 0;
};
std::optional<OpusHead> read_opus_head(std::string_view bytes) {
  constexpr std::size_t kStart = 28, kChannels = kStart + 9, kRate = kStart + 12;
  if (bytes.size() < kRate + 4 || bytes.substr(kStart, 8) != "OpusHead") {
    return std::nullopt;
  }
  OpusHead out;
  out.channels = static_cast<unsigned char>(bytes[kChannels]);
  for (std::size_t i = 4; i > 0; --i) {
    out.rate = out.rate << 8U | static_cast<unsigned char>(bytes[kRate + i - 1]);
  }
  return out;
}

Result<int> decode_sndfile(std::string_view bytes, const Sink& sink) {
  MemoryFile file{bytes};
  SF_VIRTUAL_IO io = memory_io();
  SF_INFO info{};
  const SoundFile sound(sf_open_virtual(&io, SFM_READ, &info, &file));
  if (!sound) {
    return Error{sf_strerror(nullptr)};
  }
  Result<int> shape = check_shape(info.samplerate, info.channels);
  if (!shape) {
    return shape;
  }
  std::vector<float> block(kBlockSamples * static_cast<std::size_t>(info.channels));
  for (;;) {
    const sf_count_t frames = sf_readf_float(sound.get(), block.data(), kBlockSamples);
    if (frames <= 0) {
      break;
    }
    const auto values = static_cast<std::size_t>(frames * info.channels);
    if (!sink(mix_to_mono(std::span(block).first(values), info.channels), *shape)) {
      break;
    }
  }
  if (sf_error(sound.get()) != SF_ERR_NO_ERROR) {
    return Error{sf_strerror(sound.get())};
  }
  return shape;
}

Result<int> decode_mp3(std::string_view bytes, const Sink& sink) {
  const Mpg123 decoder(mpg123_new(nullptr, nullptr));
  if (!decoder) {
    return Error{"no mp3 decoder"};
  }
  mpg123_param(decoder.get(),
               MPG123_ADD_FLAGS,
               MPG123_QUIET | MPG123_GAPLESS | MPG123_FORCE_FLOAT | MPG123_MONO_MIX,
               0);
  if (mpg123_open_feed(decoder.get()) != MPG123_OK ||
      mpg123_feed(decoder.get(),
                  reinterpret_cast<const unsigned char*>(bytes.data()),
                  bytes.size()) != MPG123_OK) {
    return Error{mpg123_strerror(decoder.get())};
  }
  std::vector<float> block(kBlockSamples);
  long rate = 0;
  for (;;) {
    std::size_t size = 0;
    const int state = mpg123_read(decoder.get(), block.data(), block.size() * sizeof(float), &size);
    if (state == MPG123_NEW_FORMAT) {
      int channels = 0, encoding = 0;
      const long before = rate;
      mpg123_getformat(decoder.get(), &rate, &channels, &encoding);
      const Result<int> shape = check_shape(rate, channels);
      if (!shape) {
        return shape;
      }
      if (before != 0 && before != rate) {
        return Error{"the sample rate changes midway"};
      }
      continue;
    }
    if (size > 0 && !sink(std::span(block).first(size / sizeof(float)), static_cast<int>(rate))) {
      break;
    }
    if (state == MPG123_NEED_MORE || state == MPG123_DONE) {
      break;
    }
    if (state != MPG123_OK) {
      return Error{mpg123_strerror(decoder.get())};
    }
  }
  if (rate == 0) {
    return Error{"no mp3 frame"};
  }
  return static_cast<int>(rate);
}

Result<int> decode_to(
    std::string_view bytes, AudioType type, int rate, int channels, const Sink& sink) {
  switch (type) {
    case AudioType::kPcmS16Le:
      return decode_pcm(bytes, rate, channels, sink);
    case AudioType::kMp3:
      return decode_mp3(bytes, sink);
    case AudioType::kWav: {
      const auto wav = read_wav(bytes);
      return wav ? decode_wav(*wav, sink) : decode_sndfile(bytes, sink);
    }
    case AudioType::kOgg:
      if (count_ogg_streams(bytes) != 1) {
        return Error{"several streams in one file"};  // all but the first would be lost
      }
      return decode_sndfile(bytes, sink);
    case AudioType::kFlac:
      return decode_sndfile(bytes, sink);
  }
  return Error{"unknown type"};
}

// By the header of the first frame, after an ID3v2 tag if there is one; false where junk comes
// first.
bool is_mono_mp3(std::string_view bytes) {
  constexpr std::size_t kTagHeader = 10;
  constexpr unsigned kMono = 3;
  if (bytes.size() >= kTagHeader && bytes.starts_with("ID3")) {
    std::size_t size = kTagHeader;  // Seven bits of each byte (ID3v2.4 section 6.2).
    for (std::size_t i = 6; i < kTagHeader; ++i) {
      size += (static_cast<unsigned char>(bytes[i]) & 0x7FULL) << (7 * (kTagHeader - 1 - i));
    }
    bytes.remove_prefix(std::min(size, bytes.size()));
  }
  return bytes.size() >= 4 && static_cast<unsigned char>(bytes[0]) == 0xFF &&
         static_cast<unsigned char>(bytes[3]) >> 6U == kMono;
}

// The source's channels, and Decoded::exact as far as the container tells.
void describe(const Audio& audio, Decoded& out) {
  switch (audio.type) {
    case AudioType::kPcmS16Le:
      out.channels = audio.channels;
      out.exact = audio.bytes.size() % (2 * static_cast<std::size_t>(audio.channels)) == 0;
      break;
    case AudioType::kWav:
      if (const auto wav = read_wav(audio.bytes)) {
        out.channels = wav->channels;
        out.exact = wav->honest && wav->sample == WavFile::Sample::kInt16;
      }
      break;
    case AudioType::kMp3:
      // Channels by the header of the first frame, where the file starts with one.
      out.channels = is_mono_mp3(audio.bytes) ? 1 : 2;
      out.exact = true;
      break;
    case AudioType::kOgg:
      if (const auto opus = read_opus_head(audio.bytes)) {
        out.channels = opus->channels;
        out.exact = opus->rate == static_cast<std::uint32_t>(out.pcm.rate);
      }
      break;
    case AudioType::kFlac:
      break;
  }
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

bool is_plain(const Audio& audio) {
  return audio.type == AudioType::kPcmS16Le ||
         (audio.type == AudioType::kWav && read_wav(audio.bytes));
}

Result<Decoded> decode(const Audio& audio, double seconds_max) {
  if (audio.bytes.size() > kForeignMax) {
    return Error{"too large"};
  }
  Decoded out;
  std::vector<float>& kept = out.pcm.samples;
  bool finite = true;
  const auto take = [&](std::span<const float> samples, int rate) {
    const double room = seconds_max * rate - static_cast<double>(kept.size());
    const bool last = static_cast<double>(samples.size()) >= room;
    if (last) {
      samples = samples.first(static_cast<std::size_t>(room));
    }
    finite = std::all_of(
        samples.begin(), samples.end(), [](float sample) { return std::isfinite(sample); });
    kept.insert(kept.end(), samples.begin(), samples.end());
    return finite && !last;
  };
  const Result<int> decoded = decode_to(audio.bytes, audio.type, audio.rate, audio.channels, take);
  if (!decoded) {
    return decoded.error();
  }
  if (!finite) {
    return Error{"a sample is not a number"};
  }
  if (kept.empty()) {
    return Error{"no samples"};
  }
  out.pcm.rate = *decoded;
  describe(audio, out);
  return out;
}

Result<std::uint64_t> decoded_samples(OutputFormat format, std::string_view bytes, int rate) {
  std::uint64_t count = 0;
  const Result<int> decoded =
      decode_to(bytes, type_of(format), rate, 1, [&](std::span<const float> samples, int) {
        count += samples.size();
        return true;
      });
  if (!decoded) {
    return decoded.error();
  }
  if (*decoded == rate) {
    return count;
  }
  if (format != OutputFormat::kOggOpus) {
    return Error{"the encoder changed the sample rate"};
  }
  // 32000 and 44100 Hz are not among Opus's own rates; the decoder answers at 48 kHz, where the
  // encoder rounded the length up (RFC 7845 section 4.4 counts in that rate).
  return count * static_cast<std::uint64_t>(rate) / static_cast<std::uint64_t>(*decoded);
}

}  // namespace audiogen
