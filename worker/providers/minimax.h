// POST /v1/t2a_v2 of MiniMax (README.md, "MiniMax").
#pragma once

#include <cstdint>

#include "worker/providers/kind.h"

namespace audiogen::minimax {

extern const ProviderKind kKind;

http::ClientRequest build(const ProviderEntry& entry, const ProviderRequest& request);

// `code`: base_resp.status_code; 0 where there is none. `by_message`: whom its sentence names
// (transport/blame.h).
Fault classify(int status, std::int64_t code, Fault by_message = Fault::kBrokenByInput);

Result<Audio, ProviderFault> read(const ProviderEntry& entry,
                                  const GenerationRequest& request,
                                  http::ClientResponse response);

}  // namespace audiogen::minimax
