#include "worker/job/spool.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

#include "common/base/log.h"

namespace audiogen::worker {
namespace {

// A file in `folder` that has no name.
UniqueFd open_file(const std::string& folder) {
  UniqueFd file(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | O_EXCL, S_IRUSR | S_IWUSR));
  if (file || (errno != EOPNOTSUPP && errno != EISDIR)) {
    return file;
  }
  // A file system without O_TMPFILE.
  std::string name = folder + "/audio-worker-XXXXXX";
  file = UniqueFd(::mkostemp(name.data(), O_CLOEXEC));
  if (file) {
    ::unlink(name.c_str());
  }
  return file;
}

void log_trouble(const char* what, const std::string& folder) {
  log::error(what, {{"folder", folder}, {"why", std::strerror(errno)}});
}

}  // namespace

bool Spool::append(std::string_view part) {
  size_ += part.size();
  if (size_ <= kInMemory) {
    memory_.append(part);
    return true;
  }
  if (!file_) {
    file_ = open_file(folder_);
    if (!file_) {
      log_trouble("no file for a download", folder_);
      return false;
    }
    memory_.append(part);
    part = memory_;
  }
  while (!part.empty()) {
    const ssize_t count = ::write(file_.get(), part.data(), part.size());
    if (count < 0 && errno != EINTR) {
      log_trouble("a download cannot be written", folder_);
      return false;
    }
    part.remove_prefix(count > 0 ? static_cast<std::size_t>(count) : 0);
  }
  std::string().swap(memory_);
  return true;
}

std::optional<std::string> Spool::read() const {
  if (!file_) {
    return memory_;
  }
  std::string out(size_, '\0');
  for (std::size_t at = 0; at < size_;) {
    const ssize_t count = ::pread(file_.get(), out.data() + at, size_ - at, static_cast<off_t>(at));
    if (count == 0 || (count < 0 && errno != EINTR)) {
      log_trouble("a download cannot be read back", folder_);
      return std::nullopt;
    }
    at += count > 0 ? static_cast<std::size_t>(count) : 0;
  }
  return out;
}

void Spool::clear() {
  std::string().swap(memory_);
  file_.reset();
  size_ = 0;
}

bool Spool::works_in(const std::string& folder) {
  return static_cast<bool>(open_file(folder));
}

}  // namespace audiogen::worker
