// SPDX-License-Identifier: GPL-3.0-or-later

#include "worker/speech/engine.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

#include <espeak-ng/espeak_ng.h>
#include <espeak-ng/speak_lib.h>
#include <unistd.h>

#include "worker/sandbox/zygote.h"
#include "worker/speech/english.h"

namespace audiogen::speech {
namespace {

constexpr int kBlockMilliseconds = 200;  // 9 kB: how much is spoken for nobody after a cancel

// espeak-ng's callback has no user pointer when it speaks synchronously, and its state is global.
double seconds_left = 0;
std::uint32_t current_rate = 0;  // of what was written last

using sandbox::write_block;

[[noreturn]] void end(EndReason reason) {
  write_block(BlockKind::kEnd, &reason, sizeof(reason));
  _exit(0);
}

// What follows is of `rate`.
void start(std::uint32_t rate) {
  if (current_rate != rate) {
    current_rate = rate;
    write_block(BlockKind::kStart, &rate, sizeof(rate));
  }
}

// False when no more is wanted.
bool write_samples(std::span<const short> samples) {
  const auto wanted =
      std::min(samples.size(), static_cast<std::size_t>(std::llround(seconds_left * current_rate)));
  write_block(BlockKind::kSamples, samples.data(), wanted * sizeof(short));
  seconds_left -= static_cast<double>(wanted) / current_rate;
  return wanted == samples.size();
}

int on_samples(short* samples, int count, espeak_EVENT*) {
  const bool more =
      samples == nullptr || count <= 0 || write_samples({samples, static_cast<std::size_t>(count)});
  return more ? 0 : 1;
}

void speak_with_espeak(const Utterance& utterance, const Request& request, const KanaReader& kana) {
  // An unknown name would leave the voice before it in place.
  if (espeak_SetVoiceByName(utterance.voice.c_str()) != EE_OK) {
    end(EndReason::kVoiceMissing);
  }
  espeak_SetParameter(espeakRATE, static_cast<int>(request.words_per_minute), 0);
  espeak_SetParameter(espeakPITCH, utterance.pitch, 0);
  espeak_SetParameter(
      espeakPUNCTUATION, request.speak_punctuation != 0 ? espeakPUNCT_ALL : espeakPUNCT_NONE, 0);
  const std::string text = utterance.kanji_to_kana ? kana.read(utterance.text) : utterance.text;
  // Never espeakSSML (its <audio> runs a shell) and never espeakPHONEMES.
  if (espeak_Synth(
          text.c_str(), text.size() + 1, 0, POS_CHARACTER, 0, espeakCHARS_UTF8, nullptr, nullptr) !=
      EE_OK) {
    end(EndReason::kEngineFailed);
  }
}

void speak(const Utterance& utterance,
           const Request& request,
           std::uint32_t espeak_rate,
           const KanaReader& kana) {
  if (utterance.engine == Engine::kFlite) {
    start(kEnglishRate);
    const double speed = static_cast<double>(request.words_per_minute) / kWordsPerMinute;
    if (!speak_english(utterance, speed, write_samples)) {
      end(EndReason::kVoiceMissing);
    }
  } else {
    start(espeak_rate);
    speak_with_espeak(utterance, request, kana);
  }
}

}  // namespace

std::uint32_t start_engine(std::string& data_folder) {
  const int rate = espeak_Initialize(
      AUDIO_OUTPUT_SYNCHRONOUS, kBlockMilliseconds, nullptr, espeakINITIALIZE_DONT_EXIT);
  if (rate <= 0) {
    return 0;
  }
#ifdef AUDIOGEN_ESPEAK_HAS_SEED
  // From 1.52 on the breath of some voices is drawn from the time of the start, so that two helpers
  // said the same differently.
  espeak_ng_SetRandSeed(1);
#endif
  espeak_SetSynthCallback(on_samples);
  // Reads the header of every voice file, which each child would otherwise do again.
  espeak_ListVoices(nullptr);
  const char* path = nullptr;
  espeak_Info(&path);
  data_folder = path;
  start_english();
  return static_cast<std::uint32_t>(rate);
}

void speak_and_exit(const Request& request,
                    std::uint32_t rate,
                    const sandbox::Sandbox& sandbox,
                    const KanaReader& kana) {
  seconds_left = request.seconds_max;
  const bool japanese = std::any_of(
      request.utterances.begin(), request.utterances.end(), [](const Utterance& utterance) {
        return utterance.kanji_to_kana;
      });
  if (japanese && !KanaReader::open_dictionaries()) {
    end(EndReason::kEngineFailed);
  }
  if (!sandbox.enter(request.limits)) {
    _exit(1);
  }
  for (const Utterance& utterance : request.utterances) {
    if (seconds_left * rate < 1) {
      break;
    }
    speak(utterance, request, rate, kana);
  }
  end(EndReason::kDone);
}

}  // namespace audiogen::speech
