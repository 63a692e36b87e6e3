// The two endpoints of the interface: create a generation, get a generation (interface 4).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "api/auth.h"
#include "api/publishing.h"
#include "api/rate_limiter.h"
#include "api/wire.h"
#include "common/base/config.h"
#include "common/http/server.h"
#include "common/store/group_commit.h"

namespace audiogen::api {

class Generations {
 public:
  Generations(const Config& config,
              Authenticator& authenticator,
              RateLimiter& limiter,
              TaskPublisher& publisher);

  // Both answer the exchange exactly once, now or later, and never block.
  void create(http::Exchange exchange);
  void get(http::Exchange exchange, std::string_view id_text);

  // Finishes what was accepted.
  void stop();

 private:
  // A request that may go on: its key is valid and within its rate.
  struct Admitted;
  using Next = std::function<void(std::shared_ptr<Admitted>)>;

  void admit(http::Exchange exchange, RouteClass route, Next next);
  void create_admitted(const std::shared_ptr<Admitted>& call);
  void get_admitted(const std::shared_ptr<Admitted>& call);

  const Config& config_;
  const WireNames names_;
  const RequestRules rules_;
  Authenticator& authenticator_;
  RateLimiter& limiter_;
  TaskPublisher& publisher_;
  store::GroupCommit<store::CreateCommand, store::CreateOutcome> creates_;
  store::GroupCommit<store::FindCommand, store::FindOutcome> finds_;
};

}  // namespace audiogen::api
