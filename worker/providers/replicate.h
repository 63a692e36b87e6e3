// Replicate's predictions (README.md, "Replicate").
#pragma once

#include <memory>

#include "worker/providers/transport/polled.h"

namespace audiogen::replicate {

std::shared_ptr<const PolledFormat> format();

std::unique_ptr<AudioProvider> make(const ProviderEntry& entry, http::Client& client);

}  // namespace audiogen::replicate
