#include "api/server/etag.h"

#include <span>

#include "common/base/base64.h"
#include "common/base/crypto.h"

namespace audiogen::api {

std::string strong_etag(std::string_view content) {
  const Sha256 hash = sha256(content);
  return '"' + encode_base64url(std::span(hash).first(18)) + '"';
}

bool none_match(const http::Request& request, std::string_view etag) {
  if (!request.has_header("if-none-match")) {
    return false;
  }
  const std::string all = request.joined_headers("if-none-match");
  std::string_view list = all;
  const auto skip = [&](std::string_view characters) {
    const auto end = list.find_first_not_of(characters);
    list.remove_prefix(end == std::string_view::npos ? list.size() : end);
  };
  skip(" \t");
  if (list == "*") {
    return true;
  }
  // Tags may hold commas, so the list is read tag by tag.
  for (skip(", \t"); !list.empty(); skip(", \t")) {
    if (list.starts_with("W/")) {
      list.remove_prefix(2);  // The comparison is weak here.
    }
    const auto end = list.starts_with('"') ? list.find('"', 1) : std::string_view::npos;
    if (end == std::string_view::npos) {
      return false;
    }
    if (list.substr(0, end + 1) == etag) {
      return true;
    }
    list.remove_prefix(end + 1);
  }
  return false;
}

}  // namespace audiogen::api
