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

inline constexpr std::size_t kSegmentName = 20;  // Characters.

// A key taken apart.
struct BlobPlace {
  std::string_view segment;  // Empty: the key is the name alone.
  std::int64_t offset = 0;
  std::uint64_t length = 0;
  std::string_view name;
};

// "<segment>/<offset>-<length>/<name>", at most 120 characters.
std::string make_blob_key(const BlobPlace& place);

// Nullopt for anything but a key of one of the two forms: nothing else ever reaches a file system.
// The views are into `key`.
std::optional<BlobPlace> parse_blob_key(std::string_view key);
inline bool is_blob_key(std::string_view key) {
  return parse_blob_key(key).has_value();
}

// The task of a key of the right form.
TaskId blob_task(std::string_view key);

// The media type of a key's blob (audio 2.4): audio/mpeg, audio/wav, audio/ogg; codecs=opus,
// audio/pcm with its rate.
std::string blob_content_type(std::string_view key);

}  // namespace audiogen
