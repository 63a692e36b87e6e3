# The console's pages, compiled into audio-api: api/console/web is built by Node (18 or newer) with what its lock file
# names from npm, and every file of the result becomes a constant. In the build folder, so that two build folders of one
# checkout do not meet and nothing is written between the sources.
set(console ${CMAKE_CURRENT_LIST_DIR})
set(web ${console}/web)
find_program(NODE node)
find_program(NPM npm)
set(can_build OFF)
if(NODE AND NPM)
  set(can_build ON)
endif()
option(AUDIOGEN_CONSOLE "Compile the console's pages in (needs Node, and the npm registry once)" ${can_build})

set(embedded ${CMAKE_CURRENT_BINARY_DIR}/embedded_pages.cc)
if(AUDIOGEN_CONSOLE)
  if(NOT can_build)
    message(FATAL_ERROR "the console's pages need node and npm; -DAUDIOGEN_CONSOLE=OFF builds without them")
  endif()
  set(work ${CMAKE_CURRENT_BINARY_DIR}/console-web)
  set(pages ${CMAKE_CURRENT_BINARY_DIR}/console-pages)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS RELATIVE ${web} ${web}/*)
  list(FILTER sources EXCLUDE REGEX "^(node_modules|dist)/")
  set(lock package.json package-lock.json .npmrc)
  list(REMOVE_ITEM sources ${lock})
  list(TRANSFORM lock PREPEND ${web}/ OUTPUT_VARIABLE lock_files)
  list(TRANSFORM sources PREPEND ${web}/ OUTPUT_VARIABLE source_files)
  # The libraries, again only when the lock file changes. npm's cache would be as large as what it installs. It asks again
  # for an answer that does not come, but not for one that breaks off.
  add_custom_command(OUTPUT ${work}/installed
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${work}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${work}
    COMMAND ${CMAKE_COMMAND} -E copy ${lock_files} ${work}
    COMMAND sh -c "cd \"$0\" && { \"$@\" || \"$@\"; }" ${work} ${NPM} ci --no-progress --cache ${work}/cache
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${work}/cache
    COMMAND ${CMAKE_COMMAND} -E touch ${work}/installed
    DEPENDS ${lock_files} COMMENT "Installing what the console's pages are built with" VERBATIM)
  add_custom_command(OUTPUT ${embedded}
    COMMAND ${CMAKE_COMMAND} -DFROM=${web} -DTO=${work} "-DFILES=${sources}" -P ${console}/copy.cmake
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${pages}
    COMMAND ${CMAKE_COMMAND} -E chdir ${work} ${NODE} build.mjs ${pages}
    COMMAND ${NODE} ${console}/embed.mjs ${pages} ${embedded}
    DEPENDS ${work}/installed ${source_files} ${console}/embed.mjs ${console}/copy.cmake
    COMMENT "Building the console's pages" VERBATIM)
else()
  message(STATUS "audio-api is built without the console's pages (AUDIOGEN_CONSOLE)")
  file(CONFIGURE OUTPUT ${embedded} @ONLY CONTENT [[
#include "api/console/embedded_pages.h"

namespace audiogen::api {
const std::span<const EmbeddedPage> embedded_pages{};
}  // namespace audiogen::api
]])
endif()
target_sources(audiogen_api PRIVATE ${embedded})
