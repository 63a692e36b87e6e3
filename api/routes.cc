#include "api/routes.h"

#include <string_view>
#include <utility>

#include "api/wire.h"
#include "common/base/log.h"
#include "common/blob/blob_key.h"

namespace audiogen::api {

extern const std::string_view openapi_document;  // schema/openapi.json, embedded by the build

namespace {

constexpr std::string_view kBase = "/api/v1";
constexpr std::string_view kGenerations = "/api/v1/audio/generations";

std::string replace_all(std::string text, std::string_view from, std::string_view to) {
  for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

// The path of an address: "/files" of "https://cdn.example.com/files".
std::string path_of(std::string_view url) {
  const auto host = url.find("://") + 3;
  const auto slash = url.find('/', host);
  return slash == std::string_view::npos ? "" : std::string(url.substr(slash));
}

void refuse_method(const http::Exchange& exchange, std::string_view allowed) {
  http::Response response = error_response({ApiErrorCode::kMethodNotAllowed,
                                            "This path answers " + std::string(allowed) + " only.",
                                            std::nullopt},
                                           request_id_of(&exchange.request()));
  append_header(response.headers, "Allow", allowed);
  exchange.reply(std::move(response));
}

}  // namespace

Routes::Routes(const Config& config, Generations& generations, const DirectoryStore* files)
    : generations_(generations),
      files_(files),
      links_(LinkSigner::from(config)),
      retention_(std::chrono::days(config.output_retention_days)),
      files_prefix_(path_of(config.cdn_url) + "/"),
      openapi_(replace_all(std::string(openapi_document), "svc-audio-1.0", config.model_name())) {}

//  path                                  methods    key       answered by
//  /api/v1/audio/generations             POST       required  Generations::create
//  /api/v1/audio/generations/{task_id}   GET        required  Generations::get
//  /api/v1/openapi.json                  GET, HEAD  none      the embedded document
//  <path of CDN_URL>/{file}              GET, HEAD  none      serve_file: names nobody can guess,
//  signed links when asked for
void Routes::handle(http::Exchange exchange) {
  const http::Request& request = exchange.request();
  const std::string_view path = request.path;
  const bool reading = request.method == "GET" || request.method == "HEAD";
  if (path == kGenerations) {
    if (request.method == "POST") {
      generations_.create(std::move(exchange));
    } else {
      refuse_method(exchange, "POST");
    }
    return;
  }
  if (path.starts_with(kGenerations) && path.size() > kGenerations.size() &&
      path[kGenerations.size()] == '/') {
    const std::string_view id = path.substr(kGenerations.size() + 1);
    if (id.find('/') == std::string_view::npos) {
      if (request.method == "GET") {
        generations_.get(std::move(exchange), id);
      } else {
        refuse_method(exchange, "GET");
      }
      return;
    }
  } else if (path == "/api/v1/openapi.json") {
    if (!reading) {
      refuse_method(exchange, "GET, HEAD");
      return;
    }
    http::Response response;
    response.headers = "Content-Type: application/json\r\nCache-Control: public, max-age=300\r\n";
    append_header(response.headers, "X-Request-Id", request_id_of(&request));
    response.body = openapi_;
    exchange.reply(std::move(response));
    return;
  } else if (files_ != nullptr && path.starts_with(files_prefix_) && !path.starts_with(kBase)) {
    const std::string_view key = path.substr(files_prefix_.size());
    if (is_blob_key(key)) {
      if (reading) {
        serve_file(*files_, links_, retention_, std::move(exchange), key);
      } else {
        refuse_method(exchange, "GET, HEAD");
      }
      return;
    }
  }
  exchange.reply(
      error_response({ApiErrorCode::kNotFound, "There is nothing at this path.", std::nullopt},
                     request_id_of(&request)));
}

http::Response render_server_error(int status,
                                   std::string_view reason,
                                   const http::Request* partial) {
  const std::string request_id = request_id_of(partial);
  if (status >= 500) {
    log::error("request failed inside the server",
               {{"request_id", request_id}, {"reason", reason}});
    return error_response(service_unavailable(), request_id);
  }
  return error_response(invalid_request("Malformed HTTP request: " + std::string(reason) + "."),
                        request_id);
}

}  // namespace audiogen::api
