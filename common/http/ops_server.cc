#include "common/http/ops_server.h"

#include <algorithm>

#include "common/base/metrics.h"

namespace audiogen::http {
namespace {

// Monitors and people; what comes above takes the place of the longest idle.
constexpr std::size_t kConnectionsMax = 32;

Response text(int status, std::string body, std::string_view type) {
  Response response;
  response.status = status;
  response.headers = "Content-Type: " + std::string(type) + "\r\nCache-Control: no-store\r\n";
  response.body = std::move(body);
  return response;
}

}  // namespace

OpsServer::OpsServer(const HostPort& listen, std::function<std::vector<ReadyPart>()> ready)
    : ready_(std::move(ready)),
      server_(
          ServerOptions{.host = listen.host,
                        .port = listen.port,
                        .threads = 1,
                        .name = "ops",
                        .connections_max = kConnectionsMax},
          [this](const Exchange& exchange) { handle(exchange); },
          [](int status, std::string_view reason, const Request*) {
            return text(status, std::string(reason) + "\n", "text/plain");
          }) {}

void OpsServer::handle(const Exchange& exchange) const {
  const Request& request = exchange.request();
  if (request.method != "GET" && request.method != "HEAD") {
    exchange.reply(text(405, "only GET\n", "text/plain"));
  } else if (request.path == "/healthz") {
    exchange.reply(text(200, "ok\n", "text/plain"));
  } else if (request.path == "/readyz") {
    const std::vector<ReadyPart> parts = ready_();
    const bool ready = std::all_of(
        parts.begin(), parts.end(), [](const ReadyPart& p) { return p.ok || !p.needed; });
    std::string body = ready ? "{\"ready\":true" : "{\"ready\":false";
    for (const ReadyPart& part : parts) {
      body += ",\"" + part.name + (part.ok ? "\":true" : "\":false");
    }
    exchange.reply(text(ready ? 200 : 503, body + "}\n", "application/json"));
  } else if (request.path == "/metrics") {
    exchange.reply(text(200, metrics::render(), "text/plain; version=0.0.4"));
  } else {
    exchange.reply(text(404, "/healthz, /readyz, /metrics\n", "text/plain"));
  }
}

}  // namespace audiogen::http
