#include "common/domain/voices.h"

#include <algorithm>
#include <array>

namespace audiogen {
namespace {

constexpr std::array<Voice, 14> kVoices = {
    Voice{"albion", "Albion", "en-GB", "A man's voice, British, measured."},
    Voice{"anya", "Anya", "ru", "A woman's voice, Russian."},
    Voice{"aria", "Aria", "en-US", "A woman's voice, American, clear; speaks when none is named."},
    Voice{"atlas", "Atlas", "en-US", "A man's voice, American, even."},
    Voice{"chloe", "Chloé", "fr", "A woman's voice, French."},
    Voice{"ember", "Ember", "en-US", "A man's voice, American, low."},
    Voice{"lena", "Lena", "de", "A woman's voice, German."},
    Voice{"lucia", "Lucía", "es", "A woman's voice, Spanish."},
    Voice{"mei", "Mei", "zh", "A woman's voice, Mandarin Chinese."},
    Voice{"nova", "Nova", "en-US", "A woman's voice, American, bright."},
    Voice{"omar", "Omar", "ar", "A man's voice, Arabic."},
    Voice{"sage", "Sage", "en-GB", "A woman's voice, British, unhurried."},
    Voice{"whisper", "Whisper", "en-US", "A whisper, American."},
    Voice{"yuki", "Yuki", "ja", "A woman's voice, Japanese."}};
static_assert(std::is_sorted(kVoices.begin(),
                             kVoices.end(),
                             [](const Voice& a, const Voice& b) { return a.id < b.id; }),
              "is_voice searches by halves");

}  // namespace

std::span<const Voice> voices() {
  return kVoices;
}

bool is_voice(std::string_view id) {
  const auto* const found = std::lower_bound(
      kVoices.begin(), kVoices.end(), id, [](const Voice& voice, std::string_view wanted) {
        return voice.id < wanted;
      });
  return found != kVoices.end() && found->id == id;
}

std::string voice_list() {
  std::string out;
  for (const Voice& voice : kVoices) {
    if (!out.empty()) {
      out += ", ";
    }
    out += voice.id;
  }
  return out;
}

}  // namespace audiogen
