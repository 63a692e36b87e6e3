// What makes a test that knows dates right at any minute of any day.
#pragma once

#include <chrono>
#include <string>

#include "common/base/time.h"
#include "tests/support/wait.h"

namespace audiogen::test {

// So many days from now, to the second.
inline Instant days_ahead(int days) {
  return std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now()) +
         std::chrono::days(days);
}

// The same moment as format_iso() writes, as a clock one hour east of it says it.
inline std::string an_hour_east(Instant at) {
  std::string out = format_iso(at + std::chrono::hours(1));
  out.replace(out.size() - 1, 1, "+01:00");
  return out;
}

// For tests of what is counted by the day or the month: in the last minutes of a day (UTC) it waits
// for the next one, in which the test then is from its beginning to its end, though single steps of
// it may take a minute.
inline void wait_out_midnight() {
  constexpr std::chrono::minutes kLongest{5};
  static_cast<void>(eventually(2 * kLongest, [&] {
    const auto now = std::chrono::system_clock::now();
    return std::chrono::ceil<std::chrono::days>(now) - now > kLongest;
  }));
}

}  // namespace audiogen::test
