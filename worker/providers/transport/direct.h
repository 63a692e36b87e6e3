// Providers that answer in one exchange: a request goes out, audio or a refusal comes back.
#pragma once

#include <memory>

#include "worker/providers/entry.h"
#include "worker/providers/transport/remote_provider.h"

namespace audiogen {

// The two pure halves of such an adapter.
struct DirectFormat {
  http::ClientRequest (*build)(const ProviderEntry& entry, const ProviderRequest& request);
  Result<Audio, ProviderFault> (*read)(const ProviderEntry& entry,
                                       const GenerationRequest& request,
                                       http::ClientResponse response);
};

std::unique_ptr<AudioProvider> make_direct(const ProviderEntry& entry,
                                           Capabilities capabilities,
                                           DirectFormat format,
                                           http::Client& client);

// What every adapter fills in alike: voices and max_in_flight.
Capabilities common_capabilities(const ProviderEntry& entry);

// A POST of JSON with the entry's timeouts.
http::ClientRequest post_json(const ProviderEntry& entry, std::string url, std::string body);

}  // namespace audiogen
