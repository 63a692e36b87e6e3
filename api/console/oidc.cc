#include "api/console/oidc.h"

#include <utility>

#include "api/console/mails.h"
#include "api/console/session_words.h"
#include "api/console/sign_ins.h"
#include "api/server/answer.h"
#include "common/base/json.h"
#include "common/base/log.h"
#include "common/base/occasionally.h"
#include "common/base/origin.h"
#include "common/domain/sign_in.h"

namespace audiogen::api {
namespace {

constexpr std::size_t kCallsMax = 100;
constexpr std::size_t kIssuerBytesMax = std::size_t{256} * 1024;  // Of an issuer.
constexpr std::size_t kAskedMax = std::size_t{1} * 1024;          // Of our page.
// Both calls of one attempt end before the server gives the request up.
constexpr std::chrono::milliseconds kConnect{2'000}, kCallMax{4'000};
constexpr std::chrono::hours kKnownFor{1};  // Endpoints move seldom.
// What our page is told: it did not work; he is signed in, but did not show anew who he is.
constexpr const char kFailed[] = "/console/#sign-in=failed";
constexpr const char kNotShown[] = "/console/#sign-in=not-shown";

OidcClient client_of(const Config& config) {
  return {.issuer = config.oidc->issuer,
          .id = config.oidc->client_id,
          .secret = config.oidc->client_secret,
          .redirect_uri = config.public_url + "/console/api/v1/sign-in/oidc/callback"};
}

http::ClientRequest request_to(std::string url) {
  http::ClientRequest out;
  out.url = std::move(url);
  out.headers = {"Accept: application/json"};
  out.connect_timeout = kConnect;
  out.total_timeout = kCallMax;
  out.body_max = kIssuerBytesMax;
  return out;
}

void warn(const std::string& why) {
  static Occasionally line;
  if (line.due()) {
    log::warn("sign-in by the issuer failed", {{"why", why}});
  }
}

// Of the attempt that this browser has begun.
std::optional<OidcCookie> attempt_of(const http::Request& request, bool secure) {
  if (request.header_count("cookie") != 1) {
    return std::nullopt;
  }
  const auto value = cookie_value(request.header("cookie"), oidc_cookie_name(secure));
  return value ? parse_oidc_cookie(*value) : std::nullopt;
}

}  // namespace

// `co_await Fetching(client, request)`: the answer; goes on on the client's thread, which must not
// be kept.
class Oidc::Fetching {
 public:
  Fetching(http::Client& client, http::ClientRequest request)
      : client_(client), request_(std::move(request)) {}

  bool await_ready() const noexcept { return false; }
  void await_suspend(Handling::Frame frame) {
    // This object may be gone before start() returns.
    client_.start(std::move(request_), [this, waiting = Handling::Share(frame)](Answer answer) {
      answer_ = std::move(answer);
      waiting.resume();
    });
  }
  Answer await_resume() { return std::move(answer_); }

