// Points in time as the database tells them (UTC, microseconds) and how the interface writes them.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace audiogen {

using namespace std::chrono_literals;

// UTC. Every instant that rules compare comes from the database's clock, never from a process's
// own.
using Instant = std::chrono::sys_time<std::chrono::microseconds>;

// What is later than now by more than this is of a clock that was set back since.
inline constexpr std::chrono::seconds kClockSlack{2};

// What this machine's own clock says: where the time of day is this process's affair (its logs and
// mails, the ids it makes, tokens and links), and to compare it with another clock.
inline Instant local_now() {
  return std::chrono::floor<Instant::duration>(std::chrono::system_clock::now());
}

// "2026-11-20 23:10:32.123456" as DATETIME(6) prints it; the fraction may be shorter or missing.
std::optional<Instant> parse_db_time(std::string_view text);

// The same form, for SQL.
std::string format_db_time(Instant at);

// "2026-11-20T23:10:32.123Z" (RFC 3339).
std::string format_iso(Instant at);
// The same to the microsecond.
std::string format_iso_exact(Instant at);

// A date and time of RFC 3339 with any offset, to the microsecond (further digits are cut off).
// Nullopt for anything else, for what the calendar does not have, and for leap seconds.
std::optional<Instant> parse_iso(std::string_view text);

}  // namespace audiogen
