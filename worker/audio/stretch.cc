#include "worker/audio/stretch.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include <SoundTouch.h>

#include "worker/audio/block.h"

namespace audiogen {

std::vector<float> stretch(std::vector<float> samples, int rate, double speed, double semitones) {
  const auto expected =
      static_cast<std::size_t>(std::llround(static_cast<double>(samples.size()) / speed));
  soundtouch::SoundTouch touch;
  touch.setSampleRate(static_cast<unsigned>(rate));
  touch.setChannels(1);
  touch.setTempo(speed);
  touch.setPitchSemiTones(semitones);
  // Lengths in milliseconds that keep speech intact (README.md, "Stretching").
  touch.setSetting(SETTING_SEQUENCE_MS, 40);
  touch.setSetting(SETTING_SEEKWINDOW_MS, 15);
  touch.setSetting(SETTING_OVERLAP_MS, 8);

  std::vector<float> out;
  out.reserve(expected + kBlockSamples);
  const auto drain = [&] {
    while (const unsigned ready = touch.numSamples()) {
      const std::size_t at = out.size();
      out.resize(at + ready);
      touch.receiveSamples(out.data() + at, ready);
    }
  };
  for (std::size_t at = 0; at < samples.size(); at += kBlockSamples) {
    touch.putSamples(samples.data() + at,
                     static_cast<unsigned>(std::min(kBlockSamples, samples.size() - at)));
    drain();
  }
  touch.flush();
  drain();
  out.resize(expected);
  return out;
}

}  // namespace audiogen
