// SPDX-License-Identifier: GPL-3.0-or-later

#include "worker/speech/kana.h"

#include <algorithm>
#include <array>
#include <functional>
#include <utility>
#include <vector>

extern "C" {  // its header forgets to say so
#include <libkakasi.h>
}

#include "common/base/ascii.h"
#include "common/base/utf8.h"

namespace audiogen::speech {
namespace {

// "" where it cannot be done. iconv takes its input without const and reports failure as all bits
// set.
std::string recode(iconv_t converter, std::string_view text) {
  std::string in(text);
  std::string out(text.size() * 3 + 8, '\0');  // no character of either set grows more
  char* from = in.data();
  char* to = out.data();
  std::size_t from_left = in.size(), to_left = out.size();
  iconv(converter, nullptr, nullptr, nullptr, nullptr);
  if (iconv(converter, &from, &from_left, &to, &to_left) == static_cast<std::size_t>(-1)) {
    return {};
  }
  out.resize(out.size() - to_left);
  return out;
}

// EUC-JP without its third set (JIS X 0212, which begins with this): of that kakasi takes the last
// two bytes for a character of JIS X 0208, and so "麵" for "跟", and "®" for nothing, for which all
// around it was lost.
constexpr char kThirdSet = '\x8F';

// Variants that JIS X 0208 lacks, as in names and in the list of kanji in common use, and what they
// are variants of.
struct Variant {
  std::string_view lacking, known;
};
constexpr auto kVariants = std::to_array<Variant>({
    {"髙", "高"},
    {"﨑", "崎"},
    {"麵", "麺"},
    {"頰", "頬"},
    {"塡", "填"},
    {"剝", "剥"},
    {"𠮟", "叱"},
    {"繫", "繋"},
    {"嚙", "噛"},
    {"醬", "醤"},
    {"鷗", "鴎"},
    {"瘦", "痩"},
    {"搔", "掻"},
    {"蠟", "蝋"},
    {"蔣", "蒋"},
    {"摑", "掴"},
});

// One character as kakasi reads it; "" where it knows none.
std::string to_euc_jp(iconv_t converter, std::string_view character) {
  const auto* const variant =
      std::find_if(kVariants.begin(), kVariants.end(), [&](const Variant& known) {
        return known.lacking == character;
      });
  std::string out = recode(converter, variant == kVariants.end() ? character : variant->known);
  // iconv has the yen sign and the overline as "\\" and "~" of ASCII, which are said by name.
  const bool is_ascii = out.size() == 1 && character.size() > 1;
  return out.starts_with(kThirdSet) || is_ascii ? std::string() : out;
}

constexpr std::string_view kSmallTsu = "\u3063";

char32_t code_point(std::string_view character) {
  return utf8_sequence_length(character) == 0 ? 0 : utf8_code_point(character);
}

bool is_kanji(std::string_view character) {
  const char32_t c = code_point(character);
  return c == 0x3005 || (c >= 0x3400 && c <= 0x9FFF) || (c >= 0xF900 && c <= 0xFAFF) ||
         (c >= 0x20000 && c <= 0x3FFFF);
}

bool is_hiragana(std::string_view character) {
  const char32_t c = code_point(character);
  return c >= 0x3041 && c <= 0x3096;
}

std::size_t count_small_tsu(std::string_view text) {
  std::size_t out = 0;
  for (auto at = text.find(kSmallTsu); at != std::string_view::npos;
       at = text.find(kSmallTsu, at + kSmallTsu.size())) {
    ++out;
  }
  return out;
}

// Without the spaces inside words, before what begins none: "おわ った".
std::string without_cuts(std::string_view kana) {
  constexpr auto kSmall = std::to_array<std::string_view>(
      {"ぁ", "ぃ", "ぅ", "ぇ", "ぉ", "っ", "ゃ", "ゅ", "ょ", "ゎ", "ー"});
  std::string out;
  while (!kana.empty()) {
    const std::string_view behind = kana.substr(1);
    const bool cuts = kana.front() == ' ' && !out.empty() &&
                      std::any_of(kSmall.begin(), kSmall.end(), [&](std::string_view small) {
                        return behind.starts_with(small);
                      });
    if (!cuts) {
      out += kana.front();
    }
    kana = behind;
  }
  return out;
}

std::vector<std::string_view> characters_of(std::string_view text) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    out.push_back(text.substr(0, std::max<std::size_t>(utf8_sequence_length(text), 1)));
    text.remove_prefix(out.back().size());
  }
  return out;
}

}  // namespace

