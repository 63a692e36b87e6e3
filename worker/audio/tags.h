// Text that a file carries beside its sound: titles, comments, names of tools. A provider's must
// not reach a client, who is not to learn whose it is, so audio that passes through goes without.
// Pure.
#pragma once

#include <optional>
#include <string_view>

#include "worker/audio/audio.h"

namespace audiogen {

// The part of the file that holds the sound and no text but, at most, the name of a well-known
// encoder: MP3 without its ID3 tags, plain WAV with the two chunks it needs, Opus without comments.
// Nullopt: they cannot be told apart without writing the file anew.
std::optional<std::string_view> without_tags(const Audio& audio);

}  // namespace audiogen
