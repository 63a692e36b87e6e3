// Where this checkout is, and what was built of it. Compiled into one object alone, so that
// everything else is the same in every checkout, and a compiler's cache can serve it.
#pragma once

#include <string>

namespace audiogen::test {

// A file or folder of this checkout, by its path in it.
std::string source_path(const std::string& path);
// A program, by its name.
std::string program_path(const std::string& name);

}  // namespace audiogen::test
