// The framer must give the same requests and the same refusal however the bytes are cut, hold no
// more than its limits, and point only into its own buffer. The first input byte chooses the cuts.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "common/http/framer.h"

namespace {

using audiogen::http::Framer;
using audiogen::http::FramerLimits;
using audiogen::http::Request;

// Small, so that a fuzzer gets to them.
const FramerLimits kLimits{.head = 400, .headers = 8, .body = 64};

void require(bool condition) {
  if (!condition) {
    std::abort();
  }
}

std::string describe(const Request& request) {
  std::string text;
  for (const std::string_view part : {request.method,
                                      request.target,
                                      request.path,
                                      request.query,
                                      request.body,
                                      request.host(),
                                      request.header("host"),
                                      request.header("x"),
                                      request.header("connection")}) {
    text += std::string(part) + "|";
  }
  return text + (request.http10 ? "0" : "1") + (request.keep_alive ? "k" : "c");
}

// All requests of a connection, in pieces whose sizes `next_size` gives.
template <class NextSize>
std::vector<std::string> read_all(std::string_view input, NextSize next_size) {
  std::vector<std::string> seen;
  auto framer = std::make_unique<Framer>();
  std::size_t at = 0;
  for (;;) {
    const Framer::Status status = framer->advance(kLimits);
    if (status == Framer::Status::kComplete) {
      const Request& request = framer->request();
      require(!request.method.empty() && request.target.front() == '/');
      require(request.target.size() <= kLimits.head && request.body.size() <= kLimits.body);
      require(request.http10 || request.header_count("host") == 1);
      require(request.header_count("content-length") + request.header_count("transfer-encoding") <=
              1);
      require(request.target.find('\r') == request.target.npos &&
              request.header("x").find('\n') == request.target.npos);
      seen.push_back(describe(request));
      auto next = std::make_unique<Framer>();
      next->append(framer->surplus());
      framer = std::move(next);
    } else if (status == Framer::Status::kRefused) {
      require(!framer->reason().empty());
      seen.push_back("refused: " + std::string(framer->reason()));
      return seen;
    } else if (at == input.size()) {
      seen.push_back(status == Framer::Status::kHead ? "head" : "body");
      return seen;
    } else {
      const std::size_t size = std::clamp<std::size_t>(next_size(), 1, input.size() - at);
      require(framer->size() <= kLimits.head + kLimits.body + 1024 + 2);
      framer->append(input.substr(at, size));
      at += size;
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) {
    return 0;
  }
  const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto whole = read_all(input, [&] { return input.size(); });
  require(whole == read_all(input, [] { return std::size_t{1}; }));
  std::minstd_rand random(1u + data[0]);
  require(whole == read_all(input, [&] { return std::size_t{random() % 24}; }));
  return 0;
}
