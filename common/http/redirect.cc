#include "common/http/redirect.h"

#include <algorithm>
#include <array>
#include <memory>

#include <curl/curl.h>

namespace audiogen::http {
namespace {

struct CloseAddress {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
};
struct FreeAddress {
  void operator()(char* text) const { curl_free(text); }
};

}  // namespace

bool is_redirect(int status) {
  constexpr std::array<int, 5> kStatuses = {301, 302, 303, 307, 308};
  return std::find(kStatuses.begin(), kStatuses.end(), status) != kStatuses.end();
}

std::optional<std::string> redirect_target(const std::string& from, const ClientResponse& answer) {
  const std::string location(answer.header("location"));
  const std::unique_ptr<CURLU, CloseAddress> url(curl_url());
  char* text = nullptr;
  if (location.empty() || !url ||
      curl_url_set(url.get(), CURLUPART_URL, from.c_str(), 0) != CURLUE_OK ||
      curl_url_set(url.get(), CURLUPART_URL, location.c_str(), 0) != CURLUE_OK ||
      curl_url_get(url.get(), CURLUPART_URL, &text, 0) != CURLUE_OK) {
    return std::nullopt;
  }
  return std::string(std::unique_ptr<char, FreeAddress>(text).get());
}

}  // namespace audiogen::http
