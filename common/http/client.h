// Outgoing HTTP: any number of calls in flight on one thread (libcurl's multi interface on epoll),
// keep-alive and HTTP/2 where offered, TLS verified, redirects never followed, bodies capped while
// they stream, and left with the sender while those before them are still in use.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ip_address.h"
#include "common/base/result.h"

namespace audiogen::http {

// Which addresses a call may connect to. The check runs on the resolved address, after DNS and
// before connect, so names that resolve to private space are refused too, whatever they resolved to
// a moment ago (README.md, "Addresses").
enum class Reach {
  kAny,         // An address an operator configured.
  kPublicOnly,  // An address that came from outside.
};

// What the taker of a body makes of a part of it.
enum class BodyPart {
  kTaken,
  kLater,    // Not taken: again after ClientCall::go_on(). The call's time runs on.
  kRefused,  // Ends the call with kCanceled.
};

struct ClientRequest {
  std::string method = "GET";
  std::string url;
  std::vector<std::string> headers;  // Whole lines, "Name: value".
  std::string body;                  // Sent for POST, PUT and PATCH.
  Reach reach = Reach::kAny;
  std::chrono::milliseconds connect_timeout{3'000};
  std::chrono::milliseconds total_timeout{20'000};
  std::size_t body_max = 32U << 20U;  // A longer reply is cut off and is a fault.
  // Of a reply with another status than 2xx so much is kept, and no more waited for: it only says
  // why.
  std::size_t refusal_max = 64U << 10U;
  // Fewer bytes a second than this on average for so long: cut off, kUnknown. 0: no limit.
  std::uint32_t slow_bytes = 0;
  std::chrono::seconds slow_for{0};
  // Takes the body of a 200 piece by piece, in place of ClientResponse::body, so that the client
  // holds none of it; other answers have no body then. Runs on the client's thread.
  std::function<BodyPart(std::string_view)> take_body{};
  // Told when its body begins to wait for room (ClientOptions::bodies_max), with true, and when it
  // is read on: that time is nobody else's. Runs on the client's thread.
  std::function<void(bool waits)> on_unread{};
};

struct ClientResponse {
  int status = 0;
  std::multimap<std::string, std::string> headers;  // Names in lower case.
  std::string body;
  std::chrono::milliseconds first_byte{0};  // From when the call was started to the answer's first.

  std::string_view header(const std::string& lower_case_name) const;  // "" when absent
};

// Why there is no response. What matters to a caller: could the other side have received the
// request?
enum class ClientFault {
  kNotSent,    // Refused, no such host, TLS failed: it received nothing.
  kUnknown,    // Timed out, reset or cut short after the request may have been received.
  kTooLarge,   // The reply exceeded body_max.
  kForbidden,  // The address is not public, or the URL is not http(s).
  kCanceled,
};
struct ClientError {
  ClientFault fault = ClientFault::kNotSent;
  std::string detail;  // For operators; never carries the URL's query or a credential.
};

class ClientCall {
 public:
  virtual ~ClientCall() = default;
  // The call ends soon with kCanceled, unless it ends otherwise first. Thread-safe, never blocks.
  virtual void cancel() = 0;
  // Offers the part of the body again that was answered kLater. Thread-safe, never blocks.
  virtual void go_on() = 0;
};

inline constexpr std::size_t kAlwaysRead = 4096;

struct ClientOptions {
  // A part of a body is read only when it fits into so many bytes together with what has come of
  // those being read and with those kept (keep()), or is of the only one; the rest wait in the
  // sockets, also half-way, first come, first served, and their total_timeout with them: thousands
  // of calls may be answered at once. Of each origin (scheme, host, port) one goes on whatever is
  // being read, so that all are read in the end, and none waits for the servers of another. Bodies
  // with a take_body are the taker's affair, and the first kAlwaysRead bytes of each neither wait
  // nor count: what only says how a job stands must not wait behind sounds.
  std::size_t bodies_max = 16U << 20U;
  std::vector<IpNetwork> deny{};  // Never public, whatever the table says.
};

class Client {
 public:
  using Reply = std::function<void(Result<ClientResponse, ClientError>)>;

  explicit Client(ClientOptions options = {});
  // Answers what is in flight, and what its replies still start, with kCanceled; drops what after()
  // holds.
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Starts a call; never blocks; thread-safe. `reply` runs exactly once, on the client's thread: it
  // must be quick. A request that is not safe to repeat (POST, PATCH) is sent at most once, even
  // when a kept connection turns out to be dead.
  std::shared_ptr<ClientCall> start(ClientRequest request, Reply reply);

  // Runs `work` on the client's thread once `delay` has passed: for callers that ask again later.
  // Never blocks; thread-safe.
  void after(std::chrono::milliseconds delay, std::function<void()> work);

  // Counts `bytes` of an answer that is still in use against bodies_max, until the last copy of
  // what is returned goes. Thread-safe, never blocks; may outlive the client.
  std::shared_ptr<void> keep(std::size_t bytes);

  std::size_t in_flight() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace audiogen::http
