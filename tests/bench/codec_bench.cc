// What sound costs, per call and per second of audio. A sandboxed child's CPU time is nobody's to
// ask for (its zygote does not wait for it): on an idle machine the wall time tells.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include <sys/resource.h>

#include "tests/support/ffmpeg.h"
#include "tests/support/hearing.h"
#include "tests/support/narrator.h"
#include "worker/audio/codec.h"
#include "worker/audio/in_process_decoder.h"
#include "worker/audio/levels.h"
#include "worker/audio/pipeline.h"
#include "worker/decode/sandboxed_decoder.h"

namespace audiogen {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRate = 24000;
constexpr double kClipSeconds = 5, kLongSeconds = 60;

double cpu_now() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto ms = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_usec) / 1e3;
  };
  return ms(usage.ru_utime) + ms(usage.ru_stime);
}

struct Cost {
  double cpu_ms = 0, wall_ms = 0;  // of one call
};

// The best of some rounds: what other work on the machine adds is no part of it.
Cost measure(const std::function<void()>& call) {
  Cost best{1e9, 1e9};
  call();
  for (int round = 0; round < 5; ++round) {
    constexpr int kCalls = 4;
    const auto from = Clock::now();
    const double cpu = cpu_now();
    for (int i = 0; i < kCalls; ++i) {
      call();
    }
    const std::chrono::duration<double, std::milli> wall = Clock::now() - from;
    best.cpu_ms = std::min(best.cpu_ms, (cpu_now() - cpu) / kCalls);
    best.wall_ms = std::min(best.wall_ms, wall.count() / kCalls);
  }
  return best;
}

void print(const std::string& what, const Cost& cost, double seconds) {
  std::printf("%-46s %9.2f %9.2f %12.3f %12.3f\n",
              what.c_str(),
              cost.cpu_ms,
              cost.wall_ms,
              cost.cpu_ms / seconds,
              cost.wall_ms / seconds);
}

std::vector<float> sound(double seconds) {
  std::vector<float> out(static_cast<std::size_t>(seconds * kRate));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double t = static_cast<double>(i) / kRate;
    out[i] = static_cast<float>(0.3 * std::sin(900 * t) * (0.6 + 0.4 * std::sin(20 * t)) +
                                0.05 * std::sin(7000 * t));
  }
  return out;
}

void bench_decode(double seconds) {
  InProcessDecoder here;
  SandboxedDecoder there;
  struct Kind {
    const char* name;
    AudioType type;
    const char* options;
  };
  for (const Kind& kind : {Kind{"wav", AudioType::kWav, "-c:a pcm_s16le -f wav"},
                           Kind{"wav mulaw", AudioType::kWav, "-c:a pcm_mulaw -f wav"},
                           Kind{"mp3", AudioType::kMp3, "-c:a libmp3lame -b:a 64k -f mp3"},
                           Kind{"flac", AudioType::kFlac, "-c:a flac -f flac"},
                           Kind{"ogg vorbis", AudioType::kOgg, "-c:a libvorbis -f ogg"},
                           Kind{"ogg opus", AudioType::kOgg, "-c:a libopus -b:a 32k -f ogg"}}) {
    Audio audio;
    audio.type = kind.type;
    audio.bytes = test::tone_file(seconds, kind.options);
    const std::string length = " of " + std::to_string(static_cast<int>(seconds)) + " s";
    print("decode " + std::string(kind.name) + length + ", in-process",
          measure([&] { static_cast<void>(here.decode(audio)); }),
          seconds);
    print("decode " + std::string(kind.name) + length + ", sandboxed",
          measure([&] { static_cast<void>(there.decode(audio)); }),
          seconds);
  }
}

void bench_encode() {
  const std::vector<float> samples = sound(kLongSeconds);
  for (const OutputFormat format :
       {OutputFormat::kWav, OutputFormat::kPcm, OutputFormat::kMp3, OutputFormat::kOggOpus}) {
    print("encode " + std::string(format_name(format)) + " of 60 s",
          measure([&] { static_cast<void>(encode(format, samples, kRate)); }),
          kLongSeconds);
  }
}

