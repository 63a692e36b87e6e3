// The decoder for foreign bytes: third-party parsers run in audio-decode, in a child per file that
// can open nothing and talk to nobody.
#pragma once

#include <optional>
#include <string>

#include <sys/types.h>

#include "worker/audio/decoder.h"
#include "worker/sandbox/helper.h"
#include "worker/sandbox/sandbox.h"

namespace audiogen {

// For any file that is taken: 40 Mpx of a lossless picture, 600 s of sound.
inline constexpr sandbox::Limits kDecodeLimits{
    .memory_mib = 512, .cpu_seconds = 10, .wall_seconds = 20};

// Starts the helper with the first file that needs it. A child that crashes or passes its limits is
// a fault of its own file and disturbs no other; only a helper that cannot run, or is stuck, is
// kUnavailable.
class SandboxedDecoder : public Decoder {
 public:
  // The program beside this one, or what the environment variable DECODE_HELPER names.
  static std::string default_path();

  explicit SandboxedDecoder(std::string path = default_path(),
                            const sandbox::Limits& limits = kDecodeLimits,
                            sandbox::Start start = {});

  // The helper's process id, when one runs.
  std::optional<pid_t> process() const { return helper_.process(); }

 private:
  class Answer;

  Result<Unpacked, DecodeFault> unpack(std::string_view bytes,
                                       AudioType type,
                                       const Sink& sink) override;
  Result<ImageInfo, DecodeFault> unpack_image(std::string_view bytes, ImageType type) override;

  const sandbox::Limits limits_;
  sandbox::Helper helper_;
};

}  // namespace audiogen
