// `audio-api admin dead …`: messages that nobody could read, as the broker keeps them. They are no
// work: that stands in the database.
#pragma once

#include "api/admin/command.h"

namespace audiogen::api {

Reply dead_list(Doors& doors, const Options& options);
Reply dead_show(Doors& doors, const Options& options);
Reply dead_drop(Doors& doors, const Options& options);

}  // namespace audiogen::api
