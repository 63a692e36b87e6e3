// Codecs and the pipeline: exact lengths in every format and rate, judged by an independent tool.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <numbers>
#include <numeric>
#include <random>
#include <span>

#include <gtest/gtest.h>
#include <rapidjson/document.h>
#include <unistd.h>

#include "tests/support/ffmpeg.h"
#include "worker/audio/codec.h"
#include "worker/audio/in_process_decoder.h"
#include "worker/audio/levels.h"
#include "worker/audio/limiter.h"
#include "worker/audio/pipeline.h"

namespace audiogen {
namespace {

constexpr std::array kFormats = {
    OutputFormat::kMp3, OutputFormat::kWav, OutputFormat::kPcm, OutputFormat::kOggOpus};
constexpr int kSourceRate = 22050;

std::string to_bytes(const std::vector<float>& samples) {
  return *encode(OutputFormat::kPcm, samples, kSourceRate);
}

std::vector<float> tone(double seconds, double level, double hertz = 440) {
  std::vector<float> out(static_cast<std::size_t>(std::llround(seconds * kSourceRate)));
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<float>(
        level * std::sin(2 * std::numbers::pi * hertz * static_cast<double>(i) / kSourceRate));
  }
  return out;
}

Audio as_audio(const std::vector<float>& samples) {
  Audio audio;
  audio.bytes = to_bytes(samples);
  audio.rate = kSourceRate;
  return audio;
}

Audio tone_audio(double seconds, double level = 0.3) {
  return as_audio(tone(seconds, level));
}

// A file that lives as long as the object.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& content) {
    std::string name = (std::filesystem::temp_directory_path() / "render_test_XXXXXX").string();
    const int file = mkstemp(name.data());
    EXPECT_GE(file, 0);
    close(file);
    path_ = name;
    std::ofstream(path_, std::ios::binary) << content;
  }
  ~TemporaryFile() { std::filesystem::remove(path_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

Rendered must_render(const Audio& audio, const RenderSpec& spec) {
  InProcessDecoder decoder;
  Result<Rendered, PipelineFault> result = render(Audio(audio), spec, decoder);
  EXPECT_TRUE(result) << (result ? "" : result.error().detail);
  return result ? *std::move(result) : Rendered{};
}

std::vector<float> samples_of(const Rendered& rendered) {
  Audio audio;
  audio.bytes = rendered.bytes;
  audio.rate = rendered.rate;
  return InProcessDecoder().decode(audio)->pcm.samples;
}

float peak_of(const std::vector<float>& samples) {
  float peak = 0;
  for (const float sample : samples) {
    peak = std::max(peak, std::abs(sample));
  }
  return peak;
}

// The frequency with the most energy, by Goertzel's filter at every hertz.
int pitch_of(const std::vector<float>& samples, int rate, int from, int to) {
  int best = 0;
  double most = 0;
  for (int hertz = from; hertz <= to; ++hertz) {
    const double w = 2 * std::cos(2 * std::numbers::pi * hertz / rate);
    double s1 = 0, s2 = 0;
    for (std::size_t i = 0; i < std::min<std::size_t>(samples.size(), 24000); ++i) {
      const double s0 = static_cast<double>(samples[i]) + w * s1 - s2;
      s2 = s1;
      s1 = s0;
    }
    const double energy = s1 * s1 + s2 * s2 - w * s1 * s2;
    if (energy > most) {
      most = energy;
      best = hertz;
    }
  }
  return best;
}

TEST(Render, EveryFormatAndRateIsExact) {
  const Audio audio = tone_audio(3.1);
  for (const OutputFormat format : kFormats) {
    for (const int rate : kSampleRates) {
      SCOPED_TRACE(std::string(format_name(format)) + " " + std::to_string(rate));
      RenderSpec spec;
      spec.format = format;
      spec.sample_rate = rate;
      const Rendered rendered = must_render(audio, spec);
      EXPECT_EQ(rendered.samples, static_cast<std::uint64_t>(rate) * 31 / 10);
      EXPECT_EQ(rendered.rate, rate);
      EXPECT_FALSE(rendered.truncated);
      const TemporaryFile file(rendered.bytes);
      if (format == OutputFormat::kPcm) {
        EXPECT_EQ(rendered.bytes.size(), rendered.samples * 2);
        continue;
      }
      rapidjson::Document probe;
      probe.Parse(
          test::output_of("ffprobe -v quiet -of json -show_streams " + file.path()).c_str());
      ASSERT_FALSE(probe.HasParseError());
      const auto& stream = probe["streams"][0];
      const bool opus = format == OutputFormat::kOggOpus;
      EXPECT_STREQ(stream["codec_name"].GetString(),
                   opus                           ? "opus"
                   : format == OutputFormat::kMp3 ? "mp3"
                                                  : "pcm_s16le");
      EXPECT_EQ(stream["channels"].GetInt(), 1);
      const int stream_rate = opus ? 48000 : rate;
      EXPECT_EQ(std::stoi(stream["sample_rate"].GetString()), stream_rate);
      if (format == OutputFormat::kMp3) {
        const int kbps = rate <= 8000 ? 32 : rate <= 16000 ? 48 : rate <= 24000 ? 64 : 96;
        EXPECT_EQ(std::stoi(stream["bit_rate"].GetString()), kbps * 1000);
      }
      const std::string decoded =
          test::output_of("ffmpeg -v quiet -i " + file.path() + " -f s16le -acodec pcm_s16le -");
      const double at_rate =
          static_cast<double>(decoded.size()) / 2 * rate / static_cast<double>(stream_rate);
      EXPECT_EQ(std::llround(at_rate), static_cast<long long>(rendered.samples));
    }
  }
}

TEST(Render, OddLengthsAreExact) {
  for (const OutputFormat format : kFormats) {
    for (const int rate : {8000, 24000, 44100}) {
      for (const int extra : {0, 1, 575, 576, 577, 1151}) {
        const std::size_t count = 2205 + static_cast<std::size_t>(extra);
        std::vector<float> samples = tone(1, 0.3);
        samples.resize(count);
        RenderSpec spec;
        spec.format = format;
        spec.sample_rate = rate;
        const Rendered rendered = must_render(as_audio(samples), spec);
        EXPECT_EQ(static_cast<long long>(rendered.samples),
                  std::llround(static_cast<double>(count) * rate / kSourceRate));
      }
    }
  }
}

TEST(Render, CutsAtExactly120Seconds) {
  const Audio long_audio = tone_audio(150);
  for (const OutputFormat format : kFormats) {
    for (const int rate : {8000, 44100}) {
      RenderSpec spec;
      spec.format = format;
      spec.sample_rate = rate;
      const Rendered rendered = must_render(long_audio, spec);
      EXPECT_EQ(rendered.samples, static_cast<std::uint64_t>(rate) * 120);
      EXPECT_TRUE(rendered.truncated);
    }
  }
  RenderSpec spec;
  spec.format = OutputFormat::kPcm;
  spec.speed_remaining = 2.0;
  EXPECT_FALSE(must_render(long_audio, spec).truncated);
  spec.speed_remaining = 0.5;
  const Rendered slow = must_render(tone_audio(61), spec);
  EXPECT_TRUE(slow.truncated);
  EXPECT_EQ(slow.samples, 24000U * 120);
  // The cut does not click: the end fades.
  EXPECT_LT(std::abs(samples_of(slow).back()), 0.001F);
  spec.speed_remaining = 1.0;
  const Rendered whole = must_render(tone_audio(120), spec);
  EXPECT_FALSE(whole.truncated);
  EXPECT_EQ(whole.samples, 24000U * 120);
}

TEST(Render, SpeedChangesLengthOnly) {
  for (const double speed : {0.5, 0.75, 1.5, 2.0}) {
    RenderSpec spec;
    spec.format = OutputFormat::kPcm;
    spec.sample_rate = kSourceRate;
    spec.speed_remaining = speed;
    const Rendered rendered = must_render(tone_audio(4), spec);
    EXPECT_EQ(static_cast<long long>(rendered.samples), std::llround(4 * kSourceRate / speed));
    EXPECT_NEAR(pitch_of(samples_of(rendered), kSourceRate, 200, 900), 440, 4) << speed;
  }
}

TEST(Render, PitchChangesPitchOnly) {
  for (const double semitones : {-12.0, -4.0, 4.0, 12.0}) {
    RenderSpec spec;
    spec.format = OutputFormat::kPcm;
    spec.sample_rate = kSourceRate;
    spec.pitch_remaining = semitones;
    const Rendered rendered = must_render(tone_audio(4), spec);
    EXPECT_EQ(rendered.samples, 4U * kSourceRate);
    const double expected = 440 * std::pow(2.0, semitones / 12);
    EXPECT_NEAR(pitch_of(samples_of(rendered), kSourceRate, 150, 1000), expected, expected * 0.01);
  }
}

TEST(Render, VolumeScalesAndNeverClips) {
  RenderSpec spec;
  spec.format = OutputFormat::kPcm;
  spec.sample_rate = kSourceRate;
  spec.volume = 0.5;
  EXPECT_NEAR(peak_of(samples_of(must_render(tone_audio(1, 0.4), spec))), 0.2, 0.001);
  spec.volume = 2.0;
  EXPECT_NEAR(peak_of(samples_of(must_render(tone_audio(1, 0.4), spec))), 0.8, 0.001);
  const float loud = peak_of(samples_of(must_render(tone_audio(1, 0.9), spec)));
  EXPECT_LT(loud, 0.892F);
  EXPECT_GT(loud, 0.87F);
}

// What is left of `samples` when the tone of `hertz` that fits them best is taken away, in dB of
// it.
double distortion_db(std::span<const float> samples, int rate, double hertz) {
  double sine = 0, cosine = 0, all = 0;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const double angle = 2 * std::numbers::pi * hertz * static_cast<double>(i) / rate;
    const auto sample = static_cast<double>(samples[i]);
    sine += sample * std::sin(angle);
    cosine += sample * std::cos(angle);
    all += sample * sample;
  }
  const double tone = 2 * (sine * sine + cosine * cosine) / static_cast<double>(samples.size());
  return 10 * std::log10(std::max(all - tone, 1e-12) / tone);
}

// Bending the peaks of this tone, as the hyperbolic tangent does, leaves 14 dB between it and the
// rest.
TEST(Render, LoudIsNotDistorted) {
  RenderSpec spec;
  spec.format = OutputFormat::kPcm;
  spec.sample_rate = kSourceRate;
  spec.volume = 2.0;
  const std::vector<float> samples = samples_of(must_render(tone_audio(2, 0.9), spec));
  // Half a second of whole periods, where the level has settled.
  EXPECT_LT(
      distortion_db(std::span(samples).subspan(kSourceRate, kSourceRate / 2), kSourceRate, 440),
      -50);
}

// Bursts of noise and a voice's pulses, up to full scale.
std::vector<float> loud_sound() {
  std::vector<float> out = tone(4, 0.3, 150);
  std::mt19937 generator(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::size_t tenth = i / (kSourceRate / 10);
    if (tenth % 3 == 1) {
      out[i] = uniform(generator) * 0.9F;
    } else if (tenth % 3 == 2) {
      out[i] += i % 140 < 12 ? 0.6F : 0.0F;
    }
  }
  return out;
}

// Lossy encoders move peaks: also what a player makes of it stays under full scale.
TEST(Render, NoFormatPassesFullScale) {
  const std::array types = {
      AudioType::kMp3, AudioType::kWav, AudioType::kPcmS16Le, AudioType::kOgg};
  for (const double volume : {1.0, 2.0}) {
    for (std::size_t i = 0; i < kFormats.size(); ++i) {
      for (const int rate : {8000, 16000, 24000, 44100, 48000}) {
        RenderSpec spec;
        spec.format = kFormats[i];
        spec.sample_rate = rate;
        spec.volume = volume;
        const Rendered rendered = must_render(as_audio(loud_sound()), spec);
        Audio audio;
        audio.bytes = rendered.bytes;
        audio.type = types[i];
        audio.rate = rate;
        const auto decoded = InProcessDecoder().decode(audio);
        ASSERT_TRUE(decoded);
        const auto loudness = measure_loudness(decoded->pcm.samples, decoded->pcm.rate);
        ASSERT_TRUE(loudness);
        // What is not encoded is as the limiter left it: under -1 dBTP, 0.891.
        const bool encoded = types[i] == AudioType::kMp3 || types[i] == AudioType::kOgg;
        EXPECT_LE(loudness->true_peak, encoded ? 1.0 : 0.8913)
            << format_name(kFormats[i]) << " " << rate << " " << volume;
        EXPECT_GT(loudness->true_peak, 0.6)
            << format_name(kFormats[i]) << " " << rate << " " << volume;
      }
    }
  }
}

TEST(LimitPeaks, LeavesAloneWhatIsUnderTheCeiling) {
  const std::vector<float> quiet = tone(1, 0.85);
  std::vector<float> out = quiet;
  ASSERT_TRUE(limit_peaks(out, kSourceRate, 0.891));
  EXPECT_EQ(out, quiet);
  std::vector<float> nothing;
  EXPECT_TRUE(limit_peaks(nothing, kSourceRate, 0.891));
}

TEST(LimitPeaks, TurnsDownAroundPeaksAlone) {
  for (const int rate : {8000, 22050, 48000}) {
    std::vector<float> sound(static_cast<std::size_t>(rate), 0.1F);
    const std::size_t at = sound.size() / 2;
    sound[at] = -3.0F;
    ASSERT_TRUE(limit_peaks(sound, rate, 0.891));
    EXPECT_LE(peak_of(sound), 0.891F) << rate;
    EXPECT_GT(peak_of(sound), 0.5F) << rate;
    // Until 15 ms before, and a second after, nothing has happened.
    EXPECT_EQ(sound[at - static_cast<std::size_t>(rate) * 15 / 1000], 0.1F) << rate;
    EXPECT_LT(sound[at - 1], 0.05F) << rate;
    EXPECT_NEAR(sound.back(), 0.1F, 0.002F) << rate;
  }
  // Shorter than all of its times.
  std::vector<float> one = {2.0F};
  ASSERT_TRUE(limit_peaks(one, 8000, 0.891));
  EXPECT_LE(peak_of(one), 0.891F);
}

TEST(RemoveDc, TakesTheConstantPartAndNothingElse) {
  std::vector<float> sound = tone(2, 0.3);
  for (float& sample : sound) {
    sample += 0.1F;
  }
  remove_dc(sound, kSourceRate);
  const std::span<const float> settled = std::span(sound).subspan(kSourceRate);
  EXPECT_NEAR(std::accumulate(settled.begin(), settled.end(), 0.0) / kSourceRate, 0, 1e-4);
  EXPECT_NEAR(*std::max_element(settled.begin(), settled.end()), 0.3F, 0.002F);
}

TEST(Render, NormalisesLoudness) {
  RenderSpec spec;
  spec.format = OutputFormat::kPcm;
  spec.sample_rate = kSourceRate;
  spec.target_lufs = kSpokenLufs;
  Audio again = tone_audio(3, 0.02);
  again.bytes = must_render(again, spec).bytes;
  const Rendered second = must_render(again, spec);
  ASSERT_TRUE(second.loudness_lufs);
  EXPECT_NEAR(*second.loudness_lufs, -18, 0.1);
  // A click on silence reaches the peak limit first.
  std::vector<float> click = tone(3, 0.002);
  std::fill(click.begin() + 1000, click.begin() + 1010, 0.5F);
  EXPECT_LE(peak_of(samples_of(must_render(as_audio(click), spec))), 0.9F);
  // Too short for EBU R128's gate.
  EXPECT_NEAR(peak_of(samples_of(must_render(tone_audio(0.2, 0.05), spec))), 0.19, 0.03);
}

TEST(Render, RefusesWhatIsNoAnswer) {
  using Kind = PipelineFault::Kind;
  const auto kind_of = [](const Audio& audio) {
    InProcessDecoder decoder;
    const auto result = render(Audio(audio), RenderSpec{}, decoder);
    EXPECT_FALSE(result);
    return result ? Kind::kInternal : result.error().kind;
  };
  EXPECT_EQ(kind_of(Audio{}), Kind::kUndecodable);
  EXPECT_EQ(kind_of(as_audio(std::vector<float>(22050, 0.0F))), Kind::kSilent);
  EXPECT_EQ(kind_of(tone_audio(1, 0.0005)), Kind::kSilent);
  // What a synthesiser puts out that has nothing to say, before it is brought to its level.
  InProcessDecoder decoder;
  RenderSpec raw;
  raw.target_lufs = kSpokenLufs;
  const auto noise = render(tone_audio(1, 0.0045), raw, decoder);
  ASSERT_FALSE(noise);
  EXPECT_EQ(noise.error().kind, Kind::kSilent);
  EXPECT_TRUE(render(tone_audio(1, 0.0045), RenderSpec{}, decoder));
  EXPECT_TRUE(render(tone_audio(1, 0.0055), raw, decoder));
  EXPECT_EQ(kind_of(tone_audio(0.09)), Kind::kTooShort);
  // Of which resampling leaves nothing at all.
  Audio one_sample;
  one_sample.bytes = "aa";
  one_sample.rate = 96000;
  EXPECT_EQ(kind_of(one_sample), Kind::kTooShort);
  for (const AudioType type :
       {AudioType::kWav, AudioType::kMp3, AudioType::kFlac, AudioType::kOgg}) {
    Audio junk;
    junk.type = type;
    junk.bytes = "{\"error\": \"not audio\"}";
    EXPECT_EQ(kind_of(junk), Kind::kUndecodable);
    junk.bytes.clear();
    EXPECT_EQ(kind_of(junk), Kind::kUndecodable);
  }
  Audio fast = tone_audio(1);
  fast.rate = 200000;
  EXPECT_EQ(kind_of(fast), Kind::kUndecodable);
  Audio crowd = tone_audio(1);
  crowd.channels = 3;
  EXPECT_EQ(kind_of(crowd), Kind::kUndecodable);
}

TEST(Render, TakesEveryTypeItMakes) {
  const std::array types = {
      AudioType::kMp3, AudioType::kWav, AudioType::kPcmS16Le, AudioType::kOgg};
  for (std::size_t i = 0; i < kFormats.size(); ++i) {
    RenderSpec spec;
    spec.format = kFormats[i];
    const Rendered first = must_render(tone_audio(2), spec);
    Audio audio;
    audio.bytes = first.bytes;
    audio.type = types[i];
    audio.rate = first.rate;
    spec.format = OutputFormat::kPcm;
    const Rendered second = must_render(audio, spec);
    EXPECT_EQ(second.samples, first.samples);
    EXPECT_NEAR(peak_of(samples_of(second)), 0.3, 0.06);
  }
}

// A provider's file of `seconds`, in `format` at `rate`.
Audio ready_audio(OutputFormat format, int rate, double seconds = 2) {
  const std::array types = {
      AudioType::kMp3, AudioType::kWav, AudioType::kPcmS16Le, AudioType::kOgg};
  Audio audio;
  audio.bytes = *encode(format, tone(seconds * rate / kSourceRate, 0.3, 440), rate);
  audio.rate = rate;
  audio.type = types[static_cast<std::size_t>(std::find(kFormats.begin(), kFormats.end(), format) -
                                              kFormats.begin())];
  return audio;
}

TEST(Render, WhatIsReadyPassesThrough) {
  for (const OutputFormat format : kFormats) {
    for (const int rate : kSampleRates) {
      SCOPED_TRACE(std::string(format_name(format)) + " " + std::to_string(rate));
      const Audio audio = ready_audio(format, rate);
      RenderSpec spec;
      spec.format = format;
      spec.sample_rate = rate;
      spec.speed_remaining = 1.0005;  // what rounding leaves
      spec.pitch_remaining = -0.005;
      const Rendered rendered = must_render(audio, spec);
      EXPECT_TRUE(rendered.passed_through);
      EXPECT_EQ(rendered.bytes, audio.bytes);
      EXPECT_EQ(rendered.checksum, checksum(audio.bytes));
      EXPECT_EQ(rendered.samples, 2U * static_cast<unsigned>(rate));
      EXPECT_EQ(rendered.rate, rate);
      EXPECT_FALSE(rendered.truncated);
    }
  }
}

// A provider's words travel in tags, comments and chunks; a client must not see them.
TEST(Render, NoTextOfAProviderPassesThrough) {
  struct Case {
    OutputFormat format;
    AudioType type;
    const char* options;
    bool passes;
  };
  const Case cases[] = {
      {OutputFormat::kMp3,
       AudioType::kMp3,
       "-c:a libmp3lame -id3v2_version 4 -write_id3v1 1 -f mp3",
       true},
      {OutputFormat::kMp3, AudioType::kMp3, "-c:a libmp3lame -f mp3", true},
      {OutputFormat::kWav, AudioType::kWav, "-c:a pcm_s16le -f wav", false},
      {OutputFormat::kOggOpus, AudioType::kOgg, "-c:a libopus -f ogg", false},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.options);
    Audio audio;
    audio.bytes = test::tone_file(
        2,
        std::string(" -metadata title=WORDS-OF-THE-PROVIDER -metadata comment=MORE-WORDS ") +
            one.options);
    audio.type = one.type;
    ASSERT_NE(audio.bytes.find("WORDS"), std::string::npos);
    RenderSpec spec;
    spec.format = one.format;
    const Rendered rendered = must_render(audio, spec);
    EXPECT_EQ(rendered.bytes.find("WORDS"), std::string::npos);
    EXPECT_EQ(rendered.passed_through, one.passes);
    EXPECT_NEAR(static_cast<double>(rendered.samples) / 24000, 2.0, 0.001);
    Audio delivered;
    delivered.bytes = rendered.bytes;
    delivered.type = one.type;
    InProcessDecoder decoder;
    const auto decoded = decoder.decode(delivered);
    ASSERT_TRUE(decoded);
    EXPECT_EQ(decoded->pcm.samples.size(), rendered.samples) << "what is billed is what plays";
  }
}

