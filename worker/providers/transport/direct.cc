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
    auto ask = format_.build(*entry_, request_);
    ask.body_max = wire::kAudioAnswerMax;
    return Ask{std::move(ask)};
  }

  Step heard(Heard answer) override {
    if (!answer) {
      return wire::fault_of(answer.error());
    }
    auto result = format_.read(*entry_, *request_.request, std::move(*answer));
    if (result) {
      result->stereo = entry_->makes == Makes::kScene;
    }
    return result ? Step(std::move(*result)) : Step(result.error());
  }

 private:
  const std::shared_ptr<const ProviderEntry> entry_;
  const DirectFormat format_;
  const ProviderRequest request_;
};

}  // namespace

std::unique_ptr<Dialogue> make_direct_dialogue(std::shared_ptr<const ProviderEntry> entry,
                                               DirectFormat format,
                                               const ProviderRequest& request) {
  return std::make_unique<DirectDialogue>(std::move(entry), format, request);
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
