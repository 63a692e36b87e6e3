#include "common/store/audit.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/ids.h"
#include "common/store/audit_rules.h"
#include "common/store/session.h"

namespace audiogen::store {
namespace {

using namespace audits;

constexpr SessionOptions kPatient{.read_timeout = std::chrono::hours(1),
                                  .statement_max = std::chrono::seconds(0),
                                  .idle_in_transaction_max = std::chrono::seconds(60),
                                  .reconnects = false};
constexpr std::size_t kUsersMost = 400;  // Of a part: each is a range of a statement.
constexpr std::chrono::seconds kNoteEvery{1};

// "COUNT(IF(…,1,NULL)), …"
Sql& write_counts(Sql& sql, std::span<const Condition> conditions) {
  return list(sql, conditions, [&](const Condition& condition) {
    sql.append(Sql::trusted("COUNT(IF(" + std::string(condition.bad) + ",1,NULL))"));
  });
}

// --- by user

// What usage has of an hour, and what a key has spent in a day.
using UsageRow = std::array<std::int64_t, 6>;
using UsageRows = std::map<std::pair<std::string, Uuid>, UsageRow>;
using SpendRows = std::map<std::pair<Uuid, std::string>, std::int64_t>;

// A user while his ledger is read, from the row behind `from` on: what comes before was added up
// by an audit of another day, or by a part before.
struct Walk {
  UserId user;
  // As the tables have it, in the snapshot of the part.
  bool owned = false;  // He is in users or balances; else usage has a mark for him, and no more.
  bool there = false, has_balance = false, ended = false, wiped = false;
  std::int64_t available = 0, held = 0;
  std::uint64_t seq = 0;  // Of his balance.
  std::optional<std::uint64_t> usage_mark;
  std::optional<Instant> since;  // Hours and days before it were compared already.
  // So far.
  std::uint64_t from = 0, count = 0, top = 0;
  std::int64_t sum_available = 0, sum_held = 0;
  // Of these, the rows of days that are long over, as long as nothing newer has come between.
  std::uint64_t old_from = 0, old_to = 0;
  std::int64_t old_available = 0, old_held = 0;
  std::uint64_t rolled_to = 0;  // Usage, and each of his limited keys, have come at least so far.
  UsageRows usage;
  SpendRows spent;
  std::map<Uuid, std::uint64_t> limits;  // Where the count of each limited key begins.
  std::optional<std::uint64_t> to;       // The part ends there; nullopt: with his last row.
  bool clean = true;
};

// "1,2,3"; empty for what is none.
std::vector<std::uint64_t> numbers_in(std::string_view text) {
  std::vector<std::uint64_t> out;
  const char* next = text.data();
  const char* const end = next + text.size();
  while (next < end) {
    const auto [after, error] = std::from_chars(next, end, out.emplace_back());
    if (error != std::errc() || (after < end && *after != ',')) {
      return {};
    }
    next = after < end ? after + 1 : end;
  }
  return out;
}

class Audit {
 public:
  Audit(const DatabaseUrl& url, const AuditOptions& options)
      : options_(options), session_(url, kPatient) {}

  std::vector<Check> run() {
    session_.execute(Sql("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ"));
    begin();
    for (; stage_ < kDone; next_stage()) {
      switch (stage_) {
        case kNowStage:
          part([&] { count_now(); });
          break;
        case kUsers:
          while (part_of_users()) {
          }
          break;
        case kTasks:
          while (part_of_tasks()) {
          }
          break;
        case kGrants:
          while (part_of_grants()) {
          }
          break;
        case kKeys:
          while (part_of_keys()) {
          }
          break;
        default:
          break;
      }
    }
    if (remembers_) {
      session_.execute(Sql("DELETE FROM audit_runs WHERE kind=") << kind());
    }
    std::vector<Check> out;
    for (std::size_t i = 0; i < kRuleCount; ++i) {
      out.push_back({.name = kRules[i],
                     .kind = kRules[i][0] == 'I' ? Check::Kind::kInvariant : Check::Kind::kLiveness,
                     .bad = bad_[i]});
    }
    return out;
  }

 private:
  enum Stage : std::uint8_t { kNowStage, kUsers, kTasks, kGrants, kKeys, kDone };

  std::uint32_t kind() const { return options_.recent ? 1 : 2; }

  // In one consistent snapshot. On another connection there is neither that nor @now, and a rule
  // that compares with NULL finds nothing wrong with anything: the session has only one.
  template <class Read>
  void part(const Read& read) {
    session_.execute(Sql("START TRANSACTION WITH CONSISTENT SNAPSHOT"));
    session_.execute(Sql("SET @now=UTC_TIMESTAMP(6)"));
    read();
    session_.execute(Sql("COMMIT"));
  }

