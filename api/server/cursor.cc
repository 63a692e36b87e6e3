#include "api/server/cursor.h"

#include "common/base/base64.h"
#include "common/base/check.h"

namespace audiogen::api {

std::string encode_cursor(std::uint8_t version, std::span<const std::uint8_t> position) {
  AG_CHECK(!position.empty());
  AG_CHECK(position.size() <= kCursorMax);
  std::vector<std::uint8_t> bytes{version};
  bytes.insert(bytes.end(), position.begin(), position.end());
  return encode_base64url(bytes);
}

std::optional<std::vector<std::uint8_t>> decode_cursor(std::uint8_t version,
                                                       std::string_view text) {
  if (text.size() > (kCursorMax + 1) * 4 / 3 + 1) {
    return std::nullopt;
  }
  auto bytes = decode_base64url(text);
  if (!bytes || bytes->size() < 2 || bytes->size() > kCursorMax + 1 || bytes->front() != version) {
    return std::nullopt;
  }
  bytes->erase(bytes->begin());
  return bytes;
}

}  // namespace audiogen::api
