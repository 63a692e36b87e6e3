// A page of a list, as every list of the interface has it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/server/cursor.h"
#include "api/server/query.h"
#include "common/base/ids.h"
#include "common/base/json.h"
#include "common/base/result.h"
#include "common/domain/api_error.h"

namespace audiogen::api {

// Versions of cursors, none for two lists: no list takes the place of another for one of its own.
inline constexpr std::uint8_t kKeyCursor = 1, kLedgerCursor = 2, kHistoryCursor = 3;

// Which page of a list is asked for. `Position` is Uuid or std::uint64_t: what the list's order
// goes by, of the last item that the client has.
template <class Position>
struct PageRequest {
  std::size_t limit = 0;
  std::optional<Position> before{};
};

// A position as the bytes of a cursor: numbers with their highest byte first.
inline std::vector<std::uint8_t> position_bytes(const Uuid& position) {
  return {position.bytes.begin(), position.bytes.end()};
}
inline std::vector<std::uint8_t> position_bytes(std::uint64_t position) {
  std::vector<std::uint8_t> out(sizeof position);
  for (auto byte = out.rbegin(); byte != out.rend(); ++byte, position >>= 8U) {
    *byte = static_cast<std::uint8_t>(position);
  }
  return out;
}
// `bytes` has as many as `position` needs.
inline void read_position(std::span<const std::uint8_t> bytes, Uuid& position) {
  std::copy(bytes.begin(), bytes.end(), position.bytes.begin());
}
inline void read_position(std::span<const std::uint8_t> bytes, std::uint64_t& position) {
  position = 0;
  for (const std::uint8_t byte : bytes) {
    position = position << 8U | byte;
  }
}

// The parameters `limit` and `cursor`, which has to be one of a list whose cursors have this
// version. 400 naming the one that is wrong.
template <class Position>
Result<PageRequest<Position>, ApiError> read_page(const Query& query, std::uint8_t version) {
  const auto limit = query.page_limit();
  if (!limit) {
    return limit.error();
  }
  PageRequest<Position> out{.limit = static_cast<std::size_t>(*limit)};
  if (const auto cursor = query.text("cursor")) {
    const auto bytes = decode_cursor(version, *cursor);
    if (!bytes || bytes->size() != position_bytes(Position{}).size()) {
      return invalid_parameter("cursor", "cursor is not one that this list has given.");
    }
    read_position(*bytes, out.before.emplace());
  }
  return out;
}

// {"object":"list",…}; `write(JsonWriter&, item)` writes one item. `next_cursor` exactly when more
// follow.
template <class Items, class Write>
std::string render_page(const Items& items,
                        const std::optional<std::string>& next_cursor,
                        const Write& write) {
  std::string out;
  JsonWriter json(out);
  json.begin_object().member("object", "list").key("data").begin_array();
  for (const auto& item : items) {
    write(json, item);
  }
  json.end_array()
      .member("has_more", next_cursor.has_value())
      .member("next_cursor", next_cursor)
      .end_object();
  return out;
}

}  // namespace audiogen::api
