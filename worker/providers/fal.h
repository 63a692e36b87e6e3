// fal's queue (README.md, "fal"). The HTTP status of each step depends on timing: the body decides.
#pragma once

#include <string_view>

#include "worker/providers/kind.h"

namespace audiogen::fal {

extern const ProviderKind kKind;

// `type`: detail[0].type or error_type of the body.
Fault classify(const http::ClientResponse& response, std::string_view type);

}  // namespace audiogen::fal
