// What each program's database user may do: schema/grants.sql, compiled into the program.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/config.h"
#include "common/base/result.h"

namespace audiogen::store {

// An account of the database server, and a part of schema/grants.sql that it plays. One that plays
// several is named with all of them: of what is not asked for, it keeps nothing.
struct Grantee {
  std::string role;     // api, worker or admin
  std::string account;  // name@host; the account must exist
};

// Gives each account its rights on the tables of `url`'s database, and takes away what it has there
// beyond them, unless its schema is newer than this program: then it may be what the newer ones
// need. Rights it keeps are never gone in between, so programs may run meanwhile, with one
// exception: where a verb is taken of a whole table of which the account keeps it for some columns,
// the server takes these along, and they are missing until the next statement has given them again.
// With `only_look` nothing is changed, nor when one of `grantees` is not as it must be. The
// statements it takes; none when all is as it should be. An account that has rights beyond the
// tables of one database, or by a role, is an error, and so is what MariaDB gives to PUBLIC there:
// they are not ours to take. Needs the right to grant, and SELECT ON mysql.*: without that one the
// server does not tell of other accounts' rights. Blocks;
// an error is one sentence for the operator, and then `done`, where given, holds the statements
// that took effect before it.
Result<std::vector<std::string>> bring_grants(const DatabaseUrl& url,
                                              const std::vector<Grantee>& grantees,
                                              bool only_look = false,
                                              std::vector<std::string>* done = nullptr);

}  // namespace audiogen::store