 private:
  http::Client& client_;
  http::ClientRequest request_;
  Answer answer_ = http::ClientError{};
};

Oidc::Oidc(const Config& config, RateLimiter& limiter, DoorsPool& pool, Mails* mails)
    : secure_(parse_origin(config.public_url).value_or(Origin()).secure),
      self_(client_of(config)),
      sign_up_(config.sign_up),
      limiter_(limiter),
      pool_(pool),
      mails_(mails) {}

std::optional<OidcIssuer> Oidc::known() {
  const MutexLock lock(mutex_);
  return known_ && Clock::now() < known_->until ? std::optional(known_->issuer) : std::nullopt;
}

std::optional<OidcIssuer> Oidc::learn(const Answer& answer) {
  if (!answer || answer->status != 200) {
    warn("no description of the issuer: " +
         (answer ? "status " + std::to_string(answer->status) : answer.error().detail));
    return std::nullopt;
  }
  auto issuer = parse_oidc_discovery(answer->body, self_.issuer);
  if (!issuer) {
    warn(issuer.error().message);
    return std::nullopt;
  }
  const MutexLock lock(mutex_);
  known_ = Known{.issuer = *issuer, .until = Clock::now() + kKnownFor};
  return *issuer;
}

void Oidc::go(const Call& call, const std::string& to, const std::string& headers) const {
  http::Response response;
  response.status = 302;
  append_header(response.headers, "Location", to);
  append_header(response.headers, "Cache-Control", "no-store");
  append_header(response.headers, "Referrer-Policy", "no-referrer");
  append_header(response.headers, "X-Request-Id", call.request_id());
  append_own_only(response.headers);
  response.headers += headers;
  call.exchange().reply(std::move(response));
}

// The page says that it did not work, and not why: whoever runs the service reads that in the log.
void Oidc::refuse(const Call& call, const std::string& why) const {
  warn(why);
  go(call, kFailed, set_cookie(ended_oidc_cookie(secure_)));
}

http::ClientRequest Oidc::redeem(const OidcIssuer& issuer,
                                 const OidcAttempt& attempt,
                                 const std::string& code) const {
  const OidcTokenRequest wanted = oidc_token_request(issuer, self_, attempt, code);
  http::ClientRequest out = request_to(issuer.token);
  out.method = "POST";
  out.headers.emplace_back("Content-Type: application/x-www-form-urlencoded");
  if (wanted.authorization) {
    out.headers.push_back("Authorization: " + *wanted.authorization);
  }
  out.body = wanted.body;
  return out;
}

void Oidc::tell_of(const Call& call,
                   const store::OpenedWebSession& opened,
                   const Sha256& identity) const {
  log::info("signed in by the issuer",
            {{"request_id", call.request_id()},
             {"user_id", opened.session.user},
             {"session_id", opened.session.id},
             {"address", call.request().client.text()}});
  if (opened.linked) {
    log::info("issuer linked",
              {{"request_id", call.request_id()},
               {"user_id", opened.session.user},
               {"issuer_link_id", issuer_link_id(identity)},
               {"address", call.request().client.text()}});
    if (mails_ != nullptr) {
      mails_->tell(Notice::kIssuerLinked, opened.session.user);
    }
  }
}

Handling Oidc::begin(Call call) {
  const auto purpose = co_await call.json_body(kAskedMax, parse_oidc_purpose);
  if (!purpose) {
    call.fail(purpose.error());
    co_return;
  }
  auto issuer = known();
  if (!issuer && client_.in_flight() < kCallsMax) {
    http::ClientRequest question = request_to(oidc_discovery_url(self_.issuer));
    const auto answer = co_await Fetching(client_, std::move(question));
    issuer = learn(answer);
  }
  if (!issuer) {
    call.fail(service_unavailable());
    co_return;
  }
  const NewToken token = make_token();
  std::string out;
  JsonWriter json(out);
  const std::string url =
      oidc_authorization_url(*issuer, self_, oidc_attempt(token.text), *purpose);
  json.begin_object().member("url", std::string_view(url)).end_object();
  call.answer(200, std::move(out), set_cookie(oidc_cookie(secure_, token.text, *purpose)));
}

Handling Oidc::finish(Call call) {
  const auto begun = attempt_of(call.request(), secure_);
  if (!begun) {
    refuse(call, "a browser came back that had not begun, or too late");
    co_return;
  }
  const OidcAttempt attempt = oidc_attempt(begun->token);
  if (!is_oidc_return(call.request().query, attempt)) {
    // Another tab has begun one since, or another site sends it: the attempt that is under way is
    // none the worse for it.
    warn("a browser came back from another attempt than it had begun last");
    go(call, kFailed, "");
    co_return;
  }
  if (const auto limit = limiter_.take_sign_in(call.request().client); !limit.allowed) {
    // Its cookie stays: so nothing of the attempt is used up.
    warn("too many attempts from " + call.request().client.text());
    go(call, kFailed, "");
    co_return;
  }
  const auto code = oidc_code(call.request().query, self_);
  if (!code) {
    refuse(call, "a browser came back without a code, or from another issuer");
    co_return;
  }
  auto issuer = known();
  if (!issuer && client_.in_flight() < kCallsMax) {
    http::ClientRequest question = request_to(oidc_discovery_url(self_.issuer));
    const auto answer = co_await Fetching(client_, std::move(question));
    issuer = learn(answer);
  }
  if (!issuer || client_.in_flight() >= kCallsMax) {
    refuse(call, "the issuer is not there");
    co_return;
  }
  http::ClientRequest question = redeem(*issuer, attempt, *code);
  const auto answer = co_await Fetching(client_, std::move(question));
  if (!answer || answer->status != 200) {
    refuse(call,
           "the token endpoint refused: " +
               (answer ? "status " + std::to_string(answer->status) : answer.error().detail));
    co_return;
  }
  const Instant now = local_now();
  const auto person = read_oidc_token(answer->body, self_, attempt, now);
  if (!person) {
    refuse(call, person.error().message);
    co_return;
  }
  const NewToken session = make_token();
  const store::NamedPerson named{
      .identity = person->identity, .issuer = self_.issuer, .email = person->email};
  store::NewWebSession made = new_session(call, session.hash, secure_);
  made.fresh_for = fresh_for(person->shown_at, now);
  const auto open = [&](StoreDoors& doors) {
    return doors.web_sessions.open_by_identity(named, sign_up_, made);
  };
  auto outcome = co_await on_store(pool_, call.holder(), open);
  const auto opened = told(std::move(outcome), call, session_worded);
  if (!opened) {
    refuse(call,
           opened.error().code == ApiErrorCode::kServiceUnavailable
               ? "nobody could look for the account of whom the issuer named"
               : "there is no account for whom the issuer named");
    co_return;
  }
  tell_of(call, *opened, person->identity);
  const bool shown = begun->purpose != OidcPurpose::kStepUp || made.fresh_for > kNeverFresh;
  go(call,
     shown ? "/console/" : kNotShown,
     set_cookie(ended_oidc_cookie(secure_)) + set_cookie(session_cookie(secure_, session.text)));
}

}  // namespace audiogen::api
