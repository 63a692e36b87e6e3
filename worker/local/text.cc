#include "worker/local/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include <utf8proc.h>

#include "common/base/ascii.h"
#include "worker/local/language.h"
#include "worker/local/numbers.h"

namespace audiogen {
namespace {

constexpr char32_t kJoiner = 0x200D;         // ZERO WIDTH JOINER
constexpr char32_t kEmojiSelector = 0xFE0F;  // VARIATION SELECTOR-16
constexpr std::size_t kMarksMax = 4;
constexpr std::size_t kRunMax = 40;
// Of a clause of more Chinese characters than 199 espeak-ng 1.51 says no more.
constexpr std::size_t kHanMax = 100;
constexpr std::size_t kHanOfDigit = 2;  // As many are said of it: "五百".
constexpr char32_t kHanPause = 0x3001;  // IDEOGRAPHIC COMMA
// Where no grapheme ends: a chain of joined emoji is cut anyway.
constexpr std::size_t kRunMaxForced = 80;
// More unread letters than one in so many, or so many on end, are words and no decoration.
constexpr std::size_t kUnreadShare = 5;
constexpr std::size_t kUnreadWord = 3;
constexpr char32_t kTsheg = 0x0F0B;  // between the syllables of a Tibetan word

// Blank lines and C0 controls are what espeak-ng takes commands from; the line end is harmless and
// ends a sentence.
constexpr char32_t kLineEnd = '\n';

// U+E000, for private use: cleaned text has none.
constexpr std::string_view kPieceEnd = "\uE000";

// By the library that knows what characters are, so that both agree on what is one.
std::u32string to_code_points(std::string_view text) {
  std::u32string out;
  out.reserve(text.size());
  const auto* at = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  auto left = static_cast<utf8proc_ssize_t>(text.size());
  while (left > 0) {
    utf8proc_int32_t code_point = 0;
    const utf8proc_ssize_t used = utf8proc_iterate(at, left, &code_point);
    if (used <= 0) {
      return {};
    }
    out.push_back(static_cast<char32_t>(code_point));
    at += used;
    left -= used;
  }
  return out;
}

void append(std::string& out, char32_t code_point) {
  std::array<utf8proc_uint8_t, 4> bytes{};
  const utf8proc_ssize_t size =
      utf8proc_encode_char(static_cast<utf8proc_int32_t>(code_point), bytes.data());
  out.append(reinterpret_cast<const char*>(bytes.data()), static_cast<std::size_t>(size));
}

utf8proc_category_t category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

bool is_space(char32_t c) {
  const utf8proc_category_t kind = category(c);
  return c == kLineEnd || kind == UTF8PROC_CATEGORY_ZS || kind == UTF8PROC_CATEGORY_ZL ||
         kind == UTF8PROC_CATEGORY_ZP;
}

bool is_mark(char32_t c) {
  const utf8proc_category_t kind = category(c);
  return kind == UTF8PROC_CATEGORY_MN || kind == UTF8PROC_CATEGORY_MC ||
         kind == UTF8PROC_CATEGORY_ME;
}

bool is_letter(char32_t c) {
  const utf8proc_category_t kind = category(c);
  return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO;
}

bool is_number(char32_t c) {
  const utf8proc_category_t kind = category(c);
  return kind >= UTF8PROC_CATEGORY_ND && kind <= UTF8PROC_CATEGORY_NO;
}

bool has_numbers(std::string_view text) {
  const std::u32string all = to_code_points(text);
  return std::any_of(all.begin(), all.end(), is_number);
}

bool is_symbol(char32_t c) {
  const utf8proc_category_t kind = category(c);
  return kind >= UTF8PROC_CATEGORY_SM && kind <= UTF8PROC_CATEGORY_SO;
}

// Pictures, their skin tones, and the letters that make up flags (UTS 51).
bool is_emoji(char32_t c) {
  const auto bound = utf8proc_get_property(static_cast<utf8proc_int32_t>(c))->boundclass;
  const bool skin_tone = c >= 0x1F3FB && c <= 0x1F3FF;
  // Below U+2000 only the copyright and trade-mark signs count as pictographic: ordinary text.
  return skin_tone || (c >= 0x2000 && (bound == UTF8PROC_BOUNDCLASS_EXTENDED_PICTOGRAPHIC ||
                                       bound == UTF8PROC_BOUNDCLASS_REGIONAL_INDICATOR));
}

// Characters that carry no sound and must not split a word either.
bool is_invisible(char32_t c) {
  return c == 0x00AD || c == 0x034F || c == 0x20E3 || (c >= 0x200C && c <= 0x200D) ||
         (c >= 0x2060 && c <= 0x2064) || (c >= 0xFE00 && c <= 0xFE0F) ||
         (c >= 0x180B && c <= 0x180F) || (c >= 0xE0000 && c <= 0xE01FF);
}

// Characters that engines take for commands, that reorder text, or that mean nothing to anybody.
bool is_unwanted(char32_t c) {
  const utf8proc_category_t kind = category(c);
  return kind == UTF8PROC_CATEGORY_CC || kind == UTF8PROC_CATEGORY_CF ||
         kind == UTF8PROC_CATEGORY_CO || kind == UTF8PROC_CATEGORY_CN ||
         kind == UTF8PROC_CATEGORY_CS;
}

// Marks that stand between words or draw them out, which engines would name: "tilde".
bool is_said_by_name(char32_t c) {
  return c == U'~' || c == 0x301C || c == 0x30FB;
}

std::u32string drop_unspeakable(const std::u32string& in) {
  std::u32string out;
  out.reserve(in.size());
  std::size_t marks = 0;
  for (std::size_t i = 0; i < in.size(); ++i) {
    char32_t c = in[i];
    if (c == '\r') {
      c = kLineEnd;
    }
    const bool after_emoji = !out.empty() && (is_emoji(out.back()) || out.back() == kEmojiSelector);
    const bool joins = c == kJoiner && after_emoji && i + 1 < in.size() && is_emoji(in[i + 1]);
    const bool selects = c == kEmojiSelector && after_emoji && out.back() != kEmojiSelector;
    if (joins || selects) {
      out.push_back(c);
      continue;
    }
    if (is_invisible(c)) {
      continue;
    }
    marks = is_mark(c) ? marks + 1 : 0;
    if (marks > kMarksMax) {
      continue;
    }
    if (c == 0x02BC) {
      c = U'\'';  // The letter, of which engines say its name: "п\u02BCять".
    }
    const bool silent = is_unwanted(c) || is_said_by_name(c);
    out.push_back(c != kLineEnd && silent ? U' ' : c);
  }
  return out;
}

// Frees what utf8proc made.
struct Free {
  void operator()(utf8proc_uint8_t* memory) const { std::free(memory); }
};

struct Ascii {
  char32_t character;
  std::string_view text;
};

// What stands for characters that are more than a letter with marks, and for signs that an engine
// would leave out although they are read as words.
constexpr auto kAscii = std::to_array<Ascii>({
    {U'&', " and "},
    {U'\u00B5', " micro "},
    {U'+', " plus "},
    {U'=', " equals "},
    {U'@', " at "},
    {U'¢', " cents "},
    {U'£', " pounds "},
    {U'¥', " yen "},
    {U'©', " copyright "},
    {U'°', " degrees "},
    {U'±', " plus or minus "},
    {U'×', " times "},
    {U'÷', " divided by "},
    {U'₩', " won "},
    {U'€', " euros "},
    {U'₹', " rupees "},
    {U'₽', " rubles "},
    {U'√', " square root of "},
    {U'≈', " approximately "},
    {U'≠', " not equal to "},
    {U'≤', " less than or equal to "},
    {U'≥', " greater than or equal to "},
    {U'Æ', "Ae"},
    {U'æ', "ae"},
    {U'Œ', "Oe"},
    {U'œ', "oe"},
    {U'Ø', "O"},
    {U'ø', "o"},
    {U'Đ', "D"},
    {U'đ', "d"},
    {U'Ð', "D"},
    {U'ð', "d"},
    {U'Þ', "Th"},
    {U'þ', "th"},
    {U'Ł', "L"},
    {U'ł', "l"},
    {U'ß', "ss"},
    {U'ẞ', "SS"},
    {U'ı', "i"},
    {U'Ħ', "H"},
    {U'ħ', "h"},
    {U'Ŋ', "Ng"},
    {U'ŋ', "ng"},
    {U'Ɓ', "B"},
    {U'ɓ', "b"},
    {U'Ɗ', "D"},
    {U'ɗ', "d"},
    {U'Ƙ', "K"},
    {U'ƙ', "k"},
    {U'Ə', "E"},
    {U'ə', "e"},
    {U'Ɛ', "E"},
    {U'ɛ', "e"},
    {U'Ɔ', "O"},
    {U'ɔ', "o"},
    {U'ʻ', "'"},
    {U'ʼ', "'"},
    {U'‘', "'"},
    {U'’', "'"},
    {U'“', "\""},
    {U'”', "\""},
    {U'–', ", "},
    {U'—', ", "},
    {U'№', " number "},
    {U'℠', " "},
    {U'™', " "},
    {U'⁄', " over "},
    {U'−', "-"},
    {U'<', " "},
    {U'>', " "},
    {U'*', " "},
    {U'_', " "},
    {U'~', " "},
    {U'^', " "},
    {U'|', " "},
    {U'\\', " "},
    {U'#', " "},
});

struct ScriptRange {
  char32_t first, last;
  std::string_view language;  // the voice that reads it
};

constexpr std::string_view kHan = "cmn-latn-pinyin", kJapanese = "ja";

// The blocks of the scripts that espeak-ng has a voice for (Unicode Blocks.txt), ascending.
constexpr std::array kScripts = std::to_array<ScriptRange>({
    {0x0041, 0x024F, kLatin},      {0x0250, 0x02AF, kLatin},      {0x0370, 0x03FF, "el"},
    {0x0400, 0x052F, kCyrillic},   {0x0530, 0x058F, "hy"},        {0x0590, 0x05FF, "he"},
    {0x0600, 0x06FF, kArabic},     {0x0750, 0x077F, kArabic},     {0x08A0, 0x08FF, kArabic},
    {0x0900, 0x097F, kDevanagari}, {0x0980, 0x09FF, kBengali},    {0x0A00, 0x0A7F, "pa"},
    {0x0A80, 0x0AFF, "gu"},        {0x0B00, 0x0B7F, "or"},        {0x0B80, 0x0BFF, "ta"},
    {0x0C00, 0x0C7F, "te"},        {0x0C80, 0x0CFF, "kn"},        {0x0D00, 0x0D7F, "ml"},
    {0x0D80, 0x0DFF, "si"},        {0x0E00, 0x0E7F, "th"},        {0x1000, 0x109F, "my"},
    {0x10A0, 0x10FF, "ka"},        {0x1100, 0x11FF, "ko"},        {0x1200, 0x139F, "am"},
    {0x13A0, 0x13FF, "chr"},       {0x1C80, 0x1C8F, kCyrillic},   {0x1C90, 0x1CBF, "ka"},
    {0x1D00, 0x1DBF, kLatin},      {0x1E00, 0x1EFF, kLatin},      {0x1F00, 0x1FFF, "el"},
    {0x2C60, 0x2C7F, kLatin},      {0x2D00, 0x2D2F, "ka"},        {0x2D80, 0x2DDF, "am"},
    {0x2E80, 0x2FDF, kHan},        {0x3005, 0x3007, kHan},        {0x3031, 0x303C, kJapanese},
    {0x3040, 0x30FF, kJapanese},   {0x3130, 0x318F, "ko"},        {0x31F0, 0x31FF, kJapanese},
    {0x3400, 0x4DBF, kHan},        {0x4E00, 0x9FFF, kHan},        {0xA640, 0xA69F, kCyrillic},
    {0xA720, 0xA7FF, kLatin},      {0xA8E0, 0xA8FF, kDevanagari}, {0xA960, 0xA97F, "ko"},
    {0xA9E0, 0xA9FF, "my"},        {0xAA60, 0xAA7F, "my"},        {0xAB00, 0xAB2F, "am"},
    {0xAB30, 0xAB6F, kLatin},      {0xAB70, 0xABBF, "chr"},       {0xAC00, 0xD7FF, "ko"},
    {0xF900, 0xFAFF, kHan},        {0xFB50, 0xFDFF, kArabic},     {0xFE70, 0xFEFE, kArabic},
    {0x20000, 0x3FFFF, kHan},
});
static_assert(std::is_sorted(kScripts.begin(),
                             kScripts.end(),
                             [](const ScriptRange& a, const ScriptRange& b) {
                               return a.last < b.first;
                             }),
              "language_of searches by halves");

// The voice for a letter's script; nullopt for what all scripts share.
std::optional<std::string_view> script_of(char32_t c) {
  if (!is_letter(c)) {
    return std::nullopt;
  }
  const auto* const found = std::lower_bound(
      kScripts.begin(), kScripts.end(), c, [](const ScriptRange& range, char32_t code_point) {
        return range.last < code_point;
      });
  if (found == kScripts.end() || c < found->first) {
    return std::nullopt;
  }
  return found->language;
}

// Where engines end a word by themselves. Japanese and Chinese have no spaces: cut after so many
// characters, anywhere, every fortieth word was read as two others ("大|人").
bool ends_run(char32_t c) {
  return is_space(c) || c == kHanPause || c == 0x3002 || script_of(c) == kHan;
}

bool is_quote_of_han(char32_t c) {
  return c >= 0x300C && c <= 0x300F;
}

// Does a clause end with the mark at `at`, as espeak-ng 1.51 sees it? The marks of Chinese, made
// those of ASCII, end one only before a space: where there is none, one is wanted.
enum class ClauseEnd { kNone, kAsItIs, kWithSpace };
ClauseEnd clause_end(const std::u32string& text, std::size_t at) {
  const char32_t c = text[at];
  if (c == kHanPause || c == 0x3002) {
    return ClauseEnd::kAsItIs;
  }
  if (std::u32string_view(U",.;:!?").find(c) == std::u32string_view::npos) {
    return ClauseEnd::kNone;
  }
  const char32_t next = at + 1 < text.size() ? text[at + 1] : U' ';
  if (is_space(next)) {
    return ClauseEnd::kAsItIs;
  }
  return script_of(next) == kHan || is_quote_of_han(next) ? ClauseEnd::kWithSpace
                                                          : ClauseEnd::kNone;
}

// What the length of a Chinese clause is counted by.
enum class Spoken { kOfHan, kDigit, kElse };
Spoken spoken_of(char32_t c) {
  if (script_of(c) == kHan) {
    return Spoken::kOfHan;
  }
  return category(c) == UTF8PROC_CATEGORY_ND ? Spoken::kDigit : Spoken::kElse;
}

std::u32string break_long_runs(const std::u32string& in) {
  std::u32string out;
  out.reserve(in.size() + in.size() / kRunMax);
  std::size_t run = 0, han = 0;
  Spoken before = Spoken::kElse;
  utf8proc_int32_t state = 0;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const bool boundary =
        i == 0 ||
        utf8proc_grapheme_break_stateful(
            static_cast<utf8proc_int32_t>(in[i - 1]), static_cast<utf8proc_int32_t>(in[i]), &state);
    const ClauseEnd end = clause_end(in, i);
    const Spoken spoken = spoken_of(in[i]);
    if (spoken != Spoken::kElse) {
      const std::size_t more = spoken == Spoken::kDigit ? kHanOfDigit : 1;
      han += more;
      // Neither within a number nor between it and what it counts.
      if (han > kHanMax && before != Spoken::kDigit &&
          (spoken == Spoken::kOfHan || before == Spoken::kOfHan)) {
        out.push_back(kHanPause);
        han = more;
      }
    } else if (end != ClauseEnd::kNone || script_of(in[i]) == kJapanese) {
      han = 0;
    }
    before = spoken;
    if (ends_run(in[i])) {
      run = 0;
    } else if (++run > kRunMax && (boundary || run > kRunMaxForced)) {
      out.push_back(U' ');
      run = 1;
    }
    out.push_back(in[i]);
    if (end == ClauseEnd::kWithSpace) {
      out.push_back(U' ');
      run = 0;
    }
  }
  return out;
}

// espeak-ng 1.51 has no numbers in Hebrew and Cherokee: they were not said at all.
bool says_numbers(std::string_view voice) {
  return voice != "he" && voice != "chr";
}

// Letters of no script, such as the apostrophe in the middle of a Ukrainian word.
bool is_shared_letter(char32_t c) {
  return c >= 0x02B0 && c <= 0x02FF;
}

// Letters that no voice reads: engines spell out their numbers.
bool is_unread(char32_t c) {
  return is_letter(c) && !is_shared_letter(c) && !script_of(c);
}

// Of a decimal digit of any script, the one of ASCII. Unicode has them in rows from zero to nine,
// each code point after the one before it (4.6), and rows may follow each other.
char to_ascii_digit(char32_t digit) {
  char32_t zero = digit;
  while (category(zero - 1) == UTF8PROC_CATEGORY_ND) {
    --zero;
  }
  return static_cast<char>('0' + (digit - zero) % 10);
}

// Appends what stands for `c` in ASCII; a space, and false, where nothing does.
bool append_ascii(std::string& out, char32_t c) {
  const auto* const found = std::find_if(
      kAscii.begin(), kAscii.end(), [&](const Ascii& entry) { return entry.character == c; });
  if (found != kAscii.end()) {
    out += found->text;
    return true;
  }
  if (c < 0x80) {
    out += static_cast<char>(c);
    return true;
  }
  if (category(c) == UTF8PROC_CATEGORY_ND) {
    out += to_ascii_digit(c);
    return true;
  }
  std::array<utf8proc_int32_t, 18> parts{};  // U+FDFA has as many
  const auto count = static_cast<std::size_t>(utf8proc_decompose_char(
      static_cast<utf8proc_int32_t>(c),
      parts.data(),
      static_cast<utf8proc_ssize_t>(parts.size()),
      static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT | UTF8PROC_STRIPMARK),
      nullptr));
  if (count > parts.size() || (count == 1 && static_cast<char32_t>(parts[0]) == c)) {
    out += ' ';
    return false;
  }
  bool whole = true;
  for (std::size_t i = 0; i < count; ++i) {
    whole = append_ascii(out, static_cast<char32_t>(parts[i])) && whole;
  }
  return whole;
}

