#include "api/console/sign_ins.h"

#include <optional>
#include <utility>
#include <variant>

#include "api/console/argon2.h"
#include "api/console/mails.h"
#include "api/server/answer.h"
#include "api/server/answers_of_store.h"
#include "api/server/auth.h"
#include "api/server/security_events.h"
#include "common/base/check.h"
#include "common/base/json.h"
#include "common/base/log.h"
#include "common/base/origin.h"
#include "common/domain/password.h"
#include "common/domain/sign_in.h"
#include "common/domain/sign_in_request.h"

namespace audiogen::api {
namespace {

constexpr StorePoolOptions kHashers{.threads = 2, .per_user = 4, .total = 100};
// More than all that a body can be about, also with every character spelled as an escape.
constexpr std::size_t kSignInBytesMax = std::size_t{16} * 1024;

// Of the session that asks: one that was ended a moment ago is only remembered.
ApiError of_own(const ApiError& error) {
  return error.code == ApiErrorCode::kNotFound ? not_signed_in() : error;
}

// Of the new password, where the current one is not needed or is right; else empty. Nullopt: this
// process cannot tell. Blocks for as long as hashing takes.
std::optional<std::string> new_encoded(const PasswordChange& change,
                                       const store::WebSessionState& state) {
  const auto knows =
      state.fresh ? std::optional(true) : argon2_matches(*state.password, *change.current);
  if (!knows) {
    return std::nullopt;
  }
  return *knows ? argon2_encode(change.password) : std::optional(std::string());
}

void write_times(JsonWriter& json, const store::WebSession& session) {
  json.member("created_at", session.created_at);
  json.member("expires_at", session_end(session.created_at, session.last_seen_at));
}

std::string render_opened(const store::OpenedWebSession& opened) {
  std::string out;
  JsonWriter json(out);
  json.begin_object()
      .member("id", opened.session.id)
      .member("account", opened.session.user)
      .member("email", std::string_view(opened.email));
  write_times(json, opened.session);
  json.member("current", true).end_object();
  return out;
}

std::string render_state(const store::WebSessionState& state) {
  std::string out;
  JsonWriter json(out);
  json.begin_object()
      .member("id", state.session.id)
      .member("account", state.session.user)
      .member("email", std::string_view(state.email));
  write_times(json, state.session);
  json.member("has_password", state.password.has_value())
      .member("fresh_until", state.session.fresh_until)
      .end_object();
  return out;
}

std::string render_list(const std::vector<store::WebSession>& sessions, SessionId current) {
  std::string out;
  JsonWriter json(out);
  json.begin_object().member("object", "list").key("data").begin_array();
  for (const store::WebSession& session : sessions) {
    json.begin_object().member("id", session.id);
    write_times(json, session);
    json.member("last_seen_at", session.last_seen_at)
        .member("user_agent", std::string_view(session.user_agent))
        .member("address", std::string_view(session.address))
        .member("current", session.id == current)
        .end_object();
  }
  json.end_array().member("has_more", false).key("next_cursor").null().end_object();
  return out;
}

// For those who look for it later. Nothing of what was shown, nor the address of the account.
void note(const char* what, const Call& call, UserId user, SessionId session) {
  log::info(what,
            {{"request_id", call.request_id()},
             {"user_id", user},
             {"session_id", session},
             {"address", call.request().client.text()}});
}

std::string nobodys_password() {
  auto encoded = argon2_encode(make_token().text);
  AG_CHECK(encoded);  // Without memory no program starts.
  return *std::move(encoded);
}

}  // namespace

store::NewWebSession new_session(const Call& call, const Sha256& token, bool secure) {
  const http::Request& request = call.request();
  return {.id = SessionId::make(),
          .token_hash = token,
          .user_agent = std::string(request.header("user-agent")),
          .address = request.client.text(),
          .replaces = session_token_hash(request, secure)};
}

SignIns::SignIns(const Config& config, RateLimiter& limiter, DoorsPool& pool, Mails* mails)
    : secure_(parse_origin(config.public_url).value_or(Origin()).secure),
      nobodys_(nobodys_password()),
      limiter_(limiter),
      pool_(pool),
      hashers_([] { return std::make_unique<Hasher>(); }, kHashers),
      mails_(mails),
      signs_up_(config.sign_up != SignUp::kClosed) {}

store::NewWebSession SignIns::new_session(const Call& call, const NewToken& token) const {
  return api::new_session(call, token.hash, secure_);
}

Handling SignIns::open(Call call) {
  const auto asked = co_await call.json_body(kSignInBytesMax, parse_sign_in);
  if (!asked) {
    call.fail(asked.error());
    co_return;
  }
  if (const auto* const shown = std::get_if<PasswordSignIn>(&*asked)) {
    open_by_password(std::move(call), *shown);
  } else if (const auto& link = std::get<LinkSignIn>(*asked).hash) {
    open_by_link(std::move(call), *link);
  } else {
    call.fail(invalid_login());
  }
}

Handling SignIns::open_by_link(Call call, Sha256 link) {
  const NewToken token = make_token();
  const auto write = [&](StoreDoors& doors) {
    const store::NewWebSession made = new_session(call, token);
    auto opened = doors.web_sessions.open_by_link(link, made);
    return signs_up_ && !opened && opened.error().code == store::FaultCode::kBadLogin
               ? doors.web_sessions.open_by_sign_up(link, made)
               : opened;
  };
  auto outcome = co_await on_store(pool_, call.holder(), write);
  answer_opened(call, told(std::move(outcome), call), token, "signed in by link");
}

Handling SignIns::open_by_password(Call call, PasswordSignIn shown) {
  const RateDecision guess = limiter_.take_guess(call.request().client, shown.email);
  if (!guess.allowed) {
    count_limited(Limit::kGuess);
    call.fail(rate_limit_exceeded(guess.retry_after));
    co_return;
  }
  const auto read = [&](StoreDoors& doors) { return doors.web_sessions.password_of(shown.email); };
  const auto give_back = [&] {  // Else who could not be told would have fewer guesses for it.
    limiter_.give_back_guess(call.request().client, shown.email);
  };
  auto found = co_await on_store(pool_, call.holder(), read);
  const auto password = told(std::move(found), call);
  if (!password) {
    give_back();
    call.fail(password.error());
    co_return;
  }
  // Nullopt: there is no memory for it. Nobody is told that his password is wrong for that.
  const auto match = [&](Hasher&) {
    return argon2_matches(*password ? (*password)->encoded : nobodys_, shown.password);
  };
  const auto matches = co_await on_store(hashers_, call.holder(), match);
  if (!matches || !*matches) {
    give_back();
    call.fail(service_unavailable());
    co_return;
  }
  if (!**matches || !*password) {
    call.fail(invalid_login());
    co_return;
  }
  const NewToken token = make_token();
  const auto write = [&](StoreDoors& doors) {
    return doors.web_sessions.open_by_password(**password, new_session(call, token));
  };
  auto outcome = co_await on_store(pool_, call.holder(), write);
  answer_opened(call, told(std::move(outcome), call), token, "signed in by password");
}

void SignIns::answer_opened(const Call& call,
                            const Result<store::OpenedWebSession, ApiError>& opened,
                            const NewToken& token,
                            const char* how) const {
  if (!opened) {
    call.fail(opened.error());
    return;
  }
  note(how, call, opened->session.user, opened->session.id);
  call.answer(201, render_opened(*opened), set_cookie(session_cookie(secure_, token.text)));
}

Handling SignIns::list(Call call) {
  const auto read = [&](StoreDoors& doors) { return doors.web_sessions.list(call.key().user); };
  auto outcome = co_await on_store(pool_, call.holder(), read);
  const auto sessions = told(std::move(outcome), call);
  if (!sessions) {
    call.fail(sessions.error());
    co_return;
  }
  call.answer_tagged(render_list(*sessions, *call.key().session));
}

Handling SignIns::current(Call call) {
  const auto read = [&](StoreDoors& doors) {
    return doors.web_sessions.find(call.key().user, *call.key().session);
  };
  auto outcome = co_await on_store(pool_, call.holder(), read);
  const auto state = told(std::move(outcome), call);
  if (!state) {
    call.fail(of_own(state.error()));
    co_return;
  }
  call.answer(200, render_state(*state));
}

Handling SignIns::close_current(Call call) {
  const auto end = [&](StoreDoors& doors) {
    return doors.web_sessions.close(call.key().user, *call.key().session);
  };
  auto outcome = co_await on_store(pool_, call.holder(), end);
  const auto ended = told(std::move(outcome), call);
  if (!ended) {
    call.fail(of_own(ended.error()));
    co_return;
  }
  note("signed out", call, call.key().user, *call.key().session);
  call.answer_nothing(set_cookie(ended_session_cookie(secure_)));
}

Handling SignIns::close(Call call) {
  const auto id = SessionId::parse(call.parameter(0));
  if (!id) {
    call.fail(session_not_found());
    co_return;
  }
  const auto end = [&](StoreDoors& doors) {
    return doors.web_sessions.close(call.key().user, *id);
  };
  auto outcome = co_await on_store(pool_, call.holder(), end);
  const auto ended = told(std::move(outcome), call);
  if (!ended) {
    call.fail(ended.error());
    co_return;
  }
  note("session ended by its user", call, call.key().user, *id);
  call.answer_nothing();
}

// What keeps the password from being changed like this, but for the current one being wrong.
std::optional<ApiError> SignIns::refusal(const Call& call,
                                         const PasswordChange& change,
                                         const store::WebSessionState& state) const {
  if (auto fault = password_fault(change.password, state.email)) {
    return invalid_parameter("password", *std::move(fault));
  }
  if (state.fresh) {
    return std::nullopt;
  }
  if (!change.current || !state.password) {
    return step_up_required();
  }
  const RateDecision guess = limiter_.take_guess(call.request().client, state.email);
  if (guess.allowed) {
    return std::nullopt;
  }
  count_limited(Limit::kGuess);
  return rate_limit_exceeded(guess.retry_after);
}

Handling SignIns::set_password(Call call) {
  const auto change = co_await call.json_body(kSignInBytesMax, parse_password_change);
  if (!change) {
    call.fail(change.error());
    co_return;
  }
  const auto read = [&](StoreDoors& doors) {
    return doors.web_sessions.find(call.key().user, *call.key().session);
  };
  auto found = co_await on_store(pool_, call.holder(), read);
  const auto state = told(std::move(found), call);
  if (!state) {
    call.fail(of_own(state.error()));
    co_return;
  }
  if (const auto refused = refusal(call, *change, *state)) {
    call.fail(*refused);
    co_return;
  }
  const auto hash = [&](Hasher&) { return new_encoded(*change, *state); };
  const auto hashed = co_await on_store(hashers_, call.holder(), hash);
  if (!hashed || !*hashed) {
    if (!state->fresh) {
      limiter_.give_back_guess(call.request().client, state->email);
    }
    call.fail(service_unavailable());
    co_return;
  }
  const std::string& encoded = **hashed;
  if (encoded.empty()) {
    call.fail(invalid_parameter("current_password", "current_password is not the one in force."));
    co_return;
  }
  const auto write = [&](StoreDoors& doors) {
    return doors.web_sessions.set_password(call.key().user,
                                           *call.key().session,
                                           encoded,
                                           state->fresh ? std::nullopt : state->password);
  };
  auto outcome = co_await on_store(pool_, call.holder(), write);
  const auto done = told(std::move(outcome), call);
  if (!done) {
    call.fail(of_own(done.error()));
    co_return;
  }
  note("password set", call, call.key().user, *call.key().session);
  if (mails_ != nullptr) {
    mails_->tell(Notice::kPasswordSet, call.key().user, state->email);
  }
  call.answer_nothing();
}

}  // namespace audiogen::api
