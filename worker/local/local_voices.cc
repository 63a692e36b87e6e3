#include "worker/local/local_voices.h"

#include <algorithm>
#include <array>

namespace audiogen {
namespace {

// Rates and pitches of the English presets are such that a recogniser understands them
// (tests/audio/voices_test.cc): the Scotsman is clearer when he takes his time.
constexpr auto kVoices = std::to_array<LocalVoice>({
    {"albion", "en", "", {"awb"}, 0.91},
    {"anya", "ru", "f3", {"slt", -0.5}},
    {"aria", "en-us", "f3", {"slt"}},
    {"atlas", "en-us", "", {"rms"}},
    {"chloe", "fr", "f3", {"slt", 1.0}},
    {"ember", "en-us", "m3", {"rms", -3.0}, 1.0, 30},
    {"lena", "de", "f3", {"slt", 0.5}},
    {"lucia", "es", "f3", {"slt", 1.5}},
    {"mei", "cmn-latn-pinyin", "f2", {"slt", 2.5}},
    {"nova", "en-us", "Annie", {"slt", 2.0}},
    {"omar", "ar", "", {"rms", 1.0}},
    {"sage", "en", "f5", {"awb", 5.0}, 0.91},
    {"whisper", "en-us", "whisper", {"slt", 2.0, 0.85}, 0.91},
    {"yuki", "ja", "f3", {"slt", 3.0}},
});

}  // namespace

const LocalVoice* find_local_voice(std::string_view id) {
  const auto* const found = std::find_if(
      kVoices.begin(), kVoices.end(), [&](const LocalVoice& voice) { return voice.id == id; });
  return found == kVoices.end() ? nullptr : found;
}

}  // namespace audiogen
