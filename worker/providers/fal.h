// fal's queue (README.md, "fal"). The HTTP status of each step depends on timing: the body decides.
#pragma once

#include <memory>
#include <string_view>

#include "worker/providers/transport/polled.h"

namespace audiogen::fal {

// `type`: detail[0].type or error_type of the body.
Fault classify(const http::ClientResponse& response, std::string_view type);

std::shared_ptr<const PolledFormat> format();

std::unique_ptr<AudioProvider> make(const ProviderEntry& entry, http::Client& client);

}  // namespace audiogen::fal
