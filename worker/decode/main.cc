// audio-decode: started by the worker, decodes one foreign file per sandboxed child (protocol.h,
// worker/sandbox/zygote.h).
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <mpg123.h>
#include <sys/mman.h>
#include <unistd.h>

#include "worker/audio/foreign.h"
#include "worker/decode/misbehave.h"
#include "worker/decode/protocol.h"
#include "worker/sandbox/zygote.h"

namespace audiogen::decode {
namespace {

void say(BlockKind kind, std::string_view payload) {
  sandbox::write_block(kind, payload.data(), payload.size());
}

template <class Found>
void say_fault(const Result<Found, DecodeFault>& result) {
  say(BlockKind::kFault, bytes_of(static_cast<std::uint32_t>(result.error())));
}

void answer_audio(std::string_view bytes, AudioType type) {
  bool started = false;
  const auto found = unpack_foreign(bytes, type, [&](std::span<const float> samples, int rate) {
    if (!started) {
      say(BlockKind::kStart, bytes_of(static_cast<std::uint32_t>(rate)));
      started = true;
    }
    say(BlockKind::kSamples, {reinterpret_cast<const char*>(samples.data()), samples.size_bytes()});
    return true;
  });
  if (!found) {
    say_fault(found);
    return;
  }
  Sound sound;
  if (found->exact) {
    sound.exact = 1;
    sound.format = static_cast<std::uint32_t>(found->exact->format);
    sound.rate = static_cast<std::uint32_t>(found->exact->rate);
    sound.channels = static_cast<std::uint32_t>(found->exact->channels);
  }
  say(BlockKind::kSound, bytes_of(sound));
}

void answer_image(std::string_view bytes, ImageType type) {
  const auto found = unpack_foreign_image(bytes, type);
  if (!found) {
    say_fault(found);
    return;
  }
  say(BlockKind::kImage,
      bytes_of(Image{static_cast<std::uint32_t>(found->width),
                     static_cast<std::uint32_t>(found->height)}));
}

[[noreturn]] void answer_and_exit(const Request& request,
                                  int file,
                                  const sandbox::Sandbox& locked) {
  // The worker has sealed the file: it cannot shrink under the mapping.
  void* const memory =
      request.size == 0 ? nullptr : mmap(nullptr, request.size, PROT_READ, MAP_SHARED, file, 0);
  close(file);
  if (memory == MAP_FAILED || !locked.enter(request.limits)) {
    _exit(1);
  }
  const std::string_view bytes(static_cast<const char*>(memory), request.size);
  misbehave(bytes);
  if (request.media == Media::kAudio) {
    answer_audio(bytes, static_cast<AudioType>(request.type));
  } else {
    answer_image(bytes, static_cast<ImageType>(request.type));
  }
  _exit(0);
}

int run() {
  sandbox::settle_in();
  const std::optional<sandbox::Sandbox> locked = sandbox::Sandbox::prepare({});
  const bool ready = mpg123_init() == MPG123_OK && locked;
  return sandbox::serve(
      kProtocolVersion, ready, 2, [&](const std::string& packet, std::span<const int> files) {
        const std::optional<Request> request = read_as<Request>(packet);
        if (request && request->version == kProtocolVersion) {
          answer_and_exit(*request, files.front(), *locked);
        }
      });
}

}  // namespace
}  // namespace audiogen::decode

int main() {
  return audiogen::decode::run();
}
