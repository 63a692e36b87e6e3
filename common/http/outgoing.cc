#include "common/http/outgoing.h"

#include <cstdlib>
#include <utility>

#include "common/base/check.h"
#include "common/http/egress.h"

namespace audiogen::http {
namespace {

Egress& current() {
  static Egress out;
  return out;
}

}  // namespace

void set_egress(Egress egress) {
  current() = std::move(egress);
}

const Egress& egress() {
  return current();
}

Egress egress_of(const Outgoing& settings) {
  return {.user_agent = user_agent(settings.contact),
          .proxy = settings.proxy,
          .direct = settings.direct};
}

std::string user_agent(std::string_view contact) {
  std::string out = "audiogen/" AUDIOGEN_VERSION;
  if (!contact.empty()) {
    out += " (+" + std::string(contact) + ")";
  }
  return out;
}

void bound_lookups() {
  ::setenv("RES_OPTIONS", "timeout:1 attempts:3", 0);
}

void set_outgoing_rules(CURL* call) {
  const auto set = [call](CURLoption option, auto value) {
    AG_CHECK(curl_easy_setopt(call, option, value) == CURLE_OK);
  };
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_FOLLOWLOCATION, 0L);
  // Empty: none, whatever the environment says.
  set(CURLOPT_PROXY, egress().proxy.c_str());
  set(CURLOPT_NOPROXY, egress().direct.c_str());
  // What it says to our CONNECT is none of the answer.
  set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  if (!egress().user_agent.empty()) {
    set(CURLOPT_USERAGENT, egress().user_agent.c_str());
  }
  set(CURLOPT_NOSIGNAL, 1L);
  // The resolver's thread may hang for longer than the call lives: never wait for it.
  set(CURLOPT_QUICK_EXIT, 1L);
}

}  // namespace audiogen::http
