// Which tasks wait for each other: those that ask the same of whoever makes them have the same
// providers, and a long wait for one of those is nobody else's. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/domain/request.h"

namespace audiogen {

// What a request asks of those who make it, as far as can be told without knowing them: narration,
// a scene of sounds by their names, or another scene; with a voice of the list or without; with
// recordings, an image, or neither. Not how long it is, nor which voice: who serves only some of a
// route is taken for one who serves all of it.
struct Route {
  std::uint8_t number = 0;  // Less than kRoutes. Means the same in all programs, for good.
  friend auto operator<=>(const Route&, const Route&) = default;
};
inline constexpr std::size_t kRoutes = 18;
Route route_of(const GenerationRequest& request);
bool has_references(Route route);

// What a worker knows of a route: who is to be served before a newcomer by the provider that has
// him soonest, and how fast that goes.
struct RouteLine {
  std::uint64_t express = 0, bulk = 0;  // So many, before a newcomer of either lane.
  std::uint32_t pace = 0;               // Tasks that it can end in 1000 s; 0: not known.
  // In seconds: what a call takes; what a task must have left when it begins.
  std::uint32_t takes = 0, needs = 0;
  friend bool operator==(const RouteLine&, const RouteLine&) = default;
};
// Of all routes of which tasks have come; and how many tasks of either lane wait for a provider.
struct RouteLines {
  std::map<Route, RouteLine> of;
  std::uint64_t express = 0, bulk = 0;
  // Another worker's.
  void add(const RouteLines& other);
  friend bool operator==(const RouteLines&, const RouteLines&) = default;
};

// What is told of a route to those who create tasks. Times in seconds.
struct RouteWait {
  Route route;
  std::uint32_t express = 0, bulk = 0;           // Until a newcomer of that lane begins.
  std::uint32_t pace = 0, takes = 0, needs = 0;  // See RouteLine.
  friend bool operator==(const RouteWait&, const RouteWait&) = default;
};

// As columns of the database hold them: ASCII without spaces, empty for nothing, kRouteTextMax long
// at the most. What is no such text reads as nothing: an estimate less, and nobody fails for it.
inline constexpr std::size_t kRouteTextMax = 1500;
std::string encode_lines(const RouteLines& lines);
RouteLines parse_lines(std::string_view text);
std::string encode_waits(std::span<const RouteWait> waits);
std::vector<RouteWait> parse_waits(std::string_view text);

}  // namespace audiogen
