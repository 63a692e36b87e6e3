// Usage on a real server: each row of the ledger counts once, in its hour, whatever commits late,
// crashes or runs at the same time.
#include "common/store/usage.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/store/accounts.h"
#include "common/store/history.h"
#include "common/store/keys.h"
#include "tests/store/task_fixture.h"
#include "tests/support/tcp_proxy.h"
#include "tests/support/wait.h"

namespace audiogen::store {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

class UsageTest : public TaskStoreTest {
 protected:
  TaskId create_by(UserId user,
                   std::optional<KeyId> key,
                   const std::string& request = R"({"prompt":"x"})") {
    CreateCommand command = create_command(user);
    command.key = key;
    command.request = request;
    EXPECT_EQ(create(command).kind, CreateOutcome::Kind::kCreated);
    return command.id;
  }
  void succeed(TaskId task) {
    EXPECT_EQ(settle(settle_command(Settle::kSucceed, *claim(task))), SettleOutcome::kSettled);
  }
  void fail(TaskId task) {
    EXPECT_EQ(settle(settle_command(Settle::kFail, *claim(task))), SettleOutcome::kSettled);
  }

  // Until nothing is left; the entries.
  std::size_t roll_up(Usage& usage) {
    std::size_t entries = 0;
    std::optional<UserId> after;
    for (bool more = true; more;) {
      const auto rolled = usage.roll_up(after);
      EXPECT_TRUE(rolled) << rolled.error().detail;
      if (!rolled) {
        return entries;
      }
      entries += rolled->entries;
      after = rolled->next;
      more = after || rolled->more;
    }
    return entries;
  }
  std::size_t roll_up() { return roll_up(usage_); }

  UsageReport report(UserId user,
                     UsageGroup group = UsageGroup::kNone,
                     UsageBucket bucket = UsageBucket::kHour) {
    const Instant now = session_.now();
    const auto span = usage_span(now - 48h, now + 1h, bucket);
    EXPECT_TRUE(span);
    auto found = usage_.read(user, *span, group);
    EXPECT_TRUE(found) << found.error().detail;
    return found ? *std::move(found) : UsageReport{};
  }
  UsageCounts totals(UserId user) { return report(user).totals; }

  std::int64_t mark(UserId user) {
    return db_.number(Sql("SELECT COALESCE(MAX(seq),0) FROM usage_marks WHERE user_id=") << user);
  }
  // Moves one row of a task in the ledger.
  void move(TaskId task, EntryKind kind, Instant at) {
    db_.execute(Sql("UPDATE ledger SET created_at=")
                << at << " WHERE source_id=" << task << " AND kind=" << kind);
  }

