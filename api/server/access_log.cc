#include "api/server/access_log.h"

#include <any>
#include <utility>

#include "common/base/log.h"
#include "common/base/metrics.h"

namespace audiogen::api {
namespace {

constexpr std::size_t kBatch = 256;
constexpr std::size_t kMethodMax = 16;  // A longer one is none that we know.

// The id that the answer carries, made or taken over.
std::string_view request_id_in(std::string_view headers) {
  constexpr std::string_view kName = "X-Request-Id: ";
  const auto at = headers.find(kName);
  if (at == std::string_view::npos) {
    return {};
  }
  headers.remove_prefix(at + kName.size());
  return headers.substr(0, headers.find('\r'));
}

std::string text_of(const std::optional<KeyId>& id) {
  return id ? id->text() : std::string();
}

}  // namespace

void note_asked(const http::Exchange& exchange, const Route& route, const store::KeyRecord& key) {
  if (exchange.is_told()) {
    exchange.note(Asked{.route = &route, .key = key});
  }
}

AccessLog::AccessLog(std::size_t waiting_max) : lines_(waiting_max), thread_([this] { run(); }) {}

void AccessLog::stop() {
  lines_.close();
  if (thread_.joinable()) {
    thread_.join();
  }
}

void AccessLog::answered(const http::Answered& answered) {
  static auto& dropped = metrics::counter(
      "access_log_dropped_total", "Lines of the access log that were lost: too many waited");
  Line line{.at = std::chrono::floor<Instant::duration>(std::chrono::system_clock::now()),
            .method = std::string(answered.request.method.substr(0, kMethodMax)),
            .request_id = std::string(request_id_in(answered.headers)),
            .client = answered.request.client.text(),
            .asked = {},
            .status = answered.status,
            .bytes = answered.bytes,
            .took = answered.took};
  if (const auto* const asked = std::any_cast<Asked>(answered.note)) {
    line.asked = *asked;
  }
  if (!lines_.push(std::move(line))) {
    dropped.Increment();
  }
}

void AccessLog::run() {
  // Many lines come at once; who waits for them is nobody.
  log::wait_for_reader(std::chrono::seconds(1));
  for (;;) {
    const auto lines = lines_.pop_batch(kBatch);
    if (lines.empty()) {
      return;
    }
    for (const Line& line : lines) {
      const bool known = line.asked.key.user != UserId();
      const bool session = line.asked.key.session.has_value();
      log::info(
          "request",
          {{"request_id", line.request_id},
           {"answered_at", format_iso_exact(line.at)},
           {"method", line.method},
           {"route", line.asked.route != nullptr ? line.asked.route->path : ""},
           {"status", line.status},
           {"bytes", line.bytes},
           {"seconds", line.took.count()},
           {"client", line.client},
           {"key_id", text_of(known && !session ? std::optional(line.asked.key.id) : std::nullopt)},
           {"session", session},
           {"user_id", known ? line.asked.key.user.text() : std::string()}});
    }
  }
}

}  // namespace audiogen::api