  // Where this one begins, and what counts as long over.
  void begin() {
    Rows today = session_.query(Sql("SELECT CAST(UTC_DATE() - INTERVAL 1 DAY AS DATETIME(6))"));
    AG_CHECK(today.next());
    over_before_ = today.time(1);
    if (!options_.recent && !options_.resumes) {
      return;
    }
    // Two at once would move each other's marks.
    Rows turn =
        session_.query(Sql("SELECT COALESCE(GET_LOCK(").append(lock_name("audit")) << ",0),0)");
    AG_CHECK(turn.next());
    const bool alone = turn.i64(1) == 1;
    moves_marks_ = alone && options_.recent;
    remembers_ = alone && options_.resumes;
    if (!remembers_) {
      return;
    }
    Rows before =
        session_.query(Sql("SELECT stage, at, clean, bad, over_before FROM audit_runs "
                           "WHERE touched_at>UTC_TIMESTAMP(6) - INTERVAL 1 HOUR AND kind=")
                       << kind());
    if (!before.next()) {
      return;
    }
    // Of another release, with other rules, it is of no use.
    const std::string bad = before.text(4);
    const auto numbers = numbers_in(bad);
    if (numbers.size() != bad_.size()) {
      return;
    }
    std::copy(numbers.begin(), numbers.end(), bad_.begin());
    stage_ = static_cast<Stage>(before.u32(1));
    at_ = before.text(2);
    stage_clean_ = before.u32(3) != 0;
    over_before_ = before.time(5);
  }

  // Leaves word of how far it is, now and then.
  void remember(bool now = false) {
    if (!remembers_ || (!now && std::chrono::steady_clock::now() < note_at_)) {
      return;
    }
    note_at_ = std::chrono::steady_clock::now() + kNoteEvery;
    std::string bad;
    for (const std::uint64_t count : bad_) {
      bad += (bad.empty() ? "" : ",") + std::to_string(count);
    }
    Sql sql(
        "REPLACE INTO audit_runs (kind, stage, at, clean, bad, over_before, touched_at) VALUES (");
    sql << kind() << "," << std::uint32_t{stage_} << ",";
    sql.bytes(at_) << "," << (stage_clean_ ? 1U : 0U) << ",";
    sql.bytes(bad) << "," << over_before_ << ",UTC_TIMESTAMP(6))";
    session_.execute(sql);
  }

  void next_stage() {
    stage_ = static_cast<Stage>(stage_ + 1);
    at_.clear();
    stage_clean_ = true;
    remember(true);
  }

  // True when nothing of it was bad.
  bool add(const Counts& counts) {
    bool clean = true;
    for (std::size_t i = 0; i < kRuleCount; ++i) {
      bad_[i] += counts[i];
      clean = clean && counts[i] == 0;
    }
    return clean;
  }

  static void take(const Rows& rows, std::span<const Condition> conditions, Counts& counts) {
    for (std::uint32_t i = 0; i < conditions.size(); ++i) {
      counts[conditions[i].rule] += rows.u64(i + 1);
    }
  }

  void count_now() {
    Counts counts{};
    for (const NowRule& now : kNow) {
      Rows rows = session_.query(Sql::trusted(now.query));
      AG_CHECK(rows.next());
      counts[now.rules[0]] += rows.u64(1);
      if (now.rules[1] != now.rules[0]) {
        counts[now.rules[1]] += rows.u64(2);
      }
    }
    add(counts);
  }

  // --- a table in the order of an index

  // Where the rows begin that this audit has to read: behind `at_`, else behind the mark.
  const std::string& position() {
    if (at_.empty() && options_.recent) {
      Rows mark = session_.query(Sql("SELECT done_to FROM audit_progress WHERE stage=")
                                 << std::uint32_t{stage_});
      at_ = mark.next() ? mark.text(1) : std::string();
    }
    return at_;
  }

  // All up to `to` was read. `over`: it cannot change any more.
  void came_to(std::string to, bool clean, bool over) {
    at_ = std::move(to);
    stage_clean_ = stage_clean_ && clean && over;
    if (moves_marks_ && stage_clean_) {
      Sql sql("INSERT INTO audit_progress (stage, done_to) VALUES (");
      sql << std::uint32_t{stage_} << ",";
      sql.bytes(at_) << ") ON DUPLICATE KEY UPDATE done_to=VALUES(done_to)";
      session_.execute(sql);
    }
    remember();
  }

  static Uuid id_of(const std::string& bytes) {
    Uuid out;
    AG_CHECK(bytes.empty() || bytes.size() == out.bytes.size());
    std::copy(bytes.begin(), bytes.end(), out.bytes.begin());
    return out;
  }
  static std::string bytes_of(const Uuid& id) { return {id.bytes.begin(), id.bytes.end()}; }

