// Both decoders on what providers and clients really send (worker/audio/README.md, "What arrives"),
// and the sandboxed one on what no decoder survives.
#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <csignal>
#include <limits>
#include <memory>
#include <ostream>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/ffmpeg.h"
#include "tests/support/places.h"
#include "tests/support/wait.h"
#include "worker/audio/codec.h"
#include "worker/audio/in_process_decoder.h"
#include "worker/audio/memory_file.h"
#include "worker/decode/sandboxed_decoder.h"

namespace audiogen {
namespace {

using test::picture_file;
using test::tone_file;
using test::tone_stream;

constexpr double kSeconds = 3.1;
const std::string kWav = "-c:a pcm_s16le -bitexact -f wav";
const std::string kMp3 = "-c:a libmp3lame -b:a 64k -f mp3";
const std::string kOpus = "-c:a libopus -ar 24000 -f ogg";
const std::string kFlac = "-c:a flac -f flac";

std::string little32(std::uint32_t value) {
  std::string out;
  for (int i = 0; i < 4; ++i) {
    out += static_cast<char>(value >> (8 * i) & 0xFFU);
  }
  return out;
}

std::string with(std::string bytes, std::size_t at, const std::string& patch) {
  EXPECT_LE(at + patch.size(), bytes.size());
  return bytes.replace(at, patch.size(), patch);
}

// A WAV of `tone_file` with another data size.
std::string with_data_size(std::string wav, std::uint32_t size) {
  const std::size_t at = wav.find("data");
  return with(std::move(wav), at + 4, little32(size));
}

std::string wav_of(std::uint32_t encoding,
                   std::uint32_t channels,
                   std::uint32_t bits,
                   const std::string& data,
                   std::uint32_t rate = 24000) {
  const std::uint32_t block = channels * bits / 8;
  return "RIFF" + little32(static_cast<std::uint32_t>(36 + data.size())) + "WAVEfmt " +
         little32(16) + little32(encoding | channels << 16U) + little32(rate) +
         little32(rate * block) + little32(block | bits << 16U) + "data" +
         little32(static_cast<std::uint32_t>(data.size())) + data;
}

std::string float_wav(float value) {
  std::string data;
  for (int i = 0; i < 24000; ++i) {
    data += little32(std::bit_cast<std::uint32_t>(i == 20000 ? value : 0.25F));
  }
  return wav_of(3, 1, 32, data);
}

std::string noise(std::size_t size) {
  std::mt19937 random(7);
  std::string out(size, '\0');
  std::generate(out.begin(), out.end(), [&] { return static_cast<char>(random()); });
  return out;
}

std::unique_ptr<Decoder> make_decoder(const std::string& kind) {
  if (kind == "sandboxed") {
    return std::make_unique<SandboxedDecoder>();
  }
  return std::make_unique<InProcessDecoder>();
}

Result<Decoded, DecodeFault> decode_as(Decoder& decoder, std::string bytes, AudioType type) {
  Audio audio;
  audio.bytes = std::move(bytes);
  audio.type = type;
  return decoder.decode(audio);
}

class EveryDecoder : public testing::TestWithParam<std::string> {
 protected:
  void expect_seconds(const std::string& bytes, AudioType type, double seconds) {
    const auto decoded = decode_as(*decoder_, bytes, type);
    ASSERT_TRUE(decoded) << describe(decoded.error());
    EXPECT_NEAR(
        static_cast<double>(decoded->pcm.samples.size()) / decoded->pcm.rate, seconds, 0.0001);
    float peak = 0;
    for (const float sample : decoded->pcm.samples) {
      peak = std::max(peak, std::abs(sample));
    }
    EXPECT_NEAR(peak, 0.11, 0.03);  // ffmpeg's tone; a little less of stereo
  }
  void expect_fault(const std::string& bytes, AudioType type, DecodeFault fault) {
    const auto decoded = decode_as(*decoder_, bytes, type);
    ASSERT_FALSE(decoded);
    EXPECT_EQ(describe(decoded.error()), std::string(describe(fault)));
  }
  std::optional<ExactFile> exact(const std::string& bytes, AudioType type) {
    const auto decoded = decode_as(*decoder_, bytes, type);
    EXPECT_TRUE(decoded) << describe(decoded.error());
    return decoded ? decoded->exact : std::nullopt;
  }

