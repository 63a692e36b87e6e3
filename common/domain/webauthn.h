// Passkeys (Web Authentication Level 2): what a browser says when it makes or uses one, and whether
// that is what was asked for. Signatures are checked apart from this (PublicKey).
//
// A browser hands over the authenticator data and the public key apart from the attestation object
// (getAuthenticatorData(), getPublicKey()), so nothing here reads CBOR. Who made an authenticator
// is not asked: no attestation.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/crypto.h"
#include "common/base/ids.h"
#include "common/base/time.h"

namespace audiogen {

inline constexpr std::size_t kPasskeysMax = 10;        // Of a user.
inline constexpr std::size_t kCredentialIdMax = 1023;  // Bytes, by the standard.
// For as long as somebody looks for his telephone.
inline constexpr std::chrono::minutes kChallengeLife{5};

struct PasskeyTag {
  static constexpr const char* kPrefix = "psk_";
};
using PasskeyId = Id<PasskeyTag>;

// Whom passkeys are made for.
struct RelyingParty {
  std::string id;      // A host's name.
  std::string origin;  // Where its pages come from.
};

// Of a PUBLIC_URL; nullopt where browsers have no passkeys: by http, but for localhost, and for
// hosts that are addresses and not names.
std::optional<RelyingParty> relying_party(std::string_view public_url);

enum class Ceremony : std::uint8_t { kRegister, kSignIn };

// What a challenge was made for: it is good for nothing else.
struct ChallengeUse {
  Ceremony ceremony = Ceremony::kSignIn;
  std::string bound_to{};  // The session that registers; nobody's who signs in.
};

// A new challenge. It is known again by `key`, a secret, so none has to be kept; that it is used
// once only is for whoever keeps the used ones.
std::string make_challenge(const Sha256& key, const ChallengeUse& use, Instant expires_at);

// Until when `challenge` may be used; nullopt if it was not made by this key for this use, or its
// time is over.
std::optional<Instant> challenge_end(const Sha256& key,
                                     const ChallengeUse& use,
                                     std::string_view challenge,
                                     Instant now);

// The challenge that client data (CollectedClientData, in JSON) answer; nullopt unless they are of
// this ceremony, and of a page of ours that is in no other site's frame.
std::optional<std::string> answered_challenge(std::string_view client_data,
                                              Ceremony ceremony,
                                              const RelyingParty& party);

// What authenticator data say.
struct AuthenticatorData {
  std::uint32_t counter = 0;    // Of its signatures; 0 when it does not count.
  bool synced = false;          // It may be on several devices.
  std::string credential_id{};  // Of a new passkey.
};

// Nullopt unless they are for us, somebody was there and was verified (by his finger, his face or a
// PIN), and, of a new passkey, they name it.
std::optional<AuthenticatorData> read_authenticator_data(std::string_view data,
                                                         Ceremony ceremony,
                                                         const RelyingParty& party);

// What is signed with the passkey.
std::string signed_data(std::string_view authenticator_data, std::string_view client_data);

// Whether an authenticator that counts its signatures, as one that had counted to `stored` does,
// may now be at `counter`. If not, there are two of it: somebody has made a copy.
bool counter_advances(std::uint32_t stored, std::uint32_t counter);

}  // namespace audiogen