  // Of the next rows of a table whose key is an id: the last one, and whether all of them are long
  // over. Nullopt: there are none.
  struct Slice {
    Uuid after, to;
    bool over = false;
    bool last = false;
  };
  template <std::size_t N>
  std::optional<Slice> next_slice(const char (&rows_of)[N]) {
    const Uuid after = id_of(position());
    Sql sql("SELECT MAX(id), COUNT(*), COALESCE(MAX(is_open),0), COALESCE(MAX(created_at)<");
    sql << over_before_ << ",1) FROM (SELECT id, created_at, ";
    sql << rows_of << " FORCE INDEX (PRIMARY) WHERE id>" << after << " ORDER BY id LIMIT "
        << std::uint64_t{options_.part} << ") s";
    Rows rows = session_.query(sql);
    AG_CHECK(rows.next());
    if (rows.u64(2) == 0) {
      return std::nullopt;
    }
    return Slice{.after = after,
                 .to = rows.uuid(1),
                 .over = rows.u64(3) == 0 && rows.u64(4) != 0,
                 .last = rows.u64(2) < options_.part};
  }

  bool part_of_tasks() {
    std::optional<Slice> slice;
    Counts counts{};
    part([&] {
      slice = next_slice("state<=2 AS is_open FROM tasks");
      if (!slice) {
        return;
      }
      Sql sql("SELECT ");
      write_counts(sql, kOfTask)
          << " FROM tasks t FORCE INDEX (PRIMARY) LEFT JOIN ledger h FORCE INDEX (u_source) ON "
             "h.source_id=t.id AND h.kind=1 LEFT JOIN ledger r FORCE INDEX (u_source) ON "
             "r.source_id=t.id AND r.kind=2 LEFT JOIN balances b ON b.user_id=t.user_id LEFT JOIN "
             "(SELECT task_id, COUNT(*) AS n, MAX(n) AS top, SUM(state=1) AS going_on FROM "
             "past_attempts FORCE INDEX (PRIMARY) WHERE task_id>"
          << slice->after << " AND task_id<=" << slice->to
          << " GROUP BY task_id) a ON a.task_id=t.id WHERE t.id>" << slice->after
          << " AND t.id<=" << slice->to;
      Rows rows = session_.query(sql);
      AG_CHECK(rows.next());
      take(rows, kOfTask, counts);
    });
    if (!slice) {
      return false;
    }
    came_to(bytes_of(slice->to), add(counts), slice->over);
    return !slice->last;
  }

  bool part_of_grants() {
    std::optional<Slice> slice;
    Counts counts{};
    part([&] {
      slice = next_slice("0 AS is_open FROM grants");
      if (!slice) {
        return;
      }
      Sql sql("SELECT ");
      write_counts(sql, kOfGrant)
          << " FROM grants g FORCE INDEX (PRIMARY) LEFT JOIN ledger l FORCE INDEX (u_source) ON "
             "l.source_id=g.id AND l.kind=(CASE WHEN g.amount>0 THEN 3 ELSE 4 END) LEFT JOIN users "
             "u ON u.id=g.user_id WHERE g.id>"
          << slice->after << " AND g.id<=" << slice->to;
      Rows rows = session_.query(sql);
      AG_CHECK(rows.next());
      take(rows, kOfGrant, counts);
    });
    if (!slice) {
      return false;
    }
    came_to(bytes_of(slice->to), add(counts), slice->over);
    return !slice->last;
  }

  // By their age. Those of one transaction are of one age, so a part ends between two ages.
  bool part_of_keys() {
    std::optional<Instant> to;
    bool last = false;
    Counts counts{};
    part([&] {
      const auto after = parse_db_time(position().empty() ? "2000-01-01 00:00:00" : at_);
      AG_CHECK(after);
      Sql next(
          "SELECT MAX(created_at), COUNT(*) FROM (SELECT created_at FROM idempotency FORCE "
          "INDEX (k_age) WHERE created_at>");
      Rows end = session_.query(next << *after << " ORDER BY created_at LIMIT "
                                     << std::uint64_t{options_.part} << ") s");
      AG_CHECK(end.next());
      if (end.u64(2) == 0) {
        return;
      }
      to = end.time(1);
      last = end.u64(2) < options_.part;
      Sql sql("SELECT ");
      write_counts(sql, kOfKey) << " FROM idempotency i FORCE INDEX (k_age) LEFT JOIN tasks t ON "
                                   "t.id=i.task_id WHERE i.created_at>"
                                << *after << " AND i.created_at<=" << *to;
      Rows rows = session_.query(sql);
      AG_CHECK(rows.next());
      take(rows, kOfKey, counts);
    });
    if (!to) {
      return false;
    }
    came_to(format_db_time(*to), add(counts), *to < over_before_);
    return !last;
  }

