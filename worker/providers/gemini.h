// POST /v1beta/models/…:generateContent of the Gemini API, with audio as its answer (README.md,
// "Gemini").
#pragma once

#include <string_view>

#include "worker/providers/kind.h"

namespace audiogen::gemini {

extern const ProviderKind kKind;

http::ClientRequest build(const ProviderEntry& entry, const ProviderRequest& request);

// `status` and `reason`: those of the error, or ""; `field`: the first that it does not like;
// `by_message`: whom its sentence names (transport/blame.h).
Fault classify(int http_status,
               std::string_view status,
               std::string_view reason,
               std::string_view field = "",
               Fault by_message = Fault::kBrokenByInput);

Result<Audio, ProviderFault> read(const ProviderEntry& entry,
                                  const GenerationRequest& request,
                                  http::ClientResponse response);

}  // namespace audiogen::gemini
