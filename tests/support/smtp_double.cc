#include "tests/support/smtp_double.h"

#include <algorithm>
#include <csignal>
#include <fstream>
#include <stdexcept>

#include <arpa/inet.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/ascii.h"

namespace audiogen::test {
namespace {

constexpr int kLookMs = 20;  // How soon an end is noticed.

std::string from_base64(const std::string& text) {
  std::string out(text.size(), '\0');
  const int size = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                                   reinterpret_cast<const unsigned char*>(text.data()),
                                   static_cast<int>(text.size()));
  out.resize(static_cast<std::size_t>(std::max(size, 0)));
  for (auto at = text.rbegin(); at != text.rend() && *at == '=' && !out.empty(); ++at) {
    out.pop_back();
  }
  return out;
}

// What is between < and >.
std::string bracketed(const std::string& line) {
  const auto from = line.find('<'), to = line.find('>');
  return from == std::string::npos || to == std::string::npos
             ? line
             : line.substr(from + 1, to - from - 1);
}

}  // namespace

std::string ReceivedMail::header(const std::string& name) const {
  const std::string head = "\r\n" + text.substr(0, text.find("\r\n\r\n") + 2);
  const auto at = head.find("\r\n" + name + ": ");
  if (at == std::string::npos) {
    return "";
  }
  if (head.find("\r\n" + name + ": ", at + 1) != std::string::npos) {
    return "twice";
  }
  const auto begin = at + name.size() + 4;
  return head.substr(begin, head.find("\r\n", begin) - begin);
}

std::string ReceivedMail::body() const {
  std::string out = text.substr(std::min(text.size(), text.find("\r\n\r\n") + 4));
  std::erase(out, '\r');
  return out;
}

struct SmtpDouble::Peer {
  int fd = -1;
  SSL* tls = nullptr;
  const std::atomic<bool>& stopping;
  std::string buffer{};

