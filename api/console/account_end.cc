#include "api/console/account_end.h"

#include <string>
#include <utility>

#include "api/console/mails.h"
#include "api/console/session_words.h"
#include "api/server/answer.h"
#include "common/base/log.h"
#include "common/base/origin.h"
#include "common/domain/mail_request.h"
#include "common/domain/sign_in.h"

namespace audiogen::api {
namespace {

constexpr std::size_t kAccountEndBytesMax = std::size_t{4} * 1024;

}  // namespace

AccountEnd::AccountEnd(const Config& config, DoorsPool& pool, Mails* mails)
    : secure_(parse_origin(config.public_url).value_or(Origin()).secure),
      pool_(pool),
      mails_(mails) {}

Handling AccountEnd::end(Call call) {
  const auto asked = co_await call.json_body(kAccountEndBytesMax, parse_account_end);
  if (!asked) {
    call.fail(asked.error());
    co_return;
  }
  const auto write = [&](StoreDoors& doors) {
    return doors.account_ends.end(
        call.key().user, *call.key().session, asked->email, asked->forfeits_credits);
  };
  auto outcome = co_await on_store(pool_, call.holder(), write);
  const auto ended = told(std::move(outcome), call, session_worded);
  if (!ended) {
    call.fail(ended.error());
    co_return;
  }
  log::info("account deleted by its user",
            {{"request_id", call.request_id()},
             {"user_id", call.key().user},
             {"address", call.request().client.text()}});
  if (mails_ != nullptr) {
    mails_->tell(Notice::kAccountDeleted, call.key().user, asked->email);
  }
  call.answer_nothing(set_cookie(ended_session_cookie(secure_)));
}

}  // namespace audiogen::api
