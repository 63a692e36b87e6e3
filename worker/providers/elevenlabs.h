// ElevenLabs: text to speech, or sound generation (README.md, "ElevenLabs").
#pragma once

#include <string_view>

#include "worker/providers/kind.h"

namespace audiogen::elevenlabs {

extern const ProviderKind kKind;

http::ClientRequest build(const ProviderEntry& entry, const ProviderRequest& request);

// `code`: detail.status; `param`: the member that it does not like; `by_message`: whom its sentence
// names (transport/blame.h).
Fault classify(int status,
               std::string_view code,
               std::string_view param = "",
               Fault by_message = Fault::kBrokenByInput);

Result<Audio, ProviderFault> read(const ProviderEntry& entry,
                                  const GenerationRequest& request,
                                  http::ClientResponse response);

}  // namespace audiogen::elevenlabs