  Peer(int socket, const std::atomic<bool>& stop) : fd(socket), stopping(stop) {}
  ~Peer() {
    SSL_free(tls);
    ::close(fd);
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  // False when the double ends.
  bool readable() const {
    while (!stopping) {
      pollfd look{.fd = fd, .events = POLLIN, .revents = 0};
      if ((tls != nullptr && SSL_pending(tls) > 0) || ::poll(&look, 1, kLookMs) != 0) {
        return true;
      }
    }
    return false;
  }
  bool say(std::string text) {
    text += "\r\n";
    const int size = static_cast<int>(text.size());
    return tls != nullptr ? SSL_write(tls, text.data(), size) == size
                          : ::send(fd, text.data(), text.size(), MSG_NOSIGNAL) == size;
  }
  // Without its end; nullopt: the client went.
  std::optional<std::string> line() {
    for (;;) {
      if (const auto end = buffer.find("\r\n"); end != std::string::npos) {
        std::string out = buffer.substr(0, end);
        buffer.erase(0, end + 2);
        return out;
      }
      char some[4096];
      if (!readable()) {
        return std::nullopt;
      }
      const auto got = tls != nullptr ? SSL_read(tls, some, sizeof some)
                                      : static_cast<int>(::recv(fd, some, sizeof some, 0));
      if (got <= 0) {
        return std::nullopt;
      }
      buffer.append(some, static_cast<std::size_t>(got));
    }
  }
  // Until the client or the double goes.
  void wait_for_end() {
    while (line()) {
    }
  }
  bool start_tls(SSL_CTX* context) {
    buffer.clear();  // What came before is not believed (RFC 3207 section 5).
    tls = SSL_new(context);
    return tls != nullptr && SSL_set_fd(tls, fd) == 1 && readable() && SSL_accept(tls) == 1;
  }
};

SmtpDouble::SmtpDouble(Options options) : options_(std::move(options)) {
  std::signal(SIGPIPE, SIG_IGN);  // OpenSSL writes to clients that have gone.
  if (options_.tls != Tls::kNone) {
    auto* const context = SSL_CTX_new(TLS_server_method());
    context_ =
        std::shared_ptr<void>(context, [](void* c) { SSL_CTX_free(static_cast<SSL_CTX*>(c)); });
    if (SSL_CTX_use_certificate_file(context, options_.certificate.c_str(), SSL_FILETYPE_PEM) !=
            1 ||
        SSL_CTX_use_PrivateKey_file(context, options_.key.c_str(), SSL_FILETYPE_PEM) != 1) {
      throw std::runtime_error("the certificate of the mail server cannot be used");
    }
  }
  listen_on();
  accepting_ = std::thread([this] {
    while (!stopping_) {
      pollfd look{.fd = listener_.get(), .events = POLLIN, .revents = 0};
      if (::poll(&look, 1, kLookMs) <= 0) {
        continue;
      }
      const int fd = ::accept(listener_.get(), nullptr, nullptr);
      if (fd >= 0) {
        connections_.fetch_add(1);
        const std::scoped_lock lock(mutex_);
        threads_.emplace_back([this, fd] { serve(fd); });
      }
    }
  });
}

SmtpDouble::~SmtpDouble() {
  stopping_ = true;
  accepting_.join();
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

void SmtpDouble::listen_on() {
  listener_ = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(listener_.get(), 64) != 0 ||
      ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    throw std::runtime_error("the mail server cannot listen");
  }
  port_ = ntohs(address.sin_port);
}

void SmtpDouble::fail_next(std::vector<Fault> faults) {
  const std::scoped_lock lock(mutex_);
  next_.insert(next_.end(), faults.begin(), faults.end());
}

void SmtpDouble::fail_always(std::optional<Fault> fault) {
  const std::scoped_lock lock(mutex_);
  always_ = fault;
}

std::vector<ReceivedMail> SmtpDouble::mails() const {
  const std::scoped_lock lock(mutex_);
  return mails_;
}

std::string SmtpDouble::plain_lines() const {
  const std::scoped_lock lock(mutex_);
  return plain_lines_;
}

void SmtpDouble::keep(ReceivedMail mail) {
  const std::scoped_lock lock(mutex_);
  if (!options_.folder.empty()) {
    // Whole at once for whoever looks at the folder.
    const std::string name = options_.folder + "/" + std::to_string(mails_.size());
    std::ofstream(name + ".part") << mail.text;
    static_cast<void>(std::rename((name + ".part").c_str(), (name + ".eml").c_str()));
  }
  mails_.push_back(std::move(mail));
}

void SmtpDouble::serve(int fd) {
  Peer peer(fd, stopping_);
  std::optional<Fault> fault;
  {
    const std::scoped_lock lock(mutex_);
    fault = always_;
    if (!next_.empty()) {
      fault = next_.front();
      next_.pop_front();
    }
  }
  if (fault == Fault::kSilence) {
    peer.wait_for_end();
    return;
  }
  if (options_.tls == Tls::kFirst && !peer.start_tls(static_cast<SSL_CTX*>(context_.get()))) {
    return;
  }
  talk(peer, fault);
}

void SmtpDouble::talk(Peer& peer, std::optional<Fault> fault) {
  if (fault == Fault::kGarbage || fault == Fault::kGoodbye) {
    peer.say(fault == Fault::kGarbage ? std::string("\0\xFF\x01 HTTP/1.1 200 OK", 20)
                                      : "554 not for you");
    peer.wait_for_end();
    return;
  }
  if (fault == Fault::kEndless) {
    const std::string some(4096, '2');
    while (!stopping_ && ::send(peer.fd, some.data(), some.size(), MSG_NOSIGNAL) > 0) {
    }
    return;
  }
  peer.say("220 mail.test ESMTP");
  ReceivedMail mail;
  while (const auto line = peer.line()) {
    const std::string verb = ascii::lower(line->substr(0, line->find_first_of(" :")));
    if (peer.tls == nullptr) {
      const std::scoped_lock lock(mutex_);
      plain_lines_ += *line + "\n";
    }
    if (verb == "ehlo") {
      if (options_.tls == Tls::kStartTls && peer.tls == nullptr && fault != Fault::kNoStartTls) {
        peer.say("250-STARTTLS");
      }
      peer.say("250-mail.test");
      peer.say("250 AUTH PLAIN");
    } else if (verb == "starttls") {
      if (fault == Fault::kStartTlsRefused) {
        peer.say("454 not now");
        continue;
      }
      peer.say("220 go on");
      if (!peer.start_tls(static_cast<SSL_CTX*>(context_.get()))) {
        return;
      }
    } else if (verb == "auth") {
      std::string given = line->substr(std::min(line->size(), std::string("AUTH PLAIN ").size()));
      if (given.empty()) {
        peer.say("334 ");
        given = peer.line().value_or("");
      }
      mail.login = from_base64(given);
      mail.login.erase(0, mail.login.find('\0') + 1);
      const bool good = fault != Fault::kBadLogin &&
                        mail.login == options_.user + std::string(1, '\0') + options_.password;
      peer.say(good ? "235 welcome" : "535 no");
    } else if (verb == "mail") {
      mail.from = bracketed(*line);
      peer.say(options_.user.empty() || !mail.login.empty() ? "250 ok" : "530 who are you");
    } else if (verb == "rcpt") {
      mail.to = bracketed(*line);
      peer.say(fault == Fault::kNoSuchRecipient ? "550 no such " + mail.to
               : fault == Fault::kComeBackLater ? "451 greylisted"
                                                : "250 ok");
    } else if (verb == "data") {
      peer.say("354 go on");
      for (;;) {
        const auto part = peer.line();
        if (!part) {
          return;
        }
        if (*part == ".") {
          break;
        }
        mail.text += part->starts_with("..") ? part->substr(1) : *part;
        mail.text += "\r\n";
      }
      if (fault == Fault::kNoData) {
        peer.say("554 no");
        continue;
      }
      mail.by_tls = peer.tls != nullptr;
      keep(mail);
      if (fault == Fault::kCutAfterData) {
        return;
      }
      peer.say("250 taken");
    } else if (verb == "quit") {
      peer.say("221 bye");
      return;
    } else {
      peer.say("500 what");
    }
  }
}

}  // namespace audiogen::test
