// Puts the blocks of one answer of the speech helper together (worker/speech/protocol.h). The
// helper may be in the hands of a text that broke it: what it says is bounded here. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "worker/local/speech_helper.h"

namespace audiogen {

class SpeechReader {
 public:
  explicit SpeechReader(const speech::Request& request);

  sandbox::Taken take(speech::BlockKind kind, std::string_view payload);

  // After sandbox::Taken::kLast.
  Result<Speech, SpeechFault> speech() &&;

 private:
  Speech joined();

  std::size_t bytes_max_, parts_max_, bytes_ = 0;
  std::vector<Speech> parts_;  // each at one rate
  speech::EndReason end_ = speech::EndReason::kEngineFailed;
};

}  // namespace audiogen
