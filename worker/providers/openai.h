// POST /audio/speech of OpenAI and of the many servers that speak its format (README.md,
// "OpenAI").
#pragma once

#include <string_view>

#include "worker/providers/kind.h"

namespace audiogen::openai {

extern const ProviderKind kKind;

http::ClientRequest build(const ProviderEntry& entry, const ProviderRequest& request);

// `code`: error.code, or error.type without one; `param`: error.param, what it does not like;
// `by_message`: whom its sentence names (transport/blame.h).
Fault classify(int status,
               std::string_view code,
               std::string_view param = "",
               Fault by_message = Fault::kBrokenByInput);

Result<Audio, ProviderFault> read(const ProviderEntry& entry,
                                  const GenerationRequest& request,
                                  http::ClientResponse response);

}  // namespace audiogen::openai
