#include "worker/providers/deepgram.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "worker/providers/extras.h"
#include "worker/providers/transport/blame.h"
#include "worker/providers/transport/direct.h"
#include "worker/providers/transport/wire.h"

namespace audiogen::deepgram {
namespace {

constexpr std::array<ProviderOption, 2> kOptions = {{
    {.name = "speed",
     .fallback = "native",
     .about =
         "who makes it faster or slower: the model, as far as its range of 0.7 to 1.5 goes and "
         "its voice is one of Aura-2's in English or Spanish (`native`), or we by stretching "
         "what it sends, which is exact (`ours`)",
     .choices = kNativeOrOurs},
    extras::kQuery,
}};
constexpr std::size_t kTextMax = 2000;
constexpr Range kSpeed{0.7, 1.5};
constexpr const char* kIdHeader = "dg-request-id";

// Of linear16; what is asked for at another one we resample.
int rate_for(const GenerationRequest& request) {
  return request.sample_rate == 44100 ? 48000 : request.sample_rate;
}

// The only ones whose speed is promised.
bool takes_speed(const ProviderEntry& entry, std::string_view voice) {
  return is_native(entry, "speed") && voice.starts_with("aura-2-") &&
         (voice.ends_with("-en") || voice.ends_with("-es"));
}

double speed_for(const ProviderEntry& entry, const GenerationRequest& request) {
  return takes_speed(entry, voice_of(entry, request))
             ? std::clamp(request.speed, kSpeed.low, kSpeed.high)
             : 1.0;
}

struct Refusal {
  std::string code, words;
};

Refusal refusal_of(std::string& body) {
  rapidjson::Document document;
  if (!wire::parse_object(body, document)) {
    return {};
  }
  const std::string_view err_code = wire::text_of(document, "err_code");
  const std::string code(err_code.empty() ? wire::text_of(document, "category") : err_code);
  const std::string_view err_msg = wire::text_of(document, "err_msg");
  return {.code = code,
          .words = code + " " +
                   std::string(err_msg.empty() ? wire::text_of(document, "message") : err_msg)};
}

void check(ProviderEntry& entry, const Complain& complain) {
  require_voices(entry, complain);
  extras::check(entry,
                {.query = {"model", "encoding", "container", "sample_rate", "speed", "callback"}},
                complain);
}

void promise(const ProviderEntry& entry, Capabilities& able) {
  able.prompt_max = kTextMax;
  const bool any = std::any_of(entry.voices.begin(), entry.voices.end(), [&](const auto& voice) {
    return takes_speed(entry, voice.second);
  });
  if (any) {
    able.native_speed = kSpeed;
  }
}

}  // namespace

http::ClientRequest build(const ProviderEntry& entry, const ProviderRequest& request) {
  const GenerationRequest& asked = *request.request;
  extras::Body body(entry);
  extras::set(body, "/text", asked.prompt);
  std::string url =
      entry.base_url + "/v1/speak?model=" + wire::percent_encode(voice_of(entry, asked)) +
      "&encoding=linear16&container=wav&sample_rate=" + std::to_string(rate_for(asked));
  if (const double speed = speed_for(entry, asked); speed != 1.0) {
    url += "&speed=" + wire::number(speed);
  }
  auto out = post_json(entry, url + extras::query(entry, '&'), extras::text_of(body));
  out.headers.push_back("Authorization: Token " + entry.api_key);
  return out;
}

Fault classify(int status, std::string_view code, Fault by_words, bool speed_sent) {
  if (!blame::is_refusal(status)) {
    return wire::fault_of_status(status);
  }
  // The client's text is in the body, and of the query the speed alone is the client's.
  const bool about_query = code == "INVALID_QUERY_PARAMETER" && !speed_sent;
  return about_query ? Fault::kMisconfigured : by_words;
}

Result<Audio, ProviderFault> read(const ProviderEntry& entry,
                                  const GenerationRequest& request,
                                  http::ClientResponse response) {
  if (response.status != 200) {
    const auto [code, words] = refusal_of(response.body);
    const double speed = speed_for(entry, request);
    return wire::fault(
        classify(response.status, code, blame::by_words(words, request.prompt), speed != 1.0),
        response,
        code,
        kIdHeader);
  }
  const std::string type(response.header("content-type"));
  auto audio = wire::audio_of(std::move(response.body), type, AudioType::kWav, rate_for(request));
  if (audio) {
    audio->speed_applied = speed_for(entry, request);
  }
  return audio;
}

constinit const ProviderKind kKind = {
    .name = "deepgram",
    .about = "Deepgram Aura; its models are its voices (`aura-2-thalia-en`)",
    .base_url = "https://api.deepgram.com",
    .needs_key = true,
    .has_model = false,
    .options = kOptions,
    .check = &check,
    .promise = &promise,
    .format = DirectFormat{&build, &read},
};

}  // namespace audiogen::deepgram
