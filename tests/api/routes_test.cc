// The route table against the published description, both ways.
#include "api/server/routes.h"

#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include <gtest/gtest.h>
#include <rapidjson/document.h>

namespace audiogen::api {
namespace {

constexpr std::string_view kBase = "/api/v1";

// "POST /audio/generations key body"
std::string line(std::string_view method, std::string_view path, bool key, bool body) {
  return std::string(method) + " " + std::string(path) + (key ? " key" : "") +
         (body ? " body" : "");
}

std::set<std::string> described() {
  std::ifstream in(OPENAPI_FILE);
  std::ostringstream text;
  text << in.rdbuf();
  rapidjson::Document document;
  document.Parse(text.str().c_str());
  EXPECT_FALSE(document.HasParseError()) << OPENAPI_FILE;
  std::set<std::string> out;
  for (const auto& path : document["paths"].GetObject()) {
    for (const char* method : {"get", "put", "post", "delete", "patch", "head", "trace"}) {
      if (path.value.HasMember(method)) {
        std::string upper = method;
        for (char& c : upper) {
          c = static_cast<char>(c - 'a' + 'A');
        }
        const auto& operation = path.value[method];
        // Without a "security" of its own the document's holds.
        const bool key = !operation.HasMember("security") || !operation["security"].Empty();
        out.insert(line(upper, path.name.GetString(), key, operation.HasMember("requestBody")));
      }
    }
  }
  return out;
}

TEST(Routes, AreTheDescribedOnesAndNoOther) {
  std::set<std::string> routes;
  for (const Route& route : route_table()) {
    if (route.documented) {
      ASSERT_TRUE(route.path.starts_with(kBase)) << route.path;
      EXPECT_TRUE(routes
                      .insert(line(route.method,
                                   route.path.substr(kBase.size()),
                                   route.access != Access::kPublic,
                                   route.body != Body::kNone))
                      .second)
          << route.path << " twice";
    } else {
      EXPECT_FALSE(route.path.starts_with(kBase)) << route.path << " is to be described";
    }
  }
  EXPECT_EQ(routes, described());
}

TEST(Routes, CountTowardsWhatTheirCallersHave) {
  for (const Route& route : route_table()) {
    const bool of_a_key = static_cast<std::size_t>(route.rate) < kKeyRates;
    EXPECT_EQ(of_a_key, route.access != Access::kPublic) << route.path;
    EXPECT_FALSE(route.head && route.method != "GET") << route.path;
    EXPECT_TRUE(route.method != "HEAD" && route.method != "OPTIONS") << route.path;
  }
}

// Reading is always allowed, and asking for a price is reading; a key that leaked can make itself
// harmless. For anything else the key must have been given a scope, and its account have bought
// access.
TEST(Routes, ChangesNeedAScope) {
  const std::set<std::string> without{"DELETE /api/v1/account/keys/current",
                                      "POST /api/v1/audio/estimates"};
  for (const Route& route : route_table()) {
    const std::string name = line(route.method, route.path, false, false);
    if (route.access == Access::kSession) {
      EXPECT_FALSE(route.scope) << name << ": sessions have them all";
      continue;
    }
    const bool changes =
        route.method != "GET" && route.access != Access::kPublic && !without.contains(name);
    EXPECT_EQ(route.scope.has_value(), changes) << name;
    EXPECT_EQ(route.access == Access::kApiAccess, changes) << name;
    if (route.scope) {
      EXPECT_EQ(*route.scope == Scope::kGenerate, route.path.starts_with("/api/v1/audio/")) << name;
    }
  }
}

Config config(std::string cdn_url) {
  Config out;
  out.cdn_url = std::move(cdn_url);
  return out;
}

TEST(Routes, FilesAreWhereTheirAddressSays) {
  const std::string file = "01j9x4tqkc7v2m8e5r0hfzw3dn-a0b1c2d3e4f5g6h7j8k9mnpqrs-24000.mp3";
  PathParameters parameters;
  for (const auto& [url, path] :
       {std::pair<std::string, std::string>{"https://cdn.test/files", "/files/"},
        {"https://cdn.test/a/b", "/a/b/"},
        {"https://cdn.test", "/"}}) {
    const RouteTree tree = route_tree(config(url), true, false);
    const std::string whole = path + file;  // What the parameters are views of.
    ASSERT_NE(tree.find(whole, parameters), nullptr) << path;
    EXPECT_EQ(parameters[0], file);
    EXPECT_EQ(tree.find(path + "other.mp3", parameters), nullptr);
    EXPECT_EQ(tree.find(path, parameters), nullptr);
    EXPECT_NE(tree.find("/api/v1/openapi.json", parameters), nullptr);
    EXPECT_EQ(route_tree(config(url), false, false).find(whole, parameters), nullptr);
  }
  // Nothing of the interface is hidden by a file.
  for (const char* folder : {"/api/v1", "/api/v1/files", "/console", "/console/assets"}) {
    const std::string whole = std::string(folder) + "/" + file;
    const RouteTree tree = route_tree(config("https://cdn.test" + std::string(folder)), true, true);
    const auto* const found = tree.find(whole, parameters);
    EXPECT_TRUE(found == nullptr || found->routes.front()->accepts == nullptr) << whole;
  }
  const std::string whole = "/console/" + file;
  EXPECT_NE(route_tree(config("https://cdn.test/console"), true, false).find(whole, parameters),
            nullptr)
      << "without a console it is a folder like any other";
}

// The console's pages call what keys call, by their cookie: the same handlers, nothing left out.
TEST(Routes, EveryDescribedOneHasItsTwinInTheConsole) {
  const RouteTree tree = route_tree(config("https://cdn.test/files"), true, true);
  for (const Route& route : route_table()) {
    if (!route.documented) {
      continue;
    }
    PathParameters parameters;
    const std::string path = "/console" + std::string(route.path);
    const auto* const found = tree.find(path, parameters);
    const Route* const twin = found == nullptr ? nullptr : found->find(route.method);
    ASSERT_NE(twin, nullptr) << path;
    if (route.path == "/api/v1/account/keys/current") {
      EXPECT_NE(twin->handle, route.handle) << "who has signed in shows none";
      continue;
    }
    EXPECT_EQ(twin->access, Access::kSession) << path;
    EXPECT_FALSE(twin->cross_origin) << path;
    EXPECT_EQ(twin->handle, route.handle) << path;
    EXPECT_EQ(twin->scope, route.scope) << path;
    EXPECT_EQ(twin->body, route.body) << path;
    EXPECT_EQ(twin->late, route.late) << path;
    EXPECT_LT(static_cast<std::size_t>(twin->rate), kKeyRates) << path;
    if (route.access != Access::kPublic) {
      EXPECT_EQ(twin->rate, route.rate) << path;
    }
  }
}

TEST(Routes, PasskeysAreThereWhereBrowsersHaveThem) {
  Config here = config("https://cdn.test/files");
  PathParameters parameters;
  std::size_t count = 0;
  for (const Route& route : route_table()) {
    if (route.path.find("/passkey") != std::string_view::npos) {
      ++count;
      EXPECT_NE(route.there, nullptr) << route.path;
    }
  }
  EXPECT_EQ(count, 7U);
  for (const auto& [url, there] : {std::pair<const char*, bool>{"https://audio.test", true},
                                   {"http://127.0.0.1:8080", false}}) {
    here.public_url = url;
    const RouteTree tree = route_tree(here, true, true);
    for (const char* path : {"/console/api/v1/passkeys", "/console/api/v1/passkeys/psk_1"}) {
      EXPECT_EQ(tree.find(path, parameters) != nullptr, there) << url << path;
    }
    const auto* const session = tree.find("/console/api/v1/sessions/passkey", parameters);
    EXPECT_EQ(session != nullptr && session->find("POST") != nullptr, there) << url;
    EXPECT_EQ(route_tree(here, true, false).find("/console/api/v1/passkeys", parameters), nullptr);
  }
}

TEST(Routes, NothingOfTheConsoleIsThereWithoutIt) {
  const RouteTree with = route_tree(config("https://cdn.test/files"), true, true);
  const RouteTree without = route_tree(config("https://cdn.test/files"), true, false);
  PathParameters parameters;
  for (const char* path : {"/",
                           "/console",
                           "/console/",
                           "/console/keys",
                           "/console/generations/aud_1",
                           "/console/assets/app-1.js",
                           "/console/api/v1/sessions",
                           "/console/api/v1/sessions/current",
                           "/console/api/v1/sessions/ses_1",
                           "/console/api/v1/password",
                           "/console/api/v1/account"}) {
    EXPECT_NE(with.find(path, parameters), nullptr) << path;
    EXPECT_EQ(without.find(path, parameters), nullptr) << path;
  }
  for (const char* path : {"/console/api", "/console/api/v1", "/console/api/v1/nothing"}) {
    EXPECT_EQ(with.find(path, parameters), nullptr) << path << " is no page";
  }
}

// Whatever a cookie opens is for our own pages, and so is signing in.
TEST(Routes, NoOtherSiteReachesTheConsole) {
  for (const Route& route : route_table()) {
    EXPECT_EQ(route.cross_origin, !route.path.starts_with("/console") && route.path != "/")
        << route.path;
    EXPECT_EQ(route.access == Access::kSession,
              route.path.starts_with("/console/api/") && route.rate != RateClass::kSignIn &&
                  route.path != "/console/api/v1/sign-in" &&
                  route.path != "/console/api/v1/sign-in/oidc/callback")
        << route.path;
  }
}

TEST(Routes, WhatNeedsAnIssuerIsThereWithIt) {
  Config with_issuer = config("https://cdn.test/files");
  with_issuer.oidc = OidcSettings{};
  const RouteTree with = route_tree(with_issuer, true, true);
  const RouteTree without = route_tree(config("https://cdn.test/files"), true, true);
  PathParameters parameters;
  for (const char* path :
       {"/console/api/v1/sign-in/oidc", "/console/api/v1/sign-in/oidc/callback"}) {
    EXPECT_NE(with.find(path, parameters), nullptr) << path;
    EXPECT_EQ(without.find(path, parameters), nullptr) << path;
  }
}

TEST(Routes, WhatNeedsMailIsThereWithIt) {
  Config with_mail = config("https://cdn.test/files");
  with_mail.smtp = SmtpUrl{.host = "mail.example.com"};
  const RouteTree with = route_tree(with_mail, true, true);
  const RouteTree without = route_tree(config("https://cdn.test/files"), true, true);
  PathParameters parameters;
  for (const char* path : {"/console/api/v1/sign-in/link",
                           "/console/api/v1/email",
                           "/console/api/v1/email/confirmation"}) {
    EXPECT_NE(with.find(path, parameters), nullptr) << path;
    EXPECT_EQ(without.find(path, parameters), nullptr) << path;
  }
  for (const char* path : {"/console/api/v1/sign-in", "/console/api/v1/account/deletion"}) {
    EXPECT_NE(without.find(path, parameters), nullptr) << path;
  }
}

}  // namespace
}  // namespace audiogen::api
