#include "common/blob/blob_store.h"

#include <utility>

#include "common/blob/s3_store.h"

namespace audiogen {
std::optional<std::string> blob_folder(const std::string& url) {
  constexpr std::string_view kScheme = "file://";
  return url.starts_with(kScheme) ? std::optional(url.substr(kScheme.size())) : std::nullopt;
}

Result<std::unique_ptr<BlobStore>> open_blob_store(const std::string& url,
                                                   const S3Credentials& credentials,
                                                   std::vector<std::string> keys) {
  if (const auto folder = blob_folder(url)) {
    auto store = DirectoryStore::open(*folder, {.keys = std::move(keys)});
    if (!store) {
      return store.error();
    }
    return std::unique_ptr<BlobStore>(std::move(*store));
  }
  auto address = parse_s3_url(url);
  if (!address) {
    return address.error();
  }
  if (credentials.access_key_id.empty()) {
    return Error{"AWS_ACCESS_KEY_ID is required with an s3:// BLOB_URL"};
  }
  if (credentials.secret_key.empty()) {
    return Error{"AWS_SECRET_ACCESS_KEY is required with an s3:// BLOB_URL"};
  }
  return std::unique_ptr<BlobStore>(std::make_unique<S3Store>(std::move(*address), credentials));
}

}  // namespace audiogen
