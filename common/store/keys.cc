#include "common/store/keys.h"

#include "common/base/check.h"
#include "common/base/utf8.h"
#include "common/store/asking_session.h"
#include "common/store/spending.h"

namespace audiogen::store {
namespace {

constexpr char kColumns[] =
    "id, name, prefix, created_at, last_used_at, deleted_at, scopes, expires_at, "
    "IF(previous_until>UTC_TIMESTAMP(6), previous_until, NULL), spend_limit, spend_period ";

// The limit in two columns from `first` on.
std::optional<SpendLimit> read_limit(const Rows& rows, std::uint32_t first) {
  if (rows.is_null(first)) {
    return std::nullopt;
  }
  return SpendLimit{rows.units(first), static_cast<SpendPeriod>(rows.u32(first + 1))};
}

void write_limit(Sql& sql, const std::optional<SpendLimit>& limit) {
  sql << "spend_limit=" << (limit ? std::optional(limit->amount) : std::nullopt)
      << ", spend_period=" << (limit ? std::optional(limit->period) : std::nullopt);
}

KeyInfo read_key(const Rows& rows) {
  return {.id = rows.id<KeyId>(1),
          .name = rows.text(2),
          .prefix = rows.text(3),
          .created_at = rows.time(4),
          .last_used_at = rows.maybe_time(5),
          .deleted_at = rows.maybe_time(6),
          .scopes = rows.scopes(7),
          .expires_at = rows.maybe_time(8),
          .previous_until = rows.maybe_time(9),
          .spend_limit = read_limit(rows, 10)};
}

Fault no_such_key(KeyId id) {
  return {.code = FaultCode::kNoSuchKey, .about = id.text()};
}

}  // namespace

std::optional<KeyInfo> Keys::load(KeyId id) {
  std::optional<KeyInfo> key;
  {
    Rows rows = session_.query(Sql("SELECT ") << kColumns << "FROM api_keys WHERE id=" << id);
    if (rows.next()) {
      key = read_key(rows);
    }
  }
  if (key) {
    count_spent({&*key, 1});
  }
  return key;
}

void Keys::count_spent(std::span<KeyInfo> keys) {
  std::vector<KeyId> limited;
  for (const KeyInfo& key : keys) {
    if (key.spend_limit && !key.deleted_at) {
      limited.push_back(key.id);
    }
  }
  if (limited.empty()) {
    return;
  }
  const KeySpendings spendings = read_spending(session_, limited, session_.now(), kSpendTailShown);
  for (KeyInfo& key : keys) {
    const auto found = spendings.find(key.id);
    // Else the workers are at it: seconds after, at most, it is known.
    if (found != spendings.end() && found->second.behind <= kSpendTailShown) {
      key.spent = found->second.spent;
    }
  }
}

// The oldest key stands for all: everybody locks it first. A user without any has none to count.
void Keys::lock_keys(UserId user) {
  static_cast<void>(locked(
      Sql("SELECT id FROM api_keys FORCE INDEX (k_live) WHERE deleted_at IS NULL AND user_id=")
      << user << " ORDER BY id LIMIT 1"));
}

std::size_t Keys::count(UserId user) {
  Rows rows = session_.query(Sql("SELECT COUNT(*) FROM api_keys FORCE INDEX (k_live) WHERE "
                                 "deleted_at IS NULL AND user_id=")
                             << user);
  AG_CHECK(rows.next());
  return rows.u64(1);
}

std::optional<Fault> Keys::beyond_asker(UserId user, const Asker& asker, const Gift& gift) {
  if (const auto* const key = std::get_if<KeyId>(&asker)) {
    return beyond_key(user, *key, gift);
  }
  if (const auto* const session = std::get_if<SessionId>(&asker)) {
    return beyond_session(user, *session, gift);
  }
  return std::nullopt;
}

std::optional<Fault> Keys::beyond_session(UserId user, SessionId asker, const Gift& gift) {
  // One that its owner ends makes no key meanwhile.
  const auto asking = lock_asking_session(session_, user, asker);
  if (!asking) {
    return Fault{.code = FaultCode::kAskerIsGone};
  }
  if (gift.scopes && gift.scopes->has(Scope::kManage) && !asking->fresh) {
    return Fault{.code = FaultCode::kNotFresh};
  }
  return std::nullopt;
}

std::optional<Fault> Keys::beyond_key(UserId user, KeyId asker, const Gift& gift) {
  // Not as it was when the request came: a key that is being taken away makes no other meanwhile.
  Rows rows = session_.query(
      Sql("SELECT scopes, expires_at, spend_limit, spend_period FROM api_keys WHERE id=")
      << asker << " AND user_id=" << user
      << " AND deleted_at IS NULL AND (expires_at IS NULL OR "
         "expires_at>UTC_TIMESTAMP(6)) FOR UPDATE");
  if (!rows.next()) {
    return Fault{.code = FaultCode::kAskerIsGone};
  }
  const Scopes own = rows.scopes(1);
  if (!own.has(Scope::kManage)) {
    return Fault{.code = FaultCode::kScopeNotOwn, .about = std::string(scope_name(Scope::kManage))};
  }
  if (const auto scope = gift.scopes ? scope_beyond(*gift.scopes, own) : std::nullopt) {
    return Fault{.code = FaultCode::kScopeNotOwn, .about = std::string(scope_name(*scope))};
  }
  const auto own_end = rows.maybe_time(2);
  if (gift.expires_at && outlives(*gift.expires_at, own_end)) {
    return Fault{.code = FaultCode::kExpiryNotOwn, .about = format_iso(*own_end)};
  }
  const auto own_limit = read_limit(rows, 3);
  if (own_limit && gift.key != asker && gift.scopes && gift.scopes->has(Scope::kGenerate)) {
    return Fault{.code = FaultCode::kSpendingNotOwn};
  }
  if (gift.key == asker && gift.spend_limit && lifts(*gift.spend_limit, own_limit)) {
    return Fault{.code = FaultCode::kLimitNotOwn, .about = spend_limit_text(*own_limit)};
  }
  return std::nullopt;
}

Result<KeyInfo, Fault> Keys::add(UserId user,
                                 const KeyTerms& terms,
                                 const NewApiKey& key,
                                 const Asker& asker) {
  if (!is_key_name(terms.name)) {
    return Fault{.code = FaultCode::kBadKeyName};
  }
  if (terms.spend_limit && !is_spend_limit(*terms.spend_limit)) {
    return Fault{.code = FaultCode::kBadSpendLimit};
  }
  return guarded([&]() -> Result<KeyInfo, Fault> {
    const KeyId id = KeyId::make();
    std::optional<Fault> refused;
    // Read before the commit: a key whose secret nobody gets to see is none.
    std::optional<KeyInfo> added;
    session_.transact_surely([&](bool again) {
      refused.reset();
      // No foreign key says it. One whose account ends meanwhile loses this key as well.
      if (!session_.query(Sql("SELECT 1 FROM users WHERE deleted_at IS NULL AND id=") << user)
               .next()) {
        refused = Fault{.code = FaultCode::kNoSuchUser, .about = user.text()};
        return;
      }
      lock_keys(user);
      if (again && locked(Sql("SELECT 1 FROM api_keys WHERE id=") << id)) {
        added = load(id);
        return;
      }
      if (terms.expires_at && !is_key_expiry(*terms.expires_at, session_.now())) {
        refused = Fault{.code = FaultCode::kBadKeyExpiry};
        return;
      }
      refused = beyond_asker(user,
                             asker,
                             {.scopes = terms.scopes,
                              .expires_at = terms.expires_at,
                              .spend_limit = terms.spend_limit});
      if (refused) {
        return;
      }
      if (count(user) >= kKeysMax) {
        refused = Fault{.code = FaultCode::kTooManyKeys};
        return;
      }
      Sql row("INSERT INTO api_keys SET id=");
      row << id << ", user_id=" << user << ", key_hash=";
      row.bytes(key.hash) << ", prefix=";
      row.bytes(key.prefix) << ", name=";
      row.utf8(terms.name, kKeyNameMax)
          << ", scopes=" << terms.scopes << ", expires_at=" << terms.expires_at
          << ", created_at=UTC_TIMESTAMP(6), ";
      write_limit(row, terms.spend_limit);
      session_.execute(row);
      if (terms.spend_limit) {
        begin_spending(session_, user, id);
      }
      note_done(id.text());
      added = load(id);
    });
    if (refused) {
      return *std::move(refused);
    }
    AG_CHECK(added.has_value());
    return *std::move(added);
  });
}

Result<std::vector<KeyInfo>, Fault> Keys::list(UserId user) {
  return guarded([&]() -> Result<std::vector<KeyInfo>, Fault> {
    Rows rows = session_.query(Sql("SELECT ") << kColumns << "FROM api_keys WHERE user_id=" << user
                                              << " ORDER BY id");
    std::vector<KeyInfo> out;
    while (rows.next()) {
      out.push_back(read_key(rows));
    }
    count_spent(out);
    return out;
  });
}

Result<KeyPage, Fault> Keys::page(UserId user, std::optional<KeyId> before, std::size_t limit) {
  return guarded([&]() -> Result<KeyPage, Fault> {
    Sql sql("SELECT ");
    sql << kColumns
        << "FROM api_keys FORCE INDEX (k_live) WHERE deleted_at IS NULL AND user_id=" << user;
    if (before) {
      sql << " AND id<" << *before;
    }
    Rows rows = session_.query(sql << " ORDER BY id DESC LIMIT " << std::uint64_t{limit + 1});
    KeyPage out;
    while (rows.next()) {
      if (out.keys.size() == limit) {
        out.has_more = true;
        break;
      }
      out.keys.push_back(read_key(rows));
    }
    count_spent(out.keys);
    return out;
  });
}

Result<KeyInfo, Fault> Keys::change(UserId user,
                                    KeyId id,
                                    const KeyChange& change,
                                    const Asker& asker) {
  if (change.name && !is_key_name(*change.name)) {
    return Fault{.code = FaultCode::kBadKeyName};
  }
  const auto limit = change.spend_limit.value_or(std::nullopt);
  if (limit && !is_spend_limit(*limit)) {
    return Fault{.code = FaultCode::kBadSpendLimit};
  }
  return guarded([&]() -> Result<KeyInfo, Fault> {
    std::optional<Fault> refused;
    std::optional<KeyInfo> changed;
    session_.transact_surely([&](bool again) {
      lock_keys(user);
      refused.reset();
      KeyReach before;
      {
        Rows row = session_.query(
            Sql("SELECT scopes, expires_at, spend_limit, spend_period FROM api_keys WHERE id=")
            << id << " AND user_id=" << user << " AND deleted_at IS NULL FOR UPDATE");
        if (!row.next()) {
          refused = no_such_key(id);
          return;
        }
        before = {row.scopes(1), row.maybe_time(2), read_limit(row, 3)};
      }
      const auto end = change.expires_at.value_or(std::nullopt);
      if (end && !is_key_expiry(*end, session_.now())) {
        refused = Fault{.code = FaultCode::kBadKeyExpiry};
        return;
      }
      // A scope is given for as long as the key lasts, and a later end for all of its scopes.
      const KeyReach after{change.scopes.value_or(before.scopes),
                           change.expires_at.value_or(before.expires_at),
                           change.spend_limit.value_or(before.spend_limit)};
      // The first run may have done it, and the one that asks may have given up the right to it.
      if (again && after == before) {
        changed = load(id);
        if (changed && (!change.name || changed->name == clip_utf8(*change.name, kKeyNameMax))) {
          return;
        }
      }
      const Gift whole{id, after.scopes, after.expires_at, after.spend_limit};
      const Gift part{id, change.scopes, change.expires_at, change.spend_limit};
      refused = beyond_asker(user, asker, reaches_beyond(after, before) ? whole : part);
      if (refused) {
        return;
      }
      Sql update("UPDATE api_keys SET name=");
      if (change.name) {
        update.utf8(*change.name, kKeyNameMax);
      } else {
        update << "name";
      }
      if (change.scopes) {
        update << ", scopes=" << *change.scopes;
      }
      if (change.expires_at) {
        update << ", expires_at=" << *change.expires_at;
      }
      if (change.spend_limit) {
        write_limit(update << ", ", *change.spend_limit);
      }
      session_.execute(update << " WHERE id=" << id);
      if (after.spend_limit && !before.spend_limit) {
        begin_spending(session_, user, id);
      } else if (before.spend_limit && !after.spend_limit) {
        end_spending(session_, id);
      }
      changed = load(id);
    });
    if (refused) {
      return *std::move(refused);
    }
    AG_CHECK(changed.has_value());
    return *std::move(changed);
  });
}

Result<KeyInfo, Fault> Keys::rotate(
    UserId user, KeyId id, std::chrono::hours overlap, const NewApiKey& key, const Asker& asker) {
  return guarded([&]() -> Result<KeyInfo, Fault> {
    std::optional<Fault> refused;
    std::optional<KeyInfo> rotated;
    session_.transact_surely([&](bool again) {
      lock_keys(user);
      refused.reset();
      std::optional<Scopes> scopes;
      std::optional<Instant> end;
      {
        Sql sql("SELECT scopes, expires_at, key_hash=");
        sql.bytes(key.hash) << " FROM api_keys WHERE id=" << id << " AND user_id=" << user
                            << " AND deleted_at IS NULL FOR UPDATE";
        Rows rows = session_.query(sql);
        if (!rows.next()) {
          refused = no_such_key(id);
          return;
        }
        if (again && rows.i64(3) != 0) {
          rotated = load(id);
          return;
        }
        scopes = rows.scopes(1);
        end = rows.maybe_time(2);
      }
      refused = beyond_asker(user, asker, {.key = id, .scopes = scopes, .expires_at = end});
      if (refused) {
        return;
      }
      // Assignments are made in their order. What was never used may have been in an answer that
      // nobody got: then the programs still have the secret before it, and that goes on.
      Sql row("UPDATE api_keys SET ");
      if (overlap.count() > 0) {
        row << "previous_hash=IF(secret_used=0 AND previous_until>UTC_TIMESTAMP(6), previous_hash, "
               "key_hash), previous_prefix=IF(secret_used=0 AND previous_until>UTC_TIMESTAMP(6), "
               "previous_prefix, prefix), previous_until=UTC_TIMESTAMP(6) + INTERVAL "
            << std::int64_t{overlap.count()} << " HOUR";
      } else {
        row << "previous_hash=NULL, previous_prefix=NULL, previous_until=NULL";
      }
      row << ", secret_used=0, key_hash=";
      row.bytes(key.hash) << ", prefix=";
      row.bytes(key.prefix) << " WHERE id=" << id;
      session_.execute(row);
      note_done();
      rotated = load(id);
    });
    if (refused) {
      return *std::move(refused);
    }
    AG_CHECK(rotated.has_value());
    return *std::move(rotated);
  });
}

Result<KeyInfo, Fault> Keys::rotate(KeyId id, std::chrono::hours overlap, const NewApiKey& key) {
  const auto owner = guarded([&]() -> Result<std::optional<UserId>, Fault> {
    Rows rows = session_.query(Sql("SELECT user_id FROM api_keys WHERE id=") << id);
    return rows.next() ? std::optional(rows.id<UserId>(1)) : std::nullopt;
  });
  if (!owner) {
    return owner.error();
  }
  return *owner ? rotate(**owner, id, overlap, key, {}) : no_such_key(id);
}

std::uint64_t Keys::mark_deleted(KeyId id) {
  const std::uint64_t deleted =
      session_.execute(Sql("UPDATE api_keys SET deleted_at=UTC_TIMESTAMP(6) WHERE id=")
                       << id << " AND deleted_at IS NULL");
  if (deleted != 0) {
    end_spending(session_, id);
  }
  return deleted;
}

Result<KeyId, Fault> Keys::resolve(std::string_view id_or_prefix) {
  if (const auto id = KeyId::parse(id_or_prefix)) {
    return *id;
  }
  return guarded([&]() -> Result<KeyId, Fault> {
    // No index leads by it: rarely asked for, and by operators alone.
    Sql sql("SELECT id FROM api_keys WHERE (prefix=");
    sql.bytes(id_or_prefix) << " OR (previous_until>UTC_TIMESTAMP(6) AND previous_prefix=";
    Rows rows = session_.query(sql.bytes(id_or_prefix) << ")) AND deleted_at IS NULL LIMIT 2");
    if (!rows.next()) {
      return Fault{.code = FaultCode::kNoSuchKey, .about = std::string(id_or_prefix)};
    }
    const auto id = rows.id<KeyId>(1);
    if (rows.next()) {
      return Fault{.code = FaultCode::kAmbiguousKey, .about = std::string(id_or_prefix)};
    }
    return id;
  });
}

Result<std::optional<std::string>, Fault> Keys::prefix_of(KeyId id) {
  return guarded([&]() -> Result<std::optional<std::string>, Fault> {
    Rows rows =
        session_.query(Sql("SELECT prefix FROM api_keys WHERE deleted_at IS NULL AND id=") << id);
    return rows.next() ? std::optional(rows.text(1)) : std::nullopt;
  });
}

Result<DeletedKey, Fault> Keys::remove(KeyId id) {
  return guarded([&]() -> Result<DeletedKey, Fault> {
    bool repeated = false;
    session_.transact_surely([&](bool again) {
      const std::uint64_t changed = mark_deleted(id);
      repeated = changed == 0 && !again;
      if (changed != 0) {
        note_done();
      } else if (load(id)) {
        note_done("deleted before, nothing changed");
      }
    });
    const auto key = load(id);
    if (!key) {
      return no_such_key(id);
    }
    return DeletedKey{.key = *key, .repeated = repeated};
  });
}

Result<Done, Fault> Keys::remove_own(UserId user, KeyId id, const Asker& asker) {
  return guarded([&]() -> Result<Done, Fault> {
    std::optional<Fault> refused;
    session_.transact_surely([&](bool again) {
      // In one order: of two keys that delete each other one is too late.
      if (const auto* const key = std::get_if<KeyId>(&asker); key != nullptr && *key < id) {
        static_cast<void>(locked(Sql("SELECT 1 FROM api_keys WHERE id=") << *key));
      }
      // Locked first: of a session that waits for no row, what reads for an update still does.
      const bool there =
          locked(Sql("SELECT 1 FROM api_keys WHERE id=") << id << " AND user_id=" << user);
      // The first run may have done it, also to the one that asks.
      const bool done =
          again && there &&
          locked(Sql("SELECT 1 FROM api_keys WHERE deleted_at IS NOT NULL AND id=") << id);
      refused = done ? std::nullopt : beyond_asker(user, asker, {});
      if (!refused && !done && !(there && mark_deleted(id) != 0)) {
        refused = no_such_key(id);
      }
    });
    if (refused) {
      return *refused;
    }
    return Done{};
  });
}

}  // namespace audiogen::store
