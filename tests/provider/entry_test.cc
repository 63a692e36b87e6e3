// The providers file: every rule, all errors at once, never a key.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "worker/providers/kinds.h"

namespace audiogen {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class Entries : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    ::setenv("TEST_PROVIDER_KEY", "sk-1234", 1);
    ::setenv("TEST_PROVIDER_BAD_KEY", "a\r\nB: c", 1);
    ::unsetenv("TEST_PROVIDER_NO_KEY");
  }

  static std::vector<std::string> errors(const std::string& entries) {
    const auto parsed = parse_providers(R"({"providers":[)" + entries + "]}");
    return parsed ? std::vector<std::string>{} : parsed.error();
  }
};

TEST_F(Entries, ReadsEveryMember) {
  const auto parsed = parse_providers(R"({"providers":[
    {"name":"primary","kind":"openai","base_url":"http://127.0.0.1:9101/a/v1/",
     "api_key_env":"TEST_PROVIDER_KEY","model":"gpt-4o-mini-tts","timeout_seconds":20,
     "connect_timeout_seconds":1.5,"max_in_flight":7,"tier":3,"queue_wait_seconds":2.5,
     "account":"main","account_max_in_flight":5,
     "price":{"amount":0.015,"per":"1000_characters"},
     "voices":{"aria":"coral","atlas":"onyx"},"options":{"response_format":"match"}},
    {"name":"fallback","kind":"local"}]})");
  ASSERT_TRUE(parsed);
  ASSERT_EQ(parsed->size(), 2U);
  const ProviderEntry& entry = parsed->front();
  EXPECT_EQ(entry.name, "primary");
  EXPECT_EQ(entry.kind, find_kind("openai"));
  EXPECT_EQ(entry.base_url, "http://127.0.0.1:9101/a/v1");
  EXPECT_EQ(entry.api_key, "sk-1234");
  EXPECT_EQ(entry.timeout, std::chrono::seconds(20));
  EXPECT_EQ(entry.connect_timeout, std::chrono::milliseconds(1500));
  EXPECT_EQ(entry.max_in_flight, 7);
  EXPECT_EQ(entry.account, "main");
  EXPECT_EQ(entry.account_max_in_flight, 5U);
  EXPECT_EQ(entry.tier, 3);
  EXPECT_EQ(entry.price, (ProviderPrice{PriceUnit::kThousandCharacters, Micros{15'000}}));
  EXPECT_EQ(entry.queue_wait, std::chrono::milliseconds(2500));
  EXPECT_EQ(entry.voices.at("atlas"), "onyx");
  EXPECT_EQ(entry.option("response_format"), "match");
  EXPECT_EQ(parsed->back().kind, find_kind("local"));
}

// It was raced against those that are paid for unless an operator said otherwise.
TEST_F(Entries, WhatIsInTheHouseIsOfItsTier) {
  for (const ProviderKind* kind : provider_kinds()) {
    EXPECT_EQ(defaults_of(*kind).tier, kind->base_url.empty() ? kTierOfTheHouse : 1) << kind->name;
  }
}

TEST_F(Entries, PricesAreInUnitsThatCanBeCounted) {
  const auto with = [](const char* kind, const std::string& price) {
    return errors(R"({"name":"a","kind":")" + std::string(kind) +
                  R"(","api_key_env":"TEST_PROVIDER_KEY","model":"owner/app",)" +
                  R"("voices":{"aria":"coral"},"price":)" + price + "}");
  };
  const auto of = [&](const char* kind, const char* per) {
    return with(kind, R"({"amount":1,"per":")" + std::string(per) + "\"}");
  };
  for (const char* kind : {"openai", "elevenlabs", "seed_audio", "fal", "replicate"}) {
    for (const char* per : {"call", "1000_characters", "audio_second"}) {
      EXPECT_TRUE(of(kind, per).empty()) << kind << per;
    }
    EXPECT_EQ(of(kind, "compute_second").empty(), std::string(kind) == "replicate") << kind;
    EXPECT_EQ(of(kind, "billable_unit").empty(), std::string(kind) == "fal") << kind;
  }
  EXPECT_THAT(of("openai", "minute"),
              ElementsAre("providers[0] (a) price: per must be one of call, 1000_characters, "
                          "audio_second"));
  EXPECT_THAT(with("fal", R"({"per":"call"})"),
              ElementsAre("providers[0] (a) price: needs amount, what one of per costs"));
  EXPECT_THAT(with("fal", R"({"amount":-1,"per":"call"})"),
              ElementsAre("providers[0] (a) price: amount must be a number from 0 to 1000"));
  EXPECT_THAT(with("fal", R"({"amount":1000.5,"per":"call"})"),
              ElementsAre("providers[0] (a) price: amount must be a number from 0 to 1000"));
  EXPECT_THAT(with("fal", R"({"amount":0.0000001,"per":"call"})"),
              ElementsAre("providers[0] (a) price: amount must have at most six decimals"));
  EXPECT_THAT(with("fal", R"({"amount":1,"per":"call","currency":"EUR"})"),
              ElementsAre("providers[0] (a) price: has an unknown member 'currency'"));
  EXPECT_THAT(with("fal", "0.5"),
              ElementsAre("providers[0] (a) price must be an object with amount and per"));
  EXPECT_TRUE(with("fal", R"({"amount":0.000001,"per":"call"})").empty());
  EXPECT_TRUE(with("fal", R"({"amount":0,"per":"call"})").empty());
  EXPECT_THAT(errors(R"({"name":"l","kind":"local","price":{"amount":1,"per":"call"}})"),
              ElementsAre("providers[0] (l) has an unknown member 'price'"));
}