  // --- by user: balances, the chain of the ledger, usage, what keys have spent, ended accounts

  // The users of the next part: as many as have `part` new rows together, or one of whom only a
  // part of the rows is read.
  bool part_of_users() {
    std::vector<Walk> walks;
    Counts counts{};
    Uuid to;
    bool last = false;
    part([&] {
      last = next_users(walks);
      to = walks.empty() ? Uuid() : walks.back().user.uuid;
      const bool cut = !walks.empty() && walks.back().to.has_value();
      if (!walks.empty()) {
        read_chains(walks, counts);
        read_entries(walks, counts);
        read_usage(walks);
        read_spending(walks);
        count_ended(walks, counts);
        if (!cut) {
          compare_usage(walks, counts);
          compare_spending(walks, counts);
          for (Walk& walk : walks) {
            judge(walk, counts);
          }
        }
      }
      if (!cut) {
        count_accounts(last ? std::nullopt : std::optional(to), counts);
        count_strays(walks, last, counts);
      }
    });
    const bool clean = add(counts);
    if (!walks.empty() && walks.back().to) {
      Walk& walk = walks.front();
      walk.from = *walk.to;
      walk.clean = walk.clean && clean;
      walk_ = std::move(walk);
      return true;
    }
    if (clean) {
      move_marks(walks);
    }
    walk_.reset();
    if (!walks.empty()) {
      at_ = bytes_of(to);
    }
    remember();
    return !last;
  }

  // True when there are no further ones.
  bool next_users(std::vector<Walk>& walks) {
    const Uuid after = id_of(at_);
    const auto some = [&](Sql& sql, const char* what, const char* id) {
      const std::string column(id);
      sql.append(Sql::trusted(std::string("(SELECT ") + what + " WHERE " + column + ">")) << after;
      sql.append(Sql::trusted(" ORDER BY " + column + " LIMIT "))
          << std::uint64_t{kUsersMost} << ")";
    };
    Sql sql(
        "SELECT e.id, e.owned, u.id IS NOT NULL, u.deleted_at, d.user_id IS NULL, "
        "b.user_id IS NOT NULL, b.available, b.held, b.seq, m.seq, k.seq, k.available, k.held, "
        "k.compared_to FROM (SELECT id, MAX(owned) AS owned FROM (");
    some(sql, "id, 1 AS owned FROM users", "id");
    sql << " UNION ALL ";
    some(sql, "user_id, 1 FROM balances", "user_id");
    sql << " UNION ALL ";
    some(sql, "user_id, 0 FROM usage_marks", "user_id");
    sql << ") a GROUP BY id ORDER BY id LIMIT " << std::uint64_t{kUsersMost}
        << ") e LEFT JOIN users u ON u.id=e.id LEFT JOIN balances b ON b.user_id=e.id LEFT JOIN "
           "usage_marks m ON m.user_id=e.id LEFT JOIN account_deletions d ON d.user_id=e.id LEFT "
           "JOIN audit_marks k ON k.user_id=e.id ORDER BY e.id";
    Rows rows = session_.query(sql);
    std::uint64_t count = 0, seen = 0;
    bool cut = false;
    while (rows.next()) {
      ++seen;
      if (cut) {
        continue;
      }
      Walk walk = read_walk(rows);
      const std::uint64_t more = walk.seq > walk.from ? walk.seq - walk.from : 0;
      if (!walks.empty() && count + more > options_.part) {
        cut = true;
        continue;
      }
      count += more;
      walks.push_back(std::move(walk));
    }
    read_limits(walks);
    if (walks.size() == 1 && count > options_.part) {
      // As far as usage has come: what it has taken in is compared as a whole, at the end. If that
      // is nowhere, all of it is one part.
      Walk& walk = walks.front();
      const std::uint64_t to = std::min(walk.from + options_.part, walk.rolled_to);
      if (to > walk.from) {
        walk.to = to;
      }
    }
    return !cut && seen < kUsersMost && !(walks.size() == 1 && walks.front().to);
  }

