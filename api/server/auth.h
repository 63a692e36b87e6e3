// Who is asking: the bearer key of a request, looked up in the database and
// remembered for less than a second, so that a deleted key stops working everywhere within one. Or
// the session of a cookie, by another object of the same class: all that is said of keys here is
// true of sessions.
//
// Wrong keys cost anybody nothing to make, so they must not cost the others anything either:
//  - A key whose form or checksum is wrong never reaches the database.
//  - A key that was not seen valid lately counts towards its address's limit of requests without a
//    valid key *before* it is looked up, and the count is taken back when it proves valid. So an
//    address cannot cause more reads than that limit.
//  - A key seen valid lately is looked up only within its own limit, and no key twice at a time:
//    whoever else shows it waits for the same answer. So no key causes more reads than its limit,
//    and has no more than one place in a lane, however slow the database.
//  - A key that has expired is one that does not exist.
//  - What a lookup says is believed of those who came while it was not yet older than what is
//    remembered: whoever came later, since the database was slow, is looked up once more.
//  - A key found not to exist is remembered as such for as long as a valid one: a key made a moment
//    ago works within that time, whoever tried it before it was there.
//  - A key in use is looked up again before what is remembered is too old, many in one read and
//    while nobody waits: each by itself would cost more than all that it lets in.
//  - Keys seen valid lately have a lane to the database of their own. Unknown ones wait in another,
//    short one; when that is full they get a 503, and nobody else does.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "api/server/rate_limiter.h"
#include "common/base/config.h"
#include "common/base/metrics.h"
#include "common/base/mutex.h"
#include "common/http/server.h"
#include "common/store/group_commit.h"

namespace audiogen::api {

class Authenticator {
 public:
  // What shows who asks.
  struct Proof {
    std::string what;  // "key": of metrics.
    // The hash that it is looked up by; nullopt when the request has none of the right form.
    std::function<std::optional<Sha256>(const http::Request&)> hash;
    std::function<store::Batch<store::KeyOutcome>(store::TaskStore&, std::span<const Sha256>)> find;
    // Those found are used now. For people: a failure is not worth a 503, and is tried again.
    std::function<store::Batch<Done>(store::TaskStore&, std::span<const store::KeyRecord>)>
        note_use;
    // Does a request without one count towards its address's limit? A program that brings no key is
    // in error.
    bool counts_none = true;
  };
  static Proof bearer_keys(const Config& config);
  static Proof session_cookies(const Config& config);

  using Clock = std::chrono::steady_clock;
  // Deleting a key takes effect within one second, and making one too; the rest is for the lookup
  // itself. Counted from before the lookup was sent, since nobody knows when in it the row was
  // read.
  static constexpr std::chrono::milliseconds kRememberFor{800};
  static_assert(kRememberFor + std::chrono::milliseconds(100) < std::chrono::seconds(1));
  // From this age on a key in use is to be looked up again, as soon as kRenewedAtOnce are, or one
  // has waited for kRenewWithin.
  static constexpr std::chrono::milliseconds kRenewFrom{500}, kRenewWithin{100};
  static constexpr std::size_t kRenewedAtOnce = 64;
  static_assert(kRenewFrom + kRenewWithin < kRememberFor);

  // `now`: tests put a clock of their own in its place.
  Authenticator(const Config& config,
                RateLimiter& limiter,
                Proof proof,
                std::function<Clock::time_point()> now = Clock::now);

  enum class Verdict {
    kValid,
    kInvalid,      // 401.
    kLimited,      // 429: the address has shown too many keys that are not valid.
    kOverRate,     // 429: too many requests of this key, as far as it is remembered.
    kUnavailable,  // 503.
  };
  struct Judgement {
    Verdict verdict = Verdict::kInvalid;
    store::KeyRecord key;                 // When valid.
    std::chrono::seconds retry_after{0};  // When limited.
    RateDecision rate{};                  // When over its rate.
  };
  using Answer = std::function<void(const Judgement&)>;

  // What a request asks for.
  struct Wish {
    RateClass rate = RateClass::kRead;  // One of a key.
    // A remembered key without API access is then looked up again, so that a purchase opens the
    // door at once.
    bool api_access = false;
  };
  // What is to be looked up before anybody can tell.
  struct Lookup {
    Sha256 hash{};
    IpAddress client;
    Wish wish;
    bool seen = false;  // The key, valid, lately.
  };

  // The judgement, where no lookup is needed; else nullopt, and `lookup` is for look_up(). Counts
  // nothing towards the key's own limit. Never blocks.
  std::optional<Judgement> judge(const http::Request& request, const Wish& wish, Lookup& lookup);
  // Calls `answer` once, on a lookup thread, or at once where there is no room. Never blocks.
  void look_up(const Lookup& lookup, Answer answer);

