// The form of API keys.
#include "common/domain/api_key.h"

#include <set>
#include <string>

#include <gtest/gtest.h>

namespace audiogen {
namespace {

TEST(ApiKey, HasThePublishedForm) {
  const NewApiKey key = make_api_key("svc");
  ASSERT_EQ(key.text.size(), std::string("svc_live_").size() + 43 + 6);
  EXPECT_TRUE(key.text.starts_with("svc_live_"));
  EXPECT_EQ(key.prefix, key.text.substr(0, 13));
  EXPECT_EQ(key.hash, sha256(key.text));
  for (const char c : key.text.substr(9)) {
    EXPECT_TRUE((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'));
  }
}

TEST(ApiKey, IsFoundByItsOwnTextOnly) {
  const NewApiKey key = make_api_key("svc");
  EXPECT_EQ(api_key_hash(key.text, "svc"), key.hash);
  EXPECT_FALSE(api_key_hash(key.text, "acme"));
  EXPECT_FALSE(api_key_hash(key.text, "abc"));
  EXPECT_FALSE(api_key_hash("", "svc"));
  EXPECT_FALSE(api_key_hash("svc_live_", "svc"));
  EXPECT_FALSE(api_key_hash(key.text + "0", "svc"));
  EXPECT_FALSE(api_key_hash(key.text.substr(0, key.text.size() - 1), "svc"));
  EXPECT_FALSE(api_key_hash(" " + key.text.substr(0, key.text.size() - 1), "svc"));
  EXPECT_FALSE(api_key_hash(std::string(key.text.size(), '\xFF'), "svc"));
}

TEST(ApiKey, EveryWrongCharacterIsNoticed) {
  const NewApiKey key = make_api_key("svc");
  for (std::size_t i = 0; i < key.text.size(); ++i) {
    for (const char wrong : {'a', 'Z', '0', '-', '\0'}) {
      std::string text = key.text;
      if (text[i] == wrong) {
        continue;
      }
      text[i] = wrong;
      EXPECT_FALSE(api_key_hash(text, "svc")) << i;
    }
  }
}

TEST(ApiKey, NoTwoAreAlikeAndTheAlphabetIsUsed) {
  std::set<std::string> seen;
  std::set<char> characters;
  for (int i = 0; i < 500; ++i) {
    const NewApiKey key = make_api_key("svc");
    EXPECT_TRUE(seen.insert(key.text).second);
    characters.insert(key.text.begin() + 9, key.text.end());
  }
  EXPECT_EQ(characters.size(), 62U);
}

}  // namespace
}  // namespace audiogen
