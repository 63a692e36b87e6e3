// What every BlobStore promises, run against each of them.
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "common/blob/blob_store.h"
#include "common/blob/s3_store.h"
#include "tests/blob/temporary_folder.h"
#include "tests/support/s3_double.h"

namespace audiogen {
namespace {

class DirectoryFixture {
 public:
  BlobStore& store() { return *store_; }
  std::optional<std::string> stored(const std::string& key) {
    const auto file = store_->read(key);
    if (!file) {
      return std::nullopt;
    }
    std::string out(static_cast<std::size_t>(file->size), '\0');
    const ssize_t count = ::pread(file->fd, out.data(), out.size(), 0);
    ::close(file->fd);
    return count == file->size ? std::optional(out) : std::nullopt;
  }
  // Everything kept, whatever its name.
  std::size_t kept() const { return folder_.files().size(); }

 private:
  test::TemporaryFolder folder_;
  std::unique_ptr<DirectoryStore> store_ = *DirectoryStore::open(folder_.path() + "/made/here");
};

class S3Fixture {
 public:
  BlobStore& store() { return *store_; }
  std::optional<std::string> stored(const std::string& key) const {
    const auto object = double_.object("made/here/" + key);
    return object ? std::optional(object->bytes) : std::nullopt;
  }
  std::size_t kept() const { return double_.objects(); }

 private:
  const S3Credentials credentials_{"id", "secret"};
  test::S3Double double_{"audio", "eu-west-3", credentials_};
  std::unique_ptr<BlobStore> store_ = *open_blob_store(
      "s3://audio/made/here?region=eu-west-3&endpoint=" + double_.endpoint(), credentials_);
};

template <class Fixture>
class BlobStoreContract : public testing::Test {
 protected:
  std::string key() const { return make_blob_key(TaskId::make(), OutputFormat::kMp3, 24000); }
  Fixture fixture_;
};
using Fixtures = testing::Types<DirectoryFixture, S3Fixture>;
TYPED_TEST_SUITE(BlobStoreContract, Fixtures);

TYPED_TEST(BlobStoreContract, PutStoresTheBytes) {
  const std::string key = this->key();
  const std::string bytes("\0audio\r\n\xff", 9);
  ASSERT_TRUE(this->fixture_.store().put(key, bytes));
  EXPECT_EQ(this->fixture_.stored(key), bytes);
  EXPECT_EQ(this->fixture_.stored(this->key()), std::nullopt);
}

TYPED_TEST(BlobStoreContract, PutStoresMegabytes) {
  std::string bytes(5'000'000, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<char>(i * 2654435761U >> 13U);
  }
  const std::string key = this->key();
  ASSERT_TRUE(this->fixture_.store().put(key, bytes));
  EXPECT_TRUE(this->fixture_.stored(key) == bytes);
}

TYPED_TEST(BlobStoreContract, PutStoresABatch) {
  std::vector<std::string> keys;
  for (int i = 0; i < 20; ++i) {
    keys.push_back(this->key());
  }
  std::vector<NewBlob> blobs;
  for (const std::string& key : keys) {
    blobs.push_back({key, key});
  }
  const auto results = this->fixture_.store().put(blobs);
  EXPECT_EQ(results.size(), keys.size());
  for (const auto& result : results) {
    EXPECT_TRUE(result);
  }
  for (const std::string& key : keys) {
    EXPECT_EQ(this->fixture_.stored(key), key);
  }
  EXPECT_TRUE(this->fixture_.store().put({}).empty());
  EXPECT_EQ(this->fixture_.kept(), keys.size());
}

TYPED_TEST(BlobStoreContract, RemoveRemovesThatKeyAlone) {
  const std::string key = this->key();
  const std::string other = this->key();
  ASSERT_TRUE(this->fixture_.store().put(key, "audio"));
  ASSERT_TRUE(this->fixture_.store().put(other, "audio"));
  ASSERT_TRUE(this->fixture_.store().remove(key));
  EXPECT_EQ(this->fixture_.stored(key), std::nullopt);
  EXPECT_EQ(this->fixture_.stored(other), "audio");
}

TYPED_TEST(BlobStoreContract, RemovingWhatIsNotThereIsNoError) {
  EXPECT_TRUE(this->fixture_.store().remove(this->key()));
  EXPECT_TRUE(this->fixture_.store().remove("../../etc/passwd"));
}

TYPED_TEST(BlobStoreContract, RefusesNamesThatAreNoKeys) {
  EXPECT_DEATH(static_cast<void>(this->fixture_.store().put("../x.mp3", "audio")), "is_blob_key");
}

TYPED_TEST(BlobStoreContract, ManyThreadsAtOnce) {
  constexpr std::size_t kThreads = 8;
  constexpr std::size_t kEach = 20;
  std::vector<std::vector<std::string>> keys(kThreads);
  std::vector<std::thread> threads;
  for (auto& mine : keys) {
    threads.emplace_back([this, &mine] {
      for (std::size_t i = 0; i < kEach; ++i) {
        mine.push_back(this->key());
        EXPECT_TRUE(
            this->fixture_.store().put(mine.back(), std::string(20'000, 'x') + mine.back()));
      }
      EXPECT_TRUE(this->fixture_.store().remove(mine.front()));
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(this->fixture_.kept(), kThreads * (kEach - 1));
  for (const auto& mine : keys) {
    for (std::size_t i = 1; i < mine.size(); ++i) {
      EXPECT_EQ(this->fixture_.stored(mine[i]), std::string(20'000, 'x') + mine[i]);
    }
  }
}

}  // namespace
}  // namespace audiogen
