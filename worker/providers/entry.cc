#include "worker/providers/entry.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>

#include <rapidjson/document.h>
#include <rapidjson/error/en.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include "common/base/ascii.h"
#include "common/base/environment.h"
#include "common/domain/public_url.h"
#include "common/domain/voices.h"
#include "worker/local/local_provider.h"
#include "worker/providers/elevenlabs.h"
#include "worker/providers/fal.h"
#include "worker/providers/openai.h"
#include "worker/providers/replicate.h"
#include "worker/providers/seed_audio.h"

namespace audiogen {
namespace {

using Value = rapidjson::Value;

constexpr double kSecondsMin = 0.05;
constexpr double kTimeoutMax = 900.0;  // Seconds; the deadline of a task.
constexpr double kConnectMax = 60.0;
constexpr int kInFlightMax = 10'000;
constexpr std::size_t kNameMax = 64;
constexpr std::size_t kTextMax = 512;

// What a kind is by default, and what it cannot do without.
struct KindRules {
  std::string_view name;
  ProviderKind kind;
  std::string_view base_url;
  std::string_view model;  // "": must be given.
  std::string_view response_format;
  double timeout;  // Seconds.
  bool needs_key;
  bool needs_voices;
};
constexpr std::array<KindRules, 6> kKinds = {{
    {"local", ProviderKind::kLocal, "", "espeak-ng", "", 60, false, false},
    // Compatible servers in the house often need no key.
    {"openai", ProviderKind::kOpenai, "https://api.openai.com/v1", "", "wav", 60, false, true},
    {"elevenlabs",
     ProviderKind::kElevenlabs,
     "https://api.elevenlabs.io",
     "eleven_multilingual_v2",
     "pcm_24000",
     60,
     true,
     true},
    {"seed_audio",
     ProviderKind::kSeedAudio,
     "https://voice.ap-southeast-1.bytepluses.com",
     "seed-audio-1.0",
     "",
     120,
     true,
     false},
    {"fal", ProviderKind::kFal, "https://queue.fal.run", "", "", 300, true, false},
    {"replicate",
     ProviderKind::kReplicate,
     "https://api.replicate.com/v1",
     "",
     "",
     300,
     true,
     false},
}};

constexpr std::array<std::string_view, 6> kOpenaiFormats = {
    "wav", "pcm", "flac", "mp3", "opus", "match"};
constexpr std::string_view kSoundModel = "eleven_text_to_sound_v2";

bool is_plain(std::string_view text, std::string_view extra) {
  return std::all_of(text.begin(), text.end(), [extra](char c) {
    return ascii::is_alnum(c) || extra.find(c) != std::string_view::npos;
  });
}

bool is_printable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), ascii::is_visible);
}

// Reads the members of one object and remembers which it was asked for: the rest is unknown.
class Members {
 public:
  Members(const Value& object, std::string where, std::vector<std::string>& errors)
      : object_(object), where_(std::move(where)), errors_(errors) {}

  void complain(const std::string& what) { errors_.push_back(where_ + what); }

  const Value* find(const char* name) {
    asked_.insert(name);
    const auto it = object_.FindMember(name);
    return it == object_.MemberEnd() ? nullptr : &it->value;
  }

  std::string text(const char* name, std::string_view fallback) {
    const Value* const value = find(name);
    if (value == nullptr) {
      return std::string(fallback);
    }
    if (!value->IsString() || value->GetStringLength() == 0 ||
        value->GetStringLength() > kTextMax) {
      complain(std::string(name) + " must be a text of 1 to 512 bytes");
      return std::string(fallback);
    }
    return {value->GetString(), value->GetStringLength()};
  }

  double number(const char* name, double fallback, double low, double high) {
    const Value* const value = find(name);
    if (value == nullptr) {
      return fallback;
    }
    if (!value->IsNumber() || !(value->GetDouble() >= low && value->GetDouble() <= high)) {
      complain(std::string(name) + " must be a number from " + short_text(low) + " to " +
               short_text(high));
      return fallback;
    }
    return value->GetDouble();
  }

