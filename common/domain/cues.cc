#include "common/domain/cues.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "common/base/ascii.h"

namespace audiogen {
namespace {

constexpr auto kNames = std::to_array<CueName>({
    {"applause", Cue::kApplause},
    {"bell", Cue::kBell},
    {"birds", Cue::kBirds, true},
    {"clock", Cue::kClock, true},
    {"crickets", Cue::kCrickets, true},
    {"door", Cue::kDoor},
    {"fire", Cue::kFire, true},
    {"footsteps", Cue::kFootsteps},
    {"heartbeat", Cue::kHeartbeat, true},
    {"knock", Cue::kKnock},
    {"rain", Cue::kRain, true},
    {"silence", Cue::kSilence},
    {"siren", Cue::kSiren},
    {"thunder", Cue::kThunder},
    {"waves", Cue::kWaves, true},
    {"wind", Cue::kWind, true},
});

std::optional<Cue> find_cue(std::string_view words) {
  const std::string_view name = ascii::trim(words);
  const auto* const found = std::find_if(kNames.begin(), kNames.end(), [&](const CueName& known) {
    return ascii::equals_ignoring_case(name, known.name);
  });
  return found == kNames.end() ? std::nullopt : std::optional(found->cue);
}

// A bracket and its own closing one, by where they stand.
struct Pair {
  std::size_t open, close;
};

// The pairs of `text` that no other pair encloses, in their order. A closing bracket belongs to the
// last open one of its kind; what was opened in between is not closed any more.
std::vector<Pair> outermost_pairs(std::string_view text) {
  std::vector<std::size_t> open;         // where
  std::array<std::size_t, 2> of_kind{};  // how many of `open`: square, round
  const auto kind_of = [](char bracket) -> std::size_t {
    return bracket == '[' || bracket == ']' ? 0 : 1;
  };
  std::vector<Pair> out;
  if (text.find('[') == std::string_view::npos && text.find('(') == std::string_view::npos) {
    return out;  // As nearly all: one of a set is looked for letter by letter.
  }
  for (std::size_t at = text.find_first_of("[]()"); at != std::string_view::npos;
       at = text.find_first_of("[]()", at + 1)) {
    const std::size_t kind = kind_of(text[at]);
    if (text[at] == '[' || text[at] == '(') {
      open.push_back(at);
      ++of_kind[kind];
      continue;
    }
    if (of_kind[kind] == 0) {
      continue;
    }
    std::size_t from = 0;
    do {
      from = open.back();
      open.pop_back();
      --of_kind[kind_of(text[from])];
    } while (kind_of(text[from]) != kind);
    while (!out.empty() && out.back().open > from) {
      out.pop_back();
    }
    out.push_back({from, at});
  }
  return out;
}

// "[Door](https://example.com)": what a link is called.
bool is_link(std::string_view prompt, const Pair& pair) {
  const std::string_view behind = prompt.substr(pair.close + 1);
  const auto end = behind.find(')');
  if (prompt[pair.open] != '[' || !behind.starts_with('(') || end == std::string_view::npos) {
    return false;
  }
  const std::string_view address = behind.substr(1, end - 1);
  return address.find_first_of(" \t\n") == std::string_view::npos &&
         address.find_first_of(":/#.") != std::string_view::npos;
}

}  // namespace

std::span<const CueName> cue_names() {
  return kNames;
}

bool is_ambience(Cue cue) {
  return std::any_of(kNames.begin(), kNames.end(), [&](const CueName& known) {
    return known.cue == cue && known.ambience;
  });
}

std::vector<ScriptPart> split_cues(std::string_view prompt) {
  std::vector<ScriptPart> out;
  std::size_t begin = 0;  // of the words before the next cue
  const auto add_words = [&](std::size_t end) {
    if (end > begin) {
      out.push_back({.words = prompt.substr(begin, end - begin)});
    }
  };
  for (const Pair& pair : outermost_pairs(prompt)) {
    if (is_link(prompt, pair)) {
      continue;
    }
    if (const auto cue = find_cue(prompt.substr(pair.open + 1, pair.close - pair.open - 1))) {
      add_words(pair.open);
      out.push_back({.words = {}, .cue = cue});
      begin = pair.close + 1;
    }
  }
  add_words(prompt.size());
  return out;
}

bool has_cues(std::string_view prompt) {
  const std::vector<ScriptPart> parts = split_cues(prompt);
  return std::any_of(
      parts.begin(), parts.end(), [](const ScriptPart& part) { return part.cue.has_value(); });
}

}  // namespace audiogen
