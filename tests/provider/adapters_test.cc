// Every adapter against the double: one suite for all that answer in one exchange, one for those
// that are polled, and what each sends.
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include "tests/provider/fixture.h"
#include "tests/support/closed_port.h"
#include "worker/audio/decoder.h"
#include "worker/providers/azure.h"
#include "worker/providers/cartesia.h"
#include "worker/providers/deepgram.h"
#include "worker/providers/elevenlabs.h"
#include "worker/providers/gemini.h"
#include "worker/providers/minimax.h"
#include "worker/providers/openai.h"
#include "worker/providers/seed_audio.h"
#include "worker/providers/transport/wire.h"

namespace audiogen::test {
namespace {

using testing::AnyOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

std::string encode_hex(std::string_view bytes) {
  std::string out;
  for (const char byte : bytes) {
    out += "0123456789abcdef"[static_cast<unsigned char>(byte) >> 4U];
    out += "0123456789ABCDEF"[static_cast<unsigned char>(byte) & 0xFU];
  }
  return out;
}

std::string gemini_answer(const std::string& bytes, const std::string& type) {
  return R"({"candidates":[{"content":{"parts":[{"inlineData":{"mimeType":")" + type +
         R"(","data":")" + encode_base64(bytes) +
         R"("}}],"role":"model"},"finishReason":"STOP"}]})";
}

// What a provider of that kind answers with `wav` inside: most send the bytes as they are.
DoubleReply good_reply(const ProviderKind& kind, const std::string& wav) {
  DoubleReply out;
  if (&kind == &seed_audio::kKind) {
    out.headers = {"Content-Type: application/json", "X-Tt-Logid: log1"};
    out.body = R"({"code":0,"audio":")" + encode_base64(wav) + R"(","duration":1.0})";
  } else if (&kind == &gemini::kKind) {
    out.headers = {"Content-Type: application/json"};
    out.body = gemini_answer(wav, "audio/wav");
  } else if (&kind == &minimax::kKind) {
    out.headers = {"Content-Type: application/json"};
    out.body = R"({"data":{"audio":")" + encode_hex(wav) +
               R"(","status":2},"trace_id":"t1","base_resp":{"status_code":0}})";
  } else {
    out.headers = {"Content-Type: audio/wav"};
    out.body = wav;
  }
  return out;
}

// What must run out, and a busy machine still connects and sends in.
constexpr std::chrono::milliseconds kShort = 5s;

class Direct : public testing::TestWithParam<const ProviderKind*> {
 protected:
  // One call to a double that does `reply`; nothing of key or prompt may come back.
  Result<Audio, ProviderFault> run(DoubleReply reply) {
    ProviderDouble server([&](const DoubleCall&) { return reply; });
    http::Client client;
    const auto provider = make_provider(entry_of(*GetParam(), server.url()), client);
    auto running = start(*provider);
    auto result = wait(running);
    calls_ = server.call_count();
    EXPECT_EQ(running.answers->load(), 1);
    expect_discreet(result);
    return result;
  }

  static void expect_discreet(const Result<Audio, ProviderFault>& result) {
    if (!result) {
      EXPECT_THAT(result.error().detail, Not(HasSubstr(kSecret)));
      EXPECT_THAT(result.error().detail, Not(HasSubstr(kPrompt)));
      EXPECT_LE(result.error().detail.size(), 200U);
    }
  }

  DoubleReply good(const std::string& wav) const { return good_reply(*GetParam(), wav); }

  std::size_t calls_ = 0;
};

TEST_P(Direct, DeliversAudio) {
  const std::string wav = tone_wav(1.0);
  const auto result = run(good(wav));
  ASSERT_TRUE(result) << result.error().detail;
  EXPECT_EQ(result->type, AudioType::kWav);
  EXPECT_EQ(result->bytes, wav);
  auto chunked = good(wav);
  chunked.form = Form::kChunked;
  EXPECT_EQ(outcome(run(chunked)), "audio");
}

// A voice stands in the middle of both channels, a scene does not.
TEST_P(Direct, ASceneMayBeStereo) {
  ProviderDouble server([&](const DoubleCall&) { return good(tone_wav(1.0)); });
  http::Client client;
  for (const Makes makes : {Makes::kNarration, Makes::kScene}) {
    ProviderEntry entry = entry_of(*GetParam(), server.url());
    entry.makes = makes;
    const auto provider = make_provider(entry, client);
    const auto result = generate(*provider);
    ASSERT_TRUE(result) << result.error().detail;
    EXPECT_EQ(result->stereo, makes == Makes::kScene);
  }
}

TEST_P(Direct, StatusesOfItsTable) {
  const std::string echo = R"({"error":{"message":")" + std::string(kPrompt) + " " + kSecret +
                           R"(","code":"some_code"},"detail":{"status":"some_code"}})";
  const auto at = [&](int status, std::vector<std::string> headers = {}) {
    headers.emplace_back("Content-Type: application/json");
    return run({.status = status, .headers = std::move(headers), .body = echo});
  };
  EXPECT_EQ(outcome(at(429)), "throttled");
  for (const int status : {408, 500, 502, 503}) {
    EXPECT_EQ(outcome(at(status)), "retry_same") << status;
    EXPECT_EQ(calls_, 1U);
  }
  for (const int status : {504, 520, 524}) {
    EXPECT_EQ(outcome(at(status)), "unknown_outcome") << status;
  }
  EXPECT_EQ(outcome(at(413)), "unsupported_input");
  for (const int status : {201, 204, 302, 405, 522}) {
    EXPECT_EQ(outcome(at(status)), "try_next") << status;
  }
  // Whose fault it is, these do not say: so nobody else waits for it.
  for (const int status : {400, 422}) {
    EXPECT_EQ(outcome(at(status)), "broken_by_input") << status;
  }
  for (const int status : {401, 402, 403, 404}) {
    EXPECT_EQ(outcome(at(status)), "misconfigured") << status;
  }
  // A gateway's firewall that a text has displeased: three such texts closed the provider to all.
  const auto page = [&](int status) {
    return outcome(run({.status = status,
                        .headers = {"Content-Type: text/html"},
                        .body = "\r\n<!DOCTYPE html><title>Attention required</title>"}));
  };
  EXPECT_EQ(page(403), "broken_by_input");
  EXPECT_EQ(page(401), "misconfigured");
  const auto throttled = at(429, {"Retry-After: 7"});
  EXPECT_EQ(throttled.error().retry_after, 7s);
  EXPECT_FALSE(at(429, {"Retry-After: -7"}).error().retry_after);
  EXPECT_FALSE(at(401, {"Retry-After: 7"}).error().retry_after);
}

TEST_P(Direct, WhatOnlyLooksLikeSuccess) {
  const std::vector<DoubleReply> replies = {
      {.headers = {"Content-Type: application/json"}, .body = R"({"error":{"message":"no"}})"},
      {.headers = {"Content-Type: text/html"}, .body = "<html>busy</html>"},
      {.headers = {"Content-Type: audio/wav"}, .body = "<html>busy</html>"},
      {.headers = {"Content-Type: audio/wav"}, .body = ""},
      {.headers = {"Content-Type: audio/wav"}, .body = tone_wav(1.0).substr(0, 1000)},
      {.headers = {"Content-Type: application/json"}, .body = "{}"},
      {.headers = {"Content-Type: application/json"}, .body = R"({"code":0,"audio":7})"},
      {.headers = {"Content-Type: application/json"}, .body = std::string(5000, '[')},
  };
  for (const DoubleReply& reply : replies) {
    // Azure has nothing to say in a language that the voice does not speak.
    const bool by_design = GetParam() == &azure::kKind && reply.body.empty();
    EXPECT_EQ(outcome(run(reply)), by_design ? "broken_by_input" : "try_next")
        << reply.body.substr(0, 40);
  }
}

TEST_P(Direct, FailuresOnTheWire) {
  for (const Form form : {Form::kReset,
                          Form::kClose,
                          Form::kTruncated,
                          Form::kTruncatedReset,
                          Form::kCutChunked,
                          Form::kGarbage}) {
    auto reply = good(tone_wav(1.0));
    reply.form = form;
    EXPECT_EQ(outcome(run(reply)), "unknown_outcome") << static_cast<int>(form);
    EXPECT_EQ(calls_, 1U);
  }
  auto short_length = good(tone_wav(1.0));
  short_length.form = Form::kShortLength;
  EXPECT_EQ(outcome(run(short_length)), "try_next");
  auto endless = good(tone_wav(1.0));
  endless.form = Form::kEndless;
  EXPECT_EQ(outcome(run(endless)), "try_next");
}

