#include "worker/audio/foreign.h"

#include <algorithm>
#include <memory>
#include <string>

#include <mpg123.h>
#include <sndfile.h>

#include "worker/audio/block.h"
#include "worker/audio/memory_file.h"
#include "worker/audio/mp3_frames.h"
#include "worker/audio/ogg_pages.h"
#include "worker/audio/plain.h"

namespace audiogen {
namespace {

using Mpg123 = std::unique_ptr<mpg123_handle, Deleter<mpg123_delete>>;

// A file and how many samples were given to the sink.
struct Counted {
  Unpacked file;
  int channels = 0;
  std::uint64_t samples = 0;
  bool whole = true;          // not ended by the sink
  std::int64_t promised = 0;  // samples, by the header
};

Result<Counted, DecodeFault> decode_sndfile(std::string_view bytes, const Sink& sink) {
  MemoryFile file{bytes};
  SF_VIRTUAL_IO io = memory_io();
  SF_INFO info{};
  const SoundFile sound(sf_open_virtual(&io, SFM_READ, &info, &file));
  if (!sound) {
    return DecodeFault::kCorrupt;
  }
  if (const auto fault = check_shape(info.samplerate, info.channels)) {
    return *fault;
  }
  Counted out{{info.samplerate, {}}, info.channels};
  out.promised = info.frames;
  std::vector<float> block(kBlockSamples * static_cast<std::size_t>(info.channels));
  for (;;) {
    const sf_count_t frames = sf_readf_float(sound.get(), block.data(), kBlockSamples);
    if (frames <= 0) {
      break;
    }
    out.samples += static_cast<std::uint64_t>(frames);
    const auto values = static_cast<std::size_t>(frames * info.channels);
    if (!sink(mix_to_mono(std::span(block).first(values), info.channels), info.samplerate)) {
      out.whole = false;
      break;
    }
  }
  if (sf_error(sound.get()) != SF_ERR_NO_ERROR) {
    return DecodeFault::kCorrupt;
  }
  return out;
}

Result<Counted, DecodeFault> decode_mp3(std::string_view bytes, const Sink& sink) {
  const Mpg123 decoder(mpg123_new(nullptr, nullptr));
  if (!decoder) {
    return DecodeFault::kCorrupt;
  }
  mpg123_param(
      decoder.get(), MPG123_ADD_FLAGS, MPG123_QUIET | MPG123_GAPLESS | MPG123_FORCE_FLOAT, 0);
  if (mpg123_open_feed(decoder.get()) != MPG123_OK ||
      mpg123_feed(decoder.get(),
                  reinterpret_cast<const unsigned char*>(bytes.data()),
                  bytes.size()) != MPG123_OK) {
    return DecodeFault::kCorrupt;
  }
  Counted out;
  std::vector<float> block(kBlockSamples);
  for (;;) {
    std::size_t size = 0;
    const int state = mpg123_read(decoder.get(), block.data(), block.size() * sizeof(float), &size);
    if (state == MPG123_NEW_FORMAT) {
      long rate = 0;
      int channels = 0, encoding = 0;
      mpg123_getformat(decoder.get(), &rate, &channels, &encoding);
      if (const auto fault = check_shape(rate, channels)) {
        return *fault;
      }
      if (out.file.rate != 0 && (out.file.rate != rate || out.channels != channels)) {
        return DecodeFault::kChained;
      }
      out.file.rate = static_cast<int>(rate);
      out.channels = channels;
      continue;
    }
    if (size > 0) {
      const auto samples = mix_to_mono(std::span(block).first(size / sizeof(float)), out.channels);
      out.samples += samples.size();
      if (!sink(samples, out.file.rate)) {
        out.whole = false;
        break;
      }
    }
    if (state == MPG123_NEED_MORE || state == MPG123_DONE) {
      break;
    }
    if (state != MPG123_OK) {
      return DecodeFault::kCorrupt;
    }
  }
  if (out.file.rate == 0) {
    return DecodeFault::kNotThisType;
  }
  return out;
}

bool has_mp3_sound(std::string_view bytes) {
  bytes = without_id3v2(bytes);
  // ADTS AAC and MP4 hold patterns that an MP3 decoder takes for frames of its own.
  const bool adts = bytes.size() >= 2 && bytes[0] == '\xFF' && (bytes[1] & 0xF6) == 0xF0;
  return !adts && !bytes.substr(std::min<std::size_t>(bytes.size(), 4)).starts_with("ftyp");
}

Result<Unpacked, DecodeFault> unpack_mp3(std::string_view bytes, const Sink& sink) {
  if (!has_mp3_sound(bytes)) {
    return DecodeFault::kNotThisType;
  }
  Result<Counted, DecodeFault> decoded = decode_mp3(bytes, sink);
  if (!decoded) {
    return decoded.error();
  }
  if (decoded->whole && count_mp3_samples(bytes) == decoded->samples) {
    decoded->file.exact = ExactFile{OutputFormat::kMp3, decoded->file.rate, decoded->channels, 0};
  }
  return decoded->file;
}

Result<Unpacked, DecodeFault> unpack_ogg(std::string_view bytes, const Sink& sink) {
  const std::optional<OggSurvey> survey = survey_ogg(bytes);
  if (!survey || survey->codec == OggSurvey::Codec::kOther) {
    return DecodeFault::kNotThisType;
  }
  if (survey->chained) {
    return DecodeFault::kChained;
  }
  Result<Counted, DecodeFault> decoded = decode_sndfile(bytes, sink);
  if (!decoded) {
    return decoded.error();
  }
  const auto at_48k = [&](std::uint64_t samples) {
    return static_cast<std::int64_t>(samples * 48000U /
                                     static_cast<std::uint64_t>(decoded->file.rate));
  };
  // At a lower rate the decoder drops what is less than one of its samples.
  if (decoded->whole && survey->codec == OggSurvey::Codec::kOpus && survey->whole &&
      at_48k(decoded->samples) <= survey->samples &&
      at_48k(decoded->samples + 1) > survey->samples) {
    decoded->file.exact =
        ExactFile{OutputFormat::kOggOpus, survey->opus_rate, decoded->channels, 0};
  }
  return decoded->file;
}

// libsndfile believes a data size of 0 and doubts one that is too large: gives it the true one.
Result<Unpacked, DecodeFault> unpack_wav(std::string_view bytes, const Sink& sink) {
  const std::optional<WavView> view = view_wav(bytes);
  if (!view) {
    return DecodeFault::kCorrupt;
  }
  if (view->channels > 2) {
    return DecodeFault::kChannels;
  }
  // libsndfile 1.2.0 never comes back from opening an ADPCM file without one whole block.
  if (view->data_size < view->block) {
    return DecodeFault::kEmpty;
  }
  std::string repaired(bytes);
  const auto put = [&](std::size_t at, std::size_t size) {
    for (std::size_t i = 0; i < 4; ++i) {
      repaired[at + i] = static_cast<char>(size >> 8 * i & 0xFFU);
    }
  };
  put(4, bytes.size() - 8);
  put(view->data_at - 4, view->data_size);
  const Result<Counted, DecodeFault> decoded = decode_sndfile(repaired, sink);
  return decoded ? Result<Unpacked, DecodeFault>(decoded->file) : decoded.error();
}

Result<Unpacked, DecodeFault> unpack_flac(std::string_view bytes, const Sink& sink) {
  bytes = without_id3v2(bytes);
  if (!bytes.starts_with("fLaC")) {
    return DecodeFault::kNotThisType;
  }
  const Result<Counted, DecodeFault> decoded = decode_sndfile(bytes, sink);
  if (!decoded) {
    return decoded.error();
  }
  // libsndfile takes a file that was cut off for one that ends. A stream's length is unknown.
  if (decoded->whole && decoded->promised != SF_COUNT_MAX &&
      decoded->promised != static_cast<sf_count_t>(decoded->samples)) {
    return DecodeFault::kCorrupt;
  }
  return decoded->file;
}

}  // namespace

Result<Unpacked, DecodeFault> unpack_foreign(std::string_view bytes,
                                             AudioType type,
                                             const Sink& sink) {
  switch (type) {
    case AudioType::kMp3:
      return unpack_mp3(bytes, sink);
    case AudioType::kOgg:
      return unpack_ogg(bytes, sink);
    case AudioType::kWav:
      return unpack_wav(bytes, sink);
    case AudioType::kFlac:
      return unpack_flac(bytes, sink);
    case AudioType::kPcmS16Le:
      break;  // needs no parser
  }
  return DecodeFault::kNotThisType;
}

}  // namespace audiogen
