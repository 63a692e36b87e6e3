// Structured logs on standard error: one JSON object (or one text line) per event.
//
// Never pass a prompt, a request body, an API key, an Idempotency-Key, an address with credentials
// or a signed link to any of these functions; ids, names, counts and codes are what a log is for.
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "common/base/ids.h"

namespace audiogen::log {

enum class Level { kDebug, kInfo, kWarn, kError };

// One member of a log line. Values are escaped and cut at 512 bytes.
struct Field {
  std::string_view key;
  std::string value;
  bool quoted = true;

  Field(std::string_view k, std::string v) : key(k), value(std::move(v)) {}
  Field(std::string_view k, std::string_view v) : key(k), value(v) {}
  Field(std::string_view k, const char* v) : key(k), value(v) {}
  Field(std::string_view k, bool v) : key(k), value(v ? "true" : "false"), quoted(false) {}
  template <std::integral N>
  requires(!std::same_as<N, bool>) Field(std::string_view k, N v)
      : key(k), value(std::to_string(v)), quoted(false) {}
  Field(std::string_view k, double v) : key(k), value(std::to_string(v)), quoted(false) {}
  template <class Tag>
  Field(std::string_view k, const Id<Tag>& v) : key(k), value(v.text()) {}
};

// Sets the lowest level written ("debug", "info", "warn", "error"), the form ("json" or "text") and
// the name of the program. Call once, before threads start; without it: info, json.
void init(std::string_view program, std::string_view level, std::string_view format);

// Says which process this is: a member of each of its lines from now on. Call once, before threads
// start.
void identify(std::string_view key, std::string value);

// True when `level` is written: ask before computing costly fields.
bool enabled(Level level);

// How long each line of this thread may wait for whoever reads standard error from now on; without
// it 100 ms. While others' lines go out it is a second. For threads whom nobody waits for.
void wait_for_reader(std::chrono::milliseconds most);

// Writes one event: what it is about, then the rest. Thread-safe. Where whoever reads standard
// error does not, the line is lost (log_lines_lost_total), after 100 ms the first one, at once the
// others.
void write(Level level,
           std::string_view event,
           std::span<const Field> about,
           std::initializer_list<Field> fields = {});
inline void write(Level level, std::string_view event, std::initializer_list<Field> fields = {}) {
  write(level, event, {}, fields);
}

inline void debug(std::string_view event, std::initializer_list<Field> fields = {}) {
  if (enabled(Level::kDebug)) {
    write(Level::kDebug, event, fields);
  }
}
inline void debug(std::string_view event,
                  std::span<const Field> about,
                  std::initializer_list<Field> fields = {}) {
  if (enabled(Level::kDebug)) {
    write(Level::kDebug, event, about, fields);
  }
}
inline void info(std::string_view event, std::initializer_list<Field> fields = {}) {
  write(Level::kInfo, event, fields);
}
inline void info(std::string_view event,
                 std::span<const Field> about,
                 std::initializer_list<Field> fields = {}) {
  write(Level::kInfo, event, about, fields);
}
inline void warn(std::string_view event, std::initializer_list<Field> fields = {}) {
  write(Level::kWarn, event, fields);
}
inline void warn(std::string_view event,
                 std::span<const Field> about,
                 std::initializer_list<Field> fields = {}) {
  write(Level::kWarn, event, about, fields);
}
inline void error(std::string_view event, std::initializer_list<Field> fields = {}) {
  write(Level::kError, event, fields);
}
inline void error(std::string_view event,
                  std::span<const Field> about,
                  std::initializer_list<Field> fields = {}) {
  write(Level::kError, event, about, fields);
}

}  // namespace audiogen::log