// All at once: each of them takes the whole time.
TEST_P(Direct, DeadlineHoldsAndALateAnswerIsDropped) {
  std::vector<DoubleReply> replies(4, good(tone_wav(1.0)));
  replies[0].form = Form::kHang;
  replies[1].form = Form::kDrip;
  replies[2].form = Form::kLongLength;
  replies[3].delay = 2 * kShort;
  ProviderDouble server(
      [&](const DoubleCall& call) { return replies[call.number % replies.size()]; });
  ProviderEntry entry = entry_of(*GetParam(), server.url());
  entry.timeout = kShort;
  http::Client client;
  const auto provider = make_provider(entry, client);
  const auto before = std::chrono::steady_clock::now();
  std::vector<Running> calls;
  for (std::size_t i = 0; i < replies.size(); ++i) {
    calls.push_back(start(*provider));
  }
  for (Running& call : calls) {
    const auto result = wait(call);
    EXPECT_EQ(outcome(result), "unknown_outcome");
    EXPECT_EQ(call.answers->load(), 1);
    expect_discreet(result);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - before, 60s) << "by no other limit";
  EXPECT_EQ(server.call_count(), replies.size());
}

// Whose time it was that ran out: the task's, or the provider's.
TEST_P(Direct, TheDeadlineOfTheTaskIsNoFaultOfTheProvider) {
  ProviderDouble server([](const DoubleCall&) { return DoubleReply{.form = Form::kHang}; });
  http::Client client;
  struct Asked {
    std::unique_ptr<AudioProvider> provider;
    Running call;
  };
  const auto ask = [&](std::chrono::milliseconds timeout, std::chrono::milliseconds left) {
    ProviderEntry entry = entry_of(*GetParam(), server.url());
    entry.timeout = timeout;
    Asked out;
    out.provider = make_provider(entry, client);
    ProviderRequest request = request_of();
    request.deadline = std::chrono::steady_clock::now() + left;
    out.call = start(*out.provider, std::move(request));
    return out;
  };
  const auto fault = [](Asked asked) { return outcome(wait(asked.call)); };
  Asked impatient = ask(kShort, 60s), late = ask(60s, kShort);  // Both take the whole time.
  EXPECT_EQ(fault(std::move(impatient)), fault_name(Fault::kUnknownOutcome));
  EXPECT_EQ(fault(std::move(late)), fault_name(Fault::kOutOfTime));
  const std::size_t calls = server.call_count();
  EXPECT_EQ(calls, 2U);
  EXPECT_EQ(fault(ask(60s, -1s)), fault_name(Fault::kNotCalled));
  EXPECT_EQ(server.call_count(), calls);
}

TEST_P(Direct, NobodyThereIsNotSent) {
  const ClosedPort closed;
  http::Client client;
  const auto provider = make_provider(entry_of(*GetParam(), closed.url()), client);
  EXPECT_EQ(outcome(generate(*provider)), "try_next");
}

TEST_P(Direct, RedirectsToPrivateAddressesAreNotFollowed) {
  ProviderDouble canary([](const DoubleCall&) { return DoubleReply{}; });
  EXPECT_EQ(outcome(run({.status = 307, .headers = {"Location: " + canary.url()}})), "try_next");
  EXPECT_EQ(canary.connections(), 0U);
}

TEST_P(Direct, CancelAndDestructionAnswerOnce) {
  ProviderDouble server([](const DoubleCall&) { return DoubleReply{.form = Form::kHang}; });
  http::Client client;
  auto provider = make_provider(entry_of(*GetParam(), server.url()), client);
  auto canceled = start(*provider);
  ASSERT_TRUE(server.wait_until([&] { return server.call_count() == 1; }));
  canceled.call->cancel();
  EXPECT_EQ(outcome(wait(canceled)), "canceled");
  canceled.call->cancel();

  auto early = start(*provider);
  early.call->cancel();
  EXPECT_EQ(outcome(wait(early)), "canceled");

  std::vector<Running> open;
  for (int i = 0; i < 20; ++i) {
    open.push_back(start(*provider));
  }
  provider.reset();
  for (Running& running : open) {
    ASSERT_EQ(running.answer.wait_for(0s), std::future_status::ready);
    EXPECT_EQ(outcome(wait(running)), "canceled");
    EXPECT_EQ(running.answers->load(), 1);
    running.call->cancel();
  }
  EXPECT_EQ(canceled.answers->load(), 1);
  EXPECT_TRUE(server.wait_until([&] { return server.open_connections() == 0; }));
}

INSTANTIATE_TEST_SUITE_P(Kinds, Direct, testing::ValuesIn(kinds_of<DirectFormat>()), name_of);

// The one request a provider of `entry` sends for `asked`, and the audio it takes from the answer.
struct Sent {
  DoubleCall call;
  rapidjson::Document body;
  Result<Audio, ProviderFault> result;
};
Sent send(ProviderEntry entry, GenerationRequest asked, const DoubleReply& reply) {
  ProviderDouble server([&](const DoubleCall&) { return reply; });
  entry.base_url = server.url() + "/v1";
  http::Client client;
  const auto provider = make_provider(entry, client);
  auto result = generate(*provider, request_of(std::move(asked)));
  Sent out{{}, rapidjson::Document(), std::move(result)};
  if (server.call_count() == 1) {
    out.call = server.calls()[0];
    out.body.Parse(out.call.body.c_str());
  }
  return out;
}

GenerationRequest shaped() {
  GenerationRequest out;
  out.prompt = "Zwölf \"Boxkämpfer\"\n";
  out.voice = "atlas";
  out.speed = 1.75;
  out.pitch = 3.4;
  out.volume = 1.5;
  out.sample_rate = 44100;
  return out;
}

TEST(Openai, SendsWhatTheFormatKnows) {
  auto entry = entry_of(openai::kKind, "");
  entry.model = "tts-1";
  const auto sent = send(entry, shaped(), good_reply(openai::kKind, tone_wav(1.0)));
  EXPECT_EQ(sent.call.target, "/v1/audio/speech");
  EXPECT_EQ(sent.call.header("authorization"), "Bearer " + std::string(kSecret));
  EXPECT_EQ(sent.call.header("content-type"), "application/json");
  EXPECT_EQ(sent.call.header("x-client-request-id"), wire::request_uuid("aud_test-1"));
  // The format refuses members it does not know.
  ASSERT_EQ(sent.body.MemberCount(), 5U);
  EXPECT_STREQ(sent.body["input"].GetString(), "Zwölf \"Boxkämpfer\"\n");
  EXPECT_STREQ(sent.body["voice"].GetString(), "onyx");
  EXPECT_STREQ(sent.body["response_format"].GetString(), "wav");
  EXPECT_EQ(sent.body["speed"].GetDouble(), 1.75);
  ASSERT_TRUE(sent.result);
  EXPECT_EQ(sent.result->speed_applied, 1.75);
  EXPECT_EQ(sent.result->pitch_applied, 0.0);
}

// What the provider has made of a speed of 1.75, which is sent where it is the model's.
double speed_applied(const ProviderKind& kind, const char* model, const char* whose) {
  auto entry = entry_of(kind, "");
  entry.model = model;
  entry.options["speed"] = whose;
  const auto sent = send(entry, shaped(), good_reply(kind, tone_wav(1.0)));
  EXPECT_EQ(sent.call.body.find("\"speed\"") != std::string::npos,
            sent.result->speed_applied != 1.0);
  return sent.result->speed_applied;
}

// gpt-4o-mini-tts and servers of other people may take a speed and ignore it: the client then got,
// and paid, the wrong length.
TEST(Openai, SpeedIsTheModelsWhereItsDocumentationPromisesIt) {
  EXPECT_EQ(speed_applied(openai::kKind, "tts-1-hd", "auto"), 1.75);
  EXPECT_EQ(speed_applied(openai::kKind, "gpt-4o-mini-tts", "auto"), 1.0);
  EXPECT_EQ(speed_applied(openai::kKind, "gpt-4o-mini-tts", "native"), 1.75);
  EXPECT_EQ(speed_applied(openai::kKind, "tts-1", "ours"), 1.0);
}

