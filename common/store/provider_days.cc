#include "common/store/provider_days.h"

#include <utility>

#include "common/base/check.h"

namespace audiogen::store {
namespace {

using Days = std::map<std::pair<std::string, std::string>, ProviderDay>;

// The longest that a task is open: a call is sent so long after its task was made, at most.
constexpr std::chrono::days kTaskOpenMax{1};
// Tasks that were made within this are read at once.
constexpr std::chrono::hours kPart{1};

// A time to two digits: near enough, and few of them.
constexpr char kRounded[] = ", 1-FLOOR(LOG10(GREATEST(";

Sql& rounded(Sql& sql, const char* column) {
  const Sql name = Sql::trusted(column);
  sql << "ROUND(";
  sql.append(name) << kRounded;
  return sql.append(name) << ",1))))";
}

// What was sent from `from` on of tasks with ids from `first` on, before `last` if there is one.
Sql& where(Sql& sql, Instant from, TaskId first, std::optional<TaskId> last) {
  sql << " FROM provider_calls FORCE INDEX (PRIMARY) WHERE task_id>=" << first;
  if (last) {
    sql << " AND task_id<" << *last;
  }
  return sql << " AND sent_at>=" << from;
}

ProviderDay& at(Days& days, const Rows& rows) {
  ProviderDay& out = days[{rows.text(1), rows.text(2)}];
  out.day = rows.text(1);
  out.provider = rows.text(2);
  return out;
}

constexpr char kDayAndProvider[] = "SELECT DATE_FORMAT(sent_at,'%Y-%m-%d') AS day, provider, ";

void add_part(
    Session& session, Days& days, Instant from, TaskId first, std::optional<TaskId> last) {
  Sql calls;
  calls << kDayAndProvider << "outcome, ";
  rounded(calls, "took_ms") << " AS took, COUNT(*), COUNT(*)-COUNT(cost), "
                               "CAST(COALESCE(SUM(cost),0) AS SIGNED), "
                               "CAST(COALESCE(SUM(audio_ms),0) AS SIGNED), "
                               "CAST(COALESCE(SUM(earned),0) AS SIGNED)";
  where(calls, from, first, last) << " GROUP BY day, provider, outcome, took";
  Rows rows = session.query(calls);
  while (rows.next()) {
    ProviderDay& day = at(days, rows);
    const auto outcome = static_cast<CallOutcome>(rows.u32(3));
    ProviderDay::Calls& of = day.by_outcome[outcome];
    of.calls += rows.u64(5);
    of.of_unknown_cost += rows.u64(6);
    of.cost += Micros{rows.i64(7)};
    day.audio_ms += rows.i64(8);
    day.earned.value += rows.i64(9);
    const bool audio = outcome == CallOutcome::kDelivered || outcome == CallOutcome::kUndelivered;
    if (audio && !rows.is_null(4)) {
      day.took.add(std::chrono::milliseconds(rows.i64(4)), rows.u64(5));
    }
  }
  Sql units;
  units << kDayAndProvider << "price_unit, CAST(SUM(quantity) AS SIGNED)";
  where(units, from, first, last)
      << " AND price_unit IS NOT NULL AND quantity>0 GROUP BY day, provider, price_unit";
  rows = session.query(units);
  while (rows.next()) {
    at(days, rows).units[static_cast<PriceUnit>(rows.u32(3))] += rows.i64(4);
  }
  Sql bytes;
  bytes << kDayAndProvider;
  rounded(bytes, "first_byte_ms") << " AS took, COUNT(*)";
  where(bytes, from, first, last) << " AND first_byte_ms IS NOT NULL GROUP BY day, provider, took";
  rows = session.query(bytes);
  while (rows.next()) {
    at(days, rows).first_bytes.add(std::chrono::milliseconds(rows.i64(3)), rows.u64(4));
  }
}

}  // namespace

ProviderDay::Calls ProviderDay::all() const {
  Calls out;
  for (const auto& [outcome, of] : by_outcome) {
    out.calls += of.calls;
    out.of_unknown_cost += of.of_unknown_cost;
    out.cost += of.cost;
  }
  return out;
}

ProviderDay::Calls ProviderDay::wasted() const {
  Calls out = all();
  if (const auto delivered = by_outcome.find(CallOutcome::kDelivered);
      delivered != by_outcome.end()) {
    out.calls -= delivered->second.calls;
    out.of_unknown_cost -= delivered->second.of_unknown_cost;
    out.cost.value -= delivered->second.cost.value;
  }
  return out;
}

Result<std::vector<ProviderDay>, Fault> ProviderDays::read(std::uint32_t days) {
  return guarded([&]() -> Result<std::vector<ProviderDay>, Fault> {
    AG_CHECK(days >= 1);
    const Instant now = session_.now();
    const Instant from(std::chrono::floor<std::chrono::days>(now.time_since_epoch()) -
                       std::chrono::days(days - 1));
    Days found;
    // Ids are made by the clocks of API processes, which may be ahead: so the last part has no end.
    for (Instant part = from - kTaskOpenMax; part <= now; part += kPart) {
      const Instant next = part + kPart;
      add_part(session_,
               found,
               from,
               TaskId{first_uuid_at(part)},
               next <= now ? std::optional(TaskId{first_uuid_at(next)}) : std::nullopt);
    }
    std::vector<ProviderDay> out;
    out.reserve(found.size());
    for (auto& [key, day] : found) {
      out.push_back(std::move(day));
    }
    return out;
  });
}

}  // namespace audiogen::store
