// A speech helper whose child dies on every text, as espeak-ng's does on some; or, with HANGS,
// comes to no end.
#include <csignal>

#include <unistd.h>

#include "worker/sandbox/zygote.h"
#include "worker/speech/protocol.h"

int main() {
  using namespace audiogen;
  sandbox::settle_in();
  return sandbox::serve(
      speech::kProtocolVersion, true, 1, [](const std::string&, std::span<const int>) {
#ifdef HANGS
        pause();
#endif
        std::raise(SIGKILL);
      });
}
