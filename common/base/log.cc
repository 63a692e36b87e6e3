#include "common/base/log.h"

#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include "common/base/json.h"
#include "common/base/time.h"
#include "common/base/utf8.h"

namespace audiogen::log {
namespace {

constexpr std::size_t kValueMax = 512;

struct State {
  std::string program = "audiogen";
  std::vector<Field> process;  // As identify() says.
  bool json = true;
  std::shared_ptr<spdlog::logger> logger = [] {
    auto made =
        std::make_shared<spdlog::logger>("log", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%v");
    made->set_level(spdlog::level::info);
    made->flush_on(spdlog::level::debug);
    return made;
  }();
};

State& state() {
  static State instance;
  return instance;
}

spdlog::level::level_enum spd(Level level) {
  switch (level) {
    case Level::kDebug:
      return spdlog::level::debug;
    case Level::kInfo:
      return spdlog::level::info;
    case Level::kWarn:
      return spdlog::level::warn;
    case Level::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

const char* name(Level level) {
  switch (level) {
    case Level::kDebug:
      return "debug";
    case Level::kInfo:
      return "info";
    case Level::kWarn:
      return "warn";
    case Level::kError:
      return "error";
  }
  return "error";
}

// Escapes for JSON, and more than it asks for: DEL, so that no control character reaches the
// terminal, and bytes that are no UTF-8, which become U+FFFD. Cut at a character.
void append_escaped(std::string& out, std::string_view text) {
  std::size_t done = 0;
  std::size_t length = 1;
  std::size_t i = 0;
  const auto append_to_here = [&] { append_json_escaped(out, text.substr(done, i - done)); };
  for (; i < text.size(); i += length) {
    const std::size_t sequence = utf8_sequence_length(text.substr(i));
    length = sequence == 0 ? 1 : sequence;
    if (i + length > kValueMax) {
      break;
    }
    if (sequence == 0 || text[i] == 0x7F) {
      append_to_here();
      out += sequence == 0 ? "\\ufffd" : "\\u007f";
      done = i + 1;
    }
  }
  append_to_here();
}

void append_field(std::string& line, const Field& field, bool json) {
  line += json ? ",\"" : " ";
  line += field.key;
  line += !json ? "=" : field.quoted ? "\":\"" : "\":";
  append_escaped(line, field.value);
  if (json && field.quoted) {
    line += '"';
  }
}

}  // namespace

void init(std::string_view program, std::string_view level, std::string_view format) {
  State& s = state();
  s.program = program;
  s.json = format != "text";
  s.logger->set_level(spdlog::level::from_str(std::string(level)));
}

void identify(std::string_view key, std::string value) {
  state().process.assign(1, Field(key, std::move(value)));
}

bool enabled(Level level) {
  return state().logger->should_log(spd(level));
}

void write(Level level,
           std::string_view event,
           std::span<const Field> about,
           std::initializer_list<Field> fields) {
  if (!enabled(level)) {
    return;
  }
  const State& s = state();
  const Instant now = local_now();
  std::string line;
  line.reserve(256);
  if (s.json) {
    line += "{\"time\":\"";
    line += format_iso_exact(now);
    line += "\",\"level\":\"";
    line += name(level);
    line += "\",\"program\":\"";
    line += s.program;
    line += "\",\"event\":\"";
    append_escaped(line, event);
    line += '"';
  } else {
    line += format_iso_exact(now);
    line += ' ';
    line += name(level);
    line += ' ';
    append_escaped(line, event);
  }
  for (const std::span<const Field> some :
       {about, std::span<const Field>(fields), std::span<const Field>(s.process)}) {
    for (const Field& field : some) {
      append_field(line, field, s.json);
    }
  }
  if (s.json) {
    line += '}';
  }
  s.logger->log(spd(level), spdlog::string_view_t(line.data(), line.size()));
}

}  // namespace audiogen::log
