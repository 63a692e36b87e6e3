#include "common/domain/route.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "common/domain/scene.h"
#include "common/domain/voices.h"

namespace audiogen {
namespace {

constexpr std::uint64_t kKindsOfPrompt = 3, kKindsOfReferences = 3, kKindsOfVoice = 2;
static_assert(kKindsOfPrompt * kKindsOfReferences * kKindsOfVoice == kRoutes);

// So many of anything that no sum of them, told by any number of workers, overflows.
constexpr std::uint64_t kCountMost = 1'000'000'000;
constexpr std::size_t kNumbersOfLine = 10;

void append_row(std::string& out, std::span<const std::uint64_t> row) {
  if (!out.empty()) {
    out += ';';
  }
  bool first = true;
  for (const std::uint64_t number : row) {
    out += first ? "" : ",";
    out += std::to_string(std::min(number, kCountMost));
    first = false;
  }
}

// Rows of so many numbers each; nullopt if the text is not that.
template <std::size_t kNumbers>
std::optional<std::vector<std::array<std::uint64_t, kNumbers>>> parse_rows(std::string_view text) {
  std::vector<std::array<std::uint64_t, kNumbers>> out;
  while (!text.empty()) {
    auto& row = out.emplace_back();
    for (std::size_t i = 0; i < kNumbers; ++i) {
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), row[i]);
      if (error != std::errc{} || row[i] > kCountMost) {
        return std::nullopt;
      }
      text.remove_prefix(static_cast<std::size_t>(end - text.data()));
      const bool is_last = i + 1 == kNumbers;
      if (text.empty() ? !is_last : text.front() != (is_last ? ';' : ',')) {
        return std::nullopt;
      }
      text.remove_prefix(text.empty() ? 0 : 1);
    }
  }
  return out;
}

std::uint32_t narrow(std::uint64_t number) {
  return static_cast<std::uint32_t>(std::min(number, kCountMost));
}

}  // namespace

Route route_of(const GenerationRequest& request) {
  const bool scene = is_scene(request.prompt, request.voice);
  const std::uint64_t kind = !scene ? 0 : is_scene_of_names(request.prompt, request.voice) ? 1 : 2;
  const std::uint64_t references = !request.audio_references.empty() ? 1
                                   : request.image_url               ? 2
                                                                     : 0;
  const std::uint64_t voice = speaker(request.voice) ? 1 : 0;
  return Route{
      static_cast<std::uint8_t>((kind * kKindsOfReferences + references) * kKindsOfVoice + voice)};
}

bool has_references(Route route) {
  return route.number / kKindsOfVoice % kKindsOfReferences != 0;
}

GenerationRequest example_of(Route route, const std::string& voice) {
  const std::uint64_t with_voice = route.number % kKindsOfVoice,
                      references = route.number / kKindsOfVoice % kKindsOfReferences,
                      kind = route.number / kKindsOfVoice / kKindsOfReferences;
  constexpr std::array<const char*, kKindsOfPrompt> kPrompts = {"x", "[rain]", "[x]"};
  constexpr const char* kAnywhere = "https://a.example/";
  GenerationRequest out;
  out.prompt = kPrompts.at(kind);
  if (with_voice != 0) {
    out.voice = voice;
  }
  if (references == 1) {
    out.audio_references = {kAnywhere};
  } else if (references == 2) {
    out.image_url = kAnywhere;
  }
  return out;
}

LaneCounts Counted::all() const {
  return {.express = std::max(first.express, here.express),
          .bulk = std::max(first.bulk, here.bulk)};
}

void Counted::add(const Counted& other) {
  first.express += other.first.express;
  first.bulk += other.first.bulk;
  here.express = std::max(here.express, other.here.express);
  here.bulk = std::max(here.bulk, other.here.bulk);
}

void RouteLines::add(const RouteLines& other) {
  waiting.add(other.waiting);
  for (const auto& [route, line] : other.of) {
    RouteLine& mine = of[route];
    const bool known = mine.is_known() && line.is_known();
    mine.before.add(line.before);
    mine.alone = {.express = std::max(mine.alone.express, line.alone.express),
                  .bulk = std::max(mine.alone.bulk, line.alone.bulk)};
    const std::uint64_t pace = std::uint64_t{mine.pace} + line.pace;
    mine.takes = !known      ? 0
                 : pace == 0 ? std::max(mine.takes, line.takes)
                             : narrow((std::uint64_t{mine.pace} * mine.takes +
                                       std::uint64_t{line.pace} * line.takes + pace - 1) /
                                      pace);
    mine.pace = known ? narrow(pace) : 0;
    mine.needs = std::max(mine.needs, line.needs);
  }
}

std::string encode_lines(const RouteLines& lines) {
  std::string out;
  if (lines == RouteLines()) {
    return out;
  }
  const Counted& all = lines.waiting;
  append_row(out, std::array{all.first.express, all.first.bulk, all.here.express, all.here.bulk});
  for (const auto& [route, line] : lines.of) {
    const Counted& before = line.before;
    append_row(out,
               std::array<std::uint64_t, kNumbersOfLine>{route.number,
                                                         before.first.express,
                                                         before.first.bulk,
                                                         before.here.express,
                                                         before.here.bulk,
                                                         line.pace,
                                                         line.takes,
                                                         line.needs,
                                                         line.alone.express,
                                                         line.alone.bulk});
  }
  return out;
}

RouteLines parse_lines(std::string_view text) {
  RouteLines out;
  const std::size_t first = std::min(text.find(';'), text.size());
  const auto all = parse_rows<4>(text.substr(0, first));
  const auto rows = parse_rows<kNumbersOfLine>(text.substr(std::min(first + 1, text.size())));
  if (!all || !rows || all->size() != 1) {
    return out;
  }
  const auto counted = [](const auto& row, std::size_t at) {
    return Counted{.first = {.express = row[at], .bulk = row[at + 1]},
                   .here = {.express = row[at + 2], .bulk = row[at + 3]}};
  };
  out.waiting = counted(all->front(), 0);
  for (const auto& row : *rows) {
    if (row[0] < kRoutes) {
      out.of[Route{static_cast<std::uint8_t>(row[0])}] = {
          .before = counted(row, 1),
          .alone = {.express = narrow(row[8]), .bulk = narrow(row[9])},
          .pace = narrow(row[5]),
          .takes = narrow(row[6]),
          .needs = narrow(row[7])};
    }
  }
  return out;
}

std::string encode_waits(std::span<const RouteWait> waits) {
  std::string out;
  for (const RouteWait& wait : waits) {
    append_row(out,
               std::array<std::uint64_t, 7>{wait.route.number,
                                            wait.express,
                                            wait.bulk,
                                            wait.pace,
                                            wait.share,
                                            wait.takes,
                                            wait.needs});
  }
  return out;
}

std::vector<RouteWait> parse_waits(std::string_view text) {
  std::vector<RouteWait> out;
  const auto rows = parse_rows<7>(text);
  if (!rows) {
    return out;
  }
  for (const auto& row : *rows) {
    if (row[0] < kRoutes) {
      out.push_back({.route = Route{static_cast<std::uint8_t>(row[0])},
                     .express = narrow(row[1]),
                     .bulk = narrow(row[2]),
                     .pace = narrow(row[3]),
                     .share = narrow(row[4]),
                     .takes = narrow(row[5]),
                     .needs = narrow(row[6])});
    }
  }
  return out;
}

}  // namespace audiogen