// Of the models of ElevenLabs one may ignore it.
TEST(Elevenlabs, SpeedIsTheModelsButForOne) {
  EXPECT_EQ(speed_applied(elevenlabs::kKind, "eleven_multilingual_v2", "auto"), 1.2);
  EXPECT_EQ(speed_applied(elevenlabs::kKind, "eleven_v3", "auto"), 1.0);
  EXPECT_EQ(speed_applied(elevenlabs::kKind, "eleven_v3", "native"), 1.2);
  EXPECT_EQ(speed_applied(elevenlabs::kKind, "eleven_multilingual_v2", "ours"), 1.0);
}

// <prosody> is nothing to "Neural HD" voices.
TEST(Azure, ShapeIsOursWhereTheVoiceHasNone) {
  auto entry = entry_of(azure::kKind, "");
  const auto sent = [&](const char* voice) {
    entry.voices["atlas"] = voice;
    return send(entry, shaped(), good_reply(azure::kKind, tone_wav(1.0)));
  };
  const auto plain = sent("en-US-AvaNeural");
  EXPECT_THAT(plain.call.body, HasSubstr("<prosody"));
  EXPECT_EQ(plain.result->speed_applied, 1.75);
  EXPECT_NE(plain.result->pitch_applied, 0.0);
  const auto fine = sent("en-US-Ava:DragonHDLatestNeural");
  EXPECT_THAT(fine.call.body, Not(HasSubstr("<prosody")));
  EXPECT_EQ(fine.result->speed_applied, 1.0);
  EXPECT_EQ(fine.result->pitch_applied, 0.0);
}

// What some gateways send for what others have a status for. It was counted as audio that is bad,
// and paid.
TEST(Openai, AnErrorWith200IsOne) {
  const auto with = [](const std::string& body) {
    const auto sent = send(entry_of(openai::kKind, ""),
                           {},
                           {.headers = {"Content-Type: application/json"}, .body = body});
    return outcome(sent.result) + " " + sent.result.error().detail +
           (sent.result.error().made ? ", paid" : "");
  };
  EXPECT_EQ(with(R"({"error":{"message":"m","code":429}})"), "throttled HTTP 200 429");
  EXPECT_EQ(with(R"({"error":{"message":"m","code":402}})"), "misconfigured HTTP 200 402");
  EXPECT_EQ(with(R"({"error":{"code":"insufficient_quota"}})"),
            "misconfigured HTTP 200 insufficient_quota");
  EXPECT_EQ(with(R"({"error":"overloaded"})"), "try_next HTTP 200 200");
  EXPECT_EQ(with("\n {\"error\":\"overloaded\"}"), "try_next HTTP 200 200");
  EXPECT_THAT(with(R"({"error":null,"id":"x"})"), EndsWith(", paid"));
  EXPECT_THAT(with(R"({"error":"","id":"x"})"), EndsWith(", paid"));
  EXPECT_THAT(with(R"({"id":"x"})"), EndsWith(", paid"));
  auto entry = entry_of(openai::kKind, "");
  entry.options["audio_member"] = "audio_data";
  const std::string audio = encode_base64(tone_wav(1.0));
  EXPECT_TRUE(
      send(entry, {}, {.body = R"({"error":"none","audio_data":")" + audio + "\"}"}).result);
}

TEST(Shape, IsOursWhereTheEntrySaysSo) {
  auto eleven = entry_of(elevenlabs::kKind, "");
  eleven.options["speed"] = "ours";
  const auto speech = send(eleven, shaped(), good_reply(elevenlabs::kKind, tone_wav(1.0)));
  EXPECT_FALSE(speech.body.HasMember("voice_settings"));
  EXPECT_EQ(speech.result->speed_applied, 1.0);

  auto seed = entry_of(seed_audio::kKind, "");
  seed.options["speed"] = seed.options["pitch"] = "ours";
  const auto scene = send(seed, shaped(), good_reply(seed_audio::kKind, tone_wav(1.0)));
  EXPECT_EQ(scene.body["audio_config"]["speech_rate"].GetInt(), 0);
  EXPECT_EQ(scene.body["audio_config"]["pitch_rate"].GetInt(), 0);
  EXPECT_EQ(scene.result->speed_applied, 1.0);
  EXPECT_EQ(scene.result->pitch_applied, 0.0);
}

TEST(Openai, MatchAsksForTheClientsFormatAt24kHz) {
  auto entry = entry_of(openai::kKind, "");
  entry.options["response_format"] = "match";
  const auto format_for = [&](OutputFormat format, int rate) {
    GenerationRequest asked;
    asked.prompt = "x";
    asked.output_format = format;
    asked.sample_rate = rate;
    const auto sent = send(entry, asked, {.headers = {"Content-Type: audio/pcm"}, .body = "abcd"});
    if (format == OutputFormat::kPcm && rate == 24000) {
      EXPECT_EQ(sent.result->type, AudioType::kPcmS16Le);
      EXPECT_EQ(sent.result->rate, 24000);
      EXPECT_EQ(sent.result->channels, 1);
    }
    return std::string(sent.body["response_format"].GetString());
  };
  EXPECT_EQ(format_for(OutputFormat::kMp3, 24000), "mp3");
  EXPECT_EQ(format_for(OutputFormat::kOggOpus, 24000), "opus");
  EXPECT_EQ(format_for(OutputFormat::kPcm, 24000), "pcm");
  EXPECT_EQ(format_for(OutputFormat::kWav, 24000), "wav");
  EXPECT_EQ(format_for(OutputFormat::kMp3, 44100), "wav");
}

TEST(Openai, MeaningIsInTheCode) {
  const auto with = [](int status, const std::string& code) {
    const auto sent =
        send(entry_of(openai::kKind, ""),
             {},
             {.status = status,
              .body = R"({"error":{"message":"m","type":"t","param":null,"code":)" + code + "}}"});
    return outcome(sent.result) + " " + sent.result.error().detail;
  };
  EXPECT_EQ(with(429, "\"rate_limit_exceeded\""), "throttled HTTP 429 rate_limit_exceeded");
  EXPECT_EQ(with(429, "\"insufficient_quota\""), "misconfigured HTTP 429 insufficient_quota");
  EXPECT_EQ(with(400, "\"content_policy_violation\""),
            "rejected HTTP 400 content_policy_violation");
  EXPECT_EQ(with(400, "null"), "broken_by_input HTTP 400 t");
}

// What other servers of the format want: OpenRouter, Mistral, Kokoro, LocalAI, Azure.
TEST(Openai, SendsWhatTheEntryAdds) {
  auto entry = entry_of(openai::kKind, "");
  entry.voices["atlas"] = R"({"id":"voice_1"})";
  entry.options["instructions"] = "Calmly.";
  entry.options["members"] = R"({"lang_code":"d","provider":{"options":{"x":{"seed":7}}}})";
  entry.options["headers"] = R"({"http-referer":"https://a.example","x-pin":"1 2"})";
  entry.options["query"] = R"({"api-version":"2025-03-01","a&b":"c d"})";
  entry.options["key_header"] = "api-key";
  const auto sent = send(entry, shaped(), good_reply(openai::kKind, tone_wav(1.0)));
  EXPECT_EQ(sent.call.target, "/v1/audio/speech?api-version=2025-03-01&a%26b=c%20d");
  EXPECT_EQ(sent.call.header("api-key"), kSecret);
  EXPECT_EQ(sent.call.header("authorization"), "");
  EXPECT_EQ(sent.call.header("http-referer"), "https://a.example");
  EXPECT_EQ(sent.call.header("x-pin"), "1 2");
  EXPECT_STREQ(sent.body["voice"]["id"].GetString(), "voice_1");
  EXPECT_STREQ(sent.body["instructions"].GetString(), "Calmly.");
  EXPECT_STREQ(sent.body["lang_code"].GetString(), "d");
  EXPECT_EQ(sent.body["provider"]["options"]["x"]["seed"].GetInt(), 7);
  EXPECT_STREQ(sent.body["input"].GetString(), "Zwölf \"Boxkämpfer\"\n");
  EXPECT_EQ(outcome(sent.result), "audio");
}

