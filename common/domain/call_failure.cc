#include "common/domain/call_failure.h"

#include <charconv>

namespace audiogen {

CallFailure call_failure(std::string_view detail) {
  constexpr std::string_view kHttp = "HTTP ";
  if (detail.starts_with(kBadAudio)) {
    return CallFailure::kUnusable;
  }
  int status = 0;
  if (!detail.starts_with(kHttp) ||
      std::from_chars(detail.data() + kHttp.size(), detail.data() + detail.size(), status).ec !=
          std::errc()) {
    return CallFailure::kOther;
  }
  if (status == 429 || status == 503 || status == 529) {
    return CallFailure::kBusy;
  }
  if (status >= 400 && status < 500) {
    return CallFailure::kRefused;
  }
  return status >= 500 && status < 600 ? CallFailure::kTrouble : CallFailure::kOther;
}

}  // namespace audiogen
