// audio-onnx: started by the worker with a model of the operator's, which it loads once; speaks one
// request per sandboxed child (protocol.h, worker/sandbox/zygote.h), which has the model from it.
#include <cstdio>
#include <fstream>
#include <optional>
#include <span>
#include <string>

#include <unistd.h>

#include "worker/onnx/engine.h"
#include "worker/sandbox/zygote.h"

namespace audiogen::onnx {
namespace {

int run(std::span<const char* const> arguments) {
  sandbox::settle_in();
  const std::optional<Model> model = model_of(arguments);
  if (!model) {
    std::fputs("started by audio-worker alone\n", stderr);
    return 2;
  }
  // Before the fence, behind which the folders could not be named any more.
  const std::optional<sandbox::Sandbox> locked = sandbox::Sandbox::prepare(readable_of(*model));
  // Where memory ends, a child goes first, then this, and not the worker.
  std::ofstream("/proc/self/oom_score_adj") << 1000;
  // Nobody may be left to end one that hangs over its model.
  alarm(static_cast<unsigned>(kLoadMax.count()));
  const std::optional<Engine> engine = locked ? load(*model) : std::nullopt;
  alarm(0);
  if (!engine) {
    return 1;
  }
  return sandbox::serve(
      kProtocolVersion, true, 1, [&](const std::string& packet, std::span<const int>) {
        if (const std::optional<Request> request = decode(packet)) {
          speak_and_exit(*request, *engine, *locked);
        }
      });
}

}  // namespace
}  // namespace audiogen::onnx

int main(int argc, char** argv) {
  return audiogen::onnx::run({argv + 1, static_cast<std::size_t>(argc - 1)});
}
