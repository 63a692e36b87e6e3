// A speech helper whose child dies on every text, as espeak-ng's does on some; or, with HANGING,
// comes to no end; or, with FORKLESS, a helper that has no child for any.
#include <cerrno>
#include <csignal>

#include <seccomp.h>
#include <unistd.h>

#include "worker/sandbox/zygote.h"
#include "worker/speech/protocol.h"

int main() {
  using namespace audiogen;
  sandbox::settle_in();
#ifdef FORKLESS
  // As where no process is left.
  const scmp_filter_ctx rules = seccomp_init(SCMP_ACT_ALLOW);
  for (const int call : {SCMP_SYS(clone), SCMP_SYS(clone3), SCMP_SYS(fork), SCMP_SYS(vfork)}) {
    if (seccomp_rule_add(rules, SCMP_ACT_ERRNO(EAGAIN), call, 0) != 0) {
      return 1;
    }
  }
  if (seccomp_load(rules) != 0) {
    return 1;
  }
#endif
  return sandbox::serve(
      speech::kProtocolVersion, true, 1, [](const std::string&, std::span<const int>) {
#ifdef HANGING
        for (;;) {
          pause();  // Signals tell of the pipe.
        }
#endif
        std::raise(SIGKILL);
      });
}
