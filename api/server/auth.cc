#include "api/server/auth.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "common/base/ascii.h"
#include "common/base/origin.h"
#include "common/domain/api_key.h"
#include "common/domain/sign_in.h"

namespace audiogen::api {
namespace {

// So long after it was last found valid, a key is looked up in the lane of the known ones.
// A working day and the night after it: at an address that many share, wrong keys of one must not
// keep out those who come back.
constexpr auto kSeenFor = std::chrono::hours(24);
constexpr std::size_t kCacheMax = 100'000;
// Of keys that do not exist, twice; about 3 MB. Beyond it they are looked up again.
constexpr std::size_t kMissingMax = 20'000;
constexpr store::GroupOptions kKnownLane{
    .use = "authenticate", .threads = 1, .batch_max = 64, .capacity = 10'000};
// Short: what waits here longer than a few milliseconds is a flood.
constexpr store::GroupOptions kUnknownLane{
    .use = "authenticate", .threads = 1, .batch_max = 64, .capacity = 1'000};
// last_used_at is for people: one write per key and minute is enough.
constexpr auto kNoteUseEvery = std::chrono::seconds(60);

}  // namespace

std::size_t Authenticator::HashOfHash::operator()(const Sha256& hash) const {
  std::size_t out = 0;
  std::memcpy(&out, hash.data(), sizeof out);
  return out;
}

std::optional<std::string_view> bearer_token(const http::Request& request) {
  constexpr std::string_view kScheme = "bearer ";
  if (request.header_count("authorization") != 1) {
    return std::nullopt;
  }
  const std::string_view value = request.header("authorization");
  if (value.size() <= kScheme.size() ||
      !ascii::equals_ignoring_case(value.substr(0, kScheme.size()), kScheme)) {
    return std::nullopt;
  }
  // One space, or more (RFC 9110 section 11.4).
  const auto token = value.find_first_not_of(' ', kScheme.size());
  return token == std::string_view::npos ? std::nullopt : std::optional(value.substr(token));
}

std::optional<Sha256> session_token_hash(const http::Request& request, bool secure) {
  if (request.header_count("cookie") != 1) {
    return std::nullopt;
  }
  const auto token = cookie_value(request.header("cookie"), session_cookie_name(secure));
  return token ? token_hash(*token) : std::nullopt;
}

Authenticator::Proof Authenticator::bearer_keys(const Config& config) {
  return {
      .what = "key",
      .hash = [brand = config.brand](const http::Request& request) -> std::optional<Sha256> {
        const auto token = bearer_token(request);
        return token ? api_key_hash(*token, brand) : std::nullopt;
      },
      .find = [](store::TaskStore& store,
                 std::span<const Sha256> hashes) { return store.find_keys(hashes); },
      .note_use = [](store::TaskStore& store,
                     std::span<const store::KeyRecord> used) { return store.touch_keys(used); }};
}

Authenticator::Proof Authenticator::session_cookies(const Config& config) {
  const auto origin = parse_origin(config.public_url);
  return {.what = "session",
          .hash = [secure = origin && origin->secure](
                      const http::Request& request) { return session_token_hash(request, secure); },
          .find = [](store::TaskStore& store,
                     std::span<const Sha256> hashes) { return store.find_sessions(hashes); },
          .note_use =
              [](store::TaskStore& store, std::span<const store::KeyRecord> used) {
                std::vector<SessionId> sessions;
                for (const store::KeyRecord& record : used) {
                  sessions.push_back(*record.session);
                }
                return store.touch_sessions(sessions);
              },
          // Each browser asks without one before anybody has signed in there: wrong keys of others
          // at its address are not to shut the console.
          .counts_none = false};
}

Authenticator::Authenticator(const Config& config,
                             RateLimiter& limiter,
                             Proof proof,
                             std::function<Clock::time_point()> now)
    : proof_(std::move(proof)),
      now_(std::move(now)),
      refused_unread_(metrics::counter(
          "api_" + proof_.what + "s_refused_unread_total",
          "Of the right form, and refused without a look-up: each a " + proof_.what)),
      unauthenticated_max_(static_cast<std::size_t>(config.unauthenticated_per_minute)),
      limiter_(limiter),
      known_(config.database, kKnownLane, reads("known")),
      unknown_(config.database, kUnknownLane, reads("unknown")) {}

Authenticator::Lane::Run Authenticator::reads(const char* lane) {
  auto& count = metrics::counter("api_" + proof_.what + "_reads_total",
                                 "Looked up in the database: each a " + proof_.what,
                                 {{"lane", lane}});
  return [this, &count](store::TaskStore& store, std::span<const Sha256> hashes) {
    count.Increment(static_cast<double>(hashes.size()));
    return read(store, hashes);
  };
}

store::Batch<store::KeyOutcome> Authenticator::read(store::TaskStore& store,
                                                    std::span<const Sha256> hashes) {
  auto found = proof_.find(store, hashes);
  std::vector<store::KeyRecord> used;
  const auto now = now_();
  {
    const MutexLock lock(used_mutex_);
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (const auto key = found[i] ? *found[i] : std::nullopt) {
        auto [it, fresh] = noted_.try_emplace(hashes[i], now);
        if (fresh || now - it->second > kNoteUseEvery) {
          it->second = now;
          used.push_back(*key);
        }
      }
    }
    if (noted_.size() > kCacheMax) {
      noted_.clear();
    }
  }
  if (!used.empty()) {
    const auto noted = proof_.note_use(store, used);
    const MutexLock lock(used_mutex_);
    for (std::size_t i = 0; i < used.size(); ++i) {
      if (!noted[i]) {
        noted_.erase(used[i].secret);
      }
    }
  }
  return found;
}

Authenticator::Seen Authenticator::recall(const Sha256& hash, store::KeyRecord& record) {
  const auto now = now_();
  Seen seen = Seen::kJustNow;
  std::vector<Sha256> renewals;
  {
    const MutexLock lock(mutex_);
    const auto it = cache_.find(hash);
    if (it == cache_.end() || now - it->second.asked_at > kSeenFor) {
      return Seen::kNever;
    }
    Remembered& key = it->second;
    record = key.record;
    if (now - key.asked_at > kRememberFor) {
      seen = Seen::kLately;
    } else if (now - key.asked_at > kRenewFrom) {
      renewals = take_renewals(hash, key, now);
    }
  }
  renew(renewals, now);
  return seen;
}

std::vector<Sha256> Authenticator::take_renewals(const Sha256& hash,
                                                 Remembered& key,
                                                 Clock::time_point now) {
  std::vector<Sha256>& hashes = renewals_.hashes;
  if (!std::exchange(key.renewing, true)) {
    if (hashes.empty()) {
      renewals_.since = now;
    }
    hashes.push_back(hash);
  }
  const bool due = hashes.size() >= kRenewedAtOnce ||
                   (!hashes.empty() && now - *renewals_.since >= kRenewWithin);
  return due ? std::exchange(hashes, {}) : std::vector<Sha256>();
}

void Authenticator::renew(std::span<const Sha256> hashes, Clock::time_point now) {
  for (const Sha256& hash : hashes) {
    bool first = false;
    {
      const MutexLock lock(asking_mutex_);
      first = asking_.try_emplace(hash).second;
    }
    if (first) {
      ask(known_, hash, now);
    }
  }
}

void Authenticator::remember(const Sha256& hash,
                             Clock::time_point asked_at,
                             const store::KeyRecord& record) {
  const MutexLock lock(mutex_);
  if (cache_.size() >= kCacheMax) {
    const auto now = now_();
    const auto forget_before = [&](Clock::duration age) LOCKS_REQUIRED(mutex_) {
      std::erase_if(cache_, [&](const auto& entry) { return now - entry.second.asked_at > age; });
    };
    for (const Clock::duration age : {Clock::duration(kSeenFor),
                                      Clock::duration(std::chrono::hours(1)),
                                      Clock::duration(std::chrono::minutes(1)),
                                      Clock::duration(kRememberFor)}) {
      forget_before(age);
      if (cache_.size() < kCacheMax) {
        break;
      }
    }
    if (cache_.size() >= kCacheMax) {
      return;
    }
  }
  cache_.insert_or_assign(hash, Remembered{record, asked_at});
}

bool Authenticator::known_missing(const Sha256& hash) {
  const auto now = now_();
  const MutexLock lock(missing_mutex_);
  for (const auto* keys : {&missing_, &missing_before_}) {
    const auto it = keys->find(hash);
    if (it != keys->end() && now - it->second <= kRememberFor) {
      return true;
    }
  }
  return false;
}

// Two generations, the older forgotten as a whole: no entry is ever searched for its age.
void Authenticator::remember_missing(const Sha256& hash, Clock::time_point asked_at) {
  {
    const MutexLock lock(mutex_);
    cache_.erase(hash);
  }
  const auto now = now_();
  const MutexLock lock(missing_mutex_);
  if (now - missing_since_ > kRememberFor) {
    missing_before_ = std::move(missing_);
    missing_.clear();
    missing_since_ = now;
  }
  if (missing_.size() < kMissingMax) {
    missing_.insert_or_assign(hash, asked_at);
  }
}

// Of a request without a valid key, as a limit of its address has it.
Authenticator::Judgement Authenticator::refused(const RateDecision& decision) {
  return {.verdict = decision.allowed ? Verdict::kInvalid : Verdict::kLimited,
          .key = {},
          .retry_after = decision.retry_after};
}

bool Authenticator::lookups_fill_limit(const IpAddress& client) const {
  const auto found = counted_.find(client.limited());
  return found != counted_.end() && 2 * found->second > unauthenticated_max_;
}

std::optional<Authenticator::Judgement> Authenticator::judge(const http::Request& request,
                                                             const Wish& wish,
                                                             Lookup& lookup) {
  const auto hash = proof_.hash(request);
  if (!hash) {
    return proof_.counts_none ? refused(limiter_.take_keyless(request.client)) : Judgement{};
  }
  Judgement judgement;
  const Seen seen = recall(*hash, judgement.key);
  if (seen == Seen::kJustNow && (judgement.key.api_access || !wish.api_access)) {
    judgement.verdict = Verdict::kValid;
    return judgement;
  }
  if (seen != Seen::kNever) {
    judgement.rate = limiter_.peek(judgement.key.counted_as(), judgement.key.user, wish.rate);
    if (!judgement.rate.allowed) {
      judgement.verdict = Verdict::kOverRate;
      return judgement;
    }
  } else if (known_missing(*hash)) {
    refused_unread_.Increment();
    return refused(limiter_.take_keyless(request.client));
  }
  lookup = {.hash = *hash, .client = request.client, .wish = wish, .seen = seen != Seen::kNever};
  return std::nullopt;
}

void Authenticator::look_up(const Lookup& lookup, Answer answer) {
  const auto now = now_();
  std::optional<Judgement> at_once;
  {
    const MutexLock lock(asking_mutex_);
    const auto under_way = asking_.find(lookup.hash);
    if (under_way != asking_.end()) {
      under_way->second.waiters.push_back(
          {lookup.client, lookup.wish.api_access, now, std::move(answer)});
      return;
    }
    Question question;
    if (!lookup.seen) {
      const Judgement counted = refused(limiter_.take_unauthenticated(lookup.client));
      if (counted.verdict == Verdict::kLimited) {
        at_once = counted;
        if (lookups_fill_limit(lookup.client)) {
          at_once->verdict = Verdict::kUnavailable;
        }
      } else {
        question.counted = lookup.client.limited();
        ++counted_[*question.counted];
      }
    }
    if (!at_once) {
      question.waiters.push_back({lookup.client, lookup.wish.api_access, now, std::move(answer)});
      asking_.emplace(lookup.hash, std::move(question));
    }
  }
  if (at_once) {
    refused_unread_.Increment();
    answer(*at_once);
    return;
  }
  ask(lookup.seen ? known_ : unknown_, lookup.hash, now);
}

bool Authenticator::seen_just_now(const http::Request& request) {
  const auto hash = proof_.hash(request);
  store::KeyRecord record;
  return hash && recall(*hash, record) == Seen::kJustNow;
}

void Authenticator::look_again(const http::Request& request, std::function<void(bool)> answer) {
  const auto hash = proof_.hash(request);
  if (!hash) {
    answer(false);
    return;
  }
  const auto now = now_();
  {
    const MutexLock lock(asking_mutex_);
    const auto [question, first] = asking_.try_emplace(*hash);
    question->second.waiters.push_back(
        {.client = request.client,
         .api_access = false,
         .came_at = now,
         .answer = [answer = std::move(answer)](
                       const Judgement& judged) { answer(judged.verdict != Verdict::kInvalid); },
         .counts = false});
    if (!first) {
      return;
    }
  }
  ask(known_, *hash, now);
}

void Authenticator::ask(Lane& lane, const Sha256& hash, Clock::time_point asked_at) {
  const bool taken = lane.submit(
      hash,
      [this, hash, asked_at](const Result<store::KeyOutcome, store::StoreFault>& found) {
        answered(hash, asked_at, found);
      },
      asked_at);
  if (!taken) {
    answered(hash, asked_at, store::StoreFault::kUnavailable);
  }
}

void Authenticator::answered(const Sha256& hash,
                             Clock::time_point asked_at,
                             const Result<store::KeyOutcome, store::StoreFault>& found) {
  const bool missing = found && !*found;
  Judgement judgement;
  if (!found) {
    judgement.verdict = Verdict::kUnavailable;
  } else if (missing) {
    remember_missing(hash, asked_at);
  } else {
    remember(hash, asked_at, **found);
    judgement.verdict = Verdict::kValid;
    judgement.key = **found;
  }
  // Only now, so that whoever comes meanwhile waits as well, or finds it remembered.
  const Answered done = take_waiters(hash, asked_at, judgement);
  bool counted = done.counted;
  for (const Waiter& waiter : done.waiters) {
    // One of them has been counted before the lookup.
    const bool count = missing && waiter.counts && !std::exchange(counted, false);
    waiter.answer(count ? refused(limiter_.take_keyless(waiter.client)) : judgement);
  }
  if (done.again_at) {
    ask(known_, hash, *done.again_at);
  }
}

Authenticator::Answered Authenticator::take_waiters(const Sha256& hash,
                                                    Clock::time_point asked_at,
                                                    const Judgement& judged) {
  const MutexLock lock(asking_mutex_);
  const auto it = asking_.find(hash);
  Question& question = it->second;
  Answered out{.waiters = std::move(question.waiters), .counted = question.counted.has_value()};
  if (const auto client = std::exchange(question.counted, std::nullopt)) {
    if (const auto theirs = counted_.find(*client); --theirs->second == 0) {
      counted_.erase(theirs);
    }
    if (judged.verdict != Verdict::kInvalid) {
      limiter_.give_back_unauthenticated(*client);
    }
  }
  question.waiters.clear();
  if (judged.verdict == Verdict::kValid) {
    // Who came when it could not even be remembered any more: the key may have been deleted before.
    // Or to create, and after this was asked: access may have been bought meanwhile.
    const auto late =
        std::stable_partition(out.waiters.begin(), out.waiters.end(), [&](const Waiter& waiter) {
          return waiter.came_at <= asked_at || (waiter.came_at - asked_at <= kRememberFor &&
                                                (judged.key.api_access || !waiter.api_access));
        });
    std::move(late, out.waiters.end(), std::back_inserter(question.waiters));
    out.waiters.erase(late, out.waiters.end());
  }
  if (question.waiters.empty()) {
    asking_.erase(it);
  } else {
    out.again_at = now_();
  }
  return out;
}

void Authenticator::stop() {
  known_.stop();
  unknown_.stop();
}

}  // namespace audiogen::api
