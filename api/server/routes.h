// Every path the public port answers, in one table: the route table is the security review.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "api/server/dispatcher.h"
#include "api/server/route.h"
#include "common/base/config.h"
#include "common/http/server.h"
#include "common/store/probe.h"

namespace audiogen::api {

class Account;
class AccountEnd;
class Catalogue;
class Description;
class Files;
class Generations;
class History;
class IssuerLinks;
class Mails;
class Oidc;
class Pages;
class Passkeys;
class SignIns;
class SignInWays;
class Usage;

struct Parts {
  const store::Probe* database = nullptr;
  Generations* generations = nullptr;
  History* history = nullptr;
  const Files* files = nullptr;  // Null: CDN_URL is served by somebody else.
  const Description* description = nullptr;
  Account* account = nullptr;
  Usage* usage = nullptr;
  const Catalogue* catalogue = nullptr;
  SignIns* sign_ins = nullptr;   // Null: there is no console.
  Passkeys* passkeys = nullptr;  // Null: browsers have none for PUBLIC_URL.
  IssuerLinks* issuer_links = nullptr;
  const Pages* pages = nullptr;
  const SignInWays* sign_in_ways = nullptr;
  AccountEnd* account_end = nullptr;
  Mails* mails = nullptr;  // Null: SMTP_URL is not set.
  Oidc* oidc = nullptr;    // Null: OIDC_ISSUER is not set.
};

// Where generations are made, and listed.
inline constexpr std::string_view kGenerationsPath = "/api/v1/audio/generations";
// The console's pages; and before the paths of the twins, by which a session asks what a key does.
inline constexpr std::string_view kConsole = "/console";

// Stands in the table for the path of CDN_URL.
inline constexpr std::string_view kFilesRoot = "(CDN_URL)";

std::span<const Route> route_table();

// What the console's pages call instead of a documented route, at the same path under /console: the
// same but for who may, whoever has signed in, and that no other site's page may.
Route console_twin(const Route& route);

// The table as it is with this configuration.
RouteTree route_tree(const Config& config, bool with_files, bool with_console);

// What the server itself answers when there is no request to route: bad framing, a deadline, an
// exception.
http::Response render_server_error(int status,
                                   std::string_view reason,
                                   const http::Request* partial);

}  // namespace audiogen::api
