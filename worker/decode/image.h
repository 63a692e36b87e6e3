// Images in memory: is it one, and how large. Pure functions: no I/O, thread-safe. For the
// sandboxed helper; foreign bytes belong nowhere else.
#pragma once

#include <string_view>

#include "common/base/result.h"
#include "worker/audio/decoder.h"

namespace audiogen {

// Decodes a whole png, jpeg or webp image (by its first bytes) and drops the pixels: a file cut
// short, or damaged where its format can tell, is an error, and so is an animated webp. Above
// kImageSideMax or kImagePixelsMax only the size is read. Row by row where the library can: at
// worst (a large progressive jpeg or lossless webp) it needs 260 MB.
Result<ImageInfo> inspect_image(std::string_view bytes);

}  // namespace audiogen
