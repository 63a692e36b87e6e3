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

#include "common/blob/blob_key.h"
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
    const auto file = *store_->read(key);
    if (!file) {
      return std::nullopt;
    }
    std::string out(static_cast<std::size_t>(file->size), '\0');
    const ssize_t count = ::pread(file->fd, out.data(), out.size(), file->offset);
    ::close(file->fd);
    return count == file->size ? std::optional(out) : std::nullopt;
  }
  // Everything kept, whatever its key.
  std::size_t kept() const {
    std::size_t count = 0;
    for (const BlobSlot& slot : store_->unchecked(Instant::max(), 10)) {
      EXPECT_TRUE(store_->for_each(slot, [&](const std::string&) { return ++count > 0; }));
    }
    return count;
  }

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
  static std::string name() { return make_blob_name(TaskId::make(), OutputFormat::kMp3, 24000); }
  std::string put(std::string_view bytes) {
    const auto key = fixture_.store().put(name(), bytes);
    EXPECT_TRUE(key);
    EXPECT_TRUE(is_blob_key(*key)) << *key;
    return *key;
  }
  Fixture fixture_;
};
using Fixtures = testing::Types<DirectoryFixture, S3Fixture>;
TYPED_TEST_SUITE(BlobStoreContract, Fixtures);

TYPED_TEST(BlobStoreContract, PutStoresTheBytes) {
  const std::string bytes("\0audio\r\n\xff", 9);
  EXPECT_EQ(this->fixture_.stored(this->put(bytes)), bytes);
  EXPECT_EQ(this->fixture_.stored(this->put("")), "");
  EXPECT_EQ(this->fixture_.stored(this->name()), std::nullopt);
}

TYPED_TEST(BlobStoreContract, PutStoresMegabytes) {
  std::string bytes(5'000'000, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<char>(i * 2654435761U >> 13U);
  }
  EXPECT_TRUE(this->fixture_.stored(this->put(bytes)) == bytes);
}

TYPED_TEST(BlobStoreContract, PutStoresABatch) {
  std::vector<std::string> names;
  for (int i = 0; i < 20; ++i) {
    names.push_back(this->name());
  }
  std::vector<NewBlob> blobs;
  for (const std::string& name : names) {
    blobs.push_back({name, name});
  }
  const auto keys = this->fixture_.store().put(blobs);
  ASSERT_EQ(keys.size(), names.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    ASSERT_TRUE(keys[i]);
    EXPECT_EQ(this->fixture_.stored(*keys[i]), names[i]);
  }
  EXPECT_TRUE(this->fixture_.store().put({}).empty());
  EXPECT_EQ(this->fixture_.kept(), names.size());
}

TYPED_TEST(BlobStoreContract, RemoveRemovesThatBlobAlone) {
  const std::string before = this->put("before");
  const std::string key = this->put("audio");
  const std::string after = this->put("after");
  ASSERT_TRUE(this->fixture_.store().remove(key));
  EXPECT_EQ(this->fixture_.stored(key), std::nullopt);
  EXPECT_EQ(this->fixture_.stored(before), "before");
  EXPECT_EQ(this->fixture_.stored(after), "after");
  EXPECT_TRUE(this->fixture_.store().remove(key)) << "again";
}

TYPED_TEST(BlobStoreContract, RemovingWhatIsNotThereIsNoError) {
  EXPECT_TRUE(this->fixture_.store().remove(this->name()));
  EXPECT_TRUE(this->fixture_.store().remove("01m7z5s0123456789abc/0-5/" + this->name()));
  EXPECT_EQ(*this->fixture_.store().remove("../../etc/passwd"), Removal::kNotOurs);
}

TYPED_TEST(BlobStoreContract, RefusesWhatIsNoName) {
  EXPECT_DEATH(static_cast<void>(this->fixture_.store().put("../x.mp3", "audio")), "name");
}

TYPED_TEST(BlobStoreContract, ManyThreadsAtOnce) {
  constexpr std::size_t kThreads = 8;
  constexpr std::size_t kEach = 20;
  struct Stored {
    std::string bytes, key;
  };
  std::vector<std::vector<Stored>> all(kThreads);
  std::vector<std::thread> threads;
  for (auto& mine : all) {
    threads.emplace_back([this, &mine] {
      for (std::size_t i = 0; i < kEach; ++i) {
        const std::string bytes = std::string(20'000, 'x') + this->name();
        mine.push_back({bytes, this->put(bytes)});
      }
      EXPECT_TRUE(this->fixture_.store().remove(mine.front().key));
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(this->fixture_.kept(), kThreads * (kEach - 1));
  for (const auto& mine : all) {
    for (std::size_t i = 1; i < mine.size(); ++i) {
      EXPECT_EQ(this->fixture_.stored(mine[i].key), mine[i].bytes);
    }
  }
}

}  // namespace
}  // namespace audiogen
