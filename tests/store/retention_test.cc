// Files past their retention go, their tasks stay and say so, and an interrupted run goes on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/wire.h"
#include "common/blob/blob_store.h"
#include "tests/blob/temporary_folder.h"
#include "tests/store/task_fixture.h"
#include "worker/janitor.h"

namespace audiogen::store {
namespace {

using std::chrono::days;
using testing::HasSubstr;
using testing::Not;

// Fails to remove after `patience` files.
class BrokenStore final : public BlobStore {
 public:
  BrokenStore(BlobStore& inner, std::size_t patience) : inner_(inner), patience_(patience) {}
  Result<Done> put(std::string_view key, std::string_view bytes) override {
    return inner_.put(key, bytes);
  }
  Result<Done> remove(std::string_view key) override {
    if (patience_ == 0) {
      return Error{"the store is away"};
    }
    --patience_;
    return inner_.remove(key);
  }

 private:
  BlobStore& inner_;
  std::size_t patience_;
};

class Retention : public TaskStoreTest {
 protected:
  // A succeeded task with a file, created `age` ago.
  TaskId finished(std::chrono::seconds age) {
    CreateCommand command = create_command(user_);
    const auto now =
        std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now());
    const Uuid start = first_uuid_at(now - age);
    std::copy(start.bytes.begin(), start.bytes.begin() + 6, command.id.uuid.bytes.begin());
    must(store_.create({&command, 1}));
    const ClaimOutcome claimed = claim(command.id);
    SettleCommand success = settle_command(SettleCommand::Kind::kSucceed, *claimed);
    success.output_key = make_blob_key(command.id, OutputFormat::kMp3, 24000);
    EXPECT_TRUE(blobs_->put(success.output_key, "sound"));
    EXPECT_EQ(settle(success), SettleOutcome::kSettled);
    return command.id;
  }

  std::string rendered(TaskId task) {
    return api::render_task(*find(task, user_),
                            {"svc-audio-1.0", "https://cdn.test/f", std::nullopt, days(30)});
  }

  test::TemporaryFolder folder_;
  std::unique_ptr<DirectoryStore> blobs_ = *DirectoryStore::open(folder_.path());
  UserId user_ = db_.add_user();
};

TEST_F(Retention, OldFilesGoAndTheirTasksSaySo) {
  const TaskId old = finished(days(31));
  const TaskId recent = finished(days(29));
  EXPECT_THAT(rendered(old), HasSubstr("\"expires_at\":\""));
  EXPECT_EQ(worker::delete_old_outputs(store_, *blobs_, days(30)), 1U);
  EXPECT_FALSE(blobs_->read(find(old, user_)->output_key));
  EXPECT_TRUE(blobs_->read(find(recent, user_)->output_key));
  EXPECT_THAT(rendered(old), HasSubstr("\"deleted_at\":\""));
  EXPECT_THAT(rendered(old), Not(HasSubstr("expires_at")));
  EXPECT_THAT(rendered(old), HasSubstr("\"duration_seconds\":60"));
  EXPECT_THAT(rendered(recent), Not(HasSubstr("deleted_at")));
  EXPECT_EQ(worker::delete_old_outputs(store_, *blobs_, days(30)), 0U) << "done once";
}

TEST_F(Retention, AnInterruptedRunGoesOn) {
  std::vector<TaskId> tasks;
  for (int i = 0; i < 5; ++i) {
    tasks.push_back(finished(days(40) - std::chrono::seconds(i)));
  }
  BrokenStore broken(*blobs_, 2);
  EXPECT_EQ(worker::delete_old_outputs(store_, broken, days(30)), 2U);
  const auto marked = find(tasks[4], user_)->output_deleted_at;
  EXPECT_TRUE(marked) << "said before the file goes";
  EXPECT_EQ(worker::delete_old_outputs(store_, *blobs_, days(30)), 5U);
  EXPECT_TRUE(folder_.files().empty());
  EXPECT_EQ(find(tasks[4], user_)->output_deleted_at, marked);
}

TEST_F(Retention, MoreThanOneBatch) {
  for (int i = 0; i < 7; ++i) {
    finished(days(40));
  }
  std::size_t seen = 0;
  for (auto old = must(store_.take_old_outputs(days(30), 3)); old.looked_at > 0;
       old = must(store_.take_old_outputs(days(30), 3))) {
    seen += old.keys.size();
    must(store_.old_outputs_deleted(old.last));
  }
  EXPECT_EQ(seen, 7U);
}

}  // namespace
}  // namespace audiogen::store
