// Signatures of keys that somebody else holds, by OpenSSL.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <utility>

struct evp_pkey_st;

namespace audiogen {

// A key whose signatures are told to be right or wrong: ECDSA on P-256 with SHA-256, in DER; RSA of
// 2,048 to 4,096 bits with an exponent of at most 64, PKCS #1 v1.5 with SHA-256; Ed25519.
class PublicKey {
 public:
  // Of a SubjectPublicKeyInfo in DER (RFC 5280 section 4.1.2.7) and nothing behind it; nullopt for
  // anything else, and for other kinds of keys.
  static std::optional<PublicKey> parse(std::string_view der);

  // Costs some 0.1 ms, whatever the answer. Any thread.
  bool verifies(std::string_view data, std::string_view signature) const;

 private:
  struct Free {
    void operator()(evp_pkey_st* key) const;
  };
  using Handle = std::unique_ptr<evp_pkey_st, Free>;
  explicit PublicKey(Handle key) : key_(std::move(key)) {}

  Handle key_;
};

}  // namespace audiogen
