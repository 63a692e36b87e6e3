#include "common/domain/voices.h"

#include <algorithm>
#include <array>

namespace audiogen {
namespace {

// The same for everybody who speaks a language, so that what differs is the voice.
constexpr std::string_view kEnglish = "Hello. This is how I sound. What would you like to hear?",
                           kArabic = "مرحبا. هكذا يبدو صوتي. ماذا تريد أن تسمع؟",
                           kChinese = "你好。这就是我的声音。你想听什么？",
                           kFrench = "Bonjour. Voici ma voix. Qu'aimeriez-vous entendre ?",
                           kGerman = "Hallo. So klinge ich. Was möchten Sie hören?",
                           kJapanese = "こんにちは。これが私の声です。何を聞きたいですか？",
                           kRussian = "Здравствуйте. Так звучит мой голос. Что вы хотите услышать?",
                           kSpanish = "Hola. Así suena mi voz. ¿Qué te gustaría oír?";

constexpr std::array<Voice, 15> kVoices = {
    Voice{"albion", "Albion", "en-GB", "A man's voice, British, measured.", kEnglish},
    Voice{"anya", "Anya", "ru", "A woman's voice, Russian.", kRussian},
    Voice{"aria",
          "Aria",
          "en-US",
          "A woman's voice, American, clear; speaks when none is named.",
          kEnglish},
    Voice{"atlas", "Atlas", "en-US", "A man's voice, American, even.", kEnglish},
    Voice{"chloe", "Chloé", "fr", "A woman's voice, French.", kFrench},
    Voice{"ember", "Ember", "en-US", "A man's voice, American, low.", kEnglish},
    Voice{"lena", "Lena", "de", "A woman's voice, German.", kGerman},
    Voice{"lucia", "Lucía", "es", "A woman's voice, Spanish.", kSpanish},
    Voice{"mei", "Mei", "zh", "A woman's voice, Mandarin Chinese.", kChinese},
    Voice{"nova", "Nova", "en-US", "A woman's voice, American, bright.", kEnglish},
    Voice{"omar", "Omar", "ar", "A man's voice, Arabic.", kArabic},
    Voice{"sage", "Sage", "en-GB", "A woman's voice, British, unhurried.", kEnglish},
    Voice{kSceneVoice,
          "Scene",
          "",
          "Nobody's: what the text describes is made, and not read aloud.",
          "[birds] [footsteps] [knock] [door]"},
    Voice{"whisper", "Whisper", "en-US", "A whisper, American.", kEnglish},
    Voice{"yuki", "Yuki", "ja", "A woman's voice, Japanese.", kJapanese}};
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

std::optional<std::string_view> speaker(const std::optional<std::string>& voice) {
  return voice && *voice != kSceneVoice ? std::optional<std::string_view>(*voice) : std::nullopt;
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
