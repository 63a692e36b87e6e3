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
// recordings, an image, or neither. Not how long it is, nor which voice: who serves some of a route
// is taken for one who serves all of it.
struct Route {
  std::uint8_t number = 0;  // Less than kRoutes. Means the same in all programs, for good.
  friend auto operator<=>(const Route&, const Route&) = default;
};
inline constexpr std::size_t kRoutes = 18;
Route route_of(const GenerationRequest& request);
bool has_references(Route route);
// The least that a request of this route asks, with this voice where it asks for one.
GenerationRequest example_of(Route route, const std::string& voice);

// Tasks of either lane.
struct LaneCounts {
  std::uint64_t express = 0, bulk = 0;
  friend bool operator==(const LaneCounts&, const LaneCounts&) = default;
};
// In seconds, of newcomers of either lane.
struct LaneTimes {
  std::uint32_t express = 0, bulk = 0;
  friend bool operator==(const LaneTimes&, const LaneTimes&) = default;
};

// Of what waits in workers for a provider each task counts once. What waits for long is hinted to
// all of them, so it counts with the one that heard of it first. But that one may have ended since:
// what one worker has is there for certain.
struct Counted {
  LaneCounts first, here;  // Of one worker; of several their sum, and the most that one has.
  LaneCounts all() const;
  void add(const Counted& other);
  friend bool operator==(const Counted&, const Counted&) = default;
};

// What a worker knows of a route: who is to be served before a newcomer of either lane by the
// provider that has him soonest, and how fast that goes.
struct RouteLine {
  // Of what a worker heard of first as many as it would begin in time by itself, of what it has all
  // that have time enough now: others may have it as well, and go on with it together.
  Counted before;
  // In seconds: until a newcomer would begin if it went on with what it has by itself. As long he
  // waits at the most, as what is too late by then is not begun at all.
  LaneTimes alone{};
  std::uint32_t pace = 0;  // Tasks that it can end in 1000 s.
  // In seconds: what a call takes, 0: not known, of several workers by how many each makes; what a
  // task must have left when it begins.
  std::uint32_t takes = 0, needs = 0;

  bool anybody() const { return before.all().bulk > 0; }
  // Of whoever has no line nobody has to know it.
  bool is_known() const { return takes > 0 || !anybody(); }
  friend bool operator==(const RouteLine&, const RouteLine&) = default;
};
// Of all routes that somebody serves; and how many tasks wait for a provider.
struct RouteLines {
  std::map<Route, RouteLine> of;
  Counted waiting;
  // Another worker's. Where of one that has a line nobody knows the pace, nobody knows that of all.
  void add(const RouteLines& other);
  friend bool operator==(const RouteLines&, const RouteLines&) = default;
};

// What is told of a route to those who create tasks. Times in seconds.
struct RouteWait {
  Route route;
  std::uint32_t express = 0, bulk = 0;  // Until a newcomer of that lane begins.
  // See RouteLine; and in thousandths, of all that workers have, what part waits for its provider.
  // Where nobody does the pace and the part are 0.
  std::uint32_t pace = 0, share = 0, takes = 0, needs = 0;
  friend bool operator==(const RouteWait&, const RouteWait&) = default;
};

// As columns of the database hold them: ASCII without spaces, empty for nothing, kRouteTextMax long
// at the most. What is no such text reads as nothing: an estimate less, and nobody fails for it.
inline constexpr std::size_t kRouteTextMax = 2000;
std::string encode_lines(const RouteLines& lines);
RouteLines parse_lines(std::string_view text);
std::string encode_waits(std::span<const RouteWait> waits);
std::vector<RouteWait> parse_waits(std::string_view text);

}  // namespace audiogen
