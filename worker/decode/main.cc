// audio-decode: started by the worker, decodes the sound and images of strangers, each in a
// sandboxed child of its own (worker/sandbox/zygote.h).
#include "worker/decode/child.h"
#include "worker/decode/protocol.h"

int main() {
  return audiogen::sandbox::run_zygote(audiogen::decoding::kProtocolVersion,
                                       audiogen::decoding::start);
}
