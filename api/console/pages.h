// The console's pages: files that are compiled in, or read from a folder while somebody works on
// them.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "api/console/embedded_pages.h"
#include "api/server/call.h"
#include "common/base/config.h"
#include "common/base/result.h"

namespace audiogen::api {

class Pages {
 public:
  // `embedded` is to live as long as this. With CONSOLE_DIR its files are those of that folder,
  // read when they are asked for, on the I/O thread.
  Pages(const Config& config, std::span<const EmbeddedPage> embedded);

  // Whether there is anything to show; and whether CONSOLE_DIR, if given, can be read.
  bool any() const;
  bool usable() const { return folder_.empty() || any(); }

  // The file that the route's parameter names. What no file has as its name is a page that the
  // console's own script draws: the shell, index.html, never kept by anybody, since it names the
  // files of its release. Those have the hash of their content in their names and are kept for
  // good; one that is not there is 404, so that a page of a release before this does not run a
  // shell as a script. One that cannot be read is 503.
  void show(const Call& call) const;
  // To the shell, for whoever comes to "/" or "/console".
  void redirect(const Call& call) const;

 private:
  struct File {
    std::string bytes;
    bool packed = false;
  };
  // nullopt: there is no such file. An error: one that cannot be read now.
  Result<std::optional<File>> find(std::string_view path, bool may_be_packed) const;

  const std::span<const EmbeddedPage> embedded_;
  const std::filesystem::path folder_;  // Empty: what is embedded.
  const std::string headers_;           // Of every answer.
};

// What a page of ours may load and do (Content Security Policy Level 3): its own files, and what
// comes from the origin of CDN_URL, the audio. No inline script or style, no frame, no form.
std::string content_security_policy(std::string_view public_url, std::string_view cdn_url);

// Whether an Accept-Encoding header (RFC 9110 section 12.5.3) names gzip and does not exclude it.
bool accepts_gzip(std::string_view accept_encoding);

// The media type that the ending of a name stands for.
std::string_view page_type(std::string_view path);

}  // namespace audiogen::api