  Walk read_walk(const Rows& rows) {
    const UserId user = rows.id<UserId>(1);
    Walk walk;
    if (walk_ && walk_->user == user) {
      walk = *walk_;
    }
    walk.to.reset();
    walk.user = user;
    walk.owned = rows.u64(2) != 0;
    walk.there = rows.u64(3) != 0;
    walk.ended = !rows.is_null(4);
    walk.wiped = rows.u64(5) != 0;
    walk.has_balance = rows.u64(6) != 0;
    if (walk.has_balance) {
      walk.available = rows.i64(7);
      walk.held = rows.i64(8);
      walk.seq = rows.u64(9);
    }
    walk.usage_mark = rows.is_null(10) ? std::nullopt : std::optional(rows.u64(10));
    walk.rolled_to = walk.usage_mark.value_or(0);
    // Of an account that has ended since, all is to be wiped, so all is read.
    const bool marked =
        options_.recent && !rows.is_null(11) && !(walk.ended && rows.time(4) >= rows.time(14));
    if (marked && !(walk_ && walk_->user == user)) {
      walk.from = walk.count = walk.old_from = walk.old_to = rows.u64(11);
      walk.sum_available = walk.old_available = rows.i64(12);
      walk.sum_held = walk.old_held = rows.i64(13);
      walk.since = rows.time(14);
    }
    return walk;
  }

  // The limited keys of these users.
  void read_limits(std::vector<Walk>& walks) {
    Sql sql(
        "SELECT user_id, key_id, after_seq, seq FROM spend_marks FORCE INDEX (k_user) WHERE "
        "user_id IN (x''");
    for (const Walk& walk : walks) {
      sql << "," << walk.user;
    }
    std::map<UserId, std::map<Uuid, std::uint64_t>> found;
    Rows rows = session_.query(sql << ")");
    while (rows.next()) {
      found[rows.id<UserId>(1)][rows.uuid(2)] = rows.u64(3);
      Walk& walk = walk_of(walks, rows.id<UserId>(1));
      walk.rolled_to = std::min(walk.rolled_to, rows.u64(4));
    }
    for (Walk& walk : walks) {
      auto& limits = found[walk.user];
      if (walk_ && walk_->user == walk.user && walk_->limits != limits) {
        // A limit was set or taken meanwhile: what was added up is not what counts now.
        limits.clear();
        walk.clean = false;
      }
      walk.limits = std::move(limits);
    }
  }

  static Walk& walk_of(std::vector<Walk>& walks, UserId user) {
    const auto found =
        std::lower_bound(walks.begin(), walks.end(), user, [](const Walk& walk, UserId id) {
          return walk.user < id;
        });
    AG_CHECK(found != walks.end() && found->user == user);
    return *found;
  }

  // "((l.user_id=… AND l.seq>… …) OR …)", with the row before the first one where `seed`, and
  // nothing from before `since` where that column is named.
  static Sql& write_range(Sql& sql,
                          std::span<const Walk> walks,
                          bool seed,
                          const char* since_column = nullptr) {
    sql << "(";
    bool first = true;
    for (const Walk& walk : walks) {
      sql.append(first ? Sql() : Sql(" OR ")) << "(l.user_id=" << walk.user << " AND l.seq";
      sql.append(seed ? Sql(">=") : Sql(">")) << walk.from;
      if (walk.to) {
        sql << " AND l.seq<=" << *walk.to;
      }
      if (since_column != nullptr && walk.since) {
        sql.append(Sql::trusted(std::string(" AND ") + since_column + ">=")) << *walk.since;
      }
      sql << ")";
      first = false;
    }
    return sql << ")";
  }

