#include "common/domain/voices.h"

#include <algorithm>
#include <array>

namespace audiogen {
namespace {

constexpr std::array<std::string_view, 14> kVoices = {"albion",
                                                      "anya",
                                                      "aria",
                                                      "atlas",
                                                      "chloe",
                                                      "ember",
                                                      "lena",
                                                      "lucia",
                                                      "mei",
                                                      "nova",
                                                      "omar",
                                                      "sage",
                                                      "whisper",
                                                      "yuki"};
static_assert(std::is_sorted(kVoices.begin(), kVoices.end()), "is_voice searches by halves");

}  // namespace

std::span<const std::string_view> voice_ids() {
  return kVoices;
}

bool is_voice(std::string_view id) {
  return std::binary_search(kVoices.begin(), kVoices.end(), id);
}

std::string voice_list() {
  std::string out;
  for (const std::string_view id : kVoices) {
    if (!out.empty()) {
      out += ", ";
    }
    out += id;
  }
  return out;
}

}  // namespace audiogen
