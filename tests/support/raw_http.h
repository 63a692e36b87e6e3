// A client that speaks bytes, for tests that must send what no HTTP library would.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/unique_fd.h"

namespace audiogen::test {

struct RawResponse {
  int status = 0;
  std::string head;                                 // Status line and headers, as received.
  std::multimap<std::string, std::string> headers;  // Lower-case names.
  std::string body;

  std::string header(const std::string& lower_case_name) const;
};

// One TCP connection. Every wait has a deadline; a method that misses it returns "nothing".
class RawConnection {
 public:
  // Less than the minute that tests give to whatever is not to end a connection.
  static constexpr std::chrono::milliseconds kPatience{50'000};

  // Connects; connected() is false if that failed. `receive_buffer` 0: the system's default.
  // `source`: the numeric address to come from, of the same family; empty: the system's choice.
  explicit RawConnection(std::uint16_t port,
                         const std::string& host = "127.0.0.1",
                         int receive_buffer = 0,
                         const std::string& source = "");

  bool connected() const { return static_cast<bool>(fd_); }
  // Sends everything; false when the server has closed or does not read in time.
  bool send(std::string_view bytes);
  // The next response, 1xx included. `head_only`: the answer to a HEAD. Nothing on a close, on
  // bytes that are not a response, or when it takes too long.
  std::optional<RawResponse> response(bool head_only = false,
                                      std::chrono::milliseconds patience = kPatience);
  // Of a response whose head was read by response(true): the next chunk of its body, empty the last
  // one. Nothing on a close, or when it takes too long.
  std::optional<std::string> chunk(std::chrono::milliseconds patience = kPatience);
  // Of one without a length: all up to the close.
  std::optional<std::string> rest(std::chrono::milliseconds patience = kPatience);
  // send() and response().
  std::optional<RawResponse> exchange(std::string_view request);
  // True when the server closes (or resets) within `patience` and sends nothing before that.
  bool closed(std::chrono::milliseconds patience = kPatience);
  // Tells the server that nothing more will be sent.
  void finish_sending();
  // Closes with a reset instead of a goodbye.
  void reset();
  void close() { fd_.reset(); }
  int fd() const { return fd_.get(); }

 private:
  // Reads once into buffer_; false at the end, on an error or after the deadline.
  bool fill(std::chrono::steady_clock::time_point deadline);

  UniqueFd fd_;
  std::string buffer_;
  bool ended_ = false;
};

// "GET <path> HTTP/1.1" with a Host and the given complete header lines.
std::string get_request(std::string_view path, std::string_view header_lines = "");
// A POST with Content-Length.
std::string post_request(std::string_view path,
                         std::string_view body,
                         std::string_view header_lines = "");

}  // namespace audiogen::test
