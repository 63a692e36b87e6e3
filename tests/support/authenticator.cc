#include "tests/support/authenticator.h"

#include <array>

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>

#include "common/base/base64.h"
#include "common/base/check.h"
#include "common/base/crypto.h"

namespace audiogen::test {
namespace {

std::string base64url(const std::string& bytes) {
  return encode_base64url({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
}

std::string hash(const std::string& bytes) {
  const Sha256 out = sha256(bytes);
  return {out.begin(), out.end()};
}

EVP_PKEY* new_key(Authenticator::Kind kind) {
  switch (kind) {
    case Authenticator::Kind::kRs256:
      return EVP_RSA_gen(2048);
    case Authenticator::Kind::kEd25519:
      return EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519");
    case Authenticator::Kind::kP384:
      return EVP_EC_gen("P-384");
    case Authenticator::Kind::kEs256:
      break;
  }
  return EVP_EC_gen("P-256");
}

std::string client_data(const std::string& type,
                        const std::string& challenge,
                        const Authenticator::Saying& saying) {
  return R"({"type":")" + (saying.type.empty() ? type : saying.type) + R"(","challenge":")" +
         challenge + R"(","origin":")" + saying.origin + R"(","crossOrigin":)" +
         (saying.cross_origin ? "true" : "false") + "}";
}

std::string authenticator_data(unsigned flags, const Authenticator::Saying& saying) {
  std::string out = hash(saying.rp_id);
  out += static_cast<char>(flags);
  for (const unsigned shift : {24U, 16U, 8U, 0U}) {
    out += static_cast<char>(saying.counter >> shift);
  }
  return out;
}

}  // namespace

void Authenticator::Free::operator()(evp_pkey_st* key) const {
  EVP_PKEY_free(key);
}

Authenticator::Authenticator(Kind kind) : key_(new_key(kind)) {
  AG_CHECK(key_ != nullptr);
  std::array<std::uint8_t, 32> id{};
  random_bytes(id);
  credential_id_.assign(id.begin(), id.end());
}

std::string Authenticator::public_key() const {
  unsigned char* der = nullptr;
  const int size = i2d_PUBKEY(key_.get(), &der);
  AG_CHECK(size > 0);
  std::string out(reinterpret_cast<const char*>(der), static_cast<std::size_t>(size));
  OPENSSL_free(der);
  return out;
}

std::string Authenticator::sign_bytes(const std::string& data) const {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        EVP_MD_CTX_free);
  const EVP_MD* const digest =
      EVP_PKEY_get_base_id(key_.get()) == EVP_PKEY_ED25519 ? nullptr : EVP_sha256();
  AG_CHECK(EVP_DigestSignInit(context.get(), nullptr, digest, nullptr, key_.get()) == 1);
  const auto* const bytes = reinterpret_cast<const unsigned char*>(data.data());
  std::size_t size = 0;
  AG_CHECK(EVP_DigestSign(context.get(), nullptr, &size, bytes, data.size()) == 1);
  std::string out(size, '\0');
  AG_CHECK(
      EVP_DigestSign(
          context.get(), reinterpret_cast<unsigned char*>(out.data()), &size, bytes, data.size()) ==
      1);
  out.resize(size);
  return out;
}

Authenticator::Registration Authenticator::make(const std::string& challenge,
                                                const Saying& saying) const {
  constexpr unsigned kHasCredential = 0x40;
  std::string data = authenticator_data(saying.flags | kHasCredential, saying);
  data += std::string(16, '\0');  // Of no known make.
  data += static_cast<char>(credential_id_.size() >> 8U);
  data += static_cast<char>(credential_id_.size());
  data += credential_id_;
  data += '\xA0';  // Where the key is in CBOR, which nobody reads.
  return {.client_data = base64url(client_data("webauthn.create", challenge, saying)),
          .authenticator_data = base64url(data),
          .public_key = base64url(public_key())};
}

Authenticator::Assertion Authenticator::sign(const std::string& challenge,
                                             const Saying& saying) const {
  const std::string client = client_data("webauthn.get", challenge, saying);
  const std::string data = authenticator_data(saying.flags, saying);
  return {.credential_id = base64url(credential_id_),
          .client_data = base64url(client),
          .authenticator_data = base64url(data),
          .signature = base64url(sign_bytes(data + hash(client)))};
}

}  // namespace audiogen::test
