// The operations port of both programs: /healthz, /readyz, /metrics. Loopback unless configured
// otherwise.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/config.h"
#include "common/base/result.h"
#include "common/http/server.h"

namespace audiogen::http {

// What readiness depends on, by name. Only those marked `needed` make the program unready.
struct ReadyPart {
  std::string name;
  bool ok = false;
  bool needed = true;
};

class OpsServer {
 public:
  // `ready` runs on the server's thread and must not block.
  OpsServer(const HostPort& listen, std::function<std::vector<ReadyPart>()> ready);

  Result<Done> start() { return server_.start(); }
  void stop() { server_.stop(); }
  std::uint16_t port() const { return server_.port(); }

 private:
  void handle(const Exchange& exchange) const;

  std::function<std::vector<ReadyPart>()> ready_;
  Server server_;
};

}  // namespace audiogen::http
