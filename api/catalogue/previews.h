// How the preset voices sound: a short recording of each, made once by `audio-api admin voices
// render`, in a folder of its own (VOICE_PREVIEWS_DIR), where neither deletion nor retention looks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace audiogen::api {

// A preview opened for reading. MP3.
struct Preview {
  UniqueFd fd;
  std::int64_t size = 0;
  std::int64_t modified = 0;  // Seconds since the epoch.
  std::string etag;           // Strong, with its quotes.
};

// Thread-safe. Reads take as long as the file system does; nothing of it is kept in memory, so what
// was rendered a moment ago is there in every process that has the folder.
class VoicePreviews {
 public:
  explicit VoicePreviews(std::string folder);  // Empty: there are none.

  // Of each of voices(), in their order, whether it has one.
  std::vector<bool> which() const;

  // Nullopt: there is none, or no such voice. An error when nobody can tell now.
  Result<std::optional<Preview>> open(std::string_view voice) const;

  // Keeps the preview of a voice, durably and as a whole, in place of the one before; whoever reads
  // that goes on reading it. Makes the folder when it is missing. Blocks.
  Result<Done> keep(std::string_view voice, std::string_view mp3) const;

 private:
  std::string path(std::string_view voice) const;

  const std::string folder_;
};

}  // namespace audiogen::api
