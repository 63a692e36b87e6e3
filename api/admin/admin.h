// `audio-api admin ...`: users, credits, keys, tasks, the queue and the audit for operators.
#pragma once

#include <iostream>
#include <string>
#include <vector>

namespace audiogen::api {

// Runs one command; `args` are the words after "admin". The exit code: 0, or 1 after one clear line
// on `err`, which is also how it ends when all was done and `out` did not take the answer. With
// --json `out` gets one JSON object, and a failure is one on `err`.
//
// Reads DATABASE_URL, for new keys BRAND and for the queue AMQP_URL from the environment; nothing
// else of the configuration need be there. Blocks on the database.
int run_admin(const std::vector<std::string>& args,
              std::ostream& out = std::cout,
              std::ostream& err = std::cerr);

}  // namespace audiogen::api
