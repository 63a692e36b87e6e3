// Delivery of finished audio under CDN_URL from the directory store: GET and HEAD with Range (RFC
// 9110 section 14), validators and the right media type.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "api/server/call.h"
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

// Logs why a file could not be opened, at most once a second.
void tell_unreadable(const Error& error);

// Reads file metadata on the calling I/O thread (the page cache answers) and answers the exchange.
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
  Files(const Config& config, const DirectoryStore& store)
      : store_(store),
        links_(LinkSigner::from(config)),
        retention_(std::chrono::days(config.output_retention_days)) {}

  void serve(const Call& call) const {
    serve_file(store_, links_, retention_, call.exchange(), call.parameter(0));
  }

 private:
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
