// A model of the operator's own as a kind of provider (worker/onnx/README.md).
#pragma once

#include "worker/providers/kind.h"

namespace audiogen::onnx {

extern const ProviderKind kKind;

}  // namespace audiogen::onnx
