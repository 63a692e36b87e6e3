// Any bytes as a provider's answer or a client's reference: refused or sound within the limits,
// never a crash of our own code. The first byte chooses what they are said to be.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/check.h"
#include "worker/audio/in_process_decoder.h"
#include "worker/audio/reference.h"

using namespace audiogen;

namespace {

// A little sound is enough, and keeps the runs short.
constexpr double kSecondsMax = 2;

void check_audio(const Audio& audio) {
  InProcessDecoder decoder;
  const auto decoded = decoder.decode(audio, kSecondsMax);
  if (!decoded) {
    AG_CHECK(decoded.error() != DecodeFault::kUnavailable);
    return;
  }
  const Pcm& pcm = decoded->pcm;
  AG_CHECK(pcm.rate >= kRateMin && pcm.rate <= kRateMax);
  AG_CHECK(!pcm.samples.empty());
  AG_CHECK(static_cast<double>(pcm.samples.size()) <= kSecondsMax * pcm.rate);
  AG_CHECK(std::all_of(
      pcm.samples.begin(), pcm.samples.end(), [](float sample) { return std::isfinite(sample); }));
  if (const auto& exact = decoded->exact) {
    AG_CHECK(exact->channels == 1 || exact->channels == 2);
    AG_CHECK(exact->format != OutputFormat::kPcm || audio.type == AudioType::kPcmS16Le);
  }
}

void check_image(std::string_view bytes) {
  InProcessDecoder decoder;
  const auto image = decoder.inspect_image(bytes);
  if (image) {
    AG_CHECK(image->width >= 1 && image->height >= 1);
    AG_CHECK(image->width <= static_cast<int>(kImageSideMax));
    AG_CHECK(image->height <= static_cast<int>(kImageSideMax));
  } else {
    AG_CHECK(image.error() != DecodeFault::kUnavailable);
  }
}

}  // namespace

// libsndfile forgets what libvorbis has made when a file's headers are bad. The sandbox's child
// ends with its file.
extern "C" const char* __lsan_default_suppressions() {  // The sanitizer's name.
  return "leak:libvorbis";
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) {
    return 0;
  }
  Audio audio;
  audio.bytes.assign(reinterpret_cast<const char*>(data) + 1, size - 1);
  audio.rate = 24000;
  audio.channels = data[0] / 16 % 4;
  switch (data[0] % 6) {
    case 0:
      audio.type = AudioType::kPcmS16Le;
      break;
    case 1:
      audio.type = AudioType::kWav;
      break;
    case 2:
      audio.type = AudioType::kMp3;
      break;
    case 3:
      audio.type = AudioType::kFlac;
      break;
    case 4:
      audio.type = AudioType::kOgg;
      break;
    default:
      check_image(audio.bytes);
      return 0;
  }
  check_audio(audio);
  return 0;
}
