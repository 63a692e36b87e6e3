// References: what is refused and why, and how true the measures of a sound are.
#include "worker/audio/reference.h"

#include <chrono>
#include <cmath>
#include <numbers>
#include <vector>

#include <ebur128.h>
#include <gtest/gtest.h>

#include "tests/support/ffmpeg.h"
#include "worker/audio/codec.h"
#include "worker/audio/in_process_decoder.h"
#include "worker/decode/sandboxed_decoder.h"
#include "worker/local/speech_helper.h"

namespace audiogen {
namespace {

using test::picture_file;
using test::tone_file;

constexpr int kRate = 24000;
const std::string kWav = "-c:a pcm_s16le -f wav";

// Pulses with all harmonics, like a voice without a mouth.
std::vector<float> pulse_train(double hertz, double seconds, int rate = kRate) {
  std::vector<float> out(static_cast<std::size_t>(seconds * rate));
  for (double at = 0; at < static_cast<double>(out.size()); at += rate / hertz) {
    // A raised cosine of 1 ms, at the exact place between the samples.
    const double half = 0.0005 * rate;
    for (auto i = static_cast<std::size_t>(std::max(0.0, std::ceil(at - half)));
         static_cast<double>(i) <= at + half && i < out.size();
         ++i) {
      const double phase = (static_cast<double>(i) - at) / half;
      out[i] += static_cast<float>(0.4 * (0.5 + 0.5 * std::cos(std::numbers::pi * phase)));
    }
  }
  return out;
}

std::vector<float> tone(double hertz, double seconds, int rate = kRate) {
  std::vector<float> out(static_cast<std::size_t>(seconds * rate));
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<float>(
        0.3 * std::sin(2 * std::numbers::pi * hertz * static_cast<double>(i) / rate));
  }
  return out;
}

// Bursts of a tone, `per_second` of them: half on, half off, with soft ends.
std::vector<float> bursts(double per_second, double seconds) {
  std::vector<float> out = tone(150, seconds);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double phase = std::fmod(static_cast<double>(i) * per_second / kRate, 1.0);
    const double gate = phase < 0.5 ? std::sin(2 * std::numbers::pi * phase) : 0.0;
    out[i] *= static_cast<float>(gate);
  }
  return out;
}

std::vector<float> speech(const std::string& voice) {
  static SpeechHelper helper(SpeechHelper::default_path());
  const Cancellation never;
  speech::Request request;
  request.seconds_max = 60;
  request.utterances = {
      {voice, "The quick brown fox jumps over the lazy dog, and nobody minds at all.", false}};
  const auto spoken =
      helper.speak(request, std::chrono::steady_clock::now() + std::chrono::seconds(30), never);
  EXPECT_TRUE(spoken);
  Audio audio;
  audio.bytes = spoken->samples;
  audio.rate = spoken->rate;
  return InProcessDecoder().decode(audio)->pcm.samples;
}

TEST(SoundTraits, PitchOfTonesAndPulses) {
  for (const int rate : {8000, 22050, 24000, 48000, 96000}) {
    for (const double hertz : {65.0, 100.0, 137.5, 212.0, 330.0, 395.0}) {
      SCOPED_TRACE(std::to_string(hertz) + " at " + std::to_string(rate));
      const auto pulses = sound_traits(pulse_train(hertz, 1, rate), rate).pitch_hz;
      ASSERT_TRUE(pulses);
      EXPECT_NEAR(*pulses, hertz, hertz * 0.01);
      const auto sine = sound_traits(tone(hertz, 1, rate), rate).pitch_hz;
      ASSERT_TRUE(sine);
      EXPECT_NEAR(*sine, hertz, hertz * 0.01);
    }
  }
}

TEST(SoundTraits, NoiseAndSilenceHaveNoPitch) {
  std::vector<float> noise(kRate * 2);
  std::uint32_t state = 1;
  for (float& sample : noise) {
    state = state * 1664525U + 1013904223U;
    sample = static_cast<float>(state >> 8U) / 16777216.0F - 0.5F;
  }
  EXPECT_FALSE(sound_traits(noise, kRate).pitch_hz);
  EXPECT_FALSE(sound_traits(std::vector<float>(kRate, 0.0F), kRate).pitch_hz);
  EXPECT_FALSE(sound_traits(std::vector<float>(1, 0.5F), kRate).pitch_hz);
}