TEST_F(Entries, EveryKindHasDefaultsAndMakesAProvider) {
  const auto parsed = parse_providers(R"({"providers":[
    {"name":"a","kind":"openai","model":"m","voices":{"aria":"coral"}},
    {"name":"b","kind":"elevenlabs","api_key_env":"TEST_PROVIDER_KEY","voices":{"aria":"x"}},
    {"name":"c","kind":"elevenlabs","api_key_env":"TEST_PROVIDER_KEY","options":{"mode":"sound"}},
    {"name":"d","kind":"seed_audio","api_key_env":"TEST_PROVIDER_KEY"},
    {"name":"e","kind":"fal","api_key_env":"TEST_PROVIDER_KEY","model":"owner/app",
     "options":{"audio_references_member":"audio_urls","input":{"steps":4}}},
    {"name":"f","kind":"replicate","api_key_env":"TEST_PROVIDER_KEY","model":"o/n:abc","account":"x",
     "account_max_in_flight":3}]})");
  ASSERT_TRUE(parsed) << parsed.error().front();
  EXPECT_EQ((*parsed)[0].base_url, "https://api.openai.com/v1");
  EXPECT_EQ((*parsed)[1].option("output_format"), "auto");
  EXPECT_EQ((*parsed)[2].model, "eleven_text_to_sound_v2");
  EXPECT_EQ((*parsed)[4].option("input"), R"({"steps":4})");
  http::Client client;
  for (const ProviderEntry& entry : *parsed) {
    const auto provider = make_provider(entry, client);
    EXPECT_EQ(provider->name(), entry.name);
    EXPECT_EQ(provider->capabilities().max_in_flight, entry.max_in_flight);
    EXPECT_EQ(provider->capabilities().account, entry.account);
    EXPECT_EQ(provider->capabilities().account_max_in_flight, entry.account_max_in_flight);
    EXPECT_EQ(provider->capabilities().voices.size(), entry.voices.size());
    EXPECT_EQ(provider->capabilities().audio_references,
              entry.kind->name == "seed_audio" || entry.kind->name == "fal");
    // A longer one it would refuse, and a narrator behind it would not be asked.
    const bool sounds = entry.name == "c";
    EXPECT_EQ(std::min(provider->capabilities().prompt_max, kPromptMax), sounds ? 450 : kPromptMax);
  }
}

