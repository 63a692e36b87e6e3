// A mail server for tests: speaks SMTP (RFC 5321) with STARTTLS, TLS from the first byte, or
// neither; keeps what it is given; refuses, dawdles and lies on command.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/unique_fd.h"

namespace audiogen::test {

struct ReceivedMail {
  std::string from, to;
  std::string text;  // As it came, dots unstuffed, with CRLF.
  bool by_tls = false;
  std::string login;  // "user\0password" of AUTH PLAIN; empty: none.

  // What follows `name` and a colon in its head; "" when it is not there. Fails when it is there
  // twice.
  std::string header(const std::string& name) const;
  // Its body, with "\n".
  std::string body() const;
};

class SmtpDouble {
 public:
  enum class Tls { kNone, kStartTls, kFirst };
  struct Options {
    Tls tls = Tls::kNone;
    std::string certificate{}, key{};  // PEM files.
    std::string user{}, password{};    // Wanted, when set.
    std::string folder{};              // Each mail is written there, too, as N.eml.
  };
  // What one connection is treated to.
  enum class Fault {
    kSilence,          // Nothing, for ever.
    kGoodbye,          // 554 instead of a greeting.
    kNoStartTls,       // Does not offer it.
    kStartTlsRefused,  // Offers it, and says 454 then.
    kBadLogin,         // 535, whatever the login.
    kNoSuchRecipient,  // 550
    kComeBackLater,    // 451 for the recipient.
    kNoData,           // 554 after the message.
    kCutAfterData,     // Takes the message, and closes without a word.
    kGarbage,          // Greets with bytes that are no SMTP.
    kEndless,          // Greets with a line that never ends.
  };

  SmtpDouble() : SmtpDouble(Options()) {}
  explicit SmtpDouble(Options options);
  ~SmtpDouble();
  SmtpDouble(const SmtpDouble&) = delete;
  SmtpDouble& operator=(const SmtpDouble&) = delete;

  std::uint16_t port() const { return port_; }
  // The next connections, one each.
  void fail_next(std::vector<Fault> faults);
  // All connections from now on; nullopt: no more.
  void fail_always(std::optional<Fault> fault);

  std::vector<ReceivedMail> mails() const;
  // Every line of a client so far, of what was sent in plain text.
  std::string plain_lines() const;
  int connections() const { return connections_.load(); }

 private:
  struct Peer;

  void listen_on();
  void serve(int fd);
  void talk(Peer& peer, std::optional<Fault> fault);
  void keep(ReceivedMail mail);

  const Options options_;
  std::shared_ptr<void> context_;  // OpenSSL's.
  UniqueFd listener_;
  std::uint16_t port_ = 0;
  std::atomic<bool> stopping_{false};
  std::atomic<int> connections_{0};
  mutable std::mutex mutex_;
  // All guarded by mutex_.
  std::deque<Fault> next_;
  std::optional<Fault> always_;
  std::vector<ReceivedMail> mails_;
  std::string plain_lines_;
  std::list<std::thread> threads_;
  std::thread accepting_;
};

}  // namespace audiogen::test
