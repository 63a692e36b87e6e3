// Seed Audio of BytePlus and Volcengine: scenes from text, with a speaker, audio references or an
// image (README.md, "Seed Audio").
#pragma once

#include <cstdint>
#include <string_view>

#include "worker/providers/kind.h"

namespace audiogen::seed_audio {

extern const ProviderKind kKind;

http::ClientRequest build(const ProviderEntry& entry, const ProviderRequest& request);

// `code`: of the body, or 0 without one; some codes mean two things and only `message` tells.
Fault classify(int status, std::int64_t code, std::string_view message);

Result<Audio, ProviderFault> read(const ProviderEntry& entry,
                                  const GenerationRequest& request,
                                  http::ClientResponse response);

}  // namespace audiogen::seed_audio
