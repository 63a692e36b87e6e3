// Handing mail over to the operator's server, by libcurl: one message a connection, TLS verified, a
// login never sent before that.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "common/base/config.h"
#include "common/base/result.h"

namespace audiogen::http {

// What a message that was not taken is told by.
enum class MailFault {
  kRefused,      // This message, for good (5yz): the same again would be refused again.
  kLater,        // This message, for now (4yz).
  kUnreachable,  // The server: not there, no TLS, no login, too slow. It may have taken it.
  kStopped,
};
struct MailError {
  MailFault fault = MailFault::kUnreachable;
  std::string detail;  // For operators; names no address and no credential.
};

struct SmtpPatience {
  std::chrono::milliseconds connect{5'000};
  std::chrono::milliseconds total{20'000};
};

// Hands over `message`, whole and with CRLF. `from` and `to` as is_mail_address() has them. Blocks
// for `patience.total` at most, or until `stopped` says so, which is asked about once a second.
Result<Done, MailError> send_mail(const SmtpUrl& server,
                                  const std::string& from,
                                  const std::string& to,
                                  std::string_view message,
                                  const SmtpPatience& patience,
                                  const std::function<bool()>& stopped);

}  // namespace audiogen::http
