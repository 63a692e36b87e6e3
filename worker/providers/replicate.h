// Replicate's predictions (README.md, "Replicate").
#pragma once

#include "worker/providers/kind.h"

namespace audiogen::replicate {

extern const ProviderKind kKind;

}  // namespace audiogen::replicate
