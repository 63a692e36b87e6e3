#include "worker/local/numbers.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <optional>
#include <system_error>

#include "common/base/ascii.h"

namespace audiogen {
namespace {

constexpr std::string_view kSlash = "\u2044", kEnDash = "\u2013", kMinus = "\u2212";

// Those that are kept as they are when a text is cleaned.
constexpr auto kFractions = std::to_array<std::string_view>({"½", "¼", "¾"});
constexpr auto kInDigits =
    std::to_array<std::string_view>({"1\u2044"
                                     "2",
                                     "1\u2044"
                                     "4",
                                     "3\u2044"
                                     "4"});
using Words = std::array<std::string_view, kFractions.size()>;

struct NumberWords {
  std::string_view voice;
  std::string_view minus;  // "": the engine says it
  Words alone, after_number;
  std::string_view yen = "";  // What is said behind a number for the sign before it.
};
constexpr Words kOwn{};  // the engine's own are good
constexpr auto kNumberWords = std::to_array<NumberWords>({
    {"ar", "ناقص ", {"نصف", "ربع", "ثلاثة أرباع"}, {"ونصف", "وربع", "وثلاثة أرباع"}},
    {"cmn-latn-pinyin",
     "负",
     {"二分之一", "四分之一", "四分之三"},
     {"又二分之一", "又四分之一", "又四分之三"},
     "元"},
    {"da", "minus ", kOwn, kOwn},
    {"de", "", kOwn, kOwn},
    {"en", "", kOwn, kOwn},
    {"en-us", "", kOwn, kOwn},
    {"es",
     "menos ",
     {"medio", "un cuarto", "tres cuartos"},
     {"y medio", "y un cuarto", "y tres cuartos"}},
    {"fr",
     "moins ",
     {"un demi", "un quart", "trois quarts"},
     {"et demi", "et quart", "trois quarts"}},
    {"hu", "mínusz ", kOwn, kOwn},
    {"it", "", kOwn, kOwn},
    {"ja",
     "マイナス",
     {"にぶんのいち", "よんぶんのいち", "よんぶんのさん"},
     {"と にぶんのいち", "と よんぶんのいち", "と よんぶんのさん"},
     "円"},
    {"ko",
     "마이너스 ",
     {"이분의 일", "사분의 일", "사분의 삼"},
     {"와 이분의 일", "와 사분의 일", "와 사분의 삼"}},
    {"nl",
     "",
     {"een half", "een kwart", "drie kwart"},
     {"en een half", "en een kwart", "en drie kwart"}},
    {"pl", "minus ", kOwn, kOwn},
    {"pt", "", kOwn, kOwn},
    {"ru",
     "минус ",
     {"половина", "четверть", "три четверти"},
     {"с половиной", "с четвертью", "и три четверти"}},
    {"tr", "eksi ", {"yarım", "çeyrek", "dörtte üç"}, {"buçuk", "bir çeyrek", "dörtte üç"}},
    {"uk",
     "мінус ",
     {"половина", "чверть", "три чверті"},
     {"з половиною", "з чвертю", "і три чверті"}},
});

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  for (auto at = text.find(from); at != std::string_view::npos; at = text.find(from)) {
    out.append(text.substr(0, at)).append(to);
    text.remove_prefix(at + from.size());
  }
  return out.append(text);
}

std::size_t digits_of(std::string_view text) {
  return std::min(text.find_first_not_of("0123456789"), text.size());
}

// Of "1,200.50" all of it, of "5." the five.
std::size_t number_of(std::string_view text) {
  std::size_t end = digits_of(text);
  while (end > 0 && end + 1 < text.size() && (text[end] == ',' || text[end] == '.') &&
         ascii::is_digit(text[end + 1])) {
    end += 1 + digits_of(text.substr(end + 1));
  }
  return end;
}

bool is_after_number(std::string_view before) {
  const bool spaced = before.ends_with(' ');
  before.remove_suffix(spaced ? 1 : 0);
  return !before.empty() && ascii::is_digit(before.back());
}

// A sum of yen or yuan that begins with its sign; 0: there is none.
constexpr std::string_view kYen = "¥";
constexpr auto kYenWords =
    std::to_array<std::string_view>({"円", "元", "圆", "圓", "块", "日元", "人民币"});
std::size_t yen_of(std::string_view text) {
  std::size_t number = text.starts_with(kYen) ? number_of(text.substr(kYen.size())) : 0;
  if (number == 0) {
    return 0;
  }
  number += kYen.size();
  for (const std::string_view many : {"万", "億", "亿", "兆", "千", "百"}) {
    number += text.substr(number).starts_with(many) ? many.size() : 0;
  }
  return number;
}

// The sign before a number; 0: there is none.
std::size_t minus_of(std::string_view text) {
  for (const std::string_view sign : {std::string_view("-"), kMinus, kEnDash}) {
    if (text.starts_with(sign) && digits_of(text.substr(sign.size())) > 0) {
      return sign.size();
    }
  }
  return 0;
}
bool begins_word(std::string_view before) {
  return before.empty() || before.back() == ' ' || before.back() == '\n' || before.back() == '(';
}

// The numbers around a fraction slash as English says them: "1⁄2" is "1 half", and behind a number
// of its own "and 1 half".
std::string with_fractions_said(std::string_view text) {
  constexpr auto kParts = std::to_array<std::string_view>({"",
                                                           "",
                                                           " half",
                                                           " third",
                                                           " quarter",
                                                           " fifth",
                                                           " sixth",
                                                           " seventh",
                                                           " eighth",
                                                           " ninth",
                                                           " tenth"});
  std::string out;
  while (!text.empty()) {
    const std::size_t digits = digits_of(text);
    if (digits == 0) {
      out += text.front();
      text.remove_prefix(1);
      continue;
    }
    const std::string_view above = text.substr(0, digits);
    text.remove_prefix(digits);
    const std::size_t below =
        text.starts_with(kSlash) ? digits_of(text.substr(kSlash.size())) : std::size_t{0};
    std::size_t part = 0;
    const char* const begin = text.data() + std::min(kSlash.size(), text.size());
    const bool said = below > 0 && std::from_chars(begin, begin + below, part).ec == std::errc{} &&
                      part >= 2 && part < kParts.size();
    if (said && out.ends_with(' ') && is_after_number(out)) {
      out += "and ";
    }
    out += above;
    if (said) {
      out.append(kParts[part]).append(above == "1" ? "" : "s");
      text.remove_prefix(kSlash.size() + below);
    }
  }
  return out;
}

struct Money {
  std::string_view sign, one, many;
};
constexpr auto kMoney = std::to_array<Money>({{"£", "pound", "pounds"},
                                              {"€", "euro", "euros"},
                                              {"¥", "yen", "yen"},
                                              {"₩", "won", "won"},
                                              {"₹", "rupee", "rupees"},
                                              {"₽", "ruble", "rubles"}});
struct Multiple {
  std::string_view written, said;
};
constexpr auto kMultiples = std::to_array<Multiple>({{"thousand", " thousand"},
                                                     {"million", " million"},
                                                     {"billion", " billion"},
                                                     {"trillion", " trillion"},
                                                     {"bn", " billion"},
                                                     {"tn", " trillion"},
                                                     {"k", " thousand"},
                                                     {"K", " thousand"},
                                                     {"m", " million"},
                                                     {"M", " million"},
                                                     {"B", " billion"}});

// Takes `prefix` off `text`. False: it does not begin with it.
bool take(std::string_view& text, std::string_view prefix) {
  const bool is_there = text.starts_with(prefix);
  text.remove_prefix(is_there ? prefix.size() : 0);
  return is_there;
}

std::string_view take_number(std::string_view& text) {
  const std::string_view out = text.substr(0, number_of(text));
  text.remove_prefix(out.size());
  return out;
}

// Quotes, dashes and marks beyond ASCII (U+2000 to U+203F, U+3000 to U+303F) are none.
bool begins_with_letter(std::string_view text) {
  for (const std::string_view marks : {"\xE2\x80", "\xE3\x80"}) {
    if (text.starts_with(marks)) {
      return false;
    }
  }
  return !text.empty() && (ascii::is_alnum(text.front()) || !ascii::is_ascii(text.front()));
}

// Takes the multiple that `text` begins with, behind a space or none. "": there is none.
std::string_view take_multiple(std::string_view& text) {
  for (const Multiple& multiple : kMultiples) {
    std::string_view rest = text;
    take(rest, " ");
    const bool is_word = multiple.said.ends_with(multiple.written);
    if ((is_word || rest.size() == text.size()) && take(rest, multiple.written) &&
        !begins_with_letter(rest)) {
      text = rest;
      return multiple.said;
    }
  }
  return "";
}

// Does a number that ended before `rest` go on in it, as a date or another range does?
constexpr std::string_view kInNumber = ".,:/-";
bool goes_on(std::string_view rest) {
  return rest.size() > 1 && kInNumber.find(rest[0]) != std::string_view::npos &&
         ascii::is_digit(rest[1]);
}

// A sum that begins with its sign, or a range of two, and how much of `text` it is.
struct Sum {
  std::string said;
  std::size_t size = 0;
};
std::optional<Sum> sum_of(std::string_view text) {
  constexpr std::size_t kCents = 2;  // digits
  const auto* const money = std::find_if(
      kMoney.begin(), kMoney.end(), [&](const Money& one) { return text.starts_with(one.sign); });
  if (money == kMoney.end()) {
    return std::nullopt;
  }
  std::string_view rest = text.substr(money->sign.size());
  take(rest, " ");
  const std::string_view number = take_number(rest);
  std::string_view upper;
  std::string_view range = rest;
  if (take(range, "-") || take(range, kEnDash)) {
    take(range, money->sign);
    upper = take_number(range);
    rest = upper.empty() ? rest : range;
    if (!upper.empty() && goes_on(rest)) {
      return std::nullopt;  // "€2024-12-01"
    }
  }
  const std::string_view multiple = take_multiple(rest);
  std::string_view behind = rest;
  take(behind, " ");
  // What is left as it is: "£5pm", and "£1 ½".
  if (number.empty() || begins_with_letter(rest) || rest.starts_with(kSlash) ||
      std::any_of(kFractions.begin(), kFractions.end(), [&](std::string_view one) {
        return behind.starts_with(one);
      })) {
    return std::nullopt;
  }
  Sum out{.said = std::string(number), .size = text.size() - rest.size()};
  if (!upper.empty()) {
    out.said.append(" to ").append(upper);
  }
  const std::size_t point = number.rfind('.');
  if (!multiple.empty() || !upper.empty()) {
    out.said.append(multiple).append(" ").append(money->many);
  } else if (point != std::string_view::npos && number.size() - point - 1 == kCents) {
    const std::string_view whole = number.substr(0, point), cents = number.substr(point + 1);
    out.said = std::string(whole).append(" ").append(whole == "1" ? money->one : money->many);
    out.said.append(cents == "00" ? "" : " ").append(cents == "00" ? "" : cents);
  } else {
    out.said.append(" ").append(number == "1" ? money->one : money->many);
  }
  return out;
}

// Whether the dash that `text` begins with, behind `before`, stands for "to": between whole numbers
// of which the second is larger. "2023–24" and "60–40" are no such.
bool is_range(std::string_view before, std::string_view text) {
  const auto* const last = std::find_if_not(before.rbegin(), before.rend(), [](char c) {
                             return ascii::is_digit(c);
                           }).base();
  const std::string_view low = before.substr(static_cast<std::size_t>(last - before.begin()));
  before.remove_suffix(low.size());
  const std::string_view high = text.substr(kEnDash.size(), digits_of(text.substr(kEnDash.size())));
  const std::string_view behind = text.substr(kEnDash.size() + high.size());
  constexpr std::size_t kMark = 3;  // bytes
  const std::string_view mark = before.substr(before.size() - std::min(before.size(), kMark));
  const bool has_before =
      !before.empty() &&
      (kInNumber.find(before.back()) != std::string_view::npos ||
       (begins_with_letter(mark) && begins_with_letter(before.substr(before.size() - 1))));
  return !low.empty() && !high.empty() && !has_before && !goes_on(behind) &&
         !behind.starts_with(kEnDash) &&
         (low.size() < high.size() || (low.size() == high.size() && low < high));
}

}  // namespace

