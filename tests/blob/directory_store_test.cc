// Files: where they lie, what is left of a put that fails (reliability 9, rows 72, 73), and which
// of them still want a look.
#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

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
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class DirectoryStoreTest : public testing::Test {
 protected:
  std::string key() const { return make_blob_key(TaskId::make(), OutputFormat::kWav, 24000); }

  test::TemporaryFolder folder_;
  std::unique_ptr<DirectoryStore> store_ = *DirectoryStore::open(folder_.path());
};

TEST_F(DirectoryStoreTest, FilesOfOneTimeLieTogether) {
  const std::string key = "01m7z5s000000000000000000a-0123456789abcdefghjkmnpqrs-24000.mp3";
  ASSERT_TRUE(store_->put(key, "audio"));
  EXPECT_THAT(folder_.files(), ElementsAre(folder_.path() + "/01m7z/5s/" + key));
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
TEST_F(DirectoryStoreTest, AFullDiskFailsThatFileAloneAndLeavesNothingOfIt) {
  const std::string large = this->key();
  const std::string small = this->key();
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{100'000, 100'000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const std::string bytes(250'000, 'x');
    const std::array<NewBlob, 2> blobs = {
        NewBlob{large, bytes}, NewBlob{small, std::string_view(bytes).substr(0, 50'000)}};
    const auto results = store_->put(blobs);
    const bool clean = !results[0] &&
                       results[0].error().message == "blob store: write: File too large" &&
                       results[1];
    ::_exit(clean ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(folder_.files().size(), 1U);
  EXPECT_TRUE(store_->read(small));
}

TEST_F(DirectoryStoreTest, AFolderThatCannotBeMadeIsACleanError) {
  const std::string key = this->key();
  const std::string upper = folder_.path() + "/" + key.substr(0, 5);
  std::ofstream(upper) << "in the way";
  const auto stored = store_->put(key, "audio");
  ASSERT_FALSE(stored);
  EXPECT_THAT(stored.error().message, HasSubstr("blob store: open: "));
  EXPECT_EQ(folder_.files().size(), 1U);
  EXPECT_FALSE(DirectoryStore::open(upper));
}

TEST_F(DirectoryStoreTest, ATakenNameIsACleanErrorAndKeepsItsFile) {
  const std::string key = this->key();
  ASSERT_TRUE(store_->put(key, "the first"));
  const auto stored = store_->put(key, "the second, longer");
  ASSERT_FALSE(stored);
  EXPECT_THAT(stored.error().message, HasSubstr("blob store: open: File exists"));
  const auto file = store_->read(key);
  ASSERT_TRUE(file);
  EXPECT_EQ(file->size, 9);
  ::close(file->fd);
}

TEST_F(DirectoryStoreTest, RemovingTheLastFileRemovesItsFolders) {
  const std::string key = this->key();
  const std::string neighbour = key.substr(0, 27) + std::string(26, '0') + "-24000.wav";
  ASSERT_TRUE(store_->put(key, "audio"));
  ASSERT_TRUE(store_->put(neighbour, "audio"));
  ASSERT_TRUE(store_->remove(key));
  EXPECT_TRUE(fs::exists(folder_.path() + "/" + key.substr(0, 5) + "/" + key.substr(5, 2)));
  ASSERT_TRUE(store_->remove(neighbour));
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

TEST_F(DirectoryStoreTest, AFolderThatGoesAwayMeanwhileIsMadeAgain) {
  const std::string task = encode_base32(new_uuid());
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 20; ++round) {
        const std::string key = task + "-" + random_base32(26) + "-24000.wav";
        const auto stored = store_->put(key, "audio");
        EXPECT_TRUE(stored) << stored.error().message;
        EXPECT_TRUE(store_->remove(key));
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

class Windows : public DirectoryStoreTest {
 protected:
  // A file in the window of this name.
  void file_in(const std::string& window) {
    const std::string key = window + std::string(19, '1') + "-" + random_base32(26) + "-24000.wav";
    ASSERT_TRUE(store_->put(key, "audio"));
  }
  static TaskId id(const std::string& window, char rest) {
    return TaskId{*decode_base32(window + std::string(19, rest))};
  }
  std::vector<std::string> unchecked(const std::string& end, std::size_t limit = 10) const {
    std::vector<std::string> names;
    for (const BlobWindow& window : store_->unchecked(id(end, '1'), limit)) {
      names.push_back(encode_base32(window.first.uuid).substr(0, 7));
      EXPECT_EQ(window.first, id(names.back(), '0'));
      EXPECT_EQ(window.last, id(names.back(), 'z'));
    }
    return names;
  }
};

TEST_F(Windows, ComeOldestFirstAndOnlyOnceEnded) {
  for (const char* name : {"01m8000", "01m7zzz", "01m7z5t", "01m7z5s"}) {
    file_in(name);
  }
  fs::create_directories(folder_.path() + "/lost+found/xx");
  EXPECT_THAT(unchecked("01m8000"), ElementsAre("01m7z5s", "01m7z5t", "01m7zzz"));
  EXPECT_THAT(unchecked("01m8001", 2), ElementsAre("01m7z5s", "01m7z5t"));
  EXPECT_THAT(unchecked("01m7z5s"), IsEmpty());
}

TEST_F(Windows, AreRememberedAsChecked) {
  for (const char* name : {"01m7z5s", "01m7z5t", "01m8000"}) {
    file_in(name);
  }
  ASSERT_TRUE(store_->mark_checked({id("01m7z5t", '0'), id("01m7z5t", 'z')}));
  EXPECT_THAT(unchecked("01m8001"), ElementsAre("01m8000"));
  store_ = *DirectoryStore::open(folder_.path());
  EXPECT_THAT(unchecked("01m8001"), ElementsAre("01m8000"));
  std::ofstream(folder_.path() + "/checked") << "zzz";
  EXPECT_THAT(unchecked("01m8001"), SizeIs(3)) << "a spoilt note is no note";
}

TEST_F(Windows, LoseWhatIsUnwanted) {
  file_in("01m7z5s");
  file_in("01m7z5s");
  file_in("01m7z5t");
  const BlobWindow window{id("01m7z5s", '0'), id("01m7z5s", 'z')};
  std::string kept;
  const auto all_but_one = [&](TaskId task, std::string_view key) {
    EXPECT_EQ(task, id("01m7z5s", '1'));
    kept = kept.empty() ? key : kept;
    return key != kept;
  };
  EXPECT_EQ(*store_->remove_if(window, all_but_one), 1U);
  EXPECT_EQ(*store_->remove_if(window, all_but_one), 0U);
  ASSERT_TRUE(store_->remove(kept));
  EXPECT_FALSE(fs::exists(folder_.path() + "/01m7z/5s"));
  EXPECT_EQ(*store_->remove_if(window, all_but_one), 0U) << "no folder";
  EXPECT_EQ(folder_.files().size(), 1U);
}

}  // namespace
}  // namespace audiogen
