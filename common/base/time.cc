#include "common/base/time.h"

#include "common/base/ascii.h"

namespace audiogen {
namespace {

std::optional<int> digits(std::string_view text, std::size_t at, std::size_t count) {
  int value = 0;
  for (std::size_t i = at; i < at + count; ++i) {
    if (!ascii::is_digit(text[i])) {
      return std::nullopt;
    }
    value = value * 10 + (text[i] - '0');
  }
  return value;
}

constexpr std::size_t kDateAndTime = 19;  // Characters up to the seconds.

// "2026-11-20?23:10:32" that `text`, of at least so many characters, starts with; any "?".
std::optional<Instant> date_and_time(std::string_view text) {
  const auto year = digits(text, 0, 4), month = digits(text, 5, 2), day = digits(text, 8, 2);
  const auto hour = digits(text, 11, 2), minute = digits(text, 14, 2), second = digits(text, 17, 2);
  if (text[4] != '-' || text[7] != '-' || text[13] != ':' || text[16] != ':' || !year || !month ||
      !day || !hour || !minute || !second) {
    return std::nullopt;
  }
  const std::chrono::year_month_day date{std::chrono::year(*year),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok() || *hour > 23 || *minute > 59 || *second > 59) {
    return std::nullopt;
  }
  return Instant(std::chrono::sys_days(date)) + std::chrono::hours(*hour) +
         std::chrono::minutes(*minute) + std::chrono::seconds(*second);
}

struct Fraction {
  std::chrono::microseconds value;
  std::size_t length;  // Characters, the point included.
};

// ".123…" that `text` starts with, or nothing; nullopt for a point without a digit.
std::optional<Fraction> fraction(std::string_view text) {
  if (!text.starts_with('.')) {
    return Fraction{};
  }
  int micros = 0;
  std::size_t length = 1;
  for (int scale = 100'000; length < text.size() && ascii::is_digit(text[length]); ++length) {
    micros += (text[length] - '0') * scale;
    scale /= 10;
  }
  return length == 1 ? std::nullopt
                     : std::optional(Fraction{std::chrono::microseconds(micros), length});
}

struct Parts {
  int year, month, day, hour, minute, second, micros;
};

Parts split(Instant at) {
  const auto day = std::chrono::floor<std::chrono::days>(at);
  const std::chrono::year_month_day date(day);
  const auto us = (at - day).count();
  const auto seconds = static_cast<int>(us / 1'000'000);
  return {int(date.year()),
          static_cast<int>(unsigned(date.month())),
          static_cast<int>(unsigned(date.day())),
          seconds / 3600,
          seconds / 60 % 60,
          seconds % 60,
          static_cast<int>(us % 1'000'000)};
}

// Writes the last `count` digits of `value`, which is not negative.
void put(std::string& out, std::size_t at, std::size_t count, int value) {
  for (std::size_t i = at + count; i > at; --i, value /= 10) {
    out[i - 1] = static_cast<char>('0' + value % 10);
  }
}

void put_date(std::string& out, const Parts& p) {
  put(out, 0, 4, p.year);
  put(out, 5, 2, p.month);
  put(out, 8, 2, p.day);
  put(out, 11, 2, p.hour);
  put(out, 14, 2, p.minute);
  put(out, 17, 2, p.second);
}

}  // namespace

std::optional<Instant> parse_db_time(std::string_view text) {
  constexpr std::size_t kLongest = 26;
  if (text.size() < kDateAndTime || text.size() == kDateAndTime + 1 || text.size() > kLongest ||
      text[10] != ' ') {
    return std::nullopt;
  }
  const auto whole = date_and_time(text);
  const auto part = fraction(text.substr(kDateAndTime));
  if (!whole || !part || part->length != text.size() - kDateAndTime) {
    return std::nullopt;
  }
  return *whole + part->value;
}

std::optional<Instant> parse_iso(std::string_view text) {
  if (text.size() < kDateAndTime || (text[10] != 'T' && text[10] != 't')) {
    return std::nullopt;
  }
  const auto whole = date_and_time(text);
  const auto part = fraction(text.substr(kDateAndTime));
  if (!whole || !part) {
    return std::nullopt;
  }
  const std::string_view zone = text.substr(kDateAndTime + part->length);
  if (zone == "Z" || zone == "z") {
    return *whole + part->value;
  }
  if (zone.size() != 6 || (zone[0] != '+' && zone[0] != '-') || zone[3] != ':') {
    return std::nullopt;
  }
  const auto hour = digits(zone, 1, 2), minute = digits(zone, 4, 2);
  if (!hour || !minute || *hour > 23 || *minute > 59) {
    return std::nullopt;
  }
  const auto ahead = std::chrono::hours(*hour) + std::chrono::minutes(*minute);
  return *whole + part->value - (zone[0] == '+' ? ahead : -ahead);
}

// Not snprintf: a creation formats a dozen times, and its locale-aware machinery is ten times the
// work.
std::string format_db_time(Instant at) {
  std::string out = "0000-00-00 00:00:00.000000";
  const Parts p = split(at);
  put_date(out, p);
  put(out, 20, 6, p.micros);
  return out;
}

std::string format_iso(Instant at) {
  std::string out = "0000-00-00T00:00:00.000Z";
  const Parts p = split(at);
  put_date(out, p);
  put(out, 20, 3, p.micros / 1000);
  return out;
}

std::string format_iso_exact(Instant at) {
  std::string out = format_db_time(at);
  out[10] = 'T';
  return out += 'Z';
}

}  // namespace audiogen
