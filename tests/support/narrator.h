// The local engine's speech as clients get it, without the service around it.
#pragma once

#include <string_view>
#include <vector>

#include "common/domain/request.h"
#include "worker/audio/in_process_decoder.h"
#include "worker/audio/pipeline.h"
#include "worker/local/local_provider.h"

namespace audiogen::test {

class Narrator {
 public:
  // What the engine answers. Blocks until it has; any number of threads.
  Result<Audio, ProviderFault> speak(const GenerationRequest& request);

  // What is delivered of it; a fault fails the test.
  Rendered deliver(const GenerationRequest& request);

 private:
  LocalProvider provider_{LocalOptions{.threads = 1}};
  InProcessDecoder decoder_;
};

// `text` by a preset voice, as a WAV file at 16 kHz.
GenerationRequest narration(std::string_view voice, std::string_view text);

// Of a WAV file that was delivered.
std::vector<float> wav_samples(const Rendered& wav);

}  // namespace audiogen::test