  // I4, and the sums for I1 and the marks.
  void read_chains(std::vector<Walk>& walks, Counts& counts) {
    Sql sql(
        "SELECT user_id, COUNT(*), MIN(seq), MAX(seq), "
        "CAST(SUM(IF(ps IS NULL,0,d_available)) AS SIGNED), "
        "CAST(SUM(IF(ps IS NULL,0,d_held)) AS SIGNED), "
        "COUNT(IF(ps IS NOT NULL AND (available_after<>pa+d_available OR held_after<>ph+d_held OR "
        "seq<>ps+1),1,NULL)), "
        "MAX(IF(ps IS NULL,d_available,NULL)), MAX(IF(ps IS NULL,d_held,NULL)), "
        "MAX(IF(ps IS NULL,available_after<>d_available OR held_after<>d_held OR seq<>1,NULL)), "
        "CAST(SUM(IF(ps IS NULL,0,is_old)) AS SIGNED), MAX(IF(is_old,seq,NULL)), "
        "CAST(SUM(IF(ps IS NULL OR NOT is_old,0,d_available)) AS SIGNED), "
        "CAST(SUM(IF(ps IS NULL OR NOT is_old,0,d_held)) AS SIGNED), MAX(IF(ps IS "
        "NULL,is_old,NULL)) "
        "FROM (SELECT l.user_id, l.seq, l.d_available, l.d_held, l.available_after, l.held_after, "
        "l.created_at<");
    sql << over_before_
        << " AS is_old, LAG(l.available_after) OVER w AS pa, LAG(l.held_after) OVER w AS ph, "
           "LAG(l.seq) OVER w AS ps FROM ledger l FORCE INDEX (PRIMARY) WHERE ";
    write_range(sql, walks, true)
        << " WINDOW w AS (PARTITION BY l.user_id ORDER BY l.seq)) x GROUP BY user_id";
    Rows rows = session_.query(sql);
    while (rows.next()) {
      Walk& walk = walk_of(walks, rows.id<UserId>(1));
      // The first row is the one before, or of nobody's before.
      const bool seeded = walk.from != 0;
      const bool first_is_right = seeded ? rows.u64(3) == walk.from : rows.u64(10) == 0;
      const std::uint64_t broken = rows.u64(7) + (first_is_right ? 0 : 1);
      counts[I4] += broken;
      const bool counts_first = !seeded || rows.u64(3) != walk.from;
      const std::uint64_t before = walk.from;
      std::uint64_t old = rows.u64(11);
      std::int64_t old_available = rows.i64(13), old_held = rows.i64(14);
      walk.top = rows.u64(4);
      walk.count += rows.u64(2) - (counts_first ? 0 : 1);
      walk.sum_available += rows.i64(5) + (counts_first ? rows.i64(8) : 0);
      walk.sum_held += rows.i64(6) + (counts_first ? rows.i64(9) : 0);
      if (counts_first && rows.u64(15) != 0) {
        ++old;
        old_available += rows.i64(8);
        old_held += rows.i64(9);
      }
      if (old > 0 && walk.old_to == before && rows.u64(12) - before == old) {
        walk.old_to = rows.u64(12);
        walk.old_available += old_available;
        walk.old_held += old_held;
      }
    }
  }

  // I2, I3, I9.
  void read_entries(const std::vector<Walk>& walks, Counts& counts) {
    Sql sql("SELECT ");
    write_counts(sql, kOfEntry)
        << " FROM ledger l FORCE INDEX (PRIMARY) LEFT JOIN tasks t ON l.kind<=2 AND "
           "t.id=l.source_id LEFT JOIN grants g ON l.kind>=3 AND g.id=l.source_id WHERE ";
    Rows rows = session_.query(write_range(sql, walks, false));
    AG_CHECK(rows.next());
    take(rows, kOfEntry, counts);
  }

  // Of the ledger's rows up to each user's mark, by his hours and keys; which voice it was, only
  // the request says.
  void read_usage(std::vector<Walk>& walks) {
    Sql sql(
        "SELECT l.user_id, DATE_FORMAT(l.created_at,'%Y-%m-%d %H:00:00') AS hour, "
        "COALESCE(t.key_id, REPEAT(CHAR(0), 16)) AS asked_by, CAST(SUM(l.kind=1) AS SIGNED), "
        "CAST(SUM(l.kind=2 AND COALESCE(t.state,0)=3) AS SIGNED), "
        "CAST(SUM(l.kind=2 AND COALESCE(t.state,0)=4) AS SIGNED), "
        "CAST(SUM(l.kind=2 AND COALESCE(t.state,0)=5) AS SIGNED), "
        "CAST(SUM(IF(l.kind=2,COALESCE(CAST(t.duration_ms AS SIGNED),0),0)) AS SIGNED), "
        "CAST(SUM(IF(l.kind=2,l.d_system,0)) AS SIGNED) FROM ledger l FORCE INDEX (PRIMARY) JOIN "
        "usage_marks m ON m.user_id=l.user_id LEFT JOIN tasks t ON t.id=l.source_id WHERE ");
    write_range(sql, walks, false, "l.created_at")
        << " AND l.kind<=2 AND l.seq<=m.seq GROUP BY l.user_id, hour, asked_by";
    add_usage(session_.query(sql), walks, -1);
  }

  static void add_usage(Rows rows, std::vector<Walk>& walks, std::int64_t sign) {
    while (rows.next()) {
      UsageRow& row = walk_of(walks, rows.id<UserId>(1)).usage[{rows.text(2), rows.uuid(3)}];
      for (std::uint32_t i = 0; i < row.size(); ++i) {
        row[i] += sign * rows.i64(i + 4);
      }
    }
  }

