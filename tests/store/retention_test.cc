// Files past their retention go, their tasks stay and say so; files of no task go; and an
// interrupted run goes on.
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "api/generations/resource.h"
#include "common/base/mutex.h"
#include "common/blob/blob_key.h"
#include "common/blob/blob_store.h"
#include "common/store/history.h"
#include "tests/blob/temporary_folder.h"
#include "tests/store/task_fixture.h"
#include "tests/support/wait.h"
#include "worker/upkeep/eraser.h"
#include "worker/upkeep/janitor.h"

namespace audiogen::store {
namespace {

using std::chrono::days;
using testing::HasSubstr;
using testing::Not;

// Fails to remove after `patience` files, and to make that last if told so.
class BrokenStore final : public BlobStore {
 public:
  BrokenStore(BlobStore& inner, std::size_t patience) : inner_(inner), patience_(patience) {}
  std::vector<PutResult> put(std::span<const NewBlob> blobs) override { return inner_.put(blobs); }
  PutShape put_shape() const override { return inner_.put_shape(); }
  Result<Removal> remove(std::string_view key, const std::stop_token& stop) override {
    ++asked;
    if (patience_ == 0) {
      return Error{"the store is away"};
    }
    --patience_;
    return inner_.remove(key, stop);
  }
  Result<Done> flush_removed(std::span<const std::string> keys) override {
    return flushes ? inner_.flush_removed(keys) : Error{"the disk does not answer"};
  }

  bool flushes = true;
  std::atomic<int> asked = 0;  // To remove something.

 private:
  BlobStore& inner_;
  std::size_t patience_;
};

// Removes one key and no other.
class StuckStore final : public BlobStore {
 public:
  explicit StuckStore(std::string removable) : removable_(std::move(removable)) {}
  std::vector<PutResult> put(std::span<const NewBlob> blobs) override {
    return std::vector<PutResult>(blobs.size(), PutFault{"nothing is put here"});
  }
  PutShape put_shape() const override { return {}; }
  Result<Removal> remove(std::string_view key, const std::stop_token& /*stop*/) override {
    return key == removable_ ? Result<Removal>(Removal::kGone) : Error{"it cannot be removed"};
  }
  Result<Done> flush_removed(std::span<const std::string> /*keys*/) override { return Done{}; }

 private:
  const std::string removable_;
};

// Knows the key of none.
class OthersStore final : public BlobStore {
 public:
  std::vector<PutResult> put(std::span<const NewBlob> blobs) override {
    return std::vector<PutResult>(blobs.size(), PutFault{"nothing is put here"});
  }
  PutShape put_shape() const override { return {}; }
  Result<Removal> remove(std::string_view /*key*/, const std::stop_token& /*stop*/) override {
    return Removal::kNotOurs;
  }
  Result<Done> flush_removed(std::span<const std::string> /*keys*/) override { return Done{}; }
};

// Removes all but one key, as one whose folder is another user's.
class StubbornStore final : public BlobStore {
 public:
  StubbornStore(BlobStore& inner, std::string key) : inner_(inner), key_(std::move(key)) {}
  std::vector<PutResult> put(std::span<const NewBlob> blobs) override { return inner_.put(blobs); }
  PutShape put_shape() const override { return inner_.put_shape(); }
  Result<Removal> remove(std::string_view key, const std::stop_token& stop) override {
    return key == key_ ? Error{"it cannot be removed"} : inner_.remove(key, stop);
  }
  Result<Done> flush_removed(std::span<const std::string> keys) override {
    return inner_.flush_removed(keys);
  }

 private:
  BlobStore& inner_;
  const std::string key_;
};

// Whoever uses it is asked to stop while it removes the `last`th file, which a service may be slow
// to do.
class EndingStore final : public BlobStore {
 public:
  EndingStore(BlobStore& inner, std::size_t last) : inner_(inner), last_(last) {}
  std::vector<PutResult> put(std::span<const NewBlob> blobs) override { return inner_.put(blobs); }
  PutShape put_shape() const override { return {}; }
  Result<Removal> remove(std::string_view key, const std::stop_token& stop) override {
    EXPECT_TRUE(stop.stop_possible()) << "nothing would end the wait for a service";
    if (--last_ == 0) {
      stop_.request_stop();
    }
    return inner_.remove(key);
  }
  Result<Done> flush_removed(std::span<const std::string> keys) override {
    return inner_.flush_removed(keys);
  }
  std::stop_token stop() const { return stop_.get_token(); }

 private:
  BlobStore& inner_;
  std::size_t last_;
  std::stop_source stop_;
};

// Removes nothing before it is asked for so many files at once.
class WideStore final : public BlobStore {
 public:
  WideStore(BlobStore& inner, std::size_t at_once) : inner_(inner), at_once_(at_once) {}
  std::vector<PutResult> put(std::span<const NewBlob> blobs) override { return inner_.put(blobs); }
  PutShape put_shape() const override { return {.threads = at_once_, .batch_max = 1}; }
  Result<Removal> remove(std::string_view key, const std::stop_token& stop) override {
    {
      MutexLock lock(mutex_);
      ++asked_;
      changed_.notify_all();
      if (!changed_.wait_for(lock, std::chrono::seconds(60), [&]() LOCKS_REQUIRED(mutex_) {
            return asked_ >= at_once_;
          })) {
        return Error{"nobody asks beside this one"};
      }
    }
    return inner_.remove(key, stop);
  }
  Result<Done> flush_removed(std::span<const std::string> keys) override {
    return inner_.flush_removed(keys);
  }

 private:
  BlobStore& inner_;
  const std::size_t at_once_;
  Mutex mutex_;
  ConditionVariable changed_;
  std::size_t asked_ GUARDED_BY(mutex_) = 0;
};

class Retention : public TaskStoreTest {
 protected:
  // A task created `age` ago.
  TaskId created(std::chrono::seconds age) {
    CreateCommand command = create_command(user_);
    const auto now =
        std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now());
    const Uuid start = first_uuid_at(now - age);
    std::copy(start.bytes.begin(), start.bytes.begin() + 6, command.id.uuid.bytes.begin());
    must(store_.create({&command, 1}));
    db_.execute(Sql("UPDATE tasks SET created_at=")
                << made_at(command.id.uuid) << " WHERE id=" << command.id);
    return command.id;
  }
  // What an end-of-retention run does with 30 days.
  std::size_t delete_old(BlobStore& blobs) {
    return worker::delete_old_outputs(store_, blobs, days(30), {});
  }
  // What the eraser does with what was noted.
  std::size_t erase(BlobStore& blobs) {
    worker::Postponed none;
    return worker::erase_deleted(store_, blobs, none, worker::Postponed::Clock::now(), {});
  }
  Result<OldOutputs, StoreFault> take_old(std::size_t limit) {
    return store_.take_old_outputs(
        days(30), limit, std::chrono::floor<Instant::duration>(std::chrono::system_clock::now()));
  }
  // A file of this task, written when the task was created.
  std::string stored(TaskId task) {
    writing_at_ = made_at(task.uuid);
    const auto key = blobs_->put(make_blob_name(task, OutputFormat::kMp3, 24000), "sound");
    writing_at_.reset();
    EXPECT_TRUE(key);
    return key ? *key : "";
  }
  TaskId succeed(TaskId task, std::uint32_t epoch = 0) {
    const ClaimOutcome claimed = claim(task, epoch);
    SettleCommand success = settle_command(SettleCommand::Kind::kSucceed, *claimed);
    success.output_key = stored(task);
    EXPECT_EQ(settle(success), SettleOutcome::kSettled);
    return task;
  }
  TaskId finished(std::chrono::seconds age) { return succeed(created(age)); }