std::string with_english_numbers_said(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    if (const auto sum = sum_of(text); sum && !is_after_number(out)) {
      out += sum->said;
      text.remove_prefix(sum->size);
    } else if (text.starts_with(kEnDash) && is_range(out, text)) {
      out += " to ";
      text.remove_prefix(kEnDash.size());
    } else if (text.starts_with(kEnDash) && minus_of(text) > 0 && begins_word(out)) {
      out += '-';
      text.remove_prefix(kEnDash.size());
    } else {
      out += text.front();
      text.remove_prefix(1);
    }
  }
  for (std::size_t i = 0; i < kFractions.size(); ++i) {
    out = replaced(out, kFractions[i], kInDigits[i]);
  }
  return with_fractions_said(out);
}

std::string with_numbers_said(std::string_view text, std::string_view voice) {
  const auto* const words =
      std::find_if(kNumberWords.begin(), kNumberWords.end(), [&](const NumberWords& row) {
        return row.voice == voice;
      });
  // By those who have no name for it, as NFKC has it; and what a name is said of is a mark.
  constexpr auto kKnowNumero = std::to_array<std::string_view>({"bg", "ru"});
  std::string known(text);
  if (std::find(kKnowNumero.begin(), kKnowNumero.end(), voice) == kKnowNumero.end()) {
    const bool cyrillic = voice == "uk" || voice == "be" || voice == "kk" || voice == "ky";
    known = replaced(known, "№", cyrillic ? "номер" : "No");
  }
  for (const std::string_view mark : {"™", "℠"}) {
    known = replaced(known, mark, " ");
  }
  if (words == kNumberWords.end()) {
    for (std::size_t i = 0; i < kFractions.size(); ++i) {
      known = replaced(known, kFractions[i], kInDigits[i]);
    }
    return known;
  }
  constexpr auto kIs = std::to_array<std::string_view>({"は", "が", "是", "为", "為"});
  const bool has_spaces = voice != "ja" && voice != "cmn-latn-pinyin";
  text = known;
  std::string out;
  while (!text.empty()) {
    const std::size_t minus = minus_of(text);
    const auto* const fraction =
        std::find_if(kFractions.begin(), kFractions.end(), [&](std::string_view one) {
          return text.starts_with(one);
        });
    const auto index = static_cast<std::size_t>(fraction - kFractions.begin());
    // Without spaces a hyphen is mostly none: "10時-12時", "歼-20".
    const bool begins =
        begins_word(out) ||
        (!has_spaces && std::any_of(kIs.begin(), kIs.end(), [&](std::string_view one) {
          return out.ends_with(one);
        }));
    const std::size_t yen = words->yen.empty() ? 0 : yen_of(text);
    if (yen > 0) {
      out.append(text.substr(kYen.size(), yen - kYen.size()));
      text.remove_prefix(yen);
      const bool is_said = std::any_of(kYenWords.begin(),
                                       kYenWords.end(),
                                       [&](std::string_view one) { return text.starts_with(one); });
      out += is_said ? "" : words->yen;
    } else if (minus > 0 && begins && !is_after_number(out) && !words->minus.empty()) {
      out += words->minus;
      text.remove_prefix(minus);
    } else if (fraction != kFractions.end() && !words->alone[index].empty()) {
      out += (is_after_number(out) ? words->after_number : words->alone)[index];
      text.remove_prefix(fraction->size());
      out += has_spaces && begins_with_letter(text) ? " " : "";
    } else {
      out += text.front();
      text.remove_prefix(1);
    }
  }
  return out;
}

}  // namespace audiogen