KanaReader::KanaReader()
    : to_euc_jp_(iconv_open("EUC-JP", "UTF-8")), to_utf8_(iconv_open("UTF-8", "EUC-JP")) {}

KanaReader::~KanaReader() {
  for (const iconv_t converter : {to_euc_jp_, to_utf8_}) {
    if (converter != reinterpret_cast<iconv_t>(-1)) {
      iconv_close(converter);
    }
  }
}

bool KanaReader::open_dictionaries() {
  // kanji to hiragana, words apart, EUC-JP in and out (its UTF-8 mode reads nothing).
  std::array<std::string, 5> words = {"kakasi", "-JH", "-s", "-ieuc", "-oeuc"};
  std::array<char*, 5> arguments{};
  std::transform(
      words.begin(), words.end(), arguments.begin(), [](std::string& word) { return word.data(); });
  if (kakasi_getopt_argv(static_cast<int>(arguments.size()), arguments.data()) != 0) {
    return false;
  }
  // The second dictionary is opened by the first kanji: U+6F22 in EUC-JP.
  std::string kanji = "\xB4\xC1";
  kakasi_free(kakasi_do(kanji.data()));
  return true;
}

std::string KanaReader::convert(const std::string& euc_jp) const {
  if (euc_jp.empty()) {
    return {};
  }
  std::string in = euc_jp;
  char* const kana = kakasi_do(in.data());
  std::string out = kana != nullptr ? recode(to_utf8_, kana) : std::string();
  kakasi_free(kana);
  return without_cuts(out);
}

// What has gathered, read to its end.
std::string KanaReader::read_stem(const std::string& euc_jp) const {
  std::string out = convert(euc_jp);
  // "入っ" reads "いっっ".
  const std::string twice = std::string(kSmallTsu) + std::string(kSmallTsu);
  if (out.ends_with(twice)) {
    out.resize(out.size() - kSmallTsu.size());
  }
  return out;
}

// Behind kanji and a small tsu kakasi may lose both, and read "た" for "行った" and "払い" for
// "酔っ払い", or say the tsu twice, or leave the next kanji as it is: it copies a string over
// itself, which comes out one way or the other. Where the text ends with the tsu it reads both;
// "空っぽ" it knows as one word. Is it so before the character at `next`? By a few characters
// around.
bool KanaReader::loses_stem(std::span<const std::string_view> characters, std::size_t next) const {
  constexpr std::size_t kKanjiMost = 8, kAheadMost = 4;
  if (next < 2 || characters[next - 1] != kSmallTsu || !is_kanji(characters[next - 2])) {
    return false;
  }
  std::size_t from = next - 2;
  while (from > 0 && next - from < kKanjiMost && is_kanji(characters[from - 1])) {
    --from;
  }
  std::string stem, ending;
  for (std::size_t i = from; i < next; ++i) {
    const std::string euc_jp = to_euc_jp(to_euc_jp_, characters[i]);
    stem = euc_jp.empty() ? "" : stem + euc_jp;  // It is read up to there.
  }
  for (std::size_t i = next; i < std::min(characters.size(), next + kAheadMost); ++i) {
    const std::string euc_jp = to_euc_jp(to_euc_jp_, characters[i]);
    if (euc_jp.empty() || (!is_kanji(characters[i]) && !is_hiragana(characters[i]))) {
      break;
    }
    ending += euc_jp;
    if (characters[i] == kSmallTsu) {
      break;
    }
  }
  if (ending.empty()) {
    return true;  // Before what ends a word nothing is lost by a cut, and without one all may be.
  }
  // Other kanji bring theirs ("学校"), so what is read together is compared with both apart.
  const std::string kana = convert(stem + ending);
  const auto left = characters_of(kana);
  return count_small_tsu(kana) !=
             count_small_tsu(read_stem(stem)) + count_small_tsu(read_stem(ending)) ||
         std::any_of(left.begin(), left.end(), is_kanji);
}

// Does it count hours? kakasi reads that kanji as "とき" behind a digit.
bool is_hour(std::span<const std::string_view> characters, std::size_t at) {
  const bool digit_before =
      at > 0 && characters[at - 1].size() == 1 && ascii::is_digit(characters[at - 1].front());
  return characters[at] == "時" && digit_before &&
         (at + 1 == characters.size() || characters[at + 1] != "間");
}

