#include "worker/decode/misbehave.h"

#ifdef AUDIOGEN_CRASH_POINTS

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace audiogen::decode {

void misbehave(std::string_view bytes) {
  constexpr std::string_view kMark = "fLaC!";
  if (!bytes.starts_with(kMark)) {
    return;
  }
  const std::string_view what = bytes.substr(kMark.size());
  constexpr std::size_t kPiece = 1UL << 20U;
  if (what == "crash") {
    abort();
  }
  while (what == "hang") {
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  while (what == "eat") {
    std::memset(new char[kPiece], 1, kPiece);
  }
  if (what == "open" && open("/etc/passwd", O_RDONLY) >= 0) {
    _exit(0);  // an end without an answer would be a crash; this is worse
  }
  if (what == "socket") {
    socket(AF_INET, SOCK_STREAM, 0);
  }
}

}  // namespace audiogen::decode

#endif
