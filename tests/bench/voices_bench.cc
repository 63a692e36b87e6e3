// What the local engine's preset voices sound like, in figures, and how fast they are.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "common/domain/voices.h"
#include "tests/support/hearing.h"
#include "tests/support/narrator.h"
#include "worker/audio/levels.h"

namespace audiogen {
namespace {

using Clock = std::chrono::steady_clock;

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
    const std::vector<float> samples = test::wav_samples(rendered);
    all.insert(all.end(), samples.begin(), samples.end());
    speech.push_back(rendered.bytes);
  }
  const std::optional<Loudness> loudness = measure_loudness(all, 16000);
  double sum = 0;
  for (const float sample : all) {
    sum += static_cast<double>(sample);
  }
  const auto shifted = [&](double semitones) -> std::string {
    GenerationRequest request = test::narration(voice.id, texts.front());
    const std::vector<float> plain = test::wav_samples(narrator.deliver(request));
    request.pitch = semitones;
    const auto heard = test::pitch_shift(
        plain, test::wav_samples(narrator.deliver(request)), request.sample_rate, semitones);
    char out[16];
    std::snprintf(out, sizeof(out), "%+.2f", heard.value_or(0));
    return heard ? out : "-";
  };
  std::printf(
      "%-8s %-3s %11s %7.1f %10.1f %8.0f %7s %7s %7.0f\n",
      std::string(voice.id).c_str(),
      std::string(voice.language.substr(0, 2)).c_str(),
      english ? (std::to_string(std::lround(test::word_errors(speech) * 100)) + " %").c_str() : "-",
      loudness ? loudness->lufs : 0,
      20 * std::log10(std::abs(sum / static_cast<double>(all.size())) + 1e-9),
      test::median_pitch(all, 16000, 60, 400).value_or(0),
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
    if (voice.id != audiogen::kSceneVoice) {
      audiogen::measure(voice, narrator);
    }
  }
  return 0;
}
