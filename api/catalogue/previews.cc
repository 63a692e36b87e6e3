#include "api/catalogue/previews.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/domain/voices.h"

namespace audiogen::api {
namespace {

namespace fs = std::filesystem;

Error cannot(const std::string& what) {
  return {what + ": " + std::strerror(errno)};
}

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) {
      return false;
    }
    bytes.remove_prefix(written < 0 ? 0 : static_cast<std::size_t>(written));
  }
  return true;
}

// Makes `folder`, and what is missing above it, for everybody to enter: whoever makes the samples
// may be another user than the API, with a umask that shuts others out.
void make_folders(const fs::path& folder, std::error_code& error) {
  if (folder.empty() || fs::exists(folder, error) || error) {
    return;
  }
  make_folders(folder.parent_path(), error);
  if (!error && fs::create_directory(folder, error)) {
    fs::permissions(folder, fs::perms(0755), error);
  }
}

}  // namespace

VoicePreviews::VoicePreviews(std::string folder) : folder_(std::move(folder)) {}

std::string VoicePreviews::path(std::string_view voice) const {
  return folder_ + "/" + std::string(voice) + ".mp3";
}

std::vector<bool> VoicePreviews::which() const {
  std::vector<bool> out;
  out.reserve(voices().size());
  for (const Voice& voice : voices()) {
    std::error_code none;
    out.push_back(!folder_.empty() && fs::is_regular_file(path(voice.id), none));
  }
  return out;
}

Result<std::optional<Preview>> VoicePreviews::open(std::string_view voice) const {
  // Only the name of a voice is ever part of a path.
  if (folder_.empty() || !is_voice(voice)) {
    return std::optional<Preview>();
  }
  UniqueFd fd(::open(path(voice).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd && errno == ENOENT) {
    return std::optional<Preview>();
  }
  struct stat about {};
  if (!fd || ::fstat(fd.get(), &about) != 0) {
    return cannot("the preview of " + std::string(voice) + " cannot be opened");
  }
  if (!S_ISREG(about.st_mode)) {
    return std::optional<Preview>();
  }
  // A file is never written to again (keep()), so when it was made says which one it is.
  std::string etag = "\"" + std::string(voice) + "-" + std::to_string(about.st_mtim.tv_sec) + "." +
                     std::to_string(about.st_mtim.tv_nsec) + "-" + std::to_string(about.st_size) +
                     "\"";
  return std::optional(Preview{.fd = std::move(fd),
                               .size = about.st_size,
                               .modified = about.st_mtim.tv_sec,
                               .etag = std::move(etag)});
}

Result<Done> VoicePreviews::keep(std::string_view voice, std::string_view mp3) const {
  AG_CHECK(!folder_.empty());
  AG_CHECK(is_voice(voice));
  std::error_code error;
  make_folders(folder_, error);
  if (error) {
    return Error{folder_ + ": " + error.message()};
  }
  const std::string last = path(voice);
  const std::string next = last + "." + std::to_string(::getpid());
  UniqueFd fd(::open(next.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd || ::fchmod(fd.get(), 0644) != 0 || !write_all(fd.get(), mp3) || ::fsync(fd.get()) != 0 ||
      ::rename(next.c_str(), last.c_str()) != 0) {
    const Error why = cannot(next);
    ::unlink(next.c_str());
    return why;
  }
  // The new name, too, survives a power cut.
  const UniqueFd folder(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder || ::fsync(folder.get()) != 0) {
    return cannot(folder_);
  }
  return Done();
}

}  // namespace audiogen::api