  // I19: nothing is left of both together.
  void compare_usage(std::vector<Walk>& walks, Counts& counts) {
    Sql sql(
        "SELECT user_id, DATE_FORMAT(starts_at,'%Y-%m-%d %H:%i:%s') AS hour, key_id, "
        "CAST(SUM(generations) AS SIGNED), CAST(SUM(succeeded) AS SIGNED), CAST(SUM(failed) AS "
        "SIGNED), CAST(SUM(canceled) AS SIGNED), CAST(SUM(audio_ms) AS SIGNED), CAST(SUM(charged) "
        "AS SIGNED) FROM usage_hours FORCE INDEX (PRIMARY) WHERE ");
    bool first = true;
    for (const Walk& walk : walks) {
      sql.append(first ? Sql() : Sql(" OR ")) << "(user_id=" << walk.user;
      if (walk.since) {
        sql << " AND starts_at>=" << *walk.since;
      }
      sql << ")";
      first = false;
    }
    add_usage(session_.query(sql << " GROUP BY user_id, hour, key_id"), walks, 1);
    for (const Walk& walk : walks) {
      const bool ahead = walk.usage_mark && (!walk.has_balance || *walk.usage_mark > walk.seq);
      counts[I19] += ahead ? 1U : 0U;
      for (const auto& [key, row] : walk.usage) {
        counts[I19] += row == UsageRow{} ? 0U : 1U;
      }
    }
  }

  // Of the ledger's rows between the beginning of each key's count and its mark; what is behind the
  // mark is read from the ledger each time. A key that was deleted counts no more.
  void read_spending(std::vector<Walk>& walks) {
    if (no_limits(walks)) {
      return;
    }
    Sql sql(
        "SELECT l.user_id, m.key_id, DATE_FORMAT(t.created_at,'%Y-%m-%d') AS day, "
        "CAST(SUM(l.d_available) AS SIGNED) FROM ledger l FORCE INDEX (PRIMARY) JOIN tasks t ON "
        "t.id=l.source_id JOIN spend_marks m ON m.key_id=t.key_id AND m.user_id=l.user_id AND "
        "l.seq<=m.seq AND l.seq>m.after_seq JOIN ledger h ON h.source_id=l.source_id AND h.kind=1 "
        "AND h.seq>m.after_seq WHERE ");
    write_range(sql, walks, false, "t.created_at")
        << " AND l.kind<=2 GROUP BY l.user_id, m.key_id, day";
    add_spending(session_.query(sql), walks);
  }

  static bool no_limits(const std::vector<Walk>& walks) {
    return std::all_of(
        walks.begin(), walks.end(), [](const Walk& walk) { return walk.limits.empty(); });
  }

  static void add_spending(Rows rows, std::vector<Walk>& walks) {
    while (rows.next()) {
      walk_of(walks, rows.id<UserId>(1)).spent[{rows.uuid(2), rows.text(3)}] += rows.i64(4);
    }
  }

  // I20: nothing is left of both together.
  void compare_spending(std::vector<Walk>& walks, Counts& counts) {
    if (no_limits(walks)) {
      return;
    }
    Sql sql(
        "SELECT m.user_id, s.key_id, DATE_FORMAT(s.day,'%Y-%m-%d'), s.spent FROM spend_marks m "
        "FORCE INDEX (k_user) JOIN spend_days s ON s.key_id=m.key_id WHERE ");
    bool first = true;
    for (const Walk& walk : walks) {
      sql.append(first ? Sql() : Sql(" OR ")) << "(m.user_id=" << walk.user;
      if (walk.since) {
        sql << " AND s.day>=" << *walk.since;
      }
      sql << ")";
      first = false;
    }
    add_spending(session_.query(sql), walks);
    for (const Walk& walk : walks) {
      for (const auto& [key, sum] : walk.spent) {
        counts[I20] += walk.limits.contains(key.first) && sum != 0 ? 1U : 0U;
      }
    }
  }

  // I21: what ended accounts have made, once it is said to be wiped.
  void count_ended(const std::vector<Walk>& walks, Counts& counts) {
    std::vector<Walk> ended;
    std::copy_if(walks.begin(), walks.end(), std::back_inserter(ended), [](const Walk& walk) {
      return walk.ended && walk.wiped;
    });
    if (ended.empty()) {
      return;
    }
    Sql sql(
        "SELECT COUNT(*) FROM ledger l FORCE INDEX (PRIMARY) JOIN tasks t ON t.id=l.source_id "
        "WHERE l.kind=1 AND t.deleted_at IS NULL AND ");
    Rows rows = session_.query(write_range(sql, ended, false));
    AG_CHECK(rows.next());
    counts[I21] += rows.u64(1);
  }

