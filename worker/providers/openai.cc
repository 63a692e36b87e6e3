#include "worker/providers/openai.h"

#include <array>
#include <string>
#include <utility>

#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include "worker/providers/transport/direct.h"
#include "worker/providers/transport/wire.h"

namespace audiogen::openai {
namespace {

constexpr int kPcmRate = 24000;  // Hz; the only one the format knows.
constexpr std::array<std::string_view, 6> kFormats = {"wav", "pcm", "flac", "mp3", "opus", "match"};
constexpr std::array<std::string_view, 3> kWhoseSpeed = {"auto", "native", "ours"};
constexpr std::array<ProviderOption, 2> kOptions = {{
    {.name = "response_format",
     .fallback = "wav",
     .about = "what is asked for: `wav`, `pcm`, `flac`, `mp3`, `opus`, or `match`: the client's "
              "own format at 24 kHz, delivered untouched where nothing is left to change",
     .choices = kFormats},
    {.name = "speed",
     .fallback = "auto",
     .about = "who makes it faster or slower: the model (`native`), or we by stretching what it "
              "sends, which is exact (`ours`); `auto`: `tts-1` and `tts-1-hd` do, others may "
              "ignore it",
     .choices = kWhoseSpeed},
}};
constexpr std::size_t kInputMax = 4096;
constexpr Range kSpeed{0.25, 4.0};
constexpr const char* kIdHeader = "x-request-id";

// Lossless unless told otherwise: our pipeline decodes and encodes again whatever it gets, and a
// second lossy pass is audible.
std::string format_for(const ProviderEntry& entry, const GenerationRequest& request) {
  if (entry.option("response_format") != "match") {
    return entry.option("response_format");
  }
  if (request.sample_rate != kPcmRate) {
    return "wav";
  }
  switch (request.output_format) {
    case OutputFormat::kMp3:
      return "mp3";
    case OutputFormat::kOggOpus:
      return "opus";
    case OutputFormat::kPcm:
      return "pcm";
    case OutputFormat::kWav:
      return "wav";
  }
  return "wav";
}

// What a model ignores is the wrong length, at the wrong price.
bool sends_speed(const ProviderEntry& entry) {
  const std::string& whose = entry.option("speed");
  return whose == "auto" ? entry.model == "tts-1" || entry.model == "tts-1-hd" : whose == "native";
}

struct Refusal {
  std::string code, param;
};

Refusal refusal_of(std::string& body) {
  rapidjson::Document document;
  if (!wire::parse_object(body, document)) {
    return {};
  }
  const rapidjson::Value* const error = wire::member(document, "error");
  if (error == nullptr) {
    return {};
  }
  const std::string_view code = wire::text_of(*error, "code");
  return {.code = std::string(code.empty() ? wire::text_of(*error, "type") : code),
          .param = std::string(wire::text_of(*error, "param"))};
}

void promise(const ProviderEntry& entry, Capabilities& able) {
  able.prompt_max = kInputMax;
  if (sends_speed(entry)) {
    able.native_speed = kSpeed;
  }
}

}  // namespace

http::ClientRequest build(const ProviderEntry& entry, const ProviderRequest& request) {
  const GenerationRequest& asked = *request.request;
  const std::string voice = voice_of(entry, asked);
  const std::string format = format_for(entry, asked);
  rapidjson::StringBuffer body;
  rapidjson::Writer<rapidjson::StringBuffer> json(body);
  json.StartObject();
  json.Key("model");
  json.String(entry.model.c_str());
  json.Key("input");
  json.String(asked.prompt.data(), static_cast<rapidjson::SizeType>(asked.prompt.size()));
  json.Key("voice");
  json.String(voice.c_str());
  json.Key("response_format");
  json.String(format.c_str());
  if (asked.speed != 1.0 && sends_speed(entry)) {
    json.Key("speed");
    json.Double(asked.speed);
  }
  json.EndObject();
  auto out = post_json(entry, entry.base_url + "/audio/speech", body.GetString());
  if (!entry.api_key.empty()) {
    out.headers.push_back("Authorization: Bearer " + entry.api_key);
  }
  out.headers.push_back("X-Client-Request-Id: " + wire::request_uuid(request.request_key));
  return out;
}

Fault classify(int status, std::string_view code, std::string_view param) {
  if (code == "content_policy_violation" || code == "content_filter" ||
      code == "moderation_blocked") {
    return Fault::kRejected;
  }
  // The same status as "slower, please", the opposite meaning: a person must act.
  if (code == "insufficient_quota" || code == "credit_balance_exhausted" ||
      code == "model_not_found") {
    return Fault::kMisconfigured;
  }
  const Fault fault = wire::fault_of_status(status);
  // Of what we send the text and the speed alone are the client's.
  return fault == Fault::kUnsupportedInput && !param.empty() && param != "input" && param != "speed"
             ? Fault::kMisconfigured
             : fault;
}

Result<Audio, ProviderFault> read(const ProviderEntry& entry,
                                  const GenerationRequest& request,
                                  http::ClientResponse response) {
  if (response.status != 200) {
    const auto [code, param] = refusal_of(response.body);
    return wire::fault(classify(response.status, code, param),
                       response,
                       param.empty() ? code : code + ":" + param,
                       kIdHeader);
  }
  const std::string type(response.header("content-type"));
  const AudioType expected =
      format_for(entry, request) == "pcm" ? AudioType::kPcmS16Le : AudioType::kWav;
  auto audio = wire::audio_of(std::move(response.body), type, expected, kPcmRate);
  if (audio && sends_speed(entry)) {
    audio->speed_applied = request.speed;
  }
  return audio;
}

// Compatible servers in the house often need no key.
constinit const ProviderKind kKind = {
    .name = "openai",
    .about = "any compatible `/audio/speech`",
    .base_url = "https://api.openai.com/v1",
    .options = kOptions,
    .check = [](ProviderEntry& entry,
                const Complain& complain) { require_voices(entry, complain); },
    .promise = &promise,
    .format = DirectFormat{&build, &read},
};

}  // namespace audiogen::openai
