// POST /v1/speak of Deepgram (README.md, "Deepgram").
#pragma once

#include <string_view>

#include "worker/providers/kind.h"

namespace audiogen::deepgram {

extern const ProviderKind kKind;

http::ClientRequest build(const ProviderEntry& entry, const ProviderRequest& request);

// `by_words`: whom the words of the answer name (transport/blame.h).
Fault classify(int status, std::string_view code, Fault by_words, bool speed_sent);

Result<Audio, ProviderFault> read(const ProviderEntry& entry,
                                  const GenerationRequest& request,
                                  http::ClientResponse response);

}  // namespace audiogen::deepgram
