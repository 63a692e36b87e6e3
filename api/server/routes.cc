#include "api/server/routes.h"

#include <array>
#include <utility>

#include "api/account/account.h"
#include "api/catalogue/catalogue.h"
#include "api/files/files.h"
#include "api/generations/generations.h"
#include "api/generations/history.h"
#include "api/server/answer.h"
#include "api/server/description.h"
#include "common/base/log.h"
#include "common/base/occasionally.h"
#include "common/blob/blob_key.h"

namespace audiogen::api {
namespace {

constexpr std::string_view kBase = "/api/v1";

constexpr std::array kRoutes = {
    Route{.method = "POST",
          .path = "/api/v1/audio/generations",
          .access = Access::kApiAccess,
          .rate = RateClass::kCreate,
          .handle = [](Parts& parts, Call call) { parts.generations->create(std::move(call)); },
          .scope = Scope::kGenerate,
          .body = Body::kJson,
          .late = [](Parts& parts,
                     auto received_at) { return parts.generations->late(received_at); }},
    Route{.method = "GET",
          .path = "/api/v1/audio/generations",
          .access = Access::kBearer,
          .rate = RateClass::kRead,
          .handle = [](Parts& parts, Call call) { parts.history->list(std::move(call)); }},
    Route{.method = "GET",
          .path = "/api/v1/audio/generations/{task_id}",
          .access = Access::kBearer,
          .rate = RateClass::kRead,
          .handle = [](Parts& parts, Call call) { parts.generations->get(std::move(call)); }},
    Route{.method = "DELETE",
          .path = "/api/v1/audio/generations/{task_id}",
          .access = Access::kApiAccess,
          .rate = RateClass::kManage,
          .handle = [](Parts& parts, Call call) { parts.history->erase(std::move(call)); },
          .scope = Scope::kGenerate},
    Route{.method = "POST",
          .path = "/api/v1/audio/generations/{task_id}/cancel",
          .access = Access::kApiAccess,
          .rate = RateClass::kManage,
          .handle = [](Parts& parts, Call call) { parts.generations->cancel(std::move(call)); },
          .scope = Scope::kGenerate},
    Route{.method = "GET",
          .path = "/api/v1/account",
          .access = Access::kBearer,
          .rate = RateClass::kRead,
          .handle = [](Parts& parts, Call call) { parts.account->show(std::move(call)); }},
    Route{.method = "GET",
          .path = "/api/v1/account/keys",
          .access = Access::kBearer,
          .rate = RateClass::kRead,
          .handle = [](Parts& parts, Call call) { parts.account->list_keys(std::move(call)); }},
    Route{.method = "POST",
          .path = "/api/v1/account/keys",
          .access = Access::kApiAccess,
          .rate = RateClass::kManage,
          .handle = [](Parts& parts, Call call) { parts.account->create_key(std::move(call)); },
          .scope = Scope::kManage,
          .body = Body::kJson},
    // Whoever finds a key that leaked can end it with it.
    Route{.method = "DELETE",
          .path = "/api/v1/account/keys/current",
          .access = Access::kBearer,
          .rate = RateClass::kManage,
          .handle = [](Parts& parts,
                       Call call) { parts.account->delete_current_key(std::move(call)); }},
    Route{.method = "PATCH",
          .path = "/api/v1/account/keys/{key_id}",
          .access = Access::kApiAccess,
          .rate = RateClass::kManage,
          .handle = [](Parts& parts, Call call) { parts.account->change_key(std::move(call)); },
          .scope = Scope::kManage,
          .body = Body::kJson},
    Route{.method = "DELETE",
          .path = "/api/v1/account/keys/{key_id}",
          .access = Access::kApiAccess,
          .rate = RateClass::kManage,
          .handle = [](Parts& parts, Call call) { parts.account->delete_key(std::move(call)); },
          .scope = Scope::kManage},
    Route{.method = "GET",
          .path = "/api/v1/account/ledger",
          .access = Access::kBearer,
          .rate = RateClass::kRead,
          .handle = [](Parts& parts, Call call) { parts.account->list_ledger(std::move(call)); }},
    Route{.method = "POST",
          .path = "/api/v1/audio/estimates",
          .access = Access::kBearer,
          .rate = RateClass::kRead,
          .handle = [](Parts& parts, Call call) { parts.generations->estimate(std::move(call)); },
          .body = Body::kJson},
    Route{.method = "GET",
          .path = "/api/v1/voices",
          .access = Access::kPublic,
          .rate = RateClass::kFile,
          .handle = [](Parts& parts, Call call) { parts.catalogue->voices(call); },
          .head = true},
    Route{.method = "GET",
          .path = "/api/v1/models",
          .access = Access::kPublic,
          .rate = RateClass::kFile,
          .handle = [](Parts& parts, Call call) { parts.catalogue->models(call); },
          .head = true},
    Route{.method = "GET",
          .path = "/api/v1/pricing",
          .access = Access::kPublic,
          .rate = RateClass::kFile,
          .handle = [](Parts& parts, Call call) { parts.catalogue->pricing(call); },
          .head = true},
    Route{.method = "GET",
          .path = "/api/v1/openapi.json",
          .access = Access::kPublic,
          .rate = RateClass::kFile,
          .handle = [](Parts& parts, Call call) { parts.description->serve(call); },
          .head = true},
    // Names nobody can guess, signed links when asked for.
    Route{.method = "GET",
          .path = "(CDN_URL)/{file*}",
          .access = Access::kPublic,
          .rate = RateClass::kFile,
          .handle = [](Parts& parts, Call call) { parts.files->serve(call); },
          .head = true,
          .documented = false,
          .accepts = is_blob_key},
};

// The path of an address: "/files" of "https://cdn.example.com/files".
std::string path_of(std::string_view url) {
  const auto host = url.find("://") + 3;
  const auto slash = url.find('/', host);
  return slash == std::string_view::npos ? "" : std::string(url.substr(slash));
}

}  // namespace

std::span<const Route> route_table() {
  return kRoutes;
}

RouteTree route_tree(const Config& config, bool with_files) {
  RouteTree out;
  const std::string files = path_of(config.cdn_url);
  for (const Route& route : kRoutes) {
    // Nothing of the interface is hidden by a file.
    if (!route.path.starts_with(kFilesRoot) || (with_files && !files.starts_with(kBase))) {
      out.add(route, kFilesRoot, files);
    }
  }
  return out;
}

http::Response render_server_error(int status,
                                   std::string_view reason,
                                   const http::Request* partial) {
  const std::string request_id = request_id_of(partial);
  if (status >= 500) {
    static Occasionally line;  // Under a flood of them, one each would make it worse.
    if (line.due()) {
      log::error("request failed inside the server",
                 {{"request_id", request_id}, {"reason", reason}});
    }
  }
  http::Response response = error_response(
      status >= 500 ? service_unavailable()
                    : invalid_request("Malformed HTTP request: " + std::string(reason) + "."),
      request_id);
  if (partial != nullptr && partial->path.starts_with(kBase)) {
    append_cross_origin(response.headers, *partial);
  }
  return response;
}

}  // namespace audiogen::api