  std::string rendered(TaskId task, api::Members members = api::Members::kAll) {
    return api::render_task(*find(task, user_),
                            {"svc-audio-1.0", "https://cdn.test/f", std::nullopt, days(30)},
                            members);
  }

  std::unique_ptr<DirectoryStore> open_blobs() {
    const auto clock = [this] {
      return writing_at_.value_or(
          std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now()));
    };
    return *DirectoryStore::open(folder_.path(), {.keys = {std::string(32, 'k')}, .clock = clock});
  }

  test::TemporaryFolder folder_;
  std::optional<Instant> writing_at_;
  std::unique_ptr<DirectoryStore> blobs_ = open_blobs();
  UserId user_ = db_.add_user();
};

TEST_F(Retention, OldFilesGoAndTheirTasksSaySo) {
  const TaskId old = finished(days(31));
  const TaskId recent = finished(days(29));
  const Instant ended_at = find(old, user_)->updated_at;
  EXPECT_THAT(rendered(old), HasSubstr("\"expires_at\":\""));
  EXPECT_EQ(delete_old(*blobs_), 1U);
  EXPECT_FALSE(*blobs_->read(find(old, user_)->output_key));
  EXPECT_TRUE(*blobs_->read(find(recent, user_)->output_key));
  EXPECT_THAT(rendered(old), HasSubstr("\"deleted_at\":\""));
  EXPECT_EQ(find(old, user_)->updated_at, ended_at) << "it has long been final";
  EXPECT_THAT(rendered(old), Not(HasSubstr("expires_at")));
  EXPECT_THAT(rendered(old), HasSubstr("\"duration_seconds\":60"));
  EXPECT_THAT(rendered(recent), Not(HasSubstr("deleted_at")));
  for (const TaskId task : {old, recent}) {
    EXPECT_THAT(rendered(task, api::Members::kInterface),
                Not(testing::AnyOf(HasSubstr("deleted_at"), HasSubstr("expires_at"))));
  }
  EXPECT_EQ(delete_old(*blobs_), 0U) << "done once";
}

TEST_F(Retention, AnInterruptedRunGoesOn) {
  std::vector<TaskId> tasks;
  for (int i = 0; i < 5; ++i) {
    tasks.push_back(finished(days(40) - std::chrono::seconds(i)));
  }
  BrokenStore broken(*blobs_, 2);
  EXPECT_EQ(delete_old(broken), 2U);
  const auto marked = find(tasks[4], user_)->output_deleted_at;
  EXPECT_TRUE(marked) << "said before the file goes";
  EXPECT_EQ(delete_old(*blobs_) + erase(*blobs_), 3U);
  EXPECT_TRUE(folder_.files().empty());
  EXPECT_EQ(find(tasks[4], user_)->output_deleted_at, marked);
}