TEST(Render, EveryReasonAgainstPassingThrough) {
  const auto passes = [](const Audio& audio, const RenderSpec& spec) {
    return must_render(audio, spec).passed_through;
  };
  const int rate = 24000;
  for (const OutputFormat format : kFormats) {
    SCOPED_TRACE(format_name(format));
    const Audio audio = ready_audio(format, rate);
    RenderSpec ready;
    ready.format = format;
    ASSERT_TRUE(passes(audio, ready));
    RenderSpec spec = ready;
    spec.format = format == OutputFormat::kMp3 ? OutputFormat::kWav : OutputFormat::kMp3;
    EXPECT_FALSE(passes(audio, spec));
    spec = ready;
    spec.sample_rate = 16000;
    EXPECT_FALSE(passes(audio, spec));
    spec = ready;
    spec.speed_remaining = 1.01;
    EXPECT_FALSE(passes(audio, spec));
    spec = ready;
    spec.pitch_remaining = 0.1;
    EXPECT_FALSE(passes(audio, spec));
    spec = ready;
    spec.volume = 1.1;
    EXPECT_FALSE(passes(audio, spec));
    spec = ready;
    spec.target_lufs = kSpokenLufs;
    EXPECT_FALSE(passes(audio, spec));
    EXPECT_TRUE(passes(ready_audio(format, rate, 120), ready));
    const Rendered cut = must_render(ready_audio(format, rate, 120.001), ready);
    EXPECT_FALSE(cut.passed_through);
    EXPECT_TRUE(cut.truncated);
    EXPECT_EQ(cut.samples, 120U * 24000);
    EXPECT_TRUE(passes(ready_audio(format, rate, 0.1), ready));
    InProcessDecoder decoder;
    const auto brief = render(ready_audio(format, rate, 0.0995), ready, decoder);
    ASSERT_FALSE(brief);
    EXPECT_EQ(brief.error().kind, PipelineFault::Kind::kTooShort);
  }
}

