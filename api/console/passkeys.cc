#include "api/console/passkeys.h"

#include <array>
#include <chrono>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "api/console/mails.h"
#include "api/console/session_words.h"
#include "common/base/base64.h"
#include "common/base/json.h"
#include "common/base/log.h"
#include "common/base/metrics.h"
#include "common/base/public_key.h"
#include "common/domain/passkey_request.h"
#include "common/domain/sign_in.h"

namespace audiogen::api {
namespace {

// Here, so that they are told from the start.
prometheus::Counter& checked =
    metrics::counter("api_passkey_checks_total", "Signatures of passkeys verified");

// More than all that a body can be about.
constexpr std::size_t kPasskeyBytesMax = std::size_t{16} * 1024;

// SubjectPublicKeyInfo of a key of P-256 whose other half nobody has kept.
constexpr std::array<std::uint8_t, 91> kNobodysKey = {
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00, 0x04, 0x37, 0x14, 0xe9, 0x8e, 0xef,
    0x0c, 0xb4, 0x2a, 0x05, 0xee, 0xab, 0xae, 0x61, 0x7d, 0x74, 0x20, 0x67, 0x93, 0x01, 0xa5, 0x56,
    0xab, 0xd0, 0x12, 0x61, 0x51, 0xaa, 0x5a, 0x93, 0xa6, 0x01, 0x8c, 0xe4, 0xe8, 0x16, 0x4b, 0x04,
    0x14, 0x1e, 0x2b, 0x9a, 0x9d, 0x34, 0x32, 0x19, 0xd6, 0xe1, 0x39, 0x7c, 0x39, 0xb6, 0xd3, 0x8b,
    0x63, 0x3d, 0x4e, 0x71, 0xb8, 0x1c, 0x97, 0xdb, 0xdd, 0x26, 0x76};

std::string_view as_text(std::span<const std::uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string base64url(std::string_view bytes) {
  return encode_base64url({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
}

// By the process's clock: a challenge is asked for and answered within minutes, and never waits for
// the database.
Instant wall_clock() {
  return std::chrono::time_point_cast<Instant::duration>(std::chrono::system_clock::now());
}

ApiError not_the_answer() {
  return invalid_parameter("client_data",
                           "client_data must be a browser's answer to a challenge of the last " +
                               std::to_string(kChallengeLife.count()) +
                               " minutes, given once, on this page.");
}

ApiError too_many() {
  return limit_reached("An account has at most " + std::to_string(kPasskeysMax) +
                       " passkeys; remove one first.");
}

ApiError in_words(const store::Fault& fault, const Call& call) {
  using Code = store::FaultCode;
  switch (fault.code) {
    case Code::kBadLogin:
    case Code::kCounterBack:
      return invalid_login();
    case Code::kChallengeUsed:
      return call.route().access == Access::kPublic ? invalid_login() : not_the_answer();
    case Code::kNoSuchPasskey:
      return passkey_not_found();
    case Code::kTooManyPasskeys:
      return too_many();
    case Code::kPasskeyTaken:
      return invalid_parameter("authenticator_data", "This passkey is registered already.");
    case Code::kLastWayIn:
      return last_way_in();
    default:
      return session_worded(fault, call);
  }
}

// The bytes by which an authenticator knows whose a passkey is.
std::string_view user_handle(const UserId& user) {
  return as_text(user.uuid.bytes);
}

// A new one, as JSON members of an object that is begun and ended elsewhere.
void write_challenge(JsonWriter& json,
                     const Sha256& key,
                     const ChallengeUse& use,
                     const RelyingParty& party) {
  const Instant expires_at = wall_clock() + kChallengeLife;
  json.member("challenge", std::string_view(make_challenge(key, use, expires_at)))
      .member("expires_at", expires_at)
      .member("rp_id", std::string_view(party.id));
}

void write_passkey(JsonWriter& json, const store::Passkey& passkey) {
  json.begin_object()
      .member("id", passkey.id)
      .member("name", std::string_view(passkey.name))
      .member("synced", passkey.synced)
      .member("created_at", passkey.created_at)
      .member("last_used_at", passkey.last_used_at)
      .end_object();
}

std::string render(const store::Passkey& passkey) {
  std::string out;
  JsonWriter json(out);
  write_passkey(json, passkey);
  return out;
}

std::string render_list(const std::vector<store::Passkey>& passkeys) {
  std::string out;
  JsonWriter json(out);
  json.begin_object().member("object", "list").key("data").begin_array();
  for (const store::Passkey& passkey : passkeys) {
    write_passkey(json, passkey);
  }
  json.end_array().member("has_more", false).key("next_cursor").null().end_object();
  return out;
}

// For those who look for it later.
void note(const char* what, const Call& call, UserId user, PasskeyId passkey) {
  log::info(what,
            {{"request_id", call.request_id()},
             {"user_id", user},
             {"passkey_id", passkey},
             {"address", call.request().client.text()}});
}

// Until when the challenge that `client_data` answer may be used, with its hash; nullopt when they
// answer none of ours.
std::optional<store::AnsweredChallenge> answered(const Sha256& key,
                                                 const ChallengeUse& use,
                                                 std::string_view client_data,
                                                 const RelyingParty& party) {
  const auto challenge = answered_challenge(client_data, use.ceremony, party);
  const auto end = challenge ? challenge_end(key, use, *challenge, wall_clock()) : std::nullopt;
  return end ? std::optional(
                   store::AnsweredChallenge{.hash = sha256(*challenge), .expires_at = *end})
             : std::nullopt;
}

bool signed_by(const PublicKey& key, const PasskeySignIn& shown) {
  checked.Increment();
  return key.verifies(signed_data(shown.authenticator_data, shown.client_data), shown.signature);
}

ChallengeUse registering(const Call& call) {
  return {.ceremony = Ceremony::kRegister, .bound_to = call.key().session->text()};
}

}  // namespace

Passkeys::Passkeys(RelyingParty party, const SignIns& sign_ins, DoorsPool& pool, Mails* mails)
    : party_(std::move(party)), sign_ins_(sign_ins), pool_(pool), mails_(mails) {}

std::optional<Sha256> Passkeys::remembered_key() const {
  const MutexLock lock(mutex_);
  return key_;
}

Result<Sha256, store::Fault> Passkeys::key(StoreDoors& doors) {
  if (const auto known = remembered_key()) {
    return *known;
  }
  auto read = doors.passkeys.challenge_key();
  if (read) {
    const MutexLock lock(mutex_);
    key_ = *read;
  }
  return read;
}

Handling Passkeys::challenge(Call call) {
  auto known = remembered_key();
  if (!known) {
    const auto read = [&](StoreDoors& doors) { return key(doors); };
    auto outcome = co_await on_store(pool_, call.holder(), read);
    const auto now = told(std::move(outcome), call, in_words);
    if (!now) {
      call.fail(now.error());
      co_return;
    }
    known = *now;
  }
  std::string out;
  JsonWriter json(out);
  json.begin_object();
  write_challenge(json, *known, {.ceremony = Ceremony::kSignIn}, party_);
  json.end_object();
  call.answer(200, std::move(out));
}

Handling Passkeys::open_session(Call call) {
  const auto shown = co_await call.json_body(kPasskeyBytesMax, parse_passkey_sign_in);
  if (!shown) {
    call.fail(shown.error());
    co_return;
  }
  struct Found {
    Sha256 key;
    std::optional<store::StoredPasskey> passkey;
  };
  const auto read = [&](StoreDoors& doors) -> Result<Found, store::Fault> {
    const auto sealed_by = key(doors);
    if (!sealed_by) {
      return sealed_by.error();
    }
    auto passkey = doors.passkeys.find(shown->credential_id);
    if (!passkey) {
      return passkey.error();
    }
    return Found{*sealed_by, *std::move(passkey)};
  };
  auto outcome = co_await on_store(pool_, call.holder(), read);
  const auto found = told(std::move(outcome), call, in_words);
  if (!found) {
    call.fail(found.error());
    co_return;
  }
  const auto answer =
      answered(found->key, {.ceremony = Ceremony::kSignIn}, shown->client_data, party_);
  const auto said = read_authenticator_data(shown->authenticator_data, Ceremony::kSignIn, party_);
  // Of one that is not there a signature is checked as well, and takes as long.
  const auto& passkey = found->passkey;
  const auto by = PublicKey::parse(passkey ? passkey->public_key : as_text(kNobodysKey));
  const bool verified = by && signed_by(*by, *shown);
  if (!answer || !said || !passkey || !verified ||
      shown->user_handle != user_handle(passkey->user) || said->synced != passkey->synced) {
    call.fail(invalid_login());
    co_return;
  }
  const NewToken token = make_token();
  const auto write = [&](StoreDoors& doors) {
    return doors.passkeys.open_session(
        passkey->id, said->counter, *answer, sign_ins_.new_session(call, token));
  };
  auto written = co_await on_store(pool_, call.holder(), write);
  if (written && !*written && written->error().code == store::FaultCode::kCounterBack) {
    log::warn("a passkey's counter went backwards: there may be a copy of it",
              {{"request_id", call.request_id()},
               {"user_id", passkey->user},
               {"passkey_id", passkey->id},
               {"address", call.request().client.text()}});
  }
  sign_ins_.answer_opened(
      call, told(std::move(written), call, in_words), token, "signed in by passkey");
}

Handling Passkeys::invite(Call call) {
  struct Found {
    Sha256 key;
    store::WebSessionState state;
    std::vector<std::string> credential_ids;
  };
  const auto read = [&](StoreDoors& doors) -> Result<Found, store::Fault> {
    const auto sealed_by = key(doors);
    if (!sealed_by) {
      return sealed_by.error();
    }
    auto state = doors.web_sessions.find(call.key().user, *call.key().session);
    if (!state) {
      return state.error();
    }
    auto ids = doors.passkeys.credential_ids(call.key().user);
    if (!ids) {
      return ids.error();
    }
    return Found{*sealed_by, *std::move(state), *std::move(ids)};
  };
  auto outcome = co_await on_store(pool_, call.holder(), read);
  const auto found = told(std::move(outcome), call, in_words);
  if (!found) {
    call.fail(found.error());
    co_return;
  }
  if (!found->state.fresh) {
    call.fail(step_up_required());
    co_return;
  }
  if (found->credential_ids.size() >= kPasskeysMax) {
    call.fail(too_many());
    co_return;
  }
  std::string out;
  JsonWriter json(out);
  json.begin_object();
  write_challenge(json, found->key, registering(call), party_);
  json.member("user_handle", std::string_view(base64url(user_handle(call.key().user))))
      .member("user_name", std::string_view(found->state.email))
      .key("exclude")
      .begin_array();
  for (const std::string& id : found->credential_ids) {
    json.value(std::string_view(base64url(id)));
  }
  json.end_array().end_object();
  call.answer(200, std::move(out));
}

Handling Passkeys::add(Call call) {
  auto made = co_await call.json_body(kPasskeyBytesMax, parse_passkey_registration);
  if (!made) {
    call.fail(made.error());
    co_return;
  }
  auto said = read_authenticator_data(made->authenticator_data, Ceremony::kRegister, party_);
  if (!said) {
    call.fail(invalid_parameter("authenticator_data",
                                "authenticator_data must be of a new passkey for this site, made "
                                "by a person who was verified."));
    co_return;
  }
  if (!PublicKey::parse(made->public_key)) {
    call.fail(
        invalid_parameter("public_key", "public_key must be one for ES256, RS256 or Ed25519."));
    co_return;
  }
  const store::NewPasskey passkey{.id = PasskeyId::make(),
                                  .name = std::move(made->name),
                                  .credential_id = std::move(said->credential_id),
                                  .public_key = std::move(made->public_key),
                                  .counter = said->counter,
                                  .synced = said->synced};
  const auto write = [&](StoreDoors& doors) -> Result<store::Passkey, store::Fault> {
    const auto sealed_by = key(doors);
    if (!sealed_by) {
      return sealed_by.error();
    }
    const auto answer = answered(*sealed_by, registering(call), made->client_data, party_);
    if (!answer) {
      return store::Fault{.code = store::FaultCode::kChallengeUsed};
    }
    return doors.passkeys.add(call.key().user, *call.key().session, passkey, *answer);
  };
  auto outcome = co_await on_store(pool_, call.holder(), write);
  const auto added = told(std::move(outcome), call, in_words);
  if (!added) {
    call.fail(added.error());
    co_return;
  }
  note("passkey added", call, call.key().user, added->id);
  if (mails_ != nullptr) {
    mails_->tell(Notice::kPasskeyAdded, call.key().user);
  }
  call.answer(201, render(*added));
}

Handling Passkeys::list(Call call) {
  const auto read = [&](StoreDoors& doors) { return doors.passkeys.list(call.key().user); };
  auto outcome = co_await on_store(pool_, call.holder(), read);
  const auto passkeys = told(std::move(outcome), call, in_words);
  if (!passkeys) {
    call.fail(passkeys.error());
    co_return;
  }
  call.answer_tagged(render_list(*passkeys));
}

Handling Passkeys::rename(Call call) {
  const auto name = co_await call.json_body(kPasskeyBytesMax, parse_passkey_name);
  if (!name) {
    call.fail(name.error());
    co_return;
  }
  const auto id = PasskeyId::parse(call.parameter(0));
  if (!id) {
    call.fail(passkey_not_found());
    co_return;
  }
  const auto write = [&](StoreDoors& doors) {
    return doors.passkeys.rename(call.key().user, *id, *name);
  };
  auto outcome = co_await on_store(pool_, call.holder(), write);
  const auto renamed = told(std::move(outcome), call, in_words);
  if (!renamed) {
    call.fail(renamed.error());
    co_return;
  }
  call.answer(200, render(*renamed));
}

Handling Passkeys::remove(Call call) {
  const auto id = PasskeyId::parse(call.parameter(0));
  if (!id) {
    call.fail(passkey_not_found());
    co_return;
  }
  const auto write = [&](StoreDoors& doors) {
    return doors.passkeys.remove(call.key().user, *call.key().session, *id);
  };
  auto outcome = co_await on_store(pool_, call.holder(), write);
  const auto removed = told(std::move(outcome), call, in_words);
  if (!removed) {
    call.fail(removed.error());
    co_return;
  }
  note("passkey removed", call, call.key().user, *id);
  call.answer_nothing();
}

}  // namespace audiogen::api
