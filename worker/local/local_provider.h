// The built-in provider: narration by the speech helper, and the sounds that a prompt asks for by
// name (common/domain/cues.h), offline and free of charge. No sound scenes by description, no
// images; of a reference it matches pitch, pace and loudness, not the voice.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/domain/cues.h"
#include "worker/chain/provider.h"
#include "worker/local/blocking_calls.h"
#include "worker/local/local_voices.h"
#include "worker/local/speech_helper.h"
#include "worker/local/text.h"

namespace audiogen {

struct LocalOptions {
  std::string name = "local";
  std::string helper_path = SpeechHelper::default_path();
  int threads = static_cast<int>(std::thread::hardware_concurrency());  // requests spoken at once
  int max_in_flight = 256;                                              // spoken or waiting
  // On one text, however often it is tried: it has one of the few threads so long.
  std::chrono::milliseconds time_max{60'000};
};

class LocalProvider : public AudioProvider {
 public:
  explicit LocalProvider(LocalOptions options = {});

  const std::string& name() const override { return options_.name; }
  const Capabilities& capabilities() const override { return capabilities_; }
  std::shared_ptr<ProviderCall> start(ProviderRequest request, Done done) override {
    return calls_.start(std::move(request), std::move(done));
  }

  SpeechHelper& helper() { return helper_; }

 private:
  using Call = BlockingCalls::Call;
  struct Reading;
  struct Spoken;

  Result<Audio, ProviderFault> make(const Call& call);
  Result<Audio, ProviderFault> narrate(const Reading& reading);
  Result<Audio, ProviderFault> play(const Reading& reading, const std::vector<ScriptPart>& script);
  Result<Spoken, ProviderFault> speak(const Reading& reading,
                                      const std::vector<TextRun>& runs,
                                      double pitch,
                                      std::uint32_t seconds_max);

  const LocalOptions options_;
  const Capabilities capabilities_;
  SpeechHelper helper_;
  BlockingCalls calls_;
};

}  // namespace audiogen