  // For what goes on long after it was let in: was what the request shows found valid within the
  // last second? Never blocks.
  bool seen_just_now(const http::Request& request);
  // Else: is it still valid? True also when nobody can tell now. Calls `answer` once, on a look-up
  // thread or at once. Counts towards no limit, so whoever asks is to do so seldom. Never blocks.
  void look_again(const http::Request& request, std::function<void(bool)> answer);

  void stop();

 private:
  using Lane = store::GroupCommit<Sha256, store::KeyOutcome>;

  struct Remembered {
    store::KeyRecord record;
    Clock::time_point asked_at;  // Before the lookup was sent.
    bool renewing = false;       // Among renewals_, or asked again since.
  };
  // Those that are to be looked up again while nobody waits.
  struct Renewals {
    std::vector<Sha256> hashes;
    std::optional<Clock::time_point> since;  // Of the first, where there are any.
  };
  struct HashOfHash {
    std::size_t operator()(const Sha256& hash) const;
  };
  // A request that waits for the lookup of its key.
  struct Waiter {
    IpAddress client;
    bool api_access;  // Wish::api_access.
    Clock::time_point came_at;
    Answer answer;
    bool counts = true;  // Towards its address's limit, when the key is not valid.
  };
  // The lookup of one key, on its way.
  struct Question {
    std::optional<IpAddress> counted;  // Towards whose limit, if any.
    std::vector<Waiter> waiters;       // The first is the one that was counted.
  };
  // Whom an answer is for.
  struct Answered {
    std::vector<Waiter> waiters;
    bool counted = false;                         // The first of them.
    std::optional<Clock::time_point> again_at{};  // For the others it is to be asked once more.
  };

  static Judgement refused(const RateDecision& decision);
  // Is most of what the limit of `client` allows taken by lookups under way? Then nobody can tell
  // yet whose fault it is that there is no more room.
  bool lookups_fill_limit(const IpAddress& client) const LOCKS_REQUIRED(asking_mutex_);
  void ask(Lane& lane, const Sha256& hash, Clock::time_point asked_at);
  void answered(const Sha256& hash,
                Clock::time_point asked_at,
                const Result<store::KeyOutcome, store::StoreFault>& found);
  Answered take_waiters(const Sha256& hash, Clock::time_point asked_at, const Judgement& judged);
  // How lately was this key seen valid? kNever also when it is not known any more.
  enum class Seen { kNever, kLately, kJustNow };
  Seen recall(const Sha256& hash, store::KeyRecord& record);
  // What is to be looked up now, with this one, which is in use.
  std::vector<Sha256> take_renewals(const Sha256& hash, Remembered& key, Clock::time_point now)
      LOCKS_REQUIRED(mutex_);
  void renew(std::span<const Sha256> hashes, Clock::time_point now);
  void remember(const Sha256& hash, Clock::time_point asked_at, const store::KeyRecord& record);
  bool known_missing(const Sha256& hash);
  void remember_missing(const Sha256& hash, Clock::time_point asked_at);
  Lane::Run reads(const char* lane);
  store::Batch<store::KeyOutcome> read(store::TaskStore& store, std::span<const Sha256> hashes);

  const Proof proof_;
  const std::function<Clock::time_point()> now_;
  prometheus::Counter& refused_unread_;
  const std::size_t unauthenticated_max_;
  RateLimiter& limiter_;
  Mutex mutex_;
  std::unordered_map<Sha256, Remembered, HashOfHash> cache_ GUARDED_BY(mutex_);
  Renewals renewals_ GUARDED_BY(mutex_);
  Mutex asking_mutex_;
  std::unordered_map<Sha256, Question, HashOfHash> asking_ GUARDED_BY(asking_mutex_);
  // How many of them count towards an address's limit.
  std::unordered_map<IpAddress, std::size_t, HashOfIpAddress> counted_ GUARDED_BY(asking_mutex_);
  Mutex missing_mutex_;
  // Keys that do not exist, by when that was asked.
  std::unordered_map<Sha256, Clock::time_point, HashOfHash> missing_ GUARDED_BY(missing_mutex_);
  std::unordered_map<Sha256, Clock::time_point, HashOfHash> missing_before_
      GUARDED_BY(missing_mutex_);
  Clock::time_point missing_since_ GUARDED_BY(missing_mutex_) = now_();  // Of missing_.
  Mutex used_mutex_;
  // Whose use was written down, and when: of a key each secret's.
  std::unordered_map<Sha256, Clock::time_point, HashOfHash> noted_ GUARDED_BY(used_mutex_);
  Lane known_, unknown_;
};

// Who asks is told by keys, and by sessions where there is a console: else null.
struct Authenticators {
  Authenticator& keys;
  Authenticator* sessions = nullptr;
};

// The token of an Authorization: Bearer header (RFC 6750 section 2.1), or nullopt.
std::optional<std::string_view> bearer_token(const http::Request& request);

// The hash of the token in the session cookie; nullopt when there is none of its form.
std::optional<Sha256> session_token_hash(const http::Request& request, bool secure);

}  // namespace audiogen::api
