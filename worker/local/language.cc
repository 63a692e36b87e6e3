#include "worker/local/language.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <string>

// Uses FILE without saying where it is from.
#include <cld2/public/compact_lang_det.h>
#include <cld2/public/encodings.h>

namespace audiogen {
namespace {

constexpr auto kLanguages = std::to_array<SharedScript>({
    {kLatin, "af", "af"},      {kLatin, "az", "az"},      {kLatin, "bs", "bs"},
    {kLatin, "ca", "ca"},      {kLatin, "cs", "cs"},      {kLatin, "cy", "cy"},
    {kLatin, "da", "da"},      {kLatin, "de", "de"},      {kLatin, "en", "en-us"},
    {kLatin, "es", "es"},      {kLatin, "et", "et"},      {kLatin, "eu", "eu"},
    {kLatin, "fi", "fi"},      {kLatin, "fr", "fr"},      {kLatin, "ga", "ga"},
    {kLatin, "hr", "hr"},      {kLatin, "ht", "ht"},      {kLatin, "hu", "hu"},
    {kLatin, "id", "id"},      {kLatin, "is", "is"},      {kLatin, "it", "it"},
    {kLatin, "lt", "lt"},      {kLatin, "lv", "lv"},      {kLatin, "ms", "ms"},
    {kLatin, "mt", "mt"},      {kLatin, "nl", "nl"},      {kLatin, "no", "nb"},
    {kLatin, "pl", "pl"},      {kLatin, "pt", "pt"},      {kLatin, "ro", "ro"},
    {kLatin, "sk", "sk"},      {kLatin, "sl", "sl"},      {kLatin, "sq", "sq"},
    {kLatin, "sv", "sv"},      {kLatin, "sw", "sw"},      {kLatin, "tr", "tr"},
    {kLatin, "uz", "uz"},      {kLatin, "vi", "vi"},      {kCyrillic, "be", "be"},
    {kCyrillic, "bg", "bg"},   {kCyrillic, "kk", "kk"},   {kCyrillic, "ky", "ky"},
    {kCyrillic, "mk", "mk"},   {kCyrillic, "ru", "ru"},   {kCyrillic, "sr", "sr"},
    {kCyrillic, "tt", "tt"},   {kCyrillic, "uk", "uk"},   {kArabic, "ar", "ar"},
    {kArabic, "fa", "fa"},     {kArabic, "sd", "sd"},     {kArabic, "ug", "ug"},
    {kArabic, "ur", "ur"},     {kDevanagari, "hi", "hi"}, {kDevanagari, "mr", "mr"},
    {kDevanagari, "ne", "ne"}, {kBengali, "as", "as"},    {kBengali, "bn", "bn"},
});

// Letters that are in one language of the script and not in those it is taken for. The first row
// that has one in the text decides: Urdu has Persian's letters, too.
struct OwnLetters {
  std::string_view script, voice;
  std::array<std::string_view, 8> letters;
};
constexpr auto kOwnLetters = std::to_array<OwnLetters>({
    {kCyrillic, "be", {"ў", "Ў"}},
    {kCyrillic, "sr", {"ђ", "Ђ", "ћ", "Ћ"}},
    {kCyrillic, "mk", {"ѓ", "Ѓ", "ќ", "Ќ", "ѕ", "Ѕ"}},
    {kCyrillic, "kk", {"ә", "Ә", "қ", "Қ", "ғ", "Ғ", "ұ", "Ұ"}},
    {kCyrillic, "uk", {"і", "І", "ї", "Ї", "є", "Є", "ґ", "Ґ"}},
    {kArabic, "ur", {"ٹ", "ڈ", "ڑ", "ے", "ں"}},
    {kArabic, "sd", {"ڻ", "ڄ", "ڃ", "ٻ", "ڳ"}},
    {kArabic, "fa", {"پ", "چ", "ژ", "گ", "ک", "ی"}},
});

std::optional<std::string_view> by_letters(std::string_view text, std::string_view script) {
  for (const OwnLetters& row : kOwnLetters) {
    const bool found =
        row.script == script &&
        std::any_of(row.letters.begin(), row.letters.end(), [&](std::string_view one) {
          return !one.empty() && text.find(one) != std::string_view::npos;
        });
    if (found) {
      return row.voice;
    }
  }
  return std::nullopt;
}

// A code that libcld2 is sure of.
std::optional<std::string_view> detected(std::string_view text,
                                         CLD2::Language expected = CLD2::UNKNOWN_LANGUAGE) {
  constexpr int kMostOfIt = 80;  // percent: a quotation does not change who speaks
  const CLD2::CLDHints hints{nullptr, nullptr, CLD2::UNKNOWN_ENCODING, expected};
  std::array<CLD2::Language, 3> languages{};
  std::array<int, 3> percent{};
  std::array<double, 3> scores{};
  int bytes = 0, valid = 0;
  bool reliable = false;
  CLD2::ExtDetectLanguageSummaryCheckUTF8(text.data(),
                                          static_cast<int>(text.size()),
                                          true,
                                          &hints,
                                          0,
                                          languages.data(),
                                          percent.data(),
                                          scores.data(),
                                          nullptr,
                                          &bytes,
                                          &reliable,
                                          &valid);
  if (!reliable || percent[0] < kMostOfIt) {
    return std::nullopt;
  }
  return CLD2::LanguageCode(languages[0]);
}

}  // namespace

std::span<const SharedScript> shared_scripts() {
  return kLanguages;
}

std::optional<std::string_view> voice_by_language(std::string_view text,
                                                  std::string_view script,
                                                  std::string_view against) {
  std::optional<std::string_view> code = detected(text);
  // Of British and American English the one row says both.
  const std::string_view own = against == "en" ? "en-us" : against;
  const auto* const expected =
      std::find_if(kLanguages.begin(), kLanguages.end(), [&](const SharedScript& language) {
        return language.script == script && language.voice == own;
      });
  constexpr std::size_t kShort = 200;  // bytes
  if (code && expected != kLanguages.end() && *code != expected->code && text.size() < kShort &&
      detected(text, CLD2::GetLanguageFromName(std::string(expected->code).c_str())) != code) {
    code.reset();
  }
  const auto* const found =
      std::find_if(kLanguages.begin(), kLanguages.end(), [&](const SharedScript& language) {
        return language.script == script && language.code == code;
      });
  return found == kLanguages.end() ? by_letters(text, script) : found->voice;
}

}  // namespace audiogen
