// How the service did, minute by minute: written once, from what is known, and drawn.
#include "common/store/service_minutes.h"

#include <atomic>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/store/task_fixture.h"

namespace audiogen::store {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;

class ServiceMinutesTest : public TaskStoreTest {
 protected:
  // The database's clock, of one session.
  static void set_clock(Session& session, Instant at) {
    session.execute(Sql("SET timestamp=")
                    << std::int64_t{std::chrono::floor<seconds>(at.time_since_epoch()).count()});
  }
  bool write_at(Instant at) {
    set_clock(session_, at);
    return write_service_minute(session_);
  }
  std::vector<HistoryPoint> history(Instant now, minutes range, minutes step) {
    set_clock(session_, now);
    auto out = minutes_.history(range, step);
    if (!out) {
      ADD_FAILURE() << out.error().detail;
      return {};
    }
    return *std::move(out);
  }
  TaskId create_at(UserId user, Instant at) {
    CreateCommand command = create_command(user);
    command.id.uuid = first_uuid_at(at);
    command.id.uuid.bytes.back() = ++made_;
    EXPECT_EQ(only(store_.create(std::span(&command, 1))).kind, CreateOutcome::Kind::kCreated);
    return command.id;
  }
  // A worker that was there in the minute and tells of it.
  void tell(const std::optional<MinuteEnded>& ended) {
    const WorkerId id = WorkerId::make();
    WorkerStatus status;
    if (ended) {
      status.minutes = WholeMinutes{{minute_of(minute_), *ended}, {minute_of(minute_) + 1, {}}};
    }
    must(store_.report_worker(id, "host", 1, {.status_json = encode_worker_status(status)}));
    db_.execute(Sql("UPDATE workers SET started_at=")
                << minute_ - minutes(5) << ", seen_at=" << minute_ + seconds(70)
                << " WHERE id=" << id);
  }

