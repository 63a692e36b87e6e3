#include "worker/providers/openai.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "common/base/ascii.h"
#include "worker/providers/extras.h"
#include "worker/providers/transport/blame.h"
#include "worker/providers/transport/direct.h"
#include "worker/providers/transport/wire.h"

namespace audiogen::openai {
namespace {

constexpr int kPcmRate = 24000;  // Hz; where the answer does not say.
constexpr std::size_t kInstructionsMax = 4096;
constexpr std::array<std::string_view, 6> kFormats = {"wav", "pcm", "flac", "mp3", "opus", "match"};
constexpr std::string_view kOwnKeyHeader = "Authorization";
constexpr std::array<ProviderOption, 9> kOptions = {{
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
     .choices = kAutoNativeOrOurs},
    {.name = "instructions",
     .about = "how the model is to speak, with every request; not for `tts-1` and `tts-1-hd`",
     .longest = kInstructionsMax},
    {.name = "voice_member",
     .fallback = "voice",
     .about = "what the server calls the voice (Mistral: `voice_id`)"},
    {.name = "audio_member",
     .about = "for a server that answers with JSON: the member that holds the audio as base64 "
              "(Mistral: `audio_data`)"},
    {.name = "key_header",
     .fallback = kOwnKeyHeader,
     .about = "the header line with our key: after `Bearer` in `Authorization`, alone in any "
              "other (Azure: `api-key`)"},
    extras::kMembers,
    extras::kHeaders,
    extras::kQuery,
}};
constexpr std::size_t kInputMax = 4096;
constexpr Range kSpeed{0.25, 4.0};
constexpr const char* kIdHeader = "x-request-id";
constexpr std::string_view kOwnIdHeader = "X-Client-Request-Id";

bool is_first_model(const ProviderEntry& entry) {
  return entry.model == "tts-1" || entry.model == "tts-1-hd";
}

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
  return is_native(entry, "speed", is_first_model(entry));
}

struct Refusal {
  std::string code, param, message;
};

// Of OpenAI's own form, {"error": {…}}; of Mistral's, which has its members at the top; of servers
// on FastAPI, {"detail": […]}. Many servers say all in one sentence: {"error": "…"}, {"detail":
// "…"}.
Refusal refusal_of(const rapidjson::Document& document) {
  const rapidjson::Value* const detail = wire::member(document, "detail");
  if (detail != nullptr && !detail->IsString()) {
    return {.code = std::string(wire::text_of(*detail, "error")),
            .param = wire::bad_member(*detail),
            .message = std::string(wire::text_of(*detail, "message"))};
  }
  const rapidjson::Value* error = wire::member(document, "error");
  error = error == nullptr || !error->IsObject() ? &document : error;
  // OpenRouter says which kinds of content a moderator found, with the status of a forbidden key.
  const rapidjson::Value* const metadata = wire::member(*error, "metadata");
  if (metadata != nullptr && wire::member(*metadata, "reasons") != nullptr) {
    return {.code = "content_filter", .param = "", .message = ""};
  }
  const std::string_view code = wire::text_of(*error, "code");
  std::string_view message = wire::text_of(*error, "message");
  for (const char* const sentence : {"detail", "error"}) {
    message = message.empty() ? wire::text_of(document, sentence) : message;
  }
  return {.code = std::string(code.empty() ? wire::text_of(*error, "type") : code),
          .param = std::string(wire::text_of(*error, "param")),
          .message = std::string(message)};
}

bool is_member_name(std::string_view text) {
  return std::all_of(
      text.begin(), text.end(), [](char c) { return ascii::is_alnum(c) || c == '_' || c == '-'; });
}

