// libsndfile's view of a file in memory.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include <sndfile.h>

namespace audiogen {

// For handles of C libraries.
template <auto Function>
struct Deleter {
  template <class T>
  void operator()(T* handle) const {
    Function(handle);
  }
};
using SoundFile = std::unique_ptr<SNDFILE, Deleter<sf_close>>;

// Reads from `in`, or reads and writes `out`.
struct MemoryFile {
  std::string_view in;
  std::string* out = nullptr;
  std::size_t position = 0;

  std::string_view content() const { return out != nullptr ? std::string_view(*out) : in; }
};

inline MemoryFile& memory_file(void* user) {
  return *static_cast<MemoryFile*>(user);
}

inline SF_VIRTUAL_IO memory_io() {
  SF_VIRTUAL_IO io{};
  io.get_filelen = [](void* user) {
    return static_cast<sf_count_t>(memory_file(user).content().size());
  };
  io.seek = [](sf_count_t offset, int whence, void* user) {
    MemoryFile& file = memory_file(user);
    const auto size = static_cast<sf_count_t>(file.content().size());
    const auto base = whence == SEEK_CUR   ? static_cast<sf_count_t>(file.position)
                      : whence == SEEK_END ? size
                                           : 0;
    // The offset may be a header's own words: bounded before it is added.
    const sf_count_t step = std::clamp<sf_count_t>(offset, -size, size);
    file.position = static_cast<std::size_t>(std::clamp<sf_count_t>(base + step, 0, size));
    return static_cast<sf_count_t>(file.position);
  };
  io.read = [](void* data, sf_count_t count, void* user) {
    MemoryFile& file = memory_file(user);
    const std::string_view part = file.content().substr(
        file.position, static_cast<std::size_t>(std::max<sf_count_t>(count, 0)));
    std::memcpy(data, part.data(), part.size());
    file.position += part.size();
    return static_cast<sf_count_t>(part.size());
  };
  io.write = [](const void* data, sf_count_t count, void* user) {
    MemoryFile& file = memory_file(user);
    const auto size = static_cast<std::size_t>(count);
    if (file.position + size > file.out->size()) {
      file.out->resize(file.position + size);
    }
    std::memcpy(file.out->data() + file.position, data, size);
    file.position += size;
    return count;
  };
  io.tell = [](void* user) { return static_cast<sf_count_t>(memory_file(user).position); };
  return io;
}

}  // namespace audiogen
