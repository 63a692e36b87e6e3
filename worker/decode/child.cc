#include "worker/decode/child.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <optional>
#include <string>

#include <sys/mman.h>
#include <sys/stat.h>

#include "worker/audio/codec.h"
#include "worker/decode/image.h"
#include "worker/decode/protocol.h"

namespace audiogen::decoding {
namespace {

// The content of a memory file, mapped until the process ends. Nullopt: it cannot be.
std::optional<std::string_view> content_of(int file) {
  struct stat status {};
  if (fstat(file, &status) != 0) {
    return std::nullopt;
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) {
    return "";
  }
  const void* const data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
  if (data == MAP_FAILED) {
    return std::nullopt;
  }
  return std::string_view(static_cast<const char*>(data), size);
}

class Answer {
 public:
  explicit Answer(int descriptor) : descriptor_(descriptor) {}

  void sound(const Decoded& decoded) const {
    std::string header;
    sandbox::put(header,
                 SoundHeader{static_cast<std::uint32_t>(decoded.pcm.rate),
                             static_cast<std::uint32_t>(decoded.channels),
                             decoded.exact ? 1U : 0U});
    write(BlockKind::kSound, header);
    std::string_view samples(reinterpret_cast<const char*>(decoded.pcm.samples.data()),
                             decoded.pcm.samples.size() * sizeof(float));
    while (!samples.empty()) {
      write(BlockKind::kSamples, samples.substr(0, sandbox::kBlockMax));
      samples.remove_prefix(std::min(samples.size(), sandbox::kBlockMax));
    }
    write(BlockKind::kEnd, "");
  }

  void image(const ImageInfo& info) const {
    std::string header;
    sandbox::put(header,
                 ImageHeader{static_cast<std::uint32_t>(info.type),
                             static_cast<std::uint32_t>(info.width),
                             static_cast<std::uint32_t>(info.height)});
    write(BlockKind::kImage, header);
  }

  void bad(std::string_view reason) const { write(BlockKind::kBad, reason.substr(0, kReasonMax)); }

 private:
  void write(BlockKind kind, std::string_view payload) const {
    sandbox::write_block(descriptor_, static_cast<std::uint32_t>(kind), payload);
  }

  int descriptor_;
};

void decode_sound(const Request& request, std::string_view bytes, const Answer& answer) {
  Audio audio;
  audio.bytes = bytes;
  audio.type = static_cast<AudioType>(request.type);
  audio.rate = static_cast<int>(request.rate);
  audio.channels = static_cast<int>(request.channels);
  const Result<Decoded> decoded = decode(audio, std::bit_cast<double>(request.seconds_max));
  if (decoded) {
    answer.sound(*decoded);
  } else {
    answer.bad(decoded.error().message);
  }
}

void decode_image(std::string_view bytes, const Answer& answer) {
  const Result<ImageInfo> info = inspect_image(bytes);
  if (info) {
    answer.image(*info);
  } else {
    answer.bad(info.error().message);
  }
}

// Returning without an answer tells the worker of a crash, which fits: the worker's packets are
// always right.
void handle(const sandbox::Sandbox& walls,
            std::string_view packet,
            std::span<const int> descriptors) {
  Request request;
  if (!sandbox::take(packet, request) || descriptors.size() <= kBytesDescriptor ||
      !walls.enter(kLimits)) {
    return;
  }
  const std::optional<std::string_view> bytes = content_of(descriptors[kBytesDescriptor]);
  if (!bytes) {
    return;
  }
  const Answer answer(descriptors.front());
  if (request.what == What::kImage) {
    decode_image(*bytes, answer);
  } else {
    decode_sound(request, *bytes, answer);
  }
}

}  // namespace

sandbox::Handler start() {
  std::optional<sandbox::Sandbox> prepared = sandbox::Sandbox::prepare({});
  if (!prepared) {
    return nullptr;
  }
  return [walls = std::make_shared<const sandbox::Sandbox>(*std::move(prepared))](
             std::string_view packet, std::span<const int> descriptors) {
    handle(*walls, packet, descriptors);
  };
}

}  // namespace audiogen::decoding
