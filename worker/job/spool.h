// Bytes on their way from outside to whoever needs them whole: few of them in memory, more in a
// file without a name, which is gone with its last user, a crash included.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/unique_fd.h"

namespace audiogen::worker {

class Spool {
 public:
  static constexpr std::size_t kInMemory = 64UL
                                           << 10U;  // bytes; from there on they are in the file

  // `folder` of the file; nothing is opened before it is needed.
  explicit Spool(std::string folder) : folder_(std::move(folder)) {}

  // False when the file cannot be opened or written (logged); what came before may be lost then.
  // Blocks no longer than the page cache does.
  bool append(std::string_view part);
  std::size_t size() const { return size_; }
  // All of it. Nullopt when the file cannot be read (logged).
  std::optional<std::string> read() const;
  void clear();

  // Can files be made in `folder`? For programs that start.
  static bool works_in(const std::string& folder);

 private:
  std::string folder_;
  std::string memory_;
  UniqueFd file_;
  std::size_t size_ = 0;
};

}  // namespace audiogen::worker
