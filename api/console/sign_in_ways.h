// Which ways in there are, for the page that offers them: what the configuration says, and nothing
// of any account.
#pragma once

#include <string>

#include "api/server/call.h"
#include "common/base/config.h"

namespace audiogen::api {

class SignInWays {
 public:
  explicit SignInWays(const Config& config);

  void show(const Call& call) const;

 private:
  std::string document_, etag_;
};

}  // namespace audiogen::api