  Session session_{db_.url()};
  Usage usage_{session_};
};

TEST_F(UsageTest, CountsWhatWasCreatedAndHowItEnded) {
  const UserId user = db_.add_user(), other = db_.add_user();
  std::vector<TaskId> tasks;
  for (int i = 0; i < 6; ++i) {
    tasks.push_back(create(user));
  }
  succeed(tasks[0]);
  succeed(tasks[1]);
  fail(tasks[2]);
  must(store_.cancel(tasks[3]));
  claim(tasks[4]);
  EXPECT_EQ(roll_up(), 12U) << "six holds, four ends, two grants";
  const UsageCounts expected{6, 2, 1, 1, 120'000, credits(150)};
  EXPECT_EQ(totals(user), expected);
  EXPECT_EQ(totals(other), UsageCounts{});
  EXPECT_THAT(report(other).rows, IsEmpty()) << "no rows of nothing";
  // Once more does nothing; what is new is added.
  EXPECT_EQ(roll_up(), 0U);
  EXPECT_EQ(totals(user), expected);
  fail(tasks[5]);
  EXPECT_EQ(roll_up(), 1U);
  EXPECT_EQ(totals(user), (UsageCounts{6, 2, 2, 1, 120'000, credits(150)}));
}

TEST_F(UsageTest, EachRowCountsInItsOwnHour) {
  const UserId user = db_.add_user();
  const TaskId old = create(user), task = create(user);
  succeed(old);
  succeed(task);
  const Instant hour = std::chrono::floor<std::chrono::hours>(session_.now());
  move(old, EntryKind::kHold, hour - 30h);
  move(old, EntryKind::kResolve, hour - 1us);
  move(task, EntryKind::kHold, hour - 3h);
  move(task, EntryKind::kResolve, hour - 2h - 1us);
  roll_up();
  const auto hours = report(user).rows;
  ASSERT_THAT(hours, SizeIs(3));
  EXPECT_EQ(hours[0].counts, (UsageCounts{.generations = 1}));
  EXPECT_EQ(hours[1].counts, (UsageCounts{1, 1, 0, 0, 60'000, credits(75)}));
  EXPECT_EQ(hours[2].counts,
            (UsageCounts{.succeeded = 1, .audio_ms = 60'000, .charged = credits(75)}));
  EXPECT_EQ(hours[0].start, hour - 30h);
  EXPECT_EQ(hours[1].start, hour - 3h);
  EXPECT_EQ(hours[2].start, hour - 1h);
  UsageCounts sum;
  for (const UsageRow& row : report(user, UsageGroup::kNone, UsageBucket::kDay).rows) {
    EXPECT_EQ(row.start.time_since_epoch() % 24h, 0h);
    sum += row.counts;
  }
  EXPECT_EQ(sum, totals(user));
  // A span has what lies in it, and nothing else.
  const auto one = usage_.read(
      user, {.from = hours[1].start, .to = hours[1].start + 1h, .bucket = UsageBucket::kHour}, {});
  ASSERT_TRUE(one);
  ASSERT_THAT(one->rows, SizeIs(1));
  EXPECT_EQ(one->rows[0].counts, hours[1].counts);
  const auto without_last = usage_.read(
      user, {.from = hours[0].start, .to = hours[2].start, .bucket = UsageBucket::kHour}, {});
  ASSERT_TRUE(without_last);
  EXPECT_THAT(without_last->rows, SizeIs(2)) << "its end is not in it";
}

TEST_F(UsageTest, ByKeyAndByVoice) {
  Session admin(db_.url());
  Accounts accounts(admin);
  Keys keys(admin);
  const UserId user = accounts.create("a@b", Plan::kPaid)->id;
  ASSERT_TRUE(accounts.grant(user, credits(10'000), GrantKind::kBonus, "r"));
  const KeyId one = keys.add(user, {.name = "1"}, make_api_key("svc"))->id;
  const KeyId two = keys.add(user, {.name = "2"}, make_api_key("svc"))->id;
  create_by(user, one, R"({"prompt":"x","voice":"aria","metadata":{"voice":"anya"}})");
  create_by(user, one, R"({"prompt":",\"voice\":\"anya\"","output_format":"mp3"})");
  create_by(user, two, R"({"prompt":"x","voice":"aria"})");
  const TaskId erased = create_by(user, two, R"({"prompt":"x","voice":"anya"})");
  create_by(user, std::nullopt);
  // Deleted before anybody has counted it: its voice still counts, and it is all that is left.
  succeed(erased);
  History history(session_);
  EXPECT_EQ(*history.erase(user, erased), Erasure::kErased);
  EXPECT_EQ(db_.text(Sql("SELECT CONCAT(voice, '|', request) FROM tasks WHERE id=") << erased),
            "anya|");
  db_.execute(Sql("UPDATE ledger SET created_at=UTC_DATE() - INTERVAL 12 HOUR"));  // One day.
  roll_up();

  const auto by_voice = report(user, UsageGroup::kVoice, UsageBucket::kDay).rows;
  ASSERT_THAT(by_voice, SizeIs(3));
  EXPECT_EQ(by_voice[0].voice, std::nullopt);
  EXPECT_EQ(by_voice[0].counts.generations, 2U);
  EXPECT_EQ(by_voice[1].voice, "anya");
  EXPECT_EQ(by_voice[1].counts, (UsageCounts{1, 1, 0, 0, 60'000, credits(75)}));
  EXPECT_EQ(by_voice[2].voice, "aria");
  EXPECT_EQ(by_voice[2].counts.generations, 2U);

  const auto by_key = [&] {
    std::vector<std::pair<std::optional<KeyId>, std::uint64_t>> out;
    for (const UsageRow& row : report(user, UsageGroup::kKey, UsageBucket::kDay).rows) {
      EXPECT_FALSE(row.voice);
      out.emplace_back(row.key, row.counts.generations);
    }
    return out;
  };
  using Line = std::pair<std::optional<KeyId>, std::uint64_t>;
  EXPECT_THAT(by_key(), ElementsAre(Line{std::nullopt, 1}, Line{one, 2}, Line{two, 2}));
  EXPECT_EQ(report(user, UsageGroup::kKey).totals, totals(user));
  ASSERT_TRUE(keys.remove(one));
  EXPECT_THAT(by_key(), ElementsAre(Line{std::nullopt, 3}, Line{two, 2}));
}

// Ids are given in one order and committed in another: a mark over all users would pass by the one
// that commits late.
TEST_F(UsageTest, WhatCommitsLateIsNotPassedBy) {
  const UserId late = db_.add_user(), early = db_.add_user();
  roll_up();
  const TaskId task = create(late);
  // As though its transaction were still under way: nothing of it is to be seen.
  Session slow(db_.url(), kHolds);
  slow.execute(Sql("BEGIN"));
  slow.execute(Sql("UPDATE balances SET available=available-150000, held=held+150000, seq=seq+1, "
                   "released=released+1 WHERE user_id=")
               << late);
  const TaskId second = TaskId::make();
  slow.execute(Sql("INSERT INTO tasks (id, user_id, state, request, output_format, held, "
                   "next_run_at, deadline_at, wake_at, created_at, updated_at) SELECT ")
               << second
               << ", user_id, state, request, output_format, held, next_run_at, deadline_at, "
                  "wake_at, created_at, updated_at FROM tasks WHERE id="
               << task);
  slow.execute(Sql("INSERT INTO ledger SELECT user_id, seq+1, kind, ")
               << second
               << ", d_available, d_held, d_system, available_after-150000, held_after+150000, "
                  "created_at FROM ledger WHERE kind=1 AND source_id="
               << task);
  create(early);
  EXPECT_EQ(roll_up(), 2U) << "waits for nobody";
  EXPECT_EQ(totals(late).generations, 1U);
  EXPECT_EQ(totals(early).generations, 1U);
  slow.execute(Sql("COMMIT"));
  EXPECT_EQ(roll_up(), 1U);
  EXPECT_EQ(totals(late).generations, 2U);
}

// Between the look without locks and the locks another process sees more than that look did, and
// adds it: a mark that went back would count it again.
TEST_F(UsageTest, AMarkThatIsFurtherStays) {
  const UserId user = db_.add_user();
  create(user);
  Session other(db_.url(), kHolds);
  other.execute(Sql("BEGIN"));
  other.execute(Sql("INSERT INTO usage_marks (user_id, seq) VALUES (") << user << ",0)");
  std::thread late([&] {
    Session session(db_.url(), test::kPatient);
    const auto rolled = Usage(session).roll_up(std::nullopt);
    ASSERT_TRUE(rolled) << rolled.error().detail;
    EXPECT_EQ(rolled->entries, 0U);
    EXPECT_FALSE(rolled->more);
  });
  // It has looked, and waits to know whether there is a mark.
  EXPECT_TRUE(test::eventually(std::chrono::seconds(60), [&] {
    return db_.number(Sql("SELECT COUNT(*) FROM information_schema.processlist WHERE "
                          "db=DATABASE() AND id<>CONNECTION_ID() AND info LIKE "
                          "'INSERT IGNORE INTO usage_marks%'")) > 0;
  }));
  create(user);
  const std::int64_t all = db_.number(Sql("SELECT MAX(seq) FROM ledger WHERE user_id=") << user);
  other.execute(Sql("UPDATE usage_marks SET seq=")
                << static_cast<std::uint64_t>(all) << " WHERE user_id=" << user);
  other.execute(Sql("COMMIT"));
  late.join();
  EXPECT_EQ(mark(user), all);
  EXPECT_EQ(roll_up(), 0U);
  // The other one only said that it had counted.
  db_.execute(Sql("UPDATE usage_marks SET seq=0"));
  EXPECT_EQ(roll_up(), static_cast<std::size_t>(all));
}

TEST_F(UsageTest, CompleteToPromisesNoMoreThanThereIs) {
  const UserId user = db_.add_user();
  const TaskId first = create(user);
  roll_up();
  Instant before = session_.now();
  const Instant complete_to = report(user).complete_to;
  EXPECT_GE(complete_to, before - kLateEntry) << "nothing is missing";
  EXPECT_LE(complete_to, session_.now() - kLateEntry) << "but what may still be on its way";
  // One that nobody has counted yet.
  must(store_.cancel(first));
  db_.execute(Sql("UPDATE ledger SET created_at=created_at - INTERVAL 1 DAY WHERE kind=2 AND "
                  "source_id=")
              << first);
  EXPECT_LE(report(user).complete_to, before - 24h - kLateEntry + 1min);
  roll_up();
  EXPECT_GE(report(user).complete_to, before - kLateEntry);
  // Somebody of whom there is nothing.
  before = session_.now();
  EXPECT_GE(report(UserId::make()).complete_to, before - kLateEntry);
}

TEST_F(UsageTest, ManyAtOnceCountEachRowOnce) {
  std::vector<UserId> users;
  for (int i = 0; i < 5; ++i) {
    users.push_back(db_.add_user());
  }
  std::atomic<bool> done{false};
  std::atomic<std::size_t> entries{0};
  in_parallel(4, [&](std::size_t i) {
    if (i == 0) {
      TaskStore store(db_.url());
      for (int n = 0; n < 40; ++n) {
        std::vector<CreateCommand> commands;
        for (const UserId user : users) {
          commands.push_back(create_command(user));
        }
        until_free<CreateCommand>(commands, [&](auto some) { return store.create(some); });
      }
      done = true;
      return;
    }
    Session session(db_.url(), {.lock_wait = std::chrono::seconds(0)});
    Usage usage(session);
    while (!done) {
      entries += roll_up(usage);
    }
  });
  entries += roll_up();
  EXPECT_EQ(entries, 5U * 41U);
  for (const UserId user : users) {
    EXPECT_EQ(totals(user).generations, 40U);
    EXPECT_EQ(mark(user), 41);
  }
}

// A long ledger is taken in piece by piece, and in every look the others come as well.
TEST_F(UsageTest, ALongLedgerDelaysNobody) {
  const UserId heavy = db_.add_user(credits(150 * 12'000));
  UserId light = db_.add_user();
  while (light < heavy) {  // Behind him in the order of looks.
    light = db_.add_user();
  }
  create(light);
  // Twelve thousand holds, by hand.
  db_.execute(Sql("INSERT INTO ledger (user_id, seq, kind, source_id, d_available, d_held, "
                  "d_system, available_after, held_after, created_at) SELECT ")
              << heavy
              << ", 1+s.seq, 1, UNHEX(CONCAT('01900000000070008000', LPAD(HEX(s.seq), 12, '0'))), "
                 "-150000, 150000, 0, 150000*(12000-s.seq), 150000*s.seq, UTC_TIMESTAMP(6) FROM "
                 "(WITH d AS (SELECT 0 AS n UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT "
                 "3 UNION ALL SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 "
                 "UNION ALL SELECT 8 UNION ALL SELECT 9) SELECT "
                 "1+a.n+10*b.n+100*c.n+1000*e.n+10000*f.n AS seq FROM d a, d b, d c, d e, d f) s "
                 "WHERE s.seq<=12000");
  db_.execute(Sql("INSERT INTO tasks (id, user_id, state, request, output_format, held, "
                  "next_run_at, deadline_at, wake_at, created_at, updated_at) SELECT source_id, "
                  "user_id, 1, '{}', 1, 150000, created_at, created_at + INTERVAL 900 SECOND, "
                  "created_at, created_at, created_at FROM ledger WHERE kind=1 AND user_id=")
              << heavy);
  db_.execute(Sql("UPDATE balances SET available=0, held=150000*12000, seq=12001, "
                  "released=12000 WHERE user_id=")
              << heavy);
  const auto first = usage_.roll_up(std::nullopt);
  ASSERT_TRUE(first) << first.error().detail;
  EXPECT_TRUE(first->more);
  EXPECT_FALSE(first->next);
  EXPECT_EQ(mark(heavy), static_cast<std::int64_t>(kUsageOfUser));
  EXPECT_EQ(totals(light).generations, 1U);
  EXPECT_TRUE(usage_.roll_up(std::nullopt)->more);
  const auto last = usage_.roll_up(std::nullopt);
  EXPECT_FALSE(last->more);
  EXPECT_EQ(last->entries, 12'001U - 2 * kUsageOfUser);
  EXPECT_EQ(totals(heavy).generations, 12'000U);
}

// Whose rows take longer than a statement may keeps nobody behind him, and comes in by fewer at a
// time; also where only the connection ends what takes too long.
TEST_F(UsageTest, WhoTakesTooLongComesInByFewer) {
  constexpr std::size_t kHours = 60;
  const UserId one = db_.add_user(), another = db_.add_user();
  const UserId slow = std::min(one, another), behind = std::max(one, another);
  db_.execute(Sql("CREATE TRIGGER slow BEFORE INSERT ON usage_hours FOR EACH ROW SET "
                  "@x=IF(NEW.user_id=")
              << slow << ", SLEEP(0.03), 0)");
  SessionOptions ended_by_server{.statement_max = 1s}, ended_by_client{.read_timeout = 1s};
  std::uint64_t rounds = 0;
  for (const SessionOptions& options : {ended_by_server, ended_by_client}) {
    ++rounds;
    for (std::size_t i = 0; i < kHours; ++i) {
      create(slow);
    }
    create(behind);
    db_.execute(Sql("UPDATE ledger SET created_at=created_at - INTERVAL seq HOUR WHERE user_id=")
                << slow << " AND seq>" << mark(slow));
    Session session(db_.url(), options);
    Usage usage(session);
    std::uint64_t before_slow = 0;
    EXPECT_TRUE(test::eventually(60s, [&] {
      const auto rolled = usage.roll_up(std::nullopt);
      EXPECT_TRUE(rolled || options.statement_max != 1s);
      if (mark(behind) <= static_cast<std::int64_t>(rounds)) {
        before_slow = static_cast<std::uint64_t>(mark(slow));
      }
      return mark(slow) == static_cast<std::int64_t>(1 + rounds * kHours);
    }));
    // What a client gave up the server goes on with for a while, rows and all.
    if (options.statement_max == 1s) {
      EXPECT_LE(before_slow, 1 + 9U) << "the others do not wait for all of his";
    }
  }
  db_.execute(Sql("DROP TRIGGER slow"));
}

TEST_F(UsageTest, OneAtATimeHasTheTurn) {
  Session first(db_.url()), second(db_.url()), third(db_.url());
  Usage one(first), two(second), three(third);
  EXPECT_TRUE(*one.take_turn());
  EXPECT_FALSE(*two.take_turn());
  EXPECT_FALSE(*three.take_turn());
  EXPECT_TRUE(*one.take_turn()) << "it stays his";
  test::TestDatabase other;
  Session elsewhere(other.url());
  EXPECT_TRUE(*Usage(elsewhere).take_turn()) << "of another database";
  first.disconnect();
  EXPECT_TRUE(test::eventually(30s, [&] { return *two.take_turn(); }));
  EXPECT_FALSE(*one.take_turn()) << "a new connection is not the one before";
  EXPECT_FALSE(*three.take_turn());
}

// It is there, and so is its connection, but nothing comes of it.
TEST_F(UsageTest, AFrozenProcessLosesItsTurn) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    Session session(db_.url(), {.idle_in_transaction_max = 1s, .idle_max = 1s});
    Usage usage(session);
    const auto had = usage.take_turn();
    ::raise(SIGSTOP);
    const auto has = usage.take_turn();
    ::_exit(had && *had && has && !*has ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, WUNTRACED), child);
  ASSERT_TRUE(WIFSTOPPED(status));
  EXPECT_TRUE(test::eventually(30s, [&] { return *usage_.take_turn(); }));
  ASSERT_EQ(::kill(child, SIGCONT), 0);
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "had it, and knows that it has not";
}

TEST_F(UsageTest, WaitsForNobody) {
  const UserId held = db_.add_user(), free = db_.add_user();
  roll_up();
  create(held);
  const TaskId task = create(free);
  Session session(db_.url(), {.lock_wait = std::chrono::seconds(0)});
  Usage usage(session);
  RowHolder mark_holder(db_.url(), Sql("SELECT seq FROM usage_marks WHERE user_id=") << held);
  // Not for what creations and settlements lock either.
  RowHolder balance_holder(db_.url(), balance_of(free));
  RowHolder task_holder(db_.url(), row_of_task(task));
  RowHolder ledger_holder(db_.url(), Sql("SELECT seq FROM ledger WHERE user_id=") << free);
  EXPECT_EQ(roll_up(usage), 1U);
  EXPECT_EQ(totals(free).generations, 1U);
  EXPECT_EQ(totals(held).generations, 0U);
  mark_holder.release();
  EXPECT_EQ(roll_up(usage), 1U);
}

// And holds up nobody: while a roll-up is under way, the same users create and end tasks.
TEST_F(UsageTest, HoldsUpNobody) {
  const UserId user = db_.add_user();
  const TaskId task = create(user);
  roll_up();
  RowHolder mark_holder(db_.url(), Sql("SELECT seq FROM usage_marks WHERE user_id=") << user);
  RowHolder hour_holder(db_.url(), Sql("SELECT starts_at FROM usage_hours WHERE user_id=") << user);
  create(user);
  succeed(task);
  EXPECT_EQ(totals(user).generations, 1U) << "and what there is can be read";
}

// The reply to COMMIT is lost: done or not, nothing is counted twice or left out.
TEST_F(UsageTest, ALostReplyCountsOnce) {
  const UserId user = db_.add_user();
  for (const auto cut : {test::TcpProxy::Cut::kReset, test::TcpProxy::Cut::kSilence}) {
    create(user);
    test::TcpProxy proxy(db_.url().port);
    Session session(db_.tcp_url(proxy.port()));
    Usage usage(session);
    session.now();  // What opens a session has the word as well.
    proxy.drop_reply_after("COMMIT", cut);
    static_cast<void>(usage.roll_up(std::nullopt));
    EXPECT_EQ(proxy.triggered(), 1);
    roll_up();
  }
  EXPECT_EQ(totals(user).generations, 2U);
}

// What cannot be added of one user keeps no other's.
TEST_F(UsageTest, OneBadUserIsLeftOut) {
  const UserId bad = db_.add_user(), good = db_.add_user();
  create(bad);
  create(good);
  db_.execute(Sql("ALTER TABLE usage_hours ADD CONSTRAINT not_him CHECK (user_id<>") << bad << ")");
  EXPECT_EQ(roll_up(), 2U) << "the good one's grant and hold";
  EXPECT_EQ(totals(good).generations, 1U);
  EXPECT_EQ(mark(bad), 0);
  db_.execute(Sql("ALTER TABLE usage_hours DROP CONSTRAINT not_him"));
  roll_up();
  EXPECT_EQ(totals(bad).generations, 1U);
}

TEST_F(UsageTest, AllUsersAreSeenPageByPage) {
  Sql users("INSERT INTO users (id, email, plan, purchased, created_at) VALUES ");
  Sql balances(
      "INSERT INTO balances (user_id, available, held, seq, released, parked, parked_after, "
      "released_max, crowded) VALUES ");
  std::vector<UserId> ids(kUsageUsersSeen);
  std::generate(ids.begin(), ids.end(), [] { return UserId::make(); });
  list(users, ids, [&](UserId user) {
    users << "(" << user << ",HEX(" << user << "),0,0,UTC_TIMESTAMP(6))";
  });
  list(balances, ids, [&](UserId user) { balances << "(" << user << ",0,0,0,0,0,0,0,0)"; });
  db_.execute(users);
  db_.execute(balances);
  const UserId last = db_.add_user();
  create(last);
  const auto first = usage_.roll_up(std::nullopt);
  ASSERT_TRUE(first && first->next);
  EXPECT_EQ(first->entries, 0U);
  const auto second = usage_.roll_up(first->next);
  EXPECT_EQ(second->entries, 2U);
  EXPECT_FALSE(second->next);
}

}  // namespace
}  // namespace audiogen::store
