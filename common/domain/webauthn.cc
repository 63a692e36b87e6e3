#include "common/domain/webauthn.h"

#include <algorithm>
#include <array>

#include "common/base/base64.h"
#include "common/base/ip_address.h"
#include "common/base/origin.h"
#include "common/domain/json_object.h"

namespace audiogen {
namespace {

using std::chrono::duration_cast;
using std::chrono::seconds;

constexpr std::size_t kTimeBytes = 8, kNonceBytes = 16;
constexpr std::size_t kSealAt = kTimeBytes + kNonceBytes;
constexpr std::size_t kChallengeBytes = kSealAt + sizeof(Sha256);

// Of authenticator data: where things are, and the bits of the flags.
constexpr std::size_t kFlagsAt = 32, kCounterAt = 33, kFixedBytes = 37;
constexpr std::size_t kIdLengthAt = kFixedBytes + 16, kIdAt = kIdLengthAt + 2;
constexpr unsigned kUserPresent = 0x01, kUserVerified = 0x04, kMayBeSynced = 0x08, kIsSynced = 0x10,
                   kHasCredential = 0x40, kHasExtensions = 0x80;

std::string_view type_of(Ceremony ceremony) {
  return ceremony == Ceremony::kRegister ? "webauthn.create" : "webauthn.get";
}

std::uint64_t big_endian(std::string_view bytes) {
  std::uint64_t out = 0;
  for (const char byte : bytes) {
    out = out << 8U | static_cast<std::uint8_t>(byte);
  }
  return out;
}

std::string_view text_of_bytes(const Sha256& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Sha256 seal(const Sha256& key, const ChallengeUse& use, std::string_view open) {
  std::string sealed(type_of(use.ceremony));
  sealed += '\0';
  sealed += use.bound_to;
  sealed += '\0';
  sealed += open;
  return hmac_sha256(text_of_bytes(key), sealed);
}

// A member's text; nullopt when there is none.
std::optional<std::string_view> text_member(const rapidjson::Value& object, const char* name) {
  const auto member = object.FindMember(name);
  return member != object.MemberEnd() && member->value.IsString()
             ? std::optional(text_of(member->value))
             : std::nullopt;
}

}  // namespace

std::optional<RelyingParty> relying_party(std::string_view public_url) {
  const auto origin = parse_origin(public_url);
  if (!origin) {
    return std::nullopt;
  }
  std::string_view host = std::string_view(origin->text).substr(origin->secure ? 8 : 7);
  if (host.starts_with('[')) {
    return std::nullopt;
  }
  host = host.substr(0, host.find(':'));
  if (IpAddress::parse(host) || (!origin->secure && host != "localhost")) {
    return std::nullopt;
  }
  return RelyingParty{.id = std::string(host), .origin = origin->text};
}

std::string make_challenge(const Sha256& key, const ChallengeUse& use, Instant expires_at) {
  std::array<std::uint8_t, kChallengeBytes> out{};
  const auto end =
      static_cast<std::uint64_t>(duration_cast<seconds>(expires_at.time_since_epoch()).count());
  for (std::size_t i = 0; i < kTimeBytes; ++i) {
    out.at(i) = static_cast<std::uint8_t>(end >> (8 * (kTimeBytes - 1 - i)));
  }
  random_bytes(std::span(out).subspan(kTimeBytes, kNonceBytes));
  const Sha256 sealed = seal(key, use, {reinterpret_cast<const char*>(out.data()), kSealAt});
  std::copy(sealed.begin(), sealed.end(), out.begin() + kSealAt);
  return encode_base64url(out);
}

std::optional<Instant> challenge_end(const Sha256& key,
                                     const ChallengeUse& use,
                                     std::string_view challenge,
                                     Instant now) {
  const auto raw = decode_base64url(challenge);
  if (!raw || raw->size() != kChallengeBytes) {
    return std::nullopt;
  }
  const std::string_view bytes(reinterpret_cast<const char*>(raw->data()), raw->size());
  const Sha256 sealed = seal(key, use, bytes.substr(0, kSealAt));
  if (!constant_time_equal(bytes.substr(kSealAt), text_of_bytes(sealed))) {
    return std::nullopt;
  }
  const Instant end{seconds(big_endian(bytes.substr(0, kTimeBytes)))};
  return end > now ? std::optional(end) : std::nullopt;
}

std::optional<std::string> answered_challenge(std::string_view client_data,
                                              Ceremony ceremony,
                                              const RelyingParty& party) {
  const auto document = read_json_object(client_data);
  if (!document) {
    return std::nullopt;
  }
  const auto cross_origin = document->FindMember("crossOrigin");
  const bool framed = (cross_origin != document->MemberEnd() && !cross_origin->value.IsFalse()) ||
                      document->HasMember("topOrigin");
  const auto challenge = text_member(*document, "challenge");
  if (framed || !challenge || text_member(*document, "type") != type_of(ceremony) ||
      text_member(*document, "origin") != party.origin) {
    return std::nullopt;
  }
  return std::string(*challenge);
}

std::optional<AuthenticatorData> read_authenticator_data(std::string_view data,
                                                         Ceremony ceremony,
                                                         const RelyingParty& party) {
  if (data.size() < kFixedBytes) {
    return std::nullopt;
  }
  const Sha256 ours = sha256(party.id);
  if (data.substr(0, kFlagsAt) != text_of_bytes(ours)) {
    return std::nullopt;
  }
  const unsigned flags = static_cast<std::uint8_t>(data[kFlagsAt]);
  const auto has = [&](unsigned bits) { return (flags & bits) == bits; };
  if (!has(kUserPresent | kUserVerified) || (has(kIsSynced) && !has(kMayBeSynced)) ||
      ((flags & (kHasCredential | kHasExtensions)) == 0 && data.size() != kFixedBytes)) {
    return std::nullopt;
  }
  AuthenticatorData out{
      .counter = static_cast<std::uint32_t>(big_endian(data.substr(kCounterAt, 4))),
      .synced = has(kMayBeSynced)};
  if (ceremony == Ceremony::kSignIn) {
    return out;
  }
  if (!has(kHasCredential) || data.size() < kIdAt) {
    return std::nullopt;
  }
  const auto length = big_endian(data.substr(kIdLengthAt, 2));
  // Its public key comes behind it.
  if (length == 0 || length > kCredentialIdMax || data.size() <= kIdAt + length) {
    return std::nullopt;
  }
  out.credential_id = data.substr(kIdAt, length);
  return out;
}

std::string signed_data(std::string_view authenticator_data, std::string_view client_data) {
  const Sha256 hash = sha256(client_data);
  return std::string(authenticator_data) + std::string(text_of_bytes(hash));
}

bool counter_advances(std::uint32_t stored, std::uint32_t counter) {
  return counter > stored || (counter == 0 && stored == 0);
}

}  // namespace audiogen
