// `audio-api admin stuck`: open tasks that are older than two minutes, and what they wait for.
#pragma once

#include "api/admin/command.h"

namespace audiogen::api {

Reply stuck(Doors& doors, const Options& options);

}  // namespace audiogen::api
