#include "api/server/description.h"

#include <string_view>

#include "api/server/etag.h"

namespace audiogen::api {

extern const std::string_view openapi_document;  // schema/openapi.json, embedded by the build

namespace {

std::string replace_all(std::string text, std::string_view from, std::string_view to) {
  for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

}  // namespace

Description::Description(const Config& config)
    : text_(replace_all(std::string(openapi_document), "svc-audio-1.0", config.model_name())),
      etag_(strong_etag(text_)) {}

}  // namespace audiogen::api
