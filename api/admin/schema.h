// `audio-api migrate` and `audio-api grants`: what a new version needs of its database. What they
// changed stands among the actions of operators.
#pragma once

#include <vector>

#include "common/store/grants.h"

namespace audiogen::api {

// Both are whole commands: they read DATABASE_URL, print what they did or one line on why not, and
// answer the exit code. They block until done.
int run_migrate();
// With `only_look` nothing is changed, nor recorded. Without a grantee it is a wrong call (2).
int run_grants(const std::vector<store::Grantee>& grantees, bool only_look);

}  // namespace audiogen::api