// Ours to say that a file is not exact is decoder_test's; that it then takes the full way, this
// one's.
TEST(Render, AFileThatIsNotExactIsMadeAnew) {
  Audio streamed = ready_audio(OutputFormat::kWav, 24000);
  const std::size_t size_at = streamed.bytes.find("data") + 4;
  streamed.bytes.replace(size_at, 4, std::string(4, '\xFF'));
  RenderSpec spec;
  spec.format = OutputFormat::kWav;
  const Rendered repaired = must_render(streamed, spec);
  EXPECT_FALSE(repaired.passed_through);
  EXPECT_EQ(repaired.samples, 48000U);
  EXPECT_EQ(repaired.bytes, ready_audio(OutputFormat::kWav, 24000).bytes);
  Audio twice = ready_audio(OutputFormat::kMp3, 24000);
  twice.bytes += twice.bytes;
  spec.format = OutputFormat::kMp3;
  EXPECT_FALSE(must_render(twice, spec).passed_through);
  // Stereo is not what was asked for.
  Audio stereo;
  stereo.bytes = *encode(OutputFormat::kPcm, tone(2, 0.3), 24000);
  stereo.rate = 24000;
  stereo.channels = 2;
  spec.format = OutputFormat::kPcm;
  EXPECT_FALSE(must_render(stereo, spec).passed_through);
}

