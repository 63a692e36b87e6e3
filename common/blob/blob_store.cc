#include "common/blob/blob_store.h"

#include <algorithm>
#include <array>

#include "common/blob/s3_store.h"

namespace audiogen {
namespace {

constexpr std::size_t kTaskLength = 26;
constexpr std::size_t kRandomLength = 26;

struct Kind {
  OutputFormat format;
  std::string_view extension;
  std::string_view content_type;
};
constexpr std::array kKinds = {
    Kind{OutputFormat::kMp3, ".mp3", "audio/mpeg"},
    Kind{OutputFormat::kWav, ".wav", "audio/wav"},
    Kind{OutputFormat::kPcm, ".pcm", "audio/pcm"},
    Kind{OutputFormat::kOggOpus, ".opus", "audio/ogg; codecs=opus"},
};

bool is_base32(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= '0' && c <= '9') ||
           (c >= 'a' && c <= 'z' && c != 'i' && c != 'l' && c != 'o' && c != 'u');
  });
}

bool is_digits(std::string_view text) {
  return !text.empty() && text.size() <= 6 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// The rate in a key of the right form.
std::string_view rate_of(std::string_view key) {
  const auto from = kTaskLength + kRandomLength + 2;
  return key.substr(from, key.rfind('.') - from);
}

}  // namespace

std::string make_blob_key(TaskId task, OutputFormat format, int sample_rate) {
  const auto kind =
      std::find_if(kKinds.begin(), kKinds.end(), [&](const Kind& k) { return k.format == format; });
  std::string key = encode_base32(task.uuid);
  key += '-';
  key += random_base32(kRandomLength);
  key += '-';
  key += std::to_string(sample_rate);
  key += kind->extension;
  return key;
}

bool is_blob_key(std::string_view key) {
  const auto from = kTaskLength + kRandomLength + 2;
  if (key.size() < from + 5 || key[kTaskLength] != '-' || key[from - 1] != '-') {
    return false;
  }
  const auto dot = key.find('.', from);
  if (dot == std::string_view::npos) {
    return false;
  }
  const auto extension = key.substr(dot);
  return is_base32(key.substr(0, kTaskLength)) &&
         is_base32(key.substr(kTaskLength + 1, kRandomLength)) &&
         is_digits(key.substr(from, dot - from)) &&
         std::any_of(
             kKinds.begin(), kKinds.end(), [&](const Kind& k) { return k.extension == extension; });
}

std::string blob_content_type(std::string_view key) {
  for (const Kind& kind : kKinds) {
    if (key.ends_with(kind.extension)) {
      std::string type(kind.content_type);
      if (kind.format == OutputFormat::kPcm) {
        // Headerless: the media type is the only place that can say what the bytes are.
        type += "; rate=";
        type += rate_of(key);
        type += "; channels=1; bits=16";
      }
      return type;
    }
  }
  return "application/octet-stream";
}

std::optional<std::string> blob_folder(const std::string& url) {
  constexpr std::string_view kScheme = "file://";
  return url.starts_with(kScheme) ? std::optional(url.substr(kScheme.size())) : std::nullopt;
}

Result<std::unique_ptr<BlobStore>> open_blob_store(const std::string& url,
                                                   const S3Credentials& credentials) {
  if (const auto folder = blob_folder(url)) {
    auto store = DirectoryStore::open(*folder);
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
