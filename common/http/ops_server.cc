#include "common/http/ops_server.h"

#include <algorithm>

#include "common/base/ip_address.h"

namespace audiogen::http {
namespace {

// Monitors and people; what comes above takes the place of the longest idle.
constexpr std::size_t kConnectionsMax = 32;

// What is asked for by a name that anybody can register is asked for by a page of his, in the
// browser of somebody who reaches this port: the name leads to him first, then here, and to the
// browser both are one origin (DNS rebinding). A tunnel ends at an address or at localhost, and
// what a host or a cluster calls its own has no dot.
bool is_registrable(std::string_view host) {
  if (host.starts_with('[')) {
    return false;
  }
  const std::string_view name = host.substr(0, host.rfind(':'));
  return name.find('.') != std::string_view::npos && !IpAddress::parse(name);
}

}  // namespace

Response ops_answer(int status, std::string body, std::string_view type) {
  Response response;
  response.status = status;
  response.headers = "Content-Type: " + std::string(type) + "\r\nCache-Control: no-store\r\n";
  response.body = std::move(body);
  return response;
}

Response metrics_answer(const metrics::Snapshot& more) {
  return ops_answer(200, metrics::render(more), "text/plain; version=0.0.4");
}

OpsServer::OpsServer(const HostPort& listen,
                     std::function<std::vector<ReadyPart>()> ready,
                     Routes routes,
                     Routes posts)
    : ready_(std::move(ready)),
      routes_(std::move(routes)),
      posts_(std::move(posts)),
      server_(
          ServerOptions{.host = listen.host,
                        .port = listen.port,
                        .threads = 1,
                        .name = "ops",
                        .connections_max = kConnectionsMax},
          [this](const Exchange& exchange) { handle(exchange); },
          [](int status, std::string_view reason, const Request*) {
            return ops_answer(status, std::string(reason) + "\n", "text/plain");
          }) {}

void OpsServer::handle(const Exchange& exchange) const {
  const Request& request = exchange.request();
  // What tells of users. The rest is told to monitors, which have names for what they watch.
  if (request.path.starts_with("/ops") && is_registrable(request.host())) {
    exchange.reply(
        ops_answer(421, "ask by an address, localhost or a name without a dot\n", "text/plain"));
    return;
  }
  const auto post = posts_.find(request.path);
  if (request.method == "POST" && post != posts_.end()) {
    post->second(exchange);
  } else if (request.method != "GET" && request.method != "HEAD") {
    exchange.reply(ops_answer(405, "only GET\n", "text/plain"));
  } else if (const auto route = routes_.find(request.path); route != routes_.end()) {
    route->second(exchange);
  } else if (request.path == "/healthz") {
    exchange.reply(ops_answer(200, "ok\n", "text/plain"));
  } else if (request.path == "/readyz") {
    const std::vector<ReadyPart> parts = ready_();
    const bool ready = std::all_of(
        parts.begin(), parts.end(), [](const ReadyPart& p) { return p.ok || !p.needed; });
    std::string body = ready ? "{\"ready\":true" : "{\"ready\":false";
    for (const ReadyPart& part : parts) {
      body += ",\"" + part.name + (part.ok ? "\":true" : "\":false");
    }
    exchange.reply(ops_answer(ready ? 200 : 503, body + "}\n", "application/json"));
  } else if (request.path == "/metrics") {
    exchange.reply(metrics_answer());
  } else {
    std::string paths = "/healthz, /readyz, /metrics";
    for (const auto& [path, unused] : routes_) {
      paths += path == "/metrics" ? "" : ", " + path;
    }
    exchange.reply(ops_answer(404, paths + "\n", "text/plain"));
  }
}

}  // namespace audiogen::http
