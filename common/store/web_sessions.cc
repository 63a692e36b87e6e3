#include "common/store/web_sessions.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/domain/sign_in.h"
#include "common/store/accounts.h"
#include "common/store/asking_session.h"
#include "common/store/mail_links.h"

namespace audiogen::store {
namespace {

constexpr char kColumns[] =
    "id, user_id, created_at, last_seen_at, user_agent, address, fresh_seconds ";
constexpr std::size_t kAddressMax = 45, kEmailMax = 254, kIssuerMax = 255;  // Of the columns.

WebSession read_session(const Rows& rows) {
  return {.id = rows.id<SessionId>(1),
          .user = rows.id<UserId>(2),
          .created_at = rows.time(3),
          .last_seen_at = rows.time(4),
          .user_agent = rows.text(5),
          .address = rows.text(6),
          .fresh_until = fresh_until(rows.time(3), std::chrono::seconds(rows.u32(7)))};
}

bool lives(const WebSession& session, Instant now) {
  return session_end(session.created_at, session.last_seen_at) > now;
}

Fault no_such_session() {
  return {.code = FaultCode::kNoSuchSession};
}

}  // namespace

std::optional<WebSession> WebSessions::load(SessionId id) {
  Rows rows = session_.query(Sql("SELECT ") << kColumns << "FROM sessions WHERE id=" << id);
  return rows.next() ? std::optional(read_session(rows)) : std::nullopt;
}

std::string WebSessions::email_of(UserId user) {
  Rows rows = session_.query(Sql("SELECT email FROM users WHERE id=") << user);
  AG_CHECK(rows.next());  // No user is ever deleted.
  return rows.text(1);
}

std::optional<std::string> WebSessions::password_row(UserId user, bool lock) {
  Sql sql("SELECT encoded FROM passwords WHERE user_id=");
  sql << user;
  if (lock) {
    sql << " FOR UPDATE";
  }
  Rows rows = session_.query(sql);
  return rows.next() ? std::optional(rows.text(1)) : std::nullopt;
}

Result<Instant, Fault> WebSessions::add_link(UserId user, const Sha256& token_hash) {
  return guarded([&]() -> Result<Instant, Fault> {
    std::optional<Instant> expires_at;
    session_.transact_surely([&](bool again) {
      expires_at.reset();
      if (!session_.query(Sql("SELECT 1 FROM users WHERE deleted_at IS NULL AND id=") << user)
               .next()) {
        return;
      }
      if (again) {
        Sql sql("SELECT expires_at FROM login_links WHERE token_hash=");
        if (Rows rows = session_.query(sql.bytes(token_hash)); rows.next()) {
          expires_at = rows.time(1);
          return;
        }
      }
      expires_at = session_.now() + kLoginLinkLife;
      Sql row("INSERT INTO login_links (token_hash, user_id, expires_at) VALUES (");
      row.bytes(token_hash) << "," << user << "," << *expires_at << ")";
      session_.execute(row);
      note_done();
    });
    if (!expires_at) {
      return Fault{.code = FaultCode::kNoSuchUser, .about = user.text()};
    }
    return *expires_at;
  });
}

void WebSessions::insert(UserId user, const NewWebSession& made) {
  Sql row(
      "INSERT INTO sessions (id, user_id, token_hash, created_at, last_seen_at, user_agent, "
      "address, fresh_seconds) VALUES (");
  row << made.id << "," << user << ",";
  row.bytes(made.token_hash) << ",UTC_TIMESTAMP(6),UTC_TIMESTAMP(6),";
  row.utf8(made.user_agent, kUserAgentMax) << ",";
  row.bytes(std::string_view(made.address).substr(0, kAddressMax))
      << "," << std::int64_t{made.fresh_for.count()} << ")";
  session_.execute(row);
}

// One that somebody holds just now stays until the next.
void WebSessions::end_surplus(UserId user) {
  std::vector<SessionId> surplus;
  Rows rows = session_.query(Sql("SELECT id FROM sessions WHERE user_id=")
                             << user << " ORDER BY last_seen_at DESC, id DESC LIMIT "
                             << std::uint64_t{kSessionsMax} << ",1000");
  while (rows.next()) {
    surplus.push_back(rows.id<SessionId>(1));
  }
  for (const SessionId id : surplus) {
    Rows held =
        session_.query(Sql("SELECT 1 FROM sessions WHERE id=") << id << " FOR UPDATE SKIP LOCKED");
    if (held.next()) {
      session_.execute(Sql("DELETE FROM sessions WHERE id=") << id);
    }
  }
}

Result<OpenedWebSession, Fault> WebSessions::open(
    const NewWebSession& made, const std::function<std::optional<UserId>()>& who) {
  return guarded([&]() -> Result<OpenedWebSession, Fault> {
    std::optional<OpenedWebSession> opened;
    // Read before the commit: what opens it, a link or a code, opens nothing a second time.
    const auto loaded = [&]() -> std::optional<OpenedWebSession> {
      const auto session = load(made.id);
      if (!session) {
        return std::nullopt;
      }
      OpenedWebSession out{.session = *session, .email = {}};
      out.email = email_of(session->user);
      return out;
    };
    const auto body = [&](bool again) {
      opened = again ? loaded() : std::nullopt;
      if (opened) {
        return;
      }
      const auto user = who();
      // Under its locks: a COMMIT that was still under way then has come to its end.
      opened = again ? loaded() : std::nullopt;
      if (opened || !user) {
        return;
      }
      if (made.replaces) {
        Sql before("SELECT id FROM sessions WHERE token_hash=");
        Rows rows = session_.query(before.bytes(*made.replaces) << " FOR UPDATE");
        if (rows.next()) {
          session_.execute(Sql("DELETE FROM sessions WHERE id=") << rows.id<SessionId>(1));
        }
      }
      insert(*user, made);
      end_surplus(*user);
      opened = loaded();
    };
    try {
      session_.transact_surely(body);
    } catch (const DbError& error) {
      if (error.fault() != DbFault::kDuplicate) {
        throw;
      }
      session_.transact_surely(body);  // Somebody has just made an account with this address.
    }
    if (!opened) {
      return Fault{.code = FaultCode::kBadLogin};
    }
    return *std::move(opened);
  });
}

Result<OpenedWebSession, Fault> WebSessions::open_by_link(const Sha256& link,
                                                          const NewWebSession& made) {
  return open(made, [&]() -> std::optional<UserId> {
    Sql sql("SELECT user_id, expires_at>UTC_TIMESTAMP(6) FROM login_links WHERE token_hash=");
    Rows rows = session_.query(sql.bytes(link) << " AND used_at IS NULL FOR UPDATE");
    if (!rows.next() || rows.i64(2) == 0) {
      return std::nullopt;
    }
    const auto user = rows.id<UserId>(1);
    Sql used("UPDATE login_links SET used_at=UTC_TIMESTAMP(6) WHERE token_hash=");
    session_.execute(used.bytes(link));
    return user;
  });
}

Result<OpenedWebSession, Fault> WebSessions::open_by_sign_up(const Sha256& link,
                                                             const NewWebSession& made) {
  const UserId id = UserId::make();
  const auto make = [&]() -> std::optional<UserId> {
    Sql sql("SELECT email, expires_at>UTC_TIMESTAMP(6) FROM sign_ups WHERE token_hash=");
    Rows rows = session_.query(sql.bytes(link) << " AND used_at IS NULL FOR UPDATE");
    if (!rows.next() || rows.i64(2) == 0) {
      return std::nullopt;
    }
    Sql used("UPDATE sign_ups SET used_at=UTC_TIMESTAMP(6) WHERE token_hash=");
    session_.execute(used.bytes(link));
    Sql taken("SELECT 1 FROM users WHERE email=");
    if (session_.query(taken.utf8(rows.text(1), kEmailMax)).next()) {
      return std::nullopt;
    }
    make_account(id, rows.text(1));
    return id;
  };
  return open(made, make);
}

Result<OpenedWebSession, Fault> WebSessions::open_by_identity(const NamedPerson& person,
                                                              SignUp sign_up,
                                                              const NewWebSession& made) {
  const UserId fresh = UserId::make();
  // By any run: where the first one's COMMIT was under way, the next finds it done.
  bool linked = false;
  auto opened = open(made, [&] { return link(person, sign_up, made, fresh, linked); });
  if (opened) {
    opened->linked = linked;
  }
  return opened;
}

// Whose account it is, from now on at the latest; `fresh` is whose it is if he gets a new one.
// `linked` becomes true where he had one before.
std::optional<UserId> WebSessions::link(const NamedPerson& person,
                                        SignUp sign_up,
                                        const NewWebSession& made,
                                        UserId fresh,
                                        bool& linked) {
  const auto email = [&](Sql& sql) -> Sql& {
    return person.email ? sql.utf8(*person.email, kEmailMax) : sql << "NULL";
  };
  Sql known("SELECT user_id FROM oidc_identities WHERE id_hash=");
  if (Rows rows = session_.query(known.bytes(person.identity) << " FOR UPDATE"); rows.next()) {
    const auto user = rows.id<UserId>(1);
    Sql used("UPDATE oidc_identities SET issuer=");
    used.utf8(person.issuer, kIssuerMax) << ",email=";
    email(used) << ",last_used_at=UTC_TIMESTAMP(6) WHERE id_hash=";
    session_.execute(used.bytes(person.identity));
    return user;
  }
  if (!person.email) {
    return std::nullopt;
  }
  std::optional<UserId> user;
  Sql sql("SELECT id FROM users WHERE email=");
  if (Rows rows = session_.query(sql.utf8(*person.email, kEmailMax) << " FOR UPDATE");
      rows.next()) {
    user = rows.id<UserId>(1);
    // An address may be another person's by now; the account is still the first one's. What another
    // issuer has said, of which the service may be no client any more, is no reason; where nobody
    // knows which it was, it is.
    Sql other("SELECT 1 FROM oidc_identities WHERE user_id=");
    other << *user << " AND (issuer IS NULL OR issuer=";
    if (session_.query(other.utf8(person.issuer, kIssuerMax) << ") LIMIT 1").next() ||
        !may_link_again(*user, made.replaces)) {
      return std::nullopt;
    }
    linked = true;
  } else {
    // Who is signed in has an account: he would lose sight of it, and its credits, for an empty
    // one.
    if (made.replaces && is_signed_in(*made.replaces)) {
      return std::nullopt;
    }
    if (sign_up != SignUp::kOpen &&
        !(sign_up == SignUp::kInvite && take_invitation(*person.email))) {
      return std::nullopt;
    }
    make_account(fresh, *person.email);
    user = fresh;
  }
  Sql row(
      "INSERT INTO oidc_identities (id_hash, user_id, created_at, issuer, email, last_used_at) "
      "VALUES (");
  row.bytes(person.identity) << "," << *user << ",UTC_TIMESTAMP(6),";
  row.utf8(person.issuer, kIssuerMax) << ",";
  email(row) << ",UTC_TIMESTAMP(6))";
  session_.execute(row);
  return user;
}

bool WebSessions::is_signed_in(const Sha256& token) {
  Sql sql("SELECT ");
  sql << kColumns << "FROM sessions WHERE token_hash=";
  Rows rows = session_.query(sql.bytes(token));
  return rows.next() && lives(read_session(rows), session_.now());
}

// Whoever has unlinked an issuer decides whether there is one again, and not whoever has his
// address there: only he is signed in, and has just shown it.
bool WebSessions::may_link_again(UserId user, const std::optional<Sha256>& asker) {
  if (!locked(Sql("SELECT 1 FROM issuer_refusals WHERE user_id=") << user)) {
    return true;
  }
  if (!asker) {
    return false;
  }
  Sql sql("SELECT id FROM sessions WHERE token_hash=");
  Rows rows = session_.query(sql.bytes(*asker));
  if (!rows.next() || !lock_fresh_session(session_, user, rows.id<SessionId>(1))) {
    return false;
  }
  session_.execute(Sql("DELETE FROM issuer_refusals WHERE user_id=") << user);
  return true;
}

// Whoever has come needs no other link, and nobody else may come by his: not even he himself, once
// he has another address.
void WebSessions::make_account(UserId id, std::string_view email) {
  insert_user(session_, id, email);
  Sql used("UPDATE sign_ups SET used_at=UTC_TIMESTAMP(6) WHERE email=");
  session_.execute(used.utf8(email, kEmailMax) << " AND used_at IS NULL");
}

bool WebSessions::take_invitation(std::string_view email) {
  Sql sql("SELECT token_hash FROM sign_ups FORCE INDEX (k_email) WHERE email=");
  sql.utf8(email, kEmailMax)
      << " AND invited=1 AND used_at IS NULL AND expires_at>UTC_TIMESTAMP(6) LIMIT 1 FOR UPDATE";
  Rows rows = session_.query(sql);
  if (!rows.next()) {
    return false;
  }
  Sql used("UPDATE sign_ups SET used_at=UTC_TIMESTAMP(6) WHERE token_hash=");
  session_.execute(used.bytes(rows.text(1)));
  return true;
}

Result<std::optional<StoredPassword>, Fault> WebSessions::password_of(std::string_view email) {
  return guarded([&]() -> Result<std::optional<StoredPassword>, Fault> {
    Sql sql(
        "SELECT p.user_id, p.encoded FROM users u JOIN passwords p ON p.user_id=u.id WHERE "
        "u.email=");
    Rows rows = session_.query(sql.utf8(email, kEmailMax));
    if (!rows.next()) {
      return std::optional<StoredPassword>();
    }
    return std::optional(StoredPassword{.user = rows.id<UserId>(1), .encoded = rows.text(2)});
  });
}

Result<OpenedWebSession, Fault> WebSessions::open_by_password(const StoredPassword& password,
                                                              const NewWebSession& made) {
  return open(made, [&]() -> std::optional<UserId> {
    // Whoever changes it ends all sessions, and this one is not there yet.
    return password_row(password.user, true) == password.encoded ? std::optional(password.user)
                                                                 : std::nullopt;
  });
}

Result<std::vector<WebSession>, Fault> WebSessions::list(UserId user) {
  return guarded([&]() -> Result<std::vector<WebSession>, Fault> {
    const Instant now = session_.now();
    Rows rows = session_.query(Sql("SELECT ") << kColumns << "FROM sessions WHERE user_id=" << user
                                              << " ORDER BY id DESC");
    std::vector<WebSession> out;
    while (rows.next()) {
      out.push_back(read_session(rows));
    }
    std::erase_if(out, [&](const WebSession& session) { return !lives(session, now); });
    return out;
  });
}

Result<WebSessionState, Fault> WebSessions::find(UserId user, SessionId id) {
  return guarded([&]() -> Result<WebSessionState, Fault> {
    auto session = load(id);
    const Instant now = session_.now();
    if (!session || session->user != user || !lives(*session, now)) {
      return no_such_session();
    }
    const bool fresh = is_fresh(session->created_at, session->fresh_until, now);
    return WebSessionState{.session = *std::move(session),
                           .email = email_of(user),
                           .password = password_row(user, false),
                           .fresh = fresh};
  });
}

Result<Done, Fault> WebSessions::close(UserId user, SessionId id) {
  return guarded([&]() -> Result<Done, Fault> {
    bool there = false;
    session_.transact_surely([&](bool again) {
      there = locked(Sql("SELECT 1 FROM sessions WHERE id=") << id << " AND user_id=" << user) ||
              (again && there);  // The first run has ended it.
      session_.execute(Sql("DELETE FROM sessions WHERE id=") << id << " AND user_id=" << user);
    });
    if (!there) {
      return no_such_session();
    }
    return Done{};
  });
}

// Whoever opens one at this moment has done so by then, and his session is found, or fails.
void WebSessions::lock_links(UserId user) {
  static_cast<void>(locked(Sql("SELECT 1 FROM login_links FORCE INDEX (k_user) WHERE user_id=")
                           << user << " AND used_at IS NULL"));
}

void WebSessions::end_links(UserId user) {
  session_.execute(Sql("UPDATE login_links FORCE INDEX (k_user) SET used_at=UTC_TIMESTAMP(6) "
                       "WHERE user_id=")
                   << user << " AND used_at IS NULL");
}

Result<std::uint64_t, Fault> WebSessions::close_all(UserId user) {
  return guarded([&]() -> Result<std::uint64_t, Fault> {
    std::uint64_t ended = 0;
    session_.transact_surely([&](bool again) {
      lock_mail_change(session_, user);
      static_cast<void>(locked(Sql("SELECT 1 FROM login_links WHERE user_id=") << user));
      const std::uint64_t now =
          session_.execute(Sql("DELETE FROM sessions WHERE user_id=") << user);
      end_mail_change(session_, user);
      session_.execute(Sql("DELETE FROM login_links WHERE user_id=") << user);
      ended = again ? std::max(ended, now) : now;  // The first run may have ended them.
      note_done();
    });
    return ended;
  });
}

Result<Done, Fault> WebSessions::set_password(UserId user,
                                              SessionId id,
                                              std::string_view encoded,
                                              const std::optional<std::string>& known) {
  return guarded([&]() -> Result<Done, Fault> {
    std::optional<Fault> refused;
    session_.transact_surely([&](bool again) {
      refused.reset();
      // Locked before the sessions are read: whoever signs in by the password until now has done so
      // by then, or fails.
      const auto before = password_row(user, true);
      if (again && before == encoded) {
        return;
      }
      lock_mail_change(session_, user);
      lock_links(user);
      std::vector<SessionId> others;
      std::optional<WebSession> own;
      Rows rows = session_.query(Sql("SELECT ") << kColumns << "FROM sessions WHERE user_id="
                                                << user << " ORDER BY id FOR UPDATE");
      while (rows.next()) {
        WebSession session = read_session(rows);
        if (session.id == id) {
          own = std::move(session);
        } else {
          others.push_back(session.id);
        }
      }
      const Instant now = session_.now();
      if (!own || !lives(*own, now)) {
        refused = no_such_session();
        return;
      }
      if (!(known && before == known) && !is_fresh(own->created_at, own->fresh_until, now)) {
        refused = Fault{.code = FaultCode::kNotFresh};
        return;
      }
      // An address that somebody else has asked for, by a session that ends here, opens nothing.
      end_mail_change(session_, user);
      end_links(user);
      Sql row("INSERT INTO passwords (user_id, encoded, changed_at) VALUES (");
      row << user << ",";
      row.bytes(encoded) << "," << now
                         << ") ON DUPLICATE KEY UPDATE encoded=VALUES(encoded), "
                            "changed_at=VALUES(changed_at)";
      session_.execute(row);
      if (!others.empty()) {
        Sql sql("DELETE FROM sessions WHERE id IN (");
        store::list(sql, others, [&](SessionId other) { sql << other; }) << ")";
        session_.execute(sql);
      }
    });
    if (refused) {
      return *std::move(refused);
    }
    return Done{};
  });
}

}  // namespace audiogen::store
