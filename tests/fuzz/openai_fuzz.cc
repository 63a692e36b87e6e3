// Any answer in the place of OpenAI's format: refused or audio, never a crash, no word of it in the
// detail.
#include "tests/fuzz/provider_answer.h"
#include "worker/providers/openai.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  audiogen::fuzz::check_reader(audiogen::fuzz::text_of(data, size),
                               audiogen::openai::kKind,
                               "response_format",
                               {"wav", "pcm", "match"});
  audiogen::fuzz::check_reader(
      audiogen::fuzz::text_of(data, size), audiogen::openai::kKind, "audio_member", {"audio_data"});
  return 0;
}
