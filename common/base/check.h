// Checks that stay on in release builds. They are for our own bugs only: what a request, a
// provider, the broker or the database can cause is an error, never a check.
#pragma once

#include <chrono>

namespace audiogen {

// Prints the failed condition and aborts the process.
[[noreturn]] void check_failed(const char* condition, const char* file, int line);

// A named place where a fault test may stop this process. CRASH_POINT in the environment chooses:
// "name:n" ends it at the n-th pass as a kill -9 would, "name:n:pause" rests there for two seconds,
// "name:n:stop" until SIGCONT. Compiled to nothing unless AUDIOGEN_CRASH_POINTS is defined.
void crash_point(const char* name);

// A limit that a test may shorten: by the environment variable `name`, in milliseconds; without it
// `usual`. Compiled to `usual` unless AUDIOGEN_CRASH_POINTS is defined.
std::chrono::milliseconds test_limit(const char* name, std::chrono::milliseconds usual);

}  // namespace audiogen

#define AG_CHECK(condition)                                     \
  do {                                                          \
    if (!(condition)) {                                         \
      ::audiogen::check_failed(#condition, __FILE__, __LINE__); \
    }                                                           \
  } while (false)

#ifdef AUDIOGEN_CRASH_POINTS
#define AG_CRASH_POINT(name) ::audiogen::crash_point(name)
#define AG_TEST_LIMIT(name, usual) ::audiogen::test_limit(name, usual)
#else
#define AG_TEST_LIMIT(name, usual) (usual)
#define AG_CRASH_POINT(name) static_cast<void>(0)
#endif