// The voice for all of `code_points` that are of `script`, where their language is certain; also
// against that of the voice `against`, if there is one.
std::optional<std::string_view> voice_for_script(const std::u32string& code_points,
                                                 std::string_view script,
                                                 std::string_view against) {
  std::string text;
  for (const char32_t c : code_points) {
    if (!is_letter(c) || is_shared_letter(c) || script_of(c) == script) {
      append(text, c);
    }
  }
  return voice_by_language(text, script, against);
}

// Voices that read Latin letters as their own language; the others leave them to English.
bool is_latin_language(std::string_view language) {
  return std::none_of(kScripts.begin(), kScripts.end(), [&](const ScriptRange& range) {
    return range.language == language;
  });
}

// What NFKC would make letters or several numbers of, and is read as what it is: "1º", "3ª", "5
// µm", fractions, "Windows™", "№ 5"; and the vowels of Thai and Lao that it would cut in two, of
// which engines know neither half ("น้ำ").
constexpr std::u32string_view kKept =
    U"\u00AA\u00B5\u00BA\u00BC\u00BD\u00BE\u2116\u2120\u2122\u0E33\u0EB3";

bool is_superscript(char32_t c) {
  return c == 0x00B2 || c == 0x00B3 || c == 0x00B9 || c == 0x2070 || (c >= 0x2074 && c <= 0x2079);
}

