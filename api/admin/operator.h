// Who runs a command.
#pragma once

#include <string>

namespace audiogen::api {

// Who sits at the keyboard, as far as the system knows: user@host.
std::string operating_user();

}  // namespace audiogen::api