void bench_render(double seconds) {
  SandboxedDecoder decoder;
  const std::array types = {
      AudioType::kMp3, AudioType::kWav, AudioType::kPcmS16Le, AudioType::kOgg};
  const std::array formats = {
      OutputFormat::kMp3, OutputFormat::kWav, OutputFormat::kPcm, OutputFormat::kOggOpus};
  for (std::size_t i = 0; i < formats.size(); ++i) {
    Audio audio;
    audio.bytes = *encode(formats[i], sound(seconds), kRate);
    audio.type = types[i];
    audio.rate = kRate;
    RenderSpec spec;
    spec.format = formats[i];
    const std::string name(format_name(formats[i]));
    const auto run = [&](const std::string& how) {
      print("render " + name + " of 5 s, " + how,
            measure([&] { static_cast<void>(render(Audio(audio), spec, decoder)); }),
            seconds);
    };
    run("passed through");
    spec.volume = 1.1;
    run("volume 1.1");
    spec.speed_remaining = 1.2;
    run("volume 1.1, speed 1.2");
    spec.volume = 1.0;
    spec.speed_remaining = 1.0;
    spec.target_lufs = kSpokenLufs;
    run("loudness");
    spec.target_lufs.reset();
    spec.sample_rate = 44100;
    run("to 44.1 kHz");
  }
}

double decibels(double ratio) {
  return 20 * std::log10(std::max(ratio, 1e-9));
}

// How far `loud` is from `plain` at some other level, in dB: the level may change from one fiftieth
// of a second to the next, the form of the wave may not.
double distance_db(const std::vector<float>& plain, const std::vector<float>& loud, int rate) {
  const auto frame = static_cast<std::size_t>(rate / 50);
  double signal = 0, rest = 0;
  for (std::size_t at = 0; at + frame <= std::min(plain.size(), loud.size()); at += frame) {
    double both = 0, one = 1e-12;
    for (std::size_t i = at; i < at + frame; ++i) {
      both += static_cast<double>(plain[i]) * static_cast<double>(loud[i]);
      one += static_cast<double>(plain[i]) * static_cast<double>(plain[i]);
    }
    for (std::size_t i = at; i < at + frame; ++i) {
      const double fits = both / one * static_cast<double>(plain[i]);
      signal += fits * fits;
      rest += (static_cast<double>(loud[i]) - fits) * (static_cast<double>(loud[i]) - fits);
    }
  }
  return 10 * std::log10(signal / std::max(rest, 1e-12));
}

// Speech at the loudest that can be asked for: what is left of it, and where its peaks are.
void bench_loudness() {
  test::Narrator narrator;
  InProcessDecoder decoder;
  std::printf("\n%-46s %9s %9s %12s\n", "speech at volume 2", "LUFS", "dBTP", "SDR, dB");
  const std::array types = {
      AudioType::kWav, AudioType::kPcmS16Le, AudioType::kMp3, AudioType::kOgg};
  const std::array formats = {
      OutputFormat::kWav, OutputFormat::kPcm, OutputFormat::kMp3, OutputFormat::kOggOpus};
  for (const char* const voice : {"aria", "atlas", "albion", "lena"}) {
    for (std::size_t i = 0; i < formats.size(); ++i) {
      GenerationRequest request = test::narration(voice, test::kPlainEnglish[0]);
      request.output_format = formats[i];
      request.sample_rate = kRate;
      const auto heard = [&](double volume) {
        request.volume = volume;
        Audio audio;
        audio.bytes = narrator.deliver(request).bytes;
        audio.type = types[i];
        audio.rate = kRate;
        return decoder.decode(audio)->pcm;
      };
      const Pcm plain = heard(1), loud = heard(2);
      const auto level = measure_loudness(loud.samples, loud.rate);
      std::printf("%-46s %9.1f %9.1f %12.1f\n",
                  (std::string(voice) + ", " + std::string(format_name(formats[i]))).c_str(),
                  level ? level->lufs : 0,
                  decibels(level ? level->true_peak : 0),
                  distance_db(plain.samples, loud.samples, loud.rate));
    }
  }
}

}  // namespace
}  // namespace audiogen

int main() {
  std::printf("%-46s %9s %9s %12s %12s\n", "", "CPU ms", "wall ms", "CPU ms / s", "wall ms / s");
  audiogen::bench_decode(audiogen::kClipSeconds);
  audiogen::bench_decode(audiogen::kLongSeconds);
  audiogen::bench_encode();
  audiogen::bench_render(audiogen::kClipSeconds);
  audiogen::bench_loudness();
}
