// The store's faults in the words of the command line.
#pragma once

#include <string>

#include "common/store/fault.h"

namespace audiogen::api {

// One sentence for the operator, naming the option to change where it is one that is wrong. May
// hold what the database said.
std::string worded(const store::Fault& fault);

}  // namespace audiogen::api
