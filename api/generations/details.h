// All there is to tell its owner about a generation. Never who was asked to make it.
#pragma once

#include <string>

#include "common/domain/outlook.h"
#include "common/store/history.h"

namespace audiogen::api {

std::string render_details(const store::TaskDetails& details, const Prospect& prospect);

}  // namespace audiogen::api