bool is_vulgar_fraction(char32_t c) {
  return (c >= 0x00BC && c <= 0x00BE) || (c >= 0x2150 && c <= 0x215E) || c == 0x2189;
}

// "①" to "㊿", "⒈" and the like.
bool is_enclosed_number(char32_t c) {
  return (c >= 0x2460 && c <= 0x249B) || c == 0x24EA || (c >= 0x3251 && c <= 0x325F) ||
         (c >= 0x32B1 && c <= 0x32BF);
}

// The marks of Chinese that NFKC makes those of numbers.
bool is_wide_mark(char32_t c) {
  return c == 0xFF0C || c == 0xFF1B || c == 0xFF01 || c == 0xFF1F;
}

// Are they thousands of the number before the mark, the three digits that begin at `at`? Japanese
// has that comma in numbers. Of groups of three that follow each other no item of a list begins
// with a zero ("1，000", "2，500，000"), but behind a first one that does ("001，002").
bool is_thousands(const std::u32string& text, std::size_t at) {
  constexpr std::size_t kGroup = 3;
  const auto is_digit = [&](std::size_t i) {
    return i < text.size() && text[i] >= U'0' && text[i] <= U'9';
  };
  const auto is_group = [&](std::size_t i) {
    return i > 1 && text[i - 1] == 0xFF0C && is_digit(i) && is_digit(i + 1) && is_digit(i + 2) &&
           !is_digit(i + kGroup);
  };
  // Of the number, or its group, that the comma before `i` ends; `i`: there is none of so few
  // digits.
  const auto before = [&](std::size_t i) {
    std::size_t begin = i - 1;
    while (begin > 0 && i - 1 - begin <= kGroup && is_digit(begin - 1)) {
      --begin;
    }
    return begin < i - 1 && i - 1 - begin <= kGroup ? begin : i;
  };
  if (!is_group(at) || before(at) == at) {
    return false;
  }
  std::size_t group = at, first = before(at);
  while (is_group(first) && before(first) != first) {
    group = std::exchange(first, before(first));
  }
  bool any = false;
  for (; is_group(group); group += kGroup + 1) {
    any = any || text[group] == U'0';
  }
  return any && text[first] != U'0';
}

