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
    const RouteTree tree = route_tree(config(url), true);
    const std::string whole = path + file;  // What the parameters are views of.
    ASSERT_NE(tree.find(whole, parameters), nullptr) << path;
    EXPECT_EQ(parameters[0], file);
    EXPECT_EQ(tree.find(path + "other.mp3", parameters), nullptr);
    EXPECT_EQ(tree.find(path, parameters), nullptr);
    EXPECT_NE(tree.find("/api/v1/openapi.json", parameters), nullptr);
    EXPECT_EQ(route_tree(config(url), false).find(whole, parameters), nullptr);
  }
  // Nothing of the interface is hidden by a file.
  const RouteTree tree = route_tree(config("https://cdn.test/api/v1/files"), true);
  EXPECT_EQ(tree.find("/api/v1/files/" + file, parameters), nullptr);
}

}  // namespace
}  // namespace audiogen::api
