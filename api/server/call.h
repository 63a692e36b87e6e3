// One request on its way through a route's handler: what it asks for, who asks, and its one answer.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "api/server/handling.h"
#include "api/server/route.h"
#include "common/base/result.h"
#include "common/domain/api_error.h"
#include "common/http/server.h"
#include "common/store/commands.h"

namespace audiogen::api {

// What stands for the "{name}"s of the route, in their order, never decoded.
using PathParameters = std::array<std::string_view, 2>;

class JsonBody;
template <class Parse>
class ParsedBody;

// Cheap to move; may outlive the connection. When the last copy goes without an answer, the client
// gets a 503.
class Call {
 public:
  Call(http::Exchange exchange, const Route& route, const PathParameters& parameters);

  // What the views of it refer to is there as long as the call.
  const http::Request& request() const { return exchange_.request(); }
  // For an answer that is no JSON.
  const http::Exchange& exchange() const { return exchange_; }
  const Route& route() const { return *route_; }
  std::string_view parameter(std::size_t i) const { return parameters_.at(i); }
  const std::string& request_id() const { return request_id_; }
  std::chrono::steady_clock::time_point received_at() const { return exchange_.received_at(); }
  // The key shown, or the session, and its user. Not of a public route.
  const store::KeyRecord& key() const { return key_; }
  // Whom memory and work of this call count for, as a hash: the user; of a public route the
  // address.
  std::uint64_t holder() const;

  // `co_await call.json_body()`: takes the body, then reads as far as it can be told without
  // looking into it. A view of the text, good as long as the call; or 400 for another media type or
  // coding, or more than `bytes_max`. The handler goes on at once or on an I/O thread, and not at
  // all when the body does not come whole. Once for each call of a route with Body::kJson.
  JsonBody json_body(std::size_t bytes_max = kBytesMax) const;
  // The same, and what `parse(std::string_view)` makes of it: its Result, which does not point into
  // the text.
  template <class Parse>
  ParsedBody<Parse> json_body(std::size_t bytes_max, Parse parse) const;
  // The server takes no more. The longest valid creation, each of its characters written as two
  // \uXXXX, has 165 KB: 24 of prompt, 37 of addresses, 104 of metadata.
  static constexpr std::size_t kBytesMax = std::size_t{192} * 1024;

  // Answers; any thread, never blocks. Only the first answer counts. Both add the X-Request-Id, the
  // rate limit's lines and those for pages of other sites.
  //
  // JSON; `extra_headers` are whole lines.
  void answer(int status, std::string json, std::string_view extra_headers = {}) const;
  // 200 and JSON with a strong ETag, or 304 when the client has it. For lists, never for the
  // generation resource (its table has no 304).
  void answer_tagged(std::string json) const;
  // 200 and JSON that anybody may keep for five minutes: what is the same for everybody. 304 when
  // the client has it by its `etag` (strong_etag()).
  void answer_public(std::string_view json, std::string_view etag) const;
  // 200 and CSV, for those who prefer it, to be kept under `file_name`, a plain word.
  void answer_csv(std::string csv, std::string_view file_name) const;
  // 200 and server-sent events, which follow by exchange().send() until exchange().end_stream().
  void begin_events() const;
  // 204; `extra_headers` as above.
  void answer_nothing(std::string_view extra_headers = {}) const;
  void fail(const ApiError& error) const;

 private:
  friend class Dispatcher;
  friend class JsonBody;

  // 200 with this ETag, for a body of JSON, or 304 when the client has it.
  http::Response tagged(std::string_view cache_control, std::string_view etag) const;
  void reply(http::Response&& response) const;

  http::Exchange exchange_;
  const Route* route_;
  PathParameters parameters_;
  std::string request_id_;
  store::KeyRecord key_{};
  std::string rate_headers_;
};

// Warns of a 503, at most once a second.
void tell_refusal(int status, const std::string& request_id);

// See Call::json_body().
class JsonBody {
 public:
  JsonBody(const Call& call, std::size_t bytes_max) : call_(call), bytes_max_(bytes_max) {}

  bool await_ready() const noexcept { return false; }
  void await_suspend(Handling::Frame frame) const {
    // Whose it is was told before: nobody's body is taken before that.
    call_.exchange_.read_body(call_.holder(),
                              [waiting = Handling::Share(frame)] { waiting.resume(); });
  }
  Result<std::string_view, ApiError> await_resume() const;

 private:
  const Call& call_;
  std::size_t bytes_max_;
};

template <class Parse>
class ParsedBody : public JsonBody {
 public:
  ParsedBody(JsonBody body, Parse parse) : JsonBody(body), parse_(parse) {}

  std::invoke_result_t<Parse, std::string_view> await_resume() const {
    const auto text = JsonBody::await_resume();
    if (!text) {
      return text.error();
    }
    return parse_(*text);
  }

 private:
  Parse parse_;
};

template <class Parse>
ParsedBody<Parse> Call::json_body(std::size_t bytes_max, Parse parse) const {
  return {json_body(bytes_max), parse};
}

}  // namespace audiogen::api
