// Any answers in the place of Replicate, from submission to file: never a crash, never our key
// elsewhere.
#include "tests/fuzz/provider_answer.h"
#include "worker/providers/replicate.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  audiogen::fuzz::check_talk(audiogen::fuzz::text_of(data, size), audiogen::replicate::kKind);
  return 0;
}
