#include "common/store/account_store.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/store/books.h"
#include "common/store/task_rows.h"

namespace audiogen::store {
namespace {

constexpr SessionOptions kOperatorPatience{.read_timeout = std::chrono::seconds(60)};
constexpr std::size_t kEmailMax = 254;  // RFC 5321 section 4.5.3.1.3, without its brackets.
constexpr std::size_t kLocalPartMax = 64;
constexpr std::size_t kKeyNameMax = 100;
constexpr std::size_t kReferenceMax = 128;
constexpr int kAccessDenied = 1045;
constexpr int kNoSuchTable = 1146;

constexpr char kOperatorColumns[] =
    "t.user_id, t.epoch, t.attempts, t.worker, t.lease_until, t.wake_at, t.next_run_at, "
    "t.deadline_at, t.output_bytes";
constexpr char kKeyColumns[] = "id, name, prefix, created_at, last_used_at, deleted_at ";

bool is_visible(char c) {
  return c > ' ' && c < 0x7F;
}

// The address in lower case; nullopt when it does not look like one.
std::optional<std::string> normal_email(std::string_view email) {
  const auto at = email.find('@');
  if (email.size() > kEmailMax || at == std::string_view::npos || at == 0 || at > kLocalPartMax ||
      at + 1 == email.size() || email.find('@', at + 1) != std::string_view::npos ||
      !std::all_of(email.begin(), email.end(), is_visible)) {
    return std::nullopt;
  }
  std::string out(email);
  std::transform(out.begin(), out.end(), out.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return out;
}

bool has_control(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
  });
}

std::string describe(const DbError& e) {
  if (e.code() == kAccessDenied) {
    return "the database refused the user or the password of DATABASE_URL";
  }
  if (e.code() == kNoSuchTable) {
    return "the database has no tables yet, or old ones; run audio-api migrate";
  }
  switch (e.fault()) {
    case DbFault::kConflict:
    case DbFault::kBusy:
      return std::string("the database was too busy, nothing was done, try again: ") + e.what();
    case DbFault::kUnavailable:
      return std::string("the database is away: ") + e.what();
    case DbFault::kUnknownOutcome:
      return std::string(
                 "the database went away and it may have been done or not; look before you "
                 "try again: ") +
             e.what();
    case DbFault::kDuplicate:
    case DbFault::kConstraint:
    case DbFault::kBug:
      break;
  }
  return e.what();
}

// The result of `body`, or what the database said, in words.
template <class Body>
auto guarded(const Body& body) -> decltype(body()) {
  try {
    return body();
  } catch (const DbError& e) {
    return Error{describe(e)};
  }
}

std::optional<Instant> maybe_time(const Rows& rows, std::uint32_t column) {
  return rows.is_null(column) ? std::nullopt : std::optional(rows.time(column));
}

std::string maybe_text(const Rows& rows, std::uint32_t column) {
  return rows.is_null(column) ? std::string() : rows.text(column);
}

KeyInfo read_key(const Rows& rows) {
  return {.id = rows.id<KeyId>(1),
          .name = rows.text(2),
          .prefix = rows.text(3),
          .created_at = rows.time(4),
          .last_used_at = maybe_time(rows, 5),
          .deleted_at = maybe_time(rows, 6)};
}

// The columns of kOperatorColumns and kViewColumns.
TaskRow read_task(const Rows& rows) {
  return {.view = read_view(rows, 10),
          .user = rows.id<UserId>(1),
          .epoch = rows.u32(2),
          .attempts = rows.u32(3),
          .worker = rows.is_null(4) ? std::nullopt : std::optional(rows.id<WorkerId>(4)),
          .lease_until = maybe_time(rows, 5),
          .wake_at = maybe_time(rows, 6),
          .next_run_at = rows.time(7),
          .deadline_at = rows.time(8),
          .output_bytes = rows.is_null(9) ? 0 : rows.u64(9)};
}

// Whether the row that `query` selects is there; waits for a COMMIT under way that may bring it.
bool locked(Session& session, Sql& query) {
  return session.query(query << " FOR UPDATE").next();
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

}  // namespace

AccountStore::AccountStore(const DatabaseUrl& url) : url_(url), session_(url, kOperatorPatience) {}

Result<UserId> AccountStore::resolve_user(std::string_view who) {
  Sql sql("SELECT id FROM users WHERE ");
  if (const auto id = UserId::parse(who)) {
    sql << "id=" << *id;
  } else if (const auto email = normal_email(who)) {
    sql << "email=";
    sql.utf8(*email, kEmailMax);
  } else {
    return Error{"--user must be an email address or a user id (usr_...)"};
  }
  Rows rows = session_.query(sql);
  if (!rows.next()) {
    return Error{"--user: there is no user " + std::string(who)};
  }
  return rows.id<UserId>(1);
}

User AccountStore::load_user(UserId id) {
  Rows rows = session_.query(
      Sql("SELECT u.email, u.plan, u.plan=1 OR u.purchased=1, b.available, b.held, b.seq, "
          "u.created_at FROM users u JOIN balances b ON b.user_id=u.id WHERE u.id=")
      << id);
  AG_CHECK(rows.next());
  return {.id = id,
          .email = rows.text(1),
          .plan = static_cast<Plan>(rows.u32(2)),
          .api_access = rows.u64(3) != 0,
          .balance = {.available = rows.units(4), .held = rows.units(5), .seq = rows.u64(6)},
          .created_at = rows.time(7)};
}

Result<User> AccountStore::create_user(std::string_view email, Plan plan) {
  const auto address = normal_email(email);
  if (!address) {
    return Error{
        "--email must be an address like ann@example.com, of at most 254 visible ASCII characters"};
  }
  return guarded([&]() -> Result<User> {
    const UserId id = UserId::make();
    try {
      session_.transact_surely([&](bool again) {
        if (again && locked(session_, Sql("SELECT 1 FROM users WHERE id=") << id)) {
          return;
        }
        Sql user("INSERT INTO users (id, email, plan, purchased, created_at) VALUES (");
        user << id << ",";
        user.utf8(*address, kEmailMax) << "," << plan << ",0,UTC_TIMESTAMP(6))";
        session_.execute(user);
        session_.execute(Sql("INSERT INTO balances (user_id, available, held, seq) VALUES (")
                         << id << ",0,0,0)");
      });
    } catch (const DbError& e) {
      if (e.fault() != DbFault::kDuplicate) {
        throw;
      }
      const auto owner = resolve_user(*address);
      return Error{"--email: " + *address + " has an account already" +
                   (owner ? " (" + owner->text() + ")" : "")};
    }
    return load_user(id);
  });
}

Result<User> AccountStore::find_user(std::string_view who) {
  return guarded([&]() -> Result<User> {
    const auto id = resolve_user(who);
    if (!id) {
      return id.error();
    }
    return load_user(*id);
  });
}

Result<User> AccountStore::set_plan(std::string_view who, Plan plan) {
  return guarded([&]() -> Result<User> {
    const auto id = resolve_user(who);
    if (!id) {
      return id.error();
    }
    session_.transact_surely([&](bool) {
      session_.execute(Sql("UPDATE users SET plan=") << plan << " WHERE id=" << *id);
    });
    return load_user(*id);
  });
}

Result<AccountStore::Granted> AccountStore::grant(std::string_view who,
                                                  Units amount,
                                                  GrantKind kind,
                                                  std::string_view reference) {
  if (amount == Units{} || amount > kBalanceMax || amount < Units{} - kBalanceMax) {
    return Error{"--credits must not be 0, and at most " + format_credits(kBalanceMax)};
  }
  if (amount < Units{} && kind != GrantKind::kAdjustment) {
    return Error{"--credits must be more than 0; only --kind adjustment may take credits back"};
  }
  if (reference.empty() || reference.size() > kReferenceMax ||
      !std::all_of(reference.begin(), reference.end(), is_visible)) {
    return Error{"--reference must be 1 to 128 visible ASCII characters without spaces"};
  }
  return guarded([&]() -> Result<Granted> {
    const auto user = resolve_user(who);
    if (!user) {
      return user.error();
    }
    const Booked wanted{.id = new_uuid(), .user = *user, .kind = kind, .amount = amount};
    std::optional<Error> refused;
    bool repeated = false;
    const auto body = [&](bool) {
      refused.reset();
      repeated = false;
      Books books(session_, {*user}, Locking::kWait);
      const Balance* before = books.find(*user);
      AG_CHECK(before != nullptr);
      if (const auto booked = find_grant(session_, reference)) {
        repeated = booked->id != wanted.id;
        if (booked->user != *user || booked->kind != kind || booked->amount != amount) {
          refused = Error{"--reference " + std::string(reference) +
                          " was booked already with another user, kind or amount"};
        }
        return;
      }
      const auto entry = audiogen::grant(*before, amount);
      if (!entry) {
        refused = Error{amount < Units{}
                            ? "--credits takes more than the " + format_credits(before->available) +
                                  " credits that are available"
                            : "--credits would give the user more than " +
                                  format_credits(kBalanceMax) + " credits"};
        return;
      }
      books.book(*user, wanted.id, *entry);
      insert_grant(session_, wanted, reference, *books.now());
      books.write(*books.now());
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
      return *refused;
    }
    return Granted{.user = load_user(*user), .repeated = repeated};
  });
}

std::optional<KeyInfo> AccountStore::load_key(KeyId id) {
  Rows rows = session_.query(Sql("SELECT ") << kKeyColumns << "FROM api_keys WHERE id=" << id);
  return rows.next() ? std::optional(read_key(rows)) : std::nullopt;
}

Result<KeyInfo> AccountStore::add_key(std::string_view who,
                                      std::string_view name,
                                      const NewApiKey& key) {
  if (name.empty() || name != clip_utf8(name, kKeyNameMax) || has_control(name)) {
    return Error{"--name must be 1 to 100 characters of UTF-8 without control characters"};
  }
  return guarded([&]() -> Result<KeyInfo> {
    const auto user = resolve_user(who);
    if (!user) {
      return user.error();
    }
    const KeyId id = KeyId::make();
    session_.transact_surely([&](bool again) {
      if (again && locked(session_, Sql("SELECT 1 FROM api_keys WHERE id=") << id)) {
        return;
      }
      Sql row("INSERT INTO api_keys (id, user_id, key_hash, prefix, name, created_at) VALUES (");
      row << id << "," << *user << ",";
      row.bytes(key.hash) << ",";
      row.bytes(key.prefix) << ",";
      row.utf8(name, kKeyNameMax) << ",UTC_TIMESTAMP(6))";
      session_.execute(row);
    });
    const auto stored = load_key(id);
    AG_CHECK(stored.has_value());
    return *stored;
  });
}

Result<std::vector<KeyInfo>> AccountStore::list_keys(std::string_view who) {
  return guarded([&]() -> Result<std::vector<KeyInfo>> {
    const auto user = resolve_user(who);
    if (!user) {
      return user.error();
    }
    Rows rows = session_.query(
        Sql("SELECT ") << kKeyColumns << "FROM api_keys WHERE user_id=" << *user << " ORDER BY id");
    std::vector<KeyInfo> out;
    while (rows.next()) {
      out.push_back(read_key(rows));
    }
    return out;
  });
}

Result<AccountStore::Deleted> AccountStore::delete_key(KeyId id) {
  return guarded([&]() -> Result<Deleted> {
    bool repeated = false;
    session_.transact_surely([&](bool again) {
      const std::uint64_t changed =
          session_.execute(Sql("UPDATE api_keys SET deleted_at=UTC_TIMESTAMP(6) WHERE id=")
                           << id << " AND deleted_at IS NULL");
      repeated = changed == 0 && !again;
    });
    const auto key = load_key(id);
    if (!key) {
      return Error{"--key: there is no key " + id.text()};
    }
    return Deleted{.key = *key, .repeated = repeated};
  });
}

Result<std::vector<TaskRow>> AccountStore::list_tasks(std::string_view who,
                                                      std::optional<TaskState> state,
                                                      std::size_t limit) {
  return guarded([&]() -> Result<std::vector<TaskRow>> {
    Sql sql("SELECT STRAIGHT_JOIN ");
    sql << kOperatorColumns << ", " << kViewColumns;
    if (!who.empty()) {
      const auto user = resolve_user(who);
      if (!user) {
        return user.error();
      }
      // The ledger is the index of a user's tasks: each has one hold there.
      sql << " FROM ledger l JOIN tasks t ON t.id=l.source_id WHERE l.user_id=" << *user
          << " AND l.kind=1";
    } else if (state && !is_final(*state)) {
      // Open tasks are few among millions of final ones, and exactly those with a wake_at.
      sql << " FROM tasks t FORCE INDEX (k_wake) WHERE t.wake_at IS NOT NULL";
    } else {
      sql << " FROM tasks t WHERE TRUE";
    }
    if (state) {
      sql << " AND t.state=" << *state;
    }
    sql << " ORDER BY ";
    if (who.empty()) {
      sql << "t.id";
    } else {
      sql << "l.seq";
    }
    sql << " DESC LIMIT " << static_cast<std::uint64_t>(limit);
    Rows rows = session_.query(sql);
    std::vector<TaskRow> out;
    while (rows.next()) {
      out.push_back(read_task(rows));
    }
    return out;
  });
}

Result<TaskDetail> AccountStore::show_task(TaskId id) {
  return guarded([&]() -> Result<TaskDetail> {
    Rows rows = session_.query(Sql("SELECT ") << kOperatorColumns << ", " << kViewColumns
                                              << " FROM tasks t WHERE t.id=" << id);
    if (!rows.next()) {
      return Error{"there is no task " + id.text()};
    }
    TaskDetail out;
    out.task = read_task(rows);
    rows = session_.query(Sql("SELECT n, epoch, provider, state, detail, started_at, ended_at "
                              "FROM attempts WHERE task_id=")
                          << id << " ORDER BY n");
    while (rows.next()) {
      out.attempts.push_back({.n = rows.u32(1),
                              .epoch = rows.u32(2),
                              .provider = rows.text(3),
                              .state = static_cast<std::uint8_t>(rows.u32(4)),
                              .detail = maybe_text(rows, 5),
                              .started_at = rows.time(6),
                              .ended_at = maybe_time(rows, 7)});
    }
    rows = session_.query(Sql("SELECT seq, kind, d_available, d_held, d_system, available_after, "
                              "held_after, created_at FROM ledger WHERE source_id=")
                          << id << " AND kind IN (1, 2) ORDER BY kind");
    while (rows.next()) {
      out.ledger.push_back(
          {.seq = rows.u64(1),
           .kind = static_cast<EntryKind>(rows.u32(2)),
           .d_available = rows.units(3),
           .d_held = rows.units(4),
           .d_system = rows.units(5),
           .after = {.available = rows.units(6), .held = rows.units(7), .seq = rows.u64(1)},
           .created_at = rows.time(8)});
    }
    return out;
  });
}

Result<QueueView> AccountStore::queue() {
  return guarded([&]() -> Result<QueueView> {
    // Only open tasks have a wake_at: the index holds just those, however many final ones there
    // are.
    Rows rows = session_.query(
        Sql("SELECT COUNT(CASE WHEN state=1 AND next_run_at<=UTC_TIMESTAMP(6) THEN 1 END), "
            "COUNT(CASE WHEN state=2 THEN 1 END), "
            "COUNT(CASE WHEN state=1 AND next_run_at>UTC_TIMESTAMP(6) THEN 1 END), "
            "COALESCE(TIMESTAMPDIFF(SECOND, MIN(CASE WHEN state=1 AND "
            "next_run_at<=UTC_TIMESTAMP(6) THEN created_at END), UTC_TIMESTAMP(6)), 0) "
            "FROM tasks FORCE INDEX (k_wake) WHERE wake_at IS NOT NULL"));
    AG_CHECK(rows.next());
    QueueView out{
        .ready = rows.u64(1),
        .in_flight = rows.u64(2),
        .waiting_retry = rows.u64(3),
        .oldest_seconds = static_cast<std::uint64_t>(std::max<std::int64_t>(rows.i64(4), 0)),
        .workers = {}};
    rows = session_.query(
        Sql("SELECT id, host, pid, in_flight, status, started_at, seen_at, "
            "seen_at > UTC_TIMESTAMP(6) - INTERVAL 30 SECOND FROM workers ORDER BY id"));
    while (rows.next()) {
      out.workers.push_back({.id = rows.id<WorkerId>(1),
                             .host = rows.text(2),
                             .pid = rows.u32(3),
                             .in_flight = rows.u32(4),
                             .status_json = rows.text(5),
                             .started_at = rows.time(6),
                             .seen_at = rows.time(7),
                             .alive = rows.u64(8) != 0});
    }
    return out;
  });
}

}  // namespace audiogen::store
