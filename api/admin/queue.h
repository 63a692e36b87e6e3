// `audio-api admin queue`: how much work waits, and who does it.
#pragma once

#include "api/admin/command.h"

namespace audiogen::api {

Reply queue(Doors& doors, const Options& options);

}  // namespace audiogen::api