TEST(SoundTraits, PulsesAreSyllables) {
  for (const double per_second : {2.0, 3.0, 4.5, 6.0, 8.0}) {
    const auto found = sound_traits(bursts(per_second, 5), kRate).syllables_per_second;
    ASSERT_TRUE(found) << per_second;
    EXPECT_NEAR(*found, per_second, 0.25) << per_second;
  }
  EXPECT_FALSE(sound_traits(tone(150, 3), kRate).syllables_per_second);
  EXPECT_FALSE(sound_traits(std::vector<float>(1, 0.5F), kRate).syllables_per_second);
}

TEST(SoundTraits, OfVoices) {
  const int rate = 22050;
  const SoundTraits man = sound_traits(speech("en-us"), rate);
  ASSERT_TRUE(man.pitch_hz);
  EXPECT_NEAR(*man.pitch_hz, 100, 12);
  const SoundTraits woman = sound_traits(speech("en-us+f3"), rate);
  ASSERT_TRUE(woman.pitch_hz);
  EXPECT_NEAR(*woman.pitch_hz, 212, 25);
  // 17 syllables in four seconds and a half.
  ASSERT_TRUE(man.syllables_per_second);
  EXPECT_GT(*man.syllables_per_second, 2.5);
  EXPECT_LT(*man.syllables_per_second, 6);
}

TEST(SoundTraits, LoudnessIsThatOfBs1770) {
  for (const auto& sound : {tone(997, 3), pulse_train(120, 3), bursts(3, 4), speech("en-us")}) {
    ebur128_state* state = ebur128_init(1, kRate, EBUR128_MODE_I);
    double lufs = 0;
    ASSERT_EQ(ebur128_add_frames_float(state, sound.data(), sound.size()), EBUR128_SUCCESS);
    ASSERT_EQ(ebur128_loudness_global(state, &lufs), EBUR128_SUCCESS);
    ebur128_destroy(&state);
    EXPECT_NEAR(sound_traits(sound, kRate).loudness_lufs, lufs, 0.5);
  }
  // A full-scale 997 Hz sine reads -3.01; ours is 0.3 of that.
  EXPECT_NEAR(sound_traits(tone(997, 3), kRate).loudness_lufs, -3.01 - 10.46, 0.1);
}

class Inspected : public testing::Test {
 protected:
  std::optional<MediaFault> fault(const std::string& bytes) {
    const auto found = inspect_audio_reference(bytes, decoder_);
    return found ? std::nullopt : std::optional(found.error());
  }
  std::optional<MediaFault> image_fault(const std::string& bytes) {
    const auto found = inspect_image_reference(bytes, decoder_);
    return found ? std::nullopt : std::optional(found.error());
  }

  SandboxedDecoder decoder_;
};

TEST_F(Inspected, SoundOfEveryKind) {
  for (const auto& [options, type] :
       {std::pair("-c:a pcm_s16le -f wav", AudioType::kWav),
        std::pair("-c:a libmp3lame -f mp3", AudioType::kMp3),
        std::pair("-c:a libmp3lame -id3v2_version 0 -f mp3", AudioType::kMp3),
        std::pair("-c:a flac -f flac", AudioType::kFlac),
        std::pair("-c:a libopus -f ogg", AudioType::kOgg),
        std::pair("-c:a libvorbis -f ogg", AudioType::kOgg)}) {
    const std::string bytes = tone_file(2, options);
    const auto found = inspect_audio_reference(bytes, decoder_);
    ASSERT_TRUE(found) << options;
    EXPECT_EQ(found->type, type);
    EXPECT_EQ(found->bytes, bytes);
    EXPECT_NEAR(found->traits.seconds, 2, 0.001);
  }
}