TEST(Openai, VoicesAndAnswersUnderOtherNames) {
  auto entry = entry_of(openai::kKind, "");
  entry.options["voice_member"] = "voice_id";
  entry.options["audio_member"] = "audio_data";
  const auto with = [&](const std::string& body) {
    return send(entry,
                shaped(),
                {.headers = {"Content-Type: application/json", "X-Request-Id: r1"}, .body = body});
  };
  const std::string wav = tone_wav(1.0);
  const auto sent = with(R"({"audio_data":")" + encode_base64(wav) + "\"}");
  EXPECT_STREQ(sent.body["voice_id"].GetString(), "onyx");
  EXPECT_FALSE(sent.body.HasMember("voice"));
  ASSERT_TRUE(sent.result) << sent.result.error().detail;
  EXPECT_EQ(sent.result->bytes, wav);
  for (const char* body : {R"({"audio":"QUFB"})", R"({"audio_data":7})", "{}"}) {
    EXPECT_EQ(with(body).result.error().detail, "bad audio: empty") << body;
  }
  EXPECT_EQ(with(R"({"audio_data":"Q"})").result.error().detail, "HTTP 200 bad_base64 id=r1");
  EXPECT_EQ(with("[]").result.error().detail, "HTTP 200 not_json id=r1");
  EXPECT_EQ(with(R"({"audio_data":"PGh0bWw+"})").result.error().detail, "bad audio: text");
}

// A rate that is not believed is the wrong length, at the wrong price.
TEST(Openai, PcmIsOfTheRateThatTheAnswerNames) {
  auto entry = entry_of(openai::kKind, "");
  entry.options["response_format"] = "pcm";
  const auto with = [&](const std::string& type, const std::string& body = "abcdefgh") {
    const auto sent = send(entry, {}, {.headers = {"Content-Type: " + type}, .body = body});
    return sent.result
               ? std::to_string(sent.result->rate) + "/" + std::to_string(sent.result->channels)
               : sent.result.error().detail;
  };
  EXPECT_EQ(with("audio/pcm"), "24000/1");
  EXPECT_EQ(with("audio/pcm;rate=44100;channels=2"), "44100/2");
  EXPECT_EQ(with("audio/pcm; Rate=\"16000\""), "16000/1");
  EXPECT_EQ(with("application/octet-stream"), "24000/1");
  const std::string nothing_has = "bad audio: a rate or channels that nothing has";
  for (const char* type : {"audio/pcm;rate=0",
                           "audio/pcm;rate=-24000",
                           "audio/pcm;rate=7999",
                           "audio/pcm;rate=96001",
                           "audio/pcm;rate=24k",
                           "audio/pcm;rate=99999999999",
                           "audio/pcm;rate=",
                           "audio/pcm;channels=3",
                           "audio/pcm;channels=0"}) {
    EXPECT_EQ(with(type), nothing_has) << type;
  }
  EXPECT_EQ(with("audio/pcm;channels=2", "abcdef"), "bad audio: half a sample");
}

TEST(Openai, WhoIsToBlameAtOtherServers) {
  const auto with = [](int status, const std::string& body) {
    const auto sent = send(entry_of(openai::kKind, ""), {}, {.status = status, .body = body});
    return outcome(sent.result) + " " + sent.result.error().detail;
  };
  // OpenRouter: codes are numbers; a moderator's refusal has the status of a wrong key.
  EXPECT_EQ(with(402, R"({"error":{"code":402,"message":"m"}})"), "misconfigured HTTP 402");
  EXPECT_EQ(with(403, R"({"error":{"code":403,"message":"m"}})"), "misconfigured HTTP 403");
  EXPECT_EQ(with(403, R"({"error":{"code":403,"metadata":{"reasons":["x"]}}})"),
            "rejected HTTP 403 content_filter");
  // Mistral and Kokoro: FastAPI's lists of what is wrong, or members at the top.
  EXPECT_EQ(with(422, R"({"detail":[{"loc":["body","voice_id"],"msg":"m"}]})"),
            "misconfigured HTTP 422 :voice_id");
  EXPECT_EQ(with(422, R"({"detail":[{"loc":["body","input"],"msg":"m"}]})"),
            "unsupported_input HTTP 422 :input");
  EXPECT_EQ(with(400, R"({"detail":{"error":"validation_error","message":"m"}})"),
            "broken_by_input HTTP 400 validation_error");
  EXPECT_EQ(
      with(400, R"({"detail":{"error":"validation_error","message":"Voice 'coral' not found."}})"),
      "misconfigured HTTP 400 validation_error");
  EXPECT_EQ(with(400, R"({"object":"error","type":"invalid_request_error","param":"model"})"),
            "misconfigured HTTP 400 invalid_request_error:model");
  // All in one sentence, which was not read.
  EXPECT_EQ(with(400, R"({"detail":"Voice 'coral' not found."})"), "misconfigured HTTP 400");
  EXPECT_EQ(with(400, R"({"error":"the text is too long"})"), "unsupported_input HTTP 400");
  EXPECT_EQ(with(400, R"({"error":"Bad Request","message":"unknown voice"})"),
            "misconfigured HTTP 400");
  EXPECT_EQ(with(422, R"({"detail":"no"})"), "broken_by_input HTTP 422");
}

// A voice id that the operator has got wrong was blamed on the text of whoever asked.
TEST(Misconfigured, IsNotTheClientsFault) {
  const auto with = [](const ProviderKind& kind, int status, const std::string& body) {
    const auto sent = send(entry_of(kind, ""), {}, {.status = status, .body = body});
    return outcome(sent.result) + " " + sent.result.error().detail;
  };
  const auto openai = [&](const std::string& param) {
    return with(openai::kKind,
                400,
                R"({"error":{"message":"m","type":"t","param":")" + param +
                    R"(","code":"invalid_value"}})");
  };
  EXPECT_EQ(openai("voice"), "misconfigured HTTP 400 invalid_value:voice");
  EXPECT_EQ(openai("response_format"), "misconfigured HTTP 400 invalid_value:response_format");
  EXPECT_EQ(openai("input"), "unsupported_input HTTP 400 invalid_value:input");
  EXPECT_EQ(openai("speed"), "unsupported_input HTTP 400 invalid_value:speed");
  const auto elevenlabs = [&](const std::string& loc) {
    return with(elevenlabs::kKind,
                422,
                R"({"detail":[{"loc":["body",)" + loc + R"(],"msg":"m","type":"value_error"}]})");
  };
  EXPECT_EQ(elevenlabs(R"("model_id")"), "misconfigured HTTP 422 model_id");
  EXPECT_EQ(elevenlabs(R"("text",0)"), "unsupported_input HTTP 422 text");
  EXPECT_EQ(elevenlabs(R"("voice_settings","speed")"),
            "unsupported_input HTTP 422 voice_settings.speed");
  EXPECT_EQ(with(elevenlabs::kKind, 422, R"({"detail":[{"loc":["body"],"msg":"m"}]})"),
            "broken_by_input HTTP 422");
  EXPECT_EQ(with(elevenlabs::kKind, 400, R"({"detail":{"code":"invalid","param":"text"}})"),
            "unsupported_input HTTP 400 invalid");

  EXPECT_EQ(with(azure::kKind, 400, ""), "broken_by_input HTTP 400");
  EXPECT_EQ(with(azure::kKind, 400, "Unsupported voice coral."), "misconfigured HTTP 400");
  EXPECT_EQ(with(deepgram::kKind,
                 400,
                 R"({"err_code":"INVALID_QUERY_PARAMETER","err_msg":"m","request_id":"x"})"),
            "misconfigured HTTP 400 INVALID_QUERY_PARAMETER");
  EXPECT_EQ(with(deepgram::kKind, 400, R"({"err_code":"Bad","err_msg":"No such model found"})"),
            "misconfigured HTTP 400 Bad");
  EXPECT_EQ(with(cartesia::kKind, 400, R"({"error_code":"voice_not_found","title":"t"})"),
            "misconfigured HTTP 400 voice_not_found");
  EXPECT_EQ(with(cartesia::kKind, 422, R"({"error_code":null,"title":"Invalid transcript"})"),
            "unsupported_input HTTP 422");
  const auto gemini = [&](const std::string& field) {
    return with(gemini::kKind,
                400,
                R"({"error":{"status":"INVALID_ARGUMENT","message":"m","details":[)"
                R"({"fieldViolations":[{"field":")" +
                    field + R"("}]}]}})");
  };
  EXPECT_EQ(gemini("generation_config.speech_config"), "misconfigured HTTP 400 INVALID_ARGUMENT");
  EXPECT_EQ(gemini("contents[0]"), "unsupported_input HTTP 400 INVALID_ARGUMENT");
  EXPECT_EQ(with(gemini::kKind,
                 400,
                 R"({"error":{"status":"INVALID_ARGUMENT","message":"Voice name x is unknown"}})"),
            "misconfigured HTTP 400 INVALID_ARGUMENT");
  EXPECT_EQ(with(minimax::kKind,
                 200,
                 R"({"base_resp":{"status_code":2013,"status_msg":"invalid params, model"}})"),
            "misconfigured HTTP 200 2013");
}

