#include "common/domain/account_share.h"

#include <algorithm>
#include <numeric>

namespace audiogen {

std::vector<std::uint32_t> account_shares(std::uint32_t limit,
                                          std::span<const AccountHolder> holders) {
  std::vector<std::uint32_t> shares(holders.size(), 0);
  if (holders.empty()) {
    return shares;
  }
  std::vector<std::size_t> order(holders.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const AccountHolder &first = holders[a], &second = holders[b];
    return first.demand.wanted != second.demand.wanted ? first.demand.wanted < second.demand.wanted
                                                       : first.worker < second.worker;
  });
  // Whoever wants least is served first, of what each of the rest could have.
  std::uint32_t left = limit;
  std::size_t served = 0;
  for (; served < order.size(); ++served) {
    const auto rest = static_cast<std::uint32_t>(order.size() - served);
    const std::uint32_t wanted = holders[order[served]].demand.wanted;
    if (wanted > left / rest) {
      break;
    }
    shares[order[served]] = wanted;
    left -= wanted;
  }
  // The others want more than there is for each of them, or nobody does.
  const std::span<std::size_t> others =
      served < order.size() ? std::span(order).subspan(served) : std::span(order);
  const auto count = static_cast<std::uint32_t>(others.size());
  const std::uint32_t each = left / count;
  if (served < order.size() && each == 0) {
    std::sort(others.begin(), others.end(), [&](std::size_t a, std::size_t b) {
      const AccountHolder &first = holders[a], &second = holders[b];
      return first.demand.waits != second.demand.waits ? first.demand.waits > second.demand.waits
                                                       : first.worker < second.worker;
    });
  } else {
    // Always the same, so that no place changes hands for nothing.
    std::sort(others.begin(), others.end(), [&](std::size_t a, std::size_t b) {
      return holders[a].worker < holders[b].worker;
    });
  }
  for (std::size_t i = 0; i < others.size(); ++i) {
    shares[others[i]] += each + (i < left % count ? 1U : 0U);
  }
  return shares;
}

AccountMove renew_account_share(std::uint32_t limit,
                                WorkerId worker,
                                const AccountUse& use,
                                const std::optional<AccountHolder>& own,
                                std::span<const AccountHolder> others) {
  std::vector<AccountHolder> all(others.begin(), others.end());
  all.push_back({.worker = worker, .demand = use.demand});
  const std::uint32_t share = account_shares(limit, all).back();
  std::uint64_t taken = 0;
  for (const AccountHolder& other : others) {
    taken += other.places;
  }
  const auto free = static_cast<std::uint32_t>(limit - std::min<std::uint64_t>(limit, taken));
  const std::uint32_t had = own ? use.may : 0;
  const std::uint32_t may = share <= had ? share : std::max(had, std::min(share, free));
  return {.places = std::max({had, may, use.calls}), .may = may};
}

AccountWatch::Look AccountWatch::look(std::span<const AccountHolder> holders, Time now) {
  std::map<WorkerId, Seen> seen;
  Look out;
  for (const AccountHolder& holder : holders) {
    const auto before = seen_.find(holder.worker);
    const bool same = before != seen_.end() && before->second.renewed == holder.renewed;
    const Seen now_seen{.renewed = holder.renewed, .since = same ? before->second.since : now};
    seen.emplace(holder.worker, now_seen);
    if (now - now_seen.since >= kAccountLease) {
      out.gone.push_back(holder.worker);
    } else if (now - now_seen.since >= kAccountSilent) {
      out.silent.push_back(holder.worker);
    }
  }
  seen_ = std::move(seen);
  return out;
}

}  // namespace audiogen