  std::string choice(const char* name, std::string_view fallback, auto allowed) {
    std::string value = text(name, fallback);
    if (std::find(allowed.begin(), allowed.end(), value) == allowed.end()) {
      std::string list;
      for (const std::string_view one : allowed) {
        list += (list.empty() ? "" : ", ") + std::string(one);
      }
      complain(std::string(name) + " must be one of " + list);
      return std::string(fallback);
    }
    return value;
  }

  void refuse_the_rest() {
    std::set<std::string> seen;
    for (auto it = object_.MemberBegin(); it != object_.MemberEnd(); ++it) {
      const std::string name(it->name.GetString(), it->name.GetStringLength());
      // A name may be anything, a key pasted into the wrong place included: shown only if plain.
      const std::string shown =
          name.size() <= kNameMax && is_plain(name, "_-") ? "'" + name + "'" : "(not plain text)";
      if (!seen.insert(name).second) {
        complain("has the member " + shown + " twice");
      } else if (asked_.count(name) == 0) {
        complain("has an unknown member " + shown);
      }
    }
  }

 private:
  static std::string short_text(double value) {
    std::string out = std::to_string(value);
    out.erase(out.find_last_not_of('0') + 1);
    return out.ends_with('.') ? out.substr(0, out.size() - 1) : out;
  }

  const Value& object_;
  const std::string where_;
  std::vector<std::string>& errors_;
  std::set<std::string> asked_;
};

std::chrono::milliseconds milliseconds_of(double seconds) {
  return std::chrono::milliseconds(std::llround(seconds * 1000.0));
}

std::string read_key(Members& members, const KindRules& rules) {
  const std::string variable = members.text("api_key_env", "");
  if (variable.empty()) {
    if (rules.needs_key) {
      members.complain("needs api_key_env, the name of an environment variable");
    }
    return "";
  }
  if (!is_plain(variable, "_") || variable.size() > kNameMax) {
    members.complain("api_key_env must be the name of an environment variable");
    return "";
  }
  const auto read = read_variable(variable);
  if (!read) {
    members.complain("api_key_env: " + read.error().message);
    return "";
  }
  const std::string value = read->value_or("");
  if (value.empty()) {
    members.complain("the environment variable " + variable + " (api_key_env) is not set");
    return "";
  }
  if (!is_printable(value)) {
    members.complain("the environment variable " + variable +
                     " (api_key_env) must be visible ASCII without spaces");
    return "";
  }
  return value;
}

std::string read_base_url(Members& members, const KindRules& rules) {
  std::string url = members.text("base_url", rules.base_url);
  while (url.ends_with('/')) {
    url.pop_back();
  }
  if (!check_any_url(url) || !is_printable(url) ||
      url.find_first_of("?#@\"\\") != std::string::npos) {
    members.complain("base_url must be http or https with a host, without user, query or fragment");
  }
  return url;
}

void read_voices(Members& members, const KindRules& rules, ProviderEntry& entry) {
  const Value* const voices = members.find("voices");
  if (voices != nullptr && !voices->IsObject()) {
    members.complain("voices must be an object of our voice ids and theirs");
    return;
  }
  if (voices != nullptr) {
    for (auto it = voices->MemberBegin(); it != voices->MemberEnd(); ++it) {
      const std::string ours(it->name.GetString(), it->name.GetStringLength());
      if (!is_voice(ours)) {
        members.complain("voices has an unknown voice (known: " + voice_list() + ")");
      } else if (!it->value.IsString() || it->value.GetStringLength() == 0 ||
                 it->value.GetStringLength() > kTextMax) {
        members.complain("voices." + ours + " must be a text of 1 to 512 bytes");
      } else if (!entry.voices.emplace(ours, it->value.GetString()).second) {
        members.complain("voices has '" + ours + "' twice");
      }
    }
  }
  if (entry.voices.empty() && rules.needs_voices && !entry.sound) {
    members.complain("needs voices: at least one of our ids and theirs");
  }
}

