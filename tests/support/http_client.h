// A plain HTTP client for tests, on libcurl: one call, one reply. Every reply of the service's two
// endpoints is checked against schema/openapi.json.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <rapidjson/document.h>

namespace audiogen::test {

struct Reply {
  int status = 0;  // 0: no answer (error says why)
  std::string error;
  std::multimap<std::string, std::string> headers;  // Names in lower case.
  std::string body;
  double seconds = 0;

  std::string header(const std::string& lower_case_name) const;  // "" when absent
  // The body as JSON; a null value when it is none.
  rapidjson::Document json() const;
  // A member by path, e.g. text("error.code"): strings as they are, other values as JSON, "" when
  // absent.
  std::string text(std::string_view path) const;
};

// Blocks up to 30 s. `headers` are whole lines ("Name: value").
Reply http(const std::string& method,
           const std::string& url,
           const std::vector<std::string>& headers = {},
           std::string_view body = {});

}  // namespace audiogen::test
