#include "worker/providers/cartesia.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "worker/providers/extras.h"
#include "worker/providers/transport/blame.h"
#include "worker/providers/transport/direct.h"
#include "worker/providers/transport/wire.h"

namespace audiogen::cartesia {
namespace {

constexpr std::array<ProviderOption, 2> kOptions = {{
    {.name = "speed",
     .fallback = "ours",
     .about = "who makes it faster or slower: we by stretching what the model sends, which is "
              "exact (`ours`), or the model, as far as its range of 0.6 to 1.5 goes, which takes "
              "it as guidance (`native`)",
     .choices = kNativeOrOurs},
    extras::kMembers,
}};
// Errors are JSON from this one on.
constexpr const char* kVersion = "2026-03-01";
constexpr Range kSpeed{0.6, 1.5};

// 22.05 kHz is none of ours, 32 none of theirs.
int rate_for(const GenerationRequest& request) {
  return request.sample_rate == 32000 ? 48000 : request.sample_rate;
}

double speed_for(const ProviderEntry& entry, const GenerationRequest& request) {
  return is_native(entry, "speed") ? std::clamp(request.speed, kSpeed.low, kSpeed.high) : 1.0;
}

struct Refusal {
  std::string code, id, words;
};

Refusal refusal_of(std::string& body) {
  rapidjson::Document document;
  if (!wire::parse_object(body, document)) {
    return {};
  }
  const std::string_view code = wire::text_of(document, "error_code");
  return {.code = std::string(code),
          .id = std::string(wire::text_of(document, "request_id")),
          .words = std::string(code) + " " + std::string(wire::text_of(document, "title")) + " " +
                   std::string(wire::text_of(document, "message"))};
}

void check(ProviderEntry& entry, const Complain& complain) {
  require_voices(entry, complain);
  extras::check(entry, {.members = {"model_id", "transcript", "voice", "output_format"}}, complain);
}

void promise(const ProviderEntry& entry, Capabilities& able) {
  if (is_native(entry, "speed")) {
    able.native_speed = kSpeed;
  }
}

}  // namespace

http::ClientRequest build(const ProviderEntry& entry, const ProviderRequest& request) {
  const GenerationRequest& asked = *request.request;
  extras::Body body(entry);
  extras::set(body, "/model_id", entry.model);
  extras::set(body, "/transcript", asked.prompt);
  extras::set(body, "/voice/mode", "id");
  extras::set(body, "/voice/id", voice_of(entry, asked));
  extras::set(body, "/output_format/container", "wav");
  extras::set(body, "/output_format/encoding", "pcm_s16le");
  extras::set(body, "/output_format/sample_rate", rapidjson::Value(rate_for(asked)));
  if (const double speed = speed_for(entry, asked); speed != 1.0) {
    extras::set(body, "/generation_config/speed", rapidjson::Value(speed));
  }
  auto out = post_json(entry, entry.base_url + "/tts/bytes", extras::text_of(body));
  out.headers.push_back("Authorization: Bearer " + entry.api_key);
  out.headers.push_back(std::string("Cartesia-Version: ") + kVersion);
  return out;
}

Result<Audio, ProviderFault> read(const ProviderEntry& entry,
                                  const GenerationRequest& request,
                                  http::ClientResponse response) {
  if (response.status != 200) {
    const auto [code, id, words] = refusal_of(response.body);
    const Fault fault = blame::is_refusal(response.status) ? blame::by_words(words, request.prompt)
                                                           : wire::fault_of_status(response.status);
    return wire::fault_with_id(fault, response, code, id);
  }
  const std::string type(response.header("content-type"));
  auto audio = wire::audio_of(std::move(response.body), type, AudioType::kWav, rate_for(request));
  if (audio) {
    audio->speed_applied = speed_for(entry, request);
  }
  return audio;
}

constinit const ProviderKind kKind = {
    .name = "cartesia",
    .about = "Cartesia Sonic",
    .base_url = "https://api.cartesia.ai",
    .needs_key = true,
    .options = kOptions,
    .check = &check,
    .promise = &promise,
    .format = DirectFormat{&build, &read},
};

}  // namespace audiogen::cartesia
