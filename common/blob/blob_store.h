// Where finished audio is kept. Written once by a worker, never changed, read by whoever serves
// CDN_URL.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/config.h"
#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/domain/request.h"

namespace audiogen {

// A name nobody can guess: "<task>-<130 random bits>-<rate>.<extension>". The task makes a stray
// file traceable, the rate is part of the media type of headerless pcm.
std::string make_blob_key(TaskId task, OutputFormat format, int sample_rate);

// True for exactly the form that make_blob_key writes; anything else never reaches a file system.
bool is_blob_key(std::string_view key);

// The media type of a key's file (audio 2.4): audio/mpeg, audio/wav, audio/ogg; codecs=opus,
// audio/pcm with its rate.
std::string blob_content_type(std::string_view key);

class BlobStore {
 public:
  virtual ~BlobStore() = default;

  // Stores `bytes` under `key` durably: after success they survive a power cut. Blocks.
  // Thread-safe.
  virtual Result<Done> put(std::string_view key, std::string_view bytes) = 0;

  // Removes `key`; a missing one is no error. Blocks. Thread-safe.
  virtual Result<Done> remove(std::string_view key) = 0;
};

// A file opened for reading.
struct OpenBlob {
  int fd = -1;  // The caller closes it.
  std::int64_t size = 0;
  std::int64_t modified = 0;  // Seconds since the epoch.
};

// Files below a folder, spread over 1024 subfolders.
class DirectoryStore final : public BlobStore {
 public:
  ~DirectoryStore() override;

  // Makes the folder when it is missing.
  static Result<std::unique_ptr<DirectoryStore>> open(const std::string& folder);

  Result<Done> put(std::string_view key, std::string_view bytes) override;
  Result<Done> remove(std::string_view key) override;

  // Nullopt when there is no such file or `key` has not the right form.
  std::optional<OpenBlob> read(std::string_view key) const;

  // Removes files that a crash left half-written more than a day ago. Blocks; for a background
  // thread.
  std::size_t remove_stale_temporaries();

 private:
  // Puts that are flushed together.
  struct Round {
    std::size_t members = 0;
    bool done = false, ok = false;
    std::condition_variable changed{};
  };

  DirectoryStore(std::string folder, int root) : folder_(std::move(folder)), root_(root) {}
  std::string path_of(std::string_view key) const;
  // Blocks until `file`, written and named in `folder`, is on the disk.
  bool flush(int file, const std::string& folder);

  const std::string folder_;
  const int root_;  // The folder, open from the start: syncfs tells errors since then.
  std::mutex mutex_;
  std::shared_ptr<Round> next_ = std::make_shared<Round>();  // Guarded by mutex_, rounds too.
  bool flushing_ = false;                                    // Guarded by mutex_.
};

// The store that BLOB_URL names; `credentials` are for s3:// alone. The error names the variable,
// or the part of the address, that is missing or wrong. Does not try to reach an S3 service.
Result<std::unique_ptr<BlobStore>> open_blob_store(const std::string& url,
                                                   const S3Credentials& credentials);

// The folder of a file:// address, or nullopt for another kind.
std::optional<std::string> blob_folder(const std::string& url);

}  // namespace audiogen