// They lie in one segment, and more than one batch of them.
TEST_F(Retention, ThoseThatLieTogetherEndNoRun) {
  TaskId last;
  for (int i = 0; i < 105; ++i) {
    last = finished(days(40) - std::chrono::seconds(i));
  }
  StuckStore stuck(find(last, user_)->output_key);
  EXPECT_EQ(delete_old(stuck), 1U);
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM deletions")), 104);
  EXPECT_FALSE(must(store_.note_deletions(std::vector{last}, 104)));
  const auto noted = must(store_.deletions(Noted::kOld, {}, 1'000));
  ASSERT_EQ(noted.size(), 104U);
  EXPECT_TRUE(must(store_.note_deletions(std::vector{noted.back().task}, 104))) << "once more";
  EXPECT_TRUE(must(store_.note_deletions(std::vector{last}, 105)));
}

// A pass ends with the first of them that fail, and so they rest for less time than it takes to
// come to all. What is removed last is tried, too.
TEST_F(Retention, ThoseThatFailKeepNoOtherFromItsTry) {
  constexpr int kOthers = 300, kATry = 32, kPasses = (kOthers / kATry) + 2;
  std::vector<TaskId> tasks;
  for (int i = 0; i <= kOthers; ++i) {
    tasks.push_back(finished(days(40) - std::chrono::seconds(i)));
  }
  ASSERT_TRUE(must(store_.note_deletions(tasks, 1'000)));
  StuckStore stuck(find(tasks.back(), user_)->output_key);
  worker::Postponed postponed;
  auto now = worker::Postponed::Clock::now();
  std::size_t gone = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    gone += worker::erase_deleted(store_, stuck, postponed, now, {});
    now += std::chrono::seconds(5);
    if (pass == 0) {
      EXPECT_EQ(postponed.size(), std::size_t{kATry}) << "a pass tries no more";
    }
  }
  EXPECT_EQ(gone, 1U);
  // All are remembered, and tried less and less often.
  for (int pass = 0; pass < kPasses; ++pass) {
    worker::erase_deleted(store_, stuck, postponed, now, {});
    now += std::chrono::seconds(5);
    EXPECT_EQ(postponed.size(), std::size_t{kOthers});
  }
  // And forgotten once another worker has seen to them.
  ASSERT_TRUE(store_.deletions_done(tasks));
  now += std::chrono::seconds(40);
  worker::erase_deleted(store_, stuck, postponed, now, {});
  worker::erase_deleted(store_, stuck, postponed, now, {});
  EXPECT_EQ(postponed.size(), 0U);
}

// Owners wait behind them: a store that removes slowly would keep them waiting for all of those.
TEST_F(Retention, APassEndsWithFewOfThoseThatNobodyWaitsFor) {
  constexpr int kOld = 100, kATry = 32;
  std::vector<TaskId> tasks;
  for (int i = 0; i < kOld; ++i) {
    tasks.push_back(finished(days(40) - std::chrono::seconds(i)));
  }
  ASSERT_TRUE(must(store_.note_deletions(tasks, 1'000)));
  worker::Postponed postponed;
  const auto now = worker::Postponed::Clock::now();
  std::size_t gone = 0;
  for (int pass = 0; pass < kOld / kATry + 1; ++pass) {
    const std::size_t now_gone = worker::erase_deleted(store_, *blobs_, postponed, now, {});
    EXPECT_LE(now_gone, std::size_t{kATry});
    gone += now_gone;
  }
  EXPECT_EQ(gone, std::size_t{kOld});
}

// For good nothing newer was deleted: each run began with it, and ended there.
TEST_F(Retention, OneThatCannotBeRemovedKeepsNoOther) {
  const TaskId stuck = finished(days(60)), beside = finished(days(60)), next = finished(days(50)),
               alone = finished(days(40)), last = finished(days(35));
  const auto key = [&](TaskId task) { return find(task, user_)->output_key; };
  StubbornStore stubborn(*blobs_, key(stuck));
  EXPECT_EQ(delete_old(stubborn), 1U);
  EXPECT_EQ(delete_old(stubborn), 1U);
  StubbornStore away(*blobs_, key(alone));  // It is all that there is of that day.
  EXPECT_EQ(delete_old(away), 0U);
  EXPECT_EQ(delete_old(away), 1U);
  for (const TaskId gone : {beside, next, last}) {
    EXPECT_FALSE(*blobs_->read(key(gone)));
  }
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM deletions")), 2);
  EXPECT_EQ(erase(stubborn), 1U);
  Session session(db_.url());
  ASSERT_TRUE(History(session).erase(user_, stuck)) << "its owner may delete it all the same";
  EXPECT_EQ(erase(*blobs_), 1U) << "whoever can is not too late";
  EXPECT_TRUE(folder_.files().empty());
}

TEST_F(Retention, WhatIsNotGoneForGoodIsLookedAtAgain) {
  finished(days(40));
  BrokenStore broken(*blobs_, 100);
  broken.flushes = false;
  delete_old(broken);
  EXPECT_EQ(must(take_old(10)).looked_at, 1U);
  delete_old(*blobs_);
  EXPECT_EQ(must(take_old(10)).looked_at, 0U);
}

TEST_F(Retention, MoreThanOneBatch) {
  for (int i = 0; i < 7; ++i) {
    finished(days(40));
  }
  std::size_t seen = 0;
  for (auto old = must(take_old(3)); old.looked_at > 0; old = must(take_old(3))) {
    seen += old.files.size();
    must(store_.old_outputs_deleted(old.last));
  }
  EXPECT_EQ(seen, 7U);
}

// Should all that guards it be deceived, a day is lost and not everything.
TEST_F(Retention, ARunDeletesADaysWorthAtMost) {
  finished(days(60));
  finished(days(60) - std::chrono::hours(23));
  const TaskId later = finished(days(58));
  EXPECT_EQ(delete_old(*blobs_), 2U);
  EXPECT_FALSE(find(later, user_)->output_deleted_at);
  EXPECT_EQ(delete_old(*blobs_), 1U);
}

// An API whose clock was behind: made today, though its id says otherwise.
TEST_F(Retention, WhatOnlyItsIdCallsOldStays) {
  const TaskId today = finished(days(40)), old = finished(days(40));
  db_.execute(Sql("UPDATE tasks SET created_at=UTC_TIMESTAMP(6) WHERE id=") << today);
  EXPECT_EQ(delete_old(*blobs_), 1U);
  EXPECT_FALSE(find(today, user_)->output_deleted_at);
  const auto stays = *blobs_->read(find(today, user_)->output_key);
  ASSERT_TRUE(stays);
  ::close(stays->fd);
  EXPECT_FALSE(*blobs_->read(find(old, user_)->output_key)) << "it keeps nobody else's";
}

TEST_F(Retention, AFileIsTheLastOfARunThatIsToEnd) {
  for (int i = 0; i < 5; ++i) {
    finished(days(40));
  }
  EndingStore ending(*blobs_, 2);
  EXPECT_EQ(worker::delete_old_outputs(store_, ending, days(30), ending.stop()), 2U);
  EXPECT_EQ(delete_old(*blobs_), 5U) << "what an interrupted run did is done again";
}

// A service takes a part of a second for each: one after the other, those of a day took more than
// one.
TEST_F(Retention, AsManyFilesGoAtOnceAsTheStoreIsWrittenToBest) {
  for (int i = 0; i < 5; ++i) {
    finished(days(40));
  }
  WideStore wide(*blobs_, 4);
  EXPECT_EQ(delete_old(wide), 5U);
  EXPECT_TRUE(folder_.files().empty());
}

class ChoresTest : public Retention {
 protected:
  using Duration = std::chrono::steady_clock::duration;

  // Keys of one task that is final, each first used so long ago.
  void keep_keys(std::size_t count, std::chrono::hours age) {
    const TaskId task = created(std::chrono::hours(0));
    EXPECT_EQ(settle(settle_command(Settle::kFail, *claim(task))), SettleOutcome::kSettled);
    for (std::size_t from = 0; from < count; from += 1000) {
      Sql sql(
          "INSERT INTO idempotency (user_id, idem_key, fingerprint, task_id, created_at) VALUES ");
      const std::size_t to = std::min(from + 1000, count);
      for (std::size_t i = from; i < to; ++i) {
        sql.append(i == from ? Sql() : Sql(",")) << "(" << user_ << ",";
        sql.bytes(std::to_string(age.count()) + "-" + std::to_string(i))
            << ",REPEAT('f',32)," << task << ",UTC_TIMESTAMP(6) - INTERVAL "
            << std::int64_t{age.count()} << " HOUR)";
      }
      db_.execute(sql);
    }
  }
  std::int64_t keys() { return db_.number(Sql("SELECT COUNT(*) FROM idempotency")); }
  static bool never(Duration) { return false; }
  // This machine's clocks, and so far ahead of them.
  static LocalClocks ahead(const std::chrono::microseconds& wall) {
    LocalClocks clocks;
    clocks.wall = [&wall] {
      return std::chrono::floor<Instant::duration>(std::chrono::system_clock::now()) + wall;
    };
    return clocks;
  }
};

TEST_F(ChoresTest, DoTheirWork) {
  keep_keys(3, days(8));
  keep_keys(2, days(6));
  const TaskId old = finished(days(40));
  worker::Chores chores(*blobs_, days(30));
  EXPECT_TRUE(chores.run(store_, never, {}));
  EXPECT_EQ(keys(), 2);
  EXPECT_TRUE(find(old, user_)->output_deleted_at);
}

// The database's clock is 40 days ahead of this machine's, for 20 seconds perhaps.
TEST_F(ChoresTest, DeleteNothingWhileTheClocksDiffer) {
  keep_keys(3, days(8));
  const TaskId old = finished(days(40));
  std::chrono::microseconds wall = -days(40);
  TaskStore store(db_.url(), ahead(wall));
  worker::Chores chores(*blobs_, days(30));
  EXPECT_FALSE(chores.run(store, never, {}));
  wall = std::chrono::microseconds(0);
  EXPECT_FALSE(chores.run(store, never, {})) << "one of them has jumped";
  EXPECT_EQ(keys(), 3);
  EXPECT_FALSE(find(old, user_)->output_deleted_at);
  worker::Chores others(*blobs_, days(30));
  EXPECT_TRUE(others.run(store, never, {})) << "of a worker for whom nothing has happened";
}

// The run has begun, with clocks that agree.
TEST_F(ChoresTest, DeleteNothingMoreFromWhenAClockIsSet) {
  db_.execute(Sql("INSERT INTO login_links (token_hash, user_id, expires_at) VALUES "
                  "(REPEAT('h',32),")
              << user_ << ",UTC_TIMESTAMP(6) - INTERVAL 1 HOUR)");
  const auto links = [&] { return db_.number(Sql("SELECT COUNT(*) FROM login_links")); };
  std::chrono::microseconds wall{0};
  TaskStore store(db_.url(), ahead(wall));
  worker::Chores chores(*blobs_, days(30));
  const auto it_is_set = [&](Duration) {
    wall = -days(40);
    return false;
  };
  chores.run(store, it_is_set, {});
  EXPECT_EQ(links(), 1);
  worker::Chores others(*blobs_, days(30));
  wall = std::chrono::microseconds(0);
  EXPECT_TRUE(others.run(store, never, {}));
  EXPECT_EQ(links(), 0);
}

// To say that one is there deletes nobody else.
TEST_F(ChoresTest, NoProcessOrMinuteIsForgottenWhileTheClocksDiffer) {
  const WorkerId frozen = WorkerId::make();
  const ApiId api = ApiId::make();
  must(store_.report_worker(frozen, "h", 1, {}));
  must(store_.report_api(api, TaskId::make()));
  for (const char* table : {"workers", "api_processes"}) {
    db_.execute(Sql::trusted("UPDATE " + std::string(table) +
                             " SET seen_at=UTC_TIMESTAMP(6) - INTERVAL 25 HOUR"));
  }
  db_.execute(
      Sql("INSERT INTO service_minutes (starts_at, arrivals, arrivals_exact) VALUES "
          "('2020-01-01',1,1)"));
  const auto rows = [&] {
    return db_.number(
        Sql("SELECT (SELECT COUNT(*) FROM workers)+(SELECT COUNT(*) FROM api_processes)+(SELECT "
            "COUNT(*) FROM service_minutes)"));
  };
  std::chrono::microseconds wall = -days(40);
  TaskStore store(db_.url(), ahead(wall));
  must(store.report_worker(WorkerId::make(), "h", 2, {}));
  must(store.report_api(ApiId::make(), TaskId::make()));
  worker::Chores chores(*blobs_, days(30));
  EXPECT_FALSE(chores.run(store, never, {}));
  EXPECT_EQ(rows(), 5);
  worker::Chores others(*blobs_, days(30));
  EXPECT_TRUE(others.run(store_, never, {})) << "of a worker whose clock is right";
  EXPECT_EQ(rows(), 2);
}

TEST_F(ChoresTest, ARunForgetsADaysMinutesAtMost) {
  db_.execute(
      Sql("INSERT INTO service_minutes (starts_at, arrivals, arrivals_exact) VALUES "
          "('2020-01-01',1,1),('2020-01-01 23:00:00',1,1),('2020-01-03',1,1)"));
  EXPECT_EQ(worker::purge_minutes(store_, never), 2U);
  EXPECT_EQ(worker::purge_minutes(store_, never), 1U);
  EXPECT_EQ(worker::purge_minutes(store_, never), 0U);
}

TEST_F(ChoresTest, ARunForgetsADaysKeysAtMost) {
  keep_keys(600, days(30));
  keep_keys(600, days(30) - std::chrono::hours(23));
  keep_keys(600, days(28));
  EXPECT_EQ(worker::purge_keys(store_, never), 1200U);
  EXPECT_EQ(worker::purge_keys(store_, never), 600U);
  EXPECT_EQ(worker::purge_keys(store_, never), 0U);
}

TEST_F(ChoresTest, ARunThatIsToEndEndsAfterABatch) {
  keep_keys(2000, days(30));
  int rests = 0;
  const auto stop_at_second = [&](Duration) { return ++rests == 2; };
  EXPECT_EQ(worker::purge_keys(store_, stop_at_second), 1000U);
  EXPECT_EQ(keys(), 1000);
}

// Else each of them reads the same keys.
TEST_F(ChoresTest, AreOneWorkersAtATime) {
  using Chore = TaskStore::Chore;
  keep_keys(3, days(8));
  auto rival = std::make_unique<TaskStore>(db_.url());
  ASSERT_TRUE(must(rival->take_turn(Chore::kIdempotency)));
  EXPECT_EQ(worker::purge_keys(store_, never), 0U);
  EXPECT_TRUE(must(store_.take_turn(Chore::kOutputs))) << "each by itself";
  EXPECT_TRUE(must(rival->take_turn(Chore::kIdempotency))) << "whoever has it keeps it";
  rival.reset();
  EXPECT_TRUE(test::eventually(std::chrono::seconds(10), [&] {
    return worker::purge_keys(store_, never) == 3;
  })) << "and it ends with his connection";
}

// SIGTERM does not wait for all that is there.
TEST_F(ChoresTest, AJanitorEndsInTheMiddleOfManyKeys) {
  Config config;
  config.database = db_.url();
  // Where this thread has slept meanwhile all are gone, and there are more of them next time.
  std::int64_t left = 0;
  for (std::int64_t many = 30'000; left == 0 && many <= 240'000; many *= 2) {
    keep_keys(static_cast<std::size_t>(many), days(8));
    worker::Janitor janitor(
        config,
        *blobs_,
        {.first = std::chrono::milliseconds(1), .every = std::chrono::milliseconds(100)});
    ASSERT_TRUE(test::eventually(std::chrono::minutes(1), [&] { return keys() < many; }));
    janitor.stop();
    left = keys();
  }
  EXPECT_GT(left, 0);
}

// One row of what is to be forgotten is held: by an operator, or by somebody who stands still.
class HeldRows : public ChoresTest {
 protected:
  // Makes three rows, n from 1 to 3; `second` is the second one. While it is held, `forget` is to
  // leave that one and no other.
  void expect_no_other_stays(const std::string& into,
                             const std::string& values,
                             const std::string& second,
                             const std::function<void()>& forget) {
    SCOPED_TRACE(into);
    const std::string table = into.substr(0, into.find(' '));
    const auto rows = [&] { return db_.number(Sql::trusted("SELECT COUNT(*) FROM " + table)); };
    ASSERT_EQ(rows(), 0);
    db_.execute(Sql::trusted("INSERT INTO " + into + " SELECT " + values +
                             " FROM (SELECT 1 AS n UNION ALL SELECT 2 UNION ALL SELECT 3) s"));
    RowHolder holder(db_.url(), Sql::trusted("SELECT 1 FROM " + table + " WHERE " + second));
    forget();
    EXPECT_EQ(rows(), 1);
    holder.release();
    forget();
    EXPECT_EQ(rows(), 0);
  }
  // Of so many days ago, of all of these by the same moment.
  static std::string id(int days_ago, const std::string& n = "n") {
    static const auto now = std::chrono::floor<Instant::duration>(std::chrono::system_clock::now());
    Sql sql;
    sql << first_uuid_at(now - days(days_ago));
    return "CONCAT(LEFT(" + sql.text() + ",8),LPAD(" + n + ",8,'0'))";
  }
};

TEST_F(HeldRows, KeepNoOtherSessionOrLink) {
  const auto purge = [&] { must(store_.purge_sessions(100)); };
  Sql user;
  user << user_;
  const std::string hash = "CONCAT('h',LPAD(n,31,'0'))", second = "CONCAT('h',LPAD(2,31,'0'))";
  const std::string then = "UTC_TIMESTAMP(6) - INTERVAL 40*24*60+n MINUTE";
  for (const std::string& seen : {then, std::string("UTC_TIMESTAMP(6)")}) {
    expect_no_other_stays(
        "sessions (id, user_id, token_hash, created_at, last_seen_at, user_agent, address)",
        id(40) + "," + user.text() + "," + hash + "," + then + "," + seen + ",'',''",
        "id=" + id(40, "2"),
        purge);
  }
  expect_no_other_stays("login_links (token_hash, user_id, expires_at)",
                        hash + "," + user.text() + "," + then,
                        "token_hash=" + second,
                        purge);
  expect_no_other_stays("used_challenges (challenge_hash, expires_at)",
                        hash + "," + then,
                        "challenge_hash=" + second,
                        purge);
  expect_no_other_stays("sign_ups (token_hash, email, invited, expires_at)",
                        hash + ",'e',0," + then,
                        "token_hash=" + second,
                        purge);
  expect_no_other_stays("mail_changes (user_id, token_hash, email, expires_at)",
                        id(40) + "," + hash + ",'e'," + then,
                        "user_id=" + id(40, "2"),
                        purge);
}

// Who forgets them knows them by their end alone.
TEST_F(HeldRows, WaitTogetherWhereLinksEndAtTheSameInstant) {
  const auto links = [&] { return db_.number(Sql("SELECT COUNT(*) FROM sign_ups")); };
  db_.execute(
      Sql("INSERT INTO sign_ups (token_hash, email, invited, expires_at) VALUES "
          "(REPEAT('a',32),'e',0,'2020-01-01'),(REPEAT('b',32),'e',0,'2020-01-01'),"
          "(REPEAT('c',32),'e',0,'2020-01-02')"));
  RowHolder holder(db_.url(), Sql("SELECT 1 FROM sign_ups WHERE token_hash=REPEAT('a',32)"));
  must(store_.purge_sessions(100));
  EXPECT_EQ(links(), 2);
  holder.release();
  must(store_.purge_sessions(1));
  EXPECT_EQ(links(), 0);
}

TEST_F(HeldRows, KeepNoOtherOfATask) {
  const Instant now = must(store_.now());
  Session session(db_.url());
  expect_no_other_stays("tickets (task_id, n, provider, ticket, created_at)",
                        id(1) + ",1,'p','t',UTC_TIMESTAMP(6) - INTERVAL 2 HOUR",
                        "task_id=" + id(1, "2"),
                        [&] { must(store_.forget_tickets(std::chrono::hours(1), 100)); });
  expect_no_other_stays("provider_calls (task_id, n, provider, outcome, sent_at)",
                        id(100) + ",1,'p',1,UTC_TIMESTAMP(6)",
                        "task_id=" + id(100, "2"),
                        [&] { must(store_.forget_calls(days(90), 100, now)); });
  expect_no_other_stays("past_claims (task_id, epoch, worker, claimed_at, ended_at, ended_as)",
                        id(100) + ",1,REPEAT('w',16),UTC_TIMESTAMP(6),UTC_TIMESTAMP(6),3",
                        "task_id=" + id(100, "2"),
                        [&] { must(store_.forget_claims(days(90), 100, now)); });
  expect_no_other_stays("past_attempts (task_id, n, epoch, provider, state, started_at, ended_at)",
                        id(100) + ",1,1,'p',3,UTC_TIMESTAMP(6),UTC_TIMESTAMP(6)",
                        "task_id=" + id(100, "2"),
                        [&] { must(store_.forget_past_calls(days(90), 100, now)); });
  expect_no_other_stays(
      "deletions (task_id, deleted_at)", id(1) + ",UTC_TIMESTAMP(6)", "task_id=" + id(1, "2"), [&] {
        std::vector<TaskId> tasks;
        Rows rows = session.query(Sql("SELECT task_id FROM deletions"));
        while (rows.next()) {
          tasks.push_back(rows.id<TaskId>(1));
        }
        must(store_.deletions_done(tasks));
      });
}

// Whoever counts a task's calls takes all of them to be there, or none.
TEST_F(HeldRows, KeepAllOfTheirTask) {
  Sql held, other;
  held << TaskId{first_uuid_at(must(store_.now()) - days(100) - std::chrono::hours(1))};
  other << TaskId{first_uuid_at(must(store_.now()) - days(100))};
  for (const std::string& task : {held.text(), other.text()}) {
    db_.execute(Sql::trusted(
        "INSERT INTO past_attempts (task_id, n, epoch, provider, state, started_at) SELECT " +
        task + ",k,1,'p',3,UTC_TIMESTAMP(6) FROM (SELECT 1 AS k UNION ALL SELECT 2) t"));
  }
  RowHolder holder(
      db_.url(), Sql::trusted("SELECT 1 FROM past_attempts WHERE n=2 AND task_id=" + held.text()));
  EXPECT_EQ(worker::purge_past_calls(store_, days(90), never), 2U);
  EXPECT_EQ(
      db_.number(Sql::trusted("SELECT COUNT(*) FROM past_attempts WHERE task_id=" + held.text())),
      2);
  holder.release();
  EXPECT_EQ(worker::purge_past_calls(store_, days(90), never), 2U);
}

TEST_F(HeldRows, KeepNoOtherIdempotencyKey) {
  keep_keys(3, days(8));
  RowHolder holder(db_.url(),
                   Sql("SELECT 1 FROM idempotency WHERE idem_key='192-1' AND user_id=") << user_);
  EXPECT_EQ(worker::purge_keys(store_, never), 2U);
  EXPECT_EQ(keys(), 1);
  holder.release();
  EXPECT_EQ(worker::purge_keys(store_, never), 1U);
}

TEST_F(HeldRows, KeepNoOtherProcessOrMinute) {
  const auto forget_silent = [&] { must(store_.forget_silent(100)); };
  expect_no_other_stays("workers (id, host, pid, in_flight, status, started_at, seen_at)",
                        id(2) + ",'h',1,0,'{}',UTC_TIMESTAMP(6),UTC_TIMESTAMP(6) - INTERVAL 2 DAY",
                        "id=" + id(2, "2"),
                        forget_silent);
  expect_no_other_stays("api_processes (id, unsent_from, seen_at)",
                        id(2) + ",REPEAT('a',16),UTC_TIMESTAMP(6) - INTERVAL 2 DAY",
                        "id=" + id(2, "2"),
                        forget_silent);
  const auto forget_minutes = [&] {
    must(store_.forget_minutes(days(30), 100, must(store_.now())));
  };
  expect_no_other_stays("service_minutes (starts_at, arrivals, arrivals_exact)",
                        "'2020-01-01' + INTERVAL n MINUTE,1,1",
                        "starts_at='2020-01-01 00:02:00'",
                        forget_minutes);
  expect_no_other_stays("service_minute_failures (starts_at, code, provider, tasks)",
                        "'2020-01-01' + INTERVAL n MINUTE,'code','',1",
                        "starts_at='2020-01-01 00:02:00'",
                        forget_minutes);
}

TEST_F(HeldRows, ATaskThatIsHeldKeepsItsOwnFile) {
  const TaskId held = finished(days(40) + std::chrono::hours(1)), other = finished(days(40));
  RowHolder holder(db_.url(), row_of_task(held));
  EXPECT_EQ(delete_old(*blobs_), 1U);
  EXPECT_TRUE(find(other, user_)->output_deleted_at);
  EXPECT_FALSE(find(held, user_)->output_deleted_at);
  const auto stays = *blobs_->read(find(held, user_)->output_key);
  ASSERT_TRUE(stays) << "its task does not say yet that it is gone";
  ::close(stays->fd);
  holder.release();
  delete_old(*blobs_);
  EXPECT_TRUE(find(held, user_)->output_deleted_at);
  EXPECT_FALSE(*blobs_->read(find(held, user_)->output_key));
  EXPECT_EQ(must(take_old(10)).looked_at, 0U) << "that was all";
}

TEST_F(HeldRows, WhatIsBehindAHeldTaskIsTakenInTheSameRun) {
  const TaskId held = finished(days(40) + std::chrono::hours(1)), other = finished(days(40));
  RowHolder holder(db_.url(), row_of_task(held));
  const auto first = must(take_old(1));
  EXPECT_EQ(first.last, held);
  EXPECT_LT(first.done_to, held) << "so far everything is done";
  EXPECT_TRUE(first.files.empty());
  const auto second = must(store_.take_old_outputs(days(30), 1, must(store_.now()), first.last));
  EXPECT_EQ(second.last, other);
  EXPECT_EQ(second.files.size(), 1U);
  holder.release();
}

class Deletions : public Retention {
 protected:
  // A task that is done, and deleted; its file's key.
  std::string deleted() {
    const TaskId task = finished(std::chrono::hours(1));
    EXPECT_TRUE(history_.erase(user_, task));
    return find(task, user_)->output_key;
  }
  std::size_t noted() { return must(store_.deletions(Noted::kDeleted, {}, 1'000)).size(); }
  // As a worker does that has just started.
  std::size_t erase(BlobStore& blobs) {
    worker::Postponed none;
    return worker::erase_deleted(store_, blobs, none, worker::Postponed::Clock::now(), {});
  }

  Session session_{db_.url()};
  History history_{session_};
};

TEST_F(Deletions, TheFileGoesAndNoOther) {
  const std::string mine = deleted();
  const std::string other = find(finished(std::chrono::hours(1)), user_)->output_key;
  const TaskId without = created(std::chrono::hours(1));
  must(store_.cancel(without));
  EXPECT_TRUE(history_.erase(user_, without));
  EXPECT_TRUE(*blobs_->read(mine)) << "until somebody sees to it";
  EXPECT_EQ(erase(*blobs_), 2U);
  EXPECT_FALSE(*blobs_->read(mine));
  const auto kept = *blobs_->read(other);
  ASSERT_TRUE(kept);
  ::close(kept->fd);
  EXPECT_EQ(noted(), 0U);
  EXPECT_EQ(erase(*blobs_), 0U) << "done once";
}

// Also in the segment that is being written.
TEST_F(Deletions, InASegmentThatIsStillWritten) {
  const TaskId task = created(std::chrono::seconds(0)), next = created(std::chrono::seconds(0));
  succeed(task);
  EXPECT_TRUE(history_.erase(user_, task));
  EXPECT_EQ(erase(*blobs_), 1U);
  EXPECT_FALSE(*blobs_->read(find(task, user_)->output_key));
  succeed(next);
  const auto kept = *blobs_->read(find(next, user_)->output_key);
  ASSERT_TRUE(kept);
  ::close(kept->fd);
}

TEST_F(Deletions, AnInterruptedRunGoesOnAndAFailureKeepsNobody) {
  for (int i = 0; i < 5; ++i) {
    deleted();
  }
  BrokenStore broken(*blobs_, 2);
  EXPECT_EQ(erase(broken), 2U);
  EXPECT_EQ(noted(), 3U) << "what is not gone is not forgotten";
  EXPECT_EQ(erase(*blobs_), 3U);
  EXPECT_TRUE(folder_.files().empty());
}

TEST_F(Deletions, AsManyAtOnceAsTheStoreIsWrittenToBest) {
  for (int i = 0; i < 5; ++i) {
    deleted();
  }
  WideStore wide(*blobs_, 4);
  EXPECT_EQ(erase(wide), 5U);
}

// More than are looked at in one go, and all before the one that can.
TEST_F(Deletions, ManyThatCannotBeRemovedKeepNobodyElses) {
  constexpr std::size_t kMany = 450;
  std::vector<SettleCommand> ends;
  for (const Claim& claim : claim_many(user_, kMany)) {
    ends.push_back(settle_command(SettleCommand::Kind::kSucceed, claim));
  }
  must(store_.settle(ends));
  db_.execute(
      Sql("UPDATE tasks SET request='', deleted_at=UTC_TIMESTAMP(6), "
          "output_deleted_at=UTC_TIMESTAMP(6)"));
  db_.execute(Sql("INSERT INTO deletions SELECT id, deleted_at FROM tasks"));
  StuckStore stuck(ends.back().output_key);
  EXPECT_EQ(erase(stuck), 1U);
  EXPECT_EQ(noted(), kMany - 1);
}

// Else a power cut brings the file back, and nobody knows that it was to go.
TEST_F(Deletions, AreForgottenOnlyOnceTheFileIsGoneForGood) {
  deleted();
  BrokenStore broken(*blobs_, 100);
  broken.flushes = false;
  EXPECT_EQ(erase(broken), 0U);
  EXPECT_EQ(noted(), 1U);
  broken.flushes = true;
  EXPECT_EQ(erase(broken), 1U);
  EXPECT_EQ(noted(), 0U);
}

// What the worker cannot know is not forgotten: one that was told another key than the rest.
TEST_F(Deletions, WaitForAWorkerThatKnowsTheKey) {
  const std::string key = deleted(), gone = deleted();
  ASSERT_EQ(*blobs_->remove(gone), Removal::kGone);
  const auto mistaken = *DirectoryStore::open(folder_.path(), {.keys = {std::string(32, 'w')}});
  EXPECT_EQ(erase(*mistaken), 1U) << "where nothing is any more, whose it was does not matter";
  EXPECT_EQ(noted(), 1U);
  const auto kept = *blobs_->read(key);
  ASSERT_TRUE(kept);
  ::close(kept->fd);
  const auto corrected =
      *DirectoryStore::open(folder_.path(), {.keys = {std::string(32, 'w'), std::string(32, 'k')}});
  EXPECT_EQ(erase(*corrected), 1U);
  EXPECT_FALSE(*blobs_->read(key));
  EXPECT_EQ(noted(), 0U);
}

// Old files do not wait for it, and say so: what is behind them goes.
TEST_F(Retention, AFileOfAnUnknownKeyKeepsNoOther) {
  const TaskId unknown = finished(days(40) + std::chrono::hours(1)), old = finished(days(40));
  const auto as_of_another = db_.text(Sql("SELECT output_key FROM tasks WHERE id=") << unknown);
  std::string forged = as_of_another;
  char& of_seal = forged[forged.rfind('/') - 1];
  of_seal = of_seal == '0' ? '1' : '0';
  Sql sql("UPDATE tasks SET output_key=");
  db_.execute(sql.bytes(forged) << " WHERE id=" << unknown);
  EXPECT_EQ(delete_old(*blobs_), 1U);
  EXPECT_FALSE(*blobs_->read(find(old, user_)->output_key));
  const auto stays = *blobs_->read(as_of_another);
  ASSERT_TRUE(stays);
  ::close(stays->fd);
}

// However many there are, and however slow the store is: SIGTERM waits for one.
TEST_F(Deletions, AFileIsTheLastOfARunThatIsToEnd) {
  for (int i = 0; i < 5; ++i) {
    deleted();
  }
  EndingStore ending(*blobs_, 2);
  worker::Postponed postponed;
  EXPECT_EQ(worker::erase_deleted(
                store_, ending, postponed, worker::Postponed::Clock::now(), ending.stop()),
            2U);
  EXPECT_EQ(noted(), 3U);
  EXPECT_EQ(postponed.size(), 0U) << "none of them has failed";
}

// Less and less often, for ever, and only what has failed.
TEST_F(Deletions, WhatCannotBeRemovedIsTriedLessAndLessOften) {
  using std::chrono::seconds;
  deleted();
  BrokenStore broken(*blobs_, 0);
  worker::Postponed postponed;
  const auto began = worker::Postponed::Clock::now();
  auto now = began;
  seconds pause(5);
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(worker::erase_deleted(store_, broken, postponed, now, {}), 0U);
    EXPECT_EQ(broken.asked, i + 1);
    EXPECT_EQ(worker::erase_deleted(store_, broken, postponed, now + pause - seconds(1), {}), 0U);
    EXPECT_EQ(broken.asked, i + 1) << "it rests";
    now += pause;
    pause = std::min(2 * pause, seconds(40));
  }
  EXPECT_EQ(postponed.size(), 1U);
  EXPECT_EQ(noted(), 1U);
  // A new one does not wait for it, and it is not forgotten over that.
  deleted();
  EXPECT_EQ(worker::erase_deleted(store_, *blobs_, postponed, now - seconds(1), {}), 1U);
  EXPECT_EQ(noted(), 1U);
  EXPECT_EQ(worker::erase_deleted(store_, *blobs_, postponed, now, {}), 1U);
  EXPECT_EQ(noted(), 0U);
  EXPECT_EQ(postponed.size(), 0U);
}

TEST_F(Deletions, NoMoreIsRememberedThanThereIsRoomFor) {
  worker::Postponed postponed;
  const auto now = worker::Postponed::Clock::now();
  const TaskId first = TaskId::make(), last = TaskId::make();
  postponed.failed(first, now);
  while (postponed.size() < worker::Postponed::kMost) {
    postponed.failed(TaskId::make(), now);
  }
  postponed.failed(last, now);
  EXPECT_EQ(postponed.size(), worker::Postponed::kMost);
  EXPECT_TRUE(postponed.rests(first, now));
  EXPECT_FALSE(postponed.rests(last, now)) << "it is tried every time";
  postponed.forget_seen_to(now + std::chrono::seconds(5));
  EXPECT_EQ(postponed.size(), 0U);
}

// Died behind the removal: a file that is gone already is no error.
TEST_F(Deletions, AFileMayBeGoneBefore) {
  const std::string key = deleted();
  EXPECT_TRUE(blobs_->remove(key));
  EXPECT_EQ(erase(*blobs_), 1U);
  EXPECT_EQ(noted(), 0U);
}

TEST_F(Deletions, RetentionAndTheyDoNotMind) {
  const TaskId old = finished(days(40));
  EXPECT_EQ(delete_old(*blobs_), 1U);
  const auto gone = find(old, user_)->output_deleted_at;
  EXPECT_TRUE(history_.erase(user_, old));
  EXPECT_EQ(find(old, user_)->output_deleted_at, gone) << "it was gone then";
  EXPECT_EQ(erase(*blobs_), 1U);
}

// It is the eraser's: a store that is away gets no note of it again. But what has come back, with a
// folder that was not mounted when it was removed, or with a copy, does not stay for that.
TEST_F(Deletions, RetentionLeavesThemToTheEraser) {
  const TaskId old = finished(days(40));
  ASSERT_TRUE(history_.erase(user_, old));
  EXPECT_EQ(erase(*blobs_), 1U);
  StubbornStore away(*blobs_, find(old, user_)->output_key);
  EXPECT_EQ(delete_old(away), 0U);
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM deletions")), 0);
  EXPECT_EQ(must(take_old(10)).looked_at, 0U) << "and it is done";

  const TaskId back = finished(days(39));
  const std::string key = find(back, user_)->output_key;
  ASSERT_TRUE(history_.erase(user_, back));
  ASSERT_TRUE(store_.deletions_done(std::vector{back}));
  EXPECT_EQ(delete_old(*blobs_), 1U);
  EXPECT_FALSE(*blobs_->read(key));
}

// By whom it was found so: as an old file, which counts as done.
TEST_F(Retention, WhatIsNotOursIsNotTriedForEver) {
  const TaskId task = finished(days(40));
  ASSERT_TRUE(must(store_.note_deletions(std::vector{task}, 10)));
  worker::Postponed postponed;
  OthersStore others;
  EXPECT_EQ(worker::erase_deleted(store_, others, postponed, worker::Postponed::Clock::now(), {}),
            1U);
  EXPECT_EQ(must(store_.deletions(Noted::kOld, {}, 10)).size(), 0U);
  EXPECT_EQ(postponed.size(), 0U);
}

class Orphans : public Retention {
 protected:
  // A worker dies between the file and the settlement. The file.
  std::string crash(TaskId task) {
    EXPECT_TRUE(claim(task));
    const std::string key = stored(task);
    expire_lease(task);
    must(store_.sweep(100));
    return key;
  }
  // The file a crash left of a task that succeeded then, created `age` ago.
  std::string orphan(std::chrono::seconds age) {
    const TaskId task = created(age);
    const std::string key = crash(task);
    succeed(task, 2);
    return key;
  }
  bool exists(const std::string& key) const {
    const auto file = *blobs_->read(key);
    if (file) {
      ::close(file->fd);
    }
    return file.has_value();
  }
  std::size_t delete_orphans() {
    return worker::delete_orphans(store_, *blobs_, [] { return false; });
  }
  // Nobody can read the segment of `key` until unhide().
  void hide(const std::string& key) {
    const std::string segment(parse_blob_key(key)->segment);
    hidden_ = folder_.path() + "/" + segment.substr(0, 6) + "/" + segment + ".2";
    std::filesystem::rename(hidden_, folder_.path() + "/hidden");
    std::filesystem::create_symlink("/etc/passwd", hidden_);
  }
  void unhide() const { std::filesystem::rename(folder_.path() + "/hidden", hidden_); }
  // Until one of them is gone.
  std::size_t delete_one_of(const std::vector<std::string>& orphans) {
    return worker::delete_orphans(store_, *blobs_, [&] {
      return !std::all_of(
          orphans.begin(), orphans.end(), [&](const std::string& key) { return exists(key); });
    });
  }

 private:
  std::string hidden_;
};

constexpr auto kOld = std::chrono::hours(25);

TEST_F(Orphans, WhatACrashLeftGoesAndTheOutputStays) {
  const TaskId task = created(kOld);
  const std::string left = crash(task);
  succeed(task, 2);
  EXPECT_EQ(delete_orphans(), 1U);
  EXPECT_FALSE(exists(left));
  EXPECT_TRUE(exists(find(task, user_)->output_key));
}

TEST_F(Orphans, AFailedTaskKeepsNoFile) {
  const TaskId task = created(kOld);
  ClaimOutcome claimed = claim(task);
  stored(task);
  EXPECT_EQ(settle(settle_command(Settle::kFail, *claimed)), SettleOutcome::kSettled);
  EXPECT_EQ(delete_orphans(), 1U);
  EXPECT_TRUE(folder_.files().size() == 1) << "the note alone";
}

TEST_F(Orphans, WhatMayBeNeededStays) {
  const std::string young = orphan(std::chrono::hours(23));
  const std::string open = crash(created(kOld));
  TaskId stranger = created(kOld);
  stranger.uuid.bytes[15] ^= 1;
  const std::string unknown = stored(stranger);
  const std::string plain = find(finished(kOld), user_)->output_key;
  const std::string left = orphan(kOld);
  EXPECT_EQ(delete_orphans(), 1U);
  EXPECT_FALSE(exists(left)) << "their slot was looked at";
  for (const std::string& key : {young, open, unknown, plain}) {
    EXPECT_TRUE(exists(key)) << key;
  }
}

// A provider's samples that look like an orphan of somebody else: in what a crash cut off, the
// sweep goes from block to block, through them.
TEST_F(Orphans, WhatAProviderWroteIsNoBlob) {
  const TaskId victim = created(kOld);
  EXPECT_TRUE(claim(victim));
  expire_lease(victim);
  must(store_.sweep(100));
  succeed(victim, 2);  // Claimed twice: it may have left a file.
  const std::string key = find(victim, user_)->output_key;
  // As a release before seals wrote it, and as one does that does not know the key.
  for (const std::string magic : {"AGblob1\n", "AGblob2\n"}) {
    const std::string name = make_blob_name(victim, OutputFormat::kMp3, 24000);
    std::string header = magic + std::string(8, '\0') + std::string(1, '\5') + std::string(7, '\0');
    header += name;
    header.resize(128);
    const TaskId task = created(kOld);
    writing_at_ = made_at(task.uuid);
    const auto forged = blobs_->put(make_blob_name(task, OutputFormat::kMp3, 24000),
                                    std::string(4096 - 128, 's') + header + "sound");
    writing_at_.reset();
    ASSERT_TRUE(forged);
    const auto at = parse_blob_key(*forged);
    for (const std::string& file : folder_.files()) {
      if (file.find(at->segment) != std::string::npos) {
        std::fstream torn(file, std::ios::in | std::ios::out | std::ios::binary);
        torn.seekp(at->offset);
        torn << std::string(128, 'x');
      }
    }
  }
  EXPECT_EQ(delete_orphans(), 0U);
  EXPECT_TRUE(exists(key));
}

TEST_F(Orphans, ASlotIsLookedAtOnce) {
  const TaskId task = created(kOld);
  crash(task);
  succeed(task, 2);
  EXPECT_EQ(delete_orphans(), 1U);
  const std::string late = stored(task);
  EXPECT_EQ(delete_orphans(), 0U);
  EXPECT_TRUE(exists(late));
}

// Its file names a task of another day: to look at all tasks between would take far too long.
TEST_F(Orphans, AClockThatWasOffByDaysIsLeftAlone) {
  const TaskId task = created(days(50));
  EXPECT_TRUE(claim(task));
  writing_at_ = made_at(created(kOld).uuid);
  const auto key = blobs_->put(make_blob_name(task, OutputFormat::kMp3, 24000), "sound");
  writing_at_.reset();
  expire_lease(task);
  must(store_.sweep(100));
  succeed(task, 2);
  EXPECT_EQ(delete_orphans(), 0U);
  EXPECT_TRUE(exists(*key));
}

TEST_F(Orphans, AnInterruptedRunGoesOn) {
  std::vector<std::string> orphans;
  for (int i = 0; i < 3; ++i) {
    orphans.push_back(orphan(kOld + std::chrono::hours(i)));
  }
  EXPECT_EQ(delete_one_of(orphans), 1U);
  EXPECT_EQ(delete_one_of(orphans), 0U);
  blobs_ = open_blobs();
  EXPECT_EQ(delete_orphans(), 2U);
}

// However many there are in a slot: SIGTERM waits for one file.
TEST_F(Orphans, AFileIsTheLastOfARunThatIsToEnd) {
  std::vector<std::string> orphans(5);
  for (std::string& key : orphans) {
    key = orphan(kOld);
  }
  EXPECT_EQ(delete_one_of(orphans), 1U);
  EXPECT_EQ(delete_orphans(), 4U) << "its slot does not count as looked at";
}

// What is looked at by one statement is bounded, whatever is doubtful of it.
TEST_F(Orphans, TasksAreLookedAtSomeAtATime) {
  std::vector<TaskId> tasks;
  for (int i = 0; i < 5; ++i) {
    tasks.push_back(created(kOld));
  }
  std::sort(tasks.begin(), tasks.end());
  must(store_.cancel(tasks[4]));
  std::optional<TaskId> from = tasks.front();
  std::size_t looks = 0;
  std::vector<TaskId> doubtful;
  for (; from && looks < 10; ++looks) {
    const auto part = must(store_.doubtful_outputs(*from, tasks.back(), 3));
    for (const TaskOutput& output : part.tasks) {
      doubtful.push_back(output.task);
    }
    from = part.last;
  }
  EXPECT_EQ(looks, 2U);
  EXPECT_THAT(doubtful, testing::ElementsAre(tasks[4]));
}

TEST_F(Orphans, ADatabaseThatIsAwayLosesNoSlot) {
  const std::string left = orphan(kOld);
  db_.execute(Sql("RENAME TABLE tasks TO away"));
  EXPECT_EQ(delete_orphans(), 0U);
  db_.execute(Sql("RENAME TABLE away TO tasks"));
  EXPECT_EQ(delete_orphans(), 1U);
  EXPECT_FALSE(exists(left));
}

TEST_F(Orphans, ASlotThatCannotBeReadIsLookedAtAgain) {
  const std::string left = orphan(kOld);
  hide(left);
  EXPECT_EQ(delete_orphans(), 0U);
  unhide();
  EXPECT_EQ(delete_orphans(), 1U);
  EXPECT_FALSE(exists(left));
  EXPECT_EQ(blobs_->unchecked(must(store_.now()), 10).size(), 0U) << "and then no more";
}

// It ended each run, and the next began with it: what lay behind it stayed for ever.
TEST_F(Orphans, ASlotThatCannotBeReadKeepsNoOther) {
  const std::string first = orphan(kOld + std::chrono::hours(2));
  const std::string second = orphan(kOld + std::chrono::hours(1));
  hide(first);
  EXPECT_EQ(delete_orphans(), 1U);
  EXPECT_FALSE(exists(second));
  const std::string third = orphan(kOld);
  blobs_ = open_blobs();
  EXPECT_EQ(delete_orphans(), 1U) << "it is the next one's turn";
  EXPECT_FALSE(exists(third));
  unhide();
  EXPECT_EQ(delete_orphans(), 1U);
  EXPECT_FALSE(exists(first));
}

TEST_F(Orphans, ASegmentThatCannotBeReadKeepsNoOther) {
  const std::string key = orphan(kOld);
  const std::string slot = key.substr(0, 6);
  std::filesystem::create_symlink("/etc/passwd",
                                  folder_.path() + "/" + slot + "/" + slot + "00000000000000.2");
  EXPECT_EQ(delete_orphans(), 1U);
  EXPECT_FALSE(exists(key));
}

// Its last output went while somebody might still append to it, so its file had to stay.
TEST_F(Orphans, ASegmentWithoutOutputsGoes) {
  const TaskId task = created(kOld);
  const std::string key = stored(task);
  writing_at_ = made_at(task.uuid);
  EXPECT_TRUE(blobs_->remove(key));
  writing_at_.reset();
  ASSERT_EQ(folder_.files().size(), 1U);
  EXPECT_EQ(delete_orphans(), 0U) << "it is no file of anybody's";
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()), {}), 1)
      << "the note alone";
}

TEST_F(Orphans, RetentionAndTheyLeaveNoFolder) {
  orphan(days(40));
  EXPECT_EQ(delete_old(*blobs_), 1U);
  EXPECT_EQ(delete_orphans(), 1U);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()), {}), 1)
      << "the note alone";
}

}  // namespace
}  // namespace audiogen::store
