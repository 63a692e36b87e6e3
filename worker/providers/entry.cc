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
#include "common/base/check.h"
#include "common/base/environment.h"
#include "common/domain/public_url.h"
#include "common/domain/voices.h"
#include "worker/providers/kinds.h"
#include "worker/providers/transport/remote_provider.h"

namespace audiogen {
namespace {

using Value = rapidjson::Value;

constexpr double kSecondsMin = 0.05;
constexpr double kTimeoutMax = 900.0;  // Seconds; the deadline of a task.
constexpr double kConnectMax = 60.0;
constexpr int kInFlightMax = 10'000;
constexpr int kTierMax = 9;
constexpr std::size_t kNameMax = 64;
constexpr std::size_t kTextMax = 512;
constexpr std::array<std::string_view, 2> kMakes = {"narration", "scene"};

bool is_plain(std::string_view text, std::string_view extra) {
  return std::all_of(text.begin(), text.end(), [extra](char c) {
    return ascii::is_alnum(c) || extra.find(c) != std::string_view::npos;
  });
}

bool is_printable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), ascii::is_visible);
}

std::string json_of(const Value& value) {
  rapidjson::StringBuffer buffer;
  rapidjson::Writer<rapidjson::StringBuffer> writer(buffer);
  value.Accept(writer);
  return {buffer.GetString(), buffer.GetSize()};
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

  std::string text(const char* name, std::string_view fallback, std::size_t longest = kTextMax) {
    const Value* const value = find(name);
    if (value == nullptr) {
      return std::string(fallback);
    }
    if (!value->IsString() || value->GetStringLength() == 0 || value->GetStringLength() > longest) {
      complain(std::string(name) + " must be a text of 1 to " + std::to_string(longest) + " bytes");
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

  // Its digits, or "".
  std::string whole(const char* name, Range range) {
    const double given = number(name, range.low, range.low, range.high);
    if (find(name) == nullptr) {
      return "";
    }
    if (given != std::floor(given)) {
      complain(std::string(name) + " must be a whole number");
    }
    return std::to_string(static_cast<std::int64_t>(given));
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

  // Its JSON text, or "".
  std::string object(const char* name) {
    const Value* const value = find(name);
    if (value == nullptr) {
      return "";
    }
    if (!value->IsObject()) {
      complain(std::string(name) + " must be an object");
      return "";
    }
    return json_of(*value);
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

std::string read_key(Members& members, const ProviderKind& kind) {
  const std::string variable = members.text("api_key_env", "");
  if (variable.empty()) {
    if (kind.needs_key) {
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

std::string read_base_url(Members& members, const ProviderKind& kind) {
  std::string url = members.text("base_url", kind.base_url);
  while (url.ends_with('/')) {
    url.pop_back();
  }
  if (!check_any_url(url) || !is_printable(url) ||
      url.find_first_of("?#@\"\\") != std::string::npos) {
    members.complain("base_url must be http or https with a host, without user, query or fragment");
  }
  return url;
}

// Their voice as the file has it: a text, or of some kinds an object; or what is wrong with it.
Result<std::string> voice_in(const Value& value, const ProviderKind& kind) {
  if (kind.voice_objects && value.IsObject()) {
    std::string json = json_of(value);
    return json.size() <= kTextMax ? Result<std::string>(std::move(json))
                                   : Error{"must be an object of at most 512 bytes"};
  }
  if (!value.IsString() || value.GetStringLength() == 0 || value.GetStringLength() > kTextMax) {
    return Error{kind.voice_objects ? "must be a text of 1 to 512 bytes, or an object"
                                    : "must be a text of 1 to 512 bytes"};
  }
  std::string text(value.GetString(), value.GetStringLength());
  // As the text of an object it would be sent as one.
  return kind.voice_objects && text.starts_with('{')
             ? Error{"must not begin with '{': an object stands there as it is"}
             : Result<std::string>(std::move(text));
}

void read_voices(Members& members, ProviderEntry& entry) {
  const Value* const voices = members.find("voices");
  if (voices == nullptr) {
    return;
  }
  if (!voices->IsObject()) {
    members.complain("voices must be an object of our voice ids and theirs");
    return;
  }
  for (const auto& member : voices->GetObject()) {
    const std::string ours(member.name.GetString(), member.name.GetStringLength());
    if (!is_voice(ours)) {
      members.complain("voices has an unknown voice (known: " + voice_list() + ")");
      continue;
    }
    if (ours == kSceneVoice) {
      members.complain("voices." + ours + " is nobody's voice: it asks for a scene");
      continue;
    }
    auto theirs = voice_in(member.value, *entry.kind);
    if (!theirs) {
      members.complain("voices." + ours + " " + theirs.error().message);
    } else if (!entry.voices.emplace(ours, std::move(*theirs)).second) {
      members.complain("voices has '" + ours + "' twice");
    }
  }
}

std::string read_option(Members& options, const ProviderOption& option) {
  const std::string name(option.name);
  if (option.object) {
    return options.object(name.c_str());
  }
  if (option.whole) {
    return options.whole(name.c_str(), *option.whole);
  }
  return option.choices.empty() ? options.text(name.c_str(), option.fallback, option.longest)
                                : options.choice(name.c_str(), option.fallback, option.choices);
}

void read_options(Members& members,
                  const std::string& where,
                  std::vector<std::string>& errors,
                  ProviderEntry& entry) {
  static const Value kNone(rapidjson::kObjectType);
  const Value* given = members.find("options");
  if (given != nullptr && !given->IsObject()) {
    members.complain("options must be an object");
    given = nullptr;
  }
  Members options(given == nullptr ? kNone : *given, where + "options: ", errors);
  for (const ProviderOption& option : entry.kind->options) {
    entry.options[std::string(option.name)] = read_option(options, option);
  }
  options.refuse_the_rest();
}

// What a kind's calls can be billed by: what can be counted of all of them, and what it reports.
bool may_bill_by(const ProviderKind& kind, PriceUnit unit) {
  return unit == PriceUnit::kCall || unit == PriceUnit::kThousandCharacters ||
         unit == PriceUnit::kAudioSecond || unit == kind.reports;
}

void read_price(Members& members,
                const std::string& where,
                std::vector<std::string>& errors,
                ProviderEntry& entry) {
  const Value* const given = members.find("price");
  if (given == nullptr) {
    return;
  }
  if (!given->IsObject()) {
    members.complain("price must be an object with amount and per");
    return;
  }
  Members price(*given, where + "price: ", errors);
  std::vector<std::string_view> units;
  for (const PriceUnit unit : kPriceUnits) {
    if (may_bill_by(*entry.kind, unit)) {
      units.push_back(price_unit_name(unit));
    }
  }
  const auto unit = parse_price_unit(price.choice("per", "", units));
  if (price.find("amount") == nullptr) {
    price.complain("needs amount, what one of per costs");
  }
  const double micros =
      price.number("amount", 0, 0, static_cast<double>(kPriceMax)) * static_cast<double>(kMicros);
  const std::int64_t whole = std::llround(micros);
  // As near as a double comes to a decimal number.
  if (constexpr double kNear = 1e-3; std::abs(micros - static_cast<double>(whole)) > kNear) {
    price.complain("amount must have at most six decimals");
  }
  price.refuse_the_rest();
  if (unit) {
    entry.price = ProviderPrice{*unit, Micros{whole}};
  }
}

void read_account(Members& members, ProviderEntry& entry) {
  entry.account = members.text("account", "", kNameMax);
  if (!is_plain(entry.account, "_-")) {
    members.complain("account must be letters, digits, '-' and '_'");
  }
  const auto limit = members.number("account_max_in_flight", 0, 1, kInFlightMax);
  entry.account_max_in_flight = static_cast<std::uint32_t>(limit);
  if (entry.account.empty() != (members.find("account_max_in_flight") == nullptr)) {
    members.complain("needs account and account_max_in_flight together");
  }
}

std::optional<ProviderEntry> parse_entry(const Value& value,
                                         std::string where,
                                         std::vector<std::string>& errors) {
  if (!value.IsObject()) {
    errors.push_back(where + "must be an object");
    return std::nullopt;
  }
  std::string name;
  {
    Members probe(value, where, errors);
    name = probe.text("name", "");
    if (name.empty() || name.size() > kNameMax || !is_plain(name, "_-")) {
      probe.complain("needs a name of 1 to 64 letters, digits, '-' and '_'");
    } else {
      where += "(" + name + ") ";
    }
  }
  Members members(value, where, errors);
  members.find("name");
  const ProviderKind* const kind = find_kind(members.text("kind", ""));
  if (kind == nullptr) {
    std::string known;
    for (const ProviderKind* one : provider_kinds()) {
      known += (known.empty() ? "" : ", ") + std::string(one->name);
    }
    members.complain("kind must be one of " + known);
    return std::nullopt;
  }
  ProviderEntry entry = defaults_of(*kind);
  entry.name = std::move(name);
  entry.max_in_flight =
      static_cast<int>(members.number("max_in_flight", kind->max_in_flight, 1, kInFlightMax));
  if (!kind->plain) {
    read_options(members, where, errors, entry);
    if (!kind->base_url.empty()) {
      entry.base_url = read_base_url(members, *kind);
      entry.api_key = read_key(members, *kind);
      entry.connect_timeout =
          milliseconds_of(members.number("connect_timeout_seconds", 3, kSecondsMin, kConnectMax));
    }
    if (kind->has_model) {
      entry.model = members.text("model", kind->model);
    }
    read_voices(members, entry);
    entry.timeout = milliseconds_of(members.number(
        "timeout_seconds", static_cast<double>(kind->timeout.count()), kSecondsMin, kTimeoutMax));
    read_account(members, entry);
    if (members.find("queue_wait_seconds") != nullptr) {
      entry.queue_wait =
          milliseconds_of(members.number("queue_wait_seconds", 0, kSecondsMin, kTimeoutMax));
    }
    entry.tier = static_cast<int>(members.number("tier", entry.tier, 1, kTierMax));
    if (members.find("hedge_after_seconds") != nullptr) {
      entry.hedge_after =
          milliseconds_of(members.number("hedge_after_seconds", 0, kSecondsMin, kTimeoutMax));
    }
    read_price(members, where, errors, entry);
    if (kind->check != nullptr) {
      kind->check(entry, [&members](const std::string& what) { members.complain(what); });
    }
    if (members.find("makes") != nullptr) {
      entry.makes = members.choice("makes", kMakes[0], kMakes) == kMakes[1] ? Makes::kScene
                                                                            : Makes::kNarration;
    }
    if (kind->has_model && entry.model.empty()) {
      members.complain("needs model");
    }
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
  std::map<std::string, std::uint32_t> accounts;
  for (rapidjson::SizeType i = 0; i < document["providers"].Size(); ++i) {
    const std::string where = "providers[" + std::to_string(i) + "] ";
    auto entry = parse_entry(document["providers"][i], where, errors);
    if (entry) {
      if (!entry->name.empty() && !names.insert(entry->name).second) {
        errors.push_back(where + "has the name of another");
      }
      const std::uint32_t limit = entry->account_max_in_flight;
      if (!entry->account.empty() &&
          accounts.emplace(entry->account, limit).first->second != limit) {
        errors.push_back(where + "has another account_max_in_flight than others of its account");
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
  auto it = entry.voices.find(std::string(speaker(request.voice).value_or(kDefaultVoice)));
  if (it == entry.voices.end()) {
    it = entry.voices.begin();
  }
  return it == entry.voices.end() ? "" : it->second;
}

ProviderEntry defaults_of(const ProviderKind& kind) {
  ProviderEntry out;
  out.kind = &kind;
  out.base_url = kind.base_url;
  out.model = kind.model;
  out.timeout = kind.timeout;
  out.makes = kind.makes;
  out.max_in_flight = kind.max_in_flight;
  out.tier = kind.tier;
  for (const ProviderOption& option : kind.options) {
    out.options.emplace(option.name, option.fallback);
  }
  return out;
}

const std::string& ProviderEntry::option(std::string_view option_name) const {
  const auto at = options.find(option_name);
  AG_CHECK(at != options.end());
  return at->second;
}

void require_voices(const ProviderEntry& entry, const Complain& complain) {
  if (entry.voices.empty()) {
    complain("needs voices: at least one of our ids and theirs");
  }
}

Capabilities capabilities_of(const ProviderEntry& entry) {
  const ProviderKind& kind = *entry.kind;
  Capabilities able;
  for (const auto& [ours, theirs] : entry.voices) {
    able.voices.push_back(ours);
  }
  able.timeout = entry.timeout;
  able.hedge_after = entry.hedge_after;
  able.queue_wait = entry.queue_wait;
  able.tier = entry.tier;
  able.scenes = entry.makes == Makes::kScene;
  able.max_in_flight = entry.max_in_flight;
  able.account = entry.account;
  able.account_max_in_flight = entry.account_max_in_flight;
  able.price = entry.price;
  able.reports = kind.reports;
  able.gives_tickets = std::holds_alternative<const PolledFormat*>(kind.format);
  if (kind.promise != nullptr) {
    kind.promise(entry, able);
  }
  return able;
}

std::unique_ptr<AudioProvider> make_provider(const ProviderEntry& entry, http::Client& client) {
  if (const auto* const in_house = std::get_if<MakeInHouse>(&entry.kind->format)) {
    return (*in_house)(entry);
  }
  RemoteOptions options;
  options.name = entry.name;
  options.timeout = entry.timeout;
  options.capabilities = capabilities_of(entry);
  options.open = [shared = std::make_shared<const ProviderEntry>(entry)](
                     const ProviderRequest& request) -> std::unique_ptr<Dialogue> {
    if (const auto* const direct = std::get_if<DirectFormat>(&shared->kind->format)) {
      return make_direct_dialogue(shared, *direct, request);
    }
    return make_polled_dialogue(
        shared, *std::get<const PolledFormat*>(shared->kind->format), request);
  };
  return std::make_unique<RemoteProvider>(std::move(options), client);
}

}  // namespace audiogen
