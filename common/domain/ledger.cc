#include "common/domain/ledger.h"

#include "common/base/check.h"

namespace audiogen {
namespace {

Units negated(Units amount) {
  return Units{} - amount;
}

// The row for a move that is known to be allowed.
Entry entry(EntryKind kind, const Balance& before, Units d_available, Units d_held) {
  const Entry out{.kind = kind,
                  .d_available = d_available,
                  .d_held = d_held,
                  .d_system = negated(d_available + d_held),
                  .after = {.available = before.available + d_available,
                            .held = before.held + d_held,
                            .seq = before.seq + 1}};
  AG_CHECK(out.after.available >= Units{});
  AG_CHECK(out.after.held >= Units{});
  return out;
}

}  // namespace

std::optional<Entry> hold(const Balance& before, Units amount) {
  AG_CHECK(amount > Units{});
  if (before.available < amount) {
    return std::nullopt;
  }
  return entry(EntryKind::kHold, before, negated(amount), amount);
}

Entry resolve(const Balance& before, Units held, Units charge) {
  AG_CHECK(held > Units{});
  AG_CHECK(held <= before.held);
  AG_CHECK(charge >= Units{});
  AG_CHECK(charge <= held);
  return entry(EntryKind::kResolve, before, held - charge, negated(held));
}

std::optional<Entry> grant(const Balance& before, Units amount) {
  AG_CHECK(amount != Units{});
  if (amount < Units{}) {
    if (before.available < negated(amount)) {
      return std::nullopt;
    }
    return entry(EntryKind::kClawback, before, amount, Units{});
  }
  if (amount > kBalanceMax || before.available + before.held > kBalanceMax - amount) {
    return std::nullopt;
  }
  return entry(EntryKind::kGrant, before, amount, Units{});
}

}  // namespace audiogen
