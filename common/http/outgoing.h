// What all outgoing calls have in common, whoever makes them: references, providers, object stores.
#pragma once

#include <curl/curl.h>

namespace audiogen::http {

// HTTP and HTTPS only, no redirects, no signals, by the proxy of egress() and never by one of the
// environment (http_proxy and the like); no call outlives its limits for a name that is not found.
// To be called after each curl_easy_reset().
void set_outgoing_rules(CURL* call);

// A look-up is not waited for longer than its call lasts, but its thread is there until the name
// server has answered or is given up: by the resolver's defaults up to half a minute for each of
// clients' addresses. With this it is three seconds for each server, unless RES_OPTIONS says
// otherwise (resolv.conf(5)). Before the first thread.
void bound_lookups();

}  // namespace audiogen::http
