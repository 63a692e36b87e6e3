// A TCP proxy on the loopback interface that fails the way networks do, on command.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

namespace audiogen::test {

// Forwards every connection made to port() to 127.0.0.1:`target`, or that port of a host. Faults
// apply to connections open now and later, from the moment the call returns. Every method may be
// called from any thread.
class TcpProxy {
 public:
  enum class Cut {
    kClose,    // Both sides see the connection end
    kReset,    // … with a reset
    kSilence,  // … or nothing, for ever: a cable pulled, a machine frozen.
  };

  explicit TcpProxy(std::uint16_t target);
  ~TcpProxy();
  TcpProxy(const TcpProxy&) = delete;
  TcpProxy& operator=(const TcpProxy&) = delete;

  std::uint16_t port() const { return port_; }

  // The server behind it, for connections made from now on. `host` is an address.
  void set_target(std::uint16_t target, const std::string& host = "127.0.0.1");

  // Ends every open connection, on both sides.
  void cut_all(Cut how = Cut::kReset);

  // Nothing passes either way until resume(); bytes wait, new connections are accepted and wait
  // too.
  void blackhole();
  void resume();

  // New connections are closed at once, until accept_again().
  void refuse();
  void accept_again();

  // Every piece of data waits this long before it passes on.
  void delay(std::chrono::milliseconds each_piece);

  // Passes at most this many bytes a second each way. 0: no limit.
  void throttle(std::size_t bytes_per_second);

  // The next `times` times a client sends `pattern`, the server still gets it; its next bytes (of
  // the next second at most) are thrown away and the connection is cut: what was asked for has been
  // done, and nobody heard the answer.
  void drop_reply_after(std::string pattern, Cut how = Cut::kClose, int times = 1);

  // The same, but the connection is cut before the server gets it.
  void cut_before(std::string pattern, Cut how = Cut::kClose, int times = 1);

  // Every open connection, and the next one, is cut after `bytes` more bytes to the client. 0: the
  // next one is not, any more.
  void truncate_reply(std::size_t bytes, Cut how = Cut::kClose);

  // How often drop_reply_after, cut_before or truncate_reply have come true.
  int triggered() const { return triggered_.load(); }
  std::size_t connections() const { return accepted_.load(); }  // accepted so far

 private:
  struct Link {
    int client = -1, server = -1;
    bool cut = false;  // Asked for by cut_all, as `how` says.
    Cut how = Cut::kClose;
    std::optional<std::size_t> reply_left;  // truncate_reply
    Cut reply_cut = Cut::kClose;
    std::string tail;  // The last bytes to the server, where a pattern may have begun.
    std::thread thread;
  };
  struct Trigger {
    std::string pattern;
    bool before = false;
    Cut how = Cut::kClose;
    int times = 0;
  };
  struct Faults {
    bool blackhole = false, refuse = false;
    std::chrono::milliseconds delay{0};
    std::size_t bytes_per_second = 0;
  };

  void accept_loop();
  void pump(Link& link);
  bool forward(Link& link, bool to_server);
  // The trigger that `data` sets off, used up by one.
  std::optional<Trigger> match(Link& link, std::string_view data);
  // Of truncate_reply: what of `data` still passes, and how the link ends if that is the last.
  std::optional<Cut> count_reply(Link& link, std::string_view& data);
  void end(Link& link, Cut how);
  bool stopping() const;

  int listener_ = -1;
  std::uint16_t port_ = 0;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::string target_host_ = "127.0.0.1";
  std::uint16_t target_;
  Faults faults_;
  Trigger trigger_;
  std::optional<std::pair<std::size_t, Cut>> truncate_;
  std::list<Link> links_;

  std::atomic<int> triggered_{0};
  std::atomic<std::size_t> accepted_{0};
  std::thread accepter_;
};

}  // namespace audiogen::test