// Of what the client will not pay for nothing is delivered, also where it is ready.
TEST(Render, CutsAtWhatMaxCreditsPayFor) {
  GenerationRequest request;
  request.max_credits = Units{12'345};
  const std::int64_t longest = longest_ms(request.max_credits);
  for (const OutputFormat format : kFormats) {
    for (const int rate : kSampleRates) {
      request.output_format = format;
      request.sample_rate = rate;
      const Audio audio = tone_audio(15);
      const Rendered rendered = must_render(audio, render_spec(request, audio));
      EXPECT_TRUE(rendered.truncated);
      EXPECT_EQ(duration_ms(static_cast<std::int64_t>(rendered.samples), rate), longest);
      EXPECT_LE(charge_for(longest), request.max_credits);
    }
  }
  request.output_format = OutputFormat::kWav;
  request.sample_rate = 24000;
  const auto ready = [&](double seconds) {
    const Audio audio = ready_audio(OutputFormat::kWav, 24000, seconds);
    return must_render(audio, render_spec(request, audio));
  };
  EXPECT_TRUE(ready(9.876).passed_through);
  EXPECT_TRUE(ready(9.9).truncated);
}

// All that was heard may lie in the second past what is delivered, or above what its rate holds.
TEST(Render, SilenceIsNotSold) {
  constexpr std::size_t kLongest = 8000;  // ms
  std::vector<float> late(kLongest * kSourceRate / 1000, 0.0F);
  const std::vector<float> beyond = tone(0.5, 0.3);
  late.insert(late.end(), beyond.begin(), beyond.end());
  std::vector<float> shrill = tone(1, 0.3, 9000);
  for (std::size_t i = 0; i < shrill.size();
       ++i) {  // Without the clicks of a sudden begin and end.
    shrill[i] *= static_cast<float>(std::pow(
        std::sin(std::numbers::pi * static_cast<double>(i) / static_cast<double>(shrill.size())),
        2));
  }
  for (const OutputFormat format : kFormats) {
    for (const bool spoken : {false, true}) {
      RenderSpec spec;
      spec.format = format;
      spec.sample_rate = kSourceRate;
      spec.duration_max_ms = kLongest;
      if (spoken) {
        spec.target_lufs = kSpokenLufs;
      }
      InProcessDecoder decoder;
      const auto cut = render(as_audio(late), spec, decoder);
      ASSERT_FALSE(cut);
      EXPECT_EQ(cut.error().kind, PipelineFault::Kind::kSilent);
      spec.sample_rate = 8000;
      const auto high = render(as_audio(shrill), spec, decoder);
      ASSERT_FALSE(high);
      EXPECT_EQ(high.error().kind, PipelineFault::Kind::kSilent);
    }
  }
}

TEST(MeasureLoudness, OfNothingIsNone) {
  EXPECT_FALSE(measure_loudness(std::vector<float>(48000, 0.0F), 48000));
  EXPECT_FALSE(measure_loudness(std::vector<float>(100, 0.0F), 48000));
}

// The mp3 encoder ends the process on such a sample, and the others make full scale of it.
TEST(Encode, RefusesWhatIsNoNumber) {
  for (const OutputFormat format : kFormats) {
    for (const float wrong : {std::numeric_limits<float>::quiet_NaN(),
                              std::numeric_limits<float>::infinity(),
                              -std::numeric_limits<float>::infinity()}) {
      std::vector<float> samples(24000, 0.1F);
      samples[12000] = wrong;
      EXPECT_FALSE(encode(format, samples, 24000));
    }
  }
}

TEST(Render, WhatIsReadyIsListenedToBeforeItPasses) {
  for (const OutputFormat format : {OutputFormat::kWav, OutputFormat::kPcm}) {
    RenderSpec spec;
    spec.format = format;
    Audio audio = ready_audio(format, 24000);
    std::fill(audio.bytes.end() - 2 * 48000, audio.bytes.end(), '\0');
    InProcessDecoder decoder;
    const auto silent = render(Audio(audio), spec, decoder);
    ASSERT_FALSE(silent);
    EXPECT_EQ(silent.error().kind, PipelineFault::Kind::kSilent);
    audio.bytes.back() = 1;  // 256 of 32768, the very last sample.
    EXPECT_TRUE(must_render(audio, spec).passed_through);
  }
}

// Who made a file without any sound had nothing to say to this text; others may.
TEST(Render, AFileWithoutSoundIsNoBrokenOne) {
  std::string wav = ready_audio(OutputFormat::kWav, 24000).bytes;
  const std::size_t data = wav.find("data");
  wav.resize(data + 8);
  std::fill(wav.begin() + static_cast<std::ptrdiff_t>(data) + 4, wav.end(), '\0');
  InProcessDecoder decoder;
  const auto empty = render({.bytes = wav, .type = AudioType::kWav}, RenderSpec{}, decoder);
  ASSERT_FALSE(empty);
  EXPECT_EQ(empty.error().kind, PipelineFault::Kind::kEmpty);
}

// A decoder that is down, as SandboxedDecoder says it.
class NoDecoder : public Decoder {
  Result<Unpacked, DecodeFault> unpack(std::string_view, AudioType, const Sink&) override {
    return DecodeFault::kUnavailable;
  }
  Result<ImageInfo, DecodeFault> unpack_image(std::string_view, ImageType) override {
    return DecodeFault::kUnavailable;
  }
};

TEST(Render, ADecoderThatIsDownIsNobodysBadAudio) {
  NoDecoder decoder;
  const auto mp3 = render(ready_audio(OutputFormat::kMp3, 24000), RenderSpec{}, decoder);
  ASSERT_FALSE(mp3);
  EXPECT_EQ(mp3.error().kind, PipelineFault::Kind::kNoDecoder);
  // The built-in engine's audio needs none.
  EXPECT_TRUE(render(tone_audio(1), RenderSpec{}, decoder));
}

// A WAV file of kSourceRate frames in two channels, of 16 bit, at 24 kHz, with a true header.
Audio stereo_wav() {
  std::vector<float> interleaved;
  for (const float sample : tone(1, 0.4)) {
    interleaved.push_back(sample);
    interleaved.push_back(-0.5F * sample);
  }
  Audio audio;
  audio.type = AudioType::kWav;
  audio.bytes = *encode(OutputFormat::kWav, interleaved, 24000);
  const auto set = [&](std::size_t at, std::uint32_t value, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i) {
      audio.bytes[at + i] = static_cast<char>(value >> 8 * i & 0xFFU);
    }
  };
  set(22, 2, 2);          // Channels,
  set(28, 24000 * 4, 4);  // bytes a second,
  set(32, 4, 2);          // and a frame.
  return audio;
}