void read_model_options(Members& options, ProviderEntry& entry) {
  entry.prompt_member = options.text("prompt_member", entry.prompt_member);
  entry.voice_member = options.text("voice_member", entry.voice_member);
  entry.audio_references_member = options.text("audio_references_member", "");
  entry.image_member = options.text("image_member", "");
  entry.any_result_address =
      options.choice(
          "result_address", "public", std::array<std::string_view, 2>{"public", "any"}) == "any";
  if (const Value* const input = options.find("input"); input != nullptr) {
    if (!input->IsObject()) {
      options.complain("input must be an object");
      return;
    }
    rapidjson::StringBuffer buffer;
    rapidjson::Writer<rapidjson::StringBuffer> writer(buffer);
    input->Accept(writer);
    entry.fixed_input = buffer.GetString();
  }
}

bool sends_bytes(Members& options) {
  return options.choice("references", "url", std::array<std::string_view, 2>{"url", "bytes"}) ==
         "bytes";
}

void read_options(Members& members,
                  const std::string& where,
                  std::vector<std::string>& errors,
                  const KindRules& rules,
                  ProviderEntry& entry) {
  static const Value kNone(rapidjson::kObjectType);
  const Value* given = members.find("options");
  if (given != nullptr && !given->IsObject()) {
    members.complain("options must be an object");
    given = nullptr;
  }
  Members options(given == nullptr ? kNone : *given, where + "options: ", errors);
  entry.response_format = rules.response_format;
  switch (entry.kind) {
    case ProviderKind::kOpenai:
      entry.response_format =
          options.choice("response_format", rules.response_format, kOpenaiFormats);
      break;
    case ProviderKind::kElevenlabs:
      entry.sound =
          options.choice("mode", "speech", std::array<std::string_view, 2>{"speech", "sound"}) ==
          "sound";
      entry.response_format = options.choice(
          "output_format", rules.response_format, elevenlabs::output_formats(entry.sound));
      break;
    case ProviderKind::kFal:
    case ProviderKind::kReplicate:
      read_model_options(options, entry);
      entry.reference_bytes = sends_bytes(options);
      break;
    case ProviderKind::kSeedAudio:
      entry.reference_bytes = sends_bytes(options);
      break;
    case ProviderKind::kLocal:
      break;
  }
  options.refuse_the_rest();
}

void check_model(Members& members, const ProviderEntry& entry) {
  const auto bad_part = [&](std::string_view allowed) {
    return !is_plain(entry.model, allowed) || entry.model.starts_with('/') ||
           entry.model.ends_with('/') || entry.model.find("..") != std::string::npos ||
           entry.model.find("//") != std::string::npos ||
           entry.model.find('/') == std::string::npos;
  };
  if (entry.model.empty()) {
    members.complain("needs model");
  } else if (entry.kind == ProviderKind::kFal && bad_part("-_./")) {
    members.complain("model must be <owner>/<app>");
  } else if (entry.kind == ProviderKind::kReplicate && bad_part("-_./:")) {
    members.complain("model must be <owner>/<name> or <owner>/<name>:<version>");
  }
}