TEST(Elevenlabs, SpeechAndSound) {
  auto entry = entry_of(elevenlabs::kKind, "");
  entry.voices["atlas"] = "a/b c";
  entry.options["output_format"] = "pcm_44100";
  const DoubleReply pcm = {.headers = {"Content-Type: audio/pcm"}, .body = std::string(2000, 'a')};
  const auto speech = send(entry, shaped(), pcm);
  EXPECT_EQ(speech.call.target, "/v1/v1/text-to-speech/a%2Fb%20c?output_format=pcm_44100");
  EXPECT_EQ(speech.call.header("xi-api-key"), kSecret);
  EXPECT_EQ(speech.body["voice_settings"]["speed"].GetDouble(), 1.2);
  ASSERT_TRUE(speech.result);
  EXPECT_EQ(speech.result->rate, 44100);
  EXPECT_EQ(speech.result->speed_applied, 1.2);

  entry.options["mode"] = "sound";
  entry.options["output_format"] = "auto";
  const auto sound = send(entry, shaped(), good_reply(elevenlabs::kKind, tone_wav(1.0)));
  EXPECT_EQ(sound.call.target, "/v1/v1/sound-generation?output_format=mp3_44100_128")
      << "its PCM has two channels, and does not say so";
  EXPECT_FALSE(sound.body.HasMember("voice_settings"));
  EXPECT_EQ(sound.result->speed_applied, 1.0);
}

TEST(Elevenlabs, MusicAndWhatAVoiceIsToldBesides) {
  auto entry = entry_of(elevenlabs::kKind, "");
  entry.options["language"] = "de";
  entry.options["seed"] = "4294967295";
  entry.options["voice_settings"] = R"({"stability":0.25,"use_speaker_boost":false})";
  entry.options["members"] = R"({"apply_text_normalization":"off"})";
  const auto reply = good_reply(elevenlabs::kKind, tone_wav(1.0));
  const auto speech = send(entry, shaped(), reply);
  EXPECT_EQ(speech.call.target, "/v1/v1/text-to-speech/onyx?output_format=pcm_24000");
  EXPECT_STREQ(speech.body["language_code"].GetString(), "de");
  EXPECT_EQ(speech.body["seed"].GetUint(), 4294967295U);
  EXPECT_EQ(speech.body["voice_settings"]["stability"].GetDouble(), 0.25);
  EXPECT_FALSE(speech.body["voice_settings"]["use_speaker_boost"].GetBool());
  EXPECT_EQ(speech.body["voice_settings"]["speed"].GetDouble(), 1.2);
  EXPECT_STREQ(speech.body["apply_text_normalization"].GetString(), "off");

  auto band = entry_of(elevenlabs::kKind, "");
  band.options["mode"] = "music";
  const auto music = send(band, shaped(), reply);
  EXPECT_EQ(music.call.target, "/v1/v1/music?output_format=mp3_44100_192");
  EXPECT_STREQ(music.body["prompt"].GetString(), "Zwölf \"Boxkämpfer\"\n");
  EXPECT_FALSE(music.body.HasMember("text"));
  EXPECT_EQ(outcome(music.result), "audio");
}

TEST(Elevenlabs, MatchAsksForTheClientsFormatAndRate) {
  auto entry = entry_of(elevenlabs::kKind, "");
  entry.options["output_format"] = "match";
  const auto format_for = [&](OutputFormat format, int rate) {
    GenerationRequest asked;
    asked.output_format = format;
    asked.sample_rate = rate;
    const auto sent = send(entry, asked, {.headers = {"Content-Type: audio/pcm"}, .body = "abcd"});
    const std::string asked_for = sent.call.target.substr(sent.call.target.find('=') + 1);
    if (asked_for.starts_with("pcm_")) {
      EXPECT_EQ(sent.result->rate, rate);
    }
    return asked_for;
  };
  EXPECT_EQ(format_for(OutputFormat::kPcm, 32000), "pcm_32000");
  EXPECT_EQ(format_for(OutputFormat::kWav, 48000), "wav_48000");
  EXPECT_EQ(format_for(OutputFormat::kMp3, 44100), "mp3_44100_128");
  EXPECT_EQ(format_for(OutputFormat::kMp3, 24000), "mp3_24000_48");
  EXPECT_EQ(format_for(OutputFormat::kMp3, 8000), "pcm_8000");
  EXPECT_EQ(format_for(OutputFormat::kOggOpus, 48000), "pcm_48000");
  entry.options["mode"] = "sound";
  EXPECT_EQ(format_for(OutputFormat::kWav, 48000), "mp3_44100_128");
  entry.options["mode"] = "music";
  EXPECT_EQ(format_for(OutputFormat::kPcm, 48000), "mp3_44100_192");
}

std::string rest_of(const Sent& sent) {
  return outcome(sent.result) + " " + (sent.result ? "" : sent.result.error().detail);
}

TEST(Deepgram, AsksForWavAtTheClientsRate) {
  auto entry = entry_of(deepgram::kKind, "");
  entry.voices["atlas"] = "aura-2-orion-en";
  entry.options["query"] = R"({"mip_opt_out":"true"})";
  const auto reply = good_reply(deepgram::kKind, tone_wav(1.0));
  const auto sent = send(entry, shaped(), reply);
  EXPECT_EQ(sent.call.target,
            "/v1/v1/speak?model=aura-2-orion-en&encoding=linear16&container=wav&sample_rate=48000"
            "&speed=1.5&mip_opt_out=true");
  EXPECT_EQ(sent.call.header("authorization"), "Token " + std::string(kSecret));
  ASSERT_EQ(sent.body.MemberCount(), 1U);
  EXPECT_STREQ(sent.body["text"].GetString(), "Zwölf \"Boxkämpfer\"\n");
  ASSERT_TRUE(sent.result);
  EXPECT_EQ(sent.result->speed_applied, 1.5);

  GenerationRequest asked;
  asked.sample_rate = 8000;
  EXPECT_THAT(send(entry, asked, reply).call.target, HasSubstr("sample_rate=8000&mip"));
}

// Elsewhere a speed is not promised: the client got, and paid, the wrong length.
TEST(Deepgram, SpeedIsOursWhereItIsNotPromised) {
  auto entry = entry_of(deepgram::kKind, "");
  const auto applied = [&](const char* voice, double speed) {
    entry.voices["atlas"] = voice;
    auto asked = shaped();
    asked.speed = speed;
    const auto sent = send(entry, asked, good_reply(deepgram::kKind, tone_wav(1.0)));
    EXPECT_EQ(sent.call.target.find("speed=") != std::string::npos,
              sent.result->speed_applied != 1.0);
    return sent.result->speed_applied;
  };
  EXPECT_EQ(applied("aura-2-celeste-es", 0.5), 0.7);
  EXPECT_EQ(applied("aura-2-thalia-en", 1.25), 1.25);
  EXPECT_EQ(applied("aura-2-thalia-en", 1.0), 1.0);
  EXPECT_EQ(applied("aura-2-fujin-ja", 1.25), 1.0);
  EXPECT_EQ(applied("aura-asteria-en", 1.25), 1.0);
  entry.options["speed"] = "ours";
  EXPECT_EQ(applied("aura-2-thalia-en", 1.25), 1.0);
}

TEST(Deepgram, SaysWhatWentWrong) {
  const auto with = [](int status, const std::string& body) {
    return rest_of(send(entry_of(deepgram::kKind, ""),
                        {},
                        {.status = status, .headers = {"dg-request-id: d-1"}, .body = body}));
  };
  EXPECT_EQ(with(401, R"({"err_code":"INVALID_AUTH","err_msg":"m","request_id":"x"})"),
            "misconfigured HTTP 401 INVALID_AUTH id=d-1");
  EXPECT_EQ(with(400, R"({"category":"INVALID_JSON","message":"m"})"),
            "broken_by_input HTTP 400 INVALID_JSON id=d-1");
  EXPECT_EQ(with(429, "<html>"), "throttled HTTP 429 id=d-1");
}

