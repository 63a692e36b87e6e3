#include "common/store/service_minutes.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "common/base/check.h"
#include "common/store/free_rows.h"
#include "common/store/situations.h"
#include "common/store/task_rows.h"

namespace audiogen::store {
namespace {

using std::chrono::minutes;

constexpr minutes kMinute{1};
constexpr std::size_t kCodeMax = 40;
constexpr std::array kRowStart{KeyColumn{.name = "starts_at", .kind = KeyColumn::Kind::kTime}};
constexpr KeyedTable kMinuteRows{.name = "service_minutes", .key = kRowStart};
constexpr KeyedTable kFailureRows{
    .name = "service_minute_failures", .key = kRowStart, .unique = false};
constexpr double kMillisecond = 0.001;

Instant floor_to_minute(Instant at) {
  return Instant(std::chrono::floor<minutes>(at.time_since_epoch()));
}

Sql& milliseconds_or_null(Sql& sql, const ServiceTimes& times, double share) {
  const auto value = times.seconds_at(share);
  return value ? sql << static_cast<std::uint64_t>(std::llround(*value / kMillisecond))
               : sql << "NULL";
}

std::optional<double> seconds_of(const Rows& rows, std::uint32_t column) {
  return rows.is_null(column) ? std::nullopt
                              : std::optional(static_cast<double>(rows.i64(column)) * kMillisecond);
}

void write_failures(Session& session, Instant minute, const MinuteEnded& ended) {
  if (ended.failed_at.empty()) {
    return;
  }
  std::map<std::pair<std::string, std::string>, std::uint64_t> tasks;
  for (const auto& [where, count] : ended.failed_at) {
    tasks[{where.first.substr(0, kCodeMax), clip_utf8(where.second, kProviderMax)}] += count;
  }
  Sql sql("INSERT INTO service_minute_failures (starts_at, code, provider, tasks) VALUES ");
  list(sql, tasks, [&](const auto& one) {
    sql << "(" << minute << ",";
    sql.bytes(one.first.first) << ",";
    sql.utf8(one.first.second, kProviderMax) << "," << one.second << ")";
  });
  session.later(sql);
}

// Ids sort by their creation.
std::pair<std::uint64_t, bool> arrivals(Session& session, Instant from) {
  Sql sql;
  for (Instant part = from; part < from + kMinute; part += kArrivalsPart) {
    if (part > from) {
      sql << " UNION ALL ";
    }
    sql << "(SELECT COUNT(*), MAX(id) FROM (SELECT id FROM tasks FORCE INDEX (PRIMARY) WHERE id>="
        << TaskId{first_uuid_at(part)} << " AND id<" << TaskId{first_uuid_at(part + kArrivalsPart)}
        << " ORDER BY id LIMIT " << kArrivalsOfPart << ") t)";
  }
  Rows rows = session.query(sql);
  double sum = 0;
  bool exact = true;
  for (Instant part = from; rows.next(); part += kArrivalsPart) {
    double count = static_cast<double>(rows.u64(1));
    if (rows.u64(1) == kArrivalsOfPart) {
      constexpr std::chrono::duration<double> kLeast{kMillisecond};
      const std::chrono::duration<double> took =
          std::max<std::chrono::duration<double>>(made_at(rows.uuid(2)) - part, kLeast);
      count *= std::chrono::duration<double>(kArrivalsPart) / took;
      exact = false;
    }
    sum += count;
  }
  return {static_cast<std::uint64_t>(std::llround(sum)), exact};
}

}  // namespace

bool write_service_minute(Session& session) {
  const Instant now = session.now();
  const Instant minute = floor_to_minute(now) - kMinute;
  // Later, nobody tells of it any more.
  if (const auto ago = now - (minute + kMinute); ago < kMinuteTold || ago > kMinuteKnown) {
    return false;
  }
  Rows there = session.query(Sql("SELECT 1 FROM service_minutes WHERE starts_at=") << minute);
  if (there.next()) {
    return false;
  }
  const auto ended = ended_in_minute(read_workers(session, now), minute_of(minute), now);
  const auto [arrived, exact] = arrivals(session, minute);
  Sql row(
      "INSERT IGNORE INTO service_minutes (starts_at, arrivals, arrivals_exact, completions, "
      "wait_p50, wait_p99, run_p50, run_p99, captured) VALUES (");
  row << minute << "," << arrived << "," << std::uint32_t{exact ? 1U : 0U} << ",";
  if (ended) {
    row << ended->all() << ",";
    milliseconds_or_null(row, ended->waits, 0.5) << ",";
    milliseconds_or_null(row, ended->waits, 0.99) << ",";
    milliseconds_or_null(row, ended->times, 0.5) << ",";
    milliseconds_or_null(row, ended->times, 0.99) << "," << ended->charged << ")";
  } else {
    row << "NULL,NULL,NULL,NULL,NULL,NULL)";
  }
  bool written = false;
  session.transact([&] {
    written = session.execute(row) == 1;
    if (written && ended) {
      write_failures(session, minute, *ended);
    }
  });
  return written;
}

std::optional<Instant> oldest_service_minute(Session& session) {
  Rows rows = session.query(
      Sql("SELECT starts_at FROM service_minutes FORCE INDEX (PRIMARY) ORDER BY starts_at LIMIT "
          "1"));
  return rows.next() ? std::optional(rows.time(1)) : std::nullopt;
}

std::size_t forget_service_minutes(Session& session, Instant before, std::size_t limit) {
  const auto forget = [&](const KeyedTable& table) {
    return forget_free(session,
                       table,
                       Sql::trusted(std::string(table.name))
                           << " FORCE INDEX (PRIMARY) WHERE starts_at<" << before
                           << " ORDER BY starts_at",
                       limit);
  };
  return std::max(forget(kMinuteRows), forget(kFailureRows));
}

Result<std::vector<HistoryPoint>, Fault> ServiceMinutes::history(minutes range, minutes step) {
  return guarded([&]() -> Result<std::vector<HistoryPoint>, Fault> {
    AG_CHECK(step >= kMinute && range >= step);
    const Instant now = session_.now();
    // Spans begin at multiples of `step`, so that one that is asked for again is the same.
    const Instant from((now - range).time_since_epoch() / step * step);
    const Instant epoch{};
    Sql span("TIMESTAMPDIFF(MINUTE,");
    span << epoch << ",starts_at) DIV " << std::int64_t{step.count()};
    // Where one of the minutes is not known, neither is the sum.
    Sql sql("SELECT ");
    sql.append(span)
        << " AS span, COUNT(*), CAST(SUM(arrivals) AS UNSIGNED), MIN(arrivals_exact), "
           "IF(COUNT(completions)=COUNT(*), CAST(SUM(completions) AS UNSIGNED), NULL), "
           "CAST(SUM(wait_p50*completions)/SUM(IF(wait_p50 IS NULL,0,completions)) AS SIGNED), "
           "MAX(wait_p99), "
           "CAST(SUM(run_p50*completions)/SUM(IF(run_p50 IS NULL,0,completions)) AS SIGNED), "
           "MAX(run_p99), IF(COUNT(captured)=COUNT(*), CAST(SUM(captured) AS SIGNED), NULL) FROM "
           "service_minutes FORCE INDEX (PRIMARY) WHERE starts_at>="
        << from << " GROUP BY span ORDER BY span";
    std::map<std::int64_t, HistoryPoint> points;
    Rows rows = session_.query(sql);
    while (rows.next()) {
      const std::int64_t number = rows.i64(1);
      points[number] = {
          .at = epoch + number * step,
          .minutes = rows.u64(2),
          .arrivals = rows.u64(3),
          .arrivals_exact = rows.i64(4) != 0,
          .completions = rows.is_null(5) ? std::nullopt : std::optional(rows.u64(5)),
          .wait_p50 = seconds_of(rows, 6),
          .wait_p99 = seconds_of(rows, 7),
          .run_p50 = seconds_of(rows, 8),
          .run_p99 = seconds_of(rows, 9),
          .captured = rows.is_null(10) ? std::nullopt : std::optional(rows.units(10))};
    }
    Sql failed("SELECT ");
    failed.append(span)
        << " AS span, code, CAST(SUM(tasks) AS UNSIGNED) FROM service_minute_failures FORCE INDEX "
           "(PRIMARY) WHERE starts_at>="
        << from << " GROUP BY span, code";
    rows = session_.query(failed);
    while (rows.next()) {
      if (const auto point = points.find(rows.i64(1)); point != points.end()) {
        point->second.failed[rows.text(2)] = rows.u64(3);
      }
    }
    std::vector<HistoryPoint> out;
    out.reserve(points.size());
    for (auto& [number, point] : points) {
      out.push_back(std::move(point));
    }
    return out;
  });
}

Result<MinutesFailed, Fault> ServiceMinutes::failures(minutes range) {
  return guarded([&]() -> Result<MinutesFailed, Fault> {
    const Instant from = session_.now() - range;
    MinutesFailed out;
    Rows rows = session_.query(
        Sql("SELECT starts_at FROM service_minutes ORDER BY starts_at DESC LIMIT 1"));
    if (rows.next()) {
      out.until = rows.time(1) + kMinute;
    }
    rows = session_.query(Sql("SELECT code, provider, CAST(SUM(tasks) AS UNSIGNED) FROM "
                              "service_minute_failures FORCE INDEX (PRIMARY) WHERE starts_at>=")
                          << from << " GROUP BY code, provider");
    while (rows.next()) {
      out.tasks[{rows.text(1), rows.text(2)}] = rows.u64(3);
    }
    return out;
  });
}

}  // namespace audiogen::store
