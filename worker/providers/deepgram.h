// POST /v1/speak of Deepgram (README.md, "Deepgram").
#pragma once

#include "worker/providers/kind.h"

namespace audiogen::deepgram {

extern const ProviderKind kKind;

http::ClientRequest build(const ProviderEntry& entry, const ProviderRequest& request);

Result<Audio, ProviderFault> read(const ProviderEntry& entry,
                                  const GenerationRequest& request,
                                  http::ClientResponse response);

}  // namespace audiogen::deepgram