  const Instant minute_{std::chrono::floor<minutes>(
      std::chrono::system_clock::now().time_since_epoch() - minutes(20))};
  Session session_{db_.url()};
  ServiceMinutes minutes_{session_};
  std::uint8_t made_ = 0;
};

TEST_F(ServiceMinutesTest, AMinuteIsWrittenOnceFromWhatIsToldOfIt) {
  const UserId user = db_.add_user();
  create_at(user, minute_ - seconds(1));
  create_at(user, minute_);
  create_at(user, minute_ + seconds(31));
  create_at(user, minute_ + seconds(59));
  create_at(user, minute_ + seconds(60));
  MinuteEnded one, two;
  one.add(TaskEnd{.took = seconds(2), .waited = seconds(1), .charged = Units{12'500}});
  two.add(TaskEnd{.failure = FailureCode::kInternalError,
                  .provider = "primary",
                  .took = seconds(9),
                  .waited = seconds(5)});
  two.add(TaskEnd{.failure = FailureCode::kDeadlineExceeded});
  tell(one);
  tell(two);
  EXPECT_FALSE(write_at(minute_ + seconds(70))) << "not everybody has told of it yet";
  EXPECT_TRUE(write_at(minute_ + seconds(80)));
  EXPECT_FALSE(write_at(minute_ + seconds(85)));
  const auto points = history(minute_ + seconds(90), minutes(60), minutes(1));
  ASSERT_THAT(points, SizeIs(1));
  const HistoryPoint& point = points[0];
  EXPECT_EQ(point.at, minute_);
  EXPECT_EQ(point.arrivals, 3U);
  EXPECT_TRUE(point.arrivals_exact);
  EXPECT_EQ(point.completions, 3U);
  EXPECT_THAT(point.failed, ElementsAre(Pair("deadline_exceeded", 1U), Pair("internal_error", 1U)));
  EXPECT_NEAR(*point.wait_p50, 1, 0.06);
  EXPECT_NEAR(*point.wait_p99, 5, 0.3);
  EXPECT_NEAR(*point.run_p50, 2, 0.11);
  EXPECT_NEAR(*point.run_p99, 9, 0.5);
  EXPECT_EQ(point.captured, Units{12'500});
  const auto failed = minutes_.failures(minutes(60));
  ASSERT_TRUE(failed) << failed.error().detail;
  EXPECT_EQ(failed->until, minute_ + minutes(1));
  EXPECT_THAT(failed->tasks,
              ElementsAre(Pair(std::pair("deadline_exceeded", ""), 1U),
                          Pair(std::pair("internal_error", "primary"), 1U)));
}

TEST_F(ServiceMinutesTest, OfAllWhoWriteAtOnceOneDoes) {
  MinuteEnded ended;
  ended.add(TaskEnd{.failure = FailureCode::kInternalError});
  tell(ended);
  std::atomic<int> written{0};
  in_parallel(6, [&](std::size_t) {
    Session session(db_.url());
    set_clock(session, minute_ + seconds(80));
    written += write_service_minute(session) ? 1 : 0;
  });
  EXPECT_EQ(written, 1);
  EXPECT_EQ(db_.number(Sql("SELECT SUM(tasks) FROM service_minute_failures")), 1);
}

TEST_F(ServiceMinutesTest, AMinuteThatNobodyWroteInTimeStaysMissing) {
  EXPECT_FALSE(write_at(minute_ + seconds(115))) << "nobody tells of it any more";
  EXPECT_TRUE(write_at(minute_ + seconds(140))) << "the next";
  const auto points = history(minute_ + minutes(5), minutes(60), minutes(1));
  ASSERT_THAT(points, SizeIs(1));
  EXPECT_EQ(points[0].at, minute_ + minutes(1));
  EXPECT_EQ(points[0].completions, 0U) << "it is known that there was nobody";
  EXPECT_EQ(points[0].wait_p50, std::nullopt);
}

TEST_F(ServiceMinutesTest, WhatAWorkerDoesNotTellIsNotKnown) {
  MinuteEnded ended;
  ended.add(TaskEnd{.failure = FailureCode::kInternalError, .took = seconds(1)});
  tell(ended);
  tell(std::nullopt);
  create_at(db_.add_user(), minute_);
  EXPECT_TRUE(write_at(minute_ + seconds(80)));
  const auto points = history(minute_ + seconds(90), minutes(60), minutes(1));
  ASSERT_THAT(points, SizeIs(1));
  EXPECT_EQ(points[0].arrivals, 1U);
  EXPECT_EQ(points[0].completions, std::nullopt);
  EXPECT_EQ(points[0].run_p50, std::nullopt);
  EXPECT_EQ(points[0].captured, std::nullopt);
  EXPECT_THAT(points[0].failed, IsEmpty());
}

// Very many arrivals cost no more than many, and say that they were not counted.
TEST_F(ServiceMinutesTest, ManyArrivalsAreTakenFromASample) {
  const UserId user = db_.add_user();
  // One each 2 ms of the second part of the minute: 2,500.
  for (int ms = 0; ms < 5'000; ms += 500) {
    Sql sql(
        "INSERT INTO tasks (id, user_id, state, request, output_format, held, charged, failure, "
        "next_run_at, deadline_at, created_at, updated_at) VALUES ");
    std::vector<TaskId> ids;
    for (int i = 0; i < 500; i += 2) {
      ids.push_back(
          TaskId{first_uuid_at(minute_ + seconds(5) + std::chrono::milliseconds(ms + i))});
    }
    list(sql, ids, [&](const TaskId& id) {
      sql << "(" << id << "," << user << ",4,'',1,1,0,7,NOW(6),NOW(6),NOW(6),NOW(6))";
    });
    db_.execute(sql);
  }
  const auto rows_read = [&] { return db_.rows_read("tasks"); };
  rows_read();  // Counts from here on.
  Session fresh(db_.url());
  set_clock(fresh, minute_ + seconds(80));
  static_cast<void>(fresh.query(Sql("SELECT id FROM tasks LIMIT 1")));
  const auto before = rows_read();
  EXPECT_TRUE(write_service_minute(fresh));
  EXPECT_LE(rows_read() - before, static_cast<std::int64_t>(kArrivalsOfPart) + 60);
  const auto points = history(minute_ + seconds(90), minutes(60), minutes(1));
  ASSERT_THAT(points, SizeIs(1));
  EXPECT_FALSE(points[0].arrivals_exact);
  EXPECT_NEAR(static_cast<double>(points[0].arrivals), 2'500, 25);
  db_.execute(Sql("DELETE FROM tasks WHERE request=''"));
}

TEST_F(ServiceMinutesTest, WhatIsTooOldIsForgottenAFewAtATime) {
  for (int i = 0; i < 150; ++i) {
    const Instant at = minute_ - kMinutesKept - minutes(1 + i);
    db_.execute(Sql("INSERT INTO service_minutes (starts_at, arrivals, arrivals_exact) VALUES (")
                << at << ",1,1)");
    db_.execute(Sql("INSERT INTO service_minute_failures VALUES (") << at << ",'a','',1)");
  }
  db_.execute(Sql("INSERT INTO service_minutes (starts_at, arrivals, arrivals_exact) VALUES (")
              << minute_ - kMinutesKept + minutes(1) << ",1,1)");
  const auto rows = [&] {
    return std::pair(db_.number(Sql("SELECT COUNT(*) FROM service_minutes")),
                     db_.number(Sql("SELECT COUNT(*) FROM service_minute_failures")));
  };
  EXPECT_TRUE(write_at(minute_ + seconds(80)));
  EXPECT_EQ(rows(), std::pair(152L, 150L))
      << "whoever writes deletes nothing: his clock may be wrong";
  EXPECT_EQ(oldest_service_minute(session_), minute_ - kMinutesKept - minutes(150));
  EXPECT_EQ(forget_service_minutes(session_, minute_ - kMinutesKept, 100), 100U);
  EXPECT_EQ(rows(), std::pair(52L, 50L));
  EXPECT_EQ(forget_service_minutes(session_, minute_ - kMinutesKept, 100), 50U);
  EXPECT_EQ(rows(), std::pair(2L, 0L));
}

TEST_F(ServiceMinutesTest, SpansOfMinutesAreSummedUp) {
  const Instant hour{std::chrono::floor<std::chrono::hours>(minute_.time_since_epoch())};
  const auto add = [&](minutes after, const Sql& values) {
    Sql sql("INSERT INTO service_minutes VALUES (");
    sql << hour + after << ",";
    db_.execute(sql.append(values) << ")");
  };
  add(minutes(0), Sql("5,1,3,1000,2000,100,400,7000"));
  add(minutes(1), Sql("6,0,1,5000,9000,500,800,1000"));
  add(minutes(2), Sql("7,1,0,NULL,NULL,NULL,NULL,0"));
  add(minutes(5), Sql("1,1,NULL,NULL,NULL,NULL,NULL,NULL"));
  add(minutes(6), Sql("1,1,4,1,1,1,1,1"));
  db_.execute(Sql("INSERT INTO service_minute_failures VALUES (")
              << hour << ",'a','x',1),(" << hour << ",'a','y',2),(" << hour + minutes(1)
              << ",'a','',4)");
  const auto points = history(hour + minutes(30), std::chrono::hours(24), minutes(5));
  ASSERT_THAT(points, SizeIs(2)) << "of what is missing nothing is told";
  EXPECT_EQ(points[0].at, hour);
  EXPECT_EQ(points[0].minutes, 3U);
  EXPECT_EQ(points[0].arrivals, 18U);
  EXPECT_FALSE(points[0].arrivals_exact);
  EXPECT_EQ(points[0].completions, 4U);
  EXPECT_DOUBLE_EQ(*points[0].wait_p50, 2) << "three of one, one of the other";
  EXPECT_DOUBLE_EQ(*points[0].wait_p99, 9);
  EXPECT_DOUBLE_EQ(*points[0].run_p50, 0.2);
  EXPECT_DOUBLE_EQ(*points[0].run_p99, 0.8);
  EXPECT_EQ(points[0].captured, Units{8'000});
  EXPECT_THAT(points[0].failed, ElementsAre(Pair("a", 7U)));
  EXPECT_EQ(points[1].at, hour + minutes(5));
  EXPECT_EQ(points[1].completions, std::nullopt) << "of one of its minutes nobody knows";
}

}  // namespace
}  // namespace audiogen::store