TEST(Cartesia, AsksForWav) {
  auto entry = entry_of(cartesia::kKind, "");
  entry.options["members"] = R"({"language":"de","generation_config":{"emotion":"calm"}})";
  const auto reply = good_reply(cartesia::kKind, tone_wav(1.0));
  const auto sent = send(entry, shaped(), reply);
  EXPECT_EQ(sent.call.target, "/v1/tts/bytes");
  EXPECT_EQ(sent.call.header("authorization"), "Bearer " + std::string(kSecret));
  EXPECT_EQ(sent.call.header("cartesia-version"), "2026-03-01");
  EXPECT_STREQ(sent.body["model_id"].GetString(), "owner/app");
  EXPECT_STREQ(sent.body["transcript"].GetString(), "Zwölf \"Boxkämpfer\"\n");
  EXPECT_STREQ(sent.body["voice"]["mode"].GetString(), "id");
  EXPECT_STREQ(sent.body["voice"]["id"].GetString(), "onyx");
  EXPECT_STREQ(sent.body["output_format"]["container"].GetString(), "wav");
  EXPECT_STREQ(sent.body["output_format"]["encoding"].GetString(), "pcm_s16le");
  EXPECT_EQ(sent.body["output_format"]["sample_rate"].GetInt(), 44100);
  EXPECT_STREQ(sent.body["language"].GetString(), "de");
  EXPECT_FALSE(sent.body["generation_config"].HasMember("speed")) << "it is only guidance";
  EXPECT_EQ(sent.result->speed_applied, 1.0);

  entry.options["speed"] = "native";
  const auto native = send(entry, shaped(), reply);
  EXPECT_EQ(native.body["generation_config"]["speed"].GetDouble(), 1.5);
  EXPECT_STREQ(native.body["generation_config"]["emotion"].GetString(), "calm");
  EXPECT_EQ(native.result->speed_applied, 1.5);
  GenerationRequest asked;
  asked.sample_rate = 32000;
  EXPECT_EQ(send(entry, asked, reply).body["output_format"]["sample_rate"].GetInt(), 48000);
}

TEST(Cartesia, SaysWhatWentWrong) {
  const auto sent = send(
      entry_of(cartesia::kKind, ""),
      {},
      {.status = 429,
       .headers = {"Retry-After: 3"},
       .body =
           R"({"error_code":"concurrency_limited","title":"t","message":"m","request_id":"c-1"})"});
  EXPECT_EQ(rest_of(sent), "throttled HTTP 429 concurrency_limited id=c-1");
  EXPECT_EQ(sent.result.error().retry_after, 3s);
  const auto null_code = send(entry_of(cartesia::kKind, ""),
                              {},
                              {.status = 402, .body = R"({"error_code":null,"title":"t"})"});
  EXPECT_EQ(rest_of(null_code), "misconfigured HTTP 402");
}

TEST(Azure, PutsTheTextIntoADocument) {
  auto entry = entry_of(azure::kKind, "");
  entry.voices["atlas"] = "de-DE-\"x\"Neural";
  auto asked = shaped();
  asked.prompt = "a < b && \"c\" 'd' </voice>\x01 \xEF\xBF\xBF ä";
  const auto sent = send(entry, asked, good_reply(azure::kKind, tone_wav(1.0)));
  EXPECT_EQ(sent.call.target, "/v1/cognitiveservices/v1");
  EXPECT_EQ(sent.call.header("ocp-apim-subscription-key"), kSecret);
  EXPECT_EQ(sent.call.header("content-type"), "application/ssml+xml");
  EXPECT_EQ(sent.call.header("x-microsoft-outputformat"), "riff-44100hz-16bit-mono-pcm");
  EXPECT_EQ(sent.call.body,
            "<speak version=\"1.0\" xmlns=\"http://www.w3.org/2001/10/synthesis\" "
            "xml:lang=\"en-US\"><voice name=\"de-DE-&quot;x&quot;Neural\">"
            "<prosody rate=\"1.75\" pitch=\"+3.4st\">a &lt; b &amp;&amp; &quot;c&quot; "
            "&apos;d&apos; &lt;/voice&gt;    ä</prosody></voice></speak>");
  ASSERT_TRUE(sent.result);
  EXPECT_EQ(sent.result->speed_applied, 1.75);
  EXPECT_EQ(sent.result->pitch_applied, 3.4);
}

TEST(Azure, DoesWhatItsDocumentationPromises) {
  auto entry = entry_of(azure::kKind, "");
  const auto with = [&](double pitch, int rate) {
    GenerationRequest asked;
    asked.pitch = pitch;
    asked.sample_rate = rate;
    return send(entry, asked, {.headers = {"Content-Type: audio/basic"}, .body = "abcd"});
  };
  const auto high = with(12.0, 16000);
  EXPECT_THAT(high.call.body, HasSubstr("pitch=\"+7st\""));
  EXPECT_THAT(high.call.body, Not(HasSubstr("rate=")));
  ASSERT_TRUE(high.result) << high.result.error().detail;
  EXPECT_EQ(high.result->pitch_applied, 7.0);
  EXPECT_EQ(high.result->type, AudioType::kPcmS16Le);
  EXPECT_EQ(high.result->rate, 16000);
  const auto low = with(-12.0, 32000);
  EXPECT_THAT(low.call.body, HasSubstr("pitch=\"-12st\""));
  EXPECT_EQ(low.call.header("x-microsoft-outputformat"), "riff-48khz-16bit-mono-pcm");
  EXPECT_EQ(rest_of(low), "try_next bad audio: unknown bytes") << "a header was asked for";
  entry.options["pitch"] = entry.options["speed"] = "ours";
  EXPECT_THAT(with(12.0, 16000).call.body, Not(HasSubstr("prosody")));
}

TEST(Gemini, AsksForSound) {
  auto entry = entry_of(gemini::kKind, "");
  entry.model = "gemini-tts";
  entry.options["language"] = "de-DE";
  entry.options["members"] = R"({"generationConfig":{"temperature":0.5}})";
  const auto pcm = DoubleReply{.body = gemini_answer("abcd", "audio/L16;codec=pcm;rate=24000")};
  const auto sent = send(entry, shaped(), pcm);
  EXPECT_EQ(sent.call.target, "/v1/v1beta/models/gemini-tts:generateContent");
  EXPECT_EQ(sent.call.header("x-goog-api-key"), kSecret);
  EXPECT_STREQ(sent.body["contents"][0]["parts"][0]["text"].GetString(), "Zwölf \"Boxkämpfer\"\n");
  const auto& config = sent.body["generationConfig"];
  EXPECT_STREQ(config["responseModalities"][0].GetString(), "AUDIO");
  EXPECT_EQ(config["temperature"].GetDouble(), 0.5);
  EXPECT_STREQ(config["speechConfig"]["languageCode"].GetString(), "de-DE");
  EXPECT_STREQ(
      config["speechConfig"]["voiceConfig"]["prebuiltVoiceConfig"]["voiceName"].GetString(),
      "onyx");
  ASSERT_TRUE(sent.result) << sent.result.error().detail;
  EXPECT_EQ(sent.result->bytes, "abcd");
  EXPECT_EQ(sent.result->type, AudioType::kPcmS16Le);
  EXPECT_EQ(sent.result->rate, 24000);
  EXPECT_EQ(sent.result->speed_applied, 1.0);

  entry.voices["atlas"] = R"({"voice":"Kore"})";
  const auto object = send(entry, shaped(), pcm);
  EXPECT_STREQ(object.body["generationConfig"]["speechConfig"]["voiceConfig"]["voice"].GetString(),
               "Kore");
}