// What NFKC would make one number of several: a fraction, or an exponent, is no further digit of
// the number before it (11⁄2 of "1½", 106 of "10⁶"), nor is what numbers an item (13 of "①3"), and
// a mark of Chinese separates no thousands ("100，200").
std::u32string with_numbers_apart(const std::u32string& in) {
  std::u32string out;
  out.reserve(in.size());
  for (std::size_t i = 0; i < in.size(); ++i) {
    const char32_t c = in[i];
    const char32_t last = out.empty() ? U' ' : out.back();
    const bool digit_before = category(last) == UTF8PROC_CATEGORY_ND;
    const bool digit = category(c) == UTF8PROC_CATEGORY_ND;
    const bool number_before = digit_before || is_enclosed_number(last);
    if ((digit_before && (is_superscript(c) || is_vulgar_fraction(c))) ||
        (number_before && is_enclosed_number(c)) || (is_enclosed_number(last) && digit) ||
        (is_wide_mark(last) && c >= U'0' && c <= U'9' && !is_thousands(in, i))) {
      out.push_back(U' ');
    }
    out.push_back(c);
  }
  return out;
}

// In NFKC (Unicode 15, UAX 15).
std::u32string normalized(const std::u32string& in) {
  std::string text;
  for (const char32_t c : in) {
    append(text, c);
  }
  utf8proc_uint8_t* mapped = nullptr;
  const utf8proc_ssize_t size = utf8proc_map(
      reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
      static_cast<utf8proc_ssize_t>(text.size()),
      &mapped,
      static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT));
  const std::unique_ptr<utf8proc_uint8_t, Free> owner(mapped);
  if (size < 0) {
    return {};
  }
  return to_code_points({reinterpret_cast<const char*>(mapped), static_cast<std::size_t>(size)});
}

}  // namespace