TEST_F(Entries, WhatIsSaidOfAModelOfOnesOwnIsChecked) {
  const auto with = [](const std::string& rest) {
    return errors(R"({"name":"a","kind":"onnx",)" + rest + "}");
  };
  const std::string voices = R"("voices":{"aria":"0"})";
  EXPECT_TRUE(with(voices + R"(,"model":"en.onnx","timeout_seconds":30,"tier":2,
    "price":{"amount":0,"per":"call"},"options":{"folder":"/models/en","family":"kokoro",
    "lexicon":"a.txt,b.txt","rules":"n.fst","language":"en","languages":"en,es","speed":"ours",
    "memory_mib":512,"runtime":"/opt/sherpa"})")
                  .empty());
  const std::string folder = R"("options":{"folder":"/models/en"})";
  const auto wrong = [&](const std::string& rest, const std::string& why) {
    EXPECT_THAT(with(rest), ElementsAre("providers[0] (a) " + why)) << rest;
  };
  wrong(folder, "needs voices: at least one of our ids and theirs");
  for (const char* one :
       {"", R"(,"options":{"folder":"models"})", R"(,"options":{"folder":"/a,b"})"}) {
    wrong(voices + one, "options: folder must be the whole path of a folder, without a comma");
  }
  wrong(voices + "," + folder + R"(,"max_in_flight":65)",
        "max_in_flight must be at most 64: each call has a process");
  for (const char* speaker : {"one", "1x", "-1", "10000"}) {
    wrong(folder + R"(,"voices":{"aria":")" + speaker + "\"}",
          R"(voices.aria must be the number of a speaker, as a text: "0" to "9999")");
  }
  for (const char* model : {"../other.onnx", "a,b.onnx"}) {
    wrong(voices + "," + folder + R"(,"model":")" + model + "\"",
          "model must be the name of a file in the folder, without a comma");
  }
  wrong(voices + R"(,"options":{"folder":"/m","lexicon":"a.txt,../b.txt"})",
        "options: lexicon must be names of files in the folder");
  wrong(voices + R"(,"options":{"folder":"/m","rules":"/etc/passwd"})",
        "options: rules must be names of files in the folder");
  wrong(voices + R"(,"options":{"folder":"/m","languages":"English"})",
        R"(options: languages must be codes as "en,es")");
  wrong(voices + R"(,"options":{"folder":"/m","family":"matcha"})",
        "options: family must be one of vits, kokoro, kitten");
  // It is in the house.
  wrong(voices + "," + folder + R"(,"base_url":"http://a")", "has an unknown member 'base_url'");
  wrong(voices + "," + folder + R"(,"api_key_env":"A")", "has an unknown member 'api_key_env'");
}

TEST_F(Entries, AModelOfOnesOwnPromisesWhatItsEntrySays) {
  const auto able = [](const std::string& rest, const std::string& options) {
    const auto parsed =
        parse_providers(R"({"providers":[{"name":"a","kind":"onnx",)" + rest +
                        R"("voices":{"aria":"0"},"options":{"folder":"/m")" + options + "}}]}");
    http::Client client;
    return parsed ? make_provider(parsed->front(), client)->capabilities() : Capabilities{};
  };
  const Capabilities plain = able("", "");
  EXPECT_THAT(plain.voices, ElementsAre("aria"));
  EXPECT_FALSE(plain.scenes);
  EXPECT_EQ(plain.max_in_flight, 2);
  EXPECT_EQ(plain.timeout, std::chrono::seconds(120));
  EXPECT_EQ(plain.native_speed.high, kSpeedRange.high);
  EXPECT_EQ(plain.price, (ProviderPrice{PriceUnit::kCall, Micros{0}}));
  EXPECT_EQ(able("", R"(,"speed":"ours")").native_speed.high, 1.0);
  EXPECT_EQ(able(R"("price":{"amount":1,"per":"audio_second"},)", "").price,
            (ProviderPrice{PriceUnit::kAudioSecond, Micros{kMicros}}));
}

