#include "tests/support/small_disk.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <vector>

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

namespace audiogen::test {
namespace {

void need(bool worked, const char* what) {
  if (!worked) {
    throw std::runtime_error(std::string(what) + ": " + std::strerror(errno));
  }
}

}  // namespace

SmallDisk::SmallDisk(int megabytes) {
  std::string pattern = std::filesystem::temp_directory_path() / "audiogen-disk-XXXXXX";
  need(::mkdtemp(pattern.data()) != nullptr, "mkdtemp");
  folder_ = pattern;
  need(::unshare(CLONE_NEWNS) == 0, "unshare");
  need(::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0, "mount --make-rprivate");
  const std::string size = "size=" + std::to_string(megabytes) + "m,mode=0700";
  need(::mount("tmpfs", folder_.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, size.c_str()) == 0,
       "mount tmpfs");
}

SmallDisk::~SmallDisk() {
  ::umount2(folder_.c_str(), MNT_DETACH);
  std::error_code ignored;
  std::filesystem::remove(folder_, ignored);
}

void SmallDisk::fill() const {
  const int fd = ::open((folder_ + "/full").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  need(fd >= 0, "open");
  const std::vector<char> piece(1 << 20, 'x');
  std::size_t size = piece.size();
  while (size > 0) {
    const ssize_t written = ::write(fd, piece.data(), size);
    if (written <= 0) {
      size /= 2;  // The last bytes, too.
    }
  }
  ::close(fd);
}

void SmallDisk::empty() const {
  std::filesystem::remove(folder_ + "/full");
}

}  // namespace audiogen::test