void check(ProviderEntry& entry, const Complain& complain) {
  require_voices(entry, complain);
  const std::string& voice_member = entry.option("voice_member");
  for (const char* const name : {"voice_member", "audio_member", "key_header"}) {
    if (!is_member_name(entry.option(name))) {
      complain("options: " + std::string(name) + " must be letters, digits, '-' and '_'");
    }
  }
  if (!entry.option("instructions").empty() && is_first_model(entry)) {
    complain("options: instructions are not for " + entry.model + ", which refuses them");
  }
  extras::Ours ours = {
      .members = {"model", "input", "response_format", "speed", "instructions", voice_member},
      .headers = {"x-client-request-id"}};
  if (std::find(ours.members.begin(), ours.members.end() - 1, voice_member) !=
      ours.members.end() - 1) {
    complain("options: voice_member may not be '" + voice_member + "', which is something else");
  }
  const std::string key_header = ascii::lower(entry.option("key_header"));
  ours.headers.push_back(key_header);
  extras::check(entry, ours, complain);
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
  extras::Body body(entry);
  extras::set(body, "/model", entry.model);
  extras::set(body, "/input", asked.prompt);
  extras::set(body, "/response_format", format_for(entry, asked));
  const std::string voice = voice_of(entry, asked);
  const std::string voice_at = "/" + entry.option("voice_member");
  extras::set_voice(body, voice_at.c_str(), voice_at.c_str(), voice);
  if (asked.speed != 1.0 && sends_speed(entry)) {
    extras::set(body, "/speed", rapidjson::Value(asked.speed));
  }
  if (const std::string& instructions = entry.option("instructions"); !instructions.empty()) {
    extras::set(body, "/instructions", instructions);
  }
  auto out = post_json(
      entry, entry.base_url + "/audio/speech" + extras::query(entry, '?'), extras::text_of(body));
  if (!entry.api_key.empty()) {
    const std::string& name = entry.option("key_header");
    out.headers.push_back(name + (name == kOwnKeyHeader ? ": Bearer " : ": ") + entry.api_key);
  }
  out.headers.push_back(std::string(kOwnIdHeader) + ": " + wire::request_uuid(request.request_key));
  extras::add_headers(entry, out);
  return out;
}

Fault classify(int status, std::string_view code, std::string_view param, Fault by_message) {
  if (code == "content_policy_violation" || code == "content_filter" ||
      code == "moderation_blocked") {
    return Fault::kRejected;
  }
  // The same status as "slower, please", the opposite meaning: a person must act.
  if (code == "insufficient_quota" || code == "credit_balance_exhausted" ||
      code == "model_not_found" || code.starts_with("billing_")) {
    return Fault::kMisconfigured;
  }
  if (!blame::is_refusal(status)) {
    return wire::fault_of_status(status);
  }
  // Of what we send the text and the speed alone are the client's.
  return param.empty() ? by_message : blame::by_name(param, {"input", "speed"});
}

namespace {

// What some gateways send with 200 all the same: {"error": {…}}. A number for its code is the
// status that it stands for.
std::optional<ProviderFault> refused_with_200(const ProviderEntry& entry,
                                              const http::ClientResponse& response,
                                              const GenerationRequest& request) {
  constexpr std::size_t kErrorMax = 65'536;  // No audio is read twice.
  const auto begin = response.body.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos || response.body[begin] != '{' ||
      response.body.size() > kErrorMax) {
    return std::nullopt;
  }
  rapidjson::Document document;
  std::string body = response.body;
  if (!wire::parse_object(body, document)) {
    return std::nullopt;
  }
  const std::string& audio = entry.option("audio_member");
  if (!audio.empty() && !wire::text_of(document, audio.c_str()).empty()) {
    return std::nullopt;  // There it is.
  }
  const rapidjson::Value* const error = wire::member(document, "error");
  const bool says = error != nullptr && ((error->IsObject() && !error->ObjectEmpty()) ||
                                         (error->IsString() && error->GetStringLength() > 0));
  if (!says) {
    return std::nullopt;
  }
  const auto* const number = error->IsObject() ? wire::member(*error, "code") : nullptr;
  const int told = number != nullptr && number->IsInt() ? number->GetInt() : 0;
  const int status = told >= 400 && told <= 599 ? told : response.status;
  const auto [code, param, message] = refusal_of(document);
  const Fault fault = classify(status, code, param, blame::by_words(message, request.prompt));
  return wire::fault(fault, response, code.empty() ? std::to_string(status) : code, kIdHeader);
}

}  // namespace

Result<Audio, ProviderFault> read(const ProviderEntry& entry,
                                  const GenerationRequest& request,
                                  http::ClientResponse response) {
  if (response.status != 200) {
    rapidjson::Document document;
    const auto [code, param, message] =
        wire::parse_object(response.body, document) ? refusal_of(document) : Refusal();
    const Fault by_message = blame::by_words(message, request.prompt);
    return wire::fault(classify(response.status, code, param, by_message),
                       response,
                       param.empty() ? code : code + ":" + param,
                       kIdHeader);
  }
  if (auto fault = refused_with_200(entry, response, request)) {
    return std::move(*fault);
  }
  std::string type(response.header("content-type"));
  const AudioType expected =
      format_for(entry, request) == "pcm" ? AudioType::kPcmS16Le : AudioType::kWav;
  if (const std::string& member = entry.option("audio_member"); !member.empty()) {
    auto bytes = wire::base64_member(response, member.c_str(), kIdHeader);
    if (!bytes) {
      return bytes.error();
    }
    response.body = std::move(*bytes);
    type.clear();  // Of the JSON around it.
  }
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
    .voice_objects = true,
    .options = kOptions,
    .check = &check,
    .promise = &promise,
    .format = DirectFormat{&build, &read},
};

}  // namespace audiogen::openai
