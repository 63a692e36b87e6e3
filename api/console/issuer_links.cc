#include "api/console/issuer_links.h"

#include <string>
#include <utility>
#include <vector>

#include "api/console/mails.h"
#include "api/console/session_words.h"
#include "api/server/answers_of_store.h"
#include "common/base/json.h"
#include "common/base/log.h"

namespace audiogen::api {
namespace {

ApiError in_words(const store::Fault& fault, const Call& call) {
  using Code = store::FaultCode;
  switch (fault.code) {
    case Code::kNoSuchIssuer:
      return issuer_link_not_found();
    case Code::kLastWayIn:
      return last_way_in();
    default:
      return session_worded(fault, call);
  }
}

std::string render_list(const std::vector<store::IssuerLink>& links) {
  std::string out;
  JsonWriter json(out);
  json.begin_object().member("object", "list").key("data").begin_array();
  for (const store::IssuerLink& link : links) {
    json.begin_object()
        .member("id", link.id)
        .member("issuer", link.issuer)
        .member("email", link.email)
        .member("linked_at", link.linked_at)
        .member("last_used_at", link.last_used_at)
        .end_object();
  }
  json.end_array().member("has_more", false).key("next_cursor").null().end_object();
  return out;
}

}  // namespace

Handling IssuerLinks::list(Call call) {
  const auto read = [&](StoreDoors& doors) { return doors.issuer_links.list(call.key().user); };
  auto outcome = co_await on_store(pool_, call.holder(), read);
  const auto links = told(std::move(outcome), call, in_words);
  if (!links) {
    call.fail(links.error());
    co_return;
  }
  call.answer_tagged(render_list(*links));
}

Handling IssuerLinks::remove(Call call) {
  const auto id = IssuerLinkId::parse(call.parameter(0));
  if (!id) {
    call.fail(issuer_link_not_found());
    co_return;
  }
  const auto write = [&](StoreDoors& doors) {
    return doors.issuer_links.remove(call.key().user, *call.key().session, *id);
  };
  auto outcome = co_await on_store(pool_, call.holder(), write);
  const auto removed = told(std::move(outcome), call, in_words);
  if (!removed) {
    call.fail(removed.error());
    co_return;
  }
  log::info("issuer unlinked",
            {{"request_id", call.request_id()},
             {"user_id", call.key().user},
             {"issuer_link_id", *id},
             {"address", call.request().client.text()}});
  if (mails_ != nullptr) {
    mails_->tell(Notice::kIssuerUnlinked, call.key().user);
  }
  call.answer_nothing();
}

}  // namespace audiogen::api
