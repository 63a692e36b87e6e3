// POST /tts/bytes of Cartesia (README.md, "Cartesia").
#pragma once

#include "worker/providers/kind.h"

namespace audiogen::cartesia {

extern const ProviderKind kKind;

http::ClientRequest build(const ProviderEntry& entry, const ProviderRequest& request);

Result<Audio, ProviderFault> read(const ProviderEntry& entry,
                                  const GenerationRequest& request,
                                  http::ClientResponse response);

}  // namespace audiogen::cartesia
