// Files: never half of one under its name, whatever the disk or the process does (reliability 9,
// rows 72-74).
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/blob/blob_store.h"
#include "tests/blob/temporary_folder.h"

namespace audiogen {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class DirectoryStoreTest : public testing::Test {
 protected:
  std::string key() const { return make_blob_key(TaskId::make(), OutputFormat::kWav, 24000); }

  test::TemporaryFolder folder_;
  std::unique_ptr<DirectoryStore> store_ = *DirectoryStore::open(folder_.path());
};

TEST_F(DirectoryStoreTest, AFileIsSeenWholeOrNotAtAll) {
  const std::string bytes(5'000'000, 'x');
  for (int round = 0; round < 5; ++round) {
    const std::string key = this->key();
    std::atomic<bool> looking{false};
    std::atomic<bool> done{false};
    std::thread reader([&] {
      while (!done.load()) {
        if (const auto file = store_->read(key)) {
          EXPECT_EQ(file->size, static_cast<std::int64_t>(bytes.size()));
          ::close(file->fd);
        }
        looking.store(true);
      }
    });
    while (!looking.load()) {
      std::this_thread::yield();
    }
    EXPECT_TRUE(store_->put(key, bytes));
    done.store(true);
    reader.join();
  }
}

TEST_F(DirectoryStoreTest, ReadsOnlyKeysAndOnlyFiles) {
  const std::string key = this->key();
  EXPECT_EQ(store_->read(key), std::nullopt);
  EXPECT_EQ(store_->read("../../etc/passwd"), std::nullopt);
  ASSERT_TRUE(store_->put(key, "audio"));
  const fs::path path = folder_.files().at(0);
  fs::remove(path);
  fs::create_symlink("/etc/passwd", path);
  EXPECT_EQ(store_->read(key), std::nullopt);
  fs::remove(path);
  fs::create_directory(path);
  EXPECT_EQ(store_->read(key), std::nullopt);
}

// The file size limit stands for a full disk: a write stores less than asked, the next one fails.
TEST_F(DirectoryStoreTest, AFullDiskIsACleanErrorAndLeavesNothing) {
  const std::string key = this->key();
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{100'000, 100'000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const auto stored = store_->put(key, std::string(250'000, 'x'));
    const bool clean = !stored && stored.error().message == "blob store: write: File too large" &&
                       folder_.files().empty() && store_->put(key, std::string(50'000, 'x'));
    ::_exit(clean ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(folder_.files().size(), 1U);
  EXPECT_TRUE(store_->read(key));
}

TEST_F(DirectoryStoreTest, AFolderThatCannotBeMadeIsACleanError) {
  const std::string key = this->key();
  const std::string below = folder_.path() + "/" + key.substr(27, 2);
  std::ofstream(below) << "in the way";
  const auto stored = store_->put(key, "audio");
  ASSERT_FALSE(stored);
  EXPECT_THAT(stored.error().message, HasSubstr("blob store: open: "));
  EXPECT_EQ(folder_.files().size(), 1U);
  EXPECT_FALSE(DirectoryStore::open(below));
}

TEST_F(DirectoryStoreTest, ATakenNameIsACleanErrorAndLeavesNothing) {
  const std::string key = this->key();
  fs::create_directories(folder_.path() + "/" + key.substr(27, 2) + "/" + key + "/x");
  const auto stored = store_->put(key, "audio");
  ASSERT_FALSE(stored);
  EXPECT_THAT(stored.error().message, HasSubstr("blob store: rename: "));
  EXPECT_TRUE(folder_.files().empty());
}

#ifdef AUDIOGEN_CRASH_POINTS
// A death test because those come first: a process reads CRASH_POINT once.
TEST(DirectoryStoreDeathTest, AKillBeforeTheRenameLeavesATemporaryFileOnly) {
  const test::TemporaryFolder folder;
  const std::string key = make_blob_key(TaskId::make(), OutputFormat::kMp3, 24000);
  EXPECT_EXIT(
      {
        setenv("CRASH_POINT", "blob.written:1", 1);  // NOLINT(concurrency-mt-unsafe)
        static_cast<void>((*DirectoryStore::open(folder.path()))->put(key, "audio"));
      },
      testing::ExitedWithCode(137),
      "crash point");
  const auto files = folder.files();
  ASSERT_EQ(files.size(), 1U);
  EXPECT_EQ(fs::path(files[0]).extension(), ".tmp");
  EXPECT_EQ(fs::file_size(files[0]), 5U);
}
#endif

TEST_F(DirectoryStoreTest, OnlyOldTemporaryFilesAreCleanedAway) {
  ASSERT_TRUE(store_->put(key(), "audio"));
  const fs::path audio = folder_.files().at(0);
  const fs::path fresh = audio.string() + "-fresh.tmp";
  const fs::path stale = audio.string() + "-stale.tmp";
  for (const fs::path& path : {fresh, stale}) {
    std::ofstream(path) << "half";
  }
  const auto now = fs::file_time_type::clock::now();
  fs::last_write_time(audio, now - std::chrono::hours(1000));
  fs::last_write_time(fresh, now - std::chrono::hours(23));
  fs::last_write_time(stale, now - std::chrono::hours(25));
  EXPECT_EQ(store_->remove_stale_temporaries(), 1U);
  EXPECT_TRUE(fs::exists(audio));
  EXPECT_TRUE(fs::exists(fresh));
  EXPECT_FALSE(fs::exists(stale));
}

}  // namespace
}  // namespace audiogen
