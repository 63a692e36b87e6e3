// Providers that answer in one exchange: a request goes out, audio or a refusal comes back.
#pragma once

#include <memory>

#include "worker/providers/entry.h"
#include "worker/providers/transport/dialogue.h"

namespace audiogen {

// The two pure halves of such an adapter.
struct DirectFormat {
  http::ClientRequest (*build)(const ProviderEntry& entry, const ProviderRequest& request);
  Result<Audio, ProviderFault> (*read)(const ProviderEntry& entry,
                                       const GenerationRequest& request,
                                       http::ClientResponse response);
};

std::unique_ptr<Dialogue> make_direct_dialogue(std::shared_ptr<const ProviderEntry> entry,
                                               DirectFormat format,
                                               const ProviderRequest& request);

// A POST of JSON with the entry's timeouts.
http::ClientRequest post_json(const ProviderEntry& entry, std::string url, std::string body);

}  // namespace audiogen