std::string clean_text(std::string_view prompt) {
  std::u32string text;
  for (std::u32string rest = with_numbers_apart(to_code_points(prompt)); !rest.empty();) {
    const std::size_t kept = std::min(rest.find_first_of(kKept), rest.size());
    text += normalized(rest.substr(0, kept));
    text += rest.substr(kept, 1);
    rest.erase(0, kept + 1);
  }
  text = break_long_runs(drop_unspeakable(text));
  // One ligature may stand for eighteen letters (U+FDFA).
  text.resize(std::min(text.size(), kCleanMax));
  std::string out;
  for (const char32_t c : text) {
    append(out, c);
  }
  return out;
}

std::string strip_reference_marks(std::string_view prompt) {
  constexpr std::string_view kMark = "@Audio";
  std::string out;
  while (!prompt.empty()) {
    const auto at = prompt.find(kMark);
    const auto digit = at == std::string_view::npos ? at : at + kMark.size();
    out.append(prompt.substr(0, at));
    if (at == std::string_view::npos) {
      break;
    }
    const auto next = [&](std::size_t i) { return i < prompt.size() ? prompt[i] : ' '; };
    const bool mark = next(digit) >= '1' && next(digit) <= '3' && !ascii::is_alnum(next(digit + 1));
    out.append(mark ? " " : kMark);
    prompt.remove_prefix(mark ? digit + 1 : digit);
  }
  return out;
}