// An ID3v2 tag before FLAC, and zeroes before the first frame of MP3.
TEST_F(Inspected, SoundBehindSomethingElse) {
  const std::string tag = std::string("ID3\4\0\0\0\0\1\0", 10) + std::string(128, '\0');
  const std::string flac = tone_file(2, "-c:a flac -f flac");
  const std::string mp3 = tone_file(2, "-c:a libmp3lame -id3v2_version 0 -f mp3");
  for (const auto& [bytes, type] : {std::pair(tag + flac, AudioType::kFlac),
                                    std::pair(tag + mp3, AudioType::kMp3),
                                    std::pair(std::string(7, '\0') + mp3, AudioType::kMp3),
                                    std::pair(std::string(1023, '\0') + mp3, AudioType::kMp3)}) {
    const auto found = inspect_audio_reference(bytes, decoder_);
    ASSERT_TRUE(found) << bytes.size();
    EXPECT_EQ(found->type, type);
    EXPECT_EQ(found->bytes, bytes) << "as it came";
    EXPECT_NEAR(found->traits.seconds, 2, 0.001);
  }
  EXPECT_EQ(fault(tag + flac.substr(0, flac.size() / 2)), MediaFault::kUndecodable);
  EXPECT_EQ(fault(tag + tone_file(2, "-c:a aac -f adts")), MediaFault::kNotThisKind);
  EXPECT_EQ(fault(std::string(10'000, '\0')), MediaFault::kNotThisKind);
}

TEST_F(Inspected, SoundThatIsRefused) {
  EXPECT_EQ(fault(""), MediaFault::kNotThisKind);
  EXPECT_EQ(fault("{\"error\": 1}"), MediaFault::kNotThisKind);
  EXPECT_EQ(fault(tone_file(2, "-c:a aac -f adts")), MediaFault::kNotThisKind);
  EXPECT_EQ(fault(tone_file(2, "-c:a aac -f mp4")), MediaFault::kNotThisKind);
  EXPECT_EQ(fault(tone_file(2, "-c:a flac -f ogg")), MediaFault::kNotThisKind);
  EXPECT_EQ(fault(picture_file("64x64", "-c:v png -f image2")), MediaFault::kNotThisKind);
  const std::string opus = tone_file(2, "-c:a libopus -f ogg");
  EXPECT_EQ(fault(opus + opus), MediaFault::kUndecodable);
  const std::string flac = tone_file(2, "-c:a flac -f flac");
  EXPECT_EQ(fault(flac.substr(0, flac.size() / 2)), MediaFault::kUndecodable);
  EXPECT_EQ(fault(tone_file(2, "-ar 192000 -c:a flac -f flac")), MediaFault::kRate);
  EXPECT_EQ(fault(tone_file(2, "-ar 7999 " + kWav)), MediaFault::kRate);
  EXPECT_EQ(fault(tone_file(2, "-ar 8000 " + kWav)), std::nullopt);
  EXPECT_EQ(fault(tone_file(2, "-ar 96000 " + kWav)), std::nullopt);
  const std::string mp3 = "-c:a libmp3lame -id3v2_version 0 -f mp3";
  EXPECT_EQ(fault(tone_file(1, mp3) + tone_file(1, "-ar 48000 " + mp3)), MediaFault::kUndecodable);
  EXPECT_EQ(fault(tone_file(0.49, kWav)), MediaFault::kTooShort);
  EXPECT_EQ(fault(tone_file(0.5, kWav)), std::nullopt);
  EXPECT_EQ(fault(tone_file(30, kWav)), std::nullopt);
  EXPECT_EQ(fault(tone_file(30.001, kWav)), MediaFault::kTooLong);
  EXPECT_EQ(fault(tone_file(700, "-ar 8000 " + kWav)), MediaFault::kTooLong);
  EXPECT_EQ(fault(tone_file(2, "-ac 3 " + kWav)), MediaFault::kTooManyChannels);
  EXPECT_EQ(fault(tone_file(2, "-af volume=0.001 -c:a pcm_s16le -f wav")), MediaFault::kSilent);
}

TEST_F(Inspected, Pictures) {
  const std::string png = picture_file("120x80", "-c:v png -f image2");
  const auto found = inspect_image_reference(png, decoder_);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->type, ImageType::kPng);
  EXPECT_EQ(found->width, 120);
  EXPECT_EQ(found->height, 80);
  EXPECT_EQ(found->bytes, png);
  EXPECT_EQ(image_fault(png.substr(0, png.size() / 2)), MediaFault::kUndecodable);
  EXPECT_EQ(image_fault("GIF89a"), MediaFault::kNotThisKind);
  EXPECT_EQ(image_fault(tone_file(1, kWav)), MediaFault::kNotThisKind);
  EXPECT_EQ(image_fault(picture_file("8200x8", "-c:v png -f image2")), MediaFault::kTooLarge);
}

TEST(Inspection, SaysWhenTheDecoderIsDown) {
  SandboxedDecoder none("/nonexistent/audio-decode");
  const auto sound = inspect_audio_reference(tone_file(2, "-c:a flac -f flac"), none);
  ASSERT_FALSE(sound);
  EXPECT_EQ(sound.error(), MediaFault::kUnavailable);
  const auto image = inspect_image_reference(picture_file("64x64", "-c:v png -f image2"), none);
  ASSERT_FALSE(image);
  EXPECT_EQ(image.error(), MediaFault::kUnavailable);
}

}  // namespace
}  // namespace audiogen
