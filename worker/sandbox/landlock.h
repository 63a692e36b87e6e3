// What the kernel offers, for programs that link nothing of the sandbox.
#pragma once

#include <linux/landlock.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace audiogen::sandbox {

// Whether this kernel can take files away from a process (Landlock, Linux 5.13). Without it the
// sandbox of a helper that reads files stops writing only.
inline bool landlock_available() {
  return syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION) > 0;
}

}  // namespace audiogen::sandbox