// Rain that comes from both sides was averaged away; it costs what it costs in one channel.
TEST(Render, ASceneInStereoStaysIt) {
  Audio scene = stereo_wav();
  GenerationRequest asked;
  asked.output_format = OutputFormat::kWav;
  EXPECT_FALSE(must_render(scene, render_spec(asked, scene)).passed_through) << "of a voice";
  scene.stereo = true;
  const Rendered whole = must_render(scene, render_spec(asked, scene));
  EXPECT_TRUE(whole.passed_through);
  EXPECT_EQ(whole.bytes, scene.bytes);
  EXPECT_EQ(whole.samples, std::uint64_t{kSourceRate});
  // What has to be shaped is shaped in mono, as ever.
  asked.volume = 0.5;
  const Rendered shaped = must_render(scene, render_spec(asked, scene));
  EXPECT_FALSE(shaped.passed_through);
  EXPECT_EQ(shaped.samples, std::uint64_t{kSourceRate});
  EXPECT_EQ(static_cast<int>(shaped.bytes[22]), 1);
  // Samples without a header are mono, whatever they were.
  asked = {};
  asked.output_format = OutputFormat::kPcm;
  Audio pcm;
  pcm.bytes = scene.bytes.substr(44);
  pcm.rate = 24000;
  pcm.channels = 2;
  pcm.stereo = true;
  const Rendered mono = must_render(pcm, render_spec(asked, pcm));
  EXPECT_FALSE(mono.passed_through);
  EXPECT_EQ(mono.bytes.size(), 2 * std::size_t{kSourceRate});
}

