// ElevenLabs: text to speech, or sound generation (README.md, "ElevenLabs").
#pragma once

#include <string_view>

#include "worker/providers/kind.h"

namespace audiogen::elevenlabs {

extern const ProviderKind kKind;

http::ClientRequest build(const ProviderEntry& entry, const ProviderRequest& request);

// `code`: detail.status.
Fault classify(int status, std::string_view code);

Result<Audio, ProviderFault> read(const ProviderEntry& entry,
                                  const GenerationRequest& request,
                                  http::ClientResponse response);

}  // namespace audiogen::elevenlabs
