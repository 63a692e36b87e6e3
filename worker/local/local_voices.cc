#include "worker/local/local_voices.h"

#include <algorithm>
#include <array>

namespace audiogen {
namespace {

constexpr auto kVoices = std::to_array<LocalVoice>({
    {"albion", "en", ""},
    {"anya", "ru", "f3"},
    {"aria", "en-us", "f3"},
    {"atlas", "en-us", ""},
    {"chloe", "fr", "f3"},
    {"ember", "en-us", "m3", 1.0, -3.0},
    {"lena", "de", "f3"},
    {"lucia", "es", "f3"},
    {"mei", "cmn-latn-pinyin", "f2"},
    {"nova", "en-us", "Annie"},
    {"omar", "ar", ""},
    {"sage", "en", "f5", 0.95},
    {"whisper", "en-us", "whisper"},
    {"yuki", "ja", "f3"},
});

}  // namespace

const LocalVoice* find_local_voice(std::string_view id) {
  const auto* const found = std::find_if(
      kVoices.begin(), kVoices.end(), [&](const LocalVoice& voice) { return voice.id == id; });
  return found == kVoices.end() ? nullptr : found;
}

}  // namespace audiogen
