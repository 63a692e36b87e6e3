#include "api/rate_limiter.h"

#include "api/wire.h"

namespace audiogen::api {
namespace {

constexpr std::array<std::string_view, 2> kNames = {"create", "read"};
// A state whose bucket is full again says nothing; such entries are dropped this often.
constexpr auto kForgetEvery = std::chrono::seconds(30);

std::size_t index(RouteClass route) {
  return static_cast<std::size_t>(route);
}

// The window in which `burst` requests come back: what RateLimit-Policy calls w.
int window_seconds(const RatePolicy& policy) {
  return static_cast<int>((std::int64_t{policy.burst} * 60 + policy.per_minute - 1) /
                          policy.per_minute);
}

}  // namespace

RateLimiter::RateLimiter(const Config& config)
    : policies_{RatePolicy{config.create_per_minute, config.create_burst},
                RatePolicy{config.read_per_minute, config.read_burst}},
      unauthenticated_{config.unauthenticated_per_minute, config.unauthenticated_per_minute} {
  for (std::size_t i = 0; i < policies_.size(); ++i) {
    const std::string burst = std::to_string(policies_[i].burst);
    append_header(policy_lines_[i],
                  "RateLimit-Policy",
                  "\"" + std::string(kNames[i]) + "\";q=" + burst +
                      ";w=" + std::to_string(window_seconds(policies_[i])));
    append_header(policy_lines_[i], "X-RateLimit-Limit", burst);
  }
}

void RateLimiter::forget_full(Shard& shard, std::chrono::steady_clock::time_point now) {
  if (now - shard.swept < kForgetEvery) {
    return;
  }
  shard.swept = now;
  std::erase_if(shard.keys, [&](const auto& entry) {
    return entry.second[0].full_at <= now && entry.second[1].full_at <= now;
  });
  std::erase_if(shard.addresses, [&](const auto& entry) { return entry.second.full_at <= now; });
}

RateDecision RateLimiter::take(KeyId key, RouteClass route) {
  const auto now = std::chrono::steady_clock::now();
  Shard& shard = shards_[std::hash<KeyId>()(key) % shards_.size()];
  const std::scoped_lock lock(shard.mutex);
  forget_full(shard, now);
  return audiogen::take(shard.keys[key][index(route)], policies_[index(route)], now);
}

RateDecision RateLimiter::take_unauthenticated(std::string_view address) {
  const auto now = std::chrono::steady_clock::now();
  Shard& shard = shards_[std::hash<std::string_view>()(address) % shards_.size()];
  const std::scoped_lock lock(shard.mutex);
  forget_full(shard, now);
  return audiogen::take(shard.addresses[std::string(address)], unauthenticated_, now);
}

std::string RateLimiter::headers(RouteClass route, const RateDecision& decision) const {
  const std::string remaining = std::to_string(decision.remaining);
  const std::string reset = std::to_string(decision.reset_after.count());
  std::string out;
  out.reserve(192);
  out += policy_lines_[index(route)];
  append_header(out,
                "RateLimit",
                "\"" + std::string(kNames[index(route)]) + "\";r=" + remaining + ";t=" + reset);
  append_header(out, "X-RateLimit-Remaining", remaining);
  append_header(out, "X-RateLimit-Reset", reset);
  return out;
}

}  // namespace audiogen::api