  std::unique_ptr<Decoder> decoder_ = make_decoder(GetParam());
};

INSTANTIATE_TEST_SUITE_P(All,
                         EveryDecoder,
                         testing::Values("in_process", "sandboxed"),
                         [](const auto& made) { return made.param; });

TEST_P(EveryDecoder, Mp3) {
  const std::string tagged = tone_file(kSeconds, kMp3);
  const std::string untagged = tone_file(kSeconds, kMp3 + " -write_xing 0 -id3v2_version 0");
  const auto type = AudioType::kMp3;
  expect_seconds(tagged, type, 3.1);
  expect_seconds(
      tone_file(kSeconds, "-metadata comment=" + std::string(3000, 'x') + " " + kMp3), type, 3.1);
  expect_seconds(tone_file(kSeconds, "-ac 2 " + kMp3), type, 3.1);
  expect_seconds(tone_file(kSeconds, "-ar 22050 " + kMp3), type, 3.1);
  expect_seconds(untagged, type, 3.168);
  expect_seconds(noise(333) + untagged, type, 3.168);
  expect_fault(tagged.substr(0, 40), type, DecodeFault::kNotThisType);
}

TEST_P(EveryDecoder, ConcatenatedAndCutMp3IsDecodedButNotExact) {
  const auto type = AudioType::kMp3;
  const std::string one = tone_file(kSeconds, kMp3);
  const auto both = decode_as(*decoder_, one + one, type);
  ASSERT_TRUE(both);
  EXPECT_GT(both->pcm.samples.size(), 6.2 * 24000);
  EXPECT_FALSE(both->exact);
  const auto half = decode_as(*decoder_, one.substr(0, one.size() / 2), type);
  ASSERT_TRUE(half);
  EXPECT_NEAR(static_cast<double>(half->pcm.samples.size()), 1.5 * 24000, 0.1 * 24000);
  EXPECT_FALSE(half->exact);
}

TEST_P(EveryDecoder, WavWhateverItsHeaderSays) {
  const auto type = AudioType::kWav;
  const std::string wav = tone_file(kSeconds, kWav);
  for (const std::uint32_t size : {0U, 0x7FFFFFFFU, 0x80000000U, 0xFFFFFFFFU, 24000U * 2 * 600}) {
    expect_seconds(with_data_size(wav, size), type, 3.1);
    EXPECT_FALSE(exact(with_data_size(wav, size), type)) << size;
  }
  expect_seconds(tone_stream(kSeconds, kWav), type, 3.1);
  expect_seconds(wav.substr(0, 44 + (wav.size() - 44) / 2), type, 1.55);
  expect_seconds(wav + "x", type, 3.1);
  expect_seconds(with_data_size(wav, 0) + "x", type, 3.1);
  expect_seconds(tone_file(kSeconds, "-metadata title=x -c:a pcm_s16le -f wav"), type, 3.1);
  const std::string list = "LIST" + little32(5) + "abcde" + std::string(1, '\0');
  expect_seconds(wav.substr(0, 12) + list + wav.substr(12), type, 3.1);
  expect_seconds(tone_file(kSeconds, "-ac 2 " + kWav), type, 3.1);
}

TEST_P(EveryDecoder, WavOfEveryKind) {
  for (const char* codec :
       {"pcm_f32le", "pcm_s24le", "pcm_s32le", "pcm_mulaw", "pcm_alaw", "pcm_u8", "pcm_f64le"}) {
    SCOPED_TRACE(codec);
    const std::string wav = tone_file(kSeconds, "-c:a " + std::string(codec) + " -f wav");
    expect_seconds(wav, AudioType::kWav, 3.1);
    expect_seconds(with_data_size(wav, 0), AudioType::kWav, 3.1);
    EXPECT_FALSE(exact(wav, AudioType::kWav));
  }
  expect_seconds(tone_file(kSeconds, "-c:a adpcm_ima_wav -f wav"), AudioType::kWav, 3.1465);
}

TEST_P(EveryDecoder, FlacAndOgg) {
  expect_seconds(tone_file(kSeconds, kFlac), AudioType::kFlac, 3.1);
  expect_seconds(tone_stream(kSeconds, kFlac), AudioType::kFlac, 3.1);
  const std::string opus = tone_file(kSeconds, kOpus);
  expect_seconds(opus, AudioType::kOgg, 3.1);
  expect_seconds(tone_file(kSeconds, "-c:a libvorbis -f ogg"), AudioType::kOgg, 3.1);
  expect_fault(tone_file(kSeconds, "-c:a flac -f ogg"), AudioType::kOgg, DecodeFault::kNotThisType);
  expect_fault(opus + opus, AudioType::kOgg, DecodeFault::kChained);
  expect_fault(opus + "gap" + opus, AudioType::kOgg, DecodeFault::kChained);
  const std::string flac = tone_file(kSeconds, kFlac);
  expect_fault(flac.substr(0, flac.size() / 2), AudioType::kFlac, DecodeFault::kCorrupt);
}

TEST_P(EveryDecoder, RefusesWhatItNeverTakes) {
  const std::string json = "{\"error\": {\"message\": \"quota exceeded\"}}";
  const std::string html = "<!DOCTYPE html><html><body>502</body></html>";
  const std::vector<std::string> others = {"",
                                           json,
                                           html,
                                           noise(100'000),
                                           tone_stream(kSeconds, "-c:a aac -f adts"),
                                           tone_file(kSeconds, "-c:a aac -f mp4"),
                                           tone_file(kSeconds, "-c:a pcm_s16le -f s16le")};
  for (std::size_t i = 0; i < others.size(); ++i) {
    for (const AudioType type :
         {AudioType::kWav, AudioType::kMp3, AudioType::kFlac, AudioType::kOgg}) {
      EXPECT_FALSE(decode_as(*decoder_, others[i], type)) << i << " " << static_cast<int>(type);
    }
  }
}

TEST_P(EveryDecoder, RefusesShapesItNeverTakes) {
  const auto type = AudioType::kWav;
  const std::string data(48000, '\1');
  expect_fault(wav_of(1, 3, 16, data), type, DecodeFault::kChannels);
  expect_fault(wav_of(1, 234, 16, data), type, DecodeFault::kChannels);
  expect_fault(wav_of(7, 3, 8, data), type, DecodeFault::kChannels);
  expect_fault(wav_of(1, 1, 16, data, 7999), type, DecodeFault::kRate);
  expect_fault(wav_of(1, 1, 16, data, 96001), type, DecodeFault::kRate);
  expect_fault(wav_of(1, 1, 16, data, 0xFFFFFFFF), type, DecodeFault::kCorrupt);
  expect_fault(wav_of(1, 1, 16, ""), type, DecodeFault::kEmpty);
  expect_fault(float_wav(std::numeric_limits<float>::quiet_NaN()), type, DecodeFault::kNotFinite);
  expect_fault(float_wav(std::numeric_limits<float>::infinity()), type, DecodeFault::kNotFinite);
  expect_fault(float_wav(1e30F), type, DecodeFault::kNotFinite);
  expect_fault(tone_file(kSeconds, "-ac 6 " + kFlac), AudioType::kFlac, DecodeFault::kChannels);
  expect_fault(tone_file(kSeconds, "-ar 192000 " + kFlac), AudioType::kFlac, DecodeFault::kRate);
  expect_fault(std::string(kMediaBytesMax + 1, '\0'), type, DecodeFault::kTooManyBytes);
}

TEST_P(EveryDecoder, StopsWhereToldAndElseAtTenMinutes) {
  for (const auto& [bytes, type] :
       {std::pair(tone_file(601, "-ar 8000 " + kMp3), AudioType::kMp3),
        std::pair(tone_file(601, "-ar 8000 " + kWav), AudioType::kWav)}) {
    expect_fault(bytes, type, DecodeFault::kTooLong);
    Audio audio;
    audio.bytes = bytes;
    audio.type = type;
    const auto cut = decoder_->decode(audio, 1.5);
    ASSERT_TRUE(cut);
    EXPECT_EQ(cut->pcm.samples.size(), 12000U);
    EXPECT_FALSE(cut->exact);
  }
}

// What may pass through untouched must be what it says.
TEST_P(EveryDecoder, KnowsAnExactFile) {
  std::vector<float> sound(60001);
  for (std::size_t i = 0; i < sound.size(); ++i) {
    sound[i] = 0.3F * static_cast<float>(std::sin(static_cast<double>(i) * 0.1));
  }
  for (const OutputFormat format :
       {OutputFormat::kMp3, OutputFormat::kWav, OutputFormat::kPcm, OutputFormat::kOggOpus}) {
    for (const int rate : kSampleRates) {
      SCOPED_TRACE(std::string(format_name(format)) + " " + std::to_string(rate));
      Audio audio;
      audio.bytes = *encode(format, sound, rate);
      audio.rate = rate;
      audio.type = format == OutputFormat::kMp3   ? AudioType::kMp3
                   : format == OutputFormat::kWav ? AudioType::kWav
                   : format == OutputFormat::kPcm ? AudioType::kPcmS16Le
                                                  : AudioType::kOgg;
      const auto decoded = decoder_->decode(audio);
      ASSERT_TRUE(decoded);
      ASSERT_TRUE(decoded->exact);
      EXPECT_EQ(decoded->exact->format, format);
      EXPECT_EQ(decoded->exact->rate, rate);
      EXPECT_EQ(decoded->exact->channels, 1);
      EXPECT_EQ(decoded->exact->samples, sound.size());
      audio.bytes += "x";
      const auto longer = decoder_->decode(audio);
      EXPECT_TRUE(!longer || !longer->exact);
    }
  }
}

TEST_P(EveryDecoder, ForeignFilesAreExactWhenTheyAreTrue) {
  const auto samples = [&](const std::string& bytes, AudioType type) {
    const auto file = exact(bytes, type);
    return file ? static_cast<long>(file->samples) : -1;
  };
  const std::string mp3 = tone_file(kSeconds, kMp3);
  EXPECT_EQ(samples(mp3, AudioType::kMp3), 74400);
  EXPECT_EQ(samples(mp3 + "TAG" + std::string(125, ' '), AudioType::kMp3), 74400);
  EXPECT_EQ(samples(tone_file(kSeconds, kMp3 + " -write_xing 0"), AudioType::kMp3), 76032);
  const std::string opus = tone_file(kSeconds, kOpus);
  EXPECT_EQ(samples(opus, AudioType::kOgg), 74400);
  // Louder or softer by the header: players differ. (The gain is in the head, the page's checksum
  // does not matter here.)
  const std::size_t head = opus.find("OpusHead");
  const auto gained = decode_as(*decoder_, with(opus, head + 16, "\1"), AudioType::kOgg);
  EXPECT_TRUE(!gained || !gained->exact);
  EXPECT_EQ(samples(tone_file(kSeconds, "-c:a libvorbis -f ogg"), AudioType::kOgg), -1);
  EXPECT_EQ(samples(tone_file(kSeconds, kWav), AudioType::kWav), 74400);
  // A frame count that is not true: the Xing tag's flags come before it.
  const std::size_t tag = std::min(mp3.find("Info"), mp3.find("Xing"));
  ASSERT_NE(tag, std::string::npos);
  const auto lying = decode_as(*decoder_, with(mp3, tag + 11, "\x20"), AudioType::kMp3);
  EXPECT_TRUE(!lying || !lying->exact);
}

TEST_P(EveryDecoder, Pictures) {
  const auto inspect = [&](const std::string& bytes) { return decoder_->inspect_image(bytes); };
  const auto expect_size = [&](const std::string& bytes, ImageType type, int width, int height) {
    const auto image = inspect(bytes);
    ASSERT_TRUE(image) << describe(image.error());
    EXPECT_EQ(image->type, type);
    EXPECT_EQ(image->width, width);
    EXPECT_EQ(image->height, height);
  };
  const std::string png = picture_file("320x240", "-c:v png -f image2");
  const std::string jpeg = picture_file("321x123", "-c:v mjpeg -pix_fmt yuvj420p -f image2");
  const std::string webp = picture_file("300x200", "-c:v libwebp -f image2");
  expect_size(png, ImageType::kPng, 320, 240);
  expect_size(jpeg, ImageType::kJpeg, 321, 123);
  expect_size(webp, ImageType::kWebp, 300, 200);
  expect_size(
      picture_file("300x200", "-c:v libwebp -lossless 1 -f image2"), ImageType::kWebp, 300, 200);
  expect_size(
      picture_file("64x64", "-pix_fmt rgba64be -c:v png -f image2"), ImageType::kPng, 64, 64);
  expect_size(picture_file("8192x16", "-c:v png -f image2"), ImageType::kPng, 8192, 16);
  for (const std::string& picture : {png, jpeg, webp}) {
    const auto half = inspect(picture.substr(0, picture.size() / 2));
    ASSERT_FALSE(half);
    EXPECT_EQ(half.error(), DecodeFault::kCorrupt);
  }
  for (const std::string& big : {picture_file("8193x16", "-c:v png -f image2"),
                                 picture_file("16x8193", "-c:v mjpeg -pix_fmt yuvj420p -f image2"),
                                 picture_file("8193x16", "-c:v libwebp -f image2")}) {
    const auto image = inspect(big);
    ASSERT_FALSE(image);
    EXPECT_EQ(image.error(), DecodeFault::kImageTooLarge);
  }
  // 8191 x 8191 by the header alone: refused before anything is decoded.
  const std::size_t frame = jpeg.find("\xFF\xC0");
  const auto bomb = inspect(with(jpeg, frame + 5, "\x1F\xFF\x1F\xFF"));
  ASSERT_FALSE(bomb);
  EXPECT_EQ(bomb.error(), DecodeFault::kImageTooLarge);
  for (const std::string& other :
       {std::string(), std::string("GIF89a"), noise(1000), tone_file(1, kWav)}) {
    const auto image = inspect(other);
    ASSERT_FALSE(image);
    EXPECT_EQ(image.error(), DecodeFault::kNotThisType);
  }
}

TEST(Decoders, AgreeOnEverySample) {
  InProcessDecoder here;
  SandboxedDecoder there;
  for (const auto& [options, type] : {std::pair(kMp3, AudioType::kMp3),
                                      std::pair(kFlac, AudioType::kFlac),
                                      std::pair(kOpus, AudioType::kOgg)}) {
    const std::string bytes = tone_file(10, options);
    const auto one = decode_as(here, bytes, type), two = decode_as(there, bytes, type);
    ASSERT_TRUE(one && two);
    EXPECT_EQ(one->pcm.samples, two->pcm.samples);
  }
}

class Sandboxed : public testing::Test {
 protected:
  std::optional<DecodeFault> fault_of(Decoder& decoder, const std::string& bytes) {
    const auto decoded = decode_as(decoder, bytes, AudioType::kFlac);
    return decoded ? std::nullopt : std::optional(decoded.error());
  }

  const std::string good_ = tone_file(1, kFlac);
};

TEST_F(Sandboxed, StartsWithTheFirstFileThatNeedsIt) {
  SandboxedDecoder decoder;
  ASSERT_TRUE(decode_as(decoder, tone_file(1, kWav), AudioType::kWav));
  EXPECT_FALSE(decoder.process());
  ASSERT_TRUE(decode_as(decoder, good_, AudioType::kFlac));
  EXPECT_TRUE(decoder.process());
}

TEST_F(Sandboxed, AMisbehavingChildDisturbsNobody) {
#ifndef AUDIOGEN_CRASH_POINTS
  GTEST_SKIP() << "built without crash points";
#endif
  SandboxedDecoder decoder(SandboxedDecoder::default_path(),
                           {.memory_mib = 256, .cpu_seconds = 2, .wall_seconds = 60});
  ASSERT_FALSE(fault_of(decoder, good_));
  const auto process = decoder.process();
  std::vector<std::thread> threads;
  for (const char* what : {"crash", "eat", "open", "socket", "hang"}) {
    threads.emplace_back([&, what] {
      const auto fault = fault_of(decoder, "fLaC!" + std::string(what));
      ASSERT_TRUE(fault) << what;
      // Who is denied a file goes on, and is refused for its bytes.
      EXPECT_EQ(*fault, what == std::string("open") ? DecodeFault::kCorrupt : DecodeFault::kCrashed)
          << what;
    });
    threads.emplace_back([&] {
      for (int i = 0; i < 10; ++i) {
        EXPECT_FALSE(fault_of(decoder, good_));
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(decoder.process(), process);
}

TEST_F(Sandboxed, LimitsAreOfTheFile) {
  SandboxedDecoder small(SandboxedDecoder::default_path(),
                         {.memory_mib = 100, .cpu_seconds = 10, .wall_seconds = 20});
  EXPECT_FALSE(fault_of(small, good_));
  const auto large =
      small.inspect_image(picture_file("6000x6000", "-c:v libwebp -lossless 1 -f image2"));
  ASSERT_FALSE(large);
  EXPECT_TRUE(large.error() == DecodeFault::kCrashed || large.error() == DecodeFault::kCorrupt);
  SandboxedDecoder usual;
  EXPECT_TRUE(usual.inspect_image(picture_file("6000x6000", "-c:v libwebp -lossless 1 -f image2")));
}

TEST_F(Sandboxed, AKilledHelperIsReplaced) {
  SandboxedDecoder decoder;
  const std::string bytes = tone_file(300, kMp3);
  const auto expected = decode_as(decoder, bytes, AudioType::kMp3);
  ASSERT_TRUE(expected);
  for (int round = 0; round < 10; ++round) {
    const auto before = decoder.process();
    ASSERT_TRUE(before);
    Result<Decoded, DecodeFault> decoded = DecodeFault::kEmpty;
    // At ever later places of the answer: what comes after must not be missing or come twice.
    std::thread reader([&] { decoded = decode_as(decoder, bytes, AudioType::kMp3); });
    test::pace(std::chrono::milliseconds(10 * round));
    kill(*before, SIGKILL);
    reader.join();
    ASSERT_TRUE(decoded) << describe(decoded.error());
    EXPECT_EQ(decoded->pcm.samples, expected->pcm.samples);
  }
}

TEST_F(Sandboxed, AFrozenHelperIsReplaced) {
  SandboxedDecoder decoder(
      SandboxedDecoder::default_path(), kDecodeLimits, {.silence_max = std::chrono::seconds(1)});
  ASSERT_FALSE(fault_of(decoder, good_));
  const auto before = decoder.process();
  ASSERT_TRUE(before);
  ASSERT_EQ(kill(*before, SIGSTOP), 0);
  const auto fault = fault_of(decoder, good_);
  EXPECT_TRUE(!fault || *fault == DecodeFault::kUnavailable) << describe(*fault);
  EXPECT_TRUE(
      test::eventually(std::chrono::seconds(60), [&] { return !fault_of(decoder, good_); }));
  EXPECT_NE(decoder.process(), before);
}

// Two seconds are over before it can be told from one that is slow; the bytes have no part in it.
TEST_F(Sandboxed, AFrozenHelperSaysNothingOfTheBytes) {
  SandboxedDecoder decoder(SandboxedDecoder::default_path(),
                           {.memory_mib = 512, .cpu_seconds = 10, .wall_seconds = 0},
                           {.silence_max = std::chrono::hours(1)});
  ASSERT_FALSE(fault_of(decoder, good_));
  const auto before = decoder.process();
  ASSERT_TRUE(before);
  ASSERT_EQ(kill(*before, SIGSTOP), 0);
  EXPECT_EQ(fault_of(decoder, good_), DecodeFault::kUnavailable);
}

// A child has seen those, and comes to no end.
TEST_F(Sandboxed, WhatAChildIsAtForTooLongHasTimedOut) {
  SandboxedDecoder decoder(test::program_path("scripted-helper"),
                           {.memory_mib = 512, .cpu_seconds = 10, .wall_seconds = 0});
  const std::string fifo = testing::TempDir() + "decoder-" + std::to_string(getpid());
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(fault_of(decoder, "wait " + fifo), DecodeFault::kTimedOut);
  EXPECT_EQ(unlink(fifo.c_str()), 0);
}

// Its helper died, so that a second child says it once more; that may be in hostile hands.
TEST_F(Sandboxed, ASecondAnswerIsOfTheSameFile) {
  const std::string made = testing::TempDir() + "decoder-" + std::to_string(getpid()) + ".once";
  const auto second = [&](const std::string& says) {
    SandboxedDecoder decoder(test::program_path("scripted-helper"));
    const auto decoded = decode_as(
        decoder, "once " + made + " start 8000 samples 100 die then " + says, AudioType::kFlac);
    EXPECT_EQ(unlink(made.c_str()), 0) << "there was a first";
    return decoded;
  };
  for (const char* says : {"end 1",
                           "end 0",
                           "start 8000 end 1",
                           "start 8000 samples 99 end 0",
                           "start 96000 samples 100 end 0",
                           "samples 100 end 0"}) {
    const auto decoded = second(says);
    ASSERT_FALSE(decoded) << says;
    EXPECT_EQ(decoded.error(), DecodeFault::kCrashed) << says;
  }
  const auto decoded = second("start 8000 samples 60 samples 90 end 1");
  ASSERT_TRUE(decoded) << describe(decoded.error());
  EXPECT_EQ(decoded->pcm.samples.size(), 150U);
  EXPECT_EQ(decoded->pcm.rate, 8000);
  ASSERT_TRUE(decoded->exact);
  EXPECT_EQ(decoded->exact->samples, 150U);
}

TEST_F(Sandboxed, AMissingHelperSaysNothingOfTheBytes) {
  for (const char* path : {"/nonexistent/audio-decode", "/bin/true"}) {
    SandboxedDecoder decoder(path);
    for (int i = 0; i < 6; ++i) {
      EXPECT_EQ(fault_of(decoder, good_), DecodeFault::kUnavailable);
    }
    EXPECT_TRUE(decode_as(decoder, tone_file(1, kWav), AudioType::kWav));
  }
}

// libsndfile adds up what headers say and seeks there.
TEST(MemoryFile, StaysWithinItselfWhateverAHeaderSays) {
  constexpr sf_count_t kMax = std::numeric_limits<sf_count_t>::max();
  constexpr sf_count_t kMin = std::numeric_limits<sf_count_t>::min();
  MemoryFile file{"0123456789"};
  const SF_VIRTUAL_IO io = memory_io();
  EXPECT_EQ(io.seek(5, SEEK_SET, &file), 5);
  EXPECT_EQ(io.seek(kMax, SEEK_CUR, &file), 10);
  EXPECT_EQ(io.seek(-3, SEEK_CUR, &file), 7);
  EXPECT_EQ(io.seek(kMin, SEEK_CUR, &file), 0);
  EXPECT_EQ(io.seek(kMax, SEEK_END, &file), 10);
  EXPECT_EQ(io.seek(kMin, SEEK_END, &file), 0);
  EXPECT_EQ(io.seek(kMax, SEEK_SET, &file), 10);
  EXPECT_EQ(io.seek(-2, SEEK_END, &file), 8);
  std::array<char, 16> out{};
  EXPECT_EQ(io.read(out.data(), -1, &file), 0);
  EXPECT_EQ(io.read(out.data(), 16, &file), 2);
}

}  // namespace
}  // namespace audiogen