bool is_speakable(std::string_view text) {
  const std::u32string code_points = to_code_points(text);
  return std::any_of(code_points.begin(), code_points.end(), [](char32_t c) {
    return is_letter(c) || is_number(c) || is_symbol(c) || is_emoji(c) || (c < 0x80 && c > 0x20);
  });
}

bool has_words(std::string_view text) {
  const std::u32string code_points = to_code_points(text);
  return std::any_of(code_points.begin(), code_points.end(), [](char32_t c) {
    return is_letter(c) || is_number(c);
  });
}

bool has_letters(std::string_view text) {
  const std::u32string code_points = to_code_points(text);
  return std::any_of(code_points.begin(), code_points.end(), is_letter);
}

bool has_more_than_marks(std::string_view text) {
  const std::u32string code_points = to_code_points(text);
  return std::any_of(code_points.begin(), code_points.end(), [](char32_t c) {
    return is_letter(c) || is_number(c) || is_symbol(c) || is_emoji(c);
  });
}

bool has_voices(std::string_view text) {
  std::size_t letters = 0;
  std::size_t unread = 0;
  std::size_t in_word = 0;  // letters that no voice reads, without a break
  for (const char32_t c : to_code_points(text)) {
    if (is_letter(c)) {
      ++letters;
    }
    if (is_unread(c)) {
      ++unread;
      ++in_word;
    } else if (!is_mark(c) && c != kTsheg) {
      in_word = 0;
    }
    if (in_word >= kUnreadWord) {
      return false;
    }
  }
  return unread * kUnreadShare <= letters;
}

