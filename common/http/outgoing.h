// What all outgoing calls have in common, whoever makes them: references, providers, object stores.
#pragma once

#include <curl/curl.h>

namespace audiogen::http {

// HTTP and HTTPS only, no redirects, no signals, by the proxy of egress() and never by one of the
// environment (http_proxy and the like); no call outlives its limits for a name that is not found.
// To be called after each curl_easy_reset().
void set_outgoing_rules(CURL* call);

}  // namespace audiogen::http