// Is it the particle behind "today"? kakasi takes both together for "こんにちは".
bool is_behind_today(std::span<const std::string_view> characters, std::size_t at) {
  return at >= 2 && characters[at] == "は" && characters[at - 1] == "日" &&
         characters[at - 2] == "今";
}

// Is it the beginning of a word that is often said of today: "for the first time", "early"?
bool begins_an_adverb(std::span<const std::string_view> characters, std::size_t at) {
  const auto is = [&](std::size_t ahead, std::string_view what) {
    return at + ahead < characters.size() && characters[at + ahead] == what;
  };
  return (is(1, "じ") && is(2, "め")) || (is(1, "や") && (is(2, "く") || is(2, "い")));
}

// Particles are not written as they are said: "は" is "わ" where it is a word by itself, "へ" is
// "え", and so at the end of some words that kakasi leaves whole.
std::string with_particles_said(std::string_view kana) {
  struct Word {
    std::string_view written, said;
  };
  constexpr auto kWords = std::to_array<Word>({{"は", "わ"},
                                               {"へ", "え"},
                                               {"へは", "えわ"},
                                               {"かれは", "かれわ"},
                                               {"では", "でわ"},
                                               {"には", "にわ"},
                                               {"とは", "とわ"},
                                               {"これは", "これわ"},
                                               {"それは", "それわ"},
                                               {"あれは", "あれわ"},
                                               {"それでは", "それでわ"},
                                               {"または", "またわ"},
                                               {"あるいは", "あるいわ"},
                                               {"じつは", "じつわ"},
                                               {"こんにちは", "こんにちわ"},
                                               {"こんばんは", "こんばんわ"}});
  std::string out;
  while (!kana.empty()) {
    const std::size_t end = std::min(kana.find(' '), kana.size());
    const std::string_view word = kana.substr(0, end);
    const auto* const known = std::find_if(
        kWords.begin(), kWords.end(), [&](const Word& one) { return one.written == word; });
    out += known == kWords.end() ? word : known->said;
    const std::size_t spaces = std::min(kana.find_first_not_of(' ', end), kana.size()) - end;
    out.append(spaces, ' ');
    kana.remove_prefix(end + spaces);
  }
  return out;
}

// A kanji that stands alone and is read like a particle, in katakana, which is never taken for one:
// "歯", "葉".
std::string_view not_a_particle(std::span<const std::string_view> characters,
                                std::size_t at,
                                const std::function<std::string()>& reading) {
  const bool alone = is_kanji(characters[at]) && (at == 0 || !is_kanji(characters[at - 1])) &&
                     (at + 1 == characters.size() ||
                      (!is_kanji(characters[at + 1]) && characters[at + 1] != kSmallTsu));
  const std::string kana = alone ? reading() : std::string();
  return kana == "は" ? "ハ" : kana == "へ" ? "ヘ" : "";
}

std::string KanaReader::read(std::string_view text) const {
  if (to_euc_jp_ == reinterpret_cast<iconv_t>(-1) || to_utf8_ == reinterpret_cast<iconv_t>(-1)) {
    return std::string(text);
  }
  const std::vector<std::string_view> characters = characters_of(text);
  std::string out, convertible;
  for (std::size_t i = 0; i < characters.size(); ++i) {
    if (loses_stem(characters, i)) {
      out += with_particles_said(read_stem(std::exchange(convertible, {})));
    }
    if (is_behind_today(characters, i)) {
      out += with_particles_said(convert(std::exchange(convertible, {}))) + " ";
      if (!begins_an_adverb(characters, i)) {
        out += "わ ";
        continue;
      }
    }
    if (is_hour(characters, i)) {
      out += with_particles_said(convert(std::exchange(convertible, {}))) + " じ ";
      continue;
    }
    std::string euc_jp = to_euc_jp(to_euc_jp_, characters[i]);
    if (const std::string_view other =
            not_a_particle(characters, i, [&] { return convert(euc_jp); });
        !other.empty()) {
      euc_jp = to_euc_jp(to_euc_jp_, other);
    }
    if (!euc_jp.empty()) {
      convertible += euc_jp;
      continue;
    }
    out += with_particles_said(convert(convertible));
    out += characters[i];
    convertible.clear();
  }
  return out + with_particles_said(convert(convertible));
}

}  // namespace audiogen::speech