std::string drop_unread(std::string_view text) {
  std::string out;
  bool dropping = false;
  for (const char32_t c : to_code_points(text)) {
    dropping = is_unread(c) || (dropping && is_mark(c));
    append(out, dropping ? U' ' : c);
  }
  return out;
}

std::optional<std::string> to_ascii(std::string_view text) {
  std::string out;
  for (const char32_t c : to_code_points(with_english_numbers_said(text))) {
    if (!append_ascii(out, c) && (script_of(c) || is_number(c))) {
      return std::nullopt;
    }
  }
  return has_words(out) ? std::optional(std::move(out)) : std::nullopt;
}

std::vector<TextRun> split_languages(std::string_view text, std::string_view language, bool named) {
  const std::u32string code_points = to_code_points(text);
  const bool has_kana = std::any_of(
      code_points.begin(), code_points.end(), [](char32_t c) { return script_of(c) == kJapanese; });
  const std::string_view latin = is_latin_language(language) ? language : "en-us";
  const auto shared = shared_scripts();
  const auto find_voice = [&](std::string_view script) -> std::string_view {
    if (script == kHan) {
      return has_kana || language == kJapanese ? kJapanese : kHan;
    }
    const bool own = std::any_of(shared.begin(), shared.end(), [&](const SharedScript& row) {
      return row.script == script && row.voice == language;
    });
    const std::string_view usual = script == kLatin ? latin : own ? language : script;
    const std::string_view voice =
        voice_for_script(code_points, script, named && usual == language ? usual : "")
            .value_or(usual);
    // Who speaks English keeps the English that is theirs.
    return voice == "en-us" && usual == "en" ? usual : voice;
  };
  std::vector<std::pair<std::string_view, std::string_view>> known;  // of each script, its voice
  const auto voice_of = [&](std::string_view script) -> std::string_view {
    const auto found = std::find_if(
        known.begin(), known.end(), [&](const auto& pair) { return pair.first == script; });
    return found != known.end() ? found->second
                                : known.emplace_back(script, find_voice(script)).second;
  };

  std::vector<TextRun> runs;
  // What all scripts share, before the first letter, waits for it.
  std::string leading;
  std::optional<std::string_view> current;  // the language of the last letter
  for (const char32_t c : code_points) {
    std::string_view wanted;
    const bool emoji = is_emoji(c);
    if (emoji) {
      wanted = "en-us";
    } else if (const auto script = script_of(c)) {
      wanted = voice_of(*script);
      current = wanted;
    } else if (!runs.empty() && leading.empty() && !is_number(c) && !is_symbol(c)) {
      append(runs.back().text, c);
      continue;
    } else if (current) {
      wanted = is_number(c) && !says_numbers(*current) ? "en-us" : *current;
    } else {
      append(leading, c);
      continue;
    }
    // "🔥 3 🔥 2": what stands between them.
    if (emoji && !runs.empty() && !leading.empty() && runs.size() < kRunsMax) {
      runs.push_back(TextRun{std::string(language), std::exchange(leading, {}), false});
    }
    const bool same = !runs.empty() && runs.back().language == wanted && runs.back().emoji == emoji;
    if (!same && has_numbers(leading) && !says_numbers(wanted) && runs.size() + 1 < kRunsMax) {
      runs.push_back(TextRun{"en-us", std::exchange(leading, {}), false});
    }
    if (!same && runs.size() < kRunsMax) {
      runs.push_back(TextRun{std::string(wanted), std::move(leading), emoji});
      leading.clear();
    }
    append(runs.back().text, c);
  }
  if (!leading.empty()) {
    runs.push_back(TextRun{std::string(language), std::move(leading), false});
  }
  return runs;
}

