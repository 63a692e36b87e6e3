// ElevenLabs: text to speech, or sound generation (README.md, "ElevenLabs").
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "worker/providers/entry.h"

namespace audiogen::elevenlabs {

// The names of output_format we can read.
std::span<const std::string_view> output_formats(bool sound);

http::ClientRequest build(const ProviderEntry& entry, const ProviderRequest& request);

// `code`: detail.status.
Fault classify(int status, std::string_view code);

Result<Audio, ProviderFault> read(const ProviderEntry& entry,
                                  const GenerationRequest& request,
                                  http::ClientResponse response);

std::unique_ptr<AudioProvider> make(const ProviderEntry& entry, http::Client& client);

}  // namespace audiogen::elevenlabs
