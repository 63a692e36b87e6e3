#include "api/operators/page.h"

#include <utility>

#include "common/base/ascii.h"
#include "common/base/base64.h"
#include "common/base/check.h"
#include "common/base/crypto.h"
#include "common/http/ops_server.h"

namespace audiogen::api {

extern const std::string_view ops_page_html, ops_page_css, ops_page_js, console_tokens_css;

namespace {

// Each place is there once: what is put into one is not looked at again.
void put(std::string& page, std::string_view place, std::string_view text) {
  const auto at = page.find(place);
  AG_CHECK(at != std::string::npos);
  page.replace(at, place.size(), text);
}

// 'sha256-…' of what stands between the tags. The base64 of 32 bytes ends with one '='.
std::string source_of(std::string_view text) {
  return "'sha256-" + encode_base64url(sha256(text)) + "='";
}

// Blanks that a style sheet does not need. No text of ours in it has a colon or a brace.
std::string compact(std::string css) {
  for (const auto& [from, to] : {std::pair(": ", ":"), {" {", "{"}, {";\n", ";"}, {"{\n", "{"}}) {
    for (auto at = css.find(from); at != std::string::npos; at = css.find(from, at)) {
      css.replace(at, 2, to);
    }
  }
  return css;
}

OpsPage make_page() {
  const std::string style =
      compact(without_comments(console_tokens_css) + without_comments(ops_page_css));
  const std::string script = without_comments(ops_page_js);
  OpsPage out{.html = without_comments(ops_page_html),
              .policy = "default-src 'none'; script-src " + source_of(script) + "; style-src " +
                        source_of(style) +
                        "; img-src data:; connect-src 'self'; frame-ancestors 'none'; base-uri "
                        "'none'; form-action 'none'; require-trusted-types-for 'script'; "
                        "trusted-types 'none'"};
  put(out.html, "{{style}}", style);
  put(out.html, "{{script}}", script);
  return out;
}

}  // namespace

std::string without_comments(std::string_view source) {
  std::string bare(source);
  for (auto at = bare.find("/*"); at != std::string::npos; at = bare.find("/*", at)) {
    const auto end = bare.find("*/", at + 2);
    AG_CHECK(end != std::string::npos);
    bare.erase(at, end + 2 - at);
  }
  std::string out;
  for (std::string_view rest = bare; !rest.empty();) {
    const auto end = rest.find('\n');
    const std::string_view line = ascii::trim(rest.substr(0, end));
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    if (!line.empty() && !line.starts_with("//")) {
      out.append(line).append("\n");
    }
  }
  return out;
}

const OpsPage& ops_page() {
  static const OpsPage page = make_page();
  return page;
}

void answer_page(const http::Exchange& exchange) {
  const OpsPage& page = ops_page();
  http::Response response = http::ops_answer(200, page.html, "text/html; charset=utf-8");
  response.headers += "Content-Security-Policy: " + page.policy +
                      "\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n"
                      "Cross-Origin-Opener-Policy: same-origin\r\n";
  exchange.reply(std::move(response));
}

}  // namespace audiogen::api
