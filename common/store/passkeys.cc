#include "common/store/passkeys.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/domain/api_key.h"
#include "common/store/asking_session.h"

namespace audiogen::store {
namespace {

constexpr char kColumns[] = "id, name, synced, created_at, last_used_at ";

Passkey read_passkey(const Rows& rows) {
  return {.id = rows.id<PasskeyId>(1),
          .name = rows.text(2),
          .synced = rows.u32(3) != 0,
          .created_at = rows.time(4),
          .last_used_at = rows.maybe_time(5)};
}

Fault no_such_passkey() {
  return {.code = FaultCode::kNoSuchPasskey};
}

}  // namespace

Result<Sha256, Fault> Passkeys::challenge_key() {
  return guarded([&]() -> Result<Sha256, Fault> {
    const auto read = [&]() -> std::optional<Sha256> {
      Rows rows = session_.query(Sql("SELECT secret FROM challenge_key WHERE only_one=1"));
      if (!rows.next()) {
        return std::nullopt;
      }
      const std::string secret = rows.text(1);
      Sha256 out{};
      AG_CHECK(secret.size() == out.size());  // The column's.
      std::copy(secret.begin(), secret.end(), out.begin());
      return out;
    };
    if (const auto there = read()) {
      return *there;
    }
    Sha256 made{};
    random_bytes(made);
    Sql row("INSERT IGNORE INTO challenge_key (only_one, secret) VALUES (1,");
    session_.execute(row.bytes(made) << ")");
    const auto now = read();  // Another process may have been first.
    return now ? Result<Sha256, Fault>(*now) : Fault{.code = FaultCode::kUnexpected};
  });
}

std::optional<Passkey> Passkeys::load(UserId user, PasskeyId id) {
  Rows rows = session_.query(Sql("SELECT ") << kColumns << "FROM passkeys WHERE id=" << id
                                            << " AND user_id=" << user);
  return rows.next() ? std::optional(read_passkey(rows)) : std::nullopt;
}

// How many there are: whoever adds or removes one does this first.
std::size_t Passkeys::lock_all(UserId user) {
  Rows rows = session_.query(Sql("SELECT id FROM passkeys FORCE INDEX (k_user) WHERE user_id=")
                             << user << " ORDER BY id FOR UPDATE");
  std::size_t count = 0;
  while (rows.next()) {
    ++count;
  }
  return count;
}

// Why `asker` may not change by what its user signs in.
std::optional<Fault> Passkeys::beyond(UserId user, SessionId asker) {
  const auto now = lock_fresh_session(session_, user, asker);
  return now ? std::nullopt : std::optional(now.error());
}

// False: it was taken before. Waits for whoever takes it at this moment.
bool Passkeys::take(const AnsweredChallenge& answered) {
  Sql row("INSERT IGNORE INTO used_challenges (challenge_hash, expires_at) VALUES (");
  row.bytes(answered.hash) << "," << answered.expires_at << ")";
  return session_.execute(row) == 1;
}

Result<std::vector<Passkey>, Fault> Passkeys::list(UserId user) {
  return guarded([&]() -> Result<std::vector<Passkey>, Fault> {
    std::vector<Passkey> out;
    Rows rows = session_.query(Sql("SELECT ") << kColumns << "FROM passkeys WHERE user_id=" << user
                                              << " ORDER BY id");
    while (rows.next()) {
      out.push_back(read_passkey(rows));
    }
    return out;
  });
}

Result<std::vector<std::string>, Fault> Passkeys::credential_ids(UserId user) {
  return guarded([&]() -> Result<std::vector<std::string>, Fault> {
    std::vector<std::string> out;
    Rows rows = session_.query(Sql("SELECT credential_id FROM passkeys WHERE user_id=")
                               << user << " ORDER BY id");
    while (rows.next()) {
      out.push_back(rows.text(1));
    }
    return out;
  });
}

Result<Passkey, Fault> Passkeys::add(UserId user,
                                     SessionId asker,
                                     const NewPasskey& made,
                                     const AnsweredChallenge& answered) {
  return guarded([&]() -> Result<Passkey, Fault> {
    std::optional<Passkey> added;
    std::optional<Fault> refused;
    session_.transact_surely([&](bool again) {
      refused.reset();
      const std::size_t count = lock_all(user);
      added = again ? load(user, made.id) : std::nullopt;
      if (added) {
        return;
      }
      refused = beyond(user, asker);
      if (refused) {
        return;
      }
      if (count >= kPasskeysMax) {
        refused = Fault{.code = FaultCode::kTooManyPasskeys};
        return;
      }
      Sql same("SELECT 1 FROM passkeys WHERE credential_id=");
      if (locked(same.bytes(made.credential_id))) {
        refused = Fault{.code = FaultCode::kPasskeyTaken};
        return;
      }
      if (!take(answered)) {
        refused = Fault{.code = FaultCode::kChallengeUsed};
        return;
      }
      Sql row(
          "INSERT INTO passkeys (id, user_id, credential_id, public_key, counter, synced, name, "
          "created_at) VALUES (");
      row << made.id << "," << user << ",";
      row.bytes(made.credential_id) << ",";
      row.bytes(made.public_key) << "," << made.counter << "," << (made.synced ? 1 : 0) << ",";
      row.utf8(made.name, kKeyNameMax) << ",UTC_TIMESTAMP(6))";
      session_.execute(row);
      added = load(user, made.id);
    });
    if (refused) {
      return *std::move(refused);
    }
    return *std::move(added);
  });
}

Result<Passkey, Fault> Passkeys::rename(UserId user, PasskeyId id, std::string_view name) {
  return guarded([&]() -> Result<Passkey, Fault> {
    std::optional<Passkey> renamed;
    session_.transact([&] {
      renamed.reset();
      if (!locked(Sql("SELECT 1 FROM passkeys WHERE id=") << id << " AND user_id=" << user)) {
        return;
      }
      Sql change("UPDATE passkeys SET name=");
      change.utf8(name, kKeyNameMax) << " WHERE id=" << id;
      session_.execute(change);
      renamed = load(user, id);
    });
    return renamed ? Result<Passkey, Fault>(*std::move(renamed)) : no_such_passkey();
  });
}

Result<Done, Fault> Passkeys::remove(UserId user, SessionId asker, PasskeyId id) {
  return guarded([&]() -> Result<Done, Fault> {
    std::optional<Fault> refused;
    bool there = false;
    session_.transact_surely([&](bool again) {
      refused.reset();
      const std::size_t count = lock_all(user);
      const bool is_there = load(user, id).has_value();
      if (again && there && !is_there) {
        return;  // The first run has removed it.
      }
      there = is_there;
      refused = there ? beyond(user, asker) : no_such_passkey();
      if (refused) {
        return;
      }
      // Nobody can take a password away again.
      const bool has_password =
          session_.query(Sql("SELECT 1 FROM passwords WHERE user_id=") << user).next();
      if (count == 1 && !has_password) {
        refused = Fault{.code = FaultCode::kLastWayIn};
        return;
      }
      session_.execute(Sql("DELETE FROM passkeys WHERE id=") << id);
    });
    if (refused) {
      return *std::move(refused);
    }
    return Done{};
  });
}

Result<std::optional<StoredPasskey>, Fault> Passkeys::find(std::string_view credential_id) {
  return guarded([&]() -> Result<std::optional<StoredPasskey>, Fault> {
    Sql sql("SELECT id, user_id, public_key, synced FROM passkeys WHERE credential_id=");
    Rows rows = session_.query(sql.bytes(credential_id));
    if (!rows.next()) {
      return std::optional<StoredPasskey>();
    }
    return std::optional(StoredPasskey{.id = rows.id<PasskeyId>(1),
                                       .user = rows.id<UserId>(2),
                                       .public_key = rows.text(3),
                                       .synced = rows.u32(4) != 0});
  });
}

Result<OpenedWebSession, Fault> Passkeys::open_session(PasskeyId id,
                                                       std::uint32_t counter,
                                                       const AnsweredChallenge& answered,
                                                       const NewWebSession& made) {
  std::optional<Fault> refused;
  auto opened = WebSessions(session_).open(made, [&]() -> std::optional<UserId> {
    refused.reset();
    Rows rows = session_.query(Sql("SELECT user_id, counter FROM passkeys WHERE id=")
                               << id << " FOR UPDATE");
    if (!rows.next()) {
      return std::nullopt;
    }
    const auto user = rows.id<UserId>(1);
    if (!take(answered)) {
      refused = Fault{.code = FaultCode::kChallengeUsed};
      return std::nullopt;
    }
    if (!counter_advances(rows.u32(2), counter)) {
      refused = Fault{.code = FaultCode::kCounterBack};
      return std::nullopt;
    }
    session_.execute(Sql("UPDATE passkeys SET counter=")
                     << counter << ", last_used_at=UTC_TIMESTAMP(6) WHERE id=" << id);
    return user;
  });
  if (refused) {
    return *std::move(refused);
  }
  return opened;
}

}  // namespace audiogen::store
