#include "common/http/outgoing.h"

#include "common/base/check.h"

namespace audiogen::http {

void set_outgoing_rules(CURL* call) {
  AG_CHECK(curl_easy_setopt(call, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK);
  AG_CHECK(curl_easy_setopt(call, CURLOPT_FOLLOWLOCATION, 0L) == CURLE_OK);
  AG_CHECK(curl_easy_setopt(call, CURLOPT_PROXY, "") == CURLE_OK);
  AG_CHECK(curl_easy_setopt(call, CURLOPT_NOSIGNAL, 1L) == CURLE_OK);
}

}  // namespace audiogen::http