TEST_F(Entries, SaysWhatItMakes) {
  const auto scenes = [](const std::string& rest) {
    const auto parsed = parse_providers(
        R"({"providers":[{"name":"a","api_key_env":"TEST_PROVIDER_KEY",)" + rest + "}]}");
    http::Client client;
    return parsed ? make_provider(parsed->front(), client)->capabilities().scenes : false;
  };
  const std::string speech = R"("kind":"elevenlabs","voices":{"aria":"x"})";
  EXPECT_FALSE(scenes(speech));
  EXPECT_TRUE(scenes(speech + R"(,"makes":"scene")"));
  EXPECT_TRUE(scenes(R"("kind":"elevenlabs","options":{"mode":"sound"})"));
  EXPECT_FALSE(scenes(R"("kind":"elevenlabs","options":{"mode":"sound"},"makes":"narration")"));
  EXPECT_TRUE(scenes(R"("kind":"seed_audio")"));
  EXPECT_TRUE(scenes(R"("kind":"fal","model":"a/b")"));
  EXPECT_FALSE(scenes(R"("kind":"fal","model":"a/b","makes":"narration")"));
  EXPECT_THAT(errors(R"({"name":"a","kind":"fal","api_key_env":"TEST_PROVIDER_KEY","model":"a/b",
                         "makes":"music"})"),
              ElementsAre(HasSubstr("makes must be one of narration, scene")));
}

TEST_F(Entries, AllErrorsAtOnce) {
  const auto found = errors(R"(
    {"name":"bad name","kind":"openai","base_url":"ftp://x","api_key_env":"TEST_PROVIDER_NO_KEY",
     "voices":{"nobody":"x","aria":1,"scene":"x"},"timeout_seconds":0,"max_in_flight":"7","colour":"red",
     "options":{"response_format":"au","x":1}},
    {"name":"two","kind":"magic"},
    7)");
  EXPECT_THAT(found,
              AllOf(Contains(HasSubstr("providers[0] needs a name")),
                    Contains(HasSubstr("base_url must")),
                    Contains(HasSubstr("TEST_PROVIDER_NO_KEY")),
                    Contains(HasSubstr("voices has an unknown voice (known: albion")),
                    Contains(HasSubstr("voices.aria must")),
                    Contains(HasSubstr("voices.scene is nobody's voice")),
                    Contains(HasSubstr("needs model")),
                    Contains(HasSubstr("timeout_seconds must be a number from 0.05 to 900")),
                    Contains(HasSubstr("max_in_flight must")),
                    Contains(HasSubstr("unknown member 'colour'")),
                    Contains(HasSubstr("options: response_format must be one of wav, pcm")),
                    Contains(HasSubstr("options: has an unknown member 'x'"))));
  EXPECT_THAT(found,
              AllOf(Contains(HasSubstr("providers[1] (two) kind must be one of")),
                    Contains("providers[2] must be an object")));
}

