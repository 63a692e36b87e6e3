// Segments: where blobs lie in them, what is left of a put that fails, what removing gives back,
// and which slots still want a look.
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/crypto.h"
#include "common/base/unique_fd.h"
#include "common/blob/blob_key.h"
#include "common/blob/blob_store.h"
#include "tests/blob/temporary_folder.h"

namespace {

std::atomic<int> free_fails{0};   // With this error, if not 0.
std::atomic<int> seek_fails{0};   // The same, of what looks for data.
std::atomic<int> flush_fails{0};  // The same, of the next fdatasync() alone.
std::atomic<int> lock_fails{0};   // The same, of flock().
// What happens just before the next shared lock is asked for, if anything.
std::function<void()> before_lock;
std::mutex flushed_mutex;
std::vector<ino_t> flushed;  // Of what fsync() was called for. Guarded by flushed_mutex.
std::string flushed_data;    // Of the file fdatasync() was last called for. Likewise.

}  // namespace

// In place of the C library's, so that a test can say what the file system does.
extern "C" int fallocate(int fd, int mode, off_t offset, off_t length) {
  if (free_fails != 0) {
    errno = free_fails;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_fallocate, fd, mode, offset, length));
}
extern "C" off_t lseek(int fd, off_t offset, int whence) noexcept {
  if (whence == SEEK_DATA && seek_fails != 0) {
    errno = seek_fails;
    return -1;
  }
  return ::syscall(SYS_lseek, fd, offset, whence);
}
extern "C" int flock(int fd, int operation) noexcept {
  if ((operation & LOCK_SH) != 0 && before_lock) {
    std::exchange(before_lock, nullptr)();
  }
  if (lock_fails != 0) {
    errno = lock_fails;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_flock, fd, operation));
}
extern "C" int fsync(int fd) {
  struct stat info {};
  if (::fstat(fd, &info) == 0) {
    const std::scoped_lock lock(flushed_mutex);
    flushed.push_back(info.st_ino);
  }
  return static_cast<int>(::syscall(SYS_fsync, fd));
}

extern "C" int fdatasync(int fd) {
  {
    const std::scoped_lock lock(flushed_mutex);
    std::ifstream file("/proc/self/fd/" + std::to_string(fd), std::ios::binary);
    flushed_data.assign(std::istreambuf_iterator<char>(file), {});
  }
  if (const int error = flush_fails.exchange(0); error != 0) {
    errno = error;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_fdatasync, fd));
}

namespace audiogen {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

constexpr auto kSlot = std::chrono::milliseconds(1 << 20);
constexpr std::int64_t kBlock = 4096;

class DirectoryStoreTest : public testing::Test {
 protected:
  static std::string name() { return make_blob_name(TaskId::make(), OutputFormat::kWav, 24000); }
  void open(std::int64_t segment_max = 1'000'000) {
    store_ = *DirectoryStore::open(
        folder_.path(),
        {.keys = keys_, .segment_max = segment_max, .clock = [this] { return now_; }});
  }
  void SetUp() override { open(); }
  // Another worker's, whose clock is an hour ahead.
  std::unique_ptr<DirectoryStore> open_ahead() {
    return *DirectoryStore::open(
        folder_.path(), {.keys = keys_, .clock = [this] { return now_ + std::chrono::hours(1); }});
  }

  std::string put(std::string_view bytes = "audio") {
    const auto key = store_->put(name(), bytes);
    EXPECT_TRUE(key) << key.error().message;
    return key ? *key : "";
  }
  std::optional<std::string> read(const std::string& key) const {
    const auto blob = *store_->read(key);
    if (!blob) {
      return std::nullopt;
    }
    std::string bytes(static_cast<std::size_t>(blob->size), '\0');
    EXPECT_EQ(::pread(blob->fd, bytes.data(), bytes.size(), blob->offset), blob->size);
    ::close(blob->fd);
    return bytes;
  }
  std::string path_of(const std::string& key) const {
    const std::string segment(parse_blob_key(key)->segment);
    return folder_.path() + "/" + segment.substr(0, 6) + "/" + segment + ".2";
  }
  static struct stat info_of(const std::string& path) {
    struct stat info {};
    EXPECT_EQ(::stat(path.c_str(), &info), 0) << path;
    return info;
  }
  std::vector<std::string> slots(Instant end, std::size_t limit = 10) const {
    std::vector<std::string> names;
    for (const BlobSlot& slot : store_->unchecked(end, limit)) {
      EXPECT_EQ(encode_base32(first_uuid_at(slot.begin)).substr(0, 6), slot.folder);
      names.push_back(slot.folder);
    }
    return names;
  }
  std::vector<std::string> keys(const BlobSlot& slot) const {
    std::vector<std::string> out;
    EXPECT_TRUE(store_->for_each(slot, [&](const std::string& key) {
      out.push_back(key);
      return true;
    }));
    return out;
  }

