#include "api/console/sign_in_ways.h"

#include "api/server/etag.h"
#include "common/base/json.h"

namespace audiogen::api {
namespace {

const char* name_of(SignUp sign_up) {
  switch (sign_up) {
    case SignUp::kInvite:
      return "invite";
    case SignUp::kOpen:
      return "open";
    case SignUp::kClosed:
      break;
  }
  return "closed";
}

}  // namespace

SignInWays::SignInWays(const Config& config) {
  JsonWriter json(document_);
  json.begin_object()
      .member("mail", config.smtp.has_value())
      .member("sign_up", name_of(config.sign_up))
      .member("oidc", config.oidc.has_value())
      .end_object();
  etag_ = strong_etag(document_);
}

void SignInWays::show(const Call& call) const {
  call.answer_public(document_, etag_);
}

}  // namespace audiogen::api
