#include "api/console/pages.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/server/answer.h"
#include "common/base/ascii.h"
#include "common/base/log.h"
#include "common/base/occasionally.h"
#include "common/base/origin.h"
#include "common/base/unique_fd.h"

namespace audiogen::api {
namespace {

constexpr std::string_view kShell = "index.html", kAssets = "assets/";

constexpr std::array kTypes = {
    std::pair<std::string_view, std::string_view>{".html", "text/html; charset=utf-8"},
    std::pair<std::string_view, std::string_view>{".js", "text/javascript; charset=utf-8"},
    std::pair<std::string_view, std::string_view>{".css", "text/css; charset=utf-8"},
    std::pair<std::string_view, std::string_view>{".svg", "image/svg+xml"},
    std::pair<std::string_view, std::string_view>{".png", "image/png"},
    std::pair<std::string_view, std::string_view>{".ico", "image/x-icon"},
    std::pair<std::string_view, std::string_view>{".woff2", "font/woff2"},
    std::pair<std::string_view, std::string_view>{".json", "application/json"},
    std::pair<std::string_view, std::string_view>{".map", "application/json"},
    std::pair<std::string_view, std::string_view>{".txt", "text/plain; charset=utf-8"}};

// A path of plain names, none of them hidden or "..": all that a folder is asked for.
bool is_plain(std::string_view path) {
  while (true) {
    const auto slash = path.find('/');
    const std::string_view name = path.substr(0, slash);
    if (name.empty() || name[0] == '.' || !std::all_of(name.begin(), name.end(), [](char c) {
          return ascii::is_alnum(c) || c == '.' || c == '-' || c == '_';
        })) {
      return false;
    }
    if (slash == std::string_view::npos) {
      return true;
    }
    path.remove_prefix(slash + 1);
  }
}

Error unreadable(const std::filesystem::path& path) {
  return {path.string() + ": " + std::strerror(errno)};
}

// What is in a regular file, nullopt without one. That it is there and cannot be opened or read
// (EMFILE, EIO) is an error.
Result<std::optional<std::string>> file_at(const std::filesystem::path& path) {
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file && (errno == ENOENT || errno == ENOTDIR || errno == ENAMETOOLONG)) {
    return std::optional<std::string>();
  }
  struct stat about {};
  if (!file || fstat(file.get(), &about) != 0) {
    return unreadable(path);
  }
  if (!S_ISREG(about.st_mode)) {
    return std::optional<std::string>();
  }
  std::string out;
  std::array<char, 65536> block;
  while (true) {
    const ssize_t size = read(file.get(), block.data(), block.size());
    if (size == 0) {
      return std::optional(std::move(out));
    }
    if (size < 0 && errno != EINTR) {
      return unreadable(path);
    }
    out.append(block.data(), size < 0 ? 0 : static_cast<std::size_t>(size));
  }
}

std::string fixed_headers(const Config& config) {
  std::string out;
  append_header(
      out, "Content-Security-Policy", content_security_policy(config.public_url, config.cdn_url));
  out +=
      "X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n"
      "Cross-Origin-Opener-Policy: same-origin\r\n";
  return out;
}

}  // namespace

std::string content_security_policy(std::string_view public_url, std::string_view cdn_url) {
  const auto own = parse_origin(public_url), cdn = parse_origin(cdn_url);
  const std::string audio = cdn && !(own && own->text == cdn->text) ? " " + cdn->text : "";
  return "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
         "connect-src 'self'" +
         audio + "; media-src 'self' blob:" + audio +
         "; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";
}

bool accepts_gzip(std::string_view accept_encoding) {
  while (!accept_encoding.empty()) {
    const auto end = std::min(accept_encoding.find(','), accept_encoding.size());
    const std::string_view item = ascii::trim(accept_encoding.substr(0, end));
    accept_encoding.remove_prefix(std::min(end + 1, accept_encoding.size()));
    const auto semicolon = std::min(item.find(';'), item.size());
    if (ascii::equals_ignoring_case(ascii::trim(item.substr(0, semicolon)), "gzip")) {
      const std::string_view weight =
          ascii::trim(item.substr(std::min(semicolon + 1, item.size())));
      return !weight.starts_with("q=0") || weight.find_first_not_of("0.", 2) != weight.npos;
    }
  }
  return false;
}

std::string_view page_type(std::string_view path) {
  const auto* const type = std::find_if(
      kTypes.begin(), kTypes.end(), [&](const auto& t) { return path.ends_with(t.first); });
  return type == kTypes.end() ? "application/octet-stream" : type->second;
}

Pages::Pages(const Config& config, std::span<const EmbeddedPage> embedded)
    : embedded_(embedded), folder_(config.console_dir), headers_(fixed_headers(config)) {}

bool Pages::any() const {
  const auto shell = find(kShell, true);
  return shell && shell->has_value();
}

Result<std::optional<Pages::File>> Pages::find(std::string_view path, bool may_be_packed) const {
  constexpr std::optional<File> kMissing;
  if (folder_.empty()) {
    const auto page = std::find_if(
        embedded_.begin(), embedded_.end(), [&](const EmbeddedPage& p) { return p.path == path; });
    if (page == embedded_.end()) {
      return kMissing;
    }
    const bool packed = may_be_packed && !page->gzip.empty();
    return std::optional(File{std::string(packed ? page->gzip : page->bytes), packed});
  }
  if (!is_plain(path)) {
    return kMissing;
  }
  auto bytes = file_at(folder_ / path);
  if (!bytes) {
    return bytes.error();
  }
  return *bytes ? std::optional(File{std::move(**bytes), false}) : kMissing;
}

void Pages::show(const Call& call) const {
  const std::string_view asked = call.parameter(0);
  const bool may_be_packed = accepts_gzip(call.request().joined_headers("accept-encoding"));
  std::string_view path = asked;
  auto found = find(path, may_be_packed);
  const bool for_good = asked.starts_with(kAssets);
  if (found && !*found && for_good) {
    call.fail(not_found());
    return;
  }
  if (found && !*found) {
    path = kShell;
    found = find(path, may_be_packed);
  }
  if (!found) {
    static Occasionally line;
    if (line.due()) {
      log::error("a page cannot be read", {{"why", found.error().message}});
    }
  }
  if (!found || !*found) {  // Without a shell somebody builds the folder anew.
    call.fail(service_unavailable());
    return;
  }
  File& file = **found;
  http::Response response;
  response.headers = headers_;
  append_header(response.headers, "Content-Type", page_type(path));
  append_header(response.headers,
                "Cache-Control",
                for_good ? "public, max-age=31536000, immutable" : "no-store");
  append_header(response.headers, "Vary", "Accept-Encoding");
  append_header(response.headers, "X-Request-Id", call.request_id());
  if (file.packed) {
    append_header(response.headers, "Content-Encoding", "gzip");
  }
  response.body = std::move(file.bytes);
  call.exchange().reply(std::move(response));
}

void Pages::redirect(const Call& call) const {
  http::Response response;
  response.status = 302;
  response.headers = headers_;
  append_header(response.headers, "Location", "/console/");
  append_header(response.headers, "Cache-Control", "no-store");
  append_header(response.headers, "X-Request-Id", call.request_id());
  call.exchange().reply(std::move(response));
}

}  // namespace audiogen::api
