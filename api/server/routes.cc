#include "api/server/routes.h"

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "api/account/account.h"
#include "api/account/usage.h"
#include "api/catalogue/catalogue.h"
#include "api/console/account_end.h"
#include "api/console/issuer_links.h"
#include "api/console/mails.h"
#include "api/console/oidc.h"
#include "api/console/pages.h"
#include "api/console/passkeys.h"
#include "api/console/sign_in_ways.h"
#include "api/console/sign_ins.h"
#include "api/files/files.h"
#include "api/generations/generations.h"
#include "api/generations/history.h"
#include "api/server/answer.h"
#include "api/server/description.h"
#include "common/base/log.h"
#include "common/base/occasionally.h"
#include "common/blob/blob_key.h"
#include "common/domain/webauthn.h"

namespace audiogen::api {
namespace {

constexpr std::string_view kBase = "/api/v1";

bool has_mail(const Config& config) {
  return config.smtp.has_value();
}

bool has_passkeys(const Config& config) {
  return relying_party(config.public_url).has_value();
}
bool has_issuer(const Config& config) {
  return config.oidc.has_value();
}

constexpr std::array kRoutes = {
    Route{.method = "POST",
          .path = kGenerationsPath,
          .access = Access::kApiAccess,
          .rate = RateClass::kCreate,
          .handle = [](Parts& parts, Call call) { parts.generations->create(std::move(call)); },
          .scope = Scope::kGenerate,
          .body = Body::kJson,
          .late = [](Parts& parts, auto received_at) -> std::optional<ApiError> {
            return parts.generations->late(received_at) ? std::optional(service_unavailable())
                                                        : std::nullopt;
          }},
    Route{.method = "GET",
          .path = kGenerationsPath,
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
    Route{.method = "GET",
          .path = "/api/v1/audio/generations/{task_id}/details",
          .access = Access::kBearer,
          .rate = RateClass::kRead,
          .handle = [](Parts& parts, Call call) { parts.history->details(std::move(call)); }},
    Route{.method = "GET",
          .path = "/api/v1/audio/generations/{task_id}/events",
          .access = Access::kBearer,
          .rate = RateClass::kRead,
          .handle = [](Parts& parts, Call call) { parts.generations->events(std::move(call)); },
          .head = true},
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
    // Whoever finds a key that leaked can end it with it. Who has signed in shows none.
    Route{.method = "DELETE",
          .path = "/api/v1/account/keys/current",
          .access = Access::kBearer,
          .rate = RateClass::kManage,
          .handle = [](Parts& parts,
                       Call call) { parts.account->delete_current_key(std::move(call)); },
          .console = false},
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
    Route{.method = "POST",
          .path = "/api/v1/account/keys/{key_id}/rotate",
          .access = Access::kApiAccess,
          .rate = RateClass::kManage,
          .handle = [](Parts& parts, Call call) { parts.account->rotate_key(std::move(call)); },
          .scope = Scope::kManage,
          .body = Body::kJson},
    Route{.method = "GET",
          .path = "/api/v1/account/ledger",
          .access = Access::kBearer,
          .rate = RateClass::kRead,
          .handle = [](Parts& parts, Call call) { parts.account->list_ledger(std::move(call)); }},
    Route{.method = "GET",
          .path = "/api/v1/usage",
          .access = Access::kBearer,
          .rate = RateClass::kRead,
          .handle = [](Parts& parts, Call call) { parts.usage->read(std::move(call)); }},
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
          .path = "/api/v1/voices/{voice_id}/preview",
          .access = Access::kPublic,
          .rate = RateClass::kFile,
          .handle = [](Parts& parts, Call call) { parts.catalogue->preview(call); },
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
    // What the console has besides the twins of the above.
    Route{.method = "POST",
          .path = "/console/api/v1/sessions",
          .access = Access::kPublic,
          .rate = RateClass::kSignIn,
          .handle = [](Parts& parts, Call call) { parts.sign_ins->open(std::move(call)); },
          .body = Body::kJson,
          .documented = false,
          .cross_origin = false},
    Route{.method = "GET",
          .path = "/console/api/v1/sessions",
          .access = Access::kSession,
          .rate = RateClass::kRead,
          .handle = [](Parts& parts, Call call) { parts.sign_ins->list(std::move(call)); },
          .documented = false,
          .cross_origin = false},
    Route{.method = "GET",
          .path = "/console/api/v1/sessions/current",
          .access = Access::kSession,
          .rate = RateClass::kRead,
          .handle = [](Parts& parts, Call call) { parts.sign_ins->current(std::move(call)); },
          .documented = false,
          .cross_origin = false},
    Route{.method = "DELETE",
          .path = "/console/api/v1/sessions/current",
          .access = Access::kSession,
          .rate = RateClass::kManage,
          .handle = [](Parts& parts, Call call) { parts.sign_ins->close_current(std::move(call)); },
          .documented = false,
          .cross_origin = false},
    Route{.method = "DELETE",
          .path = "/console/api/v1/sessions/{session_id}",
          .access = Access::kSession,
          .rate = RateClass::kManage,
          .handle = [](Parts& parts, Call call) { parts.sign_ins->close(std::move(call)); },
          .documented = false,
          .cross_origin = false},
    Route{.method = "PUT",
          .path = "/console/api/v1/password",
          .access = Access::kSession,
          .rate = RateClass::kManage,
          .handle = [](Parts& parts, Call call) { parts.sign_ins->set_password(std::move(call)); },
          .body = Body::kJson,
          .documented = false,
          .cross_origin = false},
    Route{.method = "POST",
          .path = "/console/api/v1/passkeys/challenge",
          .access = Access::kPublic,
          .rate = RateClass::kSignIn,
          .handle = [](Parts& parts, Call call) { parts.passkeys->challenge(std::move(call)); },
          .documented = false,
          .cross_origin = false,
          .there = has_passkeys},
    Route{.method = "POST",
          .path = "/console/api/v1/sessions/passkey",
          .access = Access::kPublic,
          .rate = RateClass::kSignIn,
          .handle = [](Parts& parts, Call call) { parts.passkeys->open_session(std::move(call)); },
          .body = Body::kJson,
          .documented = false,
          .cross_origin = false,
          .there = has_passkeys},
    Route{.method = "POST",
          .path = "/console/api/v1/passkeys/invitation",
          .access = Access::kSession,
          .rate = RateClass::kManage,
          .handle = [](Parts& parts, Call call) { parts.passkeys->invite(std::move(call)); },
          .documented = false,
          .cross_origin = false,
          .there = has_passkeys},
    Route{.method = "GET",
          .path = "/console/api/v1/passkeys",
          .access = Access::kSession,
          .rate = RateClass::kRead,
          .handle = [](Parts& parts, Call call) { parts.passkeys->list(std::move(call)); },
          .documented = false,
          .cross_origin = false,
          .there = has_passkeys},
    Route{.method = "POST",
          .path = "/console/api/v1/passkeys",
          .access = Access::kSession,
          .rate = RateClass::kManage,
          .handle = [](Parts& parts, Call call) { parts.passkeys->add(std::move(call)); },
          .body = Body::kJson,
          .documented = false,
          .cross_origin = false,
          .there = has_passkeys},
    Route{.method = "PATCH",
          .path = "/console/api/v1/passkeys/{passkey_id}",
          .access = Access::kSession,
          .rate = RateClass::kManage,
          .handle = [](Parts& parts, Call call) { parts.passkeys->rename(std::move(call)); },
          .body = Body::kJson,
          .documented = false,
          .cross_origin = false,
          .there = has_passkeys},
    Route{.method = "DELETE",
          .path = "/console/api/v1/passkeys/{passkey_id}",
          .access = Access::kSession,
          .rate = RateClass::kManage,
          .handle = [](Parts& parts, Call call) { parts.passkeys->remove(std::move(call)); },
          .documented = false,
          .cross_origin = false,
          .there = has_passkeys},
    // There without an issuer, too: what was linked while there was one.
    Route{.method = "GET",
          .path = "/console/api/v1/account/issuers",
          .access = Access::kSession,
          .rate = RateClass::kRead,
          .handle = [](Parts& parts, Call call) { parts.issuer_links->list(std::move(call)); },
          .documented = false,
          .cross_origin = false},
    Route{.method = "DELETE",
          .path = "/console/api/v1/account/issuers/{issuer_link_id}",
          .access = Access::kSession,
          .rate = RateClass::kManage,
          .handle = [](Parts& parts, Call call) { parts.issuer_links->remove(std::move(call)); },
          .documented = false,
          .cross_origin = false},
    Route{.method = "POST",
          .path = "/console/api/v1/account/deletion",
          .access = Access::kSession,
          .rate = RateClass::kManage,
          .handle = [](Parts& parts, Call call) { parts.account_end->end(std::move(call)); },
          .body = Body::kJson,
          .documented = false,
          .cross_origin = false},
    // For the page of whoever has not signed in yet.
    Route{.method = "GET",
          .path = "/console/api/v1/sign-in",
          .access = Access::kPublic,
          .rate = RateClass::kFile,
          .handle = [](Parts& parts, Call call) { parts.sign_in_ways->show(call); },
          .documented = false,
          .cross_origin = false},
    Route{.method = "POST",
          .path = "/console/api/v1/sign-in/link",
          .access = Access::kPublic,
          .rate = RateClass::kSignIn,
          .handle = [](Parts& parts, Call call) { parts.mails->ask_link(std::move(call)); },
          .body = Body::kJson,
          .documented = false,
          .cross_origin = false,
          .there = has_mail},
    // No GET: any site's page can have a browser make one, and would use up its attempts.
    Route{.method = "POST",
          .path = "/console/api/v1/sign-in/oidc",
          .access = Access::kPublic,
          .rate = RateClass::kSignIn,
          .handle = [](Parts& parts, Call call) { parts.oidc->begin(std::move(call)); },
          .body = Body::kJson,
          .documented = false,
          .cross_origin = false,
          .there = has_issuer},
    // A browser comes back from another site: by an address, and with a cookie of its own alone.
    // Whoever has that is counted, there.
    Route{.method = "GET",
          .path = "/console/api/v1/sign-in/oidc/callback",
          .access = Access::kPublic,
          .rate = RateClass::kNone,
          .handle = [](Parts& parts, Call call) { parts.oidc->finish(std::move(call)); },
          .documented = false,
          .cross_origin = false,
          .there = has_issuer},
    Route{.method = "PUT",
          .path = "/console/api/v1/email",
          .access = Access::kSession,
          .rate = RateClass::kManage,
          .handle = [](Parts& parts, Call call) { parts.mails->ask_change(std::move(call)); },
          .body = Body::kJson,
          .documented = false,
          .cross_origin = false,
          .there = has_mail},
    Route{.method = "POST",
          .path = "/console/api/v1/email/confirmation",
          .access = Access::kSession,
          .rate = RateClass::kManage,
          .handle = [](Parts& parts, Call call) { parts.mails->confirm_change(std::move(call)); },
          .body = Body::kJson,
          .documented = false,
          .cross_origin = false,
          .there = has_mail},
    Route{.method = "GET",
          .path = "/",
          .access = Access::kPublic,
          .rate = RateClass::kNone,
          .handle = [](Parts& parts, Call call) { parts.pages->redirect(call); },
          .head = true,
          .documented = false,
          .cross_origin = false},
    Route{.method = "GET",
          .path = "/console",
          .access = Access::kPublic,
          .rate = RateClass::kNone,
          .handle = [](Parts& parts, Call call) { parts.pages->redirect(call); },
          .head = true,
          .documented = false,
          .cross_origin = false},
    Route{.method = "GET",
          .path = "/console/{page*}",
          .access = Access::kPublic,
          .rate = RateClass::kFile,
          .handle = [](Parts& parts, Call call) { parts.pages->show(call); },
          .head = true,
          .documented = false,
          .cross_origin = false},
};

bool is_below(std::string_view path, std::string_view folder) {
  return path == folder || (path.starts_with(folder) && path[folder.size()] == '/');
}

// As long as the program: a tree refers to its routes.
const std::vector<Route>& console_twins() {
  static const std::vector<Route> twins = [] {
    std::vector<Route> out;
    for (const Route& route : kRoutes) {
      if (route.documented && route.console) {
        out.push_back(console_twin(route));
      }
    }
    return out;
  }();
  return twins;
}

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

Route console_twin(const Route& route) {
  Route out = route;
  out.access = Access::kSession;
  if (route.access == Access::kPublic) {
    out.rate = RateClass::kRead;  // Of its user, no longer of an address.
  }
  out.cross_origin = false;
  return out;
}

RouteTree route_tree(const Config& config, bool with_files, bool with_console) {
  RouteTree out;
  const std::string files = path_of(config.cdn_url);
  // Nothing of the interface is hidden by a file.
  const bool hidden = is_below(files, kBase) || (with_console && is_below(files, kConsole));
  for (const Route& route : kRoutes) {
    const bool here = route.path.starts_with(kFilesRoot) ? with_files && !hidden
                      : route.documented                 ? true
                                                         : with_console;
    if (here && (route.there == nullptr || route.there(config))) {
      out.add(route, kFilesRoot, files);
    }
  }
  if (with_console) {
    for (const Route& twin : console_twins()) {
      out.add(twin, kBase, std::string(kConsole) + std::string(kBase));
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
  } else if (partial != nullptr && partial->path.starts_with(kConsole)) {
    append_own_only(response.headers);
  }
  return response;
}

}  // namespace audiogen::api
