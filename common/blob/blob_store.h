// Where finished audio is kept. Written once by a worker, never changed, read by whoever serves
// CDN_URL.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/config.h"
#include "common/base/mutex.h"
#include "common/base/result.h"
#include "common/base/time.h"
#include "common/base/unique_fd.h"
#include "common/blob/blob_seals.h"

namespace audiogen {

struct BlobPlace;

struct NewBlob {
  std::string_view name;  // From make_blob_name().
  std::string_view bytes;
  // Asked now and then by a put that may take long, on its caller's thread: once it is false the
  // put may end, as a failure. Nullptr: it is wanted to the end.
  std::function<bool()> wanted{};
};

// How a store is written to best.
struct PutShape {
  std::size_t threads = 1, batch_max = 1;
  // Bytes a second: what goes no slower than this is waited for. 0: large blobs take no longer.
  std::size_t slowest = 0;

  // By how much longer so many bytes may take than next to none.
  std::chrono::milliseconds time_for(std::size_t bytes) const {
    return std::chrono::milliseconds(slowest == 0 ? 0 : bytes * 1000 / slowest);
  }
};

// Why a blob was not stored.
struct PutFault {
  std::string message;
  // It is this blob that the store refuses, as too large: another may well be taken.
  bool of_this_blob = false;
  // It was not wanted any more (NewBlob::wanted), which says nothing of the store.
  bool unwanted = false;
};
using PutResult = Result<std::string, PutFault>;

enum class Removal {
  kGone,     // It was removed now or before, or never was there.
  kNotOurs,  // No key of this store, or sealed with a key of which it was not told: it stays.
};

class BlobStore {
 public:
  virtual ~BlobStore() = default;

  // Stores each of `blobs` durably: after success it survives a power cut. Result i is the key by
  // which blob i is found again, at most 120 characters. A name is put once; what a failed put left
  // is nobody's. Blocks. Thread-safe.
  virtual std::vector<PutResult> put(std::span<const NewBlob> blobs) = 0;
  PutResult put(std::string_view name, std::string_view bytes) {
    const NewBlob blob{name, bytes};
    return put({&blob, 1}).front();
  }
  virtual PutShape put_shape() const = 0;

  // Removes the blob of `key`. Nobody may be reading it. What fails may be tried again. Blocks;
  // after `stop` a service that does not answer is waited for a second or so, and that is a
  // failure. Thread-safe.
  virtual Result<Removal> remove(std::string_view key, const std::stop_token& stop) = 0;
  Result<Removal> remove(std::string_view key) { return remove(key, {}); }
  // After success what was removed, of these keys, stays so after a power cut. Before that nobody
  // is to forget that it was to be removed. Blocks. Thread-safe.
  virtual Result<Done> flush_removed(std::span<const std::string> keys) = 0;
};

// A blob opened for reading.
struct OpenBlob {
  int fd = -1;  // The caller closes it.
  std::int64_t offset = 0, size = 0;
  std::int64_t modified = 0;  // Seconds since the epoch.
};

// 17.5 min, and the folder of the segments begun in them.
struct BlobSlot {
  std::string folder;
  Instant begin;
  bool left = false;  // It was looked at, and could not be to the end (leave_for_later()).
};

struct DirectoryOptions {
  // What blobs are sealed with: the first one seals, all are believed, and the folder's own too
  // where there is one. Empty: the folder's own, made by whoever opens it first.
  std::vector<std::string> keys{};
  bool reads_unsealed = true;            // What releases before seals wrote.
  std::int64_t segment_max = 256 << 20;  // Bytes from which on the next segment is begun.
  std::function<Instant()> clock{};      // Nullptr: the wall clock.
};

// Blobs appended to large files, segments, each written by one store alone: "01m7z5/<segment>",
// where the folder is that of the slot in which the segment was begun. A removed blob gives its
// disk space back; a segment without blobs goes, once nobody can append to it.
class DirectoryStore final : public BlobStore {
 public:
  // Makes the folder when it is missing.
  static Result<std::unique_ptr<DirectoryStore>> open(const std::string& folder,
                                                      DirectoryOptions options = {});
  ~DirectoryStore() override;
  DirectoryStore(const DirectoryStore&) = delete;
  DirectoryStore& operator=(const DirectoryStore&) = delete;

  using BlobStore::put;
  std::vector<PutResult> put(std::span<const NewBlob> blobs) override;
  PutShape put_shape() const override;
  using BlobStore::remove;
  Result<Removal> remove(std::string_view key, const std::stop_token& stop) override;
  Result<Done> flush_removed(std::span<const std::string> keys) override;

  // Nullopt when there is no such blob, or `key` is none that was given to anybody. An error when
  // nobody can tell now (no descriptor left, a disk that fails): it may well be there.
  Result<std::optional<OpenBlob>> read(std::string_view key) const;

  // The oldest slots with a folder, up to `limit`, of those that ended before `end` and are not
  // marked as checked; behind them those that were left for later.
  std::vector<BlobSlot> unchecked(Instant end, std::size_t limit) const;

  // Calls `visit` with the key of each blob in the segments of `slot`, of those with seals, for as
  // long as it says true: of older ones nobody can tell which are blobs and which are somebody's
  // samples. A segment that cannot be read keeps no other from being visited; the first of them is
  // the error. Blocks.
  Result<Done> for_each(const BlobSlot& slot,
                        const std::function<bool(const std::string& key)>& visit) const;

  // Removes the segments of `slot` that hold no blob and that nobody else has open to append to
  // them: their last blob may have been removed while somebody had. One that cannot be removed
  // keeps no other; the first of them is the error. Blocks.
  Result<Done> drop_empty(const BlobSlot& slot);

  // Remembers in the folder itself, for all who use it, that this slot and those before it need no
  // further look, but for those that were left for later.
  Result<Done> mark_checked(const BlobSlot& slot);
  // The same, but that this one needs another look. An error, too, once as many are left as are
  // remembered: then it is not the slots that something is wrong with.
  Result<Done> leave_for_later(const BlobSlot& slot);

 private:
  // The segment that is appended to.
  struct Segment {
    UniqueFd fd;
    std::string name;
    std::int64_t end = 0;
  };
  // What is remembered of slots.
  struct Checked {
    std::string last;  // This one and those before it were looked at; empty: none was.
    std::set<std::string> left;
  };

  DirectoryStore(std::string folder, DirectoryOptions options);
  std::string path_of(std::string_view segment, std::string_view suffix) const;
  std::string path_of(std::string_view key, const BlobPlace& place) const;
  Result<Done> begin_segment() LOCKS_REQUIRED(mutex_);
  void leave_segment() LOCKS_REQUIRED(mutex_);
  PutResult append(const NewBlob& blob) LOCKS_REQUIRED(mutex_);
  Result<Done> drop_if_empty(int fd, std::string_view segment, const std::string& path);
  Checked checked() const;
  Result<Done> write_checked(const Checked& checked) const;

  const std::string folder_;
  const DirectoryOptions options_;
  const BlobSeals seals_;
  Mutex mutex_;
  Segment segment_ GUARDED_BY(mutex_);
};

// The store that BLOB_URL names; `credentials` are for s3:// alone, `keys` for file:// (see
// DirectoryOptions). The error names the variable, or the part of the address, that is missing or
// wrong. Does not try to reach an S3 service.
Result<std::unique_ptr<BlobStore>> open_blob_store(const std::string& url,
                                                   const S3Credentials& credentials,
                                                   std::vector<std::string> keys = {});

// The folder of a file:// address, or nullopt for another kind.
std::optional<std::string> blob_folder(const std::string& url);

}  // namespace audiogen
