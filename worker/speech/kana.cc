// SPDX-License-Identifier: GPL-3.0-or-later

#include "worker/speech/kana.h"

#include <algorithm>
#include <array>
#include <utility>

extern "C" {  // its header forgets to say so
#include <libkakasi.h>
}

#include "common/base/utf8.h"

namespace audiogen::speech {
namespace {

// iconv takes its input without const and reports failure as all bits set.
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

// Between the stem of a verb in kanji and the kana of its form ("行った") kakasi loses the stem,
// and reads "た"; where the text ends with it, it reads the stem.
constexpr std::string_view kSmallTsu = "\u3063";

bool is_kanji(std::string_view character) {
  if (utf8_sequence_length(character) == 0) {
    return false;
  }
  const char32_t c = utf8_code_point(character);
  return c == 0x3005 || (c >= 0x3400 && c <= 0x9FFF);
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
  return out;
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

std::string KanaReader::read(std::string_view text) const {
  if (to_euc_jp_ == reinterpret_cast<iconv_t>(-1) || to_utf8_ == reinterpret_cast<iconv_t>(-1)) {
    return std::string(text);
  }
  std::string out, convertible;
  std::string_view last, before_last;
  while (!text.empty()) {
    const std::string_view character =
        text.substr(0, std::max<std::size_t>(utf8_sequence_length(text), 1));
    text.remove_prefix(character.size());
    if (last == kSmallTsu && is_kanji(before_last) && !is_kanji(character)) {
      out += read_stem(std::exchange(convertible, {}));
    }
    before_last = std::exchange(last, character);
    const std::string euc_jp = recode(to_euc_jp_, character);
    if (!euc_jp.empty()) {
      convertible += euc_jp;
      continue;
    }
    out += convert(convertible);
    out += character;
    convertible.clear();
  }
  return out + convert(convertible);
}

}  // namespace audiogen::speech
