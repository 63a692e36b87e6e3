#include "common/store/keys.h"

#include "common/base/check.h"
#include "common/domain/sign_in.h"

namespace audiogen::store {
namespace {

constexpr char kColumns[] =
    "id, name, prefix, created_at, last_used_at, deleted_at, scopes, expires_at, "
    "IF(previous_until>UTC_TIMESTAMP(6), previous_until, NULL) ";

KeyInfo read_key(const Rows& rows) {
  return {.id = rows.id<KeyId>(1),
          .name = rows.text(2),
          .prefix = rows.text(3),
          .created_at = rows.time(4),
          .last_used_at = rows.maybe_time(5),
          .deleted_at = rows.maybe_time(6),
          .scopes = rows.scopes(7),
          .expires_at = rows.maybe_time(8),
          .previous_until = rows.maybe_time(9)};
}

Fault no_such_key(KeyId id) {
  return {.code = FaultCode::kNoSuchKey, .about = id.text()};
}

}  // namespace

std::optional<KeyInfo> Keys::load(KeyId id) {
  Rows rows = session_.query(Sql("SELECT ") << kColumns << "FROM api_keys WHERE id=" << id);
  return rows.next() ? std::optional(read_key(rows)) : std::nullopt;
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

std::optional<Fault> Keys::beyond_asker(UserId user,
                                        const Asker& asker,
                                        std::optional<Scopes> scopes,
                                        std::optional<std::optional<Instant>> expires_at) {
  if (const auto* const key = std::get_if<KeyId>(&asker)) {
    return beyond_key(user, *key, scopes, expires_at);
  }
  if (const auto* const session = std::get_if<SessionId>(&asker)) {
    return beyond_session(user, *session, scopes);
  }
  return std::nullopt;
}

std::optional<Fault> Keys::beyond_session(UserId user,
                                          SessionId asker,
                                          std::optional<Scopes> scopes) {
  // One that its owner ends makes no key meanwhile.
  Rows rows = session_.query(
      Sql("SELECT created_at, last_seen_at, UTC_TIMESTAMP(6) FROM sessions WHERE id=")
      << asker << " AND user_id=" << user << " FOR UPDATE");
  if (!rows.next() || session_end(rows.time(1), rows.time(2)) <= rows.time(3)) {
    return Fault{.code = FaultCode::kAskerIsGone};
  }
  if (scopes && scopes->has(Scope::kManage) && fresh_until(rows.time(1)) <= rows.time(3)) {
    return Fault{.code = FaultCode::kNotFresh};
  }
  return std::nullopt;
}

std::optional<Fault> Keys::beyond_key(UserId user,
                                      KeyId asker,
                                      std::optional<Scopes> scopes,
                                      std::optional<std::optional<Instant>> expires_at) {
  // Not as it was when the request came: a key that is being taken away makes no other meanwhile.
  Rows rows = session_.query(Sql("SELECT scopes, expires_at FROM api_keys WHERE id=")
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
  if (const auto scope = scopes ? scope_beyond(*scopes, own) : std::nullopt) {
    return Fault{.code = FaultCode::kScopeNotOwn, .about = std::string(scope_name(*scope))};
  }
  const auto own_end = rows.maybe_time(2);
  if (expires_at && outlives(*expires_at, own_end)) {
    return Fault{.code = FaultCode::kExpiryNotOwn, .about = format_iso(*own_end)};
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
  return guarded([&]() -> Result<KeyInfo, Fault> {
    const KeyId id = KeyId::make();
    std::optional<Fault> refused;
    session_.transact_surely([&](bool again) {
      refused.reset();
      // No foreign key says it; and no user is ever deleted.
      if (!session_.query(Sql("SELECT 1 FROM users WHERE id=") << user).next()) {
        refused = Fault{.code = FaultCode::kNoSuchUser, .about = user.text()};
        return;
      }
      lock_keys(user);
      if (again && locked(Sql("SELECT 1 FROM api_keys WHERE id=") << id)) {
        return;
      }
      if (terms.expires_at && !is_key_expiry(*terms.expires_at, session_.now())) {
        refused = Fault{.code = FaultCode::kBadKeyExpiry};
        return;
      }
      refused = beyond_asker(user, asker, terms.scopes, terms.expires_at);
      if (refused) {
        return;
      }
      if (count(user) >= kKeysMax) {
        refused = Fault{.code = FaultCode::kTooManyKeys};
        return;
      }
      Sql row(
          "INSERT INTO api_keys (id, user_id, key_hash, prefix, name, scopes, expires_at, "
          "created_at) VALUES (");
      row << id << "," << user << ",";
      row.bytes(key.hash) << ",";
      row.bytes(key.prefix) << ",";
      row.utf8(terms.name, kKeyNameMax)
          << "," << terms.scopes << "," << terms.expires_at << ",UTC_TIMESTAMP(6))";
      session_.execute(row);
      note_done(id.text());
    });
    if (refused) {
      return *std::move(refused);
    }
    const auto stored = load(id);
    AG_CHECK(stored.has_value());
    return *stored;
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
  return guarded([&]() -> Result<KeyInfo, Fault> {
    std::optional<Fault> refused;
    std::optional<KeyInfo> changed;
    session_.transact_surely([&](bool) {
      lock_keys(user);
      refused.reset();
      Rows row = session_.query(Sql("SELECT ")
                                << kColumns << "FROM api_keys WHERE id=" << id
                                << " AND user_id=" << user << " AND deleted_at IS NULL FOR UPDATE");
      if (!row.next()) {
        refused = no_such_key(id);
        return;
      }
      const KeyInfo key = read_key(row);
      const auto end = change.expires_at.value_or(std::nullopt);
      if (end && !is_key_expiry(*end, session_.now())) {
        refused = Fault{.code = FaultCode::kBadKeyExpiry};
        return;
      }
      // A scope is given for as long as the key lasts, and a later end for all of its scopes.
      const KeyReach before{key.scopes, key.expires_at};
      const KeyReach after{change.scopes.value_or(key.scopes),
                           change.expires_at.value_or(key.expires_at)};
      refused = reaches_beyond(after, before)
                    ? beyond_asker(user, asker, after.scopes, after.expires_at)
                    : beyond_asker(user, asker, change.scopes, change.expires_at);
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
      session_.execute(update << " WHERE id=" << id);
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
      refused = beyond_asker(user, asker, scopes, end);
      if (refused) {
        return;
      }
      // Assignments are made in their order.
      Sql row("UPDATE api_keys SET previous_hash=");
      if (overlap.count() > 0) {
        row << "key_hash, previous_until=UTC_TIMESTAMP(6) + INTERVAL "
            << std::int64_t{overlap.count()} << " HOUR";
      } else {
        row << "NULL, previous_until=NULL";
      }
      row << ", key_hash=";
      row.bytes(key.hash) << ", prefix=";
      row.bytes(key.prefix) << " WHERE id=" << id;
      session_.execute(row);
      rotated = load(id);
    });
    if (refused) {
      return *std::move(refused);
    }
    AG_CHECK(rotated.has_value());
    return *std::move(rotated);
  });
}

std::uint64_t Keys::mark_deleted(KeyId id) {
  return session_.execute(Sql("UPDATE api_keys SET deleted_at=UTC_TIMESTAMP(6) WHERE id=")
                          << id << " AND deleted_at IS NULL");
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

Result<Done, Fault> Keys::remove_own(UserId user, KeyId id) {
  return guarded([&]() -> Result<Done, Fault> {
    bool there = false;
    session_.transact_surely([&](bool again) {
      // Locked first: of a session that waits for no row, what reads for an update still does.
      there = locked(Sql("SELECT 1 FROM api_keys WHERE id=") << id << " AND user_id=" << user);
      // The first run may have done it.
      there = there && (mark_deleted(id) != 0 || again);
    });
    if (!there) {
      return no_such_key(id);
    }
    return Done{};
  });
}

}  // namespace audiogen::store
