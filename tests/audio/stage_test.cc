// The sounds of cues, and what stands where when they are put together with words.
#include "worker/local/stage.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numbers>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "worker/audio/in_process_decoder.h"
#include "worker/audio/levels.h"
#include "worker/audio/pipeline.h"

namespace audiogen {
namespace {

constexpr std::size_t kSecond = kSoundRate;
constexpr std::size_t kLongest = 121 * kSecond;
constexpr double kToneHz = 200;
constexpr double kPeakMost = 0.8915;  // -1 dBFS

// What stands for words: a tone.
StageItem words(double seconds, double level = 0.3) {
  StageItem out;
  out.words.resize(static_cast<std::size_t>(seconds * kSoundRate));
  for (std::size_t i = 0; i < out.words.size(); ++i) {
    out.words[i] = static_cast<float>(
        level * std::sin(2 * std::numbers::pi * kToneHz * static_cast<double>(i) / kSoundRate));
  }
  return out;
}

StageItem cue(Cue cue) {
  return {.cue = cue};
}

std::vector<float> on_stage(const std::vector<StageItem>& items, std::uint64_t seed = 1) {
  return perform(items, seed, kLongest);
}

// The level of what is above 2 kHz, where the tone has nothing, from `begin` to `end` seconds.
double hiss(const std::vector<float>& samples, double begin, double end) {
  const double part = 1 - std::exp(-2 * std::numbers::pi * 2000 / kSoundRate);
  std::array<double, 3> lows{};
  double sum = 0;
  std::size_t count = 0;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    auto high = static_cast<double>(samples[i]);
    for (double& low : lows) {
      low += part * (high - low);
      high -= low;
    }
    const double at = static_cast<double>(i) / kSoundRate;
    if (at >= begin && at < end) {
      sum += high * high;
      ++count;
    }
  }
  return std::sqrt(sum / static_cast<double>(std::max<std::size_t>(1, count)));
}

// Whether the tone is heard in the tenth of a second from `begin` on.
bool has_tone(const std::vector<float>& samples, double begin) {
  const auto from = static_cast<std::size_t>(begin * kSoundRate);
  const std::size_t count = kSecond / 10;
  double real = 0, imaginary = 0;
  for (std::size_t i = 0; i < count && from + i < samples.size(); ++i) {
    const double phase = 2 * std::numbers::pi * kToneHz * static_cast<double>(i) / kSoundRate;
    real += static_cast<double>(samples[from + i]) * std::cos(phase);
    imaginary += static_cast<double>(samples[from + i]) * std::sin(phase);
  }
  return std::hypot(real, imaginary) / static_cast<double>(count) > 0.03;
}

double seconds_of(const std::vector<float>& samples) {
  return static_cast<double>(samples.size()) / kSoundRate;
}

Audio raw(const std::vector<float>& samples) {
  Audio out;
  out.rate = kSoundRate;
  out.target_lufs = kSpokenLufs;
  for (const float sample : samples) {
    const auto value = static_cast<std::int16_t>(std::lround(sample * 32767.0F));
    out.bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  return out;
}

// What is delivered of it, decoded.
std::vector<float> delivered(const std::vector<float>& samples, OutputFormat format, int rate) {
  GenerationRequest request;
  request.output_format = format;
  request.sample_rate = rate;
  const Audio audio = raw(samples);
  InProcessDecoder decoder;
  auto rendered = render(Audio(audio), render_spec(request, audio), decoder);
  EXPECT_TRUE(rendered) << (rendered ? "" : rendered.error().detail);
  if (!rendered) {
    return {};
  }
  Audio file;
  file.bytes = std::move(rendered->bytes);
  file.type = format == OutputFormat::kWav ? AudioType::kWav : AudioType::kMp3;
  auto decoded = decoder.decode(file, 200);
  EXPECT_TRUE(decoded);
  EXPECT_EQ(decoded->pcm.samples.size(), rendered->samples);
  return std::move(decoded->pcm.samples);
}

void expect_level(const std::vector<float>& samples, int rate, const std::string& what) {
  const auto loudness = measure_loudness(samples, rate);
  ASSERT_TRUE(loudness);
  EXPECT_NEAR(loudness->lufs, kSpokenLufs, 0.5) << what;
  EXPECT_LT(loudness->true_peak, kPeakMost) << what;
}

TEST(Sounds, EveryCueIsHeardAtItsLevel) {
  for (const CueName& known : cue_names()) {
    if (known.cue == Cue::kSilence) {
      continue;
    }
    const std::vector<float> alone = on_stage({cue(known.cue)});
    EXPECT_GE(seconds_of(alone), 1) << known.name;
    EXPECT_LE(seconds_of(alone), 6) << known.name;
    for (const int rate : {8000, 24000, 48000}) {
      expect_level(delivered(alone, OutputFormat::kWav, rate),
                   rate,
                   std::string(known.name) + " " + std::to_string(rate));
    }
    // Whatever chance makes of it.
    expect_level(delivered(on_stage({cue(known.cue)}, 2), OutputFormat::kWav, 24000),
                 24000,
                 std::string(known.name));
    const auto mp3 = measure_loudness(delivered(alone, OutputFormat::kMp3, 24000), 24000);
    ASSERT_TRUE(mp3);
    EXPECT_LT(mp3->true_peak, kPeakMost) << known.name;
  }
}

TEST(Sounds, DifferAndRepeat) {
  std::set<std::vector<float>> heard;
  for (const CueName& known : cue_names()) {
    const std::vector<float> alone = on_stage({cue(known.cue)});
    EXPECT_TRUE(heard.insert(alone).second) << known.name;
    EXPECT_EQ(alone, on_stage({cue(known.cue)})) << known.name;
    EXPECT_EQ(alone == on_stage({cue(known.cue)}, 2), known.cue == Cue::kSilence) << known.name;
  }
}

// None ends in the middle of a wave.
TEST(Sounds, DieAway) {
  for (const CueName& known : cue_names()) {
    EXPECT_EQ(sound_length(known.cue) == 0, known.ambience || known.cue == Cue::kSilence);
    if (sound_length(known.cue) > 0) {
      const std::vector<float> sound = make_sound(known.cue, 1);
      ASSERT_EQ(sound.size(), sound_length(known.cue));
      const float last = peak_of(std::span(sound).last(kSecond / 100));
      EXPECT_LT(last, 0.05F * peak_of(sound)) << known.name;
    } else if (known.ambience) {
      const std::vector<float> ambience = on_stage({cue(known.cue)});
      EXPECT_LT(std::abs(ambience.front()), 0.001F) << known.name;
      EXPECT_LT(std::abs(ambience.back()), 0.001F) << known.name;
    }
  }
}

TEST(Stage, WordsAloneAreAsLongAsTheyAre) {
  EXPECT_EQ(on_stage({}).size(), 0U);
  const std::vector<float> heard = on_stage({words(1), words(0.5)});
  EXPECT_EQ(heard.size(), kSecond * 3 / 2);
  EXPECT_TRUE(has_tone(heard, 0.2));
  EXPECT_TRUE(has_tone(heard, 1.3));
}

TEST(Stage, ASoundStandsBetweenTheWords) {
  for (const Cue sound : {Cue::kBell, Cue::kKnock, Cue::kSiren}) {
    const double length = static_cast<double>(sound_length(sound)) / kSoundRate;
    const std::vector<float> heard = on_stage({words(1), cue(sound), words(1)});
    EXPECT_NEAR(seconds_of(heard), 2 + length + 0.3, 0.01);
    EXPECT_TRUE(has_tone(heard, 0.8));
    EXPECT_FALSE(has_tone(heard, 1.02));
    EXPECT_GT(hiss(heard, 1.15, 1.15 + length), 0.0005);
    EXPECT_LT(hiss(heard, 1.01, 1.14), 1e-6) << "a moment of rest before it";
    EXPECT_TRUE(has_tone(heard, 1 + length + 0.35));
  }
}

TEST(Stage, AnAmbienceLiesUnderWhatFollows) {
  const std::vector<float> heard = on_stage({words(1), cue(Cue::kRain), words(4), words(3)});
  EXPECT_LT(hiss(heard, 0.1, 0.9), 0.0005);
  EXPECT_FALSE(has_tone(heard, 1.5));
  EXPECT_TRUE(has_tone(heard, 2.3));
  // It begins alone, is lower by 8 dB under the words, and outlasts them.
  EXPECT_NEAR(seconds_of(heard), 1 + 1.2 + 7 + 1.2, 0.01);
  const double alone = hiss(heard, 1.65, 1.9), under = hiss(heard, 3, 9);
  EXPECT_GT(under, 0.0005);
  EXPECT_NEAR(20 * std::log10(under / alone), -8, 2);
  // Words stay well above it.
  const double tone = peak_of(std::span(heard).subspan(kSecond / 2, kSecond / 4));
  EXPECT_GT(20 * std::log10(tone / under), 18);
  EXPECT_LT(hiss(heard, seconds_of(heard) - 0.05, seconds_of(heard)), alone / 4) << "fades";
}

TEST(Stage, ASilenceEndsAmbiences) {
  const std::vector<float> heard = on_stage(
      {cue(Cue::kRain), words(2), cue(Cue::kSilence), words(2), cue(Cue::kSilence), words(1)});
  EXPECT_NEAR(seconds_of(heard), 1.2 + 2 + 1 + 2 + 1 + 1, 0.01);
  EXPECT_GT(hiss(heard, 1.5, 3), 0.0005);
  EXPECT_LT(hiss(heard, 4.3, 6), hiss(heard, 1.5, 3) / 10);
  EXPECT_TRUE(is_silent(on_stage({cue(Cue::kSilence)})));
  const std::vector<float> pause = on_stage({words(1), cue(Cue::kSilence), words(1)});
  EXPECT_TRUE(is_silent(std::span(pause).subspan(kSecond + 10, kSecond - 20)));
}

TEST(Stage, OneThatIsHeardBeginsNoSecondTime) {
  EXPECT_EQ(on_stage({cue(Cue::kRain), words(2), cue(Cue::kRain), words(2)}).size(),
            on_stage({cue(Cue::kRain), words(2), words(2)}).size());
  EXPECT_EQ(on_stage(std::vector<StageItem>(300, cue(Cue::kRain))).size(),
            on_stage({cue(Cue::kRain)}).size());
  EXPECT_EQ(on_stage({cue(Cue::kWind), cue(Cue::kRain)}).size(), kSecond * 31 / 5);
}

// Whatever there is to be heard, it is no more than is asked for, within full scale, and at its
// level.
TEST(Stage, NothingGoesBeyondItsBounds) {
  std::vector<StageItem> all;
  for (int round = 0; round < 40; ++round) {
    for (const CueName& known : cue_names()) {
      all.push_back(cue(known.cue));
      all.push_back(words(0.1, 1.0));
    }
  }
  for (const std::size_t most : {std::size_t{1}, kSecond / 10, 9 * kSecond}) {
    const std::vector<float> heard = perform(all, 1, most);
    EXPECT_EQ(heard.size(), most);
    EXPECT_LE(peak_of(heard), 1.0F);
  }
  const std::vector<float> heard = perform(all, 1, 30 * kSecond);
  expect_level(delivered(heard, OutputFormat::kWav, 24000), 24000, "all");
  // Loud on top of each other, before anything limits them.
  std::vector<StageItem> ambiences;
  for (const CueName& known : cue_names()) {
    if (known.ambience) {
      ambiences.push_back(cue(known.cue));
    }
  }
  ambiences.push_back(words(10, 1.0));
  EXPECT_LE(peak_of(on_stage(ambiences)), 1.0F);
  expect_level(delivered(on_stage(ambiences), OutputFormat::kWav, 24000), 24000, "ambiences");
}

}  // namespace
}  // namespace audiogen
