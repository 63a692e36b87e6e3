#include "common/store/provider_accounts.h"

#include <algorithm>
#include <utility>

namespace audiogen::store {
namespace {

constexpr std::size_t kAccountMax = 64;

Sql& write_name(Sql& sql, const std::string& account) {
  return sql.utf8(account, kAccountMax);
}

// Of `holders`, the row of `worker`.
const AccountHolder* find(const std::vector<AccountHolder>& holders, WorkerId worker) {
  const auto at = std::find_if(holders.begin(), holders.end(), [&](const AccountHolder& one) {
    return one.worker == worker;
  });
  return at == holders.end() ? nullptr : &*at;
}

}  // namespace

ProviderAccounts::Account ProviderAccounts::read(const std::string& account) {
  Sql sql(
      "SELECT a.renewals, s.worker, s.places, s.wanted, s.waits_ms, s.renewed FROM "
      "provider_accounts a LEFT JOIN provider_account_shares s ON s.account=a.account WHERE "
      "a.account=");
  Account out;
  for (Rows rows = session_.query(write_name(sql, account)); rows.next();) {
    out.renewals = rows.u64(1);
    if (!rows.is_null(2)) {
      out.holders.push_back(
          {.worker = rows.id<WorkerId>(2),
           .places = rows.u32(3),
           .demand = {.wanted = rows.u32(4), .waits = std::chrono::milliseconds(rows.i64(5))},
           .renewed = rows.u64(6)});
    }
  }
  return out;
}

AccountMove ProviderAccounts::move(const AccountAsk& ask,
                                   const Account& account,
                                   std::vector<WorkerId>& gone) {
  // After the read: who is seen now has renewed before.
  AccountWatch::Look look = watches_[ask.account].look(account.holders, clocks_.steady());
  gone = std::move(look.gone);
  std::erase(gone, worker_);
  const AccountHolder* const own = find(account.holders, worker_);
  std::vector<AccountHolder> others;
  const auto is_in = [](const std::vector<WorkerId>& workers, WorkerId worker) {
    return std::find(workers.begin(), workers.end(), worker) != workers.end();
  };
  for (const AccountHolder& holder : account.holders) {
    if (holder.worker != worker_ && !is_in(gone, holder.worker)) {
      others.push_back(holder);
      if (is_in(look.silent, holder.worker)) {
        others.back().demand = {};
      }
    }
  }
  return renew_account_share(
      ask.limit, worker_, ask.use, own == nullptr ? std::nullopt : std::optional(*own), others);
}

std::optional<AccountMove> ProviderAccounts::still_good(const AccountAsk& ask,
                                                        const Account& account) {
  const auto written = written_at_.find(ask.account);
  const AccountHolder* const own = find(account.holders, worker_);
  if (written == written_at_.end() || clocks_.steady() - written->second >= kAccountRenewal ||
      own == nullptr) {
    return std::nullopt;
  }
  std::vector<WorkerId> gone;
  const AccountMove next = move(ask, account, gone);
  const bool same = gone.empty() && own->demand == ask.use.demand &&
                    next == AccountMove{.places = own->places, .may = ask.use.may};
  return same ? std::optional(next) : std::nullopt;
}

// Without the account's row nobody's places change, so what a worker has stays its own: its own row
// says that it is there. Where others took it for gone, that row is there no more.
std::optional<ProviderAccounts::Renewed> ProviderAccounts::keep(const AccountAsk& ask) {
  const auto kept = guarded([&]() -> Result<std::optional<Renewed>, Fault> {
    Sql renewed("UPDATE provider_account_shares SET renewed=renewed+1 WHERE account=");
    if (session_.execute(write_name(renewed, ask.account) << " AND worker=" << worker_) == 0) {
      return std::optional<Renewed>();
    }
    const Account account = read(ask.account);
    const AccountHolder* const own = find(account.holders, worker_);
    if (own == nullptr) {
      return std::optional<Renewed>();
    }
    return std::optional(
        Renewed{.move = {.places = own->places, .may = std::min(own->places, ask.use.may)},
                .written = true});
  });
  if (!kept || !*kept) {
    return std::nullopt;
  }
  written_at_[ask.account] = clocks_.steady();
  return *kept;
}

Result<ProviderAccounts::Renewed, Fault> ProviderAccounts::renew(const AccountAsk& ask) {
  auto renewed = renew_share(ask);
  if (!renewed && renewed.error().code == FaultCode::kLocked) {
    if (const auto kept = keep(ask)) {
      return *kept;
    }
  }
  return renewed;
}

Result<ProviderAccounts::Renewed, Fault> ProviderAccounts::renew_share(const AccountAsk& ask) {
  return guarded([&]() -> Result<Renewed, Fault> {
    if (const auto same = still_good(ask, read(ask.account))) {
      return Renewed{.move = *same};
    }
    Renewed out;
    session_.transact([&] {
      Sql turn("INSERT INTO provider_accounts (account, renewals) VALUES (");
      session_.execute(write_name(turn, ask.account)
                       << ",1) ON DUPLICATE KEY UPDATE renewals=renewals+1");
      const Account account = read(ask.account);
      std::vector<WorkerId> gone;
      out = {.move = move(ask, account, gone), .written = true};
      if (!gone.empty()) {
        Sql forget("DELETE FROM provider_account_shares WHERE account=");
        write_name(forget, ask.account) << " AND worker IN (";
        session_.later(list(forget, gone, [&](WorkerId worker) { forget << worker; }) << ")");
      }
      Sql share(
          "INSERT INTO provider_account_shares (account, worker, places, wanted, waits_ms, "
          "renewed) VALUES (");
      write_name(share, ask.account)
          << "," << worker_ << "," << out.move.places << "," << ask.use.demand.wanted << ","
          << ask.use.demand.waits.count() << "," << account.renewals
          << ") ON DUPLICATE KEY UPDATE places=VALUES(places), wanted=VALUES(wanted), "
             "waits_ms=VALUES(waits_ms), renewed=VALUES(renewed)";
      session_.later(share);
    });
    written_at_[ask.account] = clocks_.steady();
    return out;
  });
}

Result<Done, Fault> ProviderAccounts::give_back() {
  return guarded([&]() -> Result<Done, Fault> {
    if (!watches_.empty()) {
      Sql sql("DELETE FROM provider_account_shares WHERE worker=");
      sql << worker_ << " AND account IN (";  // By its key: no other's row is waited for.
      list(sql, watches_, [&](const auto& one) { write_name(sql, one.first); });
      session_.execute(sql << ")");
    }
    return Done{};
  });
}

}  // namespace audiogen::store
