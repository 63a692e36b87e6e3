// Every rule of a request body, its canonical form, and the Idempotency-Key.
#include "common/domain/request.h"

#include <algorithm>
#include <ctime>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/domain/json_body.h"
#include "common/domain/voices.h"

namespace audiogen {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

const RequestRules public_rules{.model_name = "svc-audio-1.0", .any_url = false};

// A body with the two required members and `more` behind them.
std::string body(const std::string& more) {
  return R"({"model":"svc-audio-1.0","prompt":"Rain")" + (more.empty() ? "" : "," + more) + "}";
}

std::string with_prompt(const std::string& json_string) {
  return R"({"model":"svc-audio-1.0","prompt":)" + json_string + "}";
}

Result<GenerationRequest, RequestFault> parse(const std::string& text) {
  return parse_request(text, public_rules);
}

// The message of the refusal; "accepted" when there is none.
std::string refusal(const std::string& text) {
  const auto result = parse(text);
  return result ? "accepted" : result.error().message;
}

// The canonical form; the message when it is refused.
std::string canonical(const std::string& text) {
  const auto result = parse(text);
  return result ? encode_request(*result) : result.error().message;
}

std::string repeated(const std::string& text, std::size_t count) {
  std::string out;
  out.reserve(text.size() * count);
  for (std::size_t i = 0; i < count; ++i) {
    out += text;
  }
  return out;
}

TEST(Request, FillsInTheDefaults) {
  const auto request = parse(body(""));
  ASSERT_TRUE(request);
  EXPECT_EQ(request->prompt, "Rain");
  EXPECT_FALSE(request->voice);
  EXPECT_TRUE(request->audio_references.empty());
  EXPECT_FALSE(request->image_url);
  EXPECT_EQ(request->output_format, OutputFormat::kMp3);
  EXPECT_EQ(request->sample_rate, 24000);
  EXPECT_EQ(request->speed, 1.0);
  EXPECT_EQ(request->volume, 1.0);
  EXPECT_EQ(request->pitch, 0.0);
}

TEST(Request, ReadsEveryMember) {
  const auto request = parse(
      R"( { "pitch":-3.5,"volume":0.75,"speed":1.25,"sample_rate":48000,"output_format":"ogg_opus",
            "audio_references":["https://a.example/1.wav","http://b.example/2.mp3"],
            "voice":"nova","prompt":"Tr\u00e9s bien \ud83d\ude00","model":"svc-audio-1.0" } )");
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->prompt, "Trés bien 😀");
  EXPECT_EQ(request->voice, "nova");
  EXPECT_THAT(request->audio_references,
              ElementsAre("https://a.example/1.wav", "http://b.example/2.mp3"));
  EXPECT_EQ(request->output_format, OutputFormat::kOggOpus);
  EXPECT_EQ(request->sample_rate, 48000);
  EXPECT_EQ(request->speed, 1.25);
  EXPECT_EQ(request->volume, 0.75);
  EXPECT_EQ(request->pitch, -3.5);
  EXPECT_EQ(parse(body(R"("image_url":"https://a.example/i.png")"))->image_url,
            "https://a.example/i.png");
}

TEST(Request, MessagesNameTheMemberAndTheRule) {
  struct Case {
    std::string text;
    std::string message;
  };
  const std::string deep = repeated("[", 33);
  for (
      const Case& c : {
          // The body as a whole.
          Case{"", "The body must be a JSON object."},
          Case{" \n", "The body must be a JSON object."},
          Case{"[]", "The body must be a JSON object."},
          Case{"null", "The body must be a JSON object."},
          Case{"true", "The body must be a JSON object."},
          Case{"1", "The body must be a JSON object."},
          Case{"1e400", "The body must be a JSON object."},
          Case{R"("model")", "The body must be a JSON object."},
          Case{"{}", "model is required."},
          Case{R"({"model":"svc-audio-1.0"})", "prompt is required."},
          Case{R"({"prompt":"x"})", "model is required."},
          Case{"\xEF\xBB\xBF" + body(""), "The body must not start with a byte order mark."},
          Case{deep, "The body must not nest deeper than 32 levels."},
          // Closed list, each once.
          Case{body(R"("user_id":1)"), R"(Unknown member "user_id".)"},
          Case{body(R"("captured":0)"), R"(Unknown member "captured".)"},
          Case{body(R"("Speed":1)"), R"(Unknown member "Speed".)"},
          Case{body(R"("":1)"), R"(Unknown member "".)"},
          Case{body(R"("prompt":"x")"), R"(Duplicate member "prompt".)"},
          Case{body(R"("pro\u006dpt":"x")"), R"(Duplicate member "prompt".)"},
          Case{body(R"("speed":1,"speed":1)"), R"(Duplicate member "speed".)"},
          Case{body(R"("audio_references":[],"audio_references":[])"),
               R"(Duplicate member "audio_references".)"},
          // model
          Case{R"({"model":"svc-audio-2.0","prompt":"x"})", R"(model must be "svc-audio-1.0".)"},
          Case{R"({"model":"","prompt":"x"})", R"(model must be "svc-audio-1.0".)"},
          Case{R"({"model":"svc-audio-1.0 ","prompt":"x"})", R"(model must be "svc-audio-1.0".)"},
          Case{R"({"model":1,"prompt":"x"})", "model must be a string, not a number."},
          Case{R"({"model":null,"prompt":"x"})", "model must be a string, not null."},
          // prompt
          Case{with_prompt(R"("")"), "prompt must be 1 to 2048 characters long."},
          Case{with_prompt("null"), "prompt must be a string, not null."},
          Case{with_prompt("5"), "prompt must be a string, not a number."},
          Case{with_prompt("false"), "prompt must be a string, not a boolean."},
          Case{with_prompt("{}"), "prompt must be a string, not an object."},
          Case{with_prompt(R"(["x"])"), "prompt must be a string, not an array."},
          // voice
          Case{body(R"("voice":"Aria")"), "voice must be one of " + voice_list() + "."},
          Case{body(R"("voice":"")"), "voice must be one of " + voice_list() + "."},
          Case{body(R"("voice":null)"), "voice must be a string, not null."},
          Case{body(R"("voice":["aria"])"), "voice must be a string, not an array."},
          // audio_references
          Case{body(R"("audio_references":null)"),
               "audio_references must be an array of strings, not null."},
          Case{body(R"("audio_references":"https://a.example/1")"),
               "audio_references must be an array of strings, not a string."},
          Case{body(R"("audio_references":{})"),
               "audio_references must be an array of strings, not an object."},
          Case{body(R"("audio_references":[null])"),
               "audio_references[0] must be a string, not null."},
          Case{body(R"("audio_references":["https://a.example/1",2])"),
               "audio_references[1] must be a string, not a number."},
          Case{body(R"("audio_references":[["https://a.example/1"]])"),
               "audio_references[0] must be a string, not an array."},
          Case{body(R"("audio_references":[{}])"),
               "audio_references[0] must be a string, not an object."},
          Case{body(R"("audio_references":["https://a.example/1","http://localhost/2"])"),
               "audio_references[1] must not name a private host."},
          Case{body(R"("audio_references":[""])"),
               "audio_references[0] must start with http:// or https://."},
          Case{body(R"("audio_references":["http://a.example/1","http://a.example/2",)"
                    R"("http://a.example/3","http://a.example/4"])"),
               "audio_references must have at most 3 items."},
          // image_url
          Case{body(R"("image_url":null)"), "image_url must be a string, not null."},
          Case{body(R"("image_url":"file:///etc/passwd")"),
               "image_url must start with http:// or https://."},
          Case{
              body(
                  R"("image_url":"https://a.example/i","audio_references":["https://a.example/1"])"),
              "image_url and audio_references cannot be used together."},
          // output_format
          Case{body(R"("output_format":"flac")"),
               "output_format must be one of mp3, wav, pcm, ogg_opus."},
          Case{body(R"("output_format":"MP3")"),
               "output_format must be one of mp3, wav, pcm, ogg_opus."},
          Case{body(R"("output_format":1)"), "output_format must be a string, not a number."},
          Case{body(R"("output_format":null)"), "output_format must be a string, not null."},
          // sample_rate
          Case{body(R"("sample_rate":22050)"),
               "sample_rate must be one of 8000, 16000, 24000, 32000, 44100, 48000."},
          Case{body(R"("sample_rate":"24000")"), "sample_rate must be an integer, not a string."},
          Case{body(R"("sample_rate":null)"), "sample_rate must be an integer, not null."},
          Case{body(R"("sample_rate":true)"), "sample_rate must be an integer, not a boolean."},
          // numbers
          Case{body(R"("speed":0.49)"), "speed must be from 0.5 to 2."},
          Case{body(R"("speed":"1")"), "speed must be a number, not a string."},
          Case{body(R"("speed":null)"), "speed must be a number, not null."},
          Case{body(R"("volume":[1])"), "volume must be a number, not an array."},
          Case{body(R"("volume":2.01)"), "volume must be from 0.5 to 2."},
          Case{body(R"("pitch":12.5)"), "pitch must be from -12 to 12."},
          Case{body(R"("pitch":{})"), "pitch must be a number, not an object."},
      }) {
    EXPECT_EQ(refusal(c.text), c.message) << c.text;
  }
}

TEST(Request, TheFirstBrokenRuleOfTheTextIsTold) {
  EXPECT_EQ(refusal(R"({"speed":9,"nonsense":1})"), "speed must be from 0.5 to 2.");
  EXPECT_EQ(refusal(R"({"nonsense":1,"speed":9})"), R"(Unknown member "nonsense".)");
}

TEST(Request, EchoesAnUnknownNameHarmlessly) {
  EXPECT_EQ(refusal(body(R"("a\nb\u001b[31m\"\\é":1)")), R"(Unknown member "a?b?[31m????".)");
  const std::string message = refusal(body("\"" + std::string(5000, 'x') + "\":1"));
  EXPECT_EQ(message, "Unknown member \"" + std::string(64, 'x') + "...\".");
}

TEST(Request, NeverQuotesAValue) {
  for (const std::string& text : {with_prompt("\"canary\\u0001\""),
                                  body(R"("voice":"canary")"),
                                  body(R"("image_url":"http://localhost/canary?token=canary")"),
                                  body(R"("output_format":"canary")"),
                                  R"({"model":"canary","prompt":"x"})" + std::string(),
                                  body(R"("speed":"canary")"),
                                  with_prompt("\"canary")}) {
    EXPECT_THAT(refusal(text), Not(HasSubstr("canary")));
  }
}

TEST(Request, RefusesWhatIsNotJson) {
  for (const std::string& text : {std::string("{"),
                                  body("") + "x",
                                  body("") + body(""),
                                  body("") + "]",
                                  body("").substr(0, 40),
                                  body(R"("speed":1,)"),
                                  body("'speed':1"),
                                  body("speed:1"),
                                  "/* */" + body(""),
                                  body(R"("speed":NaN)"),
                                  body(R"("speed":Infinity)"),
                                  body(R"("speed":-Infinity)"),
                                  body(R"("speed":+1)"),
                                  body(R"("pitch":01)"),
                                  body(R"("speed":.5)"),
                                  body(R"("speed":1.)"),
                                  body(R"("speed":1e)"),
                                  body(R"("pitch":0x1)"),
                                  body(R"("speed":1_0)"),
                                  with_prompt("\"\\x\""),
                                  with_prompt("\"\\u00g0\""),
                                  with_prompt("\"a\nb\""),
                                  with_prompt("\"a\tb\""),
                                  with_prompt("\"unclosed"),
                                  with_prompt("\"unclosed\\"),
                                  with_prompt("tru")}) {
    EXPECT_THAT(refusal(text), MatchesRegex("The body is not valid JSON \\(byte [0-9]+\\)\\."))
        << text;
  }
}

TEST(Request, RefusesNulBytesAnywhere) {
  const std::string nul(1, '\0');
  for (const std::string& text : {body("") + nul,
                                  body("") + nul + body(""),
                                  nul + body(""),
                                  nul,
                                  with_prompt("\"a" + nul + "b\""),
                                  with_prompt("\"a\\" + nul + "\"")}) {
    EXPECT_EQ(refusal(text), "The body must not contain NUL bytes.");
  }
}

TEST(Request, RefusesInvalidUtf8Anywhere) {
  for (const char* bad : {"\x80",
                          "\xBF",
                          "\xC0\xAF",
                          "\xC1\x81",
                          "\xC3",
                          "\xC3(",
                          "\xE0\x80\x80",
                          "\xE0\x9F\xBF",
                          "\xE6\x97",
                          "\xE6\x97x",
                          "\xED\xA0\x80",
                          "\xED\xBF\xBF",
                          "\xF0\x80\x80\x80",
                          "\xF0\x8F\xBF\xBF",
                          "\xF0\x9F\x98",
                          "\xF4\x90\x80\x80",
                          "\xF5\x80\x80\x80",
                          "\xF8\x88\x80\x80\x80",
                          "\xFE",
                          "\xFF"}) {
    const std::string text(bad);
    EXPECT_EQ(refusal(with_prompt("\"a" + text + "\"")), "The body must be valid UTF-8.");
    EXPECT_EQ(refusal(with_prompt("\"a\\" + text + "\"")), "The body must be valid UTF-8.");
    EXPECT_EQ(refusal(body("\"a" + text + "\":1")), "The body must be valid UTF-8.");
    EXPECT_EQ(refusal(body("") + text), "The body must be valid UTF-8.");
    EXPECT_EQ(refusal(text), "The body must be valid UTF-8.");
  }
}

TEST(Request, RefusesCharactersThatAreNoText) {
  EXPECT_EQ(refusal(with_prompt(R"("a\ud800")")), "The body must not contain lone surrogates.");
  EXPECT_EQ(refusal(with_prompt(R"("a\ud800x")")), "The body must not contain lone surrogates.");
  EXPECT_EQ(refusal(with_prompt(R"("a\ud800\ud800")")),
            "The body must not contain lone surrogates.");
  EXPECT_EQ(refusal(with_prompt(R"("a\udc00")")), "prompt must not contain lone surrogates.");
  EXPECT_EQ(refusal(with_prompt(R"("\udfff\ud800")")),
            "The body must not contain lone surrogates.");
  for (const char* escape : {"\\u0000", "\\u0001", "\\b", "\\f", "\\u000b", "\\u001b", "\\u001f"}) {
    EXPECT_EQ(refusal(with_prompt("\"a" + std::string(escape) + "b\"")),
              "prompt must not contain control characters other than tab and line breaks.")
        << escape;
  }
  EXPECT_NE(refusal(body(R"("voice":"aria\u0000")")), "accepted");
  EXPECT_NE(refusal(body(R"("image_url":"https://a.example/\u0000")")), "accepted");
  EXPECT_NE(refusal(body(R"("output_format":"mp3\u0000")")), "accepted");
  EXPECT_NE(refusal(body(R"("speed\u0000":1)")), "accepted");
}

TEST(Request, KeepsValidTextByteForByte) {
  for (const char* text : {"é",
                           "日本語",
                           "😀👩‍👩‍👧",
                           "\u202Ebidi\u202C",
                           "a\xC2\x85z",
                           "\x7F",
                           "\xEF\xBF\xBF",
                           "\xF4\x8F\xBF\xBF",
                           "\xEF\xBB\xBFinner mark",
                           "e\xCC\x81"}) {
    const auto request = parse(with_prompt("\"" + std::string(text) + "\""));
    ASSERT_TRUE(request) << text;
    EXPECT_EQ(request->prompt, text);
    EXPECT_EQ(decode_request(encode_request(*request))->prompt, text);
  }
  EXPECT_EQ(parse(with_prompt(R"("\t\n\r\"\\\/\u00e9\ud83d\ude00")"))->prompt, "\t\n\r\"\\/é😀");
}

TEST(Request, CountsThePromptInCodePoints) {
  for (const char* character :
       {"a", "é", "語", "😀", "\\n", "\\u00e9", "\\ud83d\\ude00", "\\\\", " "}) {
    EXPECT_EQ(refusal(with_prompt("\"" + repeated(character, 1) + "\"")), "accepted") << character;
    EXPECT_EQ(refusal(with_prompt("\"" + repeated(character, 2048) + "\"")), "accepted")
        << character;
    EXPECT_EQ(refusal(with_prompt("\"" + repeated(character, 2049) + "\"")),
              "prompt must be 1 to 2048 characters long.")
        << character;
  }
}

TEST(Request, ReadsNumbersExactly) {
  struct Case {
    std::string text;
    bool ok;
  };
  for (const Case& c : {Case{"24000.0", true},
                        Case{"2.4e4", true},
                        Case{"240000e-1", true},
                        Case{"8000", true},
                        Case{"44100", true},
                        Case{"24000.5", false},
                        Case{"-24000", false},
                        Case{"0", false},
                        Case{"-0", false},
                        Case{"1e400", false},
                        Case{"-1e400", false},
                        Case{"1e-400", false},
                        Case{"9223372036854775808", false},
                        Case{"18446744073709551616", false},
                        Case{repeated("9", 400), false},
                        Case{"24000." + repeated("0", 400), true},
                        Case{"0." + repeated("0", 400) + "1", false}}) {
    EXPECT_EQ(parse(body("\"sample_rate\":" + c.text)).operator bool(), c.ok) << c.text;
  }
  for (const Case& c : {Case{"0.5", true},
                        Case{"2", true},
                        Case{"2.0", true},
                        Case{"1e0", true},
                        Case{"5E-1", true},
                        Case{"0.49999999999999994", false},
                        Case{"2.0000000000000004", false},
                        Case{"-0", false},
                        Case{"0", false},
                        Case{"1e400", false},
                        Case{"1e999999999999", false},
                        Case{"-1e999999999999", false},
                        Case{"1e-999999999999", false},
                        Case{"1." + repeated("0", 400) + "1", true},
                        Case{repeated("9", 400), false},
                        Case{"9223372036854775808", false}}) {
    EXPECT_EQ(parse(body("\"speed\":" + c.text)).operator bool(), c.ok) << c.text;
    EXPECT_EQ(parse(body("\"volume\":" + c.text)).operator bool(), c.ok) << c.text;
  }
  for (const Case& c : {Case{"-12", true},
                        Case{"12", true},
                        Case{"-0", true},
                        Case{"0.1", true},
                        Case{"12.000000000000002", false},
                        Case{"-12.000000000000002", false},
                        Case{"1e400", false}}) {
    EXPECT_EQ(parse(body("\"pitch\":" + c.text)).operator bool(), c.ok) << c.text;
  }
  EXPECT_EQ(parse(body(R"("pitch":0.1)"))->pitch, 0.1);
  EXPECT_EQ(parse(body(R"("pitch":1.7976931348623157)"))->pitch, 1.7976931348623157);
  for (const char* number : {"1e400", "-1e400", "1e-400"}) {
    EXPECT_EQ(refusal(body(R"("pitch":)" + std::string(number))), "pitch must be from -12 to 12.");
  }
}

TEST(Request, OnlyRealBracketsCountAsDepth) {
  const std::string brackets(kJsonDepthMax + 1, '[');
  const std::string image = R"(,"image_url":"https://a.example/?)" + brackets + "\"}";
  for (const char* prompt : {"x", R"(\\)", R"(\")", R"(\\\\)", R"(\\\")", R"(]]]]]]]]]]]]]])"}) {
    EXPECT_EQ(
        refusal(R"({"model":"svc-audio-1.0","prompt":")" + std::string(prompt) + "\"" + image),
        "accepted")
        << prompt;
  }
}

TEST(Request, LimitsTheLengthOfAddresses) {
  const std::string start = "https://a.example/";
  const std::string longest = start + std::string(kUrlMax - start.size(), 'x');
  EXPECT_EQ(refusal(body("\"image_url\":\"" + longest + "\"")), "accepted");
  EXPECT_EQ(refusal(body("\"image_url\":\"" + longest + "x\"")),
            "image_url must be at most 2048 bytes long.");
  EXPECT_EQ(refusal(body("\"audio_references\":[\"" + longest + "x\"]")),
            "audio_references[0] must be at most 2048 bytes long.");
}

TEST(Request, AnEmptyListOfReferencesIsNone) {
  EXPECT_EQ(canonical(body(R"("audio_references":[])")), canonical(body("")));
  EXPECT_EQ(refusal(body(R"("audio_references":[],"image_url":"https://a.example/i.png")")),
            "accepted");
}

TEST(Request, OtherRulesAcceptOtherThings) {
  const RequestRules rules{.model_name = "acme-audio-1.0", .any_url = true};
  EXPECT_TRUE(parse_request(
      R"({"model":"acme-audio-1.0","prompt":"x","image_url":"http://127.0.0.1:9101/i.png"})",
      rules));
  EXPECT_FALSE(parse_request(body(""), rules));
  EXPECT_FALSE(parse_request(
      R"({"model":"acme-audio-1.0","prompt":"x","image_url":"gopher://127.0.0.1/"})", rules));
}

// In seconds of processor time. The best of three: others use this machine, too.
double seconds_to_refuse(const std::string& text) {
  std::clock_t best = std::numeric_limits<std::clock_t>::max();
  for (int attempt = 0; attempt < 3; ++attempt) {
    const std::clock_t start = std::clock();
    EXPECT_FALSE(parse(text)) << text.substr(0, 40);
    best = std::min(best, std::clock() - start);
  }
  return double(best) / CLOCKS_PER_SEC;
}

TEST(Request, HostileShapesAreRefusedQuickly) {
  std::string members = "{";
  for (int i = 0; i < 1'000'000; ++i) {
    members += "\"k" + std::to_string(i) + "\":1,";
  }
  members += "\"z\":1}";
  std::string same = R"({"model":"svc-audio-1.0")" + repeated(R"(,"speed":1)", 1'000'000) + "}";
  const std::vector<std::string> shapes = {
      repeated("[", 100'000),
      repeated("{\"a\":", 100'000),
      repeated("[", 500'000) + repeated("]", 500'000),
      body("\"audio_references\":" + repeated("[", 100'000)),
      repeated("[{\"a\":", 100'000),
      members,
      same,
      "[" + repeated("1,", 1'000'000) + "1]",
      body("\"audio_references\":[" + repeated("\"http://a.example/\",", 100'000) + "\"\"]"),
      with_prompt("\"" + repeated("\\\\", 500'000) + "\""),
      with_prompt("\"" + std::string(1'000'000, 'a') + "\""),
      repeated("]", 100'000),
      repeated("\"", 100'001),
      body("\"speed\":" + repeated("1", 1'000'000))};
  // No absolute time: a too long prompt is read to its end, a byte at a time, by the same
  // compiler's code under the same sanitizers. A shape may cost ten times as much a byte; one whose
  // cost is not linear would cost thousands of times as much.
  const std::string plain = with_prompt("\"" + std::string(1'000'000, 'a') + "\"");
  const double seconds_a_byte = seconds_to_refuse(plain) / double(plain.size());
  for (const std::string& shape : shapes) {
    EXPECT_LT(seconds_to_refuse(shape), 10 * seconds_a_byte * double(shape.size()))
        << shape.substr(0, 40);
  }
}

TEST(Request, CanonicalFormIsFixed) {
  EXPECT_EQ(canonical(body("")),
            R"({"prompt":"Rain","output_format":"mp3","sample_rate":24000,"speed":1,"volume":1,)"
            R"("pitch":0})");
  EXPECT_EQ(canonical(R"({"pitch":-0.0,"volume":1.50,"speed":5e-1,"sample_rate":8000.0,)"
                      R"("output_format":"wav","audio_references":["https:\/\/a.example\/1"],)"
                      R"("voice":"mei","prompt":"a\"\\\n\u00e9","model":"svc-audio-1.0"})"),
            R"({"prompt":"a\"\\\u000aé","voice":"mei","audio_references":["https://a.example/1"],)"
            R"("output_format":"wav","sample_rate":8000,"speed":0.5,"volume":1.5,"pitch":0})");
}

TEST(Request, CanonicalFormReadsBack) {
  for (
      const std::string& text :
      {body(""),
       with_prompt(R"("\t\r\n\"\\ 語 😀")"),
       body(R"("voice":"yuki","speed":0.1e1,"volume":1.1,"pitch":-11.3)"),
       body(
           R"("audio_references":["https://a.example/1","https://a.example/2","https://a.example/3"])"),
       body(
           R"("image_url":"https://a.example/i.png","output_format":"pcm","sample_rate":44100)")}) {
    const auto request = parse(text);
    ASSERT_TRUE(request) << request.error().message;
    const auto back = decode_request(encode_request(*request));
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_EQ(*back, *request);
  }
  // An address that is no longer acceptable must not strand the task that has it.
  GenerationRequest old;
  old.prompt = "x";
  old.image_url = "http://localhost/i.png";
  EXPECT_TRUE(decode_request(encode_request(old)));
}

TEST(Request, NothingElseIsCanonical) {
  const std::string good = canonical(body(""));
  ASSERT_TRUE(decode_request(good));
  for (const std::string& text :
       {std::string(),
        std::string("{}"),
        body(""),
        good + " ",
        " " + good,
        good.substr(0, good.size() - 1),
        good.substr(0, good.size() - 1) + ",\"x\":1}",
        std::string(R"({"prompt":"Rain"})"),
        std::string(R"({"prompt":"Rain","output_format":"mp3",)"
                    R"("sample_rate":24000,"speed":1.0,"volume":1,"pitch":0})"),
        std::string(R"({"output_format":"mp3","prompt":"Rain",)"
                    R"("sample_rate":24000,"speed":1,"volume":1,"pitch":0})"),
        std::string(R"({"prompt":"Rain","output_format":"mp3",)"
                    R"("sample_rate":24000,"speed":9,"volume":1,"pitch":0})")}) {
    EXPECT_FALSE(decode_request(text)) << text;
  }
}

TEST(Request, TheFingerprintIsOfTheMeaning) {
  const auto mark = [](const std::string& text) {
    const auto request = parse(text);
    EXPECT_TRUE(request) << text;
    return fingerprint(encode_request(*request));
  };
  const Sha256 plain = mark(body(""));
  for (const std::string& same : {R"({"prompt":"Rain","model":"svc-audio-1.0"})" + std::string(),
                                  " " + body("") + "\n",
                                  body(R"("speed":1)"),
                                  body(R"("speed":1.0,"volume":1e0,"pitch":-0.0)"),
                                  body(R"("sample_rate":24000.0)"),
                                  body(R"("output_format":"mp3")"),
                                  body(R"("audio_references":[])"),
                                  with_prompt(R"("\u0052ain")")}) {
    EXPECT_EQ(mark(same), plain) << same;
  }
  std::vector<Sha256> marks{plain};
  for (const std::string& other :
       {with_prompt("\"rain\""),
        with_prompt("\"Rain \""),
        body(R"("voice":"aria")"),
        body(R"("voice":"nova")"),
        body(R"("speed":1.0000000000000002)"),
        body(R"("volume":1.0000000000000002)"),
        body(R"("pitch":1)"),
        body(R"("pitch":-1)"),
        body(R"("sample_rate":48000)"),
        body(R"("output_format":"wav")"),
        body(R"("image_url":"https://a.example/1")"),
        body(R"("audio_references":["https://a.example/1"])"),
        body(R"("audio_references":["https://a.example/2"])"),
        body(R"("audio_references":["https://a.example/1","https://a.example/2"])"),
        body(R"("audio_references":["https://a.example/2","https://a.example/1"])"),
        // A composed and a decomposed letter are different texts.
        with_prompt("\"\xC3\xA9\""),
        with_prompt("\"e\xCC\x81\"")}) {
    const Sha256 next = mark(other);
    for (const Sha256& earlier : marks) {
      EXPECT_NE(next, earlier) << other;
    }
    marks.push_back(next);
  }
  EXPECT_EQ(fingerprint("{}"), sha256("v1\nPOST /audio/generations\n{}"));
}

// What clients sent before there were metadata and max_credits is stored with these fingerprints: a
// repeat of theirs still gets its task.
TEST(Request, TheFingerprintsOfEarlierReleasesHold) {
  const auto mark = [](const std::string& text) { return to_hex(fingerprint(canonical(text))); };
  const std::string plain = "34dd6fd09e77b961704f15435045a886e27ca208f5aaa7d8575e88046041bf6d";
  EXPECT_EQ(mark(body("")), plain);
  EXPECT_EQ(mark(body(R"("metadata":{})")), plain);
  EXPECT_EQ(mark(body(R"("max_credits":150.000,"metadata":{})")), plain);
  EXPECT_EQ(mark(R"({"model":"svc-audio-1.0","prompt":"a\n\u00e9","voice":"mei","speed":0.5,)"
                 R"("audio_references":["https://a.example/1"],"output_format":"wav",)"
                 R"("sample_rate":8000,"volume":1.5,"pitch":-2})"),
            "37bf455b55d875e7a0cf681e18019434e21541b69252d29e2541a34f3a27a021");
  for (const char* const other : {R"("max_credits":149.999)",
                                  R"("max_credits":10)",
                                  R"("metadata":{"a":""})",
                                  R"("metadata":{"a":"b"})",
                                  R"("metadata":{"b":"a"})"}) {
    EXPECT_NE(mark(body(other)), plain) << other;
  }
  EXPECT_EQ(mark(body(R"("metadata":{"a":"1","b":"2"})")),
            mark(body(R"("metadata":{"b":"2","\u0061":"1"})")));
}

TEST(Request, MetadataIsTheClientsOwn) {
  const auto request = parse(body(R"("metadata":{"order":"7","Ünï 語":"a\tb\n\"c\"","e":""})"));
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(
      request->metadata,
      (std::map<std::string, std::string>{{"order", "7"}, {"Ünï 語", "a\tb\n\"c\""}, {"e", ""}}));
  EXPECT_EQ(canonical(body(R"("metadata":{"b":"2","a":"1"},"max_credits":40.50)")),
            R"({"prompt":"Rain","output_format":"mp3","sample_rate":24000,"speed":1,"volume":1,)"
            R"("pitch":0,"metadata":{"a":"1","b":"2"},"max_credits":40.5})");
  EXPECT_EQ(decode_request(encode_request(*request))->metadata, request->metadata);
  const std::string wide = "\xF0\x9F\x98\x80";
  std::string most;
  for (int i = 0; i < 16; ++i) {
    most += (i == 0 ? "\"" : ",\"") + std::string(1, static_cast<char>('a' + i)) +
            repeated(wide, 39) + "\":\"" + repeated(wide, 500) + "\"";
  }
  EXPECT_EQ(refusal(body("\"metadata\":{" + most + "}")), "accepted");
  EXPECT_EQ(refusal(body("\"metadata\":{" + most + ",\"q\":\"\"}")),
            "metadata must have at most 16 members.");
  struct Case {
    std::string metadata, refusal;
  };
  for (
      const Case& c :
      {Case{"null", "metadata must be an object of strings, not null."},
       Case{"[]", "metadata must be an object of strings, not an array."},
       Case{"\"x\"", "metadata must be an object of strings, not a string."},
       Case{"3", "metadata must be an object of strings, not a number."},
       Case{R"({"order":7})", "metadata.order must be a string, not a number."},
       Case{R"({"order":null})", "metadata.order must be a string, not null."},
       Case{R"({"order":{}})", "metadata.order must be a string, not an object."},
       Case{R"({"order":["x"]})", "metadata.order must be a string, not an array."},
       Case{R"({"a":"1","a":"2"})", "metadata.a is there twice."},
       Case{R"({"a":")" + repeated("x", 501) + "\"}",
            "metadata.a must be a string of at most 500 characters."},
       Case{R"({"a":"\u0001"})",
            "metadata.a must not contain control characters other than tab and line breaks."},
       // A name that is not plain is told by its place, and never shown.
       Case{R"({"a":"1","secret key":2})", "metadata[1] must be a string, not a number."},
       Case{
           R"({"":"x"})",
           "metadata[0] must have a name of 1 to 40 characters, none of them a control character."},
       Case{
           R"({"a\nb":"x"})",
           "metadata[0] must have a name of 1 to 40 characters, none of them a control character."},
       Case{
           "{\"" + repeated("k", 41) + "\":\"x\"}",
           "metadata[0] must have a name of 1 to 40 characters, none of them a control character."},
       Case{R"({"\ud800":"x"})", "The body must not contain lone surrogates."}}) {
    EXPECT_EQ(refusal(body("\"metadata\":" + c.metadata)), c.refusal) << c.metadata;
  }
  // What looks like a member inside of it is none.
  EXPECT_EQ(parse(body(R"("metadata":{"prompt":"x","metadata":"y"})"))->prompt, "Rain");
  EXPECT_EQ(refusal(body(R"("metadata":{},"metadata":{})")), "Duplicate member \"metadata\".");
}

TEST(Request, ARefusalNamesTheMemberAtFault) {
  const auto param = [](const std::string& text) {
    const auto result = parse(text);
    EXPECT_FALSE(result) << text;
    return result ? "accepted" : result.error().param;
  };
  EXPECT_EQ(param("{}"), "model");
  EXPECT_EQ(param(R"({"model":"svc-audio-1.0"})"), "prompt");
  EXPECT_EQ(param(with_prompt("7")), "prompt");
  EXPECT_EQ(param(body(R"("speed":3)")), "speed");
  EXPECT_EQ(param(body(R"("speed":1,"speed":1)")), "speed");
  EXPECT_EQ(param(body(R"("audio_references":["https://a.example/1","http://127.0.0.1/"])")),
            "audio_references[1]");
  EXPECT_EQ(param(body(R"("audio_references":["https://a.example/1"],)"
                       R"("image_url":"https://a.example/i")")),
            "image_url");
  EXPECT_EQ(param(body(R"("metadata":{"order":7})")), "metadata.order");
  EXPECT_EQ(param(body(R"("max_credits":9)")), "max_credits");
  EXPECT_EQ(param(body(R"("promt":"x")")), "promt");
  EXPECT_EQ(param(R"({"x":1})"), "x");
  // Of names that only the client knows none that may be a secret is repeated.
  for (const std::string& none : {std::string("not json"),
                                  std::string("[]"),
                                  body(R"("svc_live_4f9a":1)"),
                                  body(R"("Token":1)"),
                                  body(R"("":1)")}) {
    EXPECT_EQ(param(none), "") << none;
  }
}

TEST(Request, MaxCreditsAreThousandthsWithinTheirRange) {
  struct Case {
    const char* number;
    std::int64_t units;  // 0: refused.
  };
  for (const Case& c : {Case{"10", 10'000},
                        Case{"10.000", 10'000},
                        Case{"1e1", 10'000},
                        Case{"40.123", 40'123},
                        Case{"149.999", 149'999},
                        Case{"150", 150'000},
                        Case{"9.999", 0},
                        Case{"150.001", 0},
                        Case{"0", 0},
                        Case{"-20", 0},
                        Case{"1e999", 0},
                        Case{"\"40\"", 0},
                        Case{"null", 0},
                        Case{"40.1234", 0},
                        Case{"40.00000001", 0}}) {
    const auto request = parse(body(std::string("\"max_credits\":") + c.number));
    ASSERT_EQ(bool(request), c.units != 0) << c.number;
    if (request) {
      EXPECT_EQ(request->max_credits.value, c.units) << c.number;
      EXPECT_EQ(decode_request(encode_request(*request))->max_credits.value, c.units);
    } else {
      EXPECT_THAT(request.error().message, HasSubstr("max_credits must ")) << c.number;
    }
  }
  EXPECT_EQ(refusal(body(R"("max_credits":151)")), "max_credits must be a number from 10 to 150.");
}

TEST(Request, FormatsHaveTheNamesOfTheInterface) {
  EXPECT_EQ(format_name(OutputFormat::kMp3), "mp3");
  EXPECT_EQ(format_name(OutputFormat::kWav), "wav");
  EXPECT_EQ(format_name(OutputFormat::kPcm), "pcm");
  EXPECT_EQ(format_name(OutputFormat::kOggOpus), "ogg_opus");
  for (const auto format :
       {OutputFormat::kMp3, OutputFormat::kWav, OutputFormat::kPcm, OutputFormat::kOggOpus}) {
    EXPECT_EQ(parse_format(format_name(format)), format);
  }
  EXPECT_FALSE(parse_format("opus"));
}

TEST(IdempotencyKey, IsVisibleAsciiOfBoundedLength) {
  struct Case {
    std::string header;
    std::optional<std::string> key;
  };
  for (const Case& c : {
           Case{"a", "a"},
           Case{"8e03978e-40d5-43dd-bc93-6894a57f9324", "8e03978e-40d5-43dd-bc93-6894a57f9324"},
           Case{"\"8e03978e\"", "8e03978e"},
           Case{"\"a\\\"b\\\\c\"", "a\"b\\c"},
           Case{"a\"b", "a\"b"},
           Case{"!~", "!~"},
           Case{"Case", "Case"},
           Case{std::string(128, 'k'), std::string(128, 'k')},
           Case{"\"" + std::string(128, 'k') + "\"", std::string(128, 'k')},
           Case{std::string(129, 'k'), std::nullopt},
           Case{"\"" + std::string(129, 'k') + "\"", std::nullopt},
           Case{"", std::nullopt},
           Case{"\"\"", std::nullopt},
           Case{"\"", std::nullopt},
           Case{"\"a", std::nullopt},
           Case{"\"a\"b", std::nullopt},
           Case{"\"a\\", std::nullopt},
           Case{"\"a\\b\"", std::nullopt},
           Case{"\"a b\"", std::nullopt},
           Case{"a b", std::nullopt},
           Case{" a", std::nullopt},
           Case{"a\t", std::nullopt},
           Case{"a\n", std::nullopt},
           Case{std::string("a\0b", 3), std::nullopt},
           Case{"\x7F", std::nullopt},
           Case{"é", std::nullopt},
           Case{"\xFF", std::nullopt},
       }) {
    EXPECT_EQ(parse_idempotency_key(c.header), c.key) << c.header;
  }
}

}  // namespace
}  // namespace audiogen
