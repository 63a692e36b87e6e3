// The rules of a user's credits: what a hold, its resolution and a grant do to the balance, and the
// one ledger row each writes. The database repeats the limits as constraints; this is where they
// are decided.
//
// A hold is resolved exactly once, by one row that carries both its parts: the charge goes to the
// system, the rest returns. Every row sums to zero over (available, held, system).
#pragma once

#include <cstdint>
#include <optional>

#include "common/domain/pricing.h"

namespace audiogen {

struct Balance {
  Units available;
  Units held;
  std::uint64_t seq = 0;  // Ledger rows so far; the next row's number is seq + 1.
  friend bool operator==(const Balance&, const Balance&) = default;
};

enum class EntryKind : std::uint8_t { kHold = 1, kResolve = 2, kGrant = 3, kClawback = 4 };

// One immutable ledger row, with the balance after it.
struct Entry {
  EntryKind kind;
  Units d_available, d_held, d_system;  // Sum: zero.
  Balance after;
};

// Reserves `amount` (> 0). Nullopt when less is available.
std::optional<Entry> hold(const Balance& before, Units amount);

// Ends a hold of `held`: `charge` (0..held) is captured, the rest returns. More than is held, in
// the hold or in the balance, is a bug and aborts.
Entry resolve(const Balance& before, Units held, Units charge);

// Adds `amount`: nullopt when the user would own more than kBalanceMax. A negative amount takes
// credits back: nullopt when more is taken than is available. Never zero.
std::optional<Entry> grant(const Balance& before, Units amount);

}  // namespace audiogen
