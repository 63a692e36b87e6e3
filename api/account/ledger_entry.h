// A row of a ledger, as clients read it.
#pragma once

#include <string_view>

#include "common/base/json.h"
#include "common/domain/pricing.h"
#include "common/store/accounts.h"

namespace audiogen::api {

// A member of an object.
void write_credits(JsonWriter& json, std::string_view name, Units amount);

void write_entry(JsonWriter& json, const store::LedgerEntry& row);

}  // namespace audiogen::api
