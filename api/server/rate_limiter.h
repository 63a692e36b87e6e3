// Who may send how much: GCRA per key and class (all sessions of a user are one key), for all keys
// of a user together twice what one may, per address for requests without a valid key and for
// files, per address and per account for attempts to sign in; what strangers do to others' accounts
// counts by their home and site (IpAddress), and not only by the address. In memory, exact for one
// process: behind several, the proxy hashes on Authorization, so a user's keys may be counted
// apart.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "common/base/config.h"
#include "common/base/ids.h"
#include "common/base/ip_address.h"
#include "common/base/mutex.h"
#include "common/domain/rate_limit.h"

namespace audiogen::api {

// What a request counts towards.
enum class RateClass : std::uint8_t {
  kCreate,  // Of a key, as the next two. RATE_LIMIT_CREATE_…
  kRead,    // RATE_LIMIT_READ_…
  kManage,  // 120 a minute, 30 at once.
  kFile,    // Of an address: files, and documents that need no key. RATE_LIMIT_FILES_…
  kSignIn,  // Of an address: attempts to sign in, 20 a minute.
  kNone,    // Nothing: what costs no more than a look into memory.
};
inline constexpr std::size_t kKeyRates = 3;  // The first so many are of a key.

// Thread-safe; never blocks for longer than a map lookup.
class RateLimiter {
 public:
  explicit RateLimiter(const Config& config);

  // Counts one request of this caller (KeyRecord::counted_as()), and of this user with all of his
  // keys; the decision is that of whichever allows less, or refuses for longer. What is refused
  // counts towards neither. `rate` is one of a key here and below.
  RateDecision take(const Uuid& caller, UserId user, RateClass rate);
  // What take() would say now; counts nothing.
  RateDecision peek(const Uuid& caller, UserId user, RateClass rate);
  // Counts one request with a key that is still to be looked up, from `client` (or from its IPv6
  // /64).
  RateDecision take_unauthenticated(const IpAddress& client);
  // Counts one that has no valid key, as can be told without looking: apart from those above, so
  // that such noise has no valid key of its address refused.
  RateDecision take_keyless(const IpAddress& client);
  // The key was valid, or nobody could tell: the last count does not stand.
  void give_back_unauthenticated(const IpAddress& client);
  // Counts one request for a file from `client` (or from its IPv6 /64).
  RateDecision take_file(const IpAddress& client);
  // Counts one attempt to sign in from `client` (or from its IPv6 /64, and four times as many from
  // its /56, sixteen times from its /48), whatever comes of it; what is refused counts nowhere.
  RateDecision take_sign_in(const IpAddress& client);
  // Counts one guess, from `client`, of the password of the account with this address, whether
  // there is one or not: from many places it is to be no quicker, five a minute. From one home it
  // is one a minute, from a site three, so that no stranger alone uses up what the owner may; what
  // is refused for that counts towards none. Links are not counted.
  RateDecision take_guess(const IpAddress& client, std::string_view email);
  // No password was compared: the last count does not stand.
  void give_back_guess(const IpAddress& client, std::string_view email);
  // Counts one mail with a link to sign in, to this address, whether it is an account's or not,
  // that `client` has asked for: five and then one a minute to an address, of which a home brings
  // three and then one in ten minutes, a site four and then one in three. As above. By the address
  // and not by its inbox: to other addresses of an inbox, which may be nobody's, whoever has this
  // one would lose his links, and get no mail for it.
  RateDecision take_mail_link(const IpAddress& client, std::string_view email);
  // Counts one notice of one kind to one account.
  RateDecision take_notice(std::string_view name);
  // Counts one mail that lets this user confirm an address as his own, to this inbox, whosever it
  // is: five in any day of a user, twenty to an inbox. What is refused for the inbox counts towards
  // the user's: so nobody alone keeps it used up.
  RateDecision take_mail_change(UserId user, std::string_view inbox);
  // It was not sent: the last count does not stand.
  void give_back_mail_change(UserId user, std::string_view inbox);
  // Counts one mail by which an account may be made, to this inbox, asked for from
  // `client`, whether there is an account already or not: in any day three from a home to an inbox,
  // 50 from an address (or an IPv6 /64), 100 from a /56, 500 from a site, 20 to an inbox. False: it
  // may not be, and counts towards none.
  bool take_mail_sign_up(const IpAddress& client, std::string_view inbox);

  // What take() goes by.
  const RatePolicy& policy(RateClass rate) const;

  // RateLimit-Policy, RateLimit (draft-ietf-httpapi-ratelimit-headers) and X-RateLimit-* lines for
  // a decision. In RateLimit, `t` is how long until more is allowed than `r`; X-RateLimit-Reset is
  // when everything is. The one writer of these: the draft still renames its members.
  std::string headers(RateClass rate, const RateDecision& decision) const;

 private:
  using Addresses = std::unordered_map<IpAddress, RateState, HashOfIpAddress>;
  struct Shard {
    Mutex mutex;
    // Callers are with their users, so that one lock is enough.
    std::unordered_map<Uuid, std::array<RateState, kKeyRates>> callers GUARDED_BY(mutex);
    std::unordered_map<Uuid, std::array<RateState, kKeyRates>> users GUARDED_BY(mutex);
    Addresses addresses GUARDED_BY(mutex);  // With a key that is to be looked up.
    Addresses keyless GUARDED_BY(mutex);    // Without a valid one.
    Addresses readers GUARDED_BY(mutex);    // Of files.
    Addresses attempts GUARDED_BY(mutex);   // To sign in.
    // By the first half of the hash of what is counted.
    std::unordered_map<Uuid, RateState> named GUARDED_BY(mutex);
    std::chrono::steady_clock::time_point swept GUARDED_BY(mutex) =
        std::chrono::steady_clock::now();
  };
  Shard& shard_of(const IpAddress& limited);
  RateDecision take_by_address(Addresses Shard::*which,
                               const RatePolicy& policy,
                               const IpAddress& client);
  // Runs `use` on the state of what is counted by `name`.
  template <class Use>
  auto with_named(std::string_view name, const Use& use);
  template <class Policy>
  RateDecision take_by_name(const Policy& policy, std::string_view name);
  template <class Policy>
  void give_back_by_name(const Policy& policy, std::string_view name);
  // Counts towards all of the names, each with its policy, or towards none: the decision is that of
  // the first that allows no more, else of the last.
  template <class All>
  RateDecision take_all_or_none(const All& all);
  static void forget_full(Shard& shard, std::chrono::steady_clock::time_point now)
      LOCKS_REQUIRED(shard.mutex);

  std::array<RatePolicy, kKeyRates> policies_, user_policies_;
  RatePolicy unauthenticated_, files_;
  std::array<std::string, kKeyRates> policy_lines_;
  std::array<Shard, 16> shards_;
};

}  // namespace audiogen::api
