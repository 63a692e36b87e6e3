// The operations port of both programs: /healthz, /readyz, /metrics, and what a program adds.
// Loopback unless configured otherwise.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/config.h"
#include "common/base/metrics.h"
#include "common/base/result.h"
#include "common/http/server.h"

namespace audiogen::http {

// What readiness depends on, by name. Only those marked `needed` make the program unready.
struct ReadyPart {
  std::string name;
  bool ok = false;
  bool needed = true;
};

// Answers of this port.
Response ops_answer(int status, std::string body, std::string_view type);
Response metrics_answer(const metrics::Snapshot& more = {});

class OpsServer {
 public:
  // By their paths, which go before those that every program has. Those that begin with /ops are
  // answered with 421 where they are asked for by a name with a dot. They run on the server's
  // thread and must not block; they may answer later.
  using Routes = std::map<std::string, std::function<void(const Exchange&)>, std::less<>>;

  // `ready` runs on the server's thread and must not block.
  OpsServer(const HostPort& listen,
            std::function<std::vector<ReadyPart>()> ready,
            Routes routes = {},
            Routes posts = {});

  Result<Done> start() { return server_.start(); }
  void stop() { server_.stop(); }
  std::uint16_t port() const { return server_.port(); }

 private:
  void handle(const Exchange& exchange) const;

  std::function<std::vector<ReadyPart>()> ready_;
  const Routes routes_, posts_;  // By GET, by POST.
  Server server_;
};

}  // namespace audiogen::http
