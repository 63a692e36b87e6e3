// The providers file: what each entry may say, and the provider made of it.
#pragma once

#include <chrono>
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

struct ProviderKind;  // kind.h

// What an entry makes of a prompt: reads it aloud, or makes what it describes.
enum class Makes { kNarration, kScene };

// One valid entry, defaults filled in.
struct ProviderEntry {
  std::string name;                    // 1-64 of [A-Za-z0-9_-], unique in the file
  const ProviderKind* kind = nullptr;  // one of kinds.h
  std::string base_url;  // http(s), without a trailing slash; the kind's public address by default
  std::string api_key;   // what read_variable() finds by the name api_key_env; never shown
  std::string model;
  std::map<std::string, std::string, std::less<>> voices;  // ours to theirs
  std::chrono::milliseconds timeout{60'000};               // of one call, from start to audio
  std::chrono::milliseconds connect_timeout{3'000};
  std::chrono::milliseconds hedge_after{0};  // 0: no hedging
  int max_in_flight = 64;
  // Whose limit holds for all workers and entries that name it. Empty: none.
  std::string account{};
  std::uint32_t account_max_in_flight = 0;
  std::chrono::milliseconds queue_wait{0};  // 0: as long as it takes
  Makes makes = Makes::kNarration;
  std::optional<ProviderPrice> price{};  // of what a call is billed by; nullopt: nobody has said
  int tier = 1;                          // of quality, 1-9; by default as the kind says

  // All options of its kind, by name; those that were not given are as the kind says. JSON objects
  // are kept as their text.
  std::map<std::string, std::string, std::less<>> options;

  // It must be an option of its kind.
  const std::string& option(std::string_view option_name) const;
};

// Reads {"providers": [ … ]} and the key variables from the environment. All errors at once, each
// one line that names the entry and the member; unknown members and options are errors. Call before
// threads start (it reads the environment).
Result<std::vector<ProviderEntry>, std::vector<std::string>> parse_providers(
    const std::string& json);

// An entry of that kind with nothing given: everything is as the kind says.
ProviderEntry defaults_of(const ProviderKind& kind);

// What an entry promises.
Capabilities capabilities_of(const ProviderEntry& entry);

// `client` must outlive the provider; what is in the house does not use it.
std::unique_ptr<AudioProvider> make_provider(const ProviderEntry& entry, http::Client& client);

// Their voice for the request: the one asked for, else the default voice, else the first of the
// map; "" when the entry has no voices.
std::string voice_of(const ProviderEntry& entry, const GenerationRequest& request);

}  // namespace audiogen
