#include "common/store/mail_links.h"

#include <optional>

#include "common/base/ascii.h"
#include "common/base/check.h"
#include "common/base/mail_address.h"
#include "common/domain/mail.h"
#include "common/domain/sign_in.h"
#include "common/store/asking_session.h"

namespace audiogen::store {
namespace {

constexpr std::size_t kEmailMax = kMailAddressMax;

// The user with that address, locked: his account does not end meanwhile.
std::optional<UserId> lock_user(Session& session, std::string_view email) {
  Sql sql("SELECT id FROM users WHERE email=");
  Rows rows = session.query(sql.utf8(email, kEmailMax) << " FOR UPDATE");
  return rows.next() ? std::optional(rows.id<UserId>(1)) : std::nullopt;
}

std::uint64_t count(Session& session, const Sql& sql) {
  Rows rows = session.query(sql);
  AG_CHECK(rows.next());
  return rows.u64(1);
}

void insert_sign_up(Session& session,
                    std::string_view email,
                    const Sha256& token_hash,
                    bool invited,
                    Instant expires_at) {
  Sql row("INSERT INTO sign_ups (token_hash, email, invited, expires_at) VALUES (");
  row.bytes(token_hash) << ",";
  row.utf8(email, kEmailMax) << "," << std::uint32_t{invited} << "," << expires_at << ")";
  session.execute(row);
}

// Links of `sign_ups` to that address that still work.
std::uint64_t live_sign_ups(Session& session, std::string_view email, bool invited) {
  Sql sql("SELECT COUNT(*) FROM sign_ups FORCE INDEX (k_email) WHERE email=");
  sql.utf8(email, kEmailMax) << " AND invited=" << std::uint32_t{invited}
                             << " AND used_at IS NULL AND expires_at>UTC_TIMESTAMP(6)";
  return count(session, sql);
}

}  // namespace

Result<MailedLink, Fault> MailLinks::add(std::string_view email,
                                         const Sha256& token_hash,
                                         SignUp sign_up) {
  return guarded([&]() -> Result<MailedLink, Fault> {
    auto out = MailedLink::kNone;
    session_.transact([&] {
      out = MailedLink::kNone;
      const Instant until = session_.now() + kLoginLinkLife;
      if (const auto user = lock_user(session_, email)) {
        const std::uint64_t live =
            count(session_,
                  Sql("SELECT COUNT(*) FROM login_links FORCE INDEX (k_user) WHERE user_id=")
                      << *user << " AND used_at IS NULL AND expires_at>UTC_TIMESTAMP(6)");
        if (live < kMailedLinksMax) {
          Sql row("INSERT INTO login_links (token_hash, user_id, expires_at) VALUES (");
          row.bytes(token_hash) << "," << *user << "," << until << ")";
          session_.execute(row);
          out = MailedLink::kSignIn;
        }
        return;
      }
      const bool may = sign_up == SignUp::kOpen ||
                       (sign_up == SignUp::kInvite && live_sign_ups(session_, email, true) > 0);
      if (may && live_sign_ups(session_, email, false) < kMailedLinksMax) {
        insert_sign_up(session_, email, token_hash, false, until);
        out = MailedLink::kSignUp;
      }
    });
    return out;
  });
}

Result<Instant, Fault> MailLinks::invite(std::string_view email, const Sha256& token_hash) {
  const std::string address = ascii::lower(email);
  if (!is_mail_address(address)) {
    return Fault{.code = FaultCode::kBadEmail, .about = std::string(email)};
  }
  return guarded([&]() -> Result<Instant, Fault> {
    std::optional<Fault> refused;
    std::optional<Instant> until;
    session_.transact_surely([&](bool again) {
      refused.reset();
      if (again) {
        Sql sql("SELECT expires_at FROM sign_ups WHERE token_hash=");
        if (Rows rows = session_.query(sql.bytes(token_hash)); rows.next()) {
          until = rows.time(1);
          return;
        }
      }
      Sql taken("SELECT id FROM users WHERE email=");
      if (Rows rows = session_.query(taken.utf8(address, kEmailMax)); rows.next()) {
        refused =
            Fault{.code = FaultCode::kEmailTaken, .about = address, .user = rows.id<UserId>(1)};
        return;
      }
      until = session_.now() + kInvitationLife;
      insert_sign_up(session_, address, token_hash, true, *until);
      note_done();
    });
    if (refused) {
      return *std::move(refused);
    }
    return *until;
  });
}

Result<Done, Fault> MailLinks::ask_change(UserId user,
                                          SessionId asker,
                                          std::string_view email,
                                          const Sha256& token_hash) {
  return guarded([&]() -> Result<Done, Fault> {
    std::optional<Fault> refused;
    session_.transact_surely(
        [&](bool) {
          refused.reset();
          const auto now = lock_fresh_session(session_, user, asker);
          if (!now) {
            refused = now.error();
            return;
          }
          // For a session that waits for no row, as those of the pool.
          static_cast<void>(locked(Sql("SELECT 1 FROM mail_changes WHERE user_id=") << user));
          Sql row("INSERT INTO mail_changes (user_id, token_hash, email, expires_at) VALUES (");
          row << user << ",";
          row.bytes(token_hash) << ",";
          row.utf8(email, kEmailMax)
              << "," << *now + kMailChangeLife
              << ") ON DUPLICATE KEY UPDATE token_hash=VALUES(token_hash), email=VALUES(email), "
                 "expires_at=VALUES(expires_at)";
          session_.execute(row);
        });
    if (refused) {
      return *std::move(refused);
    }
    return Done{};
  });
}

Result<MailChange, Fault> MailLinks::confirm_change(UserId user, const Sha256& token_hash) {
  return guarded([&]() -> Result<MailChange, Fault> {
    std::optional<MailChange> changed;
    const auto address = [&] {
      Rows rows = session_.query(Sql("SELECT email FROM users WHERE id=") << user << " FOR UPDATE");
      AG_CHECK(rows.next());  // No user's row is ever deleted.
      return rows.text(1);
    };
    try {
      session_.transact_surely([&](bool again) {
        const std::string before = address();
        if (again && changed && before == changed->after) {
          return;  // The first run has done it.
        }
        changed.reset();
        Sql sql("SELECT email FROM mail_changes WHERE token_hash=");
        sql.bytes(token_hash) << " AND user_id=" << user
                              << " AND expires_at>UTC_TIMESTAMP(6) FOR UPDATE";
        Rows rows = session_.query(sql);
        if (!rows.next()) {
          return;
        }
        MailChange wanted{.before = before, .after = rows.text(1)};
        Sql row("UPDATE users SET email=");
        row.utf8(wanted.after, kEmailMax) << " WHERE id=" << user << " AND deleted_at IS NULL";
        session_.execute(row);
        end_mail_change(session_, user);
        static_cast<void>(locked(Sql("SELECT token_hash FROM login_links WHERE user_id=") << user));
        session_.execute(Sql("DELETE FROM login_links WHERE user_id=") << user);
        changed = std::move(wanted);
      });
    } catch (const DbError& error) {
      if (error.fault() != DbFault::kDuplicate) {
        throw;
      }
      changed.reset();
    }
    if (!changed) {
      return Fault{.code = FaultCode::kBadLogin};
    }
    return *std::move(changed);
  });
}

void lock_mail_change(Session& session, UserId user) {
  static_cast<void>(
      session.query(Sql("SELECT user_id FROM mail_changes WHERE user_id=") << user << " FOR UPDATE")
          .next());
}

void end_mail_change(Session& session, UserId user) {
  session.execute(Sql("DELETE FROM mail_changes WHERE user_id=") << user);
}

}  // namespace audiogen::store
