#include "api/files/files.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <ctime>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "api/server/answer.h"
#include "api/server/etag.h"
#include "api/server/security_events.h"
#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/occasionally.h"
#include "common/base/unique_fd.h"
#include "common/blob/blob_errors.h"
#include "common/blob/blob_key.h"

namespace audiogen::api {
namespace {

// RFC 9110 sets no limit to a position: one that is too large to hold is the largest. So nothing
// may be added to the result before it was compared with a size.
std::optional<std::int64_t> to_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || text[0] == '-' || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return error == std::errc::result_out_of_range ? std::numeric_limits<std::int64_t>::max() : value;
}

// The one place where bytes of a blob are taken: its neighbours in the segment are other users'.
http::FileBody part_of(SentFile file, const ByteRange& part) {
  AG_CHECK(part.first >= 0);
  AG_CHECK(part.first <= file.size);
  AG_CHECK(part.length >= 0);
  AG_CHECK(part.length <= file.size - part.first);
  return {std::move(file.fd), file.offset + part.first, part.length};
}

std::string http_date(std::int64_t seconds) {
  const std::time_t at = seconds;
  std::tm parts{};
  gmtime_r(&at, &parts);
  char out[64];
  std::strftime(out, sizeof out, "%a, %d %b %Y %H:%M:%S GMT", &parts);
  return out;
}

}  // namespace

RangeKind parse_range(std::string_view header, std::int64_t size, ByteRange& out) {
  constexpr std::string_view kUnit = "bytes=";
  if (!header.starts_with(kUnit) || header.find(',') != std::string_view::npos) {
    return RangeKind::kWhole;
  }
  header.remove_prefix(kUnit.size());
  const auto dash = header.find('-');
  if (dash == std::string_view::npos) {
    return RangeKind::kWhole;
  }
  const auto first = to_number(header.substr(0, dash));
  const auto last = to_number(header.substr(dash + 1));
  if (dash == 0) {  // The last n bytes.
    if (!last) {
      return RangeKind::kWhole;
    }
    if (*last == 0 || size == 0) {
      return RangeKind::kUnsatisfiable;
    }
    out.length = std::min(*last, size);
    out.first = size - out.length;
    return RangeKind::kPart;
  }
  const bool open_ended = dash + 1 == header.size();
  if (!first || (!last && !open_ended) || (last && *last < *first)) {
    return RangeKind::kWhole;
  }
  if (*first >= size) {
    return RangeKind::kUnsatisfiable;
  }
  out.first = *first;
  const std::int64_t end = last && *last < size ? *last + 1 : size;  // One past the last byte.
  out.length = end - out.first;
  return RangeKind::kPart;
}

void tell_unreadable(const Error& error) {
  // Whatever keeps one file from being opened keeps all of them.
  static Occasionally line;
  if (line.due()) {
    log::error("a file could not be opened", {{"why", error.message}});
  }
}

void on_disk(BlockingPool& disk, const Call& call, std::function<void(const Call&)> answer) {
  if (!disk.run([call, answer = std::move(answer)] { answer(call); })) {
    call.fail(service_unavailable());
  }
}

void send_file(const http::Exchange& exchange, bool cross_origin, SentFile file) {
  const http::Request& request = exchange.request();
  const auto answer = [&](http::Response&& reply) {
    if (cross_origin) {
      append_cross_origin(reply.headers, request);
    }
    reply_refused(exchange, std::move(reply));
  };
  http::Response response;
  append_header(response.headers, "X-Request-Id", request_id_of(&request));
  append_header(response.headers, "Content-Type", file.content_type);
  append_header(response.headers, "ETag", file.etag);
  append_header(response.headers, "Last-Modified", http_date(file.modified));
  // Vary also for those who name no origin: a page that has played the file finds this answer in
  // its browser's cache when it reads it as data.
  response.headers += "Accept-Ranges: bytes\r\nX-Content-Type-Options: nosniff\r\nVary: Origin\r\n";
  ByteRange range{.first = 0, .length = file.size};
  const bool conditional_miss =
      request.has_header("if-range") && request.header("if-range") != file.etag;
  // Of GET alone (RFC 9110 14.2): HEAD tells how large the whole is.
  const bool ranged = request.method == "GET" && request.has_header("range");
  const RangeKind kind = ranged && !conditional_miss
                             ? parse_range(request.header("range"), file.size, range)
                             : RangeKind::kWhole;
  const bool unchanged = none_match(request, file.etag);
  // A cache goes by the address, not by the range: the refusal of one is nobody else's answer.
  append_header(response.headers,
                "Cache-Control",
                unchanged || kind != RangeKind::kUnsatisfiable ? file.caching : "no-store");
  if (unchanged) {
    response.status = 304;
    answer(std::move(response));
    return;
  }
  if (kind == RangeKind::kUnsatisfiable) {
    response.status = 416;
    append_header(response.headers, "Content-Range", "bytes */" + std::to_string(file.size));
    answer(std::move(response));
    return;
  }
  if (kind == RangeKind::kPart) {
    response.status = 206;
    append_header(response.headers,
                  "Content-Range",
                  "bytes " + std::to_string(range.first) + "-" +
                      std::to_string(range.first + range.length - 1) + "/" +
                      std::to_string(file.size));
  }
  response.file = part_of(std::move(file), range);
  answer(std::move(response));
}

void serve_file(const DirectoryStore& store,
                const std::optional<LinkSigner>& links,
                std::chrono::seconds retention,
                http::Exchange exchange,
                std::string_view key) {
  const http::Request& request = exchange.request();
  const std::string request_id = request_id_of(&request);
  const auto answer = [&](http::Response&& reply) {
    append_cross_origin(reply.headers, request);
    reply_refused(exchange, std::move(reply));
  };
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  const auto verdict = links ? links->check(key, request.query, now) : LinkSigner::Verdict::kValid;
  if (verdict == LinkSigner::Verdict::kExpired) {
    answer(link_expired_response(request_id));
    return;
  }
  const bool kept = retention.count() == 0 || now - made_at(blob_task(key).uuid) < retention;
  const auto found = kept && verdict == LinkSigner::Verdict::kValid
                         ? counted(BlobOp::kRead, store.read(key))
                         : Result<std::optional<OpenBlob>>(std::nullopt);
  if (!found) {
    // It may well be there: a client that is told "no such file" never asks again.
    tell_unreadable(found.error());
    answer(error_response(service_unavailable(), request_id));
    return;
  }
  const std::optional<OpenBlob>& file = *found;
  if (!file) {
    answer(error_response({ApiErrorCode::kNotFound, "There is no such file.", std::nullopt},
                          request_id));
    return;
  }
  send_file(exchange,
            true,
            {.fd = UniqueFd(file->fd),
             .offset = file->offset,
             .size = file->size,
             .modified = file->modified,
             // The name is random and its content never changes, so the name alone is a strong
             // validator.
             .etag = "\"" + std::string(key) + "\"",
             .content_type = blob_content_type(key),
             .caching = "private, max-age=31536000, immutable"});
}

}  // namespace audiogen::api
