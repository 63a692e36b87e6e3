// `audio-api admin providers`: what calls to providers were, cost and brought in, day by day.
#pragma once

#include "api/admin/command.h"

namespace audiogen::api {

Reply providers(Doors& doors, const Options& options);

}  // namespace audiogen::api
