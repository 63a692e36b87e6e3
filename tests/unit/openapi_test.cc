// The published description agrees with the code: the same lists, limits and statuses.
#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include <gtest/gtest.h>
#include <rapidjson/document.h>
#include <rapidjson/pointer.h>

#include "common/base/time.h"
#include "common/domain/api_error.h"
#include "common/domain/key_request.h"
#include "common/domain/outlook.h"
#include "common/domain/pricing.h"
#include "common/domain/request.h"
#include "common/domain/task.h"
#include "common/domain/voices.h"

namespace audiogen {
namespace {

using rapidjson::Value;
using Names = std::set<std::string>;

class OpenApi : public testing::Test {
 protected:
  OpenApi() {
    std::ifstream in(OPENAPI_FILE);
    std::ostringstream text;
    text << in.rdbuf();
    document_.Parse<rapidjson::kParseValidateEncodingFlag>(text.str().c_str());
    EXPECT_FALSE(document_.HasParseError()) << OPENAPI_FILE;
  }

  // The value at a JSON pointer; a null and a failure when there is none.
  const Value& at(const std::string& pointer) const {
    static const Value missing;
    const Value* found = rapidjson::Pointer(pointer.c_str()).Get(document_);
    EXPECT_NE(found, nullptr) << pointer;
    return found == nullptr ? missing : *found;
  }
  const Value& schema(const std::string& path) const { return at("/components/schemas/" + path); }

  Names strings(const Value& array) const {
    Names out;
    for (const Value& item : array.GetArray()) {
      EXPECT_TRUE(out.insert(item.GetString()).second) << item.GetString() << " twice";
    }
    return out;
  }
  Names members(const Value& object) const {
    Names out;
    for (const auto& member : object.GetObject()) {
      EXPECT_TRUE(out.insert(member.name.GetString()).second) << member.name.GetString();
    }
    return out;
  }

