// An authenticator in software: makes passkeys and signs with them, rightly or as wrongly as a test
// wants (Web Authentication Level 2).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

struct evp_pkey_st;

namespace audiogen::test {

class Authenticator {
 public:
  enum class Kind { kEs256, kRs256, kEd25519, kP384 };
  explicit Authenticator(Kind kind = Kind::kEs256);

  // What the browser and the authenticator say, where it is not the usual.
  struct Saying {
    std::string rp_id, origin;
    std::string type{};  // Empty: that of the ceremony.
    bool cross_origin = false;
    unsigned flags = 0x05;  // User present and verified; a new passkey's bit is added.
    std::uint32_t counter = 0;
  };

  // Bytes, in base64url.
  struct Registration {
    std::string client_data, authenticator_data, public_key;
  };
  struct Assertion {
    std::string credential_id, client_data, authenticator_data, signature;
  };
  Registration make(const std::string& challenge, const Saying& saying) const;
  Assertion sign(const std::string& challenge, const Saying& saying) const;

  const std::string& credential_id() const { return credential_id_; }  // Bytes.
  std::string public_key() const;                                      // Bytes.
  std::string sign_bytes(const std::string& data) const;

 private:
  struct Free {
    void operator()(evp_pkey_st* key) const;
  };
  std::unique_ptr<evp_pkey_st, Free> key_;
  std::string credential_id_;
};

}  // namespace audiogen::test
