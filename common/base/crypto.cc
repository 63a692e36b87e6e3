#include "common/base/crypto.h"

#include <cstring>

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/rand.h>

#include "common/base/ascii.h"
#include "common/base/check.h"

namespace audiogen {
namespace {

const std::uint8_t* bytes_of(std::string_view text) {
  return reinterpret_cast<const std::uint8_t*>(text.data());
}

// OpenSSL 3 looks an algorithm up and makes a context for each SHA256(): of what an API key costs,
// that is half. So both are kept.
class Sha256Context {
 public:
  Sha256Context() { AG_CHECK(algorithm_ != nullptr && context_ != nullptr); }
  ~Sha256Context() {
    EVP_MD_CTX_free(context_);
    EVP_MD_free(algorithm_);
  }
  Sha256Context(const Sha256Context&) = delete;
  Sha256Context& operator=(const Sha256Context&) = delete;

  Sha256 digest(std::string_view data) {
    Sha256 out{};
    AG_CHECK(EVP_DigestInit_ex2(context_, algorithm_, nullptr) == 1);
    AG_CHECK(EVP_DigestUpdate(context_, data.data(), data.size()) == 1);
    AG_CHECK(EVP_DigestFinal_ex(context_, out.data(), nullptr) == 1);
    return out;
  }

 private:
  EVP_MD* const algorithm_ = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  EVP_MD_CTX* const context_ = EVP_MD_CTX_new();
};

// The same for HMAC.
class HmacContext {
 public:
  HmacContext() {
    AG_CHECK(algorithm_ != nullptr && context_ != nullptr);
    char digest[] = "SHA256";
    const OSSL_PARAM parameters[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_end()};
    AG_CHECK(EVP_MAC_CTX_set_params(context_, parameters) == 1);
  }
  ~HmacContext() {
    EVP_MAC_CTX_free(context_);
    EVP_MAC_free(algorithm_);
  }
  HmacContext(const HmacContext&) = delete;
  HmacContext& operator=(const HmacContext&) = delete;

  Sha256 of(std::string_view key, std::string_view data) {
    Sha256 out{};
    std::size_t length = 0;
    AG_CHECK(!key.empty());  // A view of nothing would go on with the key before.
    AG_CHECK(EVP_MAC_init(context_, bytes_of(key), key.size(), nullptr) == 1);
    AG_CHECK(EVP_MAC_update(context_, bytes_of(data), data.size()) == 1);
    AG_CHECK(EVP_MAC_final(context_, out.data(), &length, out.size()) == 1);
    AG_CHECK(length == out.size());
    return out;
  }

 private:
  EVP_MAC* const algorithm_ = EVP_MAC_fetch(nullptr, "HMAC", nullptr);
  EVP_MAC_CTX* const context_ = algorithm_ == nullptr ? nullptr : EVP_MAC_CTX_new(algorithm_);
};

}  // namespace

Sha256 sha256(std::string_view data) {
  thread_local Sha256Context context;
  return context.digest(data);
}

Sha256 hmac_sha256(std::string_view key, std::string_view data) {
  thread_local HmacContext context;
  return context.of(key, data);
}

void random_bytes(std::span<std::uint8_t> out) {
  // One call to the generator costs about a microsecond; ids take ten bytes each.
  thread_local std::array<std::uint8_t, 512> buffer;
  thread_local std::size_t used = buffer.size();
  if (out.size() > buffer.size()) {
    AG_CHECK(RAND_bytes(out.data(), static_cast<int>(out.size())) == 1);
    return;
  }
  if (buffer.size() - used < out.size()) {
    AG_CHECK(RAND_bytes(buffer.data(), static_cast<int>(buffer.size())) == 1);
    used = 0;
  }
  std::memcpy(out.data(), buffer.data() + used, out.size());
  OPENSSL_cleanse(buffer.data() + used, out.size());
  used += out.size();
}

bool constant_time_equal(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::uint32_t crc32(std::string_view data) {
  // kTables[k][b] is what b leaves after k more bytes, so that four bytes are one step: every
  // request's key is checked.
  static const auto kTables = [] {
    std::array<std::array<std::uint32_t, 256>, 4> tables{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      std::uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) {
        value = (value & 1U) != 0U ? 0xEDB88320U ^ (value >> 1U) : value >> 1U;
      }
      tables[0][i] = value;
    }
    for (std::size_t k = 1; k < tables.size(); ++k) {
      for (std::size_t i = 0; i < 256; ++i) {
        const std::uint32_t before = tables[k - 1][i];
        tables[k][i] = tables[0][before & 0xFFU] ^ (before >> 8U);
      }
    }
    return tables;
  }();
  const auto byte = [&](std::size_t i) {
    return std::uint32_t{static_cast<std::uint8_t>(data[i])};
  };
  std::uint32_t crc = 0xFFFFFFFFU;
  std::size_t at = 0;
  for (; data.size() - at >= 4; at += 4) {
    crc ^= byte(at) | byte(at + 1) << 8U | byte(at + 2) << 16U | byte(at + 3) << 24U;
    crc = kTables[3][crc & 0xFFU] ^ kTables[2][(crc >> 8U) & 0xFFU] ^
          kTables[1][(crc >> 16U) & 0xFFU] ^ kTables[0][crc >> 24U];
  }
  for (; at < data.size(); ++at) {
    crc = kTables[0][(crc ^ byte(at)) & 0xFFU] ^ (crc >> 8U);
  }
  return crc ^ 0xFFFFFFFFU;
}

std::string to_hex(std::span<const std::uint8_t> bytes) {
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const std::uint8_t byte : bytes) {
    out += ascii::kHexDigits[byte >> 4U];
    out += ascii::kHexDigits[byte & 0xFU];
  }
  return out;
}

}  // namespace audiogen
