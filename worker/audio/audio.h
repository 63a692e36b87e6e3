// Sound as a provider hands it over: still encoded, not yet shaped to the request.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace audiogen {

enum class AudioType : std::uint8_t { kPcmS16Le, kWav, kMp3, kFlac, kOgg };

struct Audio {
  std::string bytes;
  AudioType type = AudioType::kPcmS16Le;
  int rate = 0;      // Hz; kPcmS16Le only, the other types carry theirs
  int channels = 1;  // kPcmS16Le only
  // What the provider has already done of the request; the pipeline does the rest.
  double speed_applied = 1.0;
  double pitch_applied = 0.0;  // semitones
  // Two channels carry intent: a scene, not a voice that stands in the middle of both.
  bool stereo = false;
  // The level carries no intent (a synthesiser's raw output): bring it to this one (LUFS).
  std::optional<double> target_lufs{};
  // So many thousandths of the unit in which its provider bills (common/domain/provider_price.h),
  // as it says itself.
  std::optional<std::int64_t> billed{};
};

}  // namespace audiogen
