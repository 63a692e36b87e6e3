#include "common/base/log.h"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <climits>
#include <memory>
#include <utility>
#include <vector>

#include <poll.h>
#include <spdlog/sinks/sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include "common/base/json.h"
#include "common/base/metrics.h"
#include "common/base/mutex.h"
#include "common/base/time.h"
#include "common/base/utf8.h"

namespace audiogen::log {
namespace {

constexpr std::size_t kValueMax = 512;
// How long a line may wait for whoever reads standard error, unless its thread is told otherwise.
constexpr std::chrono::milliseconds kPatience{100};
// The same while others' lines go out.
constexpr std::chrono::milliseconds kReadSlowly{1'000};

thread_local std::chrono::milliseconds patience = kPatience;

prometheus::Counter& lines_lost = metrics::counter(
    "log_lines_lost_total", "Lines of the log that were lost, because whoever reads it did not");

// Standard error is a pipe or a socket, mostly, and whoever reads it may be frozen: then it is full
// before long, and a thread that wrote would stand still until somebody finds out. So a line that
// does not go out soon is lost, and counted.
class Stderr final : public spdlog::sinks::sink {
 public:
  void log(const spdlog::details::log_msg& message) override {
    const std::string line = std::string(message.payload.data(), message.payload.size()) + '\n';
    const auto began = Clock::now();
    // As long as it is read at all, others only come first; but nobody waits for ever.
    const auto most = began + std::max(patience, kReadSlowly);
    std::uint64_t written = written_;
    auto until = began + (stuck_ ? std::chrono::milliseconds(0) : patience);
    for (;;) {
      {
        const MutexLock lock(mutex_);
        if (has_room(std::chrono::milliseconds(0))) {
          stuck_ = false;
          ++written_;
          if (!put(line)) {
            lines_lost.Increment();
          }
          return;
        }
      }
      const auto now = Clock::now();
      if (now >= until) {
        if (written_ == written || now >= most) {
          stuck_ = stuck_ || written_ == written;
          lines_lost.Increment();
          return;
        }
        written = written_;
        until = now + patience;
      }
      has_room(std::chrono::ceil<std::chrono::milliseconds>(until - now));
    }
  }
  void flush() override {}
  void set_pattern(const std::string& /*pattern*/) override {}
  void set_formatter(std::unique_ptr<spdlog::formatter> /*formatter*/) override {}

 private:
  using Clock = std::chrono::steady_clock;

  static bool has_room(std::chrono::milliseconds within) {
    pollfd out{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
    return ::poll(&out, 1, static_cast<int>(within.count())) > 0;
  }

  // A pipe with room takes PIPE_BUF bytes without making anybody wait (pipe(7)). Of a longer line
  // the rest may be missing.
  bool put(std::string_view line) LOCKS_REQUIRED(mutex_) {
    std::string mended;
    if (std::exchange(cut_, false)) {  // The one before ends here.
      mended = '\n' + std::string(line);
      line = mended;
    }
    for (bool begun = false; !line.empty(); begun = true) {
      const ssize_t count =
          begun && !has_room(std::chrono::milliseconds(0))
              ? -1
              : ::write(STDERR_FILENO, line.data(), std::min<std::size_t>(line.size(), PIPE_BUF));
      if (count < 0 && (begun || errno != EINTR)) {
        cut_ = begun;
        return false;
      }
      line.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    }
    return true;
  }

  std::atomic<bool> stuck_{false};  // One has waited in vain: none waits until there is room.
  std::atomic<std::uint64_t> written_{0};  // Lines.
  Mutex mutex_;                            // Lines stay whole.
  bool cut_ GUARDED_BY(mutex_) = false;    // The last one did not.
};

struct State {
  std::string program = "audiogen";
  std::vector<Field> process;  // As identify() says.
  bool json = true;
  std::shared_ptr<spdlog::logger> logger = [] {
    auto made = std::make_shared<spdlog::logger>("log", std::make_shared<Stderr>());
    made->set_level(spdlog::level::info);
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

void wait_for_reader(std::chrono::milliseconds most) {
  patience = most;
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
