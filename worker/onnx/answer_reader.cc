#include "worker/onnx/answer_reader.h"

#include <cstring>
#include <optional>

namespace audiogen::onnx {
namespace {

using sandbox::Taken;

std::optional<std::uint32_t> number_in(std::string_view payload) {
  std::uint32_t value = 0;
  if (payload.size() != sizeof(value)) {
    return std::nullopt;
  }
  std::memcpy(&value, payload.data(), sizeof(value));
  return value;
}

}  // namespace

Taken AnswerReader::take(BlockKind kind, std::string_view payload) {
  const std::optional<std::uint32_t> value = number_in(payload);
  switch (kind) {
    case BlockKind::kStart:
      if (!value || *value < kRateMin || *value > kRateMax || rate_ != 0) {
        return Taken::kNonsense;
      }
      rate_ = static_cast<int>(*value);
      return Taken::kMore;
    case BlockKind::kSamples: {
      const std::size_t most =
          std::size_t{seconds_max_} * static_cast<std::size_t>(rate_) * sizeof(std::int16_t);
      if (payload.size() % sizeof(std::int16_t) != 0 || samples_.size() + payload.size() > most) {
        return Taken::kNonsense;
      }
      samples_ += payload;
      return Taken::kMore;
    }
    case BlockKind::kEnd:
      if (!value || *value > static_cast<std::uint32_t>(EndReason::kNothing)) {
        return Taken::kNonsense;
      }
      end_ = static_cast<EndReason>(*value);
      return end_ == EndReason::kDone && samples_.empty() ? Taken::kNonsense : Taken::kLast;
  }
  return Taken::kNonsense;
}

}  // namespace audiogen::onnx
