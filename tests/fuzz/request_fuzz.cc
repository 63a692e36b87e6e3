// Any bytes as a request body, a stored request and an Idempotency-Key: never a crash, and what is
// accepted obeys the rules and survives storing.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/check.h"
#include "common/base/utf8.h"
#include "common/domain/request.h"
#include "common/domain/voices.h"

using namespace audiogen;

namespace {

void check_rules(const GenerationRequest& request) {
  std::size_t characters = 0;
  for (std::string_view rest = request.prompt; !rest.empty(); ++characters) {
    AG_CHECK(rest[0] != '\0');
    const std::size_t length = utf8_sequence_length(rest);
    AG_CHECK(length > 0);
    rest.remove_prefix(length);
  }
  AG_CHECK(characters >= 1 && characters <= kPromptMax);
  AG_CHECK(!request.voice || is_voice(*request.voice));
  AG_CHECK(request.audio_references.size() <= kAudioReferencesMax);
  AG_CHECK(!request.image_url || request.audio_references.empty());
  AG_CHECK(request.speed >= 0.5 && request.speed <= 2);
  AG_CHECK(request.volume >= 0.5 && request.volume <= 2);
  AG_CHECK(request.pitch >= -12 && request.pitch <= 12);
  AG_CHECK(request.metadata.size() <= kMetadataMax);
  for (const auto& [name, text] : request.metadata) {
    AG_CHECK(!name.empty() && name.size() <= 4 * kMetadataNameMax);
    AG_CHECK(name.find('\n') == std::string::npos && text.find('\0') == std::string::npos);
    AG_CHECK(text.size() <= 4 * kMetadataTextMax);
  }
  AG_CHECK(request.max_credits >= kChargeMin && request.max_credits <= kHoldAmount);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  static const RequestRules rules{.model_name = "svc-audio-1.0", .any_url = false};
  const auto request = parse_request(text, rules);
  if (request) {
    check_rules(*request);
    const std::string canonical = encode_request(*request);
    const auto back = decode_request(canonical);
    AG_CHECK(back);
    AG_CHECK(*back == *request);
  } else {
    const std::string& message = request.error().message;
    AG_CHECK(!message.empty() && message.size() < 512);
    for (const char c : message) {
      AG_CHECK(c >= ' ' && c <= '~');
    }
  }
  if (const auto stored = decode_request(text)) {
    check_rules(*stored);
    AG_CHECK(encode_request(*stored) == text);
  }
  if (const auto key = parse_idempotency_key(text)) {
    AG_CHECK(!key->empty() && key->size() <= kIdempotencyKeyMax);
  }
  return 0;
}