std::optional<ProviderEntry> parse_entry(const Value& value,
                                         std::string where,
                                         std::vector<std::string>& errors) {
  if (!value.IsObject()) {
    errors.push_back(where + "must be an object");
    return std::nullopt;
  }
  ProviderEntry entry;
  {
    Members probe(value, where, errors);
    entry.name = probe.text("name", "");
    if (entry.name.empty() || entry.name.size() > kNameMax || !is_plain(entry.name, "_-")) {
      probe.complain("needs a name of 1 to 64 letters, digits, '-' and '_'");
    } else {
      where += "(" + entry.name + ") ";
    }
  }
  Members members(value, where, errors);
  members.find("name");
  const std::string kind = members.text("kind", "");
  const auto* const rules = std::find_if(
      kKinds.begin(), kKinds.end(), [&kind](const KindRules& one) { return one.name == kind; });
  if (rules == kKinds.end()) {
    members.complain("kind must be one of local, openai, elevenlabs, seed_audio, fal, replicate");
    return std::nullopt;
  }
  entry.kind = rules->kind;
  entry.max_in_flight = static_cast<int>(members.number(
      "max_in_flight", entry.kind == ProviderKind::kLocal ? 256 : 64, 1, kInFlightMax));
  if (entry.kind != ProviderKind::kLocal) {
    read_options(members, where, errors, *rules, entry);
    entry.base_url = read_base_url(members, *rules);
    entry.api_key = read_key(members, *rules);
    entry.model = members.text("model", entry.sound ? kSoundModel : rules->model);
    check_model(members, entry);
    read_voices(members, *rules, entry);
    entry.timeout = milliseconds_of(
        members.number("timeout_seconds", rules->timeout, kSecondsMin, kTimeoutMax));
    if (members.find("hedge_after_seconds") != nullptr) {
      entry.hedge_after =
          milliseconds_of(members.number("hedge_after_seconds", 0, kSecondsMin, kTimeoutMax));
    }
    entry.connect_timeout =
        milliseconds_of(members.number("connect_timeout_seconds", 3, kSecondsMin, kConnectMax));
  }
  members.refuse_the_rest();
  return entry;
}

}  // namespace

Result<std::vector<ProviderEntry>, std::vector<std::string>> parse_providers(
    const std::string& json) {
  std::vector<std::string> errors;
  rapidjson::Document document;
  document.Parse<rapidjson::kParseIterativeFlag | rapidjson::kParseValidateEncodingFlag>(
      json.data(), json.size());
  if (document.HasParseError()) {
    errors.push_back("not JSON at byte " + std::to_string(document.GetErrorOffset()) + ": " +
                     rapidjson::GetParseError_En(document.GetParseError()));
    return errors;
  }
  if (!document.IsObject() || document.MemberCount() != 1 || !document.HasMember("providers") ||
      !document["providers"].IsArray() || document["providers"].Empty()) {
    errors.emplace_back("must be {\"providers\": [ … ]} with at least one entry");
    return errors;
  }
  std::vector<ProviderEntry> entries;
  std::set<std::string> names;
  for (rapidjson::SizeType i = 0; i < document["providers"].Size(); ++i) {
    const std::string where = "providers[" + std::to_string(i) + "] ";
    auto entry = parse_entry(document["providers"][i], where, errors);
    if (entry) {
      if (!entry->name.empty() && !names.insert(entry->name).second) {
        errors.push_back(where + "has the name of another");
      }
      entries.push_back(std::move(*entry));
    }
  }
  if (!errors.empty()) {
    return errors;
  }
  return entries;
}

std::string voice_of(const ProviderEntry& entry, const GenerationRequest& request) {
  auto it = entry.voices.find(request.voice.value_or(std::string(kDefaultVoice)));
  if (it == entry.voices.end()) {
    it = entry.voices.begin();
  }
  return it == entry.voices.end() ? "" : it->second;
}

std::unique_ptr<AudioProvider> make_provider(const ProviderEntry& entry, http::Client& client) {
  switch (entry.kind) {
    case ProviderKind::kLocal: {
      LocalOptions options;
      options.name = entry.name;
      options.max_in_flight = entry.max_in_flight;
      return std::make_unique<LocalProvider>(std::move(options));
    }
    case ProviderKind::kOpenai:
      return openai::make(entry, client);
    case ProviderKind::kElevenlabs:
      return elevenlabs::make(entry, client);
    case ProviderKind::kSeedAudio:
      return seed_audio::make(entry, client);
    case ProviderKind::kFal:
      return fal::make(entry, client);
    case ProviderKind::kReplicate:
      return replicate::make(entry, client);
  }
  check_failed("a kind of provider that is not one", __FILE__, __LINE__);
}

}  // namespace audiogen
