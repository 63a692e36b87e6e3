// Strict, incremental framing of one HTTP/1.1 request (RFC 9112): bytes in, one request or one
// refusal out. Pure: no I/O, no clock, no threads.
//
// Our own rather than Boost.Beast's parser, because Beast unfolds obs-fold before a caller can see
// it and keeps a field container and a body of its own per request; here the bytes are received
// once, refused by the first rule they break, and viewed in place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ip_address.h"

namespace audiogen::http {

struct FramerLimits {
  std::size_t head = 16 * 1024;  // Request line and header lines together, in bytes.
  std::size_t headers = 100;
  std::size_t body = 256 * 1024;  // After chunked decoding.
};

// A request as received. All views point into the buffer of its Framer. A refused request has the
// members that were read before the refusal.
class Request {
 public:
  std::string_view method;
  std::string_view target;  // In origin-form, never decoded: of an absolute one what is behind it.
  std::string_view path;    // `target` before '?'.
  std::string_view query;   // `target` after '?', or empty.
  std::string_view authority;  // Of an absolute target, else empty.
  std::string_view body;
  // Who asks: the one address for every limit and log (common/domain/client_address.h). Set by the
  // server.
  IpAddress client;
  bool http10 = false;
  bool keep_alive = false;  // What the client asks for, by version and Connection.

  // The value of the first header of that name, trimmed, or "".
  std::string_view header(std::string_view lower_case_name) const;
  int header_count(std::string_view lower_case_name) const;
  bool has_header(std::string_view lower_case_name) const {
    return header_count(lower_case_name) > 0;
  }
  // Whom it is addressed to: the authority of an absolute target wins over the Host header (RFC
  // 9112 3.2.2).
  std::string_view host() const { return authority.empty() ? header("host") : authority; }
  // The values of all headers of that name in their order, joined by commas (RFC 9110 5.3).
  std::string joined_headers(std::string_view lower_case_name) const;

 private:
  friend class Framer;
  // Offsets rather than views: the buffer moves while a request is still arriving.
  struct Field {
    std::uint32_t name, name_size, value, value_size;
  };
  std::string_view name_of(const Field& field) const {
    return {base_ + field.name, field.name_size};
  }

  // One bit for all names that look alike. Most of what is asked for is in no request, and most
  // names are asked for in every one.
  static std::uint64_t mark_of(std::string_view name) {
    const auto code = [](char c) { return static_cast<unsigned char>(c); };
    return name.empty() ? 0
                        : std::uint64_t{1}
                              << ((name.size() * 5 + code(name.front()) + code(name.back()) * 3U) %
                                  64);
  }
  // `name` is where the field says, wherever those bytes are just now.
  void add(const Field& field, std::string_view name) {
    fields_.push_back(field);
    marks_ |= mark_of(name);
  }

  std::vector<Field> fields_;
  std::uint64_t marks_ = 0;  // Of the names of all fields.
  const char* base_ = nullptr;
};

class Framer {
 public:
  enum class Status {
    kHead,      // The head is not complete.
    kBody,      // The head is complete, the body is not.
    kComplete,  // request() is the whole request; surplus() is what came behind it.
    kRefused,   // reason() names the rule; nothing after it can be trusted to be framed.
  };

  void append(std::string_view bytes);

  // Reads as far as the bytes go. After kComplete or kRefused nothing changes until reset().
  Status advance(const FramerLimits& limits);

  // What is known so far, as of the last advance(). Views taken from it are good until the next
  // append().
  const Request& request() const { return request_; }
  Request& request() { return request_; }
  std::string_view surplus() const { return std::string_view(bytes_).substr(next_); }
  std::string_view reason() const { return reason_; }

  // True once any byte is waiting to become a request.
  bool begun() const { return !bytes_.empty(); }
  // True when the client waits for "100 Continue": it said so and has sent nothing of the body.
  bool expects_continue() const;

  // True when the request was refused because its body is too large, and for nothing else: the head
  // is whole.
  bool too_large() const { return too_large_; }
  // The request as far as the head goes, in memory of its own. The head must be complete.
  std::unique_ptr<Framer> copy_head() const;

  std::size_t size() const { return bytes_.size(); }
  std::size_t capacity() const { return bytes_.capacity(); }
  // Forgets the request, keeps the memory.
  void reset();

 private:
  enum class Stage {
    kRequestLine,
    kHeaders,
    kSizedBody,
    kChunkSize,
    kChunkData,
    kChunkEnd,
    kTrailers,
    kDone,
    kFailed
  };
  using Field = Request::Field;

  void refuse(std::string reason);
  // Finds the next whole line, [begin, end) without its CRLF. False: not here yet, or refused.
  bool next_line(std::size_t limit, const char* too_long, std::size_t& begin, std::size_t& end);
  void read_request_line(std::size_t begin, std::size_t end);
  bool split_absolute_target();
  bool read_field(std::size_t begin, std::size_t end, Field& field);
  void end_of_head(const FramerLimits& limits);
  void read_chunk_size(std::size_t begin, std::size_t end, const FramerLimits& limits);
  void read_chunk_data();
  void bind_views();

  std::string bytes_;        // Head, decoded body, then bytes not yet read.
  std::size_t next_ = 0;     // First byte not yet read.
  std::size_t scanned_ = 0;  // No LF before this one, from next_ on.
  Stage stage_ = Stage::kRequestLine;
  bool skipped_empty_line_ = false;
  std::size_t method_size_ = 0, method_at_ = 0, target_at_ = 0, target_size_ = 0;
  std::size_t authority_at_ = 0, authority_size_ = 0;  // Of an absolute target.
  std::size_t body_at_ = 0, body_size_ = 0;
  std::size_t content_length_ = 0;
  std::size_t chunk_left_ = 0;
  std::size_t overhead_ = 0;  // Bytes of chunk-size lines beyond the digits, and of trailers.
  bool chunked_ = false;
  bool too_large_ = false;
  std::string reason_;
  Request request_;
};

}  // namespace audiogen::http
