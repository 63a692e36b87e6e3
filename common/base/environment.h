// Settings as their readers find them: variables of the environment, or files that those name.
#pragma once

#include <optional>
#include <string>

#include "common/base/result.h"

namespace audiogen {

// The value of the variable `name`, or of the file that NAME_FILE names, without its last line
// breaks; nothing when neither is set. An error when both are, or when the file cannot be read.
Result<std::optional<std::string>> read_variable(const std::string& name);

}  // namespace audiogen
