// Which language a text is in, among those that share its letters. Pure.
#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace audiogen {

// The scripts that voices of several languages read, by the voice that reads what tells no more.
inline constexpr std::string_view kLatin = "latin", kCyrillic = "ru", kArabic = "ar",
                                  kDevanagari = "hi", kBengali = "bn";

struct SharedScript {
  std::string_view script;
  std::string_view code;   // of ISO 639
  std::string_view voice;  // espeak-ng's
};

// Every language that is told from the others of its script.
std::span<const SharedScript> shared_scripts();

// The voice for `text`, whose letters are all of `script`: by libcld2, where that is reliable, else
// by letters that only one of its languages has. Nullopt where neither is sure, as of most single
// words, or where the language has no voice. Where `against` is a voice of that script libcld2 has
// to be sure of another language also if it expects that voice's: of short sentences it is wrong
// now and then ("Batterie faible." is no English).
std::optional<std::string_view> voice_by_language(std::string_view text,
                                                  std::string_view script,
                                                  std::string_view against = {});

}  // namespace audiogen
