// Of which commit this program was built. In the programs alone, so that tests are not linked again
// after every commit.
#pragma once

namespace audiogen {

extern const char* const kCommit;  // Empty: not known.

}  // namespace audiogen
