// What the page of operators asks for beside the look that all share: how the service did, and
// tasks. On a thread and a session of its own, so that none of it keeps a look or a customer
// waiting; who asks while too many wait is refused.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>

#include "api/server/store_pool.h"
#include "common/base/config.h"
#include "common/http/server.h"
#include "common/store/operators.h"
#include "common/store/service_minutes.h"
#include "common/store/session.h"

namespace audiogen::api {

class OpsDesk {
 public:
  explicit OpsDesk(const Config& config);

  // GET /ops/history?range=1h, 24h or 30d; /ops/find?q=…; /ops/task?id=…. Any thread, never block.
  void history(const http::Exchange& exchange);
  void find(const http::Exchange& exchange);
  void task(const http::Exchange& exchange);

  void stop() { pool_.stop(std::chrono::milliseconds(0)); }

 private:
  struct Doors {
    explicit Doors(const DatabaseUrl& url);

    store::Session session;
    store::Operators operators{session};
    store::ServiceMinutes minutes{session};
    // Answers of history(), which change once a minute.
    struct Drawn {
      std::string json;
      std::optional<std::chrono::steady_clock::time_point> at;  // Nullopt: never.
    };
    std::map<std::string, Drawn, std::less<>> drawn;
  };

  template <class Answer>
  void ask(const http::Exchange& exchange, Answer answer);

  StorePool<Doors> pool_;
};

// {"range":…,"step_seconds":…,"points":[…]}
std::string history_json(std::string_view range,
                         std::chrono::minutes step,
                         const std::vector<store::HistoryPoint>& points);

}  // namespace audiogen::api