TEST_F(Entries, SingleRules) {
  const auto only = [](const std::string& entry) {
    const auto found = errors(entry);
    return found.size() == 1 ? found.front() : std::to_string(found.size()) + " errors";
  };
  EXPECT_THAT(only(R"({"name":"a","kind":"local"},{"name":"a","kind":"local"})"),
              HasSubstr("has the name of another"));
  EXPECT_THAT(only(R"({"name":"a","kind":"local","model":"x"})"), HasSubstr("unknown member"));
  const auto of_account = [](const char* name, const char* account) {
    return R"({"name":")" + std::string(name) +
           R"(","kind":"fal","api_key_env":"TEST_PROVIDER_KEY","model":"a/b",)" + account + "}";
  };
  EXPECT_THAT(only(of_account("a", R"("account":"x")")), HasSubstr("together"));
  EXPECT_THAT(only(of_account("a", R"("account_max_in_flight":3)")), HasSubstr("together"));
  EXPECT_THAT(only(of_account("a", R"("account":"x y","account_max_in_flight":3)")),
              HasSubstr("account must be"));
  EXPECT_THAT(
      only(of_account("a", R"("account":"x","account_max_in_flight":3)") + "," +
           of_account("b", R"("account":"x","account_max_in_flight":4)")),
      HasSubstr("providers[1] has another account_max_in_flight than others of its account"));
  EXPECT_THAT(only(R"({"name":"a","kind":"local","kind":"local"})"), HasSubstr("twice"));
  EXPECT_THAT(only(R"({"name":"a","kind":"seed_audio"})"), HasSubstr("needs api_key_env"));
  EXPECT_THAT(only(R"({"name":"a","kind":"openai","model":"m"})"), HasSubstr("needs voices"));
  EXPECT_THAT(
      only(R"({"name":"a","kind":"fal","api_key_env":"TEST_PROVIDER_KEY","model":"a/../b"})"),
      HasSubstr("model must be"));
  EXPECT_THAT(
      only(R"({"name":"a","kind":"replicate","api_key_env":"TEST_PROVIDER_KEY","model":"a\"/b"})"),
      HasSubstr("model must be"));
  for (const char* url :
       {"https://u:p@host/v1", "https://host/v1?x=1", "https://host/#a", "host"}) {
    EXPECT_THAT(only(R"({"name":"a","kind":"seed_audio","api_key_env":"TEST_PROVIDER_KEY",
                         "base_url":")" +
                     std::string(url) + "\"}"),
                HasSubstr("base_url must"))
        << url;
  }
  EXPECT_THAT(parse_providers("{").error(), ElementsAre(HasSubstr("not JSON at byte 1")));
  EXPECT_THAT(parse_providers("[]").error(), ElementsAre(HasSubstr("must be {\"providers\"")));
  EXPECT_THAT(parse_providers(R"({"providers":[]})").error(),
              ElementsAre(HasSubstr("at least one entry")));
}

TEST_F(Entries, KeysAreNeverShown) {
  const auto found = errors(R"(
    {"name":"a","kind":"seed_audio","api_key_env":"TEST_PROVIDER_BAD_KEY"},
    {"name":"b","kind":"seed_audio","api_key_env":"TEST_PROVIDER_KEY","sk-1234 x":1,"x":2})");
  ASSERT_EQ(found.size(), 3U);
  EXPECT_THAT(found[0], HasSubstr("TEST_PROVIDER_BAD_KEY"));
  for (const std::string& error : found) {
    EXPECT_THAT(error, AllOf(Not(HasSubstr("sk-1234")), Not(HasSubstr("B: c"))));
  }
}

TEST_F(Entries, KindsWhoseModelsAreTheirVoicesHaveNone) {
  const std::string rest = R"("api_key_env":"TEST_PROVIDER_KEY","voices":{"aria":"x"})";
  for (const std::string kind : {"deepgram", "azure"}) {
    const std::string start = R"({"name":"a","kind":")" + kind + R"(",)" + rest;
    EXPECT_THAT(errors(start + "}"), ElementsAre());
    EXPECT_THAT(errors(start + R"(,"model":"m"})"),
                ElementsAre(HasSubstr("unknown member 'model'")));
  }
  for (const std::string kind : {"cartesia", "gemini", "minimax"}) {
    const std::string start = R"({"name":"a","kind":")" + kind + R"(",)" + rest;
    EXPECT_THAT(errors(start + R"(,"model":"m"})"), ElementsAre());
    EXPECT_THAT(errors(start + "}"), ElementsAre(HasSubstr("needs model")));
  }
  EXPECT_THAT(errors(R"({"name":"a","kind":"gemini","model":"../m",)" + rest + "}"),
              ElementsAre(HasSubstr("model must be the plain name of a model")));
  EXPECT_THAT(
      errors(R"({"name":"a","kind":"deepgram",)" + rest + R"(,"options":{"query":{"model":"m"}}})"),
      ElementsAre(HasSubstr("query may not have 'model'")));
  EXPECT_THAT(errors(R"({"name":"a","kind":"minimax","model":"m",)" + rest +
                     R"(,"options":{"members":{"text":"m"}}})"),
              ElementsAre(HasSubstr("members may not have 'text'")));
}

