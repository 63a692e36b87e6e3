#include "tests/support/narrator.h"

#include <chrono>
#include <cstring>
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

std::vector<float> wav_samples(const Rendered& wav) {
  constexpr std::size_t kHeader = 44;
  std::vector<float> out(wav.samples);
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::int16_t sample = 0;
    std::memcpy(&sample, wav.bytes.data() + kHeader + i * sizeof(sample), sizeof(sample));
    out[i] = static_cast<float>(sample) / 32768.0F;
  }
  return out;
}

}  // namespace audiogen::test
