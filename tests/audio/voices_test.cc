// How the preset voices of the local engine sound, by measuring what is delivered.
#include "common/domain/voices.h"

#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/hearing.h"
#include "tests/support/narrator.h"
#include "worker/audio/levels.h"

namespace audiogen {
namespace {

std::vector<Voice> speakers() {
  std::vector<Voice> out(voices().begin(), voices().end());
  std::erase_if(out, [](const Voice& voice) { return voice.id == kSceneVoice; });
  return out;
}

class Voices : public testing::Test {
 protected:
  test::Narrator narrator_;
};

class EnglishVoices : public testing::TestWithParam<std::string_view> {
 protected:
  test::Narrator narrator_;
};

TEST_P(EnglishVoices, AreUnderstood) {
  std::vector<std::string> speech;
  for (const std::string_view sentence : test::kPlainEnglish) {
    speech.push_back(narrator_.deliver(test::narration(GetParam(), sentence)).bytes);
  }
  EXPECT_LE(test::word_errors(speech), 0.15);
}

std::vector<std::string_view> english_voices() {
  std::vector<std::string_view> out;
  for (const Voice& voice : voices()) {
    if (voice.language.starts_with("en")) {
      out.push_back(voice.id);
    }
  }
  return out;
}
INSTANTIATE_TEST_SUITE_P(Presets,
                         EnglishVoices,
                         testing::ValuesIn(english_voices()),
                         [](const auto& one) { return std::string(one.param); });

// Every voice at every pitch is as loud as every other, and has no constant part.
TEST_F(Voices, AreEquallyLoud) {
  for (const Voice& voice : speakers()) {
    for (const double pitch : {-12.0, 0.0, 12.0}) {
      GenerationRequest request = test::narration(voice.id, voice.sample);
      request.pitch = pitch;
      const std::vector<float> samples = test::wav_samples(narrator_.deliver(request));
      const auto loudness = measure_loudness(samples, request.sample_rate);
      ASSERT_TRUE(loudness);
      EXPECT_NEAR(loudness->lufs, kSpokenLufs, 0.5) << voice.id << " " << pitch;
      const double mean = std::accumulate(samples.begin(), samples.end(), 0.0) /
                          static_cast<double>(samples.size());
      EXPECT_LT(std::abs(mean), 0.0003) << voice.id << " " << pitch;
    }
  }
}

TEST_F(Voices, PitchComesOutAsAsked) {
  for (const Voice& voice : speakers()) {
    if (voice.id == "whisper") {
      continue;  // has none that could be measured
    }
    GenerationRequest request = test::narration(voice.id, voice.sample);
    const std::vector<float> plain = test::wav_samples(narrator_.deliver(request));
    for (const double pitch : {-12.0, -5.0, 3.0, 12.0}) {
      request.pitch = pitch;
      const std::vector<float> shifted = test::wav_samples(narrator_.deliver(request));
      const auto heard = test::pitch_shift(plain, shifted, request.sample_rate, pitch);
      ASSERT_TRUE(heard) << voice.id;
      EXPECT_NEAR(*heard, pitch, 0.3) << voice.id;
    }
  }
}

}  // namespace
}  // namespace audiogen
