// Any answer in the place of Gemini's format: refused or audio, never a crash, no word of it in the
// detail.
#include "tests/fuzz/provider_answer.h"
#include "worker/providers/gemini.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  audiogen::fuzz::check_reader(
      audiogen::fuzz::text_of(data, size), audiogen::gemini::kKind, "language", {"", "de"});
  return 0;
}
