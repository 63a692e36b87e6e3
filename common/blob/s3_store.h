// Audio in a bucket of an S3 service: libcurl's own Signature Version 4, one request per blob.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/config.h"
#include "common/base/mutex.h"
#include "common/blob/blob_store.h"

namespace audiogen {

struct S3Address {
  std::string objects_url;  // Before every key; ends with a slash.
  std::string region;
};

// Reads s3://bucket[/prefix]?endpoint=http(s)://host[:port]&region=R. With an endpoint objects are
// addressed by path and the region is us-east-1 unless given; without one it is AWS, which needs
// the region. The error names what is wrong.
Result<S3Address> parse_s3_url(std::string_view url);

struct S3Limits {
  // One put or remove ends within `total`, retries and pauses included, each attempt within
  // `attempt`; for a body both are longer by the time that it takes at `slowest`.
  std::chrono::milliseconds total{10'000};
  std::chrono::milliseconds attempt{5'000};
  std::chrono::milliseconds connect{2'000};
  std::chrono::milliseconds first_pause{100};  // Doubles with every retry.
  // Bytes a second. As many uploads as there are at once (put_shape()) share a line of 13 Mbit/s.
  std::size_t slowest = 96 * 1024;
  // An attempt of whose body nothing goes out any more, while there is some left, ends after so
  // long: what stands still is not slow. The kernel takes more only when a third of its buffer, of
  // 4 MB at most, has gone: at `slowest` that is 14 s.
  std::chrono::milliseconds still{15'000};
};

// Retries what may pass (no connection, a reply cut short or overdue, 5xx, 408, 429) with jittered
// pauses; repeating a put or a remove does no harm. Errors carry the status and S3's error code,
// never a credential or the key. What is too large for the service (413, EntityTooLarge) says
// nothing about another blob.
class S3Store final : public BlobStore {
 public:
  S3Store(S3Address address, S3Credentials credentials, S3Limits limits = {});
  ~S3Store() override;
  S3Store(const S3Store&) = delete;
  S3Store& operator=(const S3Store&) = delete;

  using BlobStore::put;
  std::vector<PutResult> put(std::span<const NewBlob> blobs) override;
  PutShape put_shape() const override;
  using BlobStore::remove;
  Result<Removal> remove(std::string_view key, const std::stop_token& stop) override;
  // The service has answered: nothing is left to do.
  Result<Done> flush_removed(std::span<const std::string> /*keys*/) override { return Done{}; }

 private:
  class Connection;
  struct Call;
  struct Outcome;

  Result<Done, PutFault> send(const Call& call, const std::stop_token& stop);
  Outcome send_once(const Call& call, std::chrono::milliseconds limit, const std::stop_token& stop);

  const S3Address address_;
  const S3Credentials credentials_;
  const S3Limits limits_;
  Mutex mutex_;
  std::vector<std::unique_ptr<Connection>> idle_ GUARDED_BY(mutex_);  // One per caller at work.
};

}  // namespace audiogen
