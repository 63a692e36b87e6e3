#include "common/store/issuer_links.h"

#include "common/store/asking_session.h"

namespace audiogen::store {
namespace {

// The row that `id` calls so, of `user`.
Sql& of(Sql& sql, UserId user, IssuerLinkId id) {
  return sql << " FROM oidc_identities WHERE user_id=" << user << " AND LEFT(id_hash,16)=" << id;
}

std::optional<std::string> maybe_text(const Rows& rows, std::uint32_t column) {
  return rows.is_null(column) ? std::nullopt : std::optional(rows.text(column));
}

}  // namespace

Result<std::vector<IssuerLink>, Fault> IssuerLinks::list(UserId user) {
  return guarded([&]() -> Result<std::vector<IssuerLink>, Fault> {
    Rows rows =
        session_.query(Sql("SELECT LEFT(id_hash,16), issuer, email, created_at, last_used_at FROM "
                           "oidc_identities WHERE user_id=")
                       << user << " ORDER BY created_at, id_hash");
    std::vector<IssuerLink> out;
    while (rows.next()) {
      out.push_back({.id = rows.id<IssuerLinkId>(1),
                     .issuer = maybe_text(rows, 2),
                     .email = maybe_text(rows, 3),
                     .linked_at = rows.time(4),
                     .last_used_at = rows.maybe_time(5)});
    }
    return out;
  });
}

Result<Done, Fault> IssuerLinks::remove(UserId user, SessionId asker, IssuerLinkId id) {
  return guarded([&]() -> Result<Done, Fault> {
    std::optional<Fault> refused;
    bool there = false;
    session_.transact_surely([&](bool again) {
      refused.reset();
      // Before the session, as whoever signs in by it does.
      Sql row("SELECT 1");
      const bool is_there = locked(of(row, user, id));
      if (again && there && !is_there) {
        return;  // The first run has removed it.
      }
      there = is_there;
      if (!there) {
        refused = Fault{.code = FaultCode::kNoSuchIssuer};
        return;
      }
      const auto now = lock_fresh_session(session_, user, asker);
      if (!now) {
        refused = now.error();
        return;
      }
      // Nobody can take a password away again; and of the passkeys the last one stays without one.
      const bool other_way =
          session_.query(Sql("SELECT 1 FROM passwords WHERE user_id=") << user).next() ||
          session_.query(Sql("SELECT 1 FROM passkeys WHERE user_id=") << user << " LIMIT 1").next();
      if (!other_way) {
        refused = Fault{.code = FaultCode::kLastWayIn};
        return;
      }
      Sql gone("DELETE");
      session_.execute(of(gone, user, id));
      session_.execute(Sql("INSERT IGNORE INTO issuer_refusals (user_id, refused_at) VALUES (")
                       << user << "," << *now << ")");
    });
    if (refused) {
      return *std::move(refused);
    }
    return Done{};
  });
}

}  // namespace audiogen::store
