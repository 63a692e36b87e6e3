// What a decoder taken over by hostile bytes would try, for the tests of the sandbox.
#pragma once

#include <string_view>

namespace audiogen::decode {

// Does what bytes that start with "fLaC!" name: crash, hang, eat (memory), open (a file), socket.
// Compiled to nothing unless AUDIOGEN_CRASH_POINTS is defined.
#ifdef AUDIOGEN_CRASH_POINTS
void misbehave(std::string_view bytes);
#else
inline void misbehave(std::string_view) {}
#endif

}  // namespace audiogen::decode
