// The console's pages as they are compiled in: made of api/console/web by the build (embed.mjs).
#pragma once

#include <span>
#include <string_view>

namespace audiogen::api {

struct EmbeddedPage {
  std::string_view path;  // Below /console/: "index.html", "assets/app-1f2e3d.js".
  std::string_view bytes;
  std::string_view gzip;  // The same, packed. Empty: that would be no smaller.
};

// None in a build without the console.
extern const std::span<const EmbeddedPage> embedded_pages;

}  // namespace audiogen::api
