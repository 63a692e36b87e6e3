// What this worker may do at providers' accounts whose limits hold for all workers together. Who
// says how many calls that are at the moment is somebody else (worker/upkeep/account_keeper.h).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "common/domain/account_share.h"

namespace audiogen {

class Accounts;

// One account, whichever entries name it, of whichever chain. Thread-safe, never blocks.
class Account {
 public:
  using Clock = std::chrono::steady_clock;

  // Whose calls need places. Its methods are called without a lock of the account's.
  class User {
   public:
    virtual ~User() = default;
    // Begins the first call that waits for a place. False: there is none, of the one or the other.
    virtual bool begin_waiting() = 0;
    // Since when that one has; nullopt: none does.
    virtual std::optional<Clock::time_point> waits_since() const = 0;
    // Calls under way, and those that would be if there were places.
    virtual std::uint32_t wanted() const = 0;
  };

  Account(std::string name, Accounts& all) : name_(std::move(name)), all_(all) {}
  Account(const Account&) = delete;
  Account& operator=(const Account&) = delete;

  const std::string& name() const { return name_; }

  void add_user(std::weak_ptr<User> user);
  // Takes a place for a call that begins. False: there is none.
  bool take();
  // That call has ended: who has waited longest for a place gets it.
  void give();
  // A call is about to wait for a place.
  void is_short();

  // Calls that may be under way now, and how many more may begin.
  std::size_t places() const;
  std::size_t most() const { return limit(); }  // Of all workers.
  std::size_t free() const;

  // For the keeper.
  std::uint32_t limit() const;
  void set_limit(std::uint32_t limit);
  AccountUse use() const;
  // What all workers know of it now, and until when it holds (nullopt: as before). Calls that wait
  // begin as far as they may.
  void renew(const AccountMove& move, std::uint32_t wanted, std::optional<Clock::time_point> until);

 private:
  std::uint32_t may(Clock::time_point now) const LOCKS_REQUIRED(mutex_) {
    return until_ && now < *until_ ? may_ : 0;
  }
  std::vector<std::shared_ptr<User>> users() const;
  void begin_waiting();

  const std::string name_;
  Accounts& all_;
  mutable Mutex mutex_;
  std::vector<std::weak_ptr<User>> users_ GUARDED_BY(mutex_);
  std::uint32_t limit_ GUARDED_BY(mutex_) = 0;
  std::uint32_t may_ GUARDED_BY(mutex_) = 0;
  std::uint32_t calls_ GUARDED_BY(mutex_) = 0;
  std::optional<Clock::time_point> until_ GUARDED_BY(mutex_);
  // What all workers know of this one, and what has come to wait since.
  std::uint32_t told_places_ GUARDED_BY(mutex_) = 0, told_wanted_ GUARDED_BY(mutex_) = 0;
  std::uint32_t waiting_since_ GUARDED_BY(mutex_) = 0;
};

// All that this process has heard of. Outlives whoever uses one. Thread-safe.
class Accounts {
 public:
  // The one of that name, from now on with this limit.
  std::shared_ptr<Account> get(const std::string& name, std::uint32_t limit);
  std::vector<std::shared_ptr<Account>> all() const;

  // Somebody has more to do than was told, or places to give back.
  void ask();
  // Waits for that, for so long at most. False: nobody has.
  bool wait_for_ask(std::chrono::milliseconds longest);

 private:
  mutable Mutex mutex_;
  ConditionVariable changed_;
  bool asked_ GUARDED_BY(mutex_) = false;
  std::map<std::string, std::shared_ptr<Account>> accounts_ GUARDED_BY(mutex_);
};

}  // namespace audiogen
