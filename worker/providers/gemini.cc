#include "worker/providers/gemini.h"

#include <array>
#include <optional>
#include <string>
#include <utility>

#include "common/base/ascii.h"
#include "common/base/base64.h"
#include "worker/providers/extras.h"
#include "worker/providers/models.h"
#include "worker/providers/transport/blame.h"
#include "worker/providers/transport/direct.h"
#include "worker/providers/transport/wire.h"

namespace audiogen::gemini {
namespace {

constexpr int kPcmRate = 24000;  // Hz; where the answer does not say.
constexpr std::array<ProviderOption, 2> kOptions = {{
    {.name = "language", .about = "the language that is spoken (BCP 47); else the model finds it"},
    extras::kMembers,
}};

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// What the model would not say, or say on.
bool is_refusal(std::string_view reason) {
  return reason == "SAFETY" || reason == "PROHIBITED_CONTENT" || reason == "BLOCKLIST" ||
         reason == "SPII" || reason == "RECITATION";
}

struct Refusal {
  std::string status, reason, delay, field, message;
};

// The first member that is said to be wrong.
std::string_view field_of(const rapidjson::Value& detail) {
  const rapidjson::Value* const wrong = wire::member(detail, "fieldViolations");
  return wrong == nullptr || !wrong->IsArray() || wrong->Empty()
             ? std::string_view()
             : wire::text_of((*wrong)[0], "field");
}

Refusal refusal_of(std::string& body) {
  rapidjson::Document document;
  Refusal out;
  const rapidjson::Value* const error =
      wire::parse_object(body, document) ? wire::member(document, "error") : nullptr;
  if (error == nullptr) {
    return out;
  }
  out.status = wire::text_of(*error, "status");
  out.message = wire::text_of(*error, "message");
  const rapidjson::Value* const details = wire::member(*error, "details");
  if (details != nullptr && details->IsArray()) {
    for (const rapidjson::Value& one : details->GetArray()) {
      if (const std::string_view reason = wire::text_of(one, "reason"); !reason.empty()) {
        out.reason = reason;
      }
      if (const std::string_view delay = wire::text_of(one, "retryDelay"); !delay.empty()) {
        out.delay = delay;
      }
      if (const std::string_view field = field_of(one); out.field.empty()) {
        out.field = field;
      }
    }
  }
  return out;
}

ProviderFault refused(const http::ClientResponse& response,
                      const Refusal& refusal,
                      std::string_view prompt) {
  auto out = wire::fault_with_id(classify(response.status,
                                          refusal.status,
                                          refusal.reason,
                                          refusal.field,
                                          blame::by_words(refusal.message, prompt)),
                                 response,
                                 refusal.reason.empty() ? refusal.status : refusal.reason,
                                 "");
  // "23.5s": whole seconds are enough, and one more is none too early.
  if (is_brief(out.fault) && !out.retry_after) {
    const std::string seconds = refusal.delay.substr(0, refusal.delay.find_first_of(".s"));
    if (auto delay = wire::retry_after(seconds, {})) {
      out.retry_after = contains(refusal.delay, ".") && *delay < wire::kRetryAfterMax
                            ? *delay + std::chrono::seconds(1)
                            : *delay;
    }
  }
  return out;
}

struct Found {
  std::string bytes, type;
};

// The sound of the first answer: its parts, one behind the other. Or what is wrong with it.
Result<Found, std::string> sound_of(const rapidjson::Value& candidate) {
  const rapidjson::Value* const content = wire::member(candidate, "content");
  const rapidjson::Value* const parts =
      content == nullptr ? nullptr : wire::member(*content, "parts");
  Found out;
  if (parts == nullptr || !parts->IsArray()) {
    return std::string("no_audio");
  }
  for (const rapidjson::Value& part : parts->GetArray()) {
    const rapidjson::Value* const data = wire::member(part, "inlineData");
    if (data == nullptr) {
      continue;
    }
    const auto bytes = decode_base64(wire::text_of(*data, "data"));
    if (!bytes) {
      return std::string("bad_base64");
    }
    const std::string_view type = wire::text_of(*data, "mimeType");
    if (!out.bytes.empty() && type != out.type) {
      return std::string("mixed_types");
    }
    out.type = type;
    out.bytes += *bytes;
  }
  return out.bytes.empty() ? Result<Found, std::string>(std::string("no_audio")) : out;
}

bool is_pcm(std::string_view type) {
  const std::string lower = ascii::lower(type.substr(0, type.find(';')));
  return lower == "audio/l16" || lower == "audio/pcm";
}

void check(ProviderEntry& entry, const Complain& complain) {
  require_voices(entry, complain);
  extras::check(entry, {.members = {"contents"}}, complain);
  if (!entry.model.empty() && !models::is_path("models/" + entry.model, "")) {
    complain("model must be the plain name of a model");
  }
}

}  // namespace

http::ClientRequest build(const ProviderEntry& entry, const ProviderRequest& request) {
  const GenerationRequest& asked = *request.request;
  extras::Body body(entry);
  extras::set(body, "/contents/0/parts/0/text", asked.prompt);
  extras::set(body, "/generationConfig/responseModalities/0", "AUDIO");
  const char* const voice = "/generationConfig/speechConfig/voiceConfig";
  extras::set_voice(body,
                    voice,
                    (std::string(voice) + "/prebuiltVoiceConfig/voiceName").c_str(),
                    voice_of(entry, asked));
  if (const std::string& language = entry.option("language"); !language.empty()) {
    extras::set(body, "/generationConfig/speechConfig/languageCode", language);
  }
  auto out = post_json(entry,
                       entry.base_url + "/v1beta/models/" + entry.model + ":generateContent",
                       extras::text_of(body));
  out.headers.push_back("x-goog-api-key: " + entry.api_key);
  return out;
}

Fault classify(int http_status,
               std::string_view status,
               std::string_view reason,
               std::string_view field,
               Fault by_message) {
  // With the status of bad input: a wrong key, and a country or a plan without access.
  if (contains(reason, "API_KEY") || status == "FAILED_PRECONDITION") {
    return Fault::kMisconfigured;
  }
  if (!blame::is_refusal(http_status)) {
    return wire::fault_of_status(http_status);
  }
  // Of what we send the text alone is the client's.
  return field.empty() ? by_message : blame::by_name(field, {"contents"});
}

Result<Audio, ProviderFault> read(const ProviderEntry& /*entry*/,
                                  const GenerationRequest& request,
                                  http::ClientResponse response) {
  if (response.status != 200) {
    return refused(response, refusal_of(response.body), request.prompt);
  }
  const auto fault = [&response](Fault kind, std::string_view code) {
    return wire::fault_with_id(kind, response, code, "");
  };
  rapidjson::Document document;
  if (!wire::parse_object(response.body, document)) {
    return fault(Fault::kTryNext, "not_json");
  }
  if (const rapidjson::Value* const feedback = wire::member(document, "promptFeedback")) {
    const std::string_view reason = wire::text_of(*feedback, "blockReason");
    if (!reason.empty()) {
      return fault(is_refusal(reason) ? Fault::kRejected : Fault::kBrokenByInput, reason);
    }
  }
  const rapidjson::Value* const candidates = wire::member(document, "candidates");
  if (candidates == nullptr || !candidates->IsArray() || candidates->Empty()) {
    return fault(Fault::kTryNext, "no_audio");
  }
  const rapidjson::Value& first = (*candidates)[0];
  // An answer that did not come to its end is cut short, however much of it there is.
  const std::string_view end = wire::text_of(first, "finishReason");
  if (!end.empty() && end != "STOP") {
    return is_refusal(end)     ? fault(Fault::kRejected, end)
           : end == "LANGUAGE" ? fault(Fault::kUnsupportedInput, end)
                               : wire::no_audio(response, end, "");
  }
  auto found = sound_of(first);
  if (!found) {
    return wire::no_audio(response, found.error(), "");
  }
  return wire::audio_of(std::move(found->bytes),
                        found->type,
                        is_pcm(found->type) ? AudioType::kPcmS16Le : AudioType::kWav,
                        kPcmRate);
}

constinit const ProviderKind kKind = {
    .name = "gemini",
    .about = "a speech model of the Gemini API",
    .base_url = "https://generativelanguage.googleapis.com",
    .timeout = std::chrono::seconds(120),
    .needs_key = true,
    .voice_objects = true,
    .options = kOptions,
    .check = &check,
    .format = DirectFormat{&build, &read},
};

}  // namespace audiogen::gemini
