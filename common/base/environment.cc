#include "common/base/environment.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace audiogen {

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
    std::ifstream in(file);
    if (!in) {
      return Error{name + "_FILE: cannot read " + file};
    }
    std::ostringstream text;
    text << in.rdbuf();
    std::string value = text.str();
    while (!value.empty() && (value.back() == '\n' || value.back() == '\r')) {
      value.pop_back();
    }
    return std::optional(value);
  }
  return direct != nullptr ? std::optional<std::string>(direct) : std::nullopt;
}

}  // namespace audiogen
