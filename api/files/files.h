// Delivery of finished audio under CDN_URL from the directory store: GET and HEAD with Range (RFC
// 9110 section 14), validators and the right media type.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "api/server/call.h"
#include "common/base/blocking_pool.h"
#include "common/base/config.h"
#include "common/base/unique_fd.h"
#include "common/blob/blob_store.h"
#include "common/blob/link_signer.h"
#include "common/http/server.h"

namespace audiogen::api {

// A file to be sent, open, and what is said of it.
struct SentFile {
  UniqueFd fd;
  std::int64_t offset = 0, size = 0;
  std::int64_t modified = 0;  // Seconds since the epoch.
  std::string etag;           // Strong, with its quotes.
  std::string content_type;
  std::string_view caching;  // Cache-Control.
};

// Answers with the file, with the part of it that is asked for, or that the client has it already.
// `cross_origin`: pages of other sites may read it.
void send_file(const http::Exchange& exchange, bool cross_origin, SentFile file);

// Has `answer` called on a thread that may wait for a disk: I/O threads may not, or one that stands
// still keeps everybody from everything. 503 where so many wait already.
void on_disk(BlockingPool& disk, const Call& call, std::function<void(const Call&)> answer);

// Logs why a file could not be opened, at most once a second.
void tell_unreadable(const Error& error);

// Opens the file, which may take as long as the disk does, and answers the exchange.
// With `links` only to an address it signed: 404 without a valid signature, as if there were no
// such file, and 403 link_expired after its time. With a `retention`, 404 for what is of a task
// created longer ago: workers delete it some time later. 503 when nobody can tell now whether there
// is such a file.
void serve_file(const DirectoryStore& store,
                const std::optional<LinkSigner>& links,
                std::chrono::seconds retention,
                http::Exchange exchange,
                std::string_view key);

// The route of files.
class Files {
 public:
  // `disk` opens them.
  Files(const Config& config, const DirectoryStore& store, BlockingPool& disk)
      : disk_(disk),
        store_(store),
        links_(LinkSigner::from(config)),
        retention_(std::chrono::days(config.output_retention_days)) {}

  void serve(const Call& call) const {
    on_disk(disk_, call, [this](const Call& asked) {
      serve_file(store_, links_, retention_, asked.exchange(), asked.parameter(0));
    });
  }

 private:
  BlockingPool& disk_;
  const DirectoryStore& store_;
  const std::optional<LinkSigner> links_;
  const std::chrono::seconds retention_;  // 0: files stay for ever.
};

// One satisfiable byte range of a file of `size` bytes.
struct ByteRange {
  std::int64_t first = 0;
  std::int64_t length = 0;
};
enum class RangeKind { kWhole, kPart, kUnsatisfiable };

// Reads a Range header. Several ranges, other units and malformed ones mean the whole file (RFC
// 9110 14.2).
RangeKind parse_range(std::string_view header, std::int64_t size, ByteRange& out);

}  // namespace audiogen::api
