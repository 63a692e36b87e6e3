// POST /cognitiveservices/v1 of Azure AI Speech (README.md, "Azure").
#pragma once

#include "worker/providers/kind.h"

namespace audiogen::azure {

extern const ProviderKind kKind;

http::ClientRequest build(const ProviderEntry& entry, const ProviderRequest& request);

Result<Audio, ProviderFault> read(const ProviderEntry& entry,
                                  const GenerationRequest& request,
                                  http::ClientResponse response);

}  // namespace audiogen::azure
