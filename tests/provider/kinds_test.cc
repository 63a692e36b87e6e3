// The list of kinds, and what README.md says of them: it is what they say of themselves.
#include "worker/providers/kinds.h"

#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/places.h"

namespace audiogen::test {
namespace {

using testing::HasSubstr;

std::string readme() {
  std::ifstream in(source_path("README.md"));
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

std::string code(std::string_view text) {
  return text.empty() ? "" : "`" + std::string(text) + "`";
}

std::string row(const ProviderKind& kind) {
  std::string timeout = kind.plain ? "" : std::to_string(kind.timeout.count()) + " s";
  return "| " + code(kind.name) + " | " + std::string(kind.about) + " | " + code(kind.base_url) +
         " | " + (kind.makes == Makes::kScene ? "scene" : "narration") + " | " + timeout + " | " +
         std::to_string(kind.max_in_flight) + " |\n";
}

// With all kinds that have the same.
std::string row(const ProviderOption& option) {
  std::string of;
  for (const ProviderKind* kind : provider_kinds()) {
    for (const ProviderOption& one : kind->options) {
      if (one.name == option.name && one.about == option.about) {
        of += (of.empty() ? "" : ", ") + std::string(kind->name);
      }
    }
  }
  return "| " + code(option.name) + " | " + of + " | " + code(option.fallback) + " | " +
         std::string(option.about) + " |\n";
}

TEST(Kinds, AreSoundByThemselves) {
  std::set<std::string_view> names;
  for (const ProviderKind* kind : provider_kinds()) {
    EXPECT_TRUE(names.insert(kind->name).second) << kind->name;
    EXPECT_EQ(find_kind(kind->name), kind);
    EXPECT_EQ(kind->base_url.empty(), std::holds_alternative<MakeInHouse>(kind->format));
    std::set<std::string_view> options;
    for (const ProviderOption& option : kind->options) {
      EXPECT_TRUE(options.insert(option.name).second) << option.name;
      const auto& choices = option.choices;
      EXPECT_TRUE(choices.empty() ||
                  std::find(choices.begin(), choices.end(), option.fallback) != choices.end())
          << option.name;
    }
  }
  EXPECT_EQ(find_kind("magic"), nullptr);
}

TEST(Kinds, ReadmeSaysWhatTheySay) {
  const std::string text = readme();
  for (const ProviderKind* kind : provider_kinds()) {
    EXPECT_THAT(text, HasSubstr(row(*kind)));
    for (const ProviderOption& option : kind->options) {
      EXPECT_THAT(text, HasSubstr(row(option)));
    }
  }
}

}  // namespace
}  // namespace audiogen::test
