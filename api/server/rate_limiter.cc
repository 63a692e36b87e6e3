#include "api/server/rate_limiter.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "api/server/answer.h"
#include "common/base/check.h"
#include "common/base/crypto.h"

namespace audiogen::api {
namespace {

constexpr std::array<std::string_view, kKeyRates> kRateNames = {"create", "read", "manage"};
// For what a person or a setup script does to an account.
constexpr RatePolicy kManage{.per_minute = 120, .burst = 30};
// An office behind one address may come back from lunch at once; whoever guesses needs thousands.
constexpr RatePolicy kSignIns{.per_minute = 20, .burst = 20};
// A home has as many addresses as it likes; a site may be many homes.
constexpr RatePolicy kSignInsOfAHome{.per_minute = 80, .burst = 80};
constexpr RatePolicy kSignInsOfASite{.per_minute = 320, .burst = 320};
// Some 7,000 a day at an account, of passwords of which the common ones are refused.
constexpr RatePolicy kGuesses{.per_minute = 5, .burst = 10};
// So few that what is left is enough for whoever knows it, and enough for a slip of his hand. What
// several homes of a site do is not each one's, but leaves the others of the world theirs.
constexpr RatePolicy kGuessesFromAHome{.per_minute = 1, .burst = 8};
constexpr RatePolicy kGuessesFromASite{.per_minute = 3, .burst = 9};
// Nobody's inbox is filled.
constexpr RatePolicy kMailLinks{.per_minute = 1, .burst = 5};
// For somebody whose first mail did not come; while they work there is room for one more.
constexpr SlowPolicy kMailLinksFromAHome{.burst = 3, .interval = std::chrono::minutes(10)};
constexpr SlowPolicy kMailLinksFromASite{.burst = 4, .interval = std::chrono::minutes(3)};
constexpr RatePolicy kNotices{.per_minute = 1, .burst = 3};
// Nobody changes his address often; and an inbox may be a stranger's.
constexpr SlowPolicy kChangesADay{.burst = 3, .interval = std::chrono::hours(12)};
// Of all who ask for that inbox: one of them alone does not use it up.
constexpr SlowPolicy kChangesADayToAnInbox{.burst = 10, .interval = std::chrono::minutes(144)};
// Somebody whose first mail did not come asks again; an office, or a class, makes its accounts at
// once.
constexpr SlowPolicy kSignUpsADay{.burst = 2, .interval = std::chrono::hours(24)};
// Of all who ask for that inbox: one of them alone does not use it up.
constexpr SlowPolicy kSignUpsADayToAnInbox{.burst = 10, .interval = std::chrono::minutes(144)};
constexpr SlowPolicy kSignUpsADayFromAnAddress{.burst = 25, .interval = std::chrono::minutes(58)};
constexpr SlowPolicy kSignUpsADayFromAHome{.burst = 50, .interval = std::chrono::minutes(29)};
constexpr SlowPolicy kSignUpsADayFromASite{.burst = 250, .interval = std::chrono::minutes(6)};
// A state whose bucket is full again says nothing; such entries are dropped this often.
constexpr auto kForgetEvery = std::chrono::seconds(30);

// A user with any number of keys: so many times what one key may.
constexpr int kUserTimes = 2;

RatePolicy of_user(const RatePolicy& key) {
  constexpr int kMost = std::numeric_limits<int>::max() / kUserTimes;
  return {.per_minute = std::min(key.per_minute, kMost) * kUserTimes,
          .burst = std::min(key.burst, kMost) * kUserTimes};
}

// Of two limits on one request the one that allows less, or no more but for longer: of two that
// refuse, which both have nothing left, the one that refuses for longer.
const RateDecision& stricter(const RateDecision& a, const RateDecision& b) {
  if (a.remaining != b.remaining) {
    return a.remaining < b.remaining ? a : b;
  }
  constexpr std::chrono::seconds kNever{0};  // More than `remaining` is all there can be.
  return a.more_after != kNever && b.more_after > a.more_after ? b : a;
}

std::size_t index(RateClass rate) {
  const auto out = static_cast<std::size_t>(rate);
  AG_CHECK(out < kKeyRates);
  return out;
}

// The window in which `burst` requests come back: what RateLimit-Policy calls w.
int window_seconds(const RatePolicy& policy) {
  return static_cast<int>((std::int64_t{policy.burst} * 60 + policy.per_minute - 1) /
                          policy.per_minute);
}

Uuid half_hash(std::string_view name) {
  const Sha256 hash = sha256(name);
  Uuid out;
  std::copy_n(hash.begin(), out.bytes.size(), out.bytes.begin());
  return out;
}

// What is counted by name. None begins as another does, whatever comes behind.
std::string guesses_at(std::string_view email) {
  return "guess at " + std::string(email);
}
std::string links_to(std::string_view inbox) {
  return "link to " + std::string(inbox);
}
std::string notices_of(std::string_view name) {
  return "notice " + std::string(name);
}
// Of all that is counted so, what comes from one home, and from one site: of IPv4 the same.
std::string share_of_home(const IpAddress& client, const std::string& name) {
  return "from home " + client.home().text() + " " + name;
}
std::string share_of_site(const IpAddress& client, const std::string& name) {
  return "from site " + client.site().text() + " " + name;
}
std::string sign_ins_from_home(const IpAddress& client) {
  return "sign-in from home " + client.home().text();
}
std::string sign_ins_from_site(const IpAddress& client) {
  return "sign-in from site " + client.site().text();
}
std::string changes_by(UserId user) {
  return "change by " + user.text();
}
std::string changes_to(std::string_view inbox) {
  return "change to " + std::string(inbox);
}
std::string sign_ups_from(const IpAddress& client) {
  return "sign-up from " + client.limited().text();
}
std::string sign_ups_to(std::string_view inbox) {
  return "sign-up to " + std::string(inbox);
}
std::string sign_ups_from_home(const IpAddress& client) {
  return "sign-up from home " + client.home().text();
}
std::string sign_ups_from_site(const IpAddress& client) {
  return "sign-up from site " + client.site().text();
}
std::string sign_ups_between(const IpAddress& client, std::string_view inbox) {
  return share_of_home(client, sign_ups_to(inbox));
}

using Named = std::pair<std::string, AnyPolicy>;

std::array<Named, 3> counts_of_guess(const IpAddress& client, std::string_view email) {
  const std::string name = guesses_at(email);
  return {Named(share_of_home(client, name), kGuessesFromAHome),
          {share_of_site(client, name), kGuessesFromASite},
          {name, kGuesses}};
}

}  // namespace

RateLimiter::RateLimiter(const Config& config)
    : policies_{RatePolicy{config.create_per_minute, config.create_burst},
                RatePolicy{config.read_per_minute, config.read_burst},
                kManage},
      unauthenticated_{config.unauthenticated_per_minute, config.unauthenticated_per_minute},
      files_{config.files_per_minute, config.files_burst} {
  for (std::size_t i = 0; i < policies_.size(); ++i) {
    user_policies_[i] = of_user(policies_[i]);
    const std::string burst = std::to_string(policies_[i].burst);
    append_header(policy_lines_[i],
                  "RateLimit-Policy",
                  "\"" + std::string(kRateNames[i]) + "\";q=" + burst +
                      ";w=" + std::to_string(window_seconds(policies_[i])));
    append_header(policy_lines_[i], "X-RateLimit-Limit", burst);
  }
}

void RateLimiter::forget_full(Shard& shard, std::chrono::steady_clock::time_point now) {
  if (now - shard.swept < kForgetEvery) {
    return;
  }
  shard.swept = now;
  for (auto* const counted : {&shard.callers, &shard.users}) {
    std::erase_if(*counted, [&](const auto& entry) {
      return std::all_of(entry.second.begin(), entry.second.end(), [&](const RateState& state) {
        return state.full_at <= now;
      });
    });
  }
  const auto full = [&](const auto& entry) { return entry.second.full_at <= now; };
  for (Addresses* const addresses :
       {&shard.addresses, &shard.keyless, &shard.readers, &shard.attempts}) {
    std::erase_if(*addresses, full);
  }
  std::erase_if(shard.named, full);
}

RateDecision RateLimiter::take(const Uuid& caller, UserId user, RateClass rate) {
  const auto now = std::chrono::steady_clock::now();
  const std::size_t i = index(rate);
  Shard& shard = shards_[std::hash<Uuid>()(user.uuid) % shards_.size()];
  const MutexLock lock(shard.mutex);
  forget_full(shard, now);
  RateState& one = shard.callers[caller][i];
  RateState& all = shard.users[user.uuid][i];
  // Both are asked before either counts.
  const RateDecision before =
      stricter(audiogen::peek(one, policies_[i], now), audiogen::peek(all, user_policies_[i], now));
  if (!before.allowed) {
    return before;
  }
  return stricter(audiogen::take(one, policies_[i], now),
                  audiogen::take(all, user_policies_[i], now));
}

RateDecision RateLimiter::peek(const Uuid& caller, UserId user, RateClass rate) {
  const auto now = std::chrono::steady_clock::now();
  const std::size_t i = index(rate);
  Shard& shard = shards_[std::hash<Uuid>()(user.uuid) % shards_.size()];
  const MutexLock lock(shard.mutex);
  const auto state = [i](const auto& counted, const Uuid& who) {
    const auto found = counted.find(who);
    return found == counted.end() ? RateState{} : found->second[i];
  };
  return stricter(audiogen::peek(state(shard.callers, caller), policies_[i], now),
                  audiogen::peek(state(shard.users, user.uuid), user_policies_[i], now));
}

const RatePolicy& RateLimiter::policy(RateClass rate) const {
  return policies_[index(rate)];
}

RateLimiter::Shard& RateLimiter::shard_of(const IpAddress& limited) {
  return shards_[HashOfIpAddress()(limited) % shards_.size()];
}

RateDecision RateLimiter::take_unauthenticated(const IpAddress& client) {
  return take_by_address(&Shard::addresses, unauthenticated_, client);
}

RateDecision RateLimiter::take_keyless(const IpAddress& client) {
  return take_by_address(&Shard::keyless, unauthenticated_, client);
}

RateDecision RateLimiter::take_file(const IpAddress& client) {
  return take_by_address(&Shard::readers, files_, client);
}

RateDecision RateLimiter::take_guess(const IpAddress& client, std::string_view email) {
  return take_all_or_none(counts_of_guess(client, email));
}

void RateLimiter::give_back_guess(const IpAddress& client, std::string_view email) {
  for (const auto& [name, policy] : counts_of_guess(client, email)) {
    give_back_by_name(policy, name);
  }
}

RateDecision RateLimiter::take_mail_link(const IpAddress& client, std::string_view email) {
  const std::string name = links_to(email);
  return take_all_or_none(std::array{Named(share_of_home(client, name), kMailLinksFromAHome),
                                     Named(share_of_site(client, name), kMailLinksFromASite),
                                     Named(name, kMailLinks)});
}

RateDecision RateLimiter::take_notice(std::string_view name) {
  return take_by_name(kNotices, notices_of(name));
}

template <class Use>
auto RateLimiter::with_named(std::string_view name, const Use& use) {
  const Uuid hash = half_hash(name);
  Shard& shard = shards_[std::hash<Uuid>()(hash) % shards_.size()];
  const MutexLock lock(shard.mutex);
  forget_full(shard, std::chrono::steady_clock::now());
  return use(shard.named[hash]);
}

template <class Policy>
RateDecision RateLimiter::take_by_name(const Policy& policy, std::string_view name) {
  const auto now = std::chrono::steady_clock::now();
  return with_named(name, [&](RateState& state) { return audiogen::take(state, policy, now); });
}

template <class Policy>
void RateLimiter::give_back_by_name(const Policy& policy, std::string_view name) {
  with_named(name, [&](RateState& state) { give_back(state, policy); });
}

// What is refused has counted, for a moment, towards those before the one that refuses.
template <class All>
RateDecision RateLimiter::take_all_or_none(const All& all) {
  RateDecision out{.allowed = true};
  for (auto at = all.begin(); at != all.end() && out.allowed; ++at) {
    out = take_by_name(at->second, at->first);
    for (auto before = all.begin(); before != at && !out.allowed; ++before) {
      give_back_by_name(before->second, before->first);
    }
  }
  return out;
}

RateDecision RateLimiter::take_sign_in(const IpAddress& client) {
  if (client.is_v4()) {
    return take_by_address(&Shard::attempts, kSignIns, client);
  }
  const std::array beyond = {Named(sign_ins_from_home(client), kSignInsOfAHome),
                             Named(sign_ins_from_site(client), kSignInsOfASite)};
  const RateDecision of_all = take_all_or_none(beyond);
  if (!of_all.allowed) {
    return of_all;
  }
  const RateDecision own = take_by_address(&Shard::attempts, kSignIns, client);
  if (!own.allowed) {
    for (const auto& [name, policy] : beyond) {
      give_back_by_name(policy, name);
    }
  }
  return own;
}

RateDecision RateLimiter::take_mail_change(UserId user, std::string_view inbox) {
  const auto own = take_by_name(kChangesADay, changes_by(user));
  if (!own.allowed) {
    return own;
  }
  return take_by_name(kChangesADayToAnInbox, changes_to(inbox));
}

void RateLimiter::give_back_mail_change(UserId user, std::string_view inbox) {
  give_back_by_name(kChangesADay, changes_by(user));
  give_back_by_name(kChangesADayToAnInbox, changes_to(inbox));
}

bool RateLimiter::take_mail_sign_up(const IpAddress& client, std::string_view inbox) {
  return take_all_or_none(std::array{Named(sign_ups_from(client), kSignUpsADayFromAnAddress),
                                     Named(sign_ups_from_home(client), kSignUpsADayFromAHome),
                                     Named(sign_ups_from_site(client), kSignUpsADayFromASite),
                                     Named(sign_ups_between(client, inbox), kSignUpsADay),
                                     Named(sign_ups_to(inbox), kSignUpsADayToAnInbox)})
      .allowed;
}

RateDecision RateLimiter::take_by_address(Addresses Shard::*which,
                                          const RatePolicy& policy,
                                          const IpAddress& client) {
  const auto now = std::chrono::steady_clock::now();
  const IpAddress limited = client.limited();
  Shard& shard = shard_of(limited);
  const MutexLock lock(shard.mutex);
  forget_full(shard, now);
  return audiogen::take((shard.*which)[limited], policy, now);
}

void RateLimiter::give_back_unauthenticated(const IpAddress& client) {
  const IpAddress limited = client.limited();
  Shard& shard = shard_of(limited);
  const MutexLock lock(shard.mutex);
  // Forgotten meanwhile: then its bucket is full.
  if (const auto found = shard.addresses.find(limited); found != shard.addresses.end()) {
    audiogen::give_back(found->second, unauthenticated_);
  }
}

std::string RateLimiter::headers(RateClass rate, const RateDecision& decision) const {
  const std::string remaining = std::to_string(decision.remaining);
  std::string out;
  out.reserve(256);
  out += policy_lines_[index(rate)];
  out += "RateLimit: \"";
  out += kRateNames[index(rate)];
  out += "\";r=";
  out += remaining;
  out += ";t=";
  out += std::to_string(decision.more_after.count());
  out += "\r\n";
  append_header(out, "X-RateLimit-Remaining", remaining);
  append_header(out, "X-RateLimit-Reset", std::to_string(decision.reset_after.count()));
  return out;
}

}  // namespace audiogen::api
