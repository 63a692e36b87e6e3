#include "worker/providers/minimax.h"

#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "worker/providers/extras.h"
#include "worker/providers/transport/blame.h"
#include "worker/providers/transport/direct.h"
#include "worker/providers/transport/wire.h"

namespace audiogen::minimax {
namespace {

constexpr std::array<std::string_view, 4> kFormats = {"flac", "wav", "pcm", "mp3"};
constexpr std::array<ProviderOption, 4> kOptions = {{
    {.name = "format",
     .fallback = "flac",
     .about = "what is asked for: `flac`, `wav`, `pcm` or `mp3`; what comes is twice as long as "
              "the file, in hexadecimal digits",
     .choices = kFormats},
    {.name = "speed",
     .fallback = "native",
     .about = "who makes it faster or slower: the model (`native`), or we by stretching what it "
              "sends, which is exact (`ours`)",
     .choices = kNativeOrOurs},
    {.name = "pitch",
     .fallback = "native",
     .about = "the same of the pitch; the model knows whole semitones, we do the rest",
     .choices = kNativeOrOurs},
    extras::kMembers,
}};
constexpr Thousandths kThousand = 1'000;
constexpr std::size_t kTextMax = 9'999;  // "Less than 10,000 characters".

double speed_for(const ProviderEntry& entry, const GenerationRequest& request) {
  return is_native(entry, "speed") ? request.speed : 1.0;
}

int pitch_for(const ProviderEntry& entry, const GenerationRequest& request) {
  return is_native(entry, "pitch") ? static_cast<int>(std::lround(request.pitch)) : 0;
}

// 48 kHz is none of theirs.
int rate_for(const GenerationRequest& request) {
  return request.sample_rate == 48000 ? 44100 : request.sample_rate;
}

void check(ProviderEntry& entry, const Complain& complain) {
  require_voices(entry, complain);
  extras::check(entry, {.members = {"model", "text", "stream", "output_format"}}, complain);
}

void promise(const ProviderEntry& entry, Capabilities& able) {
  able.prompt_max = kTextMax;
  if (is_native(entry, "speed")) {
    able.native_speed = kSpeedRange;
  }
  if (is_native(entry, "pitch")) {
    able.native_pitch = kPitchRange;
  }
}

}  // namespace

http::ClientRequest build(const ProviderEntry& entry, const ProviderRequest& request) {
  const GenerationRequest& asked = *request.request;
  extras::Body body(entry);
  extras::set(body, "/model", entry.model);
  extras::set(body, "/text", asked.prompt);
  extras::set(body, "/stream", rapidjson::Value(false));
  extras::set(body, "/output_format", "hex");
  extras::set(body, "/voice_setting/voice_id", voice_of(entry, asked));
  extras::set(body, "/voice_setting/speed", rapidjson::Value(speed_for(entry, asked)));
  extras::set(body, "/voice_setting/pitch", rapidjson::Value(pitch_for(entry, asked)));
  extras::set(body, "/audio_setting/format", entry.option("format"));
  extras::set(body, "/audio_setting/sample_rate", rapidjson::Value(rate_for(asked)));
  extras::set(body, "/audio_setting/channel", rapidjson::Value(1));
  auto out = post_json(entry, entry.base_url + "/v1/t2a_v2", extras::text_of(body));
  out.headers.push_back("Authorization: Bearer " + entry.api_key);
  return out;
}

Fault classify(int status, std::int64_t code, Fault by_message) {
  switch (code) {
    case 0:
      return status == 200               ? Fault::kTryNext
             : blame::is_refusal(status) ? Fault::kBrokenByInput
                                         : wire::fault_of_status(status);
    case 1000:
    case 1001:
    case 1024:
    case 1033:
      return Fault::kRetrySame;
    case 1002:  // Too many requests.
    case 1039:  // Too many tokens a minute.
    case 1041:  // Too many connections.
    case 2045:  // Requests have grown too fast.
      return Fault::kThrottled;
    case 1004:
    case 2049:  // The key.
    case 1008:
    case 2056:  // The account.
    case 2042:
    case 2054:
    case 20132:  // The voice.
      return Fault::kMisconfigured;
    case 1026:
    case 1027:  // What went in or came out.
      return Fault::kRejected;
    case 1042:  // Too much of the text is invisible.
      return Fault::kUnsupportedInput;
    case 2013:  // Bad argument, of whom its sentence alone may tell.
      return by_message;
    default:  // Not in their list; its sentence may tell that a person must act.
      return by_message == Fault::kMisconfigured ? by_message : Fault::kTryNext;
  }
}

Result<Audio, ProviderFault> read(const ProviderEntry& entry,
                                  const GenerationRequest& request,
                                  http::ClientResponse response) {
  rapidjson::Document document;
  const bool readable = wire::parse_object(response.body, document);
  const std::string id(readable ? wire::text_of(document, "trace_id") : "");
  std::int64_t code = 0;
  std::string_view message;
  if (const auto* const base = readable ? wire::member(document, "base_resp") : nullptr) {
    const auto* const number = wire::member(*base, "status_code");
    code = number != nullptr && number->IsInt64() ? number->GetInt64() : 0;
    message = wire::text_of(*base, "status_msg");
  }
  if (response.status != 200 || code != 0) {
    return wire::fault_with_id(
        classify(response.status, code, blame::by_words(message, request.prompt)),
        response,
        code == 0 ? "" : std::to_string(code),
        id);
  }
  if (!readable) {
    return wire::fault_with_id(Fault::kTryNext, response, "not_json", id);
  }
  const auto* const data = wire::member(document, "data");
  auto bytes =
      wire::decode_hex(data == nullptr ? std::string_view() : wire::text_of(*data, "audio"));
  if (!bytes) {
    return wire::no_audio(response, "bad_hex", id);
  }
  // What it bills: a Chinese character counts as two.
  const auto* const extra = wire::member(document, "extra_info");
  const auto characters =
      extra == nullptr ? std::nullopt : wire::thousandths_in(*extra, "usage_characters");
  const auto billed =
      characters ? std::optional<Thousandths>(*characters / kThousand) : std::nullopt;
  const bool pcm = entry.option("format") == "pcm";
  auto audio = wire::audio_of(
      std::move(*bytes), "", pcm ? AudioType::kPcmS16Le : AudioType::kFlac, rate_for(request));
  if (audio) {
    audio->speed_applied = speed_for(entry, request);
    audio->pitch_applied = pitch_for(entry, request);
  }
  return wire::billed(std::move(audio), billed);
}

constinit const ProviderKind kKind = {
    .name = "minimax",
    .about = "MiniMax: text to speech",
    .base_url = "https://api.minimax.io",
    .needs_key = true,
    .reports = PriceUnit::kThousandCharacters,
    .options = kOptions,
    .check = &check,
    .promise = &promise,
    .format = DirectFormat{&build, &read},
};

}  // namespace audiogen::minimax