TEST(Render, MixesStereo) {
  std::vector<float> interleaved;
  for (const float sample : tone(1, 0.4)) {
    interleaved.push_back(sample);
    interleaved.push_back(0);
  }
  Audio audio = as_audio(interleaved);
  audio.channels = 2;
  RenderSpec spec;
  spec.format = OutputFormat::kPcm;
  const Rendered rendered = must_render(audio, spec);
  EXPECT_EQ(rendered.samples, 24000U);
  EXPECT_NEAR(peak_of(samples_of(rendered)), 0.2, 0.01);
}

TEST(Render, EqualInputGivesEqualBytes) {
  std::vector<float> noise(kSourceRate * 2);
  std::mt19937 generator(1);
  std::uniform_real_distribution<float> uniform(-0.5F, 0.5F);
  std::generate(noise.begin(), noise.end(), [&] { return uniform(generator); });
  const Audio audio = as_audio(noise);
  for (const OutputFormat format : kFormats) {
    RenderSpec spec;
    spec.format = format;
    spec.speed_remaining = 1.3;
    spec.pitch_remaining = -3;
    spec.volume = 2;
    spec.target_lufs = kSpokenLufs;
    const Rendered first = must_render(audio, spec);
    EXPECT_EQ(must_render(audio, spec).checksum, first.checksum) << format_name(format);
    EXPECT_EQ(first.checksum, checksum(first.bytes));
  }
}

TEST(Render, SpecIsWhatTheProviderLeft) {
  GenerationRequest request;
  request.output_format = OutputFormat::kWav;
  request.sample_rate = 16000;
  request.speed = 2.0;
  request.pitch = 12;
  request.volume = 0.5;
  Audio audio;
  audio.speed_applied = 1.25;
  audio.pitch_applied = 8;
  audio.target_lufs = kSpokenLufs;
  const RenderSpec spec = render_spec(request, audio);
  EXPECT_EQ(spec.format, OutputFormat::kWav);
  EXPECT_EQ(spec.sample_rate, 16000);
  EXPECT_DOUBLE_EQ(spec.speed_remaining, 1.6);
  EXPECT_DOUBLE_EQ(spec.pitch_remaining, 4);
  EXPECT_DOUBLE_EQ(spec.volume, 0.5);
  EXPECT_EQ(spec.target_lufs, kSpokenLufs);
}

}  // namespace
}  // namespace audiogen
