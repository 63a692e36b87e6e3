# Writes OUT, which says of which commit of SOURCE a program was built: AUDIOGEN_COMMIT of the environment, else what git
# says, else nothing. Left alone when it is so already, so that nothing is built again.
cmake_minimum_required(VERSION 3.25)
set(commit $ENV{AUDIOGEN_COMMIT})
if(NOT commit)
  execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --abbrev=12 --exclude=*
    OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
string(REGEX REPLACE "[^0-9A-Za-z.-]" "" commit "${commit}")
file(CONFIGURE OUTPUT ${OUT} @ONLY CONTENT "#include \"common/base/commit.h\"

namespace audiogen {
const char* const kCommit = \"@commit@\";
}  // namespace audiogen
")
