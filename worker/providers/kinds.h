// The kinds of providers there are: the one list of them.
#pragma once

#include <span>
#include <string_view>

#include "worker/providers/kind.h"

namespace audiogen {

// In the order in which they are shown.
std::span<const ProviderKind* const> provider_kinds();

// Null: there is none of that name.
const ProviderKind* find_kind(std::string_view name);

}  // namespace audiogen