std::vector<std::vector<TextRun>> split_languages(const std::vector<std::string>& pieces,
                                                  std::string_view language,
                                                  bool named) {
  std::string text;
  for (const std::string& piece : pieces) {
    text += piece;
    text += kPieceEnd;
  }
  std::vector<std::vector<TextRun>> out(pieces.size());
  std::size_t piece = 0;
  for (const TextRun& run : split_languages(text, language, named)) {
    std::string_view rest = run.text;
    for (;;) {
      const std::size_t end = rest.find(kPieceEnd);
      if (const std::string_view words = rest.substr(0, end); !words.empty()) {
        out[piece].push_back({run.language, std::string(words), run.emoji});
      }
      if (end == std::string_view::npos) {
        break;
      }
      piece = std::min(piece + 1, pieces.size() - 1);
      rest.remove_prefix(end + kPieceEnd.size());
    }
  }
  return out;
}

std::vector<TextRun> split_sentences(const std::vector<TextRun>& runs, std::size_t bytes_max) {
  std::vector<TextRun> out;
  for (const TextRun& run : runs) {
    std::string piece;
    const auto flush = [&] {
      if (!piece.empty()) {
        out.push_back(TextRun{run.language, std::move(piece), run.emoji});
        piece.clear();
      }
    };
    char32_t before = 0;
    for (const char32_t c : to_code_points(run.text)) {
      append(piece, c);
      const bool mark_before = before == '.' || before == '!' || before == '?';
      const bool ends = c == kLineEnd || c == 0x3002 || (mark_before && is_space(c)) ||
                        (piece.size() >= bytes_max && is_space(c)) || piece.size() >= 2 * bytes_max;
      if (ends) {
        flush();
      }
      before = c;
    }
    flush();
  }
  return out;
}

}  // namespace audiogen
