// Which fault each status and code of each provider is: the rows of the providers' own tables.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "worker/providers/deepgram.h"
#include "worker/providers/elevenlabs.h"
#include "worker/providers/fal.h"
#include "worker/providers/gemini.h"
#include "worker/providers/minimax.h"
#include "worker/providers/openai.h"
#include "worker/providers/seed_audio.h"
#include "worker/providers/transport/blame.h"
#include "worker/providers/transport/wire.h"

namespace audiogen {
namespace {

struct Row {
  int status;
  std::string code;
  Fault fault;
};

TEST(Tables, Openai) {
  const std::vector<Row> rows = {
      {408, "", Fault::kRetrySame},
      {429, "rate_limit_exceeded", Fault::kThrottled},
      {429, "slow_down", Fault::kThrottled},
      {429, "server_is_overloaded", Fault::kThrottled},
      {429, "", Fault::kThrottled},
      {500, "", Fault::kRetrySame},
      {502, "", Fault::kRetrySame},
      {503, "", Fault::kRetrySame},
      // Retried too, but what went before may have been billed.
      {504, "", Fault::kUnknownOutcome},
      {524, "", Fault::kUnknownOutcome},
      {429, "insufficient_quota", Fault::kMisconfigured},
      {429, "credit_balance_exhausted", Fault::kMisconfigured},
      {429, "billing_not_active", Fault::kMisconfigured},
      {400, "billing_hard_limit_reached", Fault::kMisconfigured},
      {400, "", Fault::kBrokenByInput},
      {422, "", Fault::kBrokenByInput},
      {413, "", Fault::kUnsupportedInput},
      {400, "content_policy_violation", Fault::kRejected},
      {400, "content_filter", Fault::kRejected},
      {401, "invalid_api_key", Fault::kMisconfigured},
      {402, "", Fault::kMisconfigured},
      {403, "", Fault::kMisconfigured},
      {404, "model_not_found", Fault::kMisconfigured},
      {400, "model_not_found", Fault::kMisconfigured},
      {301, "", Fault::kTryNext},
      {418, "", Fault::kTryNext},
      {501, "", Fault::kTryNext},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(openai::classify(row.status, row.code), row.fault) << row.status << " " << row.code;
  }
}

TEST(Tables, Elevenlabs) {
  const std::vector<Row> rows = {
      {429, "system_busy", Fault::kThrottled},
      {429, "too_many_concurrent_requests", Fault::kThrottled},
      {408, "", Fault::kRetrySame},
      {409, "", Fault::kRetrySame},
      {425, "", Fault::kRetrySame},
      {500, "", Fault::kRetrySame},
      {502, "", Fault::kRetrySame},
      {503, "", Fault::kRetrySame},
      {522, "", Fault::kTryNext},
      {529, "", Fault::kRetrySame},
      {504, "", Fault::kUnknownOutcome},
      {520, "", Fault::kUnknownOutcome},
      {400, "max_character_limit_exceeded", Fault::kUnsupportedInput},
      {401, "invalid_api_key", Fault::kMisconfigured},
      {401, "quota_exceeded", Fault::kMisconfigured},
      {400, "voice_not_found", Fault::kMisconfigured},
      {404, "voice_not_found", Fault::kMisconfigured},
      {403, "", Fault::kMisconfigured},
      {404, "", Fault::kMisconfigured},
      {422, "", Fault::kBrokenByInput},
      {400, "", Fault::kBrokenByInput},
      {400, "invalid_uid", Fault::kMisconfigured},
      {400, "model_can_not_be_used", Fault::kMisconfigured},
      {400, "text_too_long", Fault::kUnsupportedInput},
      {400, "unheard_of", Fault::kBrokenByInput},
      {400, "content_against_policy", Fault::kRejected},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(elevenlabs::classify(row.status, row.code), row.fault)
        << row.status << " " << row.code;
  }
}

TEST(Tables, SeedAudio) {
  struct SeedRow {
    int status;
    std::int64_t code;
    const char* message;
    Fault fault;
  };
  const std::vector<SeedRow> rows = {
      {200, 45000000, "quota exceeded for types: concurrency", Fault::kThrottled},
      {200, 45000000, "quota exceeded for types: text_words_lifetime", Fault::kMisconfigured},
      {429, 45000292, "quota exceeded for types: concurrency", Fault::kThrottled},
      {429, 45000292, "quota exceeded for types: qps", Fault::kThrottled},
      {429, 45000292, "quota exceeded for types: xxx_lifetime", Fault::kMisconfigured},
      {429, 45000292, "", Fault::kThrottled},
      {429, 45009999, "", Fault::kThrottled},
      {200, 45001104, "quota exceeded", Fault::kRejected},
      {400, 45000000, "invalid json", Fault::kBrokenByInput},
      {200, 45000001, "", Fault::kBrokenByInput},
      {200, 45000001, "unknown speaker", Fault::kMisconfigured},
      {200, 45000001, "text_prompt is empty", Fault::kUnsupportedInput},
      {200, 45001001, "", Fault::kBrokenByInput},
      {200, 45001115, "", Fault::kUnsupportedInput},
      {401, 45000010, "Invalid X-Api-Key", Fault::kMisconfigured},
      {403, 45000030, "", Fault::kMisconfigured},
      {200, 45001116, "", Fault::kUnsupportedInput},
      {200, 45001117, "", Fault::kUnsupportedInput},
      {200, 45001104, "", Fault::kRejected},
      {200, 45001125, "", Fault::kRejected},
      {200, 45001127, "", Fault::kRejected},
      {200, 45001130, "", Fault::kRejected},
      {200, 55001310, "", Fault::kRejected},
      {500, 55001311, "", Fault::kRejected},
      {200, 45001131, "", Fault::kBrokenByInput},
      {200, 45001132, "", Fault::kBrokenByInput},
      {500, 55000000, "timeout", Fault::kRetrySame},
      {200, 55000000, "resource id is mismatched with speaker", Fault::kMisconfigured},
      {200, 55001309, "", Fault::kBrokenByInput},
      {200, 55009999, "", Fault::kRetrySame},
      {200, 45009999, "", Fault::kTryNext},
      {200, 1, "", Fault::kTryNext},
      {503, 0, "", Fault::kRetrySame},
      {504, 0, "", Fault::kUnknownOutcome},
      {401, 0, "", Fault::kMisconfigured},
  };
  for (const SeedRow& row : rows) {
    EXPECT_EQ(seed_audio::classify(row.status, row.code, row.message), row.fault)
        << row.status << " " << row.code;
  }
  EXPECT_EQ(seed_audio::classify(200, 45001115, "", "", seed_audio::Voice::kOfEntry),
            Fault::kMisconfigured);
  EXPECT_EQ(seed_audio::classify(200, 45000001, "unknown speaker", "who is the speaker?"),
            Fault::kBrokenByInput);
}

TEST(Tables, Gemini) {
  struct GeminiRow {
    int status;
    const char* error;
    const char* reason;
    Fault fault;
    const char* field = "";
    Fault by_message = Fault::kTryNext;
  };
  const std::vector<GeminiRow> rows = {
      {400, "INVALID_ARGUMENT", "", Fault::kTryNext},
      {400, "INVALID_ARGUMENT", "", Fault::kMisconfigured, "", Fault::kMisconfigured},
      {400, "INVALID_ARGUMENT", "", Fault::kUnsupportedInput, "contents[0].parts[0].text"},
      {400,
       "INVALID_ARGUMENT",
       "",
       Fault::kMisconfigured,
       "generation_config.speech_config.voice_config"},
      {400, "INVALID_ARGUMENT", "API_KEY_INVALID", Fault::kMisconfigured},
      {400, "FAILED_PRECONDITION", "", Fault::kMisconfigured},
      {403, "PERMISSION_DENIED", "", Fault::kMisconfigured},
      {404, "NOT_FOUND", "", Fault::kMisconfigured},
      {429, "RESOURCE_EXHAUSTED", "", Fault::kThrottled},
      {499, "CANCELLED", "", Fault::kTryNext},
      {500, "INTERNAL", "", Fault::kRetrySame},
      {503, "UNAVAILABLE", "", Fault::kRetrySame},
      {504, "DEADLINE_EXCEEDED", "", Fault::kUnknownOutcome},
  };
  for (const GeminiRow& row : rows) {
    EXPECT_EQ(gemini::classify(row.status, row.error, row.reason, row.field, row.by_message),
              row.fault)
        << row.status << " " << row.error << " " << row.reason;
  }
}

TEST(Tables, Minimax) {
  for (const std::int64_t code : {1000, 1001, 1024, 1033}) {
    EXPECT_EQ(minimax::classify(200, code), Fault::kRetrySame) << code;
  }
  for (const std::int64_t code : {1002, 1039, 1041, 2045}) {
    EXPECT_EQ(minimax::classify(200, code), Fault::kThrottled) << code;
  }
  for (const std::int64_t code : {1004, 1008, 2042, 2049, 2054, 2056, 20132}) {
    EXPECT_EQ(minimax::classify(200, code), Fault::kMisconfigured) << code;
  }
  for (const std::int64_t code : {1026, 1027}) {
    EXPECT_EQ(minimax::classify(200, code), Fault::kRejected) << code;
  }
  EXPECT_EQ(minimax::classify(200, 1042), Fault::kUnsupportedInput);
  EXPECT_EQ(minimax::classify(200, 2013), Fault::kBrokenByInput);
  EXPECT_EQ(minimax::classify(200, 2013, Fault::kMisconfigured), Fault::kMisconfigured);
  EXPECT_EQ(minimax::classify(200, 9999), Fault::kTryNext);
  EXPECT_EQ(minimax::classify(200, 9999, Fault::kMisconfigured), Fault::kMisconfigured);
  EXPECT_EQ(minimax::classify(200, 0), Fault::kTryNext);
  EXPECT_EQ(minimax::classify(503, 0), Fault::kRetrySame);
  EXPECT_EQ(minimax::classify(401, 0), Fault::kMisconfigured);
}

TEST(Tables, Fal) {
  struct FalRow {
    int status;
    const char* type;
    const char* header;
    const char* value;
    Fault fault;
  };
  const std::vector<FalRow> rows = {
      {408, "", "x", "", Fault::kRetrySame},
      {429, "", "x", "", Fault::kThrottled},
      {503, "runner_scheduling_failure", "x", "", Fault::kRetrySame},
      {504, "request_timeout", "x", "", Fault::kRetrySame},
      {504, "request_timeout", "x-fal-request-timeout-type", "user", Fault::kTryNext},
      {500, "", "x", "", Fault::kTryNext},
      {500, "", "x-fal-retryable", "true", Fault::kRetrySame},
      {422, "", "x-fal-retryable", "true", Fault::kRetrySame},
      {422, "", "x-fal-retryable", "false", Fault::kTryNext},
      {422, "content_policy_violation", "x-fal-retryable", "false", Fault::kRejected},
      {400, "", "x", "", Fault::kTryNext},
      {401, "", "x", "", Fault::kMisconfigured},
      {402, "", "x", "", Fault::kMisconfigured},
      {403, "", "x", "", Fault::kMisconfigured},
      {404, "", "x", "", Fault::kMisconfigured},
  };
  for (const FalRow& row : rows) {
    http::ClientResponse response;
    response.status = row.status;
    response.headers.emplace(row.header, row.value);
    EXPECT_EQ(fal::classify(response, row.type), row.fault)
        << row.status << " " << row.type << " " << row.value;
  }
}

TEST(Tables, Replicate) {
  EXPECT_EQ(wire::fault_of_status(429), Fault::kThrottled);
  for (const int status : {500, 502, 503}) {
    EXPECT_EQ(wire::fault_of_status(status), Fault::kRetrySame) << status;
  }
  EXPECT_EQ(wire::fault_of_status(504), Fault::kUnknownOutcome);
  for (const int status : {400, 422}) {
    EXPECT_EQ(wire::fault_of_status(status), Fault::kTryNext) << status << ", nothing is named";
  }
  for (const int status : {401, 402, 403, 404}) {
    EXPECT_EQ(wire::fault_of_status(status), Fault::kMisconfigured) << status;
  }
}

TEST(Tables, Deepgram) {
  const std::string query = "INVALID_QUERY_PARAMETER";
  EXPECT_EQ(deepgram::classify(400, query, Fault::kTryNext, false), Fault::kMisconfigured);
  EXPECT_EQ(deepgram::classify(400, query, Fault::kTryNext, true), Fault::kTryNext)
      << "the speed is the client's";
  EXPECT_EQ(deepgram::classify(400, "", Fault::kMisconfigured, true), Fault::kMisconfigured);
  EXPECT_EQ(deepgram::classify(413, "", Fault::kTryNext, false), Fault::kUnsupportedInput);
}

// 128 MB of nothing but numbers would be gigabytes of values. Audio is one, however long.
TEST(Json, OfAProviderHasABoundOfValues) {
  const auto is_read = [](std::string body) {
    rapidjson::Document document;
    return wire::parse_object(body, document);
  };
  const auto many = [](std::size_t count, std::string_view value) {
    std::string out = "{\"a\":[";
    for (std::size_t i = 0; i < count; ++i) {
      out += value;
    }
    return out;
  };
  EXPECT_TRUE(is_read(many(50'000, "0,") + "0]}"));
  EXPECT_FALSE(is_read(many(200'000, "0,") + "0]}"));
  EXPECT_FALSE(is_read(many(200'000, "[") + std::string(200'000, ']') + "]}"));
  EXPECT_FALSE(is_read(many(200'000, "{\"b\":") + "0" + std::string(200'000, '}') + "]}"));
  EXPECT_TRUE(is_read("{\"audio\":\"" + std::string(20'000'000, 'A') + "\"}"));
  EXPECT_TRUE(is_read("{\"log\":\"\\\\\\\"" + std::string(200'000, ',') + "\"}")) << "a text";
  EXPECT_FALSE(is_read("{\"log\":\"\\\\\",\"a\":" + many(200'000, "0,").substr(5) + "0]}"));
}

TEST(Blame, ByName) {
  EXPECT_EQ(blame::by_name("", {"text"}), Fault::kBrokenByInput);
  EXPECT_EQ(blame::by_name("[0]", {"text", ""}), Fault::kMisconfigured);
  EXPECT_EQ(blame::by_name("text", {"text"}), Fault::kUnsupportedInput);
  EXPECT_EQ(blame::by_name("contents[0].parts[0].text", {"contents"}), Fault::kUnsupportedInput);
  EXPECT_EQ(blame::by_name("ref_voice_url.0", {"ref_voice_url"}), Fault::kUnsupportedInput);
  EXPECT_EQ(blame::by_name("voice", {"ref_voice_url"}), Fault::kMisconfigured);
}

TEST(Blame, ByWords) {
  struct WordsRow {
    const char* words;
    Fault fault;
    const char* prompt = "hello";
  };
  const std::vector<WordsRow> rows = {
      {"", Fault::kBrokenByInput},
      {"Request contains an invalid argument.", Fault::kBrokenByInput},
      {"voice_not_found", Fault::kMisconfigured},
      {"Unsupported voice en-US-Nobody.", Fault::kMisconfigured},
      {"VoiceId is wrong", Fault::kMisconfigured},
      {"invoices", Fault::kBrokenByInput},
      {"the text is empty", Fault::kUnsupportedInput},
      {"max_character_limit_exceeded", Fault::kUnsupportedInput},
      // Of a voice for which a text is in the wrong language nobody can say whose fault it is.
      {"The model does not know the language", Fault::kBrokenByInput},
      {"language not supported", Fault::kBrokenByInput},
      {"the model tried to generate text", Fault::kBrokenByInput},
      // A client's text shuts no provider, whatever it says.
      {"cannot say 'what a Voice'", Fault::kBrokenByInput, "what a Voice"},
      {"cannot say 'model", Fault::kBrokenByInput, "a sub\u200bmodel"},
      // What one of the words could be quoted from leaves the other not alone.
      {"the model tried to generate text from a transcript",
       Fault::kBrokenByInput,
       "Write me a text transcript"},
      {"the model tried to generate text", Fault::kBrokenByInput, "a model"},
      {"<?xml version=\"1.0\" encoding=\"utf-8\"?>", Fault::kBrokenByInput},
      {"Unsupported voice: nobody", Fault::kBrokenByInput, "My voice."},
  };
  for (const WordsRow& row : rows) {
    EXPECT_EQ(blame::by_words(row.words, row.prompt), row.fault) << row.words;
  }
}

}  // namespace
}  // namespace audiogen
