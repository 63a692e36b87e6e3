#include "common/base/environment.h"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "common/base/unique_fd.h"

namespace audiogen {
namespace {

// A directory can be opened as well, and a disk may fail later than that.
Result<std::string> contents_of(const char* path) {
  std::string text;
  std::array<char, 4096> part{};
  const UniqueFd file(::open(path, O_RDONLY | O_CLOEXEC));
  while (file) {
    const ssize_t count = ::read(file.get(), part.data(), part.size());
    if (count == 0) {
      return text;
    }
    if (count > 0) {
      text.append(part.data(), static_cast<std::size_t>(count));
    } else if (errno != EINTR) {
      break;
    }
  }
  return Error{std::generic_category().message(errno)};
}

// Editors end a file with one, and nobody means it.
std::string without_line_end(std::string value) {
  while (!value.empty() && (value.back() == '\n' || value.back() == '\r')) {
    value.pop_back();
  }
  return value;
}

}  // namespace

Result<std::optional<std::string>> read_variable(const std::string& name) {
  const char* direct = std::getenv(name.c_str());
  const char* file = std::getenv((name + "_FILE").c_str());
  if (name == "PROVIDERS") {  // PROVIDERS_FILE is a setting of its own.
    file = nullptr;
  }
  if (direct != nullptr && file != nullptr) {
    return Error{name + " and " + name + "_FILE are both set; set one"};
  }
  if (file != nullptr) {
    auto value = contents_of(file);
    if (!value) {
      return Error{name + "_FILE: cannot read " + file + ": " + value.error().message};
    }
    return std::optional(without_line_end(*std::move(value)));
  }
  // A variable, too, may be made of a file (Kubernetes: secretKeyRef).
  return direct != nullptr ? std::optional(without_line_end(direct)) : std::nullopt;
}

}  // namespace audiogen
