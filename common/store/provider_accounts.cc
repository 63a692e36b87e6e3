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

ProviderAccounts::Accounts ProviderAccounts::read(std::span<const AccountAsk> asks) {
  Sql sql(
      "SELECT a.account, a.renewals, s.worker, s.places, s.wanted, s.waits_ms, s.renewed FROM "
      "provider_accounts a LEFT JOIN provider_account_shares s ON s.account=a.account WHERE "
      "a.account IN (");
  list(sql, asks, [&](const AccountAsk& ask) { write_name(sql, ask.account); });
  Accounts out;
  for (Rows rows = session_.query(sql << ")"); rows.next();) {
    Account& account = out[rows.text(1)];
    account.renewals = rows.u64(2);
    if (!rows.is_null(3)) {
      account.holders.push_back(
          {.worker = rows.id<WorkerId>(3),
           .places = rows.u32(4),
           .demand = {.wanted = rows.u32(5), .waits = std::chrono::milliseconds(rows.i64(6))},
           .renewed = rows.u64(7)});
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

bool ProviderAccounts::is_still_good(const Accounts& accounts,
                                     std::span<const AccountAsk> asks,
                                     std::vector<AccountMove>& moves) {
  if (!written_at_ || clocks_.steady() - *written_at_ >= kAccountRenewal) {
    return false;
  }
  for (const AccountAsk& ask : asks) {
    const auto account = accounts.find(ask.account);
    const AccountHolder* const own =
        account == accounts.end() ? nullptr : find(account->second.holders, worker_);
    if (own == nullptr) {
      return false;
    }
    std::vector<WorkerId> gone;
    const AccountMove next = move(ask, account->second, gone);
    if (!gone.empty() || next != AccountMove{.places = own->places, .may = ask.use.may} ||
        own->demand != ask.use.demand) {
      return false;
    }
    moves.push_back(next);
  }
  return true;
}

Result<ProviderAccounts::Renewed, Fault> ProviderAccounts::renew(std::span<const AccountAsk> asks) {
  return guarded([&]() -> Result<Renewed, Fault> {
    Renewed out;
    if (asks.empty() || is_still_good(read(asks), asks, out.moves)) {
      return out;
    }
    std::vector<std::string> names;
    for (const AccountAsk& ask : asks) {
      names.push_back(ask.account);
    }
    std::sort(names.begin(), names.end());
    session_.transact([&] {
      out = {.written = true};
      Sql turn("INSERT INTO provider_accounts (account, renewals) VALUES ");
      list(turn, names, [&](const std::string& name) { write_name(turn << "(", name) << ",1)"; });
      session_.execute(turn << " ON DUPLICATE KEY UPDATE renewals=renewals+1");
      const Accounts accounts = read(asks);
      Sql shares(
          "INSERT INTO provider_account_shares (account, worker, places, wanted, waits_ms, "
          "renewed) "
          "VALUES ");
      list(shares, asks, [&](const AccountAsk& ask) {
        const Account& account = accounts.at(ask.account);
        std::vector<WorkerId> gone;
        out.moves.push_back(move(ask, account, gone));
        if (!gone.empty()) {
          Sql forget("DELETE FROM provider_account_shares WHERE account=");
          write_name(forget, ask.account) << " AND worker IN (";
          list(forget, gone, [&](WorkerId worker) { forget << worker; });
          session_.later(forget << ")");
        }
        write_name(shares << "(", ask.account)
            << "," << worker_ << "," << out.moves.back().places << "," << ask.use.demand.wanted
            << "," << ask.use.demand.waits.count() << "," << account.renewals << ")";
      });
      session_.later(shares << " ON DUPLICATE KEY UPDATE places=VALUES(places), "
                               "wanted=VALUES(wanted), waits_ms=VALUES(waits_ms), "
                               "renewed=VALUES(renewed)");
    });
    written_at_ = clocks_.steady();
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
