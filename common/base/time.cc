#include "common/base/time.h"

namespace audiogen {
namespace {

std::optional<int> digits(std::string_view text, std::size_t at, std::size_t count) {
  int value = 0;
  for (std::size_t i = at; i < at + count; ++i) {
    if (text[i] < '0' || text[i] > '9') {
      return std::nullopt;
    }
    value = value * 10 + (text[i] - '0');
  }
  return value;
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
  constexpr std::string_view kForm = "####-##-## ##:##:##.######";
  if (text.size() < 19 || text.size() == 20 || text.size() > kForm.size()) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (kForm[i] != '#' && text[i] != kForm[i]) {
      return std::nullopt;
    }
  }
  const auto year = digits(text, 0, 4), month = digits(text, 5, 2), day = digits(text, 8, 2);
  const auto hour = digits(text, 11, 2), minute = digits(text, 14, 2), second = digits(text, 17, 2);
  if (!year || !month || !day || !hour || !minute || !second) {
    return std::nullopt;
  }
  int micros = 0;
  for (std::size_t i = 20; i < 26; ++i) {
    micros *= 10;
    if (i < text.size()) {
      const auto digit = digits(text, i, 1);
      if (!digit) {
        return std::nullopt;
      }
      micros += *digit;
    }
  }
  const std::chrono::year_month_day date{std::chrono::year(*year),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok() || *hour > 23 || *minute > 59 || *second > 59) {
    return std::nullopt;
  }
  return Instant(std::chrono::sys_days(date)) + std::chrono::hours(*hour) +
         std::chrono::minutes(*minute) + std::chrono::seconds(*second) +
         std::chrono::microseconds(micros);
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

}  // namespace audiogen
