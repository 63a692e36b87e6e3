// audio-speech: started by the worker, speaks each request in a sandboxed child of its own
// (worker/sandbox/zygote.h). That gives every request the same fresh engine, so that equal requests
// give equal sound.
#include <memory>
#include <string>

#include "worker/sandbox/zygote.h"
#include "worker/speech/engine.h"

namespace audiogen::speech {
namespace {

sandbox::Handler start() {
  std::string data_folder;
  const std::uint32_t rate = start_engine(data_folder);
  std::optional<sandbox::Sandbox> walls = sandbox::Sandbox::prepare({data_folder});
  if (rate == 0 || !walls) {
    return nullptr;
  }
  return [rate,
          walls = std::make_shared<const sandbox::Sandbox>(*std::move(walls)),
          kana = std::make_shared<const KanaReader>()](std::string_view packet,
                                                       std::span<const int> descriptors) {
    const std::optional<Request> request = decode(packet);
    if (request) {
      speak_and_exit(*request, rate, *walls, *kana, descriptors.front());
    }
  };
}

}  // namespace
}  // namespace audiogen::speech

int main() {
  return audiogen::sandbox::run_zygote(audiogen::speech::kProtocolVersion, audiogen::speech::start);
}
