// Any text as an address: what passes must still be harmless as libcurl, which will fetch it, and
// the resolver's own reading of numbers see it.
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <arpa/inet.h>
#include <curl/curl.h>

#include "common/base/check.h"
#include "common/domain/public_url.h"

using namespace audiogen;

namespace {

// One part of a parsed address; empty when it has none.
std::string part(CURLU* url, CURLUPart which) {
  char* text = nullptr;
  if (curl_url_get(url, which, &text, 0) != CURLUE_OK) {
    return "";
  }
  const std::string out = text;
  curl_free(text);
  return out;
}

void check_as_fetched(CURLU* url) {
  const std::string scheme = part(url, CURLUPART_SCHEME);
  AG_CHECK(scheme == "http" || scheme == "https");
  AG_CHECK(part(url, CURLUPART_USER).empty());
  AG_CHECK(part(url, CURLUPART_PASSWORD).empty());
  const std::string port = part(url, CURLUPART_PORT);
  AG_CHECK(port.empty() || port == "80" || port == "443");
  std::string host = part(url, CURLUPART_HOST);
  AG_CHECK(host.find_first_of("%@\\ ") == std::string::npos);
  std::array<std::uint8_t, 16> bytes{};
  if (host.starts_with('[')) {
    AG_CHECK(inet_pton(AF_INET6, host.substr(1, host.size() - 2).c_str(), bytes.data()) == 1);
    AG_CHECK(is_public_address(bytes));
  } else if (inet_aton(host.c_str(), reinterpret_cast<in_addr*>(bytes.data())) == 1) {
    AG_CHECK(is_public_address(std::span(bytes).first(4)));
  } else {
    AG_CHECK(host.find('.') != std::string::npos);
    AG_CHECK(!host.ends_with(".localhost"));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (!check_public_url(text)) {
    return 0;
  }
  AG_CHECK(check_any_url(text));
  const std::unique_ptr<CURLU, decltype(&curl_url_cleanup)> url(curl_url(), curl_url_cleanup);
  if (curl_url_set(url.get(), CURLUPART_URL, text.c_str(), 0) == CURLUE_OK) {
    check_as_fetched(url.get());
  }
  return 0;
}