  // I20 and I21 of the users behind the last part, up to `to`, or all.
  void count_accounts(std::optional<Uuid> to, Counts& counts) {
    const auto range = [&](Sql& sql, const char* column) -> Sql& {
      sql.append(Sql::trusted(std::string(column) + ">")) << id_of(at_);
      if (to) {
        sql.append(Sql::trusted(std::string(" AND ") + column + "<=")) << *to;
      }
      return sql;
    };
    Sql keys(
        "SELECT COUNT(*) FROM api_keys k FORCE INDEX (k_live) LEFT JOIN spend_marks m ON "
        "m.key_id=k.id LEFT JOIN balances b ON b.user_id=k.user_id WHERE k.deleted_at IS NULL AND "
        "((k.spend_limit IS NOT NULL)<>(m.key_id IS NOT NULL) OR m.user_id<>k.user_id OR "
        "m.seq>b.seq) AND ");
    Rows wrong_keys = session_.query(range(keys, "k.user_id"));
    AG_CHECK(wrong_keys.next());
    counts[I20] += wrong_keys.u64(1);
    Sql users(
        "SELECT COUNT(*) FROM users u FORCE INDEX (PRIMARY) WHERE u.deleted_at IS NOT NULL AND "
        "(u.email NOT LIKE '%@deleted.invalid' OR EXISTS (SELECT 1 FROM api_keys k WHERE "
        "k.user_id=u.id AND k.deleted_at IS NULL)) AND ");
    Rows wrong_users = session_.query(range(users, "u.id"));
    AG_CHECK(wrong_users.next());
    counts[I21] += wrong_users.u64(1);
  }

  // I1 and I19 of those between these users, and behind them if they are the last: rows of nobody.
  // By the gaps, because a list of all users of the ledger takes a look at each of its rows.
  void count_strays(const std::vector<Walk>& walks, bool last, Counts& counts) {
    Sql gaps("(");
    Uuid before = id_of(at_);
    for (const Walk& walk : walks) {
      gaps << "(user_id>" << before << " AND user_id<" << walk.user << ") OR ";
      before = walk.user.uuid;
    }
    if (last) {
      gaps << "user_id>" << before << ")";
    } else {
      gaps << "FALSE)";
    }
    Sql entries("SELECT COUNT(DISTINCT user_id) FROM ledger FORCE INDEX (PRIMARY) WHERE ");
    Rows strays = session_.query(entries.append(gaps));
    AG_CHECK(strays.next());
    counts[I1] += strays.u64(1);
    Sql usage("SELECT COUNT(*) FROM usage_hours FORCE INDEX (PRIMARY) WHERE ");
    Rows hours = session_.query(
        usage.append(gaps)
        << " AND (generations OR succeeded OR failed OR canceled OR audio_ms OR charged)");
    AG_CHECK(hours.next());
    counts[I19] += hours.u64(1);
  }

  // I1.
  static void judge(const Walk& walk, Counts& counts) {
    const bool right = walk.there && walk.has_balance && walk.sum_available == walk.available &&
                       walk.sum_held == walk.held && walk.top == walk.seq && walk.count == walk.seq;
    counts[I1] += (walk.owned || walk.top > 0) && !right ? 1U : 0U;
  }

  // What is long over, was right, and is in usage, is not read again.
  void move_marks(const std::vector<Walk>& walks) {
    if (!moves_marks_) {
      return;
    }
    Sql sql("INSERT INTO audit_marks (user_id, seq, available, held, compared_to) VALUES ");
    bool any = false;
    for (const Walk& walk : walks) {
      const bool told = walk.rolled_to >= walk.old_to && (!walk.ended || walk.wiped);
      if (!walk.clean || walk.old_to == walk.old_from || !told) {
        continue;
      }
      sql.append(any ? Sql(",") : Sql())
          << "(" << walk.user << "," << walk.old_to << "," << walk.old_available << ","
          << walk.old_held << "," << over_before_ << ")";
      any = true;
    }
    if (any) {
      session_.execute(sql << " ON DUPLICATE KEY UPDATE seq=VALUES(seq), "
                              "available=VALUES(available), held=VALUES(held), "
                              "compared_to=VALUES(compared_to)");
    }
  }

  const AuditOptions options_;
  Session session_;
  Counts bad_{};
  Instant over_before_{};  // What was made before this is long over: yesterday's begin.
  bool moves_marks_ = false, remembers_ = false;
  std::chrono::steady_clock::time_point note_at_ = std::chrono::steady_clock::now();
  Stage stage_ = kNowStage;
  std::string at_;            // How far the stage has come.
  bool stage_clean_ = true;   // All of it so far was right, and long over.
  std::optional<Walk> walk_;  // A user of whom there is more to read.
};

}  // namespace

Result<std::vector<Check>, Fault> audit(const DatabaseUrl& url, const AuditOptions& options) {
  try {
    return Audit(url, options).run();
  } catch (const DbError& e) {
    return to_fault(e);
  }
}

}  // namespace audiogen::store
