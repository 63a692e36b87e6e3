// The helper's side of a helper program: a small process of one thread, started by the worker, that
// makes one child per request. Forking from it costs a millisecond and keeps a crash to its
// request.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "worker/sandbox/wire.h"

namespace audiogen::sandbox {

// Answers one request in a process made for it: enters the sandbox, then writes blocks to the
// first of `descriptors`. The process ends when it returns. Its only other descriptors are standard
// input, output and error (the null device) and what the zygote opened.
using Handler = std::function<void(std::string_view packet, std::span<const int> descriptors)>;

// Runs the helper program until the worker closes the socket; main() returns what it returns.
// `start` prepares what all requests share and returns their handler, or null when that fails:
// then the worker is told and the program ends. `version` is that of the program's protocol.
int run_zygote(std::uint32_t version, const std::function<Handler()>& start);

// Writes a block of at most kBlockMax bytes of payload. Blocks; ends the process when nobody reads
// any more.
void write_block(int descriptor, std::uint32_t kind, std::string_view payload);

}  // namespace audiogen::sandbox