TEST(Gemini, TakesNoHalfAnswer) {
  const auto with = [](const std::string& body) {
    return rest_of(send(entry_of(gemini::kKind, ""), {}, {.body = body}));
  };
  const auto part = [](const std::string& type) {
    return R"({"inlineData":{"mimeType":")" + type + R"(","data":"YWJjZA=="}})";
  };
  const auto parts = [](const std::string& text, const std::string& end) {
    return R"({"candidates":[{"content":{"parts":[)" + text + R"(]},"finishReason":")" + end +
           R"("}]})";
  };
  const std::string pcm = part("audio/L16;rate=24000");
  EXPECT_EQ(with(parts(pcm + "," + pcm, "STOP")), "audio ");
  EXPECT_EQ(with(parts(pcm + "," + part("audio/wav"), "STOP")), "try_next HTTP 200 mixed_types");
  EXPECT_EQ(with(parts(pcm, "MAX_TOKENS")), "try_next HTTP 200 MAX_TOKENS");
  EXPECT_EQ(with(parts(pcm, "OTHER")), "try_next HTTP 200 OTHER");
  EXPECT_EQ(with(parts(pcm, "SAFETY")), "rejected HTTP 200 SAFETY");
  EXPECT_EQ(with(parts(R"({"text":"Hello"})", "STOP")), "try_next HTTP 200 no_audio");
  EXPECT_EQ(with(R"({"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"}})"),
            "rejected HTTP 200 PROHIBITED_CONTENT");
  EXPECT_EQ(with(R"({"promptFeedback":{"blockReason":"OTHER"}})"),
            "broken_by_input HTTP 200 OTHER");
  EXPECT_EQ(with(parts(pcm, "LANGUAGE")), "unsupported_input HTTP 200 LANGUAGE");
  EXPECT_EQ(with(R"({"candidates":[]})"), "try_next HTTP 200 no_audio");
}

// Tokens were made, and are billed, where the answer is cut short or says something else.
TEST(Gemini, WhatWasMadeInVainIsToldAsMade) {
  const auto made = [](const std::string& body) {
    const auto sent = send(entry_of(gemini::kKind, ""), {}, {.body = body});
    return !sent.result && sent.result.error().made;
  };
  EXPECT_TRUE(
      made(R"({"candidates":[{"content":{"parts":[{"text":"Hello"}]},"finishReason":"STOP"}]})"));
  EXPECT_TRUE(made(R"({"candidates":[{"content":{"parts":[]},"finishReason":"MAX_TOKENS"}]})"));
  EXPECT_FALSE(made(R"({"candidates":[{"finishReason":"SAFETY"}]})"));
  EXPECT_FALSE(made(R"({"promptFeedback":{"blockReason":"OTHER"}})"));
}

TEST(Gemini, WaitsAsLongAsTheAnswerSays) {
  const auto with = [](const std::string& delay) {
    const auto sent = send(
        entry_of(gemini::kKind, ""),
        {},
        {.status = 429,
         .body =
             R"({"error":{"code":429,"status":"RESOURCE_EXHAUSTED","details":[{"@type":"x"},{"retryDelay":")" +
             delay + R"("}]}})"});
    EXPECT_EQ(rest_of(sent), "throttled HTTP 429 RESOURCE_EXHAUSTED");
    return sent.result.error().retry_after.value_or(0s);
  };
  EXPECT_EQ(with("23s"), 23s);
  EXPECT_EQ(with("23.5s"), 24s);
  EXPECT_EQ(with("3600s"), 60s);
  EXPECT_EQ(with("soon"), 0s);
}

TEST(Minimax, RatesMapOneToOne) {
  auto entry = entry_of(minimax::kKind, "");
  entry.options["members"] = R"({"voice_setting":{"emotion":"happy","speed":9}})";
  const auto reply = good_reply(minimax::kKind, tone_wav(1.0));
  const auto sent = send(entry, shaped(), reply);
  EXPECT_EQ(sent.call.target, "/v1/v1/t2a_v2");
  EXPECT_EQ(sent.call.header("authorization"), "Bearer " + std::string(kSecret));
  EXPECT_STREQ(sent.body["text"].GetString(), "Zwölf \"Boxkämpfer\"\n");
  EXPECT_FALSE(sent.body["stream"].GetBool());
  EXPECT_STREQ(sent.body["output_format"].GetString(), "hex");
  EXPECT_STREQ(sent.body["voice_setting"]["voice_id"].GetString(), "onyx");
  EXPECT_STREQ(sent.body["voice_setting"]["emotion"].GetString(), "happy");
  EXPECT_EQ(sent.body["voice_setting"]["speed"].GetDouble(), 1.75) << "the client's";
  EXPECT_EQ(sent.body["voice_setting"]["pitch"].GetInt(), 3);
  EXPECT_STREQ(sent.body["audio_setting"]["format"].GetString(), "flac");
  EXPECT_EQ(sent.body["audio_setting"]["sample_rate"].GetInt(), 44100);
  EXPECT_EQ(sent.body["audio_setting"]["channel"].GetInt(), 1);
  ASSERT_TRUE(sent.result);
  EXPECT_EQ(sent.result->speed_applied, 1.75);
  EXPECT_EQ(sent.result->pitch_applied, 3.0);

  entry.options["speed"] = entry.options["pitch"] = "ours";
  const auto ours = send(entry, shaped(), reply);
  EXPECT_EQ(ours.body["voice_setting"]["speed"].GetDouble(), 1.0);
  EXPECT_EQ(ours.body["voice_setting"]["pitch"].GetInt(), 0);
  EXPECT_EQ(ours.result->speed_applied, 1.0);
}

TEST(Minimax, FailuresInside200) {
  const auto with = [](const std::string& body, int status = 200) {
    return rest_of(send(entry_of(minimax::kKind, ""), {}, {.status = status, .body = body}));
  };
  EXPECT_EQ(with(R"({"trace_id":"t1","base_resp":{"status_code":1002,"status_msg":"m"}})"),
            "throttled HTTP 200 1002 id=t1");
  EXPECT_EQ(with(R"({"base_resp":{"status_code":1008}})"), "misconfigured HTTP 200 1008");
  EXPECT_EQ(with(R"({"base_resp":{"status_code":1004}})", 401), "misconfigured HTTP 401 1004");
  const std::string ok = R"("base_resp":{"status_code":0}})";
  for (const char* audio : {R"("abc")", R"("zz")"}) {
    EXPECT_EQ(with(R"({"data":{"audio":)" + std::string(audio) + "}," + ok),
              "try_next HTTP 200 bad_hex");
  }
  for (const char* data : {"null", "7", "{}", R"({"audio":""})", R"({"audio":7})"}) {
    EXPECT_EQ(with(R"({"data":)" + std::string(data) + "," + ok), "try_next bad audio: empty");
  }
}

// What is billed is what the provider says, in the unit that its kind names.
TEST(Reported, ByElevenlabsInCharacters) {
  const auto entry = entry_of(elevenlabs::kKind, "");
  const auto with = [&](std::vector<std::string> headers) {
    headers.emplace_back("Content-Type: audio/pcm");
    const auto sent =
        send(entry, shaped(), {.headers = std::move(headers), .body = std::string(2000, 'a')});
    EXPECT_TRUE(sent.result);
    return sent.result->billed;
  };
  EXPECT_EQ(elevenlabs::kKind.reports, PriceUnit::kThousandCharacters);
  EXPECT_EQ(with({"character-cost: 31"}), 31);
  EXPECT_EQ(with({}), std::nullopt);
  for (const char* const wrong : {"-1", "many", "3 1", "1e9", "nan", "99999999999"}) {
    EXPECT_EQ(with({"character-cost: " + std::string(wrong)}), std::nullopt) << wrong;
  }
  // Also where nothing came of it.
  const auto empty = send(
      entry, shaped(), {.headers = {"Content-Type: audio/pcm", "character-cost: 31"}, .body = ""});
  ASSERT_FALSE(empty.result);
  EXPECT_EQ(empty.result.error().billed, 31);
}

TEST(Reported, ByMinimaxInCharacters) {
  const auto with = [&](const std::string& member) {
    DoubleReply reply = good_reply(minimax::kKind, tone_wav(1.0));
    reply.body.insert(reply.body.size() - 1, member);
    const auto sent = send(entry_of(minimax::kKind, ""), shaped(), reply);
    EXPECT_TRUE(sent.result);
    return sent.result->billed;
  };
  EXPECT_EQ(minimax::kKind.reports, PriceUnit::kThousandCharacters);
  EXPECT_EQ(with(R"(,"extra_info":{"usage_characters":26})"), 26);
  EXPECT_EQ(with(R"(,"extra_info":{})"), std::nullopt);
  EXPECT_EQ(with(R"(,"extra_info":{"usage_characters":"26"})"), std::nullopt);
}

// Azure's answers tell nothing; its list of prices does.
TEST(Reported, ForAzureByItsRules) {
  auto entry = entry_of(azure::kKind, "");
  const auto with = [&](GenerationRequest asked, const std::string& audio) {
    const auto sent =
        send(entry, std::move(asked), {.headers = {"Content-Type: audio/wav"}, .body = audio});
    return sent.result ? sent.result->billed : sent.result.error().billed;
  };
  GenerationRequest asked;
  asked.prompt = "a \u4f60\u597d \U00020000 \u3042\ud55c&";
  EXPECT_EQ(with(asked, tone_wav(1.0)), 2 + 4 + 1 + 2 + 1 + 3);
  EXPECT_EQ(with(asked, ""), 13) << "nothing to say";
  asked.prompt = "abc";
  asked.speed = 1.5;
  EXPECT_EQ(with(asked, tone_wav(1.0)), 3 + std::string("<prosody rate=\"1.5\"></prosody>").size());
}

