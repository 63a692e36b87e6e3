// Any text as a Range header of a file of any size: what is taken lies within the file, and is what
// arithmetic that cannot overflow takes. The first input byte chooses the size.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

#include "api/files/files.h"
#include "common/base/check.h"

using namespace audiogen;

namespace {

__extension__ using Wide = __int128;

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
constexpr std::array<std::int64_t, 10> kSizes = {
    0, 1, 2, 5, 4096, 5, 1'000'000, std::int64_t{1} << 62, kMax - 1, kMax};

// More digits than any size has count as one more than the largest.
Wide wide(std::string_view digits) {
  Wide value = 0;
  for (const char digit : digits) {
    value = std::min<Wide>(value * 10 + (digit - '0'), Wide{kMax} + 1);
  }
  return value;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t length) {
  if (length == 0) {
    return 0;
  }
  const std::int64_t size = kSizes[data[0] % kSizes.size()];
  const std::string_view header(reinterpret_cast<const char*>(data) + 1, length - 1);
  api::ByteRange range;
  if (api::parse_range(header, size, range) != api::RangeKind::kPart) {
    return 0;
  }
  AG_CHECK(header.starts_with("bytes="));
  const std::string_view spec = header.substr(6);
  const auto dash = spec.find('-');
  AG_CHECK(dash != std::string_view::npos);
  const bool suffix = dash == 0;
  const bool open_ended = dash + 1 == spec.size();
  const Wide last = open_ended || suffix ? Wide{size} - 1 : wide(spec.substr(dash + 1));
  const Wide first =
      suffix ? std::max<Wide>(0, size - wide(spec.substr(1))) : wide(spec.substr(0, dash));
  AG_CHECK(0 <= range.first);
  AG_CHECK(0 < range.length);
  AG_CHECK(range.length <= size - range.first);
  AG_CHECK(range.first == first);
  AG_CHECK(range.length == std::min<Wide>(last, size - 1) - first + 1);
  return 0;
}
