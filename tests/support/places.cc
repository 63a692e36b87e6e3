#include "tests/support/places.h"

namespace audiogen::test {

std::string source_path(const std::string& path) {
  return AUDIOGEN_SOURCE_DIR "/" + path;
}

std::string program_path(const std::string& name) {
  return AUDIOGEN_BIN_DIR "/" + name;
}

}  // namespace audiogen::test
