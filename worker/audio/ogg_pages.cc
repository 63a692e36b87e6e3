#include "worker/audio/ogg_pages.h"

#include "worker/audio/bytes.h"

namespace audiogen {
namespace {

constexpr std::size_t kPageHeader = 27;
constexpr std::uint32_t kFirstPage = 2, kLastPage = 4;
constexpr std::size_t kOpusHead = 19;

struct Page {
  std::uint32_t flags = 0;
  std::int64_t granule = 0;
  std::uint32_t serial = 0;
  std::string_view body;
  std::size_t size = 0;
};

std::optional<Page> read_page(std::string_view bytes) {
  if (bytes.size() < kPageHeader || !bytes.starts_with("OggS") || bytes[4] != '\0') {
    return std::nullopt;
  }
  const std::size_t segments = byte_of(bytes[26]);
  if (bytes.size() < kPageHeader + segments) {
    return std::nullopt;
  }
  std::size_t body = 0;
  for (const char lacing : bytes.substr(kPageHeader, segments)) {
    body += byte_of(lacing);
  }
  const std::size_t head = kPageHeader + segments;
  if (bytes.size() < head + body) {
    return std::nullopt;
  }
  return Page{byte_of(bytes[5]),
              static_cast<std::int64_t>(little64(bytes.substr(6))),
              little32(bytes.substr(14)),
              bytes.substr(head, body),
              head + body};
}

}  // namespace

std::optional<OggSurvey> survey_ogg(std::string_view bytes) {
  using namespace std::string_view_literals;
  std::optional<Page> page = read_page(bytes);
  if (!page || (page->flags & kFirstPage) == 0) {
    return std::nullopt;
  }
  OggSurvey out;
  const std::uint32_t serial = page->serial;
  const std::string_view head = page->body;
  std::int64_t skipped = 0;
  bool plain = true;
  if (head.starts_with("OpusHead") && head.size() >= kOpusHead) {
    out.codec = OggSurvey::Codec::kOpus;
    skipped = little16(head.substr(10));
    out.opus_rate = static_cast<int>(little32(head.substr(12)) & 0x7FFFFFFFU);
    plain = little16(head.substr(16)) == 0;  // no gain, which players apply or not
  } else if (head.starts_with("\x01vorbis")) {
    out.codec = OggSurvey::Codec::kVorbis;
  }
  std::int64_t last = 0;
  bool ended = false;
  for (bool first = true; page; first = false, page = read_page(bytes)) {
    out.chained = out.chained || page->serial != serial || (!first && (page->flags & kFirstPage));
    ended = (page->flags & kLastPage) != 0;
    last = page->granule >= 0 ? page->granule : last;
    bytes.remove_prefix(page->size);
  }
  // A second stream may also begin behind a gap.
  out.chained = out.chained || bytes.find("OpusHead") != std::string_view::npos ||
                bytes.find("\x01vorbis") != std::string_view::npos;
  // What is left over is the beginning of a page.
  out.cut = !bytes.empty() && "OggS\0"sv.starts_with(bytes.substr(0, 5));
  out.samples = last - skipped;
  out.whole = bytes.empty() && ended && plain && out.samples > 0;
  return out;
}

}  // namespace audiogen
