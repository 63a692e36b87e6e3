// A stand-in for a provider: a real HTTP server that does, request by request, what a script says —
// every way to answer, and every way to fail on the wire that a well-behaved server cannot show.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace audiogen::test {

// A request as the double received it.
struct DoubleCall {
  std::size_t number = 0;  // From 0, in order of arrival.
  std::string method, target, body;
  std::string head;  // Those header lines that matter, "name: value\n" with lower-case names.
  std::string header(std::string_view lower_case_name) const;  // "" when absent.
};

struct DoubleReply {
  enum class Form {
    kWhole,
    kChunked,         // Transfer-Encoding: chunked, as streaming providers do.
    kHang,            // Nothing, until the client goes away.
    kReset,           // A TCP reset instead of an answer.
    kClose,           // An orderly close instead of an answer.
    kTruncated,       // Content-Length of the whole body, half of it, close.
    kTruncatedReset,  // The same, with a reset.
    kCutChunked,      // Chunked, half of the body, close without the last chunk.
    kLongLength,      // Content-Length larger than the body, by `missing`; then nothing.
    kShortLength,     // Content-Length of half the body, then the whole body.
    kEndless,         // Chunked, the body again and again for ever.
    kDrip,            // The whole body, drip_bytes per drip_every.
    kStalled,         // Chunked, the body `repeat` times, then nothing until the client goes away.
    kGarbage,         // The body alone, without any HTTP around it.
    kEndlessHead,     // Header lines for ever.
  };
  int status = 200;
  std::vector<std::string> headers = {};  // Whole lines, "Name: value".
  std::string body = {};
  std::chrono::milliseconds delay{0};  // Before the first byte.
  Form form = Form::kWhole;
  std::chrono::milliseconds drip_every{20};
  std::size_t drip_bytes = 1;
  std::size_t repeat = 1;
  std::size_t missing = 1;
};

class ProviderDouble {
 public:
  // Runs on the double's thread, one call at a time.
  using Script = std::function<DoubleReply(const DoubleCall&)>;

  // Listens on `port` of 127.0.0.1 (0: a free one) and serves on one thread. Aborts if it cannot.
  explicit ProviderDouble(Script script, std::uint16_t port = 0);
  ~ProviderDouble();
  ProviderDouble(const ProviderDouble&) = delete;
  ProviderDouble& operator=(const ProviderDouble&) = delete;

  std::uint16_t port() const;
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port()); }

  // The journal: every request so far, in order of arrival.
  std::vector<DoubleCall> calls() const;
  std::size_t call_count() const;
  // Connections accepted so far.
  std::size_t connections() const;
  // Connections open now.
  std::size_t open_connections() const;
  // False when `condition` does not come true within `patience`; looks after each event.
  bool wait_until(const std::function<bool()>& condition,
                  std::chrono::milliseconds patience = std::chrono::seconds(60)) const;
  // Bodies are not kept in the journal: for long runs.
  void forget_bodies();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// A 16-bit mono WAV file of a 440 Hz tone. `streamed`: with the sizes 0xFFFFFFFF of providers that
// do not know the length yet.
std::string tone_wav(double seconds, int rate = 24000, bool streamed = false);

// Base64 (RFC 4648 section 4), as providers put audio into JSON.
std::string encode_base64(std::string_view bytes);

}  // namespace audiogen::test