TEST(Reported, BySeedAudioInSecondsOfAudio) {
  const auto with = [&](const std::string& member) {
    DoubleReply reply = good_reply(seed_audio::kKind, tone_wav(1.0));
    reply.body.insert(reply.body.size() - 1, member);
    const auto sent = send(entry_of(seed_audio::kKind, ""), shaped(), reply);
    EXPECT_TRUE(sent.result);
    return sent.result->billed;
  };
  EXPECT_EQ(seed_audio::kKind.reports, PriceUnit::kAudioSecond);
  EXPECT_EQ(with(R"(,"original_duration":9.3)"), 9'300);
  EXPECT_EQ(with(""), std::nullopt);
  EXPECT_EQ(with(R"(,"original_duration":"9.3")"), std::nullopt);
  EXPECT_EQ(with(R"(,"original_duration":-1)"), std::nullopt);
}

// Beside the answer: when it was asked, when audio began to come, what that costs.
TEST_P(Direct, FactsOfACall) {
  ProviderDouble server([&](const DoubleCall& call) {
    DoubleReply reply = good(tone_wav(1.0));
    reply.status = call.number == 0 ? 503 : 200;
    return reply;
  });
  ProviderEntry entry = entry_of(*GetParam(), server.url());
  entry.price = ProviderPrice{PriceUnit::kCall, Micros{5}};
  http::Client client;
  const auto provider = make_provider(entry, client);
  EXPECT_EQ(provider->capabilities().price, entry.price);
  EXPECT_EQ(provider->capabilities().reports, GetParam()->reports);
  const auto ask = [&] {
    ProviderRequest request = request_of();
    request.facts = std::make_shared<CallFacts>();
    const auto facts = request.facts;
    static_cast<void>(generate(*provider, std::move(request)));
    return facts;
  };
  const auto began = CallFacts::Clock::now();
  const auto refused = ask();
  ASSERT_TRUE(refused->sent);
  EXPECT_GE(*refused->sent, began);
  EXPECT_FALSE(refused->first_byte) << "no audio came";
  const auto made = ask();
  ASSERT_TRUE(made->sent && made->first_byte);
  EXPECT_GE(*made->first_byte, *made->sent);
  EXPECT_LE(*made->first_byte, CallFacts::Clock::now());
}

TEST(SeedAudio, RatesMapOneToOne) {
  const auto sent =
      send(entry_of(seed_audio::kKind, ""), shaped(), good_reply(seed_audio::kKind, tone_wav(1.0)));
  EXPECT_EQ(sent.call.target, "/v1/api/v3/tts/create");
  EXPECT_EQ(sent.call.header("x-api-key"), kSecret);
  EXPECT_EQ(sent.call.header("x-api-request-id"), wire::request_uuid("aud_test-1"));
  EXPECT_EQ(sent.body["audio_config"]["speech_rate"].GetInt(), 75);
  EXPECT_EQ(sent.body["audio_config"]["pitch_rate"].GetInt(), 3);
  EXPECT_EQ(sent.body["audio_config"]["loudness_rate"].GetInt(), 0);
  EXPECT_EQ(sent.body["audio_config"]["sample_rate"].GetInt(), 44100);
  EXPECT_STREQ(sent.body["references"][0]["speaker"].GetString(), "onyx");
  ASSERT_TRUE(sent.result);
  EXPECT_EQ(sent.result->speed_applied, 1.75);
  EXPECT_EQ(sent.result->pitch_applied, 3.0);
}

TEST(SeedAudio, ReferencesOrImageOrNothing) {
  const auto entry = entry_of(seed_audio::kKind, "");
  const auto reply = good_reply(seed_audio::kKind, tone_wav(1.0));
  GenerationRequest asked;
  EXPECT_FALSE(send(entry, asked, reply).body.HasMember("references"));
  asked.voice = "aria";
  asked.audio_references = {"https://a.example/1.mp3", "https://a.example/2.mp3"};
  const auto audio = send(entry, asked, reply);
  ASSERT_EQ(audio.body["references"].Size(), 2U);
  EXPECT_STREQ(audio.body["references"][1]["audio_url"].GetString(), "https://a.example/2.mp3");
  asked.audio_references.clear();
  asked.image_url = "https://a.example/1.png";
  const auto image = send(entry, asked, reply);
  ASSERT_EQ(image.body["references"].Size(), 1U);
  EXPECT_STREQ(image.body["references"][0]["image_url"].GetString(), "https://a.example/1.png");
}

TEST(SeedAudio, FailuresInside200) {
  const auto entry = entry_of(seed_audio::kKind, "");
  const auto with = [&](const std::string& body, std::vector<std::string> headers = {}) {
    const auto sent = send(entry, {}, {.headers = std::move(headers), .body = body});
    return outcome(sent.result) + " " + (sent.result ? "" : sent.result.error().detail);
  };
  EXPECT_EQ(with(R"({"code":45000010,"message":"Invalid X-Api-Key"})"),
            "misconfigured HTTP 200 45000010");
  EXPECT_EQ(with(R"({"header":{"code":45001104,"message":"m"}})", {"X-Tt-Logid: 2026abc"}),
            "rejected HTTP 200 45001104 id=2026abc");
  EXPECT_EQ(with(R"({"code":45000000,"message":"quota exceeded for types: concurrency"})"),
            "throttled HTTP 200 45000000");
  EXPECT_EQ(with(R"({"code":45001115,"message":"m"})"), "unsupported_input HTTP 200 45001115");
  GenerationRequest by_name;
  by_name.voice = "aria";
  const auto sent = send(entry, by_name, {.body = R"({"code":45001115,"message":"m"})"});
  EXPECT_EQ(outcome(sent.result), "misconfigured") << "the speaker is the entry's";
  EXPECT_EQ(with("{}", {"X-Api-Status-Code: 55001310"}), "rejected HTTP 200 55001310");
  const std::string base64 = encode_base64(tone_wav(1.0));
  for (std::size_t cut = 1; cut < 4; ++cut) {
    EXPECT_EQ(with(R"({"code":0,"audio":")" + base64.substr(0, base64.size() - cut) + "\"}"),
              "try_next HTTP 200 bad_base64");
  }
  EXPECT_EQ(with(R"({"code":0,"audio":")" + base64.substr(0, 4000) + "\"}"),
            "try_next bad audio: cut short");
  EXPECT_EQ(with(R"({"code":0,"audio":")" + base64.substr(0, 4000)), "try_next HTTP 200 not_json");
}

// What was longer than 32 MiB was paid, thrown away and made again.
TEST(TheLongestSound, IsTakenFromWhoeverSendsWav) {
  const std::string wav = tone_wav(kDecodedSecondsMax - 1, 48000);
  ASSERT_GT(wav.size(), 57'000'000U);
  for (const ProviderKind* kind : {&azure::kKind, &cartesia::kKind, &minimax::kKind}) {
    ProviderEntry entry = entry_of(*kind, "");
    entry.timeout = 300s;  // Under a sanitizer, on a busy machine.
    const auto sent = send(entry, {}, good_reply(*kind, wav));
    ASSERT_TRUE(sent.result) << kind->name << " " << sent.result.error().detail;
    const auto sound = plain_of(*sent.result);
    ASSERT_TRUE(sound) << kind->name;
    EXPECT_LE(sent.result->bytes.size(), kMediaBytesMax);
  }
}

TEST(SeedAudio, FifteenMegabytesOfBase64) {
  const std::string wav = tone_wav(117.0, 48000);
  const auto reply = good_reply(seed_audio::kKind, wav);
  ASSERT_GT(reply.body.size(), 14'900'000U);
  ProviderEntry entry = entry_of(seed_audio::kKind, "");
  entry.timeout = 300s;  // Under a sanitizer, on a busy machine.
  const auto sent = send(entry, {}, reply);
  ASSERT_TRUE(sent.result) << sent.result.error().detail;
  EXPECT_EQ(sent.result->bytes, wav);
}

}  // namespace
}  // namespace audiogen::test
