// Puts the blocks of one answer of the model helper together (protocol.h). The helper may be in the
// hands of a text, or a model, that broke it: what it says is bounded here. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "worker/onnx/protocol.h"
#include "worker/sandbox/helper.h"

namespace audiogen::onnx {

class AnswerReader {
 public:
  explicit AnswerReader(std::uint32_t seconds_max) : seconds_max_(seconds_max) {}

  sandbox::Taken take(BlockKind kind, std::string_view payload);

  // After sandbox::Taken::kLast.
  EndReason end() const { return end_; }
  int rate() const { return rate_; }           // Hz; 0 unless the end is kDone or kNothing
  std::string& samples() { return samples_; }  // 16-bit little-endian mono

 private:
  std::uint32_t seconds_max_;
  int rate_ = 0;
  std::string samples_;
  EndReason end_ = EndReason::kNothing;
};

}  // namespace audiogen::onnx
