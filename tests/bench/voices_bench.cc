// What the local engine's preset voices sound like, in figures, and how fast they are.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/domain/voices.h"
#include "tests/support/hearing.h"
#include "tests/support/narrator.h"
#include "worker/audio/levels.h"

namespace audiogen {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kWavHeader = 44;

std::vector<float> samples_of(const Rendered& wav) {
  std::vector<float> out(wav.samples);
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::int16_t sample = 0;
    std::memcpy(&sample, wav.bytes.data() + kWavHeader + i * sizeof(sample), sizeof(sample));
    out[i] = static_cast<float>(sample) / 32768.0F;
  }
  return out;
}

// What pitch came out where `semitones` were asked for, of a voice that speaks at `own` Hz.
std::string semitones_heard(const std::vector<float>& samples, double own, double semitones) {
  const double expected = own * std::pow(2.0, semitones / 12);
  const auto heard = test::median_pitch(samples, 16000, expected / 1.4, expected * 1.4);
  if (!heard) {
    return "-";
  }
  char out[16];
  std::snprintf(out, sizeof(out), "%+.2f", 12 * std::log2(*heard / own));
  return out;
}

void measure(const Voice& voice, test::Narrator& narrator) {
  const bool english = voice.language.starts_with("en");
  std::vector<std::string> texts;
  if (english) {
    texts.assign(test::kPlainEnglish.begin(), test::kPlainEnglish.end());
  } else {
    texts.emplace_back(voice.sample);
  }
  std::vector<std::string> speech;
  std::vector<float> all;
  double seconds = 0;
  for (const std::string& text : texts) {
    const auto began = Clock::now();
    const Rendered rendered = narrator.deliver(test::narration(voice.id, text));
    seconds += std::chrono::duration<double>(Clock::now() - began).count();
    const std::vector<float> samples = samples_of(rendered);
    all.insert(all.end(), samples.begin(), samples.end());
    speech.push_back(rendered.bytes);
  }
  const std::optional<Loudness> loudness = measure_loudness(all, 16000);
  double sum = 0;
  for (const float sample : all) {
    sum += static_cast<double>(sample);
  }
  // Twice: the second time within less than an octave around what was found.
  const auto rough = test::median_pitch(all, 16000, 60, 400);
  const auto own = rough ? test::median_pitch(all, 16000, *rough / 1.4, *rough * 1.4) : rough;
  const auto shifted = [&](double semitones) -> std::string {
    GenerationRequest request = test::narration(voice.id, texts.front());
    const std::vector<float> plain = samples_of(narrator.deliver(request));
    const auto base = own ? test::median_pitch(plain, 16000, *own / 1.4, *own * 1.4) : own;
    request.pitch = semitones;
    return base ? semitones_heard(samples_of(narrator.deliver(request)), *base, semitones) : "-";
  };
  std::printf(
      "%-8s %-3s %11s %7.1f %10.1f %8.0f %7s %7s %7.0f\n",
      std::string(voice.id).c_str(),
      std::string(voice.language.substr(0, 2)).c_str(),
      english ? (std::to_string(std::lround(test::word_errors(speech) * 100)) + " %").c_str() : "-",
      loudness ? loudness->lufs : 0,
      20 * std::log10(std::abs(sum / static_cast<double>(all.size())) + 1e-9),
      own.value_or(0),
      shifted(-12).c_str(),
      shifted(12).c_str(),
      static_cast<double>(all.size()) / 16000 / seconds);
}

}  // namespace
}  // namespace audiogen

int main() {
  std::printf("%-8s %-3s %11s %7s %10s %8s %7s %7s %7s\n",
              "voice",
              "",
              "word errors",
              "LUFS",
              "DC, dBFS",
              "pitch Hz",
              "at -12",
              "at +12",
              "x time");
  audiogen::test::Narrator narrator;
  for (const audiogen::Voice& voice : audiogen::voices()) {
    audiogen::measure(voice, narrator);
  }
  return 0;
}
