#include "worker/local/speech_helper.h"

#include <utility>

#include "worker/local/speech_reader.h"

namespace audiogen {
namespace {

SpeechFault fault_of(sandbox::Ending ending) {
  switch (ending) {
    case sandbox::Ending::kComplete:
    case sandbox::Ending::kCrashed:
      return SpeechFault::kCrashed;
    case sandbox::Ending::kDeadline:
      return SpeechFault::kDeadline;
    case sandbox::Ending::kCanceled:
      return SpeechFault::kCanceled;
    case sandbox::Ending::kUnavailable:
      return SpeechFault::kUnavailable;
  }
  return SpeechFault::kUnavailable;
}

}  // namespace

std::string SpeechHelper::default_path() {
  return sandbox::Helper::path_of("audio-speech", "SPEECH_HELPER");
}

SpeechHelper::SpeechHelper(std::string path) : helper_(std::move(path), speech::kProtocolVersion) {}

Result<Speech, SpeechFault> SpeechHelper::speak(const speech::Request& request,
                                                std::chrono::steady_clock::time_point deadline,
                                                const Cancellation& cancellation) {
  std::optional<std::string> packet = speech::encode(request);
  if (!packet) {
    return SpeechFault::kCrashed;  // no engine takes so much at once
  }
  const SpeechReader fresh(request);
  SpeechReader reader = fresh;
  const sandbox::Ending ending = helper_.ask(
      {.packet = *std::move(packet), .deadline = deadline, .cancellation = &cancellation},
      [&] { reader = fresh; },
      [&](std::uint32_t kind, std::string_view payload) {
        return reader.take(static_cast<speech::BlockKind>(kind), payload);
      });
  if (ending != sandbox::Ending::kComplete) {
    return fault_of(ending);
  }
  return std::move(reader).speech();
}

}  // namespace audiogen
