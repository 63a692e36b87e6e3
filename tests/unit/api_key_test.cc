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

TEST(ApiKey, ScopesHaveNamesBothWays) {
  for (const Scope scope : kScopes) {
    EXPECT_EQ(parse_scope(scope_name(scope)), scope);
    Scopes only;
    only.add(scope);
    EXPECT_TRUE(only.has(scope));
    EXPECT_FALSE(Scopes{}.has(scope));
  }
  EXPECT_EQ(parse_scope("Manage"), std::nullopt);
}

TEST(ApiKey, NamesAreTextForPeople) {
  for (const std::string& name : {std::string("a"),
                                  std::string("a b"),
                                  std::string("l\xC3\xA4ptop"),
                                  std::string("\u05D0\u05D1"),      // Written from the right.
                                  std::string("\u2764\uFE0F"),      // A heart, in colour.
                                  std::string("\u845B\U000E0100"),  // A variant of a character.
                                  std::string("a\u200Az"),          // A narrow space is seen.
                                  std::string("\U0001F469\u200D\U0001F4BB"),  // One picture of two.
                                  std::string("\u2764\uFE0F\u200D\U0001F525"),
                                  std::string("\u0645\u06CC\u200C\u062E\u0648\u0627\u0647\u0645"),
                                  std::string("PDF\u200C\u0647\u0627"),
                                  std::string(100, 'x')}) {
    EXPECT_TRUE(is_key_name(name)) << name;
  }
  for (const std::string& name : {std::string(),
                                  std::string(101, 'x'),
                                  std::string(" a"),
                                  std::string("a "),
                                  std::string("\u3000a"),
                                  std::string("a\u00A0"),
                                  std::string("a\tb"),
                                  std::string("a\x7F"),
                                  std::string("a\u0085z"),
                                  std::string("a\xFF")}) {
    EXPECT_FALSE(is_key_name(name)) << name;
  }
}

// Two names that look alike, or one that turns round what stands beside it, would let a key pass
// for another one.
TEST(ApiKey, NamesHaveNothingUnseen) {
  for (const char* const unseen :
       {"\u0001",     "\u001F",     "\u009F",     "\u00AD",    "\u034F", "\u061C",     "\u115F",
        "\u180E",     "\u200B",     "\u200C",     "\u200D",    "\u200E", "\u200F",     "\u2028",
        "\u2029",     "\u202A",     "\u202E",     "\u2060",    "\u2064", "\u2066",     "\u2069",
        "\u206F",     "\u3164",     "\uFEFF",     "\uFFA0",    "\uFFF0", "\U0001BCA0", "\U0001D173",
        "\U000E0001", "\U000E0041", "\U000E007F", "\U000E0FFF"}) {
    const std::string c = unseen;
    EXPECT_TRUE(has_unseen_character(c));
    for (const std::string& name : {c, "a" + c, c + "a", "lap" + c + "top"}) {
      EXPECT_FALSE(is_key_name(name)) << testing::PrintToString(name);
    }
  }
  EXPECT_FALSE(has_unseen_character(""));
  EXPECT_FALSE(has_unseen_character("\xE2\x80")) << "no character at all";
}

// Where they change what is seen, and nowhere else.
TEST(ApiKey, NamesHaveJoinersBetweenWhatTheyJoin) {
  const std::string woman = "\U0001F469", laptop = "\U0001F4BB";
  for (const std::string& joiner : {std::string("\u200C"), std::string("\u200D")}) {
    const std::string other = joiner == "\u200C" ? "\u200D" : "\u200C";
    EXPECT_FALSE(has_unseen_character(woman + joiner + laptop));
    EXPECT_FALSE(has_unseen_character(woman + joiner + laptop + joiner + woman));
    for (const std::string& name : {joiner,
                                    joiner + joiner,
                                    joiner + woman,
                                    woman + joiner,
                                    woman + joiner + joiner + laptop,
                                    woman + joiner + other + laptop,
                                    woman + " " + joiner + laptop,
                                    woman + joiner + " " + laptop,
                                    woman + joiner + "\u3000" + laptop,
                                    woman + joiner + "\u200B" + laptop,
                                    woman + joiner + "\xFF" + laptop,
                                    "lap" + joiner + "top",
                                    "l\u00E4" + joiner + "ptop"}) {
      EXPECT_FALSE(is_key_name(name)) << testing::PrintToString(name);
      EXPECT_TRUE(has_unseen_character(name)) << testing::PrintToString(name);
    }
  }
}

TEST(ApiKey, EndsLieInTheFutureAndNotFarAway) {
  const Instant now = *parse_iso("2026-11-20T00:00:00Z");
  EXPECT_FALSE(is_key_expiry(now, now));
  EXPECT_TRUE(is_key_expiry(now + 1us, now));
  EXPECT_TRUE(is_key_expiry(*parse_iso("2036-11-20T00:00:00Z"), now)) << "ten years";
  EXPECT_FALSE(is_key_expiry(now + kKeyLifeMax + 1us, now));
}

TEST(ApiKey, NobodyGivesWhatHeLacks) {
  const Scopes none, generate{1}, manage{2}, both{3};
  EXPECT_EQ(scope_beyond(none, none), std::nullopt);
  EXPECT_EQ(scope_beyond(both, both), std::nullopt);
  EXPECT_EQ(scope_beyond(manage, both), std::nullopt);
  EXPECT_EQ(scope_beyond(both, manage), Scope::kGenerate);
  EXPECT_EQ(scope_beyond(manage, generate), Scope::kManage);
  const Instant end = *parse_iso("2026-11-20T00:00:00Z");
  EXPECT_FALSE(outlives(std::nullopt, std::nullopt));
  EXPECT_FALSE(outlives(end, std::nullopt));
  EXPECT_FALSE(outlives(end, end));
  EXPECT_TRUE(outlives(end + 1us, end));
  EXPECT_TRUE(outlives(std::nullopt, end));
}

TEST(ApiKey, AKeyReachesBeyondByAScopeOrByItsEnd) {
  const Instant now(std::chrono::sys_days(2026y / 11 / 22));
  const Scopes none, generate{1}, both{3};
  const KeyReach before{generate, now};
  EXPECT_FALSE(reaches_beyond(before, before));
  EXPECT_FALSE(reaches_beyond({none, now - 1s}, before));
  EXPECT_TRUE(reaches_beyond({both, now - 1s}, before));
  EXPECT_TRUE(reaches_beyond({none, now + 1us}, before));
  EXPECT_TRUE(reaches_beyond({none, std::nullopt}, before));
  EXPECT_FALSE(reaches_beyond(before, {both, std::nullopt}));
  const SpendLimit limit{credits(150), SpendPeriod::kDay};
  EXPECT_TRUE(reaches_beyond(before, {generate, now, limit}));
  EXPECT_FALSE(reaches_beyond({generate, now, limit}, before));
}

}  // namespace
}  // namespace audiogen
