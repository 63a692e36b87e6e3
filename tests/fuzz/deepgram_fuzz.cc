// Any answer in the place of Deepgram's format: refused or audio, never a crash, no word of it in
// the detail.
#include "tests/fuzz/provider_answer.h"
#include "worker/providers/deepgram.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  audiogen::fuzz::check_reader(
      audiogen::fuzz::text_of(data, size), audiogen::deepgram::kKind, "speed", {"native", "ours"});
  return 0;
}
