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

void RouteLines::add(const RouteLines& other) {
  express += other.express;
  bulk += other.bulk;
  for (const auto& [route, line] : other.of) {
    RouteLine& mine = of[route];
    mine.express += line.express;
    mine.bulk += line.bulk;
    mine.pace = narrow(std::uint64_t{mine.pace} + line.pace);
    mine.takes = std::max(mine.takes, line.takes);
    mine.needs = std::max(mine.needs, line.needs);
  }
}

std::string encode_lines(const RouteLines& lines) {
  std::string out;
  if (lines == RouteLines()) {
    return out;
  }
  append_row(out, std::array{lines.express, lines.bulk});
  for (const auto& [route, line] : lines.of) {
    append_row(out,
               std::array<std::uint64_t, 6>{
                   route.number, line.express, line.bulk, line.pace, line.takes, line.needs});
  }
  return out;
}

RouteLines parse_lines(std::string_view text) {
  RouteLines out;
  const std::size_t first = std::min(text.find(';'), text.size());
  const auto all = parse_rows<2>(text.substr(0, first));
  const auto rows = parse_rows<6>(text.substr(std::min(first + 1, text.size())));
  if (!all || !rows || all->size() != 1) {
    return out;
  }
  out.express = all->front()[0];
  out.bulk = all->front()[1];
  for (const auto& [number, express, bulk, pace, takes, needs] : *rows) {
    if (number < kRoutes) {
      out.of[Route{static_cast<std::uint8_t>(number)}] = {.express = express,
                                                          .bulk = bulk,
                                                          .pace = narrow(pace),
                                                          .takes = narrow(takes),
                                                          .needs = narrow(needs)};
    }
  }
  return out;
}

std::string encode_waits(std::span<const RouteWait> waits) {
  std::string out;
  for (const RouteWait& wait : waits) {
    append_row(out,
               std::array<std::uint64_t, 6>{
                   wait.route.number, wait.express, wait.bulk, wait.pace, wait.takes, wait.needs});
  }
  return out;
}

std::vector<RouteWait> parse_waits(std::string_view text) {
  std::vector<RouteWait> out;
  for (const auto& [number, express, bulk, pace, takes, needs] :
       parse_rows<6>(text).value_or(std::vector<std::array<std::uint64_t, 6>>())) {
    if (number < kRoutes) {
      out.push_back({.route = Route{static_cast<std::uint8_t>(number)},
                     .express = narrow(express),
                     .bulk = narrow(bulk),
                     .pace = narrow(pace),
                     .takes = narrow(takes),
                     .needs = narrow(needs)});
    }
  }
  return out;
}

}  // namespace audiogen
