// schema/openapi.json as a judge: is this answer one the published description allows?
#pragma once

#include <set>
#include <string>

#include <rapidjson/document.h>

#include "tests/support/http_client.h"

namespace audiogen::test {

class OpenApi {
 public:
  // Reads the file, or a served copy.
  static OpenApi from_file(const std::string& path);
  static OpenApi from_text(const std::string& text);

  // "" when the reply's status, headers and body are described for this operation; else what is
  // wrong. `path` is the template, e.g. "/audio/generations/{task_id}".
  std::string check(const std::string& method, const std::string& path, const Reply& reply) const;

  // "" when `body` is a valid request body of the operation by the description alone.
  std::string check_request(const std::string& method,
                            const std::string& path,
                            const std::string& body) const;

  // Every "METHOD /path" that is described.
  std::set<std::string> operations() const;

 private:
  const rapidjson::Value* operation(const std::string& method, const std::string& path) const;
  std::string validate(const rapidjson::Value& schema, const rapidjson::Value& instance) const;

  rapidjson::Document document_;
};

}  // namespace audiogen::test
