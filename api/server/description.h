// The published description of the interface.
#pragma once

#include <string>

#include "api/server/call.h"
#include "common/base/config.h"

namespace audiogen::api {

class Description {
 public:
  // schema/openapi.json, with the model's name of this configuration.
  explicit Description(const Config& config);

  void serve(const Call& call) const { call.answer_public(text_, etag_); }

 private:
  const std::string text_, etag_;
};

}  // namespace audiogen::api
