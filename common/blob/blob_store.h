// Where finished audio is kept. Written once by a worker, never changed, read by whoever serves
// CDN_URL.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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

struct NewBlob {
  std::string_view key, bytes;
};

// How a store is written to best.
struct PutShape {
  std::size_t threads = 1, batch_max = 1;
};

class BlobStore {
 public:
  virtual ~BlobStore() = default;

  // Stores each of `blobs` durably: after success it survives a power cut. Result i is of blob i. A
  // key is put once; what a failed put left is nobody's. Blocks. Thread-safe.
  virtual std::vector<Result<Done>> put(std::span<const NewBlob> blobs) = 0;
  Result<Done> put(std::string_view key, std::string_view bytes) {
    const NewBlob blob{key, bytes};
    return put({&blob, 1}).front();
  }
  virtual PutShape put_shape() const = 0;

  // Removes `key`; a missing one is no error. Blocks. Thread-safe.
  virtual Result<Done> remove(std::string_view key) = 0;
};

// A file opened for reading.
struct OpenBlob {
  int fd = -1;  // The caller closes it.
  std::int64_t size = 0;
  std::int64_t modified = 0;  // Seconds since the epoch.
};

// The tasks created within one span of 32.8 s. Their files lie in one folder.
struct BlobWindow {
  TaskId first, last;
};

// Files below a folder, one subfolder for each window: "01m7z/5s/<key>".
class DirectoryStore final : public BlobStore {
 public:
  // Makes the folder when it is missing.
  static Result<std::unique_ptr<DirectoryStore>> open(const std::string& folder);

  using BlobStore::put;
  std::vector<Result<Done>> put(std::span<const NewBlob> blobs) override;
  PutShape put_shape() const override;
  Result<Done> remove(std::string_view key) override;

  // Nullopt when there is no such file or `key` has not the right form.
  std::optional<OpenBlob> read(std::string_view key) const;

  // The oldest windows with a folder, up to `limit`, of those that end before `end` and are not
  // marked as checked.
  std::vector<BlobWindow> unchecked(TaskId end, std::size_t limit) const;

  // Removes the files of `window` that are `unwanted`, and the folder when nothing is left. The
  // number removed. Blocks.
  Result<std::size_t> remove_if(const BlobWindow& window,
                                const std::function<bool(TaskId, std::string_view key)>& unwanted);

  // Remembers in the folder itself, for all who use it, that this window and those before it need
  // no further look.
  Result<Done> mark_checked(const BlobWindow& window);

 private:
  explicit DirectoryStore(std::string folder) : folder_(std::move(folder)) {}
  std::string folder_of(std::string_view key) const;
  std::string path_of(std::string_view key) const;
  Result<Done> write(const NewBlob& blob, bool& made_folder) const;
  bool flush(std::span<const NewBlob> blobs, int root, bool made_folder) const;

  const std::string folder_;
};

// The store that BLOB_URL names; `credentials` are for s3:// alone. The error names the variable,
// or the part of the address, that is missing or wrong. Does not try to reach an S3 service.
Result<std::unique_ptr<BlobStore>> open_blob_store(const std::string& url,
                                                   const S3Credentials& credentials);

// The folder of a file:// address, or nullopt for another kind.
std::optional<std::string> blob_folder(const std::string& url);

}  // namespace audiogen
