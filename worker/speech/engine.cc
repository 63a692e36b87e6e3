// SPDX-License-Identifier: GPL-3.0-or-later

#include "worker/speech/engine.h"

#include <algorithm>
#include <cstddef>

#include <espeak-ng/speak_lib.h>
#include <unistd.h>

#include "worker/sandbox/zygote.h"

namespace audiogen::speech {
namespace {

constexpr int kBlockMilliseconds = 200;  // 9 kB: how much is spoken for nobody after a cancel

// espeak-ng's callback has no user pointer when it speaks synchronously, and its state is global.
std::uint32_t samples_left = 0;

void write_block(BlockKind kind, const void* payload, std::size_t size) {
  sandbox::write_block(static_cast<std::uint32_t>(kind),
                       {static_cast<const std::byte*>(payload), size});
}

[[noreturn]] void end(EndReason reason) {
  write_block(BlockKind::kEnd, &reason, sizeof(reason));
  _exit(0);
}

int on_samples(short* samples, int count, espeak_EVENT*) {
  if (samples != nullptr && count > 0) {
    const std::uint32_t wanted = std::min(static_cast<std::uint32_t>(count), samples_left);
    write_block(BlockKind::kSamples, samples, wanted * sizeof(short));
    samples_left -= wanted;
  }
  return samples_left == 0 ? 1 : 0;
}

void speak(const Utterance& utterance, const Request& request, const KanaReader& kana) {
  // An unknown name would leave the voice before it in place.
  if (espeak_SetVoiceByName(utterance.voice.c_str()) != EE_OK) {
    end(EndReason::kVoiceMissing);
  }
  espeak_SetParameter(espeakRATE, static_cast<int>(request.words_per_minute), 0);
  espeak_SetParameter(espeakPITCH, static_cast<int>(request.pitch), 0);
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

}  // namespace

std::uint32_t start_engine(std::string& data_folder) {
  const int rate = espeak_Initialize(
      AUDIO_OUTPUT_SYNCHRONOUS, kBlockMilliseconds, nullptr, espeakINITIALIZE_DONT_EXIT);
  if (rate <= 0) {
    return 0;
  }
  espeak_SetSynthCallback(on_samples);
  // Reads the header of every voice file, which each child would otherwise do again.
  espeak_ListVoices(nullptr);
  const char* path = nullptr;
  espeak_Info(&path);
  data_folder = path;
  return static_cast<std::uint32_t>(rate);
}

void speak_and_exit(const Request& request,
                    std::uint32_t rate,
                    const sandbox::Sandbox& sandbox,
                    const KanaReader& kana) {
  samples_left = request.seconds_max * rate;
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
  write_block(BlockKind::kStart, &rate, sizeof(rate));
  for (const Utterance& utterance : request.utterances) {
    if (samples_left == 0) {
      break;
    }
    speak(utterance, request, kana);
  }
  end(EndReason::kDone);
}

}  // namespace audiogen::speech
