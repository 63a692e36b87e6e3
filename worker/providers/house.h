// The local engine as a kind of provider (worker/local/README.md).
#pragma once

#include "worker/providers/kind.h"

namespace audiogen::house {

extern const ProviderKind kKind;

}  // namespace audiogen::house
