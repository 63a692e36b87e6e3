// Decodes one request in a process made for it.
#pragma once

#include "worker/sandbox/zygote.h"

namespace audiogen::decoding {

// Prepares the sandbox; the handler returned answers requests (protocol.h). Null when this kernel
// has no sandbox. For run_zygote().
sandbox::Handler start();

}  // namespace audiogen::decoding
