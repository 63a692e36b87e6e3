// GET /ops of the operations port: how the service stands, as a page. One document with everything
// in it, which asks this port for what it shows (api/operators/README.md, "A page without a
// build").
#pragma once

#include <string>
#include <string_view>

#include "common/http/server.h"

namespace audiogen::api {

// The document, and the policy it is served with (Content Security Policy Level 3): the style and
// the script that are in it, by their hashes, and questions to where it came from.
struct OpsPage {
  std::string html;
  std::string policy;
};

// Put together at the first call. Any thread.
const OpsPage& ops_page();

// Any thread, never blocks.
void answer_page(const http::Exchange& exchange);

// A part of it as it is served: without comments and indentation. Only lines that begin with //
// go, so an address within one stays; no text of a script may have /* in it, or several lines.
std::string without_comments(std::string_view source);

}  // namespace audiogen::api
