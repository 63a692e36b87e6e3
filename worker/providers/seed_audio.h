// Seed Audio of BytePlus and Volcengine: scenes from text, with a speaker, audio references or an
// image (README.md, "Seed Audio").
#pragma once

#include <cstdint>
#include <string_view>

#include "worker/providers/kind.h"

namespace audiogen::seed_audio {

extern const ProviderKind kKind;

http::ClientRequest build(const ProviderEntry& entry, const ProviderRequest& request);

// Whose voice the request has: a speaker of the entry's map, or none but what the client refers to.
enum class Voice { kOfEntry, kOfClient };

// `code`: of the body, or 0 without one; some codes mean two things and only `message` tells, as
// far as it does not quote `prompt`.
Fault classify(int status,
               std::int64_t code,
               std::string_view message,
               std::string_view prompt = "",
               Voice voice = Voice::kOfClient);

Result<Audio, ProviderFault> read(const ProviderEntry& entry,
                                  const GenerationRequest& request,
                                  http::ClientResponse response);

}  // namespace audiogen::seed_audio
