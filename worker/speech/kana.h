// SPDX-License-Identifier: GPL-3.0-or-later
//
// Kanji to kana, by kakasi: the Japanese voice reads kana only.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include <iconv.h>

namespace audiogen::speech {

class KanaReader {
 public:
  // Loads the character-set modules, which no sandboxed process could.
  KanaReader();
  ~KanaReader();
  KanaReader(const KanaReader&) = delete;
  KanaReader& operator=(const KanaReader&) = delete;

  // Opens kakasi's dictionaries. Call in the process that will read, before its sandbox: forked
  // processes that share an open dictionary would move each other's position in it.
  static bool open_dictionaries();

  // The words of `text` (UTF-8) in kana, with spaces between them. What kakasi's character set
  // (JIS X 0208) lacks stays as it is, but for common variants of what it has.
  std::string read(std::string_view text) const;

 private:
  std::string convert(const std::string& euc_jp) const;
  std::string read_stem(const std::string& euc_jp) const;
  bool loses_stem(std::span<const std::string_view> characters, std::size_t next) const;

  iconv_t to_euc_jp_;
  iconv_t to_utf8_;
};

}  // namespace audiogen::speech
