#include "common/store/account_ends.h"

#include <algorithm>
#include <optional>
#include <span>

#include "common/base/check.h"
#include "common/base/mail_address.h"
#include "common/store/asking_session.h"
#include "common/store/task_rows.h"

namespace audiogen::store {
namespace {

// Tasks ended by one transaction, and ledger rows looked at for them.
constexpr std::size_t kCancelBatch = 64;
constexpr std::uint64_t kCancelRows = 2'000;
constexpr std::uint64_t kNamesBatch = 500;
// Whoever was looked up just before the end may still ask for something, and be answered, so long.
constexpr std::chrono::minutes kLatecomers{1};

struct Numbers {
  std::uint64_t last = 0;  // Of his ledger rows.
  Units available, held;
};

Numbers numbers_of(Session& session, UserId user) {
  Rows rows =
      session.query(Sql("SELECT seq, available, held FROM balances WHERE user_id=") << user);
  AG_CHECK(rows.next());  // Every user has one.
  return {.last = rows.u64(1), .available = rows.units(2), .held = rows.units(3)};
}

}  // namespace

std::string address_of_deleted(UserId user) {
  return user.text() + "@deleted.invalid";
}

// Read for an update before they are deleted: a session that waits for no row still waits there.
void AccountEnds::end_ways_in(UserId user) {
  static_cast<void>(locked(Sql("SELECT 1 FROM passwords WHERE user_id=") << user));
  static_cast<void>(locked(Sql("SELECT id FROM passkeys WHERE user_id=") << user));
  static_cast<void>(locked(Sql("SELECT id FROM sessions WHERE user_id=") << user));
  static_cast<void>(locked(Sql("SELECT token_hash FROM login_links WHERE user_id=") << user));
  static_cast<void>(locked(Sql("SELECT id_hash FROM oidc_identities WHERE user_id=") << user));
  static_cast<void>(locked(Sql("SELECT user_id FROM issuer_refusals WHERE user_id=") << user));
  static_cast<void>(locked(
      Sql("SELECT id FROM api_keys FORCE INDEX (k_live) WHERE deleted_at IS NULL AND user_id=")
      << user));
  static_cast<void>(locked(Sql("SELECT key_id FROM spend_marks WHERE user_id=") << user));
  session_.later(Sql("DELETE FROM passwords WHERE user_id=") << user);
  session_.later(Sql("DELETE FROM passkeys WHERE user_id=") << user);
  session_.later(Sql("DELETE FROM sessions WHERE user_id=") << user);
  session_.later(Sql("DELETE FROM login_links WHERE user_id=") << user);
  session_.later(Sql("DELETE FROM mail_changes WHERE user_id=") << user);
  session_.later(Sql("DELETE FROM oidc_identities WHERE user_id=") << user);
  session_.later(Sql("DELETE FROM issuer_refusals WHERE user_id=") << user);
  session_.later(
      Sql("UPDATE api_keys SET deleted_at=UTC_TIMESTAMP(6), previous_hash=NULL, "
          "previous_prefix=NULL, previous_until=NULL WHERE deleted_at IS NULL AND user_id=")
      << user);
  session_.later(Sql("DELETE s FROM spend_marks m FORCE INDEX (k_user) STRAIGHT_JOIN spend_days s "
                     "FORCE INDEX (PRIMARY) ON s.key_id=m.key_id WHERE m.user_id=")
                 << user);
  session_.later(Sql("DELETE FROM spend_marks WHERE user_id=") << user);
}

Result<Done, Fault> AccountEnds::end(UserId user,
                                     SessionId asker,
                                     std::string_view email,
                                     bool forfeits) {
  return guarded([&]() -> Result<Done, Fault> {
    std::optional<Fault> refused;
    session_.transact_surely([&](bool again) {
      refused.reset();
      // First of all, so that nobody signs in by his address or changes it meanwhile.
      Rows row = session_.query(Sql("SELECT deleted_at, email FROM users WHERE id=")
                                << user << " FOR UPDATE");
      AG_CHECK(row.next());  // No user's row is ever deleted.
      if (again && !row.is_null(1)) {
        return;
      }
      const bool is_its_address = row.text(2) == email;
      const auto now = lock_fresh_session(session_, user, asker);
      if (!now) {
        refused = now.error();
        return;
      }
      if (!is_its_address) {
        refused = Fault{.code = FaultCode::kOtherAddress};
        return;
      }
      const Numbers numbers = numbers_of(session_, user);
      const Units left = numbers.available + numbers.held;
      if (!forfeits && left > Units{}) {
        refused = Fault{.code = FaultCode::kCreditsLeft, .available = left};
        return;
      }
      end_ways_in(user);
      Sql address("UPDATE users SET email=");
      address.utf8(address_of_deleted(user), kMailAddressMax)
          << ", deleted_at=" << *now << " WHERE id=" << user;
      session_.later(address);
      session_.later(Sql("INSERT INTO account_deletions (user_id, asked_at, next_seq) VALUES (")
                     << user << "," << *now << ",1)");
    });
    if (refused) {
      return *std::move(refused);
    }
    return Done{};
  });
}

Result<std::vector<UserId>, Fault> AccountEnds::open() {
  return guarded([&]() -> Result<std::vector<UserId>, Fault> {
    std::vector<UserId> out;
    Rows rows =
        session_.query(Sql("SELECT user_id FROM account_deletions ORDER BY user_id LIMIT 1000"));
    while (rows.next()) {
      out.push_back(rows.id<UserId>(1));
    }
    return out;
  });
}

Result<bool, Fault> AccountEnds::cancel_tasks(TaskStore& tasks,
                                              UserId user,
                                              std::uint64_t& to,
                                              const std::stop_token& stop) {
  return guarded([&]() -> Result<bool, Fault> {
    // Open ones are among the newest: until nothing is reserved.
    const auto numbers = numbers_of(session_, user);
    to = to == 0 ? numbers.last + 1 : to;
    if (to <= 1 || numbers.held <= Units{}) {
      return false;
    }
    const std::uint64_t from = to > kCancelRows ? to - kCancelRows : 1;
    Sql sql(
        "SELECT t.id FROM ledger l FORCE INDEX (PRIMARY) STRAIGHT_JOIN tasks t FORCE INDEX "
        "(PRIMARY) ON t.id=l.source_id WHERE l.user_id=");
    sql << user << " AND l.seq>=" << from << " AND l.seq<" << to
        << " AND l.kind=" << EntryKind::kHold << " AND t.state<=" << TaskState::kRunning;
    std::vector<CancelCommand> commands;
    Rows rows = session_.query(sql);
    while (rows.next()) {
      commands.push_back({.task = rows.id<TaskId>(1), .user = user});
    }
    for (std::size_t i = 0; i < commands.size() && !stop.stop_requested(); i += kCancelBatch) {
      // What somebody holds is still open at the next look.
      static_cast<void>(tasks.cancel(
          std::span(commands).subspan(i, std::min(kCancelBatch, commands.size() - i))));
    }
    to = from;
    return to > 1 && !stop.stop_requested();
  });
}

// True when nothing is left but the note.
bool AccountEnds::wipe_rest(UserId user) {
  session_.transact([&] { end_ways_in(user); });
  return session_.execute(Sql("UPDATE api_keys SET name='' WHERE name<>'' AND user_id=")
                          << user << " LIMIT " << kNamesBatch) < kNamesBatch;
}

Result<Wiping, Fault> AccountEnds::wipe(UserId user) {
  return guarded([&]() -> Result<Wiping, Fault> {
    Rows note =
        session_.query(Sql("SELECT next_seq, asked_at, UTC_TIMESTAMP(6) FROM account_deletions "
                           "WHERE user_id=")
                       << user);
    if (!note.next()) {
      return Wiping::kDone;
    }
    const std::uint64_t from = note.u64(1);
    const bool over = note.time(2) + kLatecomers < note.time(3);
    const std::uint64_t last = numbers_of(session_, user).last;
    if (from > last) {
      if (!over) {
        return Wiping::kLater;
      }
      if (!wipe_rest(user)) {
        return Wiping::kMore;
      }
      session_.execute(Sql("DELETE FROM account_deletions WHERE user_id=") << user);
      return Wiping::kDone;
    }
    // Of late: what cannot be removed may lie there for ever, and is nobody's reason to wait.
    Rows backlog =
        session_.query(Sql("SELECT 1 FROM deletions d STRAIGHT_JOIN tasks t FORCE INDEX "
                           "(PRIMARY) ON t.id=d.task_id WHERE t.deleted_at IS NOT NULL AND "
                           "d.deleted_at>UTC_TIMESTAMP(6)-INTERVAL 10 MINUTE LIMIT ")
                       << kWipeBacklog << ",1");
    if (backlog.next()) {
      return Wiping::kLater;
    }
    const std::uint64_t to = std::min(from + kWipeRows, last + 1);
    std::optional<std::uint64_t> first_left;  // The first row whose task is not wiped.
    std::vector<TaskId> final_ones;
    const auto look = [&] {
      first_left.reset();
      final_ones.clear();
      Sql sql(
          "SELECT l.seq, t.id, t.state FROM ledger l FORCE INDEX (PRIMARY) STRAIGHT_JOIN tasks t "
          "FORCE INDEX (PRIMARY) ON t.id=l.source_id WHERE l.user_id=");
      sql << user << " AND l.seq>=" << from << " AND l.seq<" << to
          << " AND l.kind=" << EntryKind::kHold << " AND t.deleted_at IS NULL ORDER BY l.seq";
      Rows rows = session_.query(sql);
      while (rows.next()) {
        first_left = first_left.value_or(rows.u64(1));
        if (is_final(static_cast<TaskState>(rows.u32(3)))) {
          final_ones.push_back(rows.id<TaskId>(2));
        }
      }
    };
    look();
    if (!final_ones.empty()) {
      const auto erased = History(session_).erase_all(final_ones);
      if (!erased) {
        return erased.error();
      }
      look();
    }
    AG_CRASH_POINT("account.wiped");
    const std::uint64_t next = first_left.value_or(to);
    if (next > from) {
      session_.execute(Sql("UPDATE account_deletions SET next_seq=")
                       << next << " WHERE user_id=" << user << " AND next_seq<" << next);
    }
    return first_left ? Wiping::kLater : Wiping::kMore;
  });
}

}  // namespace audiogen::store
