// What all outgoing calls have in common, whoever makes them: references, providers, object stores.
#pragma once

#include <curl/curl.h>

namespace audiogen::http {

// HTTP and HTTPS only, no redirects, no signals, and never through a proxy: not the one of the
// environment (http_proxy and the like) either, which would connect where our check of addresses
// does not reach. To be called after each curl_easy_reset().
void set_outgoing_rules(CURL* call);

}  // namespace audiogen::http
