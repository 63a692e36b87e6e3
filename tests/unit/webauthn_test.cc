// Passkeys, as rules: where there are any, challenges, what browsers and authenticators say,
// signatures.
#include "common/domain/webauthn.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/base64.h"
#include "common/base/public_key.h"
#include "common/domain/passkey_request.h"
#include "tests/support/authenticator.h"

namespace audiogen {
namespace {

using test::Authenticator;
using testing::HasSubstr;
using testing::Not;
using namespace std::chrono_literals;

const RelyingParty kParty{.id = "audio.example.com", .origin = "https://audio.example.com"};
const Instant kNow(std::chrono::sys_days(std::chrono::year(2026) / 11 / 23));
const Sha256 kKey = sha256("a secret");
const Authenticator::Saying kUsual{.rp_id = kParty.id, .origin = kParty.origin};

std::string bytes(const std::string& base64url) {
  const auto raw = decode_base64url(base64url);
  EXPECT_TRUE(raw);
  return raw ? std::string(raw->begin(), raw->end()) : "";
}

TEST(WebAuthnParty, IsANameByHttpsOrThisMachine) {
  for (const auto& [url, id, origin] :
       {std::array<std::string, 3>{
            "https://audio.example.com/", "audio.example.com", "https://audio.example.com"},
        {"https://Audio.Example.com:8443", "audio.example.com", "https://audio.example.com:8443"},
        {"https://intranet", "intranet", "https://intranet"},
        {"http://localhost:8080", "localhost", "http://localhost:8080"},
        {"https://localhost", "localhost", "https://localhost"}}) {
    const auto party = relying_party(url);
    ASSERT_TRUE(party) << url;
    EXPECT_EQ(party->id, id);
    EXPECT_EQ(party->origin, origin);
  }
  for (const char* url : {"http://audio.example.com",
                          "http://127.0.0.1:8080",
                          "http://[::1]:8080",
                          "https://192.0.2.1",
                          "https://[2001:db8::1]",
                          "http://localhost.example.com",
                          ""}) {
    EXPECT_FALSE(relying_party(url)) << url;
  }
}

TEST(WebAuthnChallenge, IsGoodForWhatItWasMadeForUntilItsEnd) {
  const ChallengeUse use{.ceremony = Ceremony::kRegister, .bound_to = "ses_1"};
  const std::string challenge = make_challenge(kKey, use, kNow + 5min);
  EXPECT_NE(challenge, make_challenge(kKey, use, kNow + 5min));
  EXPECT_EQ(challenge_end(kKey, use, challenge, kNow), kNow + 5min);
  EXPECT_EQ(challenge_end(kKey, use, challenge, kNow + 5min - 1us), kNow + 5min);
  EXPECT_FALSE(challenge_end(kKey, use, challenge, kNow + 5min));
  EXPECT_FALSE(challenge_end(sha256("another"), use, challenge, kNow));
  for (const ChallengeUse& other : {ChallengeUse{Ceremony::kSignIn, "ses_1"},
                                    ChallengeUse{Ceremony::kRegister, "ses_2"},
                                    ChallengeUse{Ceremony::kRegister, ""}}) {
    EXPECT_FALSE(challenge_end(kKey, other, challenge, kNow));
  }
  const auto raw = *decode_base64url(challenge);
  for (std::size_t i = 0; i < raw.size(); ++i) {
    auto changed = raw;
    changed[i] ^= 1U;
    EXPECT_FALSE(challenge_end(kKey, use, encode_base64url(changed), kNow)) << i;
  }
  for (const std::string& no : {std::string(),
                                challenge + "A",
                                challenge.substr(1),
                                std::string(challenge.size(), 'A'),
                                std::string("?")}) {
    EXPECT_FALSE(challenge_end(kKey, use, no, kNow)) << no;
  }
}

TEST(WebAuthnClientData, AreOfOurPageAndThisCeremony) {
  const auto data = [](const std::string& members) { return "{" + members + "}"; };
  const std::string type = R"("type":"webauthn.get",)", challenge = R"("challenge":"abc",)";
  const std::string origin = R"("origin":"https://audio.example.com")";
  const auto answered = [](const std::string& json, Ceremony ceremony = Ceremony::kSignIn) {
    return answered_challenge(json, ceremony, kParty);
  };
  EXPECT_EQ(answered(data(type + challenge + origin)), "abc");
  EXPECT_EQ(answered(data(type + challenge + origin + R"(,"crossOrigin":false,"other":[1])")),
            "abc")
      << "members that nobody knows are none of our business";
  EXPECT_FALSE(answered(data(type + challenge + origin), Ceremony::kRegister));
  for (const std::string& no :
       {std::string(),
        std::string("[]"),
        data(type + origin),
        data(challenge + origin),
        data(type + R"("challenge":"abc")"),
        data(type + R"("challenge":1,)" + origin),
        data(R"("type":"webauthn.create",)" + challenge + origin),
        data(type + challenge + R"("origin":"https://audio.example.com.evil.example")"),
        data(type + challenge + R"("origin":"http://audio.example.com")"),
        data(type + challenge + R"("origin":"https://audio.example.com:8443")"),
        data(type + challenge + origin + R"(,"crossOrigin":true)"),
        data(type + challenge + origin + R"(,"crossOrigin":"false")"),
        data(type + challenge + origin + R"(,"topOrigin":"https://evil.example")")}) {
    EXPECT_FALSE(answered(no)) << no;
  }
}

TEST(WebAuthnAuthenticatorData, AreForUsAndOfSomebodyWhoWasVerified) {
  const Authenticator phone;
  const auto signing = [&](const Authenticator::Saying& saying) {
    return bytes(phone.sign("c", saying).authenticator_data);
  };
  const auto making = [&](const Authenticator::Saying& saying) {
    return bytes(phone.make("c", saying).authenticator_data);
  };
  Authenticator::Saying saying = kUsual;
  saying.counter = 0xFEDCBA98;
  const auto signed_in = read_authenticator_data(signing(saying), Ceremony::kSignIn, kParty);
  ASSERT_TRUE(signed_in);
  EXPECT_EQ(signed_in->counter, 0xFEDCBA98U);
  EXPECT_FALSE(signed_in->synced);
  const auto made = read_authenticator_data(making(saying), Ceremony::kRegister, kParty);
  ASSERT_TRUE(made);
  EXPECT_EQ(made->credential_id, phone.credential_id());
  EXPECT_FALSE(read_authenticator_data(signing(saying), Ceremony::kRegister, kParty))
      << "names no passkey";

  for (const auto& [flags, good] : {std::pair<unsigned, bool>{0x05, true},
                                    {0x0D, true},   // May be synced,
                                    {0x1D, true},   // and is.
                                    {0x15, false},  // Is, and may not be.
                                    {0x01, false},  // Nobody was verified,
                                    {0x04, false},  // or there.
                                    {0x00, false}}) {
    saying.flags = flags;
    for (const Ceremony ceremony : {Ceremony::kSignIn, Ceremony::kRegister}) {
      const auto data = ceremony == Ceremony::kSignIn ? signing(saying) : making(saying);
      const auto read = read_authenticator_data(data, ceremony, kParty);
      EXPECT_EQ(read.has_value(), good) << flags;
      EXPECT_EQ(read && read->synced, good && (flags & 0x08U) != 0) << flags;
    }
  }
  saying = kUsual;
  saying.rp_id = "example.com";
  EXPECT_FALSE(read_authenticator_data(signing(saying), Ceremony::kSignIn, kParty));
  const std::string whole = making(kUsual);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(read_authenticator_data(whole.substr(0, size), Ceremony::kRegister, kParty))
        << size;
  }
  EXPECT_FALSE(read_authenticator_data(signing(kUsual) + "x", Ceremony::kSignIn, kParty));
  std::string long_id = whole;
  long_id[53] = 4;  // 1024 bytes or more.
  long_id += std::string(2048, 'x');
  EXPECT_FALSE(read_authenticator_data(long_id, Ceremony::kRegister, kParty));
}

TEST(WebAuthnCounter, OnlyGrowsOrStaysAtNothing) {
  EXPECT_TRUE(counter_advances(0, 0));
  EXPECT_TRUE(counter_advances(0, 1));
  EXPECT_TRUE(counter_advances(7, 8));
  EXPECT_FALSE(counter_advances(7, 7));
  EXPECT_FALSE(counter_advances(7, 6));
  EXPECT_FALSE(counter_advances(7, 0));
}

TEST(WebAuthnSignature, IsOfItsKeyAndItsData) {
  using Kind = Authenticator::Kind;
  for (const Kind kind : {Kind::kEs256, Kind::kRs256, Kind::kEd25519}) {
    const Authenticator phone(kind), other(kind);
    const auto key = PublicKey::parse(phone.public_key());
    ASSERT_TRUE(key);
    const auto said = phone.sign("abc", kUsual);
    const std::string data = signed_data(bytes(said.authenticator_data), bytes(said.client_data));
    std::string signature = bytes(said.signature);
    EXPECT_TRUE(key->verifies(data, signature));
    EXPECT_FALSE(key->verifies(data + "x", signature));
    EXPECT_FALSE(key->verifies(data, other.sign_bytes(data)));
    EXPECT_FALSE(key->verifies(data, ""));
    signature.back() = static_cast<char>(signature.back() ^ 1);
    EXPECT_FALSE(key->verifies(data, signature));
    EXPECT_FALSE(PublicKey::parse(phone.public_key() + "x"));
    EXPECT_FALSE(PublicKey::parse(phone.public_key().substr(1)));
  }
  EXPECT_FALSE(PublicKey::parse(Authenticator(Kind::kP384).public_key()));
  EXPECT_FALSE(PublicKey::parse(""));
}

// An element of DER (ITU-T X.690).
std::string element(char tag, const std::string& content) {
  const auto size = content.size();
  constexpr std::size_t kShort = 128;
  std::string length;
  if (size >= kShort) {
    length = {'\x82', static_cast<char>(size >> 8U)};
  }
  return tag + length + static_cast<char>(size & 0xFFU) + content;
}

// SubjectPublicKeyInfo of an RSA key (RFC 8017, appendix A.1.1).
std::string rsa_key(const std::string& exponent) {
  constexpr char kSequence = 0x30, kInteger = 0x02, kBits = 0x03, kOid = 0x06, kNull = 0x05;
  const std::string modulus = '\0' + std::string(256, '\xFF');
  const std::string key =
      element(kSequence, element(kInteger, modulus) + element(kInteger, exponent));
  const std::string rsa_encryption = "\x2A\x86\x48\x86\xF7\x0D\x01\x01\x01";
  return element(kSequence,
                 element(kSequence, element(kOid, rsa_encryption) + element(kNull, "")) +
                     element(kBits, '\0' + key));
}

TEST(WebAuthnSignature, OfAnRsaKeyIsNoDearerThanOfOthers) {
  EXPECT_TRUE(PublicKey::parse(rsa_key("\x01" + std::string(1, '\0') + "\x01")));
  EXPECT_TRUE(PublicKey::parse(rsa_key(std::string(8, '\x7F'))));
  EXPECT_FALSE(PublicKey::parse(rsa_key(std::string(9, '\x7F'))));
  EXPECT_FALSE(PublicKey::parse(rsa_key('\0' + std::string(256, '\xFD'))));
}

TEST(PasskeyRequest, NamesTheMemberAtFaultAndNeverRepeatsIt) {
  const auto added = parse_passkey_registration(
      R"({"name":"Phone","client_data":"AAAA","authenticator_data":"AAAB","public_key":"AAAC"})");
  ASSERT_TRUE(added);
  EXPECT_EQ(added->name, "Phone");
  EXPECT_EQ(added->client_data, std::string(3, '\0'));
  EXPECT_EQ(added->public_key, std::string("\0\0\2", 3));
  const auto shown = parse_passkey_sign_in(
      R"({"credential_id":"AAAA","client_data":"AAAB","authenticator_data":"AAAC",)"
      R"("signature":"AAAD","user_handle":"AAAE"})");
  ASSERT_TRUE(shown);
  EXPECT_EQ(shown->signature, std::string("\0\0\3", 3));
  EXPECT_EQ(shown->user_handle, std::string("\0\0\4", 3));
  EXPECT_EQ(*parse_passkey_name(R"({"name":"Laptop"})"), "Laptop");

  struct Case {
    std::string body, param;
  };
  for (const Case& c :
       {Case{"{}", "credential_id"},
        Case{R"({"credential_id":"A"})", "credential_id"},
        Case{R"({"credential_id":"AAAA="})", "credential_id"},
        Case{R"({"credential_id":1})", "credential_id"},
        Case{R"({"credential_id":"AAAA","credential_id":"AAAA"})", "credential_id"},
        Case{R"({"credential_id":")" + std::string(1400, 'A') + R"("})", "credential_id"},
        Case{R"({"credential_id":"AAAA","attestation":"AAAA"})", "attestation"},
        Case{"[]", ""}}) {
    const auto read = parse_passkey_sign_in(c.body);
    ASSERT_FALSE(read) << c.body;
    EXPECT_EQ(read.error().param.value_or(""), c.param) << c.body;
    EXPECT_THAT(read.error().message, Not(HasSubstr("AAAA")));
  }
  for (const char* name : {"", " a", "a ", "a\\u0000b"}) {
    EXPECT_EQ(parse_passkey_name(R"({"name":")" + std::string(name) + R"("})").error().param,
              "name")
        << name;
  }
  EXPECT_EQ(parse_passkey_name("{}").error().param, "name");
  EXPECT_EQ(parse_passkey_registration(R"({"name":"x"})").error().param, "client_data");
}

}  // namespace
}  // namespace audiogen