  rapidjson::Document document_;
};

TEST_F(OpenApi, IsVersionOneOfTheInterface) {
  EXPECT_STREQ(at("/openapi").GetString(), "3.1.0");
  EXPECT_STREQ(at("/info/version").GetString(), "1.0.0");
  EXPECT_STREQ(at("/servers/0/url").GetString(), "/api/v1");
  EXPECT_EQ(at("/servers").Size(), 1U);
  EXPECT_STREQ(at("/components/securitySchemes/api_key/scheme").GetString(), "bearer");
  EXPECT_TRUE(at("/paths/~1openapi.json/get/security").Empty());
}

TEST_F(OpenApi, HasTheStatusesOfTheInterface) {
  EXPECT_EQ(members(at("/paths/~1audio~1generations/post/responses")),
            (Names{"202", "400", "401", "402", "403", "409", "429", "503"}));
  EXPECT_EQ(members(at("/paths/~1audio~1generations~1{task_id}/get/responses")),
            (Names{"200", "401", "404", "429", "503"}));
}

TEST_F(OpenApi, ListsTheCodesOfTheCode) {
  // Of the two endpoints of generations; others have more.
  Names codes;
  for (int i = 0; i <= static_cast<int>(ApiErrorCode::kServiceUnavailable); ++i) {
    codes.emplace(error_name(static_cast<ApiErrorCode>(i)));
  }
  EXPECT_EQ(strings(schema("ErrorBody/properties/error/properties/code/enum")), codes);
  for (int i = static_cast<int>(ApiErrorCode::kInsufficientScope);
       i <= static_cast<int>(ApiErrorCode::kLimitReached);
       ++i) {
    codes.emplace(error_name(static_cast<ApiErrorCode>(i)));
  }
  EXPECT_EQ(strings(schema("ErrorBodyWithParam/properties/error/properties/code/enum")), codes);

  Names failures;
  for (int i = 1; i <= static_cast<int>(FailureCode::kInternalError); ++i) {
    failures.emplace(failure_code_name(static_cast<FailureCode>(i)));
  }
  EXPECT_EQ(strings(schema("GenerationError/properties/code/enum")), failures);

  Names states{"processing"};
  for (int i = 1; i <= static_cast<int>(TaskState::kCanceled); ++i) {
    states.emplace(public_status(static_cast<TaskState>(i), 1));
  }
  EXPECT_EQ(strings(schema("Generation/properties/status/enum")), states);
  EXPECT_EQ(Names(kPublicStatuses.begin(), kPublicStatuses.end()), states);
  EXPECT_EQ(strings(at("/paths/~1audio~1generations/get/parameters/0/schema/enum")), states);
}

TEST_F(OpenApi, ListsTheChoicesOfTheCode) {
  Names ids;
  for (const Voice& voice : voices()) {
    ids.emplace(voice.id);
  }
  EXPECT_EQ(strings(schema("GenerationRequest/properties/voice/enum")), ids);
  Names waits;
  for (const Value& what : schema("GenerationDetails/properties/waiting_on/enum").GetArray()) {
    if (!what.IsNull()) {
      waits.emplace(what.GetString());
    }
  }
  Names reasons;
  for (int i = 0; i <= static_cast<int>(WaitingOn::kReference); ++i) {
    reasons.emplace(waiting_on_name(static_cast<WaitingOn>(i)));
  }
  EXPECT_EQ(waits, reasons);
  Names formats;
  for (const OutputFormat format : kOutputFormats) {
    formats.emplace(format_name(format));
  }
  EXPECT_EQ(strings(schema("OutputFormat/enum")), formats);
  const auto& rates = schema("GenerationRequest/properties/sample_rate/enum").GetArray();
  ASSERT_EQ(rates.Size(), kSampleRates.size());
  EXPECT_TRUE(
      std::equal(rates.Begin(), rates.End(), kSampleRates.begin(), [](const Value& a, int b) {
        return a.GetInt() == b;
      }));
}

TEST_F(OpenApi, HasTheLimitsAndDefaultsOfTheCode) {
  const std::string request = "GenerationRequest/properties/";
  EXPECT_EQ(schema(request + "prompt/minLength").GetUint(), 1U);
  EXPECT_EQ(schema(request + "prompt/maxLength").GetUint(), kPromptMax);
  EXPECT_EQ(schema(request + "audio_references/maxItems").GetUint(), kAudioReferencesMax);
  EXPECT_EQ(schema("PublicUrl/maxLength").GetUint(), kUrlMax);
  EXPECT_EQ(at("/components/parameters/IdempotencyKey/schema/maxLength").GetUint(),
            kIdempotencyKeyMax);
  const GenerationRequest defaults;
  EXPECT_EQ(schema(request + "output_format/default").GetString(),
            format_name(defaults.output_format));
  EXPECT_EQ(schema(request + "sample_rate/default").GetInt(), defaults.sample_rate);
  struct Case {
    const char* name;
    Range range;
    double fallback;
  };
  for (const Case& c : {Case{"speed", kSpeedRange, defaults.speed},
                        Case{"volume", kVolumeRange, defaults.volume},
                        Case{"pitch", kPitchRange, defaults.pitch}}) {
    EXPECT_EQ(schema(request + c.name + "/minimum").GetDouble(), c.range.low);
    EXPECT_EQ(schema(request + c.name + "/maximum").GetDouble(), c.range.high);
    EXPECT_EQ(schema(request + c.name + "/default").GetDouble(), c.fallback);
  }
  EXPECT_EQ(schema("Metadata/maxProperties").GetUint(), kMetadataMax);
  EXPECT_EQ(schema("Metadata/propertyNames/minLength").GetUint(), 1U);
  EXPECT_EQ(schema("Metadata/propertyNames/maxLength").GetUint(), kMetadataNameMax);
  EXPECT_EQ(schema("Metadata/additionalProperties/maxLength").GetUint(), kMetadataTextMax);
  EXPECT_EQ(credits(schema(request + "max_credits/minimum").GetInt64()), kChargeMin);
  EXPECT_EQ(credits(schema(request + "max_credits/maximum").GetInt64()), kHoldAmount);
  EXPECT_EQ(credits(schema(request + "max_credits/default").GetInt64()), defaults.max_credits);
  EXPECT_EQ(credits(schema("Usage/properties/credits/minimum").GetInt64()), kChargeMin);
  EXPECT_EQ(credits(schema("Usage/properties/credits/maximum").GetInt64()), kHoldAmount);
  EXPECT_EQ(schema("Output/properties/duration_seconds/maximum").GetInt(), kAudioSecondsMax);
}

TEST_F(OpenApi, EveryObjectOfABodyIsClosed) {
  for (const char* name : {"GenerationRequest",
                           "Generation",
                           "Output",
                           "Usage",
                           "Billing",
                           "GenerationError",
                           "ErrorBody",
                           "ErrorBody/properties/error",
                           "GenerationList",
                           "ListedGeneration",
                           "ErrorBodyWithParam",
                           "ErrorBodyWithParam/properties/error",
                           "Account",
                           "ApiKey",
                           "ApiKeyWithSecret",
                           "ApiKeyList",
                           "NewApiKey",
                           "ApiKeyChange",
                           "SpendLimit",
                           "ApiKeyRotation",
                           "LedgerEntry",
                           "LedgerList",
                           "UsageReport",
                           "UsageBucket",
                           "UsageCounts"}) {
    EXPECT_TRUE(schema(std::string(name) + "/additionalProperties").IsFalse()) << name;
    for (const auto& required : schema(std::string(name) + "/required").GetArray()) {
      EXPECT_TRUE(schema(std::string(name) + "/properties").HasMember(required)) << name;
    }
  }
  EXPECT_EQ(members(schema("Generation/properties")),
            (Names{"id",
                   "object",
                   "model",
                   "status",
                   "created_at",
                   "updated_at",
                   "output",
                   "usage",
                   "billing",
                   "error"}));
  // What a member of it has, and no more: a client's own types were written by these.
  EXPECT_EQ(members(schema("Output/properties")),
            (Names{"url", "duration_seconds", "format", "expires_at", "deleted_at"}));
  EXPECT_EQ(strings(schema("Output/required")), (Names{"url", "duration_seconds", "format"}));
  EXPECT_EQ(members(schema("Usage/properties")), (Names{"credits"}));
  EXPECT_EQ(strings(schema("Usage/required")), (Names{"credits"}));
  EXPECT_EQ(members(schema("Billing/properties")),
            (Names{"reserved_credits", "charged_credits", "returned_credits"}));
  EXPECT_EQ(strings(schema("Billing/required")), (Names{"reserved_credits"}));
  for (const char* const side : {"properties", "required"}) {
    const Value& failure = schema("GenerationError/" + std::string(side));
    EXPECT_EQ(failure.IsObject() ? members(failure) : strings(failure),
              (Names{"code", "message", "retriable"}));
    const Value& error = schema("ErrorBody/properties/error/" + std::string(side));
    EXPECT_EQ(error.IsObject() ? members(error) : strings(error),
              (Names{"code", "message", "request_id"}));
  }
  EXPECT_EQ(members(schema("ErrorBody/properties")), (Names{"error"}));
}

TEST_F(OpenApi, HasTheScopesAndLimitsOfKeys) {
  Names scopes;
  for (const Scope scope : kScopes) {
    scopes.emplace(scope_name(scope));
  }
  EXPECT_EQ(strings(schema("Scopes/items/enum")), scopes);
  EXPECT_EQ(schema("Scopes/maxItems").GetUint(), kScopes.size());
  for (const char* const name : {"NewApiKey", "ApiKeyChange"}) {
    const std::string path = std::string(name) + "/properties/";
    EXPECT_EQ(schema(path + "name/maxLength").GetUint(), kKeyNameMax);
    EXPECT_EQ(members(schema(std::string(name) + "/properties")),
              (Names{"name", "scopes", "expires_at", "spend_limit"}));
  }
  EXPECT_EQ(schema("SpendLimit/properties/credits/minimum").GetInt64(), kSpendLimitMin);
  EXPECT_EQ(schema("SpendLimit/properties/credits/maximum").GetInt64(), kSpendLimitMax);
  EXPECT_EQ(strings(schema("SpendLimit/properties/period/enum")),
            (Names{std::string(period_name(SpendPeriod::kDay)),
                   std::string(period_name(SpendPeriod::kMonth))}));
  EXPECT_EQ(schema("ApiKeyRotation/properties/overlap_hours/maximum").GetInt(),
            kKeyOverlapMax.count());
  const auto usual = parse_new_key(R"({"name":"k"})");
  ASSERT_TRUE(usual);
  Names defaults;
  for (const Scope scope : kScopes) {
    if (usual->scopes.has(scope)) {
      defaults.emplace(scope_name(scope));
    }
  }
  EXPECT_EQ(strings(schema("NewApiKey/properties/scopes/default")), defaults);
}

// An item of the list is the resource and what was asked for: it must not come to lag behind.
TEST_F(OpenApi, AListedGenerationIsAGenerationAndMore) {
  const auto& generation = schema("Generation/properties").GetObject();
  for (const auto& member : generation) {
    EXPECT_EQ(schema("ListedGeneration/properties/" + std::string(member.name.GetString())),
              member.value)
        << member.name.GetString();
  }
  // The prompt, the metadata and the key.
  EXPECT_EQ(members(schema("ListedGeneration/properties")).size(), generation.MemberCount() + 3);
  EXPECT_STREQ(schema("ListedGeneration/properties/metadata/anyOf/0/$ref").GetString(),
               "#/components/schemas/Metadata");
}

// Each member of the request schema is one the code knows, and no other.
TEST_F(OpenApi, HasTheMembersOfARequest) {
  const Names published = members(schema("GenerationRequest/properties"));
  EXPECT_EQ(published.size(), 12U);
  for (const std::string& name : published) {
    const auto refused =
        parse_request("{\"" + name + "\":null}", {.model_name = "svc-audio-1.0", .any_url = false});
    ASSERT_FALSE(refused);
    EXPECT_TRUE(refused.error().message.starts_with(name + " must be ")) << refused.error().message;
  }
}

// What is published as an answer is what is answered.
TEST_F(OpenApi, ExamplesOfRefusalsAreInTheWordsOfTheCode) {
  for (const auto& [name, members] :
       {std::pair<std::string, std::string>{"max_credits", R"("max_credits":9)"},
        {"metadata", R"("metadata":{"order":")" + std::string(kMetadataTextMax + 1, 'x') + "\"}"},
        {"reference", R"("audio_references":["https://a.example/1","http://localhost/2"])"}}) {
    const auto refused = parse_request(R"({"model":"svc-audio-1.0","prompt":"x",)" + members + "}",
                                       {.model_name = "svc-audio-1.0", .any_url = false});
    ASSERT_FALSE(refused) << name;
    const Value& error =
        at("/paths/~1audio~1estimates/post/responses/400/content/application~1json/examples/" +
           name + "/value/error");
    EXPECT_EQ(error["message"].GetString(), refused.error().message);
    EXPECT_EQ(error["param"].GetString(), refused.error().param);
  }
  const ApiError outlives = expiry_not_own(format_iso(*parse_iso("2027-01-01T00:00:00Z")));
  for (const std::string operation :
       {"keys/post", "keys~1{key_id}/patch", "keys~1{key_id}~1rotate/post"}) {
    EXPECT_EQ(at("/paths/~1account~1" + operation +
                 "/responses/403/content/application~1json/examples/outlives/value/error/message")
                  .GetString(),
              outlives.message);
  }
}

// Every example of a request is accepted, and every reference has a target.
TEST_F(OpenApi, ExamplesAreAcceptedAndReferencesResolve) {
  for (const auto& example :
       at("/paths/~1audio~1generations/post/requestBody/content/application~1json/examples")
           .GetObject()) {
    const Value& value = example.value["value"];
    std::string body = "{";
    for (const auto& member : value.GetObject()) {
      body += (body.size() > 1 ? "," : "") + ("\"" + std::string(member.name.GetString())) + "\":";
      if (member.value.IsString()) {
        body += "\"" + std::string(member.value.GetString()) + "\"";
      } else if (member.value.IsObject()) {
        body += "{";
        for (const auto& pair : member.value.GetObject()) {
          body += (body.ends_with('{') ? "\"" : ",\"") + std::string(pair.name.GetString()) +
                  "\":\"" + pair.value.GetString() + "\"";
        }
        body += "}";
      } else if (member.value.IsArray()) {
        body += "[\"" + std::string(member.value[0].GetString()) + "\"]";
      } else {
        body += std::to_string(member.value.GetDouble());
      }
    }
    const auto parsed =
        parse_request(body + "}", {.model_name = "svc-audio-1.0", .any_url = false});
    EXPECT_TRUE(parsed) << example.name.GetString() << ": " << parsed.error().message;
  }
  std::vector<const Value*> open{&document_};
  while (!open.empty()) {
    const Value& value = *open.back();
    open.pop_back();
    if (value.IsObject()) {
      for (const auto& member : value.GetObject()) {
        if (std::string_view(member.name.GetString()) == "$ref") {
          at(member.value.GetString() + 1);
        }
        open.push_back(&member.value);
      }
    } else if (value.IsArray()) {
      for (const Value& item : value.GetArray()) {
        open.push_back(&item);
      }
    }
  }
}

}  // namespace
}  // namespace audiogen
