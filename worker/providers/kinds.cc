#include "worker/providers/kinds.h"

#include <algorithm>
#include <array>

#include "worker/providers/azure.h"
#include "worker/providers/cartesia.h"
#include "worker/providers/deepgram.h"
#include "worker/providers/elevenlabs.h"
#include "worker/providers/fal.h"
#include "worker/providers/gemini.h"
#include "worker/providers/house.h"
#include "worker/providers/minimax.h"
#include "worker/providers/onnx.h"
#include "worker/providers/openai.h"
#include "worker/providers/replicate.h"
#include "worker/providers/seed_audio.h"

namespace audiogen {
namespace {

constexpr std::array kKinds = {&openai::kKind,
                               &elevenlabs::kKind,
                               &deepgram::kKind,
                               &cartesia::kKind,
                               &azure::kKind,
                               &gemini::kKind,
                               &minimax::kKind,
                               &seed_audio::kKind,
                               &fal::kKind,
                               &replicate::kKind,
                               &onnx::kKind,
                               &house::kKind};

}  // namespace

std::span<const ProviderKind* const> provider_kinds() {
  return kKinds;
}

const ProviderKind* find_kind(std::string_view name) {
  const auto* const at = std::find_if(
      kKinds.begin(), kKinds.end(), [name](const ProviderKind* one) { return one->name == name; });
  return at == kKinds.end() ? nullptr : *at;
}

}  // namespace audiogen
