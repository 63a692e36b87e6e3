#include "worker/chain/account.h"

#include <algorithm>
#include <utility>

namespace audiogen {

void Account::add_user(std::weak_ptr<User> user) {
  const MutexLock lock(mutex_);
  std::erase_if(users_, [](const auto& one) { return one.expired(); });
  users_.push_back(std::move(user));
}

bool Account::take() {
  const MutexLock lock(mutex_);
  if (calls_ >= may(Clock::now())) {
    return false;
  }
  ++calls_;
  return true;
}

void Account::give() {
  bool surplus = false;
  {
    const MutexLock lock(mutex_);
    --calls_;
    surplus = told_places_ > std::max(may_, calls_);
  }
  if (surplus) {
    all_.ask();
  }
  begin_waiting();
}

void Account::is_short() {
  bool more = false;
  {
    const MutexLock lock(mutex_);
    ++waiting_since_;
    more = calls_ + waiting_since_ > told_wanted_;
  }
  if (more) {
    all_.ask();
  }
}

std::vector<std::shared_ptr<Account::User>> Account::users() const {
  std::vector<std::shared_ptr<User>> out;
  const MutexLock lock(mutex_);
  for (const auto& one : users_) {
    if (auto user = one.lock()) {
      out.push_back(std::move(user));
    }
  }
  return out;
}

void Account::begin_waiting() {
  for (bool begun = true; begun && free() > 0;) {
    std::multimap<Clock::time_point, std::shared_ptr<User>> waiting;
    for (auto& user : users()) {
      if (const auto since = user->waits_since()) {
        waiting.emplace(*since, std::move(user));
      }
    }
    begun = std::any_of(waiting.begin(), waiting.end(), [](const auto& one) {
      return one.second->begin_waiting();
    });
  }
}

std::size_t Account::places() const {
  const MutexLock lock(mutex_);
  return may(Clock::now());
}

std::size_t Account::free() const {
  const MutexLock lock(mutex_);
  const std::uint32_t most = may(Clock::now());
  return most - std::min(most, calls_);
}

std::uint32_t Account::limit() const {
  const MutexLock lock(mutex_);
  return limit_;
}

void Account::set_limit(std::uint32_t limit) {
  const MutexLock lock(mutex_);
  limit_ = limit;
}

AccountUse Account::use() const {
  AccountUse out;
  const auto now = Clock::now();
  for (const auto& user : users()) {
    out.demand.wanted += user->wanted();
    if (const auto since = user->waits_since()) {
      // Whole seconds: a row is written when what it says has changed.
      out.demand.waits = std::max<std::chrono::milliseconds>(
          out.demand.waits, std::chrono::duration_cast<std::chrono::seconds>(now - *since));
    }
  }
  const MutexLock lock(mutex_);
  out.may = may(now);
  out.calls = calls_;
  return out;
}

void Account::renew(const AccountMove& move,
                    std::uint32_t wanted,
                    std::optional<Clock::time_point> until) {
  bool surplus = false;
  {
    const MutexLock lock(mutex_);
    may_ = move.may;
    until_ = until ? until : until_;
    told_places_ = move.places;
    told_wanted_ = wanted;
    waiting_since_ = 0;
    surplus = told_places_ > std::max(may_, calls_);
  }
  if (surplus) {
    all_.ask();
  }
  begin_waiting();
}

std::shared_ptr<Account> Accounts::get(const std::string& name, std::uint32_t limit) {
  std::shared_ptr<Account> out;
  {
    const MutexLock lock(mutex_);
    auto& account = accounts_[name];
    if (!account) {
      account = std::make_shared<Account>(name, *this);
    }
    account->set_limit(limit);
    out = account;
  }
  ask();
  return out;
}

std::vector<std::shared_ptr<Account>> Accounts::all() const {
  std::vector<std::shared_ptr<Account>> out;
  const MutexLock lock(mutex_);
  for (const auto& [name, account] : accounts_) {
    out.push_back(account);
  }
  return out;
}

void Accounts::ask() {
  {
    const MutexLock lock(mutex_);
    asked_ = true;
  }
  changed_.notify_all();
}

bool Accounts::wait_for_ask(std::chrono::milliseconds longest) {
  MutexLock lock(mutex_);
  changed_.wait_for(lock, longest, [this]() LOCKS_REQUIRED(mutex_) { return asked_; });
  return std::exchange(asked_, false);
}

}  // namespace audiogen
