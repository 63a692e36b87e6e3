// The talk with a provider about one request, as a pure state machine: no I/O, no clock. Each
// adapter is one of these; RemoteProvider carries the messages.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "common/base/result.h"
#include "common/http/client.h"
#include "worker/audio/audio.h"
#include "worker/chain/provider.h"

namespace audiogen {

// Send `request` after `delay`. Its timeouts are upper bounds: the call's deadline shortens them.
struct Ask {
  http::ClientRequest request;
  std::chrono::milliseconds delay{0};
};

using Step = std::variant<Ask, Audio, ProviderFault>;
using Heard = Result<http::ClientResponse, http::ClientError>;

class Dialogue {
 public:
  virtual ~Dialogue() = default;
  // The first step. `left`: until the call ends, so that the provider can be told.
  virtual Step begin(std::chrono::seconds left) = 0;
  // The next step after the answer to the last Ask, or after the lack of one.
  virtual Step heard(Heard answer) = 0;
  // By which another call could go on where this one is, from now on; "": by nothing.
  virtual std::string ticket() const { return ""; }
  // What to send, without waiting for an answer, when the call ends without audio; none where, as
  // far as is known, nothing goes on there that could be stopped.
  virtual std::optional<http::ClientRequest> withdraw() const { return std::nullopt; }
};

}  // namespace audiogen