TEST_F(Entries, WhatElevenlabsIsToldIsChecked) {
  const auto with = [](const std::string& options) {
    const auto found = errors(
        R"({"name":"a","kind":"elevenlabs","api_key_env":"TEST_PROVIDER_KEY",
            "voices":{"aria":"x"},"options":{)" +
        options + "}}");
    return found.empty() ? "" : found.size() == 1 ? found.front() : "several";
  };
  EXPECT_EQ(with(R"("seed":4294967295,"language":"de","voice_settings":{"style":1})"), "");
  for (const char* seed : {"-1", "4294967296", "\"7\""}) {
    EXPECT_THAT(with(R"("seed":)" + std::string(seed)),
                HasSubstr("seed must be a number from 0 to 4294967295"));
  }
  EXPECT_THAT(with(R"("seed":1.5)"), HasSubstr("seed must be a whole number"));
  for (const char* mode : {"sound", "music"}) {
    EXPECT_THAT(with(R"("seed":1,"mode":")" + std::string(mode) + "\""),
                HasSubstr("seed is for speech alone"));
  }
  EXPECT_THAT(with(R"("mode":"music","language":"de")"), HasSubstr("language is for speech alone"));
  EXPECT_THAT(with(R"("mode":"sound","voice_settings":{"style":1})"),
              HasSubstr("voice_settings is for speech alone"));
  for (const char* rest : {R"("sound","output_format":"pcm_44100")",
                           R"("music","output_format":"pcm_44100")",
                           R"("music","output_format":"wav_44100")"}) {
    EXPECT_THAT(with(R"("mode":)" + std::string(rest)),
                HasSubstr("output_format may be wav_… or pcm_… for speech alone"));
  }
  EXPECT_THAT(with(R"("voice_settings":{"stability":1.5})"),
              HasSubstr("stability must be a number from 0 to 1"));
  EXPECT_THAT(with(R"("voice_settings":{"use_speaker_boost":1})"),
              HasSubstr("use_speaker_boost must be true or false"));
  EXPECT_THAT(with(R"("voice_settings":{"speed":1})"), HasSubstr("the speed is the client's"));
  EXPECT_THAT(with(R"("members":{"text":"x"})"), HasSubstr("members may not have 'text'"));
}

// What an entry adds to its requests: each error names the option and the rule, and no value.
TEST_F(Entries, WhatAnEntryAddsIsChecked) {
  const auto with = [](const std::string& options, const std::string& voices = R"({"aria":"x"})") {
    const auto found = errors(R"({"name":"a","kind":"openai","model":"tts-1","voices":)" + voices +
                              R"(,"options":{)" + options + "}}");
    return found.empty() ? "" : found.size() == 1 ? found.front() : "several";
  };
  EXPECT_EQ(with(R"("members":{"stream":false},"headers":{"X-A":"b c"},"query":{"v":"1"})"), "");
  EXPECT_EQ(with("", R"({"aria":{"id":"v"}})"), "");
  EXPECT_THAT(with("", R"({"aria":"{\"id\"","atlas":"y"})"),
              HasSubstr("voices.aria must not begin with '{'"));
  EXPECT_THAT(with("", R"({"aria":7,"atlas":"y"})"),
              HasSubstr("voices.aria must be a text of 1 to 512 bytes, or an object"));
  EXPECT_THAT(with(R"("instructions":"x")"), HasSubstr("instructions are not for tts-1"));
  EXPECT_THAT(with(R"("members":[])"), HasSubstr("members must be an object"));
  EXPECT_THAT(with(R"("members":{"input":"x"})"), HasSubstr("members may not have 'input'"));
  EXPECT_THAT(with(R"("members":{"v":1},"voice_member":"v")"),
              HasSubstr("members may not have 'v'"));
  EXPECT_THAT(with(R"("members":{"a":1,"a":2})"), HasSubstr("members has 'a' twice"));
  EXPECT_THAT(with(R"("voice_member":"model")"), HasSubstr("voice_member may not be 'model'"));
  EXPECT_THAT(with(R"("voice_member":"a/b")"), HasSubstr("voice_member must be letters"));
  EXPECT_THAT(with(R"("audio_member":"a.b")"), HasSubstr("audio_member must be letters"));
  EXPECT_THAT(with(R"("key_header":"a: b")"), HasSubstr("key_header must be letters"));
  for (const char* name : {"Host", "content-length", "AUTHORIZATION", "x-client-request-id"}) {
    EXPECT_THAT(with(R"("headers":{")" + std::string(name) + R"(":"x"})"),
                HasSubstr(std::string("headers may not have '") + name));
  }
  EXPECT_THAT(with(R"("key_header":"api-key","headers":{"Api-Key":"x"})"),
              HasSubstr("headers may not have 'Api-Key'"));
  EXPECT_THAT(with(R"("headers":{"A":"1","a":"2"})"), HasSubstr("headers has 'a' twice"));
  EXPECT_THAT(with(R"("headers":{"A b":"x"})"), HasSubstr("a name that no header can have"));
  EXPECT_THAT(with(R"("headers":{"A":7})"), HasSubstr("headers: A: must be a text or"));
  for (const char* value : {R"("")", R"("sk-1234\r\nB: c")", R"(" sk-1234")", R"("sk-1234ä")"}) {
    const std::string found = with(R"("headers":{"A":)" + std::string(value) + "}");
    EXPECT_THAT(found,
                AllOf(HasSubstr("headers: A: must be 1 to 2048"), Not(HasSubstr("sk-1234"))));
  }
  EXPECT_THAT(with(R"("query":{"a":1})"), HasSubstr("query: 'a' must be a text"));
  EXPECT_THAT(with(R"("query":{"":"x"})"), HasSubstr("query has an empty name"));
}

