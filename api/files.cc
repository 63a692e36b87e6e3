#include "api/files.h"

#include <charconv>
#include <chrono>
#include <ctime>
#include <optional>
#include <string>
#include <utility>

#include "api/wire.h"
#include "common/blob/blob_key.h"

namespace audiogen::api {
namespace {

std::optional<std::int64_t> to_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return !text.empty() && text[0] != '-' && error == std::errc() && end == text.data() + text.size()
             ? std::optional(value)
             : std::nullopt;
}

std::string http_date(std::int64_t seconds) {
  const std::time_t at = seconds;
  std::tm parts{};
  gmtime_r(&at, &parts);
  char out[64];
  std::strftime(out, sizeof out, "%a, %d %b %Y %H:%M:%S GMT", &parts);
  return out;
}

// Does If-None-Match (a list, or *) name this strong validator?
bool lists_etag(std::string_view header, std::string_view etag) {
  return header == "*" || header.find(etag) != std::string_view::npos;
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
  out.length = (open_ended ? size : std::min(*last + 1, size)) - *first;
  return RangeKind::kPart;
}

void serve_file(const DirectoryStore& store,
                const std::optional<LinkSigner>& links,
                std::chrono::seconds retention,
                http::Exchange exchange,
                std::string_view key) {
  const http::Request& request = exchange.request();
  const std::string request_id = request_id_of(&request);
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  const auto verdict = links ? links->check(key, request.query, now) : LinkSigner::Verdict::kValid;
  if (verdict == LinkSigner::Verdict::kExpired) {
    exchange.reply(link_expired_response(request_id));
    return;
  }
  const bool kept = retention.count() == 0 || now - made_at(blob_task(key).uuid) < retention;
  const auto file =
      kept && verdict == LinkSigner::Verdict::kValid ? store.read(key) : std::optional<OpenBlob>();
  if (!file) {
    exchange.reply(error_response({ApiErrorCode::kNotFound, "There is no such file.", std::nullopt},
                                  request_id));
    return;
  }
  http::UniqueFd fd(file->fd);
  // The name is random and its content never changes, so the name alone is a strong validator.
  const std::string etag = "\"" + std::string(key) + "\"";
  http::Response response;
  append_header(response.headers, "X-Request-Id", request_id);
  append_header(response.headers, "Content-Type", blob_content_type(key));
  append_header(response.headers, "ETag", etag);
  append_header(response.headers, "Last-Modified", http_date(file->modified));
  response.headers +=
      "Accept-Ranges: bytes\r\nCache-Control: private, max-age=31536000, immutable\r\n";
  response.headers += "X-Content-Type-Options: nosniff\r\n";
  if (request.has_header("if-none-match") && lists_etag(request.header("if-none-match"), etag)) {
    response.status = 304;
    exchange.reply(std::move(response));
    return;
  }
  ByteRange range{.first = 0, .length = file->size};
  const bool conditional_miss =
      request.has_header("if-range") && request.header("if-range") != etag;
  const RangeKind kind = request.has_header("range") && !conditional_miss
                             ? parse_range(request.header("range"), file->size, range)
                             : RangeKind::kWhole;
  if (kind == RangeKind::kUnsatisfiable) {
    response.status = 416;
    append_header(response.headers, "Content-Range", "bytes */" + std::to_string(file->size));
    exchange.reply(std::move(response));
    return;
  }
  if (kind == RangeKind::kPart) {
    response.status = 206;
    append_header(response.headers,
                  "Content-Range",
                  "bytes " + std::to_string(range.first) + "-" +
                      std::to_string(range.first + range.length - 1) + "/" +
                      std::to_string(file->size));
  }
  response.file = http::FileBody{
      .fd = std::move(fd), .offset = file->offset + range.first, .length = range.length};
  exchange.reply(std::move(response));
}

}  // namespace audiogen::api
