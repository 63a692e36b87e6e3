#include "worker/providers/transport/direct.h"

#include <utility>

#include "worker/providers/transport/wire.h"

namespace audiogen {
namespace {

class DirectDialogue final : public Dialogue {
 public:
  DirectDialogue(std::shared_ptr<const ProviderEntry> entry,
                 DirectFormat format,
                 ProviderRequest request)
      : entry_(std::move(entry)), format_(format), request_(std::move(request)) {}

  Step begin(std::chrono::seconds /*left*/) override {
    return Ask{format_.build(*entry_, request_)};
  }

  Step heard(Heard answer) override {
    if (!answer) {
      return wire::fault_of(answer.error());
    }
    auto result = format_.read(*entry_, *request_.request, std::move(*answer));
    return result ? Step(std::move(*result)) : Step(result.error());
  }

 private:
  const std::shared_ptr<const ProviderEntry> entry_;
  const DirectFormat format_;
  const ProviderRequest request_;
};

}  // namespace

std::unique_ptr<AudioProvider> make_direct(const ProviderEntry& entry,
                                           Capabilities capabilities,
                                           DirectFormat format,
                                           http::Client& client) {
  RemoteOptions options;
  options.name = entry.name;
  options.capabilities = std::move(capabilities);
  options.timeout = entry.timeout;
  options.open = [shared = std::make_shared<const ProviderEntry>(entry),
                  format](const ProviderRequest& request) {
    return std::make_unique<DirectDialogue>(shared, format, request);
  };
  return std::make_unique<RemoteProvider>(std::move(options), client);
}

Capabilities common_capabilities(const ProviderEntry& entry) {
  Capabilities out;
  for (const auto& [ours, theirs] : entry.voices) {
    out.voices.push_back(ours);
  }
  out.hedge_after = entry.hedge_after;
  out.max_in_flight = entry.max_in_flight;
  return out;
}

http::ClientRequest post_json(const ProviderEntry& entry, std::string url, std::string body) {
  http::ClientRequest out;
  out.method = "POST";
  out.url = std::move(url);
  out.headers = {"Content-Type: application/json"};
  out.body = std::move(body);
  out.connect_timeout = entry.connect_timeout;
  out.total_timeout = entry.timeout;
  return out;
}

}  // namespace audiogen
