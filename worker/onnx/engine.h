// Speaks one request with a model, in a process made for it.
#pragma once

#include <cstdint>
#include <optional>

#include "worker/onnx/protocol.h"
#include "worker/onnx/sherpa.h"
#include "worker/sandbox/sandbox.h"

namespace audiogen::onnx {

// The runtime and a model, loaded: once per process, and never given back.
struct Engine {
  const sherpa::Tts* tts;
  sherpa::GenerateWithCallbackWithArg* generate;
  std::uint32_t rate;        // Hz
  std::uint32_t memory_mib;  // address space that is taken already
};

// Loads the runtime, then fences the process in, then loads the model. Says on standard error why
// not, or the runtime does, and ends the process.
std::optional<Engine> load(const Model& model);

// What a child may read.
std::vector<std::string> readable_of(const Model& model);

// Enters the sandbox, speaks and writes the blocks of the answer (protocol.h), then exits.
[[noreturn]] void speak_and_exit(const Request& request,
                                 const Engine& engine,
                                 const sandbox::Sandbox& sandbox);

}  // namespace audiogen::onnx