  test::TemporaryFolder folder_;
  std::vector<std::string> keys_{"key-4567890123456789012345678901"};
  // The begin of the slot "01m7z5".
  Instant now_ = made_at(*decode_base32("01m7z500000000000000000000"));
  std::unique_ptr<DirectoryStore> store_;
};

TEST_F(DirectoryStoreTest, BlobsLieInOneSegmentBlockByBlock) {
  const std::string first = put("audio");
  const std::string second = put(std::string(10'000, 'x'));
  const std::string third = put("sound");
  EXPECT_THAT(first, StartsWith("01m7z50000"));
  ASSERT_THAT(folder_.files(), ElementsAre(path_of(first)));
  EXPECT_EQ(parse_blob_key(first)->offset, 0);
  EXPECT_EQ(parse_blob_key(second)->offset, kBlock);
  EXPECT_EQ(parse_blob_key(third)->offset, 4 * kBlock);
  EXPECT_EQ(read(first), "audio");
  EXPECT_EQ(read(second), std::string(10'000, 'x'));
  EXPECT_EQ(read(third), "sound");
}

TEST_F(DirectoryStoreTest, AFullSegmentAndAnEndedSlotBeginTheNext) {
  open(2 * kBlock);
  const std::string first = put();
  const std::string second = put();
  const std::string third = put();
  EXPECT_EQ(path_of(second), path_of(first));
  EXPECT_NE(path_of(third), path_of(first)) << "full";
  now_ += kSlot;
  const std::string later = put();
  EXPECT_THAT(later, StartsWith("01m7z6"));
  EXPECT_EQ(parse_blob_key(later)->offset, 0);
  EXPECT_THAT(folder_.files(), SizeIs(3));
  EXPECT_EQ(read(first), "audio");
  EXPECT_EQ(read(later), "audio");
}

TEST_F(DirectoryStoreTest, NobodyAppendsToAnothersSegment) {
  const std::string mine = put();
  open();
  const std::string others = put();
  EXPECT_NE(path_of(mine), path_of(others));
  EXPECT_EQ(read(mine), "audio");
}

TEST_F(DirectoryStoreTest, OnlyTheKeyItselfFinds) {
  const std::string key = put("audio");
  const std::string other = put("sound");
  const BlobPlace right = *parse_blob_key(key);
  ASSERT_EQ(read(make_blob_key(right)), "audio");
  const std::string guessed = name();
  const auto changed = [&](auto change) {
    BlobPlace place = right;
    change(place);
    return place;
  };
  const std::string other_seal(parse_blob_key(other)->seal);
  for (const BlobPlace& wrong :
       {changed([&](BlobPlace& place) { place.name = guessed; }),
        changed([&](BlobPlace& place) { place.length -= 1; }),
        changed([&](BlobPlace& place) { place.length += 1; }),
        changed([&](BlobPlace& place) { place.offset += kBlock; }),
        changed([&](BlobPlace& place) { place.offset = 1'000'000 * kBlock; }),
        changed([&](BlobPlace& place) { place.segment = "01m7z500000000000000"; }),
        changed([&](BlobPlace& place) { place.seal = other_seal; }),
        changed([&](BlobPlace& place) { place.seal = {}; })}) {
    EXPECT_EQ(read(make_blob_key(wrong)), std::nullopt) << make_blob_key(wrong);
    const auto removed = store_->remove(make_blob_key(wrong));
    ASSERT_TRUE(removed);
    // Where a blob lies, of which nobody can tell whether it is this one.
    const bool there = wrong.segment == right.segment && wrong.offset <= right.offset + kBlock;
    EXPECT_EQ(*removed, there && !wrong.seal.empty() ? Removal::kNotOurs : Removal::kGone)
        << make_blob_key(wrong);
  }
  EXPECT_EQ(read(std::string(right.name)), std::nullopt);
  EXPECT_EQ(read("../../etc/passwd"), std::nullopt);
  EXPECT_EQ(read(key), "audio");
  EXPECT_EQ(read(other), "sound");
}

TEST_F(DirectoryStoreTest, ReadsOnlyFilesAndNothingCutOff) {
  const std::string key = put(std::string(10'000, 'x'));
  const std::string path = path_of(key);
  fs::resize_file(path, 2 * kBlock);
  EXPECT_EQ(read(key), std::nullopt);
  fs::resize_file(path, 100);
  EXPECT_EQ(read(key), std::nullopt);
  fs::remove(path);
  EXPECT_EQ(read(key), std::nullopt);
  fs::create_directory(path);
  EXPECT_EQ(read(key), std::nullopt);
  fs::remove(path);
  fs::create_symlink("/etc/passwd", path);
  const auto linked = store_->read(key);
  ASSERT_FALSE(linked) << "not missing, and not to be read either";
  EXPECT_THAT(linked.error().message, HasSubstr("blob store: open: "));
}

TEST_F(DirectoryStoreTest, WithoutADescriptorNobodyCanTell) {
  const std::string key = put("audio");
  const std::string old = "01m7z5s000000000000000000a-0123456789abcdefghjkmnpqrs-24000.mp3";
  EXPECT_EQ(read(old), std::nullopt);
  rlimit usual{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &usual), 0);
  const rlimit none{0, usual.rlim_max};  // Open descriptors stay, no more come.
  // The sanitizer needs a pipe for the first call of a virtual function: of an error's message.
  ASSERT_FALSE(std::generic_category().message(EMFILE).empty());
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto found = store_->read(key);
  const auto other = store_->read(old);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &usual), 0);
  ASSERT_FALSE(found) << "it is not missing";
  EXPECT_EQ(found.error().message, "blob store: open: Too many open files");
  EXPECT_FALSE(other);
  EXPECT_EQ(read(key), "audio");
}

// What a provider sends lies between the headers, where it likes.
std::string header_of(std::string_view magic,
                      std::uint64_t length,
                      std::string_view name,
                      const Sha256& seal = {}) {
  std::string out(magic);
  out += std::string(8, '\0');
  out.append(reinterpret_cast<const char*>(&length), sizeof length);
  out += name;
  out.resize(96);
  out.append(reinterpret_cast<const char*>(seal.data()), seal.size());
  return out;
}
constexpr std::string_view kOldMagic = "AGblob1\n", kMagic = "AGblob2\n";

// In the second block of a blob.
std::string samples_with(const std::string& header) {
  return std::string(static_cast<std::size_t>(kBlock) - 128, 's') + header + "sound";
}

TEST_F(DirectoryStoreTest, AHeaderAmongSamplesOpensNothing) {
  const std::string forged = name();
  for (const std::string_view magic : {kOldMagic, kMagic}) {
    const std::uint64_t length = 3 * static_cast<std::uint64_t>(kBlock);
    const std::string mine = put(samples_with(header_of(magic, length, forged)));
    const std::string victim = put("the neighbour's sound");
    const BlobPlace at = *parse_blob_key(mine);
    put(std::string(20'000, 'x'));
    // As keys are now, with the seal of the blob around it or any other, and as they were.
    for (const std::string& seal : {std::string(at.seal), std::string(18, '0'), std::string()}) {
      const std::string key = make_blob_key({.segment = at.segment,
                                             .offset = at.offset + kBlock,
                                             .length = length,
                                             .name = forged,
                                             .seal = seal});
      EXPECT_EQ(read(key), std::nullopt) << key;
      EXPECT_TRUE(store_->remove(key));
    }
    EXPECT_EQ(read(victim), "the neighbour's sound");
  }
}

TEST_F(DirectoryStoreTest, AKeyIsOfNoUseElsewhereOrUnderAnotherSigningKey) {
  const std::string key = put("audio");
  const std::string file = path_of(key);
  keys_ = {"another-8901234567890123456789012"};
  open();
  EXPECT_EQ(read(key), std::nullopt);
  EXPECT_TRUE(store_->remove(key));
  keys_.push_back("key-4567890123456789012345678901");
  open();
  EXPECT_EQ(read(key), "audio") << "the key before is believed";
  const std::string fresh = put("sound");
  keys_.pop_back();
  open();
  EXPECT_EQ(read(fresh), "sound") << "and the new one seals";
  EXPECT_EQ(read(key), std::nullopt);
  // The whole segment, header and all, under another name.
  fs::copy_file(path_of(fresh), folder_.path() + "/01m7z5/01m7z500000000000000.2");
  BlobPlace moved = *parse_blob_key(fresh);
  moved.segment = "01m7z500000000000000";
  EXPECT_EQ(read(make_blob_key(moved)), std::nullopt);
}

TEST_F(DirectoryStoreTest, WithoutASigningKeyTheFolderKeepsOne) {
  keys_.clear();
  open();
  const std::string key = put("audio");
  EXPECT_EQ(info_of(folder_.path() + "/key").st_mode & 0777U, 0600U);
  EXPECT_EQ(fs::file_size(folder_.path() + "/key"), 52U);
  open();
  EXPECT_EQ(read(key), "audio");
  keys_ = {"key-4567890123456789012345678901"};
  open();
  EXPECT_EQ(read(key), "audio") << "a key that is set later comes on top";
  const std::string sealed = put("sound");
  keys_.clear();
  open();
  EXPECT_EQ(read(sealed), std::nullopt);
  fs::resize_file(folder_.path() + "/key", 10);
  const auto spoilt = DirectoryStore::open(folder_.path());
  ASSERT_FALSE(spoilt);
  EXPECT_THAT(spoilt.error().message, HasSubstr("BLOB_SIGNING_KEY"));
}

TEST_F(DirectoryStoreTest, OfManyThatOpenAFolderOneMakesTheKey) {
  const std::string folder = folder_.path() + "/new";
  std::vector<std::unique_ptr<DirectoryStore>> stores(8);
  std::vector<std::thread> threads;
  for (auto& store : stores) {
    threads.emplace_back([&] { store = *DirectoryStore::open(folder); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const auto& store : stores) {
    const auto key = store->put(name(), "audio");
    ASSERT_TRUE(key);
    for (const auto& other : stores) {
      const auto found = *other->read(*key);
      ASSERT_TRUE(found);
      ::close(found->fd);
    }
  }
  EXPECT_EQ(info_of(folder).st_mode & 0777U, 0700U);
}

TEST_F(DirectoryStoreTest, NobodyElseOnTheMachineCanRead) {
  const mode_t usual = ::umask(0);
  const std::string key = put();
  ::umask(usual);
  EXPECT_EQ(info_of(path_of(key)).st_mode & 0777U, 0600U);
  EXPECT_EQ(info_of(folder_.path() + "/01m7z5").st_mode & 0777U, 0700U);
}

// Segments of the releases before seals.
class OldSegments : public DirectoryStoreTest {
 protected:
  // A segment with these blobs; their keys.
  std::vector<std::string> write(const std::vector<std::string>& blobs) const {
    const std::string segment = "01m7z5s0123456789abc";
    fs::create_directories(folder_.path() + "/01m7z5");
    std::ofstream file(folder_.path() + "/01m7z5/" + segment, std::ios::binary);
    std::vector<std::string> keys;
    for (const std::string& bytes : blobs) {
      const std::string blob = name();
      keys.push_back(make_blob_key({.segment = segment,
                                    .offset = file.tellp(),
                                    .length = bytes.size(),
                                    .name = blob,
                                    .seal = {}}));
      std::string all = header_of(kOldMagic, bytes.size(), blob) + bytes;
      all.resize((all.size() + kBlock - 1) / kBlock * kBlock);
      file << all;
    }
    return keys;
  }
};

TEST_F(OldSegments, AreStillReadAndRemoved) {
  const auto keys = write({"audio", std::string(10'000, 'x'), "sound"});
  EXPECT_EQ(keys[1].substr(20, 12), "/4096-10000/");
  EXPECT_EQ(read(keys[0]), "audio");
  EXPECT_EQ(read(keys[1]), std::string(10'000, 'x'));
  ASSERT_TRUE(store_->remove(keys[0]));
  EXPECT_EQ(read(keys[0]), std::nullopt);
  EXPECT_EQ(read(keys[2]), "sound");
  now_ += 2 * kSlot;
  ASSERT_TRUE(store_->remove(keys[1]));
  ASSERT_TRUE(store_->remove(keys[2]));
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

// An address of them can be forged with a header among samples, so only whoever asks for it has
// them read. They are removed all the same, and what has a seal, or a file of its own, is read.
TEST_F(OldSegments, AreNotReadWhereThatIsRefused) {
  const auto keys = write({"audio"});
  const std::string sealed = put("sound");
  const std::string alone = "01m7z5s000000000000000000a-0123456789abcdefghjkmnpqrs-24000.mp3";
  fs::create_directories(folder_.path() + "/01m7z/5s");
  std::ofstream(folder_.path() + "/01m7z/5s/" + alone) << "alone";
  ASSERT_EQ(read(keys[0]), "audio");
  store_ = *DirectoryStore::open(folder_.path(), {.keys = keys_, .reads_unsealed = false});
  EXPECT_EQ(read(keys[0]), std::nullopt);
  EXPECT_EQ(read(sealed), "sound");
  EXPECT_EQ(read(alone), "alone");
  ASSERT_TRUE(store_->remove(keys[0]));
  open();
  EXPECT_EQ(read(keys[0]), std::nullopt) << "it is gone";
}

TEST_F(OldSegments, GoAlsoWhereNothingCanBeFreed) {
  const auto keys = write({"audio", std::string(10'000, 'x'), "sound"});
  now_ += 2 * kSlot;
  free_fails = EOPNOTSUPP;
  for (const std::string& key : keys) {
    EXPECT_THAT(folder_.files(), SizeIs(1));
    EXPECT_TRUE(store_->remove(key));
    EXPECT_EQ(read(key), std::nullopt);
  }
  free_fails = 0;
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

// Their headers prove nothing, so nothing is done because of one.
TEST_F(OldSegments, AreNotSearchedForBlobs) {
  write({"audio", "sound"});
  EXPECT_THAT(keys({"01m7z5", {}}), IsEmpty());
}

// The file size limit stands for a full disk: a write stores less than asked, the next one fails.
TEST_F(DirectoryStoreTest, AFullDiskFailsThatBlobAloneAndLeavesNothingOfIt) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{100'000, 100'000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const std::string bytes(250'000, 'x');
    const std::string large = name(), small = name();
    const std::array<NewBlob, 2> blobs = {
        NewBlob{large, bytes}, NewBlob{small, std::string_view(bytes).substr(0, 50'000)}};
    const auto keys = store_->put(blobs);
    const bool clean = !keys[0] && keys[0].error().message == "blob store: write: File too large" &&
                       keys[1] && read(*keys[1]) == blobs[1].bytes;
    ::_exit(clean ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ASSERT_THAT(folder_.files(), SizeIs(1));
  EXPECT_EQ(fs::file_size(folder_.files()[0]), 13 * kBlock);
  EXPECT_THAT(keys(store_->unchecked(Instant::max(), 1).at(0)), SizeIs(1));
}

// The kernel forgets what it could not write, and the next flush of that file would succeed.
TEST_F(DirectoryStoreTest, AFailedFlushStoredNothingAndNothingMoreGoesThere) {
  const std::string before = put("before");
  const std::string first = name(), second = name();
  const std::array<NewBlob, 2> blobs = {NewBlob{first, "lost"}, NewBlob{second, "lost as well"}};
  flush_fails = EIO;
  const auto keys = store_->put(blobs);
  ASSERT_EQ(flush_fails, 0) << "it was never asked for";
  ASSERT_THAT(keys, SizeIs(2));
  for (const auto& key : keys) {
    ASSERT_FALSE(key) << "whoever gets a key takes it for stored";
    EXPECT_EQ(key.error().message, "blob store: flush: Input/output error");
  }
  EXPECT_EQ(fs::file_size(path_of(before)), kBlock) << "a full disk stays full";
  const std::string after = put("after");
  EXPECT_NE(path_of(after), path_of(before));
  EXPECT_EQ(read(after), "after");
  EXPECT_EQ(read(before), "before") << "it was flushed before";
}

TEST_F(DirectoryStoreTest, AFailedFlushLeavesNoSegmentOfItsOwn) {
  flush_fails = ENOSPC;
  const auto stored = store_->put(name(), "lost");
  ASSERT_FALSE(stored);
  EXPECT_EQ(stored.error().message, "blob store: flush: No space left on device");
  EXPECT_TRUE(fs::is_empty(folder_.path()));
  EXPECT_EQ(read(put("after")), "after");
}

TEST_F(DirectoryStoreTest, ASegmentThatCannotBeBegunIsACleanErrorAndTriedAgain) {
  const std::string slot = folder_.path() + "/01m7z5";
  std::ofstream(slot) << "in the way";
  const auto stored = store_->put(name(), "audio");
  ASSERT_FALSE(stored);
  EXPECT_THAT(stored.error().message, HasSubstr("blob store: open: "));
  EXPECT_FALSE(DirectoryStore::open(slot));
  fs::remove(slot);
  EXPECT_EQ(read(put()), "audio");
}

TEST_F(DirectoryStoreTest, RemovingGivesTheSpaceBack) {
  const std::string before = put("before");
  const std::string key = put(std::string(400'000, 'x'));
  const std::string after = put("after");
  const std::string path = path_of(key);
  const auto was = info_of(path);
  ASSERT_TRUE(store_->remove(key));
  const auto is = info_of(path);
  EXPECT_EQ(is.st_size, was.st_size);
  EXPECT_LE(is.st_blocks * 512, was.st_blocks * 512 - 400'000);
  EXPECT_EQ(read(before), "before");
  EXPECT_EQ(read(after), "after");
  EXPECT_THAT(keys(store_->unchecked(Instant::max(), 1).at(0)), ElementsAre(before, after));
}

// The bytes themselves, wherever they lie in the segment.
bool holds(const std::string& path, const std::string& bytes) {
  std::ifstream file(path, std::ios::binary);
  const std::string all((std::istreambuf_iterator<char>(file)), {});
  return all.find(bytes) != std::string::npos;
}

TEST_F(DirectoryStoreTest, WhatCouldNotBeFreedIsFreedByTheNextWhoTries) {
  const std::string key = put("a secret");
  put("another");
  free_fails = EIO;
  const auto refused = store_->remove(key);
  free_fails = 0;
  ASSERT_FALSE(refused);
  EXPECT_TRUE(store_->remove(key));
  EXPECT_EQ(read(key), std::nullopt);
  EXPECT_FALSE(holds(path_of(key), "a secret"));
}

TEST_F(DirectoryStoreTest, WhereNothingCanBeFreedItIsWrittenOver) {
  const std::string before = put("before");
  const std::string key = put(std::string(10'000, 'x') + "a secret");
  const std::string after = put("after");
  free_fails = EOPNOTSUPP;
  const auto removed = store_->remove(key);
  free_fails = 0;
  EXPECT_TRUE(removed);
  EXPECT_EQ(read(key), std::nullopt);
  EXPECT_FALSE(holds(path_of(key), "a secret"));
  EXPECT_FALSE(holds(path_of(key), std::string(100, 'x')));
  EXPECT_FALSE(holds(path_of(key), std::string(parse_blob_key(key)->name)));
  // The header last, on the disk as well, or nobody finds again what a power cut left.
  EXPECT_EQ(flushed_data.find("a secret"), std::string::npos);
  EXPECT_NE(flushed_data.find(parse_blob_key(key)->name), std::string::npos);
  EXPECT_EQ(read(before), "before");
  EXPECT_EQ(read(after), "after");
}

// What was written over stayed data for good, and its segment with it.
TEST_F(DirectoryStoreTest, WhereNothingCanBeFreedASegmentWithoutBlobsGoesAllTheSame) {
  for (const bool oldest_first : {true, false}) {
    std::vector<std::string> stored = {put(), put(std::string(10'000, 'x')), put()};
    const std::string path = path_of(stored[0]);
    now_ += 2 * kSlot;
    if (!oldest_first) {
      std::reverse(stored.begin(), stored.end());
    }
    free_fails = EOPNOTSUPP;
    for (const std::string& key : stored) {
      EXPECT_TRUE(fs::exists(path)) << key;
      EXPECT_TRUE(store_->remove(key));
    }
    free_fails = 0;
    EXPECT_FALSE(fs::exists(path));
  }
}

// Whoever removed it may have died before it came to the segment.
TEST_F(DirectoryStoreTest, WhoeverRemovesABlobOnceMoreRemovesItsSegment) {
  for (const int error : {0, EOPNOTSUPP}) {
    const std::string key = put();
    free_fails = error;
    EXPECT_TRUE(store_->remove(key));
    free_fails = 0;
    EXPECT_TRUE(fs::exists(path_of(key))) << "it is young";
    EXPECT_EQ(read(key), std::nullopt);
    now_ += 2 * kSlot;
    EXPECT_EQ(*store_->remove(key), Removal::kGone);
    EXPECT_FALSE(fs::exists(path_of(key)));
  }
}

// Nobody has to know the key for that.
TEST_F(DirectoryStoreTest, WhatIsRemovedIsNobodysAnyMore) {
  const std::string key = put();
  const std::string kept = put();  // Else its segment would be gone as well.
  free_fails = EOPNOTSUPP;
  EXPECT_TRUE(store_->remove(key));
  free_fails = 0;
  keys_ = {"another-8901234567890123456789012"};
  open();
  ASSERT_TRUE(fs::exists(path_of(kept)));
  EXPECT_EQ(*store_->remove(key), Removal::kGone);
}

TEST_F(DirectoryStoreTest, WhatIsRemovedIsFlushedWhenAsked) {
  const std::string first = put(), second = put();
  const auto segment = info_of(path_of(first)).st_ino;
  ASSERT_TRUE(store_->remove(first));
  flushed.clear();
  ASSERT_TRUE(store_->flush_removed(std::vector{first, second}));
  EXPECT_THAT(flushed, ElementsAre(segment)) << "once for all in a segment";
  // The last one takes the segment along.
  now_ += 2 * kSlot;
  ASSERT_TRUE(store_->remove(second));
  ASSERT_FALSE(fs::exists(path_of(first)));
  flushed.clear();
  ASSERT_TRUE(store_->flush_removed(std::vector{second}));
  EXPECT_THAT(flushed, ElementsAre(info_of(folder_.path()).st_ino));
  flushed.clear();
  EXPECT_TRUE(store_->flush_removed(std::vector<std::string>{"", "no key"}));
  EXPECT_THAT(flushed, IsEmpty());
}

TEST_F(DirectoryStoreTest, ASegmentWithoutBlobsGoesOnceNobodyCanAppend) {
  const std::string young = put();
  ASSERT_TRUE(store_->remove(young));
  EXPECT_TRUE(fs::exists(path_of(young)));
  const std::string first = put();
  const std::string second = put();
  EXPECT_EQ(read(first), "audio") << "appended to what had become empty";
  now_ += 2 * kSlot;
  ASSERT_TRUE(store_->remove(first));
  EXPECT_TRUE(fs::exists(path_of(first)));
  ASSERT_TRUE(store_->remove(second));
  EXPECT_FALSE(fs::exists(folder_.path() + "/01m7z5"));
  EXPECT_TRUE(fs::exists(folder_.path()));
}

// It took it for an old one; what was appended from then on was stored, charged, and nowhere.
TEST_F(DirectoryStoreTest, WhoseClockIsAheadRemovesNoSegmentThatIsAppendedTo) {
  const auto ahead = open_ahead();
  const std::string first = put();
  ASSERT_TRUE(ahead->remove(first));
  const std::string second = put();
  ASSERT_NE(second, "");
  EXPECT_EQ(path_of(second), path_of(first));
  EXPECT_EQ(read(second), "audio");
  ASSERT_TRUE(ahead->remove(second));
  ASSERT_TRUE(ahead->drop_empty({"01m7z5", {}}));
  const std::string third = put();
  EXPECT_EQ(path_of(third), path_of(first));
  EXPECT_EQ(read(third), "audio");
}

TEST_F(DirectoryStoreTest, ASegmentWithoutBlobsGoesWhenItIsLeft) {
  const auto ahead = open_ahead();
  const std::string left = put();
  ASSERT_TRUE(ahead->remove(left));
  EXPECT_TRUE(fs::exists(path_of(left)));
  open();
  EXPECT_TRUE(fs::is_empty(folder_.path())) << "nobody else would look at it again";
  const std::string last = put();
  store_.reset();
  EXPECT_TRUE(fs::exists(path_of(last)));
  ASSERT_TRUE(ahead->remove(last));
  EXPECT_TRUE(fs::is_empty(folder_.path())) << "nobody has it open";
}

// Some file systems have none.
TEST_F(DirectoryStoreTest, WithoutLocksAPutFailsWhoseSegmentIsGone) {
  const auto ahead = open_ahead();
  lock_fails = ENOLCK;
  open();
  const std::string first = put();
  EXPECT_TRUE(ahead->remove(first));
  EXPECT_FALSE(fs::exists(path_of(first))) << "there the clock decides";
  const auto lost = store_->put(name(), "audio");
  const std::string after = put();
  lock_fails = 0;
  ASSERT_FALSE(lost) << "whoever gets a key takes it for stored";
  EXPECT_EQ(lost.error().message, "blob store: the segment was removed");
  EXPECT_EQ(read(after), "audio");
}

TEST_F(DirectoryStoreTest, ASegmentThatIsRemovedBeforeItIsLockedIsBegunAnew) {
  const auto ahead = open_ahead();
  bool removed = false;
  before_lock = [&] {
    EXPECT_TRUE(ahead->drop_empty({"01m7z5", {}}));
    removed = fs::is_empty(folder_.path());
  };
  EXPECT_EQ(read(put()), "audio");
  EXPECT_TRUE(removed);
}

// Whoever has it locked is about to remove it.
TEST_F(DirectoryStoreTest, ASegmentThatSomebodyRemovesIsLeftToHim) {
  std::string removed;
  UniqueFd remover;
  before_lock = [&] {
    removed = folder_.files().at(0);
    remover = UniqueFd(::open(removed.c_str(), O_RDWR | O_CLOEXEC));
    EXPECT_EQ(::flock(remover.get(), LOCK_EX | LOCK_NB), 0);
  };
  const std::string key = put();
  EXPECT_EQ(read(key), "audio");
  EXPECT_NE(path_of(key), removed);
  EXPECT_TRUE(fs::exists(removed));
}

// Files of the releases before segments.
TEST_F(DirectoryStoreTest, AFileOfItsOwnIsStillReadAndRemoved) {
  const std::string name = "01m7z5s000000000000000000a-0123456789abcdefghjkmnpqrs-24000.mp3";
  const fs::path folder = folder_.path() + "/01m7z/5s";
  fs::create_directories(folder);
  std::ofstream(folder / name) << "audio";
  EXPECT_EQ(read(name), "audio");
  ASSERT_TRUE(store_->remove(name));
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

class Slots : public DirectoryStoreTest {};

TEST_F(Slots, ComeOldestFirstAndOnlyOnceEnded) {
  const Instant begin = now_;
  for (const int n : {3, 1, 0}) {
    now_ = begin + n * kSlot;
    put();
  }
  fs::create_directories(folder_.path() + "/lost+found/xx");
  fs::create_directories(folder_.path() + "/01m7z/5s");
  EXPECT_THAT(slots(begin + 3 * kSlot), ElementsAre("01m7z5", "01m7z6"));
  EXPECT_THAT(slots(begin + 4 * kSlot, 2), ElementsAre("01m7z5", "01m7z6"));
  EXPECT_THAT(slots(begin + 4 * kSlot), ElementsAre("01m7z5", "01m7z6", "01m7z8"));
  EXPECT_THAT(slots(begin), IsEmpty());
}

TEST_F(Slots, AreRememberedAsChecked) {
  const Instant begin = now_;
  for (const int n : {0, 1, 2}) {
    now_ = begin + n * kSlot;
    put();
  }
  const Instant end = begin + 3 * kSlot;
  ASSERT_TRUE(store_->mark_checked(store_->unchecked(end, 10).at(1)));
  EXPECT_THAT(slots(end), ElementsAre("01m7z7"));
  open();
  EXPECT_THAT(slots(end), ElementsAre("01m7z7"));
  std::ofstream(folder_.path() + "/checked") << "zzz";
  EXPECT_THAT(slots(end), SizeIs(3)) << "a spoilt note is no note";
}

// Of one that could not be read; those after it do not wait for it.
TEST_F(Slots, AreLeftForLater) {
  const Instant begin = now_;
  for (const int n : {0, 1, 2}) {
    now_ = begin + n * kSlot;
    put();
  }
  const Instant end = begin + 3 * kSlot;
  ASSERT_TRUE(store_->leave_for_later(store_->unchecked(end, 10).at(0)));
  EXPECT_THAT(slots(end), ElementsAre("01m7z6", "01m7z7", "01m7z5"));
  EXPECT_THAT(slots(end, 1), ElementsAre("01m7z6", "01m7z5")) << "it takes no other's turn";
  ASSERT_TRUE(store_->mark_checked(store_->unchecked(end, 10).at(1)));
  open();
  EXPECT_THAT(slots(end), ElementsAre("01m7z5"));
  const BlobSlot left = store_->unchecked(end, 10).at(0);
  EXPECT_TRUE(left.left);
  ASSERT_TRUE(store_->leave_for_later(left)) << "once more";
  EXPECT_THAT(slots(end), ElementsAre("01m7z5"));
  ASSERT_TRUE(store_->mark_checked(left));
  EXPECT_THAT(slots(end), IsEmpty());
}

// Where none can be read it is not the slots that something is wrong with.
TEST_F(Slots, AreNotLeftInAnyNumber) {
  constexpr int kMost = 64;
  const auto slot = [&](int n) {
    return BlobSlot{encode_base32(first_uuid_at(now_ + n * kSlot)).substr(0, 6), now_ + n * kSlot};
  };
  for (int n = 0; n <= kMost; ++n) {
    fs::create_directory(folder_.path() + "/" + slot(n).folder);
    EXPECT_EQ(static_cast<bool>(store_->leave_for_later(slot(n))), n < kMost) << n;
  }
  fs::remove(folder_.path() + "/" + slot(0).folder);
  EXPECT_TRUE(store_->leave_for_later(slot(kMost))) << "one of them is gone";
}

TEST_F(Slots, ShowEveryBlobWhateverLiesBetween) {
  open(8 * kBlock);
  std::vector<std::string> stored;
  for (int i = 0; i < 6; ++i) {
    stored.push_back(put(std::string(10'000, 'x')));
  }
  const BlobSlot slot = store_->unchecked(now_ + kSlot, 1).at(0);
  EXPECT_THAT(keys(slot), testing::UnorderedElementsAreArray(stored));
  ASSERT_TRUE(store_->remove(stored[0]));
  {
    // What a crash leaves of a batch: blocks without a header.
    std::fstream torn(path_of(stored[1]), std::ios::in | std::ios::out | std::ios::binary);
    torn.seekp(parse_blob_key(stored[1])->offset);
    torn << std::string(200, 'x');
  }
  EXPECT_THAT(keys(slot),
              testing::UnorderedElementsAre(stored[2], stored[3], stored[4], stored[5]));
  EXPECT_THAT(keys({"01m7z9", {}}), IsEmpty());
}

// A crash cuts off the header of a blob whose samples hold headers.
TEST_F(Slots, ShowNoBlobThatAProviderMade) {
  const std::string victim = put("the neighbour's sound");
  std::vector<std::string> torn;
  for (const std::uint64_t length : {std::uint64_t{5}, ~std::uint64_t{0}, std::uint64_t{1} << 63}) {
    for (const std::string_view magic : {kOldMagic, kMagic}) {
      torn.push_back(put(samples_with(header_of(magic, length, name()))));
    }
  }
  const std::string last = put("the last one");
  for (const std::string& key : torn) {
    std::fstream file(path_of(key), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(parse_blob_key(key)->offset);
    file << std::string(128, 'x');
  }
  EXPECT_THAT(keys(store_->unchecked(now_ + kSlot, 1).at(0)),
              testing::UnorderedElementsAre(victim, last));
}

// Nobody removes anything from them any more: the last blob went while somebody might append.
TEST_F(Slots, WithoutBlobsAreDropped) {
  open(kBlock);
  const std::string gone = put(), freed = put(), kept = put();
  free_fails = EOPNOTSUPP;
  EXPECT_TRUE(store_->remove(gone));
  free_fails = 0;
  EXPECT_TRUE(store_->remove(freed));
  EXPECT_THAT(folder_.files(), SizeIs(3));
  const BlobSlot slot{"01m7z5", {}};
  EXPECT_TRUE(store_->drop_empty(slot));
  EXPECT_THAT(folder_.files(), ElementsAre(path_of(kept)));
  EXPECT_EQ(read(kept), "audio");
  EXPECT_TRUE(store_->remove(kept));
  EXPECT_TRUE(store_->drop_empty(slot));
  EXPECT_TRUE(fs::is_empty(folder_.path()));
  EXPECT_TRUE(store_->drop_empty(slot)) << "somebody else may have done it";
}

TEST_F(Slots, OfBlobsUnderAnotherSigningKeyStay) {
  const std::string key = put();
  keys_ = {"another-8901234567890123456789012"};
  open();
  EXPECT_TRUE(store_->drop_empty({"01m7z5", {}}));
  EXPECT_TRUE(fs::exists(path_of(key)));
}

// A release before wrote zeros over what it removed where nothing can be freed, header and all.
TEST_F(Slots, OfZerosAndTornBatchesHoldNoBlob) {
  const std::string zeros = put(std::string(10'000, 'x')), torn = put(std::string(10'000, 'y'));
  const std::string last = put("the last one");
  {
    std::fstream file(path_of(last), std::ios::in | std::ios::out | std::ios::binary);
    file << std::string(3 * kBlock, '\0');
    file.seekp(parse_blob_key(torn)->offset);
    file << std::string(128, 'x');
  }
  EXPECT_THAT(keys({"01m7z5", {}}), ElementsAre(last));
  now_ += 2 * kSlot;
  EXPECT_TRUE(store_->remove(zeros));
  EXPECT_EQ(read(last), "the last one");
  EXPECT_TRUE(store_->remove(last));
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

// A header without a name, in the second block of what a crash cut off, over the neighbour's blob.
TEST_F(Slots, HideNoBlobBecauseAProviderSaysThatItWasRemoved) {
  const std::string mine = put(samples_with(header_of(kMagic, 20'000, "")));
  const std::string victim = put("the neighbour's sound");
  {
    std::fstream torn(path_of(mine), std::ios::in | std::ios::out | std::ios::binary);
    torn << std::string(128, 'x');
  }
  EXPECT_THAT(keys({"01m7z5", {}}), ElementsAre(victim));
  now_ += 2 * kSlot;
  EXPECT_TRUE(store_->remove(mine));
  EXPECT_TRUE(store_->drop_empty({"01m7z5", {}}));
  EXPECT_EQ(read(victim), "the neighbour's sound");
}

// Else the slot would count as looked at, and what lies in it stay for ever.
TEST_F(Slots, SayWhenTheyCannotBeRead) {
  const auto seen = [&](const std::string& folder) {
    return store_->for_each({folder, {}}, [](const std::string&) { return true; });
  };
  put();
  seek_fails = EIO;
  const auto unread = seen("01m7z5");
  seek_fails = 0;
  ASSERT_FALSE(unread);
  EXPECT_EQ(unread.error().message, "blob store: seek: Input/output error");
  EXPECT_TRUE(seen("01m7z5"));
  std::ofstream(folder_.path() + "/01m7z6") << "in the way";
  const auto unlisted = seen("01m7z6");
  ASSERT_FALSE(unlisted);
  EXPECT_EQ(unlisted.error().message, "blob store: list: Not a directory");
}

TEST_F(Slots, SayWhenASegmentCannotBeOpened) {
  const std::string key = put();
  fs::create_symlink("/etc/passwd", folder_.path() + "/01m7z5/01m7z500000000000000.2");
  std::vector<std::string> keys;
  const auto seen = store_->for_each({"01m7z5", {}}, [&](const std::string& found) {
    keys.push_back(found);
    return true;
  });
  ASSERT_FALSE(seen);
  EXPECT_THAT(seen.error().message, HasSubstr("blob store: open: "));
  EXPECT_THAT(keys, ElementsAre(key)) << "it keeps no other, whichever comes first";
}

}  // namespace
}  // namespace audiogen
