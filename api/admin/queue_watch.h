// `audio-api admin queue --watch`: the same numbers on a screen of their own, again and again.
#pragma once

#include <functional>
#include <string>

#include "api/admin/command.h"

namespace audiogen::api {

// All there is about a task, for people; or why it is not shown.
using ShowTask = std::function<std::string(Doors& doors, const std::string& id)>;

// Until its user, or a signal, ends it; with o.once one picture, without control characters where
// that does not go to a terminal.
Reply queue_watch(Doors& doors, const Options& o, const ShowTask& show);

}  // namespace audiogen::api
