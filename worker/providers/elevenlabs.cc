#include "worker/providers/elevenlabs.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <utility>

#include "worker/providers/extras.h"
#include "worker/providers/transport/blame.h"
#include "worker/providers/transport/direct.h"
#include "worker/providers/transport/wire.h"

namespace audiogen::elevenlabs {
namespace {

// ulaw and alaw are left out: telephone quality.
constexpr std::array<std::string_view, 28> kFormats = {
    "auto",           "match",         "mp3_22050_32",  "mp3_24000_48",  "mp3_44100_32",
    "mp3_44100_64",   "mp3_44100_96",  "mp3_44100_128", "mp3_44100_192", "pcm_8000",
    "pcm_16000",      "pcm_22050",     "pcm_24000",     "pcm_32000",     "pcm_44100",
    "pcm_48000",      "opus_48000_32", "opus_48000_64", "opus_48000_96", "opus_48000_128",
    "opus_48000_192", "wav_8000",      "wav_16000",     "wav_22050",     "wav_24000",
    "wav_32000",      "wav_44100",     "wav_48000"};
constexpr std::array<std::string_view, 3> kModes = {"speech", "sound", "music"};
constexpr Range kSeeds{0, 4'294'967'295};
constexpr std::array<ProviderOption, 7> kOptions = {{
    {.name = "output_format",
     .fallback = "auto",
     .about =
         "one of its format names, `wav_…` and `pcm_…` for speech alone; `match`: the client's "
         "own format and rate where it has that, else `pcm_…` at his rate; `auto`: "
         "`pcm_24000`. Sounds and music come as MP3: `mp3_44100_128` and `mp3_44100_192`",
     .choices = kFormats},
    {.name = "mode",
     .fallback = "speech",
     .about = "`speech`; `sound`: sound generation; `music`: both have no voices, make scenes and "
              "have another default for `model`",
     .choices = kModes},
    {.name = "speed",
     .fallback = "auto",
     .about =
         "who makes speech faster or slower: the model, as far as its range of 0.7 to 1.2 goes "
         "(`native`), or we by stretching what it sends, which is exact (`ours`); `auto`: the "
         "model, but for `eleven_v3`, which may ignore it",
     .choices = kAutoNativeOrOurs},
    {.name = "language",
     .about = "the language of speech (ISO 639-1), for models that take one; else it is found"},
    {.name = "seed",
     .about = "of speech: equal requests give nearly equal audio; 0 to 4294967295",
     .whole = kSeeds},
    {.name = "voice_settings",
     .about = "of speech: `stability`, `similarity_boost`, `style` from 0 to 1, "
              "`use_speaker_boost`; else as the voice has them",
     .object = true},
    extras::kMembers,
}};
constexpr std::string_view kSpeechModel = "eleven_multilingual_v2";
constexpr std::string_view kSoundModel = "eleven_text_to_sound_v2";
constexpr std::string_view kMusicModel = "music_v1";
// The part of our range that models take; the pipeline does the rest.
constexpr Range kSpeed{0.7, 1.2};
constexpr const char* kIdHeader = "request-id";
constexpr Thousandths kThousand = 1'000;

bool is_speech(const ProviderEntry& entry) {
  return entry.option("mode") == "speech";
}

bool is_music(const ProviderEntry& entry) {
  return entry.option("mode") == "music";
}

// What a model ignores is the wrong length, at the wrong price.
bool sends_speed(const ProviderEntry& entry) {
  return is_speech(entry) && is_native(entry, "speed", !entry.model.starts_with("eleven_v3"));
}

double native_speed(const GenerationRequest& request) {
  return std::clamp(request.speed, kSpeed.low, kSpeed.high);
}

// What the client asked for, where it can be had as it is: nothing is encoded twice then.
std::string matching(const GenerationRequest& request) {
  if (request.output_format == OutputFormat::kMp3 && request.sample_rate == 44100) {
    return "mp3_44100_128";
  }
  if (request.output_format == OutputFormat::kMp3 && request.sample_rate == 24000) {
    return "mp3_24000_48";
  }
  return (request.output_format == OutputFormat::kWav ? "wav_" : "pcm_") +
         std::to_string(request.sample_rate);
}

// Sounds and music in PCM have channels of which nothing is said (sounds have two), so they are
// asked for in a format whose header tells.
std::string format_for(const ProviderEntry& entry, const GenerationRequest& request) {
  const std::string& format = entry.option("output_format");
  if (format != "match" && format != "auto") {
    return format;
  }
  return !is_speech(entry)   ? is_music(entry) ? "mp3_44100_192" : "mp3_44100_128"
         : format == "match" ? matching(request)
                             : "pcm_24000";
}

// "pcm_24000" → 24000.
int rate_of(std::string_view format) {
  int rate = 0;
  const auto at = format.find('_') + 1;
  std::from_chars(format.data() + at, format.data() + format.size(), rate);
  return rate;
}

std::size_t prompt_max(const ProviderEntry& entry) {
  constexpr std::size_t kSoundPromptMax = 450;
  const std::string_view model = entry.model;
  if (!is_speech(entry) && !is_music(entry)) {
    return kSoundPromptMax;
  }
  if (model.find("flash") != std::string_view::npos ||
      model.find("turbo") != std::string_view::npos) {
    return 40'000;
  }
  return model == "eleven_v2" ? 30'000 : 10'000;
}

struct Refusal {
  std::string code, param, message;
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
  const std::string_view status = wire::text_of(*detail, "status");
  return {.code = std::string(status.empty() ? wire::text_of(*detail, "code") : status),
          .param = detail->IsObject() ? std::string(wire::text_of(*detail, "param"))
                                      : wire::bad_member(*detail),
          .message = std::string(wire::text_of(*detail, "message"))};
}

void check_voice_settings(const ProviderEntry& entry, const Complain& complain) {
  const std::string& text = entry.option("voice_settings");
  rapidjson::Document settings;
  settings.Parse<rapidjson::kParseIterativeFlag>(text.empty() ? "{}" : text.c_str());
  for (const auto& [key, value] : std::as_const(settings).GetObject()) {
    const std::string_view name(key.GetString(), key.GetStringLength());
    if (name == "use_speaker_boost") {
      if (!value.IsBool()) {
        complain("options: voice_settings: use_speaker_boost must be true or false");
      }
    } else if (name == "stability" || name == "similarity_boost" || name == "style") {
      if (!value.IsNumber() || value.GetDouble() < 0 || value.GetDouble() > 1) {
        complain("options: voice_settings: " + std::string(name) + " must be a number from 0 to 1");
      }
    } else {
      complain(
          "options: voice_settings may have stability, similarity_boost, style and "
          "use_speaker_boost; the speed is the client's");
    }
  }
}

// What only some modes know.
void check_mode(const ProviderEntry& entry, const Complain& complain) {
  const auto only = [&](const char* option, bool there, const char* modes) {
    if (!entry.option(option).empty() && !there) {
      complain("options: " + std::string(option) + " is for " + modes + " alone");
    }
  };
  const bool speech = is_speech(entry);
  only("language", speech, "speech");
  only("voice_settings", speech, "speech");
  only("seed", speech, "speech");  // Of music only beside a plan of its parts.
  const std::string& format = entry.option("output_format");
  if (!speech && (format.starts_with("wav_") || format.starts_with("pcm_"))) {
    complain("options: output_format may be wav_… or pcm_… for speech alone");
  }
}

void check(ProviderEntry& entry, const Complain& complain) {
  if (entry.model.empty()) {
    entry.model = is_speech(entry) ? kSpeechModel : is_music(entry) ? kMusicModel : kSoundModel;
  }
  if (is_speech(entry)) {
    require_voices(entry, complain);
  } else {
    entry.makes = Makes::kScene;
  }
  check_mode(entry, complain);
  check_voice_settings(entry, complain);
  extras::check(
      entry,
      {.members = {"text", "prompt", "model_id", "language_code", "seed", "voice_settings"}},
      complain);
}

void promise(const ProviderEntry& entry, Capabilities& able) {
  able.prompt_max = prompt_max(entry);
  if (sends_speed(entry)) {
    able.native_speed = kSpeed;
  }
  able.speaks = is_speech(entry);
}

}  // namespace

http::ClientRequest build(const ProviderEntry& entry, const ProviderRequest& request) {
  const GenerationRequest& asked = *request.request;
  extras::Body body(entry);
  extras::set(body, is_music(entry) ? "/prompt" : "/text", asked.prompt);
  extras::set(body, "/model_id", entry.model);
  if (const std::string& settings = entry.option("voice_settings"); !settings.empty()) {
    extras::set_json(body, "/voice_settings", settings);
  }
  if (sends_speed(entry) && asked.speed != 1.0) {
    extras::set(body, "/voice_settings/speed", rapidjson::Value(native_speed(asked)));
  }
  if (const std::string& language = entry.option("language"); !language.empty()) {
    extras::set(body, "/language_code", language);
  }
  if (const std::string& seed = entry.option("seed"); !seed.empty()) {
    extras::set_json(body, "/seed", seed);
  }
  const std::string path =
      is_speech(entry)  ? "/v1/text-to-speech/" + wire::percent_encode(voice_of(entry, asked))
      : is_music(entry) ? "/v1/music"
                        : "/v1/sound-generation";
  auto out = post_json(entry,
                       entry.base_url + path + "?output_format=" + format_for(entry, asked),
                       extras::text_of(body));
  out.headers.push_back("xi-api-key: " + entry.api_key);
  return out;
}

Fault classify(int status, std::string_view code, std::string_view param, Fault by_message) {
  if (code == "content_against_policy") {
    return Fault::kRejected;
  }
  // Who pays, and which voices there are, is between us and the provider.
  if (code == "quota_exceeded" || code == "invalid_api_key" || code == "voice_not_found" ||
      code == "invalid_uid") {
    return Fault::kMisconfigured;
  }
  if (blame::is_refusal(status)) {
    // Of what we send the text and the speed alone are the client's.
    const Fault fault = param.empty() ? blame::by_words(code, "")
                                      : blame::by_name(param, {"text", "prompt", "speed"});
    return fault == Fault::kBrokenByInput ? by_message : fault;
  }
  if (status == 409 || status == 425 ||
      (status >= 500 && status <= 599 && status != 504 && status != 520 && status != 524 &&
       !wire::is_out_of_reach(status))) {
    return Fault::kRetrySame;
  }
  return wire::fault_of_status(status);
}

Result<Audio, ProviderFault> read(const ProviderEntry& entry,
                                  const GenerationRequest& request,
                                  http::ClientResponse response) {
  if (response.status != 200) {
    const auto [code, param, message] = refusal_of(response.body);
    return wire::fault(
        classify(response.status, code, param, blame::by_words(message, request.prompt)),
        response,
        code.empty() ? param : code,
        kIdHeader);
  }
  const std::string type(response.header("content-type"));
  // In characters, so in thousandths of the unit.
  const auto characters = wire::thousandths(response.header("character-cost"));
  const auto billed =
      characters ? std::optional<Thousandths>(*characters / kThousand) : std::nullopt;
  const std::string format = format_for(entry, request);
  const bool pcm = format.starts_with("pcm_");
  auto audio = wire::audio_of(std::move(response.body),
                              type,
                              pcm ? AudioType::kPcmS16Le : AudioType::kMp3,
                              rate_of(format));
  if (audio && sends_speed(entry)) {
    audio->speed_applied = native_speed(request);
  }
  return wire::billed(std::move(audio), billed);
}

constinit const ProviderKind kKind = {
    .name = "elevenlabs",
    .about = "ElevenLabs: text to speech, sounds or music",
    .base_url = "https://api.elevenlabs.io",
    .needs_key = true,
    .reports = PriceUnit::kThousandCharacters,
    .options = kOptions,
    .check = &check,
    .promise = &promise,
    .format = DirectFormat{&build, &read},
};

}  // namespace audiogen::elevenlabs
