#include "worker/providers/elevenlabs.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <utility>

#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include "worker/providers/transport/direct.h"
#include "worker/providers/transport/wire.h"

namespace audiogen::elevenlabs {
namespace {

// ulaw and alaw are left out: telephone quality.
constexpr std::array<std::string_view, 26> kFormats = {
    "mp3_22050_32",  "mp3_24000_48",  "mp3_44100_32",   "mp3_44100_64",   "mp3_44100_96",
    "mp3_44100_128", "mp3_44100_192", "pcm_8000",       "pcm_16000",      "pcm_22050",
    "pcm_24000",     "pcm_32000",     "pcm_44100",      "pcm_48000",      "opus_48000_32",
    "opus_48000_64", "opus_48000_96", "opus_48000_128", "opus_48000_192", "wav_8000",
    "wav_16000",     "wav_22050",     "wav_24000",      "wav_32000",      "wav_44100",
    "wav_48000"};
constexpr std::array<std::string_view, 2> kWhose = {"native", "ours"};
constexpr std::array<std::string_view, 2> kModes = {"speech", "sound"};
constexpr std::array<ProviderOption, 3> kOptions = {{
    {.name = "output_format",
     .fallback = "pcm_24000",
     .about = "one of its format names; `wav_…` for speech alone",
     .choices = kFormats},
    {.name = "mode",
     .fallback = "speech",
     .about = "`speech`, or `sound`: sound generation, which has no voices and another default for "
              "`model`",
     .choices = kModes},
    {.name = "speed",
     .fallback = "native",
     .about =
         "who makes speech faster or slower: the model, as far as its range of 0.7 to 1.2 goes "
         "(`native`), or we by stretching what it sends, which is exact (`ours`)",
     .choices = kWhose},
}};
constexpr std::string_view kSpeechModel = "eleven_multilingual_v2";
constexpr std::string_view kSoundModel = "eleven_text_to_sound_v2";
// The part of our range that every model takes; the pipeline does the rest.
constexpr Range kSpeed{0.7, 1.2};
constexpr const char* kIdHeader = "request-id";

bool is_sound(const ProviderEntry& entry) {
  return entry.option("mode") == "sound";
}

bool sends_speed(const ProviderEntry& entry) {
  return !is_sound(entry) && entry.option("speed") == "native";
}

double native_speed(const GenerationRequest& request) {
  return std::clamp(request.speed, kSpeed.low, kSpeed.high);
}

// "pcm_24000" → 24000.
int rate_of(std::string_view format) {
  int rate = 0;
  const auto at = format.find('_') + 1;
  std::from_chars(format.data() + at, format.data() + format.size(), rate);
  return rate;
}

std::size_t prompt_max(std::string_view model) {
  if (model.find("flash") != std::string_view::npos ||
      model.find("turbo") != std::string_view::npos) {
    return 40'000;
  }
  return model == "eleven_v2" ? 30'000 : 10'000;
}

struct Refusal {
  std::string code, param;
};

// One status, or a list of members that are wrong, of which the first is enough.
Refusal refusal_of(std::string& body) {
  rapidjson::Document document;
  if (!wire::parse_object(body, document)) {
    return {};
  }
  const rapidjson::Value* const detail = wire::member(document, "detail");
  if (detail == nullptr) {
    return {};
  }
  return {.code = std::string(wire::text_of(*detail, "status")),
          .param = wire::bad_member(*detail)};
}

void check(ProviderEntry& entry, const Complain& complain) {
  if (entry.model.empty()) {
    entry.model = is_sound(entry) ? kSoundModel : kSpeechModel;
  }
  if (!is_sound(entry)) {
    require_voices(entry, complain);
    return;
  }
  entry.makes = Makes::kScene;
  if (entry.option("output_format").starts_with("wav_")) {
    complain("options: output_format may be wav_… for speech alone");
  }
}

void promise(const ProviderEntry& entry, Capabilities& able) {
  able.prompt_max = prompt_max(entry.model);
  if (sends_speed(entry)) {
    able.native_speed = kSpeed;
  }
}

}  // namespace

http::ClientRequest build(const ProviderEntry& entry, const ProviderRequest& request) {
  const GenerationRequest& asked = *request.request;
  rapidjson::StringBuffer body;
  rapidjson::Writer<rapidjson::StringBuffer> json(body);
  json.StartObject();
  json.Key("text");
  json.String(asked.prompt.data(), static_cast<rapidjson::SizeType>(asked.prompt.size()));
  json.Key("model_id");
  json.String(entry.model.c_str());
  if (sends_speed(entry) && asked.speed != 1.0) {
    json.Key("voice_settings");
    json.StartObject();
    json.Key("speed");
    json.Double(native_speed(asked));
    json.EndObject();
  }
  json.EndObject();
  const std::string path =
      is_sound(entry) ? "/v1/sound-generation"
                      : "/v1/text-to-speech/" + wire::percent_encode(voice_of(entry, asked));
  auto out = post_json(entry,
                       entry.base_url + path + "?output_format=" + entry.option("output_format"),
                       body.GetString());
  out.headers.push_back("xi-api-key: " + entry.api_key);
  return out;
}

Fault classify(int status, std::string_view code, std::string_view param) {
  if (code == "content_against_policy") {
    return Fault::kRejected;
  }
  // Who pays, and which voices there are, is between us and the provider.
  if (code == "quota_exceeded" || code == "invalid_api_key" || code == "voice_not_found") {
    return Fault::kMisconfigured;
  }
  // Of what we send the text and the speed alone are the client's.
  if (status == 422 && !param.empty() && param != "text" && param != "speed") {
    return Fault::kMisconfigured;
  }
  if (status == 409 || status == 425 ||
      (status >= 500 && status <= 599 && status != 504 && status != 524)) {
    return Fault::kRetrySame;
  }
  return wire::fault_of_status(status);
}

Result<Audio, ProviderFault> read(const ProviderEntry& entry,
                                  const GenerationRequest& request,
                                  http::ClientResponse response) {
  if (response.status != 200) {
    const auto [code, param] = refusal_of(response.body);
    return wire::fault(
        classify(response.status, code, param), response, code.empty() ? param : code, kIdHeader);
  }
  const std::string type(response.header("content-type"));
  const bool pcm = entry.option("output_format").starts_with("pcm_");
  auto audio = wire::audio_of(std::move(response.body),
                              type,
                              pcm ? AudioType::kPcmS16Le : AudioType::kMp3,
                              rate_of(entry.option("output_format")));
  if (audio && sends_speed(entry)) {
    audio->speed_applied = native_speed(request);
  }
  return audio;
}

constinit const ProviderKind kKind = {
    .name = "elevenlabs",
    .about = "ElevenLabs: text to speech, or sounds",
    .base_url = "https://api.elevenlabs.io",
    .needs_key = true,
    .options = kOptions,
    .check = &check,
    .promise = &promise,
    .format = DirectFormat{&build, &read},
};

}  // namespace audiogen::elevenlabs
