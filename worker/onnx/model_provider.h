// Narration by a model of the operator's, through the model helper program. In the house: nothing
// of a text leaves the machine, and no call costs anything but time.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "worker/chain/provider.h"
#include "worker/local/blocking_calls.h"
#include "worker/onnx/protocol.h"
#include "worker/sandbox/helper.h"

namespace audiogen::onnx {

struct ModelOptions {
  std::string name;
  Model model;
  Capabilities able;  // max_in_flight: as many children at once, a core and the memory each
  // Which of the model's speakers is to be heard, at most model.last_speaker.
  std::function<std::uint32_t(const GenerationRequest& request)> speaker;
  std::vector<std::string> languages;           // that it reads (ISO 639-1); none: whatever comes
  bool speaks_at_speed = true;                  // else the pipeline stretches
  std::chrono::milliseconds time_max{120'000};  // on one text
  std::uint32_t memory_mib = 512;               // for one text, beside the model
  std::string helper_path = default_helper_path();

  // The program beside this one, or what the environment variable ONNX_HELPER names.
  static std::string default_helper_path();
};

class ModelProvider : public AudioProvider {
 public:
  // Starts nothing yet.
  explicit ModelProvider(ModelOptions options);

  const std::string& name() const override { return options_.name; }
  const Capabilities& capabilities() const override { return options_.able; }
  // Loads the model.
  std::optional<std::string> prepare() override;
  std::shared_ptr<ProviderCall> start(ProviderRequest request, Done done) override {
    return calls_.start(std::move(request), std::move(done));
  }

  const sandbox::Helper& helper() const { return helper_; }

 private:
  Result<Audio, ProviderFault> make(const BlockingCalls::Call& call);

  const ModelOptions options_;
  sandbox::Helper helper_;
  BlockingCalls calls_;
};

}  // namespace audiogen::onnx
