// The providers file: what each entry may say, and the provider made of it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/http/client.h"
#include "worker/chain/provider.h"

namespace audiogen {

enum class ProviderKind : std::uint8_t {
  kLocal,
  kOpenai,
  kElevenlabs,
  kSeedAudio,
  kFal,
  kReplicate
};

// One valid entry, defaults filled in.
struct ProviderEntry {
  std::string name;  // 1-64 of [A-Za-z0-9_-], unique in the file
  ProviderKind kind = ProviderKind::kLocal;
  std::string base_url;  // http(s), without a trailing slash; the kind's public address by default
  std::string api_key;   // what read_variable() finds by the name api_key_env; never shown
  std::string model;
  std::map<std::string, std::string, std::less<>> voices;  // ours to theirs
  std::chrono::milliseconds timeout{60'000};               // of one call, from start to audio
  std::chrono::milliseconds connect_timeout{3'000};
  std::chrono::milliseconds hedge_after{0};  // 0: no hedging
  int max_in_flight = 64;

  // The rest is "options" of the entry; which of them it may have depends on its kind.
  // openai: wav, pcm, flac, mp3, opus, or match (the client's own where there is one); elevenlabs:
  // one of its output_format names.
  std::string response_format;
  bool sound = false;  // elevenlabs "mode": "sound" instead of "speech"
  // fal, replicate: models name their inputs as they like. Empty: the model has no such input.
  std::string prompt_member = "prompt", voice_member = "voice", audio_references_member,
              image_member;
  // seed_audio, fal, replicate "references": "bytes" sends the files we fetched, "url" (the
  // default) their addresses.
  bool reference_bytes = false;
  std::string fixed_input;  // JSON object of members sent with every request, or empty
  // Files of results may be fetched from private addresses (tests, or a provider in the house).
  bool any_result_address = false;
};

// Reads {"providers": [ … ]} and the key variables from the environment. All errors at once, each
// one line that names the entry and the member; unknown members and options are errors. Call before
// threads start (it reads the environment).
Result<std::vector<ProviderEntry>, std::vector<std::string>> parse_providers(
    const std::string& json);

// `client` must outlive the provider; the local engine does not use it.
std::unique_ptr<AudioProvider> make_provider(const ProviderEntry& entry, http::Client& client);

// Their voice for the request: the one asked for, else the default voice, else the first of the
// map; "" when the entry has no voices.
std::string voice_of(const ProviderEntry& entry, const GenerationRequest& request);

}  // namespace audiogen
