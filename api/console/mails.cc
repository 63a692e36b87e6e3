#include "api/console/mails.h"

#include <functional>
#include <utility>

#include "api/console/session_words.h"
#include "api/server/security_events.h"
#include "common/base/log.h"
#include "common/base/mail_address.h"
#include "common/base/metrics.h"
#include "common/base/occasionally.h"
#include "common/domain/mail_request.h"
#include "common/domain/sign_in.h"

namespace audiogen::api {
namespace {

// Here, so that they are told from the start.
prometheus::Counter& mails_capped = metrics::counter(
    "mails_capped_total", "Mails not written because so many were asked for today");

// A minute is nothing to somebody who waits for a mail, and too long for a link that lives for ten.
constexpr StorePoolOptions kLookups{
    .threads = 1, .per_user = 20, .total = 1'000, .wait_max = std::chrono::minutes(1)};
constexpr std::size_t kMailRequestBytesMax = std::size_t{4} * 1024;
// What waits when the program ends; the look-up under way then takes no longer than its patience.
constexpr std::chrono::seconds kStopWithin{3};
constexpr store::SessionOptions kPatience{.read_timeout = std::chrono::seconds(4),
                                          .statement_max = std::chrono::seconds(3),
                                          .lock_wait = std::chrono::seconds(2)};

void note(const char* what, const Call& call) {
  log::info(what,
            {{"request_id", call.request_id()},
             {"user_id", call.key().user},
             {"session_id", *call.key().session},
             {"address", call.request().client.text()}});
}

// Nobody else learns that so many were asked for.
void note_capped(const IpAddress& client) {
  mails_capped.Increment();
  static Occasionally line;
  if (line.due()) {
    log::warn("sign-up link not written",
              {{"why", "so many were asked for today"}, {"address", client.text()}});
  }
}

}  // namespace

Mails::Mails(const Config& config, RateLimiter& limiter, DoorsPool& pool)
    : site_(config.public_url),
      sign_up_(config.sign_up),
      limiter_(limiter),
      pool_(pool),
      mailer_(*config.smtp, config.mail_from),
      lookups_([url = config.database] { return std::make_unique<Doors>(url); }, kLookups) {}

Mails::Doors::Doors(const DatabaseUrl& url) : session(url, kPatience) {}

void Mails::missed(const char* why) {
  if (stopping_) {
    ++unwritten_;
    return;
  }
  static Occasionally line;
  if (line.due()) {
    log::error("a mail was not written", {{"why", why}});
  }
}

void Mails::stop() {
  stopping_ = true;
  lookups_.stop(kStopWithin);
  if (const std::size_t count = unwritten_; count > 0) {
    log::error("mails not written", {{"why", "the program ends"}, {"count", count}});
  }
  mailer_.stop();
}

// Behind the #: a browser sends it to nobody, so it stands in no log of a proxy.
std::string Mails::link(const char* what, const std::string& token) const {
  return site_ + "/console/#" + what + "=" + token;
}

Handling Mails::ask_link(Call call) {
  const auto email = co_await call.json_body(kMailRequestBytesMax, parse_mail_address);
  if (!email) {
    call.fail(email.error());
    co_return;
  }
  // Of an address without an account as well: nobody learns which there are.
  const RateDecision decision = limiter_.take_mail_link(call.request().client, *email);
  if (!decision.allowed) {
    count_limited(Limit::kMail);
    call.fail(rate_limit_exceeded(decision.retry_after));
    co_return;
  }
  const bool taken = lookups_.submit(
      call.holder(), [this, client = call.request().client, address = *email](Doors* doors) {
        mail_link(doors, client, address);
      });
  if (!taken) {
    call.fail(service_unavailable());
    co_return;
  }
  call.answer_nothing();
}

void Mails::mail_link(Doors* doors, const IpAddress& client, const std::string& email) {
  if (doors == nullptr) {
    missed("too many wait");
    return;
  }
  const NewToken token = make_token();
  const std::string inbox = inbox_of(email);
  // Counted whatever comes of it: what is left must not tell who has an account.
  const bool capped = sign_up_ != SignUp::kClosed && !limiter_.take_mail_sign_up(client, inbox);
  const auto made = doors->links.add(email, token.hash, capped ? SignUp::kClosed : sign_up_);
  if (!made) {
    missed(made.error().detail.c_str());
    return;
  }
  switch (*made) {
    case store::MailedLink::kNone:
      if (capped) {
        note_capped(client);
      }
      return;
    case store::MailedLink::kSignIn:
      mailer_.send(
          {.to = email, .text = sign_in_mail(link("login", token.text)), .kind = "sign-in link"});
      return;
    case store::MailedLink::kSignUp:
      mailer_.send(
          {.to = email, .text = sign_up_mail(link("login", token.text)), .kind = "sign-up link"});
      return;
  }
}

Handling Mails::ask_change(Call call) {
  const auto email = co_await call.json_body(kMailRequestBytesMax, parse_mail_address);
  if (!email) {
    call.fail(email.error());
    co_return;
  }
  // Of whoever asks, and of whoever would get it; apart from links to sign in, which nobody else
  // may use up.
  if (const auto today = limiter_.take_mail_change(call.key().user, inbox_of(*email));
      !today.allowed) {
    count_limited(Limit::kMail);
    call.fail(rate_limit_exceeded(today.retry_after));
    co_return;
  }
  const NewToken token = make_token();
  const auto ask = [&](StoreDoors& doors) {
    return doors.mail_links.ask_change(call.key().user, *call.key().session, *email, token.hash);
  };
  auto outcome = co_await on_store(pool_, call.holder(), ask);
  const auto asked = told(std::move(outcome), call, session_worded);
  if (!asked) {
    limiter_.give_back_mail_change(call.key().user, inbox_of(*email));
    call.fail(asked.error());
    co_return;
  }
  const bool queued = mailer_.send({.to = *email,
                                    .text = mail_change_mail(site_, link("mail", token.text)),
                                    .kind = "mail change"});
  if (!queued) {
    limiter_.give_back_mail_change(call.key().user, inbox_of(*email));
    call.fail(service_unavailable());
    co_return;
  }
  note("mail change asked for", call);
  call.answer_nothing();
}

Handling Mails::confirm_change(Call call) {
  const auto token = co_await call.json_body(kMailRequestBytesMax, parse_mail_token);
  if (!token) {
    call.fail(token.error());
    co_return;
  }
  const auto confirm = [&](StoreDoors& doors) -> Result<store::MailChange, store::Fault> {
    if (!*token) {
      return store::Fault{.code = store::FaultCode::kBadLogin};
    }
    return doors.mail_links.confirm_change(call.key().user, **token);
  };
  auto outcome = co_await on_store(pool_, call.holder(), confirm);
  const auto changed = told(std::move(outcome), call, session_worded);
  if (!changed) {
    call.fail(changed.error());
    co_return;
  }
  tell(Notice::kMailChanged, call.key().user, changed->before);
  note("mail address changed", call);
  call.answer_nothing();
}

// Who does the same all the time has been told of it, and others wait for their mails.
bool Mails::may_tell(Notice notice, UserId user) {
  const std::string counted = std::to_string(static_cast<int>(notice)) + user.text();
  const bool may = limiter_.take_notice(counted).allowed;
  if (!may) {
    missed("too many of one account");
  }
  return may;
}

void Mails::tell(Notice notice, UserId user) {
  if (!may_tell(notice, user)) {
    return;
  }
  const bool taken = lookups_.submit(std::hash<UserId>()(user), [this, notice, user](Doors* doors) {
    if (doors == nullptr) {
      missed("too many wait");
      return;
    }
    const auto found = doors->accounts.find(user);
    if (!found) {
      missed(found.error().detail.c_str());
      return;
    }
    send(notice, found->email);
  });
  if (!taken) {
    missed("too many wait");
  }
}

void Mails::tell(Notice notice, UserId user, const std::string& address) {
  if (may_tell(notice, user)) {
    send(notice, address);
  }
}

void Mails::send(Notice notice, const std::string& address) {
  // An operator may have made an account by another form, which has no mail.
  if (is_mail_address(address)) {
    mailer_.send(
        {.to = address, .text = notice_mail(notice, site_, local_now()), .kind = "notice"});
  }
}

}  // namespace audiogen::api