TEST_F(Entries, AHeaderMayComeFromTheEnvironment) {
  const auto parse = [](const std::string& variable) {
    return parse_providers(
        R"({"providers":[{"name":"a","kind":"openai","model":"m","voices":{"aria":"x"},
            "options":{"headers":{"X-Pin":{"env":")" +
        variable + R"("}}}}]})");
  };
  const auto parsed = parse("TEST_PROVIDER_KEY");
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->front().option("headers"), R"({"x-pin":"sk-1234"})");
  EXPECT_THAT(parse("TEST_PROVIDER_NO_KEY").error(),
              ElementsAre(HasSubstr("TEST_PROVIDER_NO_KEY is not set")));
  EXPECT_THAT(parse("TEST_PROVIDER_BAD_KEY").error(),
              ElementsAre(AllOf(HasSubstr("X-Pin: must be 1 to 2048"), Not(HasSubstr("B: c")))));
}

// So that a key can be changed by a new file and SIGHUP.
TEST_F(Entries, AKeyMayComeFromAFile) {
  const std::string file =
      std::filesystem::temp_directory_path() / ("audiogen-key-" + std::to_string(::getpid()));
  const std::string entries =
      R"({"providers":[{"name":"a","kind":"seed_audio","api_key_env":"TEST_PROVIDER_FILED"}]})";
  ::setenv("TEST_PROVIDER_FILED_FILE", file.c_str(), 1);
  EXPECT_THAT(parse_providers(entries).error(), ElementsAre(HasSubstr("cannot read " + file)));
  for (const std::string key : {"sk-one", "sk-two"}) {
    std::ofstream(file) << key << "\n";
    const auto parsed = parse_providers(entries);
    ASSERT_TRUE(parsed);
    EXPECT_EQ(parsed->front().api_key, key);
  }
  ::setenv("TEST_PROVIDER_FILED", "sk-three", 1);
  EXPECT_THAT(parse_providers(entries).error(), ElementsAre(HasSubstr("both set")));
  ::unsetenv("TEST_PROVIDER_FILED");
  std::filesystem::remove(file);
  EXPECT_THAT(parse_providers(entries).error(), ElementsAre(HasSubstr("cannot read")));
  ::unsetenv("TEST_PROVIDER_FILED_FILE");
}

}  // namespace
}  // namespace audiogen
