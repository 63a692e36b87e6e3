// Any answer in the place of ElevenLabs: refused or audio, never a crash, no word of it in the
// detail.
#include "tests/fuzz/provider_answer.h"
#include "worker/providers/elevenlabs.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  audiogen::fuzz::check_reader(audiogen::fuzz::text_of(data, size),
                               audiogen::elevenlabs::kKind,
                               "output_format",
                               {"pcm_24000", "mp3_44100_128"});
  return 0;
}
