#include "common/store/accounts.h"

#include <algorithm>

#include "common/base/ascii.h"
#include "common/domain/shares.h"
#include "common/store/books.h"
#include "common/store/mail_links.h"

namespace audiogen::store {
namespace {

constexpr std::size_t kEmailMax = 254;  // RFC 5321 section 4.5.3.1.3, without its brackets.
constexpr std::size_t kLocalPartMax = 64;
constexpr std::size_t kReferenceMax = 128;

// The address in lower case; nullopt when it does not look like one.
std::optional<std::string> normal_email(std::string_view email) {
  const auto at = email.find('@');
  if (email.size() > kEmailMax || at == std::string_view::npos || at == 0 || at > kLocalPartMax ||
      at + 1 == email.size() || email.find('@', at + 1) != std::string_view::npos ||
      !std::all_of(email.begin(), email.end(), ascii::is_visible)) {
    return std::nullopt;
  }
  return ascii::lower(email);
}

Fault no_such_user(UserId id) {
  return {.code = FaultCode::kNoSuchUser, .about = id.text()};
}

// Whether its owner has ended it, which he does not before this transaction is over. Nullopt: there
// is no such account.
std::optional<bool> has_ended(Session& session, UserId id) {
  Rows rows = session.query(Sql("SELECT deleted_at IS NOT NULL FROM users WHERE id=")
                            << id << " FOR UPDATE");
  return rows.next() ? std::optional(rows.u64(1) != 0) : std::nullopt;
}

Fault account_ended(UserId id) {
  return {.code = FaultCode::kAccountEnded, .about = id.text()};
}

// A grant as it was booked.
struct Booked {
  Uuid id;
  UserId user;
  GrantKind kind;
  Units amount;
};

std::optional<Booked> find_grant(Session& session, std::string_view reference) {
  Sql sql("SELECT id, user_id, kind, amount FROM grants WHERE reference=");
  Rows rows = session.query(sql.bytes(reference));
  if (!rows.next()) {
    return std::nullopt;
  }
  return Booked{.id = rows.uuid(1),
                .user = rows.id<UserId>(2),
                .kind = static_cast<GrantKind>(rows.u32(3)),
                .amount = rows.units(4)};
}

void insert_grant(Session& session, const Booked& grant, std::string_view reference, Instant now) {
  Sql row("INSERT INTO grants (id, reference, user_id, kind, amount, created_at) VALUES (");
  row << grant.id << ",";
  row.bytes(reference) << "," << grant.user << "," << grant.kind << "," << grant.amount << ","
                       << now << ")";
  session.execute(row);
  if (grant.kind == GrantKind::kPurchase) {
    session.execute(Sql("UPDATE users SET purchased=1 WHERE id=") << grant.user);
  }
}

std::optional<Fault> what_is_wrong(Units amount, GrantKind kind, std::string_view reference) {
  if (amount == Units{} || amount > kBalanceMax || amount < Units{} - kBalanceMax) {
    return Fault{.code = FaultCode::kBadAmount};
  }
  if (amount < Units{} && kind != GrantKind::kAdjustment) {
    return Fault{.code = FaultCode::kNotAnAdjustment};
  }
  if (reference.empty() || reference.size() > kReferenceMax ||
      !std::all_of(reference.begin(), reference.end(), ascii::is_visible)) {
    return Fault{.code = FaultCode::kBadReference};
  }
  return std::nullopt;
}

}  // namespace

void insert_user(Session& session, UserId id, std::string_view email) {
  Sql user("INSERT INTO users (id, email, created_at) VALUES (");
  user << id << ",";
  user.utf8(email, kEmailMax) << ",UTC_TIMESTAMP(6))";
  session.execute(user);
  session.execute(Sql("INSERT INTO balances (user_id, available, held, seq, released, parked, "
                      "parked_after, released_max, crowded) VALUES (")
                  << id << ",0,0,0,0,0,0,0,0)");
}

std::optional<UserId> Accounts::id_of_email(std::string_view normal) {
  Sql sql("SELECT id FROM users WHERE email=");
  Rows rows = session_.query(sql.utf8(normal, kEmailMax));
  return rows.next() ? std::optional(rows.id<UserId>(1)) : std::nullopt;
}

Result<User, Fault> Accounts::load(UserId id) {
  Rows rows = session_.query(
      Sql("SELECT u.email, u.plan, u.plan=1 OR u.purchased=1, b.available, b.held, b.seq, "
          "u.created_at FROM users u JOIN balances b ON b.user_id=u.id WHERE u.id=")
      << id);
  if (!rows.next()) {
    return no_such_user(id);
  }
  return User{.id = id,
              .email = rows.text(1),
              .plan = static_cast<Plan>(rows.u32(2)),
              .api_access = rows.u64(3) != 0,
              .balance = {.available = rows.units(4), .held = rows.units(5), .seq = rows.u64(6)},
              .created_at = rows.time(7)};
}

Result<User, Fault> Accounts::create(std::string_view email, Plan plan) {
  const auto address = normal_email(email);
  if (!address) {
    return Fault{.code = FaultCode::kBadEmail, .about = std::string(email)};
  }
  return guarded([&]() -> Result<User, Fault> {
    const UserId id = UserId::make();
    try {
      session_.transact_surely([&](bool again) {
        if (again && locked(Sql("SELECT 1 FROM users WHERE id=") << id)) {
          return;
        }
        insert_user(session_, id, *address);
        if (plan != Plan::kFree) {
          session_.execute(Sql("UPDATE users SET plan=") << plan << " WHERE id=" << id);
        }
        note_done(id.text());
      });
    } catch (const DbError& e) {
      if (e.fault() != DbFault::kDuplicate) {
        throw;
      }
      return Fault{
          .code = FaultCode::kEmailTaken, .about = *address, .user = id_of_email(*address)};
    }
    return load(id);
  });
}

Result<UserId, Fault> Accounts::resolve(std::string_view who) {
  return guarded([&]() -> Result<UserId, Fault> {
    if (const auto id = UserId::parse(who)) {
      const auto user = load(*id);
      return user ? Result<UserId, Fault>(*id) : user.error();
    }
    const auto email = normal_email(who);
    if (!email) {
      return Fault{.code = FaultCode::kBadUserName, .about = std::string(who)};
    }
    const auto id = id_of_email(*email);
    if (!id) {
      return Fault{.code = FaultCode::kNoSuchUser, .about = std::string(who)};
    }
    return *id;
  });
}

Result<User, Fault> Accounts::find(UserId id) {
  return guarded([&] { return load(id); });
}

Result<User, Fault> Accounts::set_plan(UserId id, Plan plan) {
  return guarded([&]() -> Result<User, Fault> {
    std::optional<bool> ended;
    session_.transact_surely([&](bool) {
      SeenWindow seen;
      Books books(session_, seen, {id}, Locking::kWait);
      if (books.find(id) == nullptr) {
        return;
      }
      ended = has_ended(session_, id);
      if (ended == true) {
        return;
      }
      session_.execute(Sql("UPDATE users SET plan=") << plan << " WHERE id=" << id);
      // Also where he has had it: an API that did not know yet may have said otherwise since.
      OpenTasks& open = *books.open_tasks(id);
      if (plan == Plan::kPaid && open.released_max != 0) {
        open.released_max = 0;
        books.touch(id);
        books.write(*books.now());
      }
      note_done();
    });
    return ended == true ? account_ended(id) : load(id);
  });
}

Result<Lane, Fault> Accounts::next_lane(UserId id, std::uint32_t released_max) {
  return guarded([&]() -> Result<Lane, Fault> {
    Rows rows = session_.query(
        Sql("SELECT b.released, b.parked, w.size FROM balances b JOIN release_window w ON w.id=1 "
            "WHERE b.user_id=")
        << id);
    if (!rows.next()) {
      return no_such_user(id);
    }
    OpenTasks open{.released = rows.u32(1), .parked = rows.u32(2), .released_max = released_max};
    return add_task(open, rows.u32(3), 0);
  });
}

Result<User, Fault> Accounts::set_email(UserId id, std::string_view email) {
  const auto address = normal_email(email);
  if (!address) {
    return Fault{.code = FaultCode::kBadEmail, .about = std::string(email)};
  }
  return guarded([&]() -> Result<User, Fault> {
    bool there = false;
    try {
      session_.transact_surely([&](bool) {
        there = locked(Sql("SELECT 1 FROM users WHERE deleted_at IS NULL AND id=") << id);
        if (there) {
          Sql row("UPDATE users SET email=");
          row.utf8(*address, kEmailMax) << " WHERE id=" << id;
          session_.execute(row);
          lock_mail_change(session_, id);
          end_mail_change(session_, id);
          session_.execute(Sql("DELETE FROM login_links WHERE user_id=") << id);
          note_done();
        }
      });
    } catch (const DbError& e) {
      if (e.fault() != DbFault::kDuplicate) {
        throw;
      }
      return Fault{
          .code = FaultCode::kEmailTaken, .about = *address, .user = id_of_email(*address)};
    }
    return there ? load(id) : no_such_user(id);
  });
}

Result<Granted, Fault> Accounts::grant(UserId user,
                                       Units amount,
                                       GrantKind kind,
                                       std::string_view reference) {
  if (auto wrong = what_is_wrong(amount, kind, reference)) {
    return *std::move(wrong);
  }
  return guarded([&]() -> Result<Granted, Fault> {
    const Booked wanted{.id = new_uuid(), .user = user, .kind = kind, .amount = amount};
    std::optional<Fault> refused;
    bool repeated = false;
    const auto body = [&](bool) {
      refused.reset();
      repeated = false;
      SeenWindow seen;
      Books books(session_, seen, {user}, Locking::kWait);
      const Balance* before = books.find(user);
      if (before == nullptr) {
        refused = no_such_user(user);
        return;
      }
      if (const auto booked = find_grant(session_, reference)) {
        repeated = booked->id != wanted.id;
        if (booked->user != user || booked->kind != kind || booked->amount != amount) {
          refused = Fault{.code = FaultCode::kReferenceReused, .about = std::string(reference)};
        } else {
          note_done(repeated ? "booked before, nothing changed" : "");
        }
        return;
      }
      // Nobody could use it.
      if (amount > Units{} && has_ended(session_, user) == true) {
        refused = account_ended(user);
        return;
      }
      const auto entry = audiogen::grant(*before, amount);
      if (!entry) {
        refused = amount < Units{}
                      ? Fault{.code = FaultCode::kWouldOverdraw, .available = before->available}
                      : Fault{.code = FaultCode::kBalanceTooLarge};
        return;
      }
      books.book(user, wanted.id, *entry);
      insert_grant(session_, wanted, reference, *books.now());
      books.write(*books.now());
      note_done();
    };
    try {
      session_.transact_surely(body);
    } catch (const DbError& e) {
      if (e.fault() != DbFault::kDuplicate) {
        throw;
      }
      // Another user's grant has just taken the reference: now it is seen.
      session_.transact_surely(body);
    }
    if (refused) {
      return *std::move(refused);
    }
    auto after = load(user);
    if (!after) {
      return after.error();
    }
    return Granted{.user = *std::move(after), .repeated = repeated};
  });
}

Result<LedgerPage, Fault> Accounts::ledger(UserId user,
                                           std::optional<std::uint64_t> before,
                                           std::size_t limit) {
  return guarded([&]() -> Result<LedgerPage, Fault> {
    Sql sql(
        "SELECT l.seq, l.kind, l.source_id, l.d_available, l.d_held, l.d_system, "
        "l.available_after, l.held_after, l.created_at, g.kind, g.reference FROM ledger l "
        "FORCE INDEX (PRIMARY) LEFT JOIN grants g ON g.id=l.source_id AND l.kind IN (");
    sql << EntryKind::kGrant << "," << EntryKind::kClawback << ") WHERE l.user_id=" << user;
    if (before) {
      sql << " AND l.seq<" << *before;
    }
    Rows rows = session_.query(sql << " ORDER BY l.seq DESC LIMIT " << std::uint64_t{limit + 1});
    LedgerPage out;
    while (rows.next()) {
      if (out.rows.size() == limit) {
        out.has_more = true;
        break;
      }
      LedgerEntry row{.entry = {.kind = static_cast<EntryKind>(rows.u32(2)),
                                .d_available = rows.units(4),
                                .d_held = rows.units(5),
                                .d_system = rows.units(6),
                                .after = {.available = rows.units(7),
                                          .held = rows.units(8),
                                          .seq = rows.u64(1)}},
                      .source = rows.uuid(3),
                      .grant = {},
                      .created_at = rows.time(9)};
      if (!rows.is_null(10)) {
        row.grant = {.kind = static_cast<GrantKind>(rows.u32(10)), .reference = rows.text(11)};
      }
      out.rows.push_back(std::move(row));
    }
    return out;
  });
}

}  // namespace audiogen::store
