// A small disk, to be full.
#pragma once

#include <string>

namespace audiogen::test {

class SmallDisk {
 public:
  // Makes it in memory (tmpfs), visible to this process and those it starts from now on. Throws
  // std::runtime_error where the kernel does not allow that: to be constructed while this process
  // has one thread.
  explicit SmallDisk(int megabytes);
  ~SmallDisk();
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  const std::string& folder() const { return folder_; }
  // Nothing more can be written, not a byte.
  void fill() const;
  void empty() const;

 private:
  std::string folder_;
};

}  // namespace audiogen::test
