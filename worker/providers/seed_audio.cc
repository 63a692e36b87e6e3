#include "worker/providers/seed_audio.h"

#include <array>
#include <charconv>
#include <cmath>
#include <string>
#include <utility>

#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include "common/base/base64.h"
#include "common/domain/voices.h"
#include "worker/providers/models.h"
#include "worker/providers/transport/blame.h"
#include "worker/providers/transport/direct.h"
#include "worker/providers/transport/wire.h"

namespace audiogen::seed_audio {
namespace {

using Writer = rapidjson::Writer<rapidjson::StringBuffer>;

constexpr const char* kIdHeader = "x-tt-logid";
constexpr std::array<ProviderOption, 3> kOptions = {{
    models::kReferences,
    {.name = "speed",
     .fallback = "native",
     .about = "who makes it faster or slower: the model (`native`), or we by stretching what it "
              "sends, which is exact (`ours`)",
     .choices = kNativeOrOurs},
    {.name = "pitch",
     .fallback = "native",
     .about = "the same of the pitch; the model knows whole semitones, we do the rest",
     .choices = kNativeOrOurs},
}};
constexpr const char* kStatusHeader = "x-api-status-code";

void write(Writer& json, const char* name, std::string_view text) {
  json.Key(name);
  json.String(text.data(), static_cast<rapidjson::SizeType>(text.size()));
}

// 0.5..2.0 is -50..100 (percent beyond the normal).
int speech_rate(double speed) {
  return static_cast<int>(std::lround((speed - 1.0) * 100.0));
}

int pitch_rate(double semitones) {
  return static_cast<int>(std::lround(semitones));
}

bool sends_speaker(const ProviderEntry& entry, const GenerationRequest& asked) {
  return asked.audio_references.empty() && !asked.image_url && speaker(asked.voice) &&
         !entry.voices.empty();
}

// A speaker, or references, or an image; the array may not be empty.
void write_references(Writer& json, const ProviderEntry& entry, const ProviderRequest& request) {
  const GenerationRequest& asked = *request.request;
  const bool by_name = sends_speaker(entry, asked);
  if (asked.audio_references.empty() && !asked.image_url && !by_name) {
    return;
  }
  json.Key("references");
  json.StartArray();
  const auto one = [&json](const char* name, std::string_view text) {
    json.StartObject();
    write(json, name, text);
    json.EndObject();
  };
  for (std::size_t i = 0; i < asked.audio_references.size(); ++i) {
    if (models::sends_bytes(entry)) {
      one("audio_data", encode_base64(request.references->sounds[i].bytes));
    } else {
      one("audio_url", asked.audio_references[i]);
    }
  }
  if (asked.image_url) {
    if (models::sends_bytes(entry)) {
      one("image_data", encode_base64(request.references->image->bytes));
    } else {
      one("image_url", *asked.image_url);
    }
  }
  if (by_name) {
    one("speaker", voice_of(entry, asked));
  }
  json.EndArray();
}

struct Outcome {
  std::int64_t code = 0;
  std::string message;  // For classify() alone.
};

std::int64_t number_of(const rapidjson::Value& object, const char* name) {
  const rapidjson::Value* const value = wire::member(object, name);
  return value != nullptr && value->IsInt64() ? value->GetInt64() : 0;
}

// The code may be at the top, in "header", or in a header line.
Outcome outcome_of(const rapidjson::Document& document, const http::ClientResponse& response) {
  Outcome out;
  const rapidjson::Value* const header = wire::member(document, "header");
  for (const rapidjson::Value* place : {static_cast<const rapidjson::Value*>(&document), header}) {
    if (place != nullptr && place->IsObject() && out.code == 0) {
      out.code = number_of(*place, "code");
      out.message = wire::text_of(*place, "message");
    }
  }
  if (out.code == 0) {
    const std::string_view line = response.header(kStatusHeader);
    std::from_chars(line.data(), line.data() + line.size(), out.code);
    out.code = out.code == 20'000'000 ? 0 : out.code;  // Also "well done".
  }
  return out;
}

void promise(const ProviderEntry& entry, Capabilities& able) {
  able.audio_references = true;
  able.image = true;
  able.reference_bytes = models::sends_bytes(entry);
  if (is_native(entry, "speed")) {
    able.native_speed = kSpeedRange;
  }
  if (is_native(entry, "pitch")) {
    able.native_pitch = kPitchRange;
  }
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// "quota exceeded for types: concurrency", or "qps", is over soon; of "text_words_lifetime" there
// is no more until somebody buys it. Which code it comes with differs: 45000000 or 45000292.
// A message may quote what the client wrote.
std::optional<Fault> of_quota(std::string_view message, std::string_view of_client) {
  constexpr std::string_view kWords = "quota exceeded";
  if (!contains(message, kWords) || contains(of_client, kWords)) {
    return std::nullopt;
  }
  const bool passing = contains(message, "concurrency") || contains(message, "qps");
  return passing ? Fault::kThrottled : Fault::kMisconfigured;
}

}  // namespace

http::ClientRequest build(const ProviderEntry& entry, const ProviderRequest& request) {
  const GenerationRequest& asked = *request.request;
  rapidjson::StringBuffer body;
  Writer json(body);
  json.StartObject();
  write(json, "model", entry.model);
  write(json, "text_prompt", asked.prompt);
  write_references(json, entry, request);
  json.Key("audio_config");
  json.StartObject();
  // Lossless: our pipeline decodes and encodes again whatever it gets.
  write(json, "format", "wav");
  json.Key("sample_rate");
  json.Int(asked.sample_rate);
  json.Key("speech_rate");
  json.Int(is_native(entry, "speed") ? speech_rate(asked.speed) : 0);
  json.Key("loudness_rate");
  json.Int(0);  // The pipeline turns the volume, behind its limiter.
  json.Key("pitch_rate");
  json.Int(is_native(entry, "pitch") ? pitch_rate(asked.pitch) : 0);
  json.EndObject();
  json.EndObject();
  auto out = post_json(entry, entry.base_url + "/api/v3/tts/create", body.GetString());
  out.headers.push_back("X-Api-Key: " + entry.api_key);
  out.headers.push_back("X-Api-Request-Id: " + wire::request_uuid(request.request_key));
  return out;
}

Fault classify(
    int status, std::int64_t code, std::string_view message, std::string_view prompt, Voice voice) {
  switch (code) {
    case 0:
      return status == 200               ? Fault::kTryNext
             : blame::is_refusal(status) ? Fault::kBrokenByInput
                                         : wire::fault_of_status(status);
    case 45000000:  // Bad JSON, too large, or of a quota.
      return of_quota(message, prompt).value_or(blame::by_words(message, prompt));
    case 45000001:
    case 45001001:  // Bad argument.
      return blame::by_words(message, prompt);
    case 45000292:
      return of_quota(message, prompt).value_or(Fault::kThrottled);
    case 45001115:  // No such reference voice.
      return voice == Voice::kOfEntry ? Fault::kMisconfigured : Fault::kUnsupportedInput;
    case 45001116:
    case 45001117:  // The prompt or the reference is too long.
      return Fault::kUnsupportedInput;
    case 45000010:
    case 45000030:  // The key, or what it may use.
      return Fault::kMisconfigured;
    case 45001104:
    case 45001125:
    case 45001127:
    case 45001130:
    case 55001310:
    case 55001311:  // Voiceprint or moderation, of what went in or came out.
      return Fault::kRejected;
    case 45001131:
    case 45001132:  // It could not fetch the reference, which may be there for us alone.
    case 55001309:  // More than two minutes would come of it.
      return Fault::kBrokenByInput;
    case 55000000:
      return contains(message, "mismatch") ? Fault::kMisconfigured : Fault::kRetrySame;
    default:
      return code >= 55'000'000 && code < 56'000'000 ? Fault::kRetrySame
             : status == 429                         ? Fault::kThrottled
                                                     : Fault::kTryNext;
  }
}

Result<Audio, ProviderFault> read(const ProviderEntry& entry,
                                  const GenerationRequest& request,
                                  http::ClientResponse response) {
  rapidjson::Document document;
  const bool readable = wire::parse_object(response.body, document);
  const Outcome outcome = readable ? outcome_of(document, response) : Outcome{};
  if (response.status != 200 || outcome.code != 0) {
    // All that is the client's and that its message may quote.
    std::string of_client = request.prompt + " " + request.image_url.value_or("");
    for (const std::string& reference : request.audio_references) {
      of_client += " " + reference;
    }
    return wire::fault(classify(response.status,
                                outcome.code,
                                outcome.message,
                                of_client,
                                sends_speaker(entry, request) ? Voice::kOfEntry : Voice::kOfClient),
                       response,
                       outcome.code == 0 ? "" : std::to_string(outcome.code),
                       kIdHeader);
  }
  if (!readable) {
    return wire::fault(Fault::kTryNext, response, "not_json", kIdHeader);
  }
  auto bytes = decode_base64(wire::text_of(document, "audio"));
  if (!bytes) {
    return wire::no_audio(response, "bad_base64", response.header(kIdHeader));
  }
  auto audio = wire::audio_of(std::move(*bytes), "", AudioType::kWav, request.sample_rate);
  if (audio && is_native(entry, "speed")) {
    audio->speed_applied = 1.0 + speech_rate(request.speed) / 100.0;
  }
  if (audio && is_native(entry, "pitch")) {
    audio->pitch_applied = pitch_rate(request.pitch);
  }
  return wire::billed(std::move(audio), wire::thousandths_in(document, "original_duration"));
}

constinit const ProviderKind kKind = {
    .name = "seed_audio",
    .about = "Seed Audio of BytePlus and Volcengine: scenes, with references or an image",
    .base_url = "https://voice.ap-southeast-1.bytepluses.com",
    .model = "seed-audio-1.0",
    .timeout = std::chrono::seconds(120),
    .makes = Makes::kScene,
    .needs_key = true,
    .reports = PriceUnit::kAudioSecond,
    .options = kOptions,
    .promise = &promise,
    .format = DirectFormat{&build, &read},
};

}  // namespace audiogen::seed_audio
