// What a kind of provider says about itself: its name, its defaults and options, what it promises
// and how it is talked to. Each says it in its own file; kinds.h lists them.
#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "worker/chain/provider.h"
#include "worker/providers/entry.h"
#include "worker/providers/transport/direct.h"
#include "worker/providers/transport/polled.h"

namespace audiogen {

// One member of an entry's "options".
struct ProviderOption {
  std::string_view name;
  std::string_view fallback{};                  // what it is when it is not given; "": nothing
  std::string_view about;                       // its row in README.md, which a test compares
  std::span<const std::string_view> choices{};  // empty: any text
  bool object = false;                          // a JSON object, kept as its text
  std::size_t longest = 512;                    // bytes of a text
  std::optional<Range> whole{};  // a whole number within it, kept as its digits; "" when not given
};

// The choices of an option that says whose part something is: the provider's, or ours.
inline constexpr std::array<std::string_view, 2> kNativeOrOurs = {"native", "ours"};
inline bool is_native(const ProviderEntry& entry, std::string_view option) {
  return entry.option(option) == kNativeOrOurs.front();
}
// The same where an entry may leave it to what is known of its model.
inline constexpr std::array<std::string_view, 3> kAutoNativeOrOurs = {"auto", "native", "ours"};
inline bool is_native(const ProviderEntry& entry, std::string_view option, bool known_of_model) {
  return entry.option(option) == kAutoNativeOrOurs.front() ? known_of_model
                                                           : is_native(entry, option);
}

// Takes what is wrong with an entry, in words.
using Complain = std::function<void(const std::string&)>;
// Makes a provider that is in the house, and has no address.
using MakeInHouse = std::unique_ptr<AudioProvider> (*)(const ProviderEntry& entry);

// Constants of the program: all members live for ever.
struct ProviderKind {
  std::string_view name;
  std::string_view about;       // its row in README.md
  std::string_view base_url{};  // by default; "" for what is in the house
  std::string_view model{};     // by default; "": to be given, or set by check()
  std::chrono::seconds timeout{60};
  int max_in_flight = 64;
  int tier = 1;                     // of quality, by default
  Makes makes = Makes::kNarration;  // by default; check() may know better
  bool needs_key = false;
  bool has_model = true;       // false: "model" is no member of its entries
  bool plain = false;          // an entry says its name and max_in_flight, and nothing else
  bool voice_objects = false;  // a voice may be a JSON object, kept as its text
  // What its answers may say they cost so much of. Nullopt: they say nothing.
  std::optional<PriceUnit> reports{};
  std::span<const ProviderOption> options{};
  // What no table can say: defaults and rules that depend on other members. May be null.
  void (*check)(ProviderEntry& entry, const Complain& complain) = nullptr;
  // What an entry promises beyond its voices and limits. May be null.
  void (*promise)(const ProviderEntry& entry, Capabilities& able) = nullptr;
  std::variant<MakeInHouse, DirectFormat, const PolledFormat*> format;
};

// For check(): an entry of a kind that has no voice of its own.
void require_voices(const ProviderEntry& entry, const Complain& complain);

}  // namespace audiogen
