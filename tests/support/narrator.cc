#include "tests/support/narrator.h"

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include <gtest/gtest.h>

namespace audiogen::test {

Result<Audio, ProviderFault> Narrator::speak(const GenerationRequest& request) {
  std::promise<Result<Audio, ProviderFault>> answer;
  const auto call = provider_.start(
      {std::make_shared<const GenerationRequest>(request),
       "key",
       std::chrono::steady_clock::now() + std::chrono::seconds(60)},
      [&](Result<Audio, ProviderFault> audio) { answer.set_value(std::move(audio)); });
  return answer.get_future().get();
}

Rendered Narrator::deliver(const GenerationRequest& request) {
  Result<Audio, ProviderFault> audio = speak(request);
  EXPECT_TRUE(audio) << audio.error().detail;
  if (!audio) {
    return {};
  }
  const RenderSpec spec = render_spec(request, *audio);
  Result<Rendered, PipelineFault> rendered = render(*std::move(audio), spec, decoder_);
  EXPECT_TRUE(rendered) << rendered.error().detail;
  return rendered ? *std::move(rendered) : Rendered{};
}

GenerationRequest narration(std::string_view voice, std::string_view text) {
  GenerationRequest out;
  out.voice = std::string(voice);
  out.prompt = std::string(text);
  out.output_format = OutputFormat::kWav;
  out.sample_rate = 16000;
  return out;
}

}  // namespace audiogen::test
