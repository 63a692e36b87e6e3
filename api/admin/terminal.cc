#include "api/admin/terminal.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "common/base/check.h"

namespace audiogen::api {
namespace {

constexpr char kEnter[] = "\x1B[?1049h\x1B[?25l";  // The other screen; no cursor.
constexpr char kLeave[] = "\x1B[0m\x1B[?25h\x1B[?1049l";

sigset_t ending() {
  sigset_t out;
  ::sigemptyset(&out);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH}) {
    ::sigaddset(&out, number);
  }
  return out;
}

}  // namespace

bool Terminal::there() {
  return ::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1;
}

Terminal::Terminal() {
  const sigset_t set = ending();
  AG_CHECK(::pthread_sigmask(SIG_BLOCK, &set, &blocked_before_) == 0);
  signals_ = UniqueFd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  AG_CHECK(static_cast<bool>(signals_));
  AG_CHECK(::tcgetattr(STDIN_FILENO, &before_) == 0);
  termios raw = before_;
  // Control-C stays a signal, which ends this as any other does; nothing stops it in the middle.
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  raw.c_iflag &= ~static_cast<tcflag_t>(IXON);
  raw.c_cc[VMIN] = 0;
  raw.c_cc[VTIME] = 0;
  raw.c_cc[VSUSP] = _POSIX_VDISABLE;
  static_cast<void>(::tcsetattr(STDIN_FILENO, TCSAFLUSH, &raw));
  write_all(kEnter);
}

Terminal::~Terminal() {
  write_all(kLeave);
  static_cast<void>(::tcsetattr(STDIN_FILENO, TCSAFLUSH, &before_));
  static_cast<void>(::pthread_sigmask(SIG_SETMASK, &blocked_before_, nullptr));
}

ScreenSize Terminal::size() const {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0) {
    return {};
  }
  return {.rows = size.ws_row, .columns = size.ws_col};
}

void Terminal::show(const std::vector<std::string>& lines) {
  // In one write, line by line over what is there: nothing flickers.
  std::string out = "\x1B[H";
  for (std::size_t i = 0; i < lines.size(); ++i) {
    out += (i == 0 ? "" : "\r\n") + lines[i] + "\x1B[K";
  }
  write_all(out + "\x1B[J");
}

std::optional<Terminal::Event> Terminal::wait(std::chrono::milliseconds limit) {
  if (const auto key = next_key()) {
    return *key;
  }
  std::array<pollfd, 2> fds = {{{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0},
                                {.fd = signals_.get(), .events = POLLIN, .revents = 0}}};
  // The rest of a key's bytes comes at once, or there is none: then it was the escape key.
  constexpr int kRest = 50;
  const int most = typed_.empty() ? static_cast<int>(limit.count()) : kRest;
  const int ready = ::poll(fds.data(), fds.size(), most);
  if (ready == 0 && !typed_.empty()) {
    typed_.clear();
    return Key::kEscape;
  }
  if (ready <= 0) {
    return std::nullopt;
  }
  signalfd_siginfo signal{};
  if ((fds[1].revents & POLLIN) != 0 &&
      ::read(signals_.get(), &signal, sizeof signal) == static_cast<ssize_t>(sizeof signal)) {
    const int number = static_cast<int>(signal.ssi_signo);
    return number == SIGWINCH ? Event(Resized{}) : Event(Ended{.signal = number});
  }
  if (fds[0].revents != 0) {
    std::array<char, 256> bytes{};
    const ssize_t count = ::read(STDIN_FILENO, bytes.data(), bytes.size());
    if (count <= 0 && (fds[0].revents & (POLLHUP | POLLERR)) != 0) {
      return Ended{.signal = SIGHUP};  // Nobody sits there any more.
    }
    typed_.append(bytes.data(), static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    if (const auto key = next_key()) {
      return *key;
    }
  }
  return std::nullopt;
}

// Nullopt: what is there is the beginning of a key at best.
std::optional<Key> Terminal::next_key() {
  constexpr std::array<std::pair<std::string_view, Key>, 8> kSequences = {
      {{"\x1B[A", Key::kUp},
       {"\x1B[B", Key::kDown},
       {"\x1BOA", Key::kUp},
       {"\x1BOB", Key::kDown},
       {"\x1B[5~", Key::kPageUp},
       {"\x1B[6~", Key::kPageDown},
       {"\r", Key::kEnter},
       {"\n", Key::kEnter}}};
  while (!typed_.empty()) {
    for (const auto& [bytes, key] : kSequences) {
      if (typed_.starts_with(bytes)) {
        typed_.erase(0, bytes.size());
        return key;
      }
    }
    const char first = typed_.front();
    if (first == '\x1B') {
      if (typed_.size() == 1 || (typed_.size() == 2 && (typed_[1] == '[' || typed_[1] == 'O'))) {
        return std::nullopt;
      }
      if (typed_[1] != '[' && typed_[1] != 'O') {
        typed_.erase(0, 1);
        return Key::kEscape;
      }
      // Another key's: up to its last byte.
      std::size_t end = 2;
      while (end < typed_.size() && (typed_[end] < '@' || typed_[end] > '~')) {
        ++end;
      }
      if (end == typed_.size()) {
        return std::nullopt;
      }
      typed_.erase(0, end + 1);
      continue;
    }
    typed_.erase(0, 1);
    if (first == '\x7F' || first == '\b') {
      return Key::kBackspace;
    }
    if (first >= ' ' && first < '\x7F') {
      return Key{static_cast<std::uint32_t>(first)};
    }
  }
  return std::nullopt;
}

void Terminal::write_all(const std::string& text) {
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t count = ::write(STDOUT_FILENO, text.data() + at, text.size() - at);
    if (count < 0 && errno != EINTR) {
      return;  // Nobody sees it.
    }
    at += static_cast<std::size_t>(std::max<ssize_t>(count, 0));
  }
}

}  // namespace audiogen::api
