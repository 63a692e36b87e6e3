#include "common/base/public_key.h"

#include <array>
#include <cstdint>
#include <memory>

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

#include "common/base/check.h"

namespace audiogen {
namespace {

constexpr int kRsaBitsMin = 2048, kRsaBitsMax = 4096;
// Authenticators have 65537. One as long as the key makes each look at a signature a hundred times
// as dear.
constexpr int kRsaExponentBitsMax = 64;

const std::uint8_t* bytes_of(std::string_view text) {
  return reinterpret_cast<const std::uint8_t*>(text.data());
}

bool is_p256(const EVP_PKEY* key) {
  std::array<char, 32> name{};
  return EVP_PKEY_get_group_name(key, name.data(), name.size(), nullptr) == 1 &&
         std::string_view(name.data()) == "prime256v1";
}

bool is_usual_rsa(const EVP_PKEY* key) {
  BIGNUM* read = nullptr;
  const bool there = EVP_PKEY_get_bn_param(key, OSSL_PKEY_PARAM_RSA_E, &read) == 1;
  const std::unique_ptr<BIGNUM, decltype(&BN_free)> exponent(read, BN_free);
  return there && BN_num_bits(exponent.get()) <= kRsaExponentBitsMax &&
         EVP_PKEY_get_bits(key) >= kRsaBitsMin && EVP_PKEY_get_bits(key) <= kRsaBitsMax;
}

bool is_known(const EVP_PKEY* key) {
  switch (EVP_PKEY_get_base_id(key)) {
    case EVP_PKEY_EC:
      return is_p256(key);
    case EVP_PKEY_RSA:
      return is_usual_rsa(key);
    case EVP_PKEY_ED25519:
      return true;
    default:
      return false;
  }
}

}  // namespace

void PublicKey::Free::operator()(evp_pkey_st* key) const {
  EVP_PKEY_free(key);
}

std::optional<PublicKey> PublicKey::parse(std::string_view der) {
  const std::uint8_t* at = bytes_of(der);
  Handle key(d2i_PUBKEY(nullptr, &at, static_cast<long>(der.size())));
  ERR_clear_error();  // What is wrong with it is nobody's business; the queue is this thread's.
  if (!key || at != bytes_of(der) + der.size() || !is_known(key.get())) {
    return std::nullopt;
  }
  return PublicKey(std::move(key));
}

bool PublicKey::verifies(std::string_view data, std::string_view signature) const {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        EVP_MD_CTX_free);
  AG_CHECK(context != nullptr);
  // Ed25519 hashes by itself (RFC 8032 section 5.1).
  const EVP_MD* const digest =
      EVP_PKEY_get_base_id(key_.get()) == EVP_PKEY_ED25519 ? nullptr : EVP_sha256();
  const bool verified =
      EVP_DigestVerifyInit(context.get(), nullptr, digest, nullptr, key_.get()) == 1 &&
      EVP_DigestVerify(
          context.get(), bytes_of(signature), signature.size(), bytes_of(data), data.size()) == 1;
  ERR_clear_error();
  return verified;
}

}  // namespace audiogen
