// Decodes what strangers send, in a helper program of its own (audio-decode): a file that takes a
// decoder over or down gains nothing and harms nobody else.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include <sys/types.h>

#include "worker/audio/decoder.h"
#include "worker/sandbox/helper.h"

namespace audiogen {

class SandboxedDecoder final : public Decoder {
 public:
  // The program beside this one, or what the environment variable DECODE_HELPER names.
  static std::string default_path();

  // Starts the program at the first need. A file that takes longer than `time_max` is bad.
  explicit SandboxedDecoder(std::string path,
                            std::chrono::milliseconds time_max = std::chrono::seconds(20));

  Result<Decoded, DecodeFault> decode(const Audio& audio, double seconds_max) override;
  Result<ImageInfo, DecodeFault> inspect_image(std::string_view bytes) override;

  // The helper's process id, when one runs.
  std::optional<pid_t> process() const { return helper_.process(); }

 private:
  sandbox::Helper helper_;
  const std::chrono::milliseconds time_max_;
};

}  // namespace audiogen
