// Names and keys of blobs. A store is given a name and answers with a key: the name itself, or the
// name behind the place where DirectoryStore has put it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/ids.h"
#include "common/domain/request.h"

namespace audiogen {

// A name nobody can guess: "<task>-<130 random bits>-<rate>.<extension>". The task makes a stray
// blob traceable, the rate is part of the media type of headerless pcm.
std::string make_blob_name(TaskId task, OutputFormat format, int sample_rate);

inline constexpr std::size_t kSegmentName = 20;   // Characters.
inline constexpr std::size_t kSealText = 18;      // Characters: 90 bits of a seal.
inline constexpr std::int64_t kBlobBlock = 4096;  // Of file systems that free parts of a file.
inline constexpr std::size_t kBlobKeyMax = 120;   // Characters; `tasks` keeps room for so many.
inline constexpr std::uint64_t kBlobMax = 99'999'999;              // Bytes of one blob.
inline constexpr std::int64_t kOffsetMax = std::int64_t{1} << 40;  // Bytes.

// A key taken apart. Offset and length are at most kOffsetMax and kBlobMax, and the offset is a
// multiple of kBlobBlock: their sum cannot overflow.
struct BlobPlace {
  std::string_view segment;  // Empty: the key is the name alone.
  std::int64_t offset = 0;
  std::uint64_t length = 0;
  std::string_view name;
  std::string_view seal;  // kSealText characters; empty in keys of releases before seals.
};

// "<segment>/<block>-<length>-<seal>/<name>", or without a seal
// "<segment>/<offset>-<length>/<name>".
std::string make_blob_key(const BlobPlace& place);

// Nullopt for anything but a key of one of the three forms: nothing else ever reaches a file
// system. The views are into `key`.
std::optional<BlobPlace> parse_blob_key(std::string_view key);
inline bool is_blob_key(std::string_view key) {
  return parse_blob_key(key).has_value();
}

// The task of a key of the right form.
TaskId blob_task(std::string_view key);

// The media type of a key's blob: audio/mpeg, audio/wav, audio/ogg; codecs=opus (RFC 7845),
// audio/pcm with its rate. Not audio/L16: that is big-endian (RFC 2586), our samples are not.
std::string blob_content_type(std::string_view key);

}  // namespace audiogen
