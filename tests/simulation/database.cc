#include "tests/simulation/database.h"

#include <algorithm>

#include "common/base/check.h"

namespace audiogen::simulation {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// The server ends a session that keeps a transaction idle for longer.
constexpr Duration kIdleMax = seconds(1);
// Of the session that looks after crowds, between two transactions (worker/upkeep/sweeper.cc).
constexpr Duration kTurnLost = seconds(5);

std::string text_of(const Row& row) {
  std::string out = short_name(row.id) + " is " + std::string(state_name(row.state)) + ", epoch " +
                    std::to_string(row.epoch) + ", claims " + std::to_string(row.claims);
  const auto since = [](Instant at) {
    return std::to_string(std::chrono::duration<double>(at - kBeginning).count());
  };
  out += row.lost_leases != 0 ? ", lost leases " + std::to_string(row.lost_leases) : "";
  out += row.lane == Lane::kParked ? ", parked" : row.lane == Lane::kExpress ? ", express" : "";
  out += row.wake_at ? ", wakes " + since(*row.wake_at) : ", sleeps";
  if (row.state == TaskState::kQueued) {
    out += ", due " + since(row.next_run_at);
  }
  if (row.lease_until) {
    out += ", lease until " + since(*row.lease_until);
  }
  out += row.charged ? ", charged " + std::to_string(row.charged->value) : "";
  return out;
}

}  // namespace

Row* Transaction::task(TaskId id) {
  const auto found =
      std::find_if(tasks_.begin(), tasks_.end(), [&](const Row& row) { return row.id == id; });
  return found == tasks_.end() ? nullptr : &*found;
}

Account* Transaction::account(UserId user) {
  for (auto& [id, account] : accounts_) {
    if (id == user) {
      return &account;
    }
  }
  return nullptr;
}

Balance* Transaction::balance(UserId user) {
  Account* const found = account(user);
  return found == nullptr ? nullptr : &found->balance;
}

OpenTasks* Transaction::open_tasks(UserId user) {
  Account* const found = account(user);
  return found == nullptr ? nullptr : &found->open;
}

bool Transaction::is_held(TaskId id) const {
  return std::find(held_tasks_.begin(), held_tasks_.end(), id) != held_tasks_.end();
}

bool Transaction::is_held(UserId user) const {
  return std::find(held_users_.begin(), held_users_.end(), user) != held_users_.end();
}

void Transaction::book(UserId user, TaskId task, const Entry& entry) {
  Balance* const of = balance(user);
  AG_CHECK(of != nullptr);
  *of = entry.after;
  bookings_.push_back({user, task, entry});
}

void Database::transact(Process& client, Body body, Ended ended) {
  client.sends();
  const Duration slow = shared_.strikes(shared_.plan.row_slow)
                            ? shared_.random.between(milliseconds(10), seconds(3))
                            : Duration(0);
  shared_.timeline.after(
      shared_.way() + slow,
      [this, &client, body = std::move(body), ended = std::move(ended)]() mutable {
        if (away_) {
          client.after(shared_.random.between(milliseconds(1), seconds(2)),
                       [ended = std::move(ended)] { ended(TxEnd::kNothing); });
          return;
        }
        const auto tx = begin();
        body(*tx);
        shared_.timeline.after(kIdleMax, [this, tx] { roll_back(*tx); });
        client.after(shared_.way() + shared_.way(), [this, &client, tx, ended = std::move(ended)] {
          send_commit(client, tx, ended);
        });
      });
}

void Database::send_commit(Process& client,
                           const std::shared_ptr<Transaction>& tx,
                           const Ended& ended) {
  if (!tx->open_) {  // The session was ended meanwhile: this says so.
    ended(TxEnd::kNothing);
    return;
  }
  if (shared_.strikes(shared_.plan.commit_lost)) {
    // It never arrives, or its answer does not; or the connection is gone, and it arrives later.
    switch (shared_.random.below(3)) {
      case 0:
        break;
      case 1:
        shared_.timeline.after(shared_.way(), [this, tx] { commit(*tx); });
        break;
      default:
        shared_.timeline.after(shared_.random.between(milliseconds(1), milliseconds(990)),
                               [this, tx] { commit(*tx); });
        break;
    }
    client.after(shared_.random.between(milliseconds(1), milliseconds(300)),
                 [ended] { ended(TxEnd::kUnknown); });
    return;
  }
  shared_.timeline.after(shared_.way(), [this, &client, tx, ended] {
    const bool done = commit(*tx);
    client.after(shared_.way(),
                 [ended, done] { ended(done ? TxEnd::kCommitted : TxEnd::kUnknown); });
  });
}

void Database::execute(Process& client, Action statement, std::function<void(bool)> ended) {
  const Duration slow = shared_.strikes(shared_.plan.row_slow)
                            ? shared_.random.between(milliseconds(10), seconds(3))
                            : Duration(0);
  shared_.timeline.after(
      shared_.way() + slow,
      [this, &client, statement = std::move(statement), ended = std::move(ended)]() mutable {
        const bool done = !away_;
        if (done) {
          statement();
        }
        client.after(done ? shared_.way() : shared_.random.between(milliseconds(1), seconds(2)),
                     [ended = std::move(ended), done] { ended(done); });
      });
}

std::shared_ptr<Transaction> Database::begin() {
  auto tx = std::make_shared<Transaction>();
  tx->number_ = ++numbers_;
  tx->now = now();
  tx->window = known_window();
  std::erase_if(open_, [](const auto& other) { return other.expired(); });
  open_.push_back(tx);
  return tx;
}

void Database::lock_tasks(Transaction& tx, std::vector<TaskId> ids) {
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  for (const TaskId id : ids) {
    const auto row = by_id_.find(id);
    if (row == by_id_.end()) {
      continue;
    }
    std::uint64_t& holder = locked_[id];
    if (holder != 0 && !shared_.is(Mutant::kNoLocks)) {
      tx.held_tasks_.push_back(id);
      continue;
    }
    holder = tx.number_;
    tx.tasks_.push_back(*row->second);
  }
}

void Database::lock_balances(Transaction& tx, std::vector<UserId> users) {
  std::sort(users.begin(), users.end());
  users.erase(std::unique(users.begin(), users.end()), users.end());
  for (const UserId user : users) {
    Stored& account = accounts_.at(user);
    if (account.locked_by != 0 && !shared_.is(Mutant::kNoLocks)) {
      tx.held_users_.push_back(user);
      continue;
    }
    account.locked_by = tx.number_;
    tx.accounts_.emplace_back(user, account);
  }
}

const Row* Database::find(TaskId id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second;
}

std::vector<const Row*> Database::awake(const Position& after, Instant until) const {
  std::vector<const Row*> out;
  for (auto row = awake_.upper_bound(after); row != awake_.end() && row->first.first <= until;
       ++row) {
    out.push_back(row->second);
  }
  return out;
}

std::vector<Hold> Database::holds(UserId user, std::uint64_t seq, std::size_t count) const {
  const std::vector<Hold>& all = accounts_.at(user).holds;
  const auto first = std::upper_bound(
      all.begin(), all.end(), seq, [](std::uint64_t at, const Hold& of) { return at < of.seq; });
  const auto left = static_cast<std::size_t>(all.end() - first);
  return {first, first + static_cast<std::ptrdiff_t>(std::min(left, count))};
}

std::vector<std::pair<UserId, OpenTasks>> Database::crowds(std::optional<UserId> after) const {
  std::vector<std::pair<UserId, OpenTasks>> out;
  for (const auto& [user, account] : accounts_) {
    if (account.open.crowded() && (!after || *after < user)) {
      out.emplace_back(user, account.open);
    }
  }
  return out;
}

void Database::set_window(const ReleaseWindow& window, Instant looked_at) {
  window_ = window;
  looked_at_ = looked_at;
  shared_.note("database", [&] {
    return "the window is " + std::to_string(window.size) + " for " +
           std::to_string(window.crowds) + " crowds, the pace " + std::to_string(window.pace) +
           ", waits of " + std::to_string(window.express_wait) + " and " +
           std::to_string(window.bulk_wait) + " s";
  });
  shared_.judge.window_is(window.size);
}

bool Database::take_turn(std::size_t worker) {
  const Duration at = shared_.timeline.now();
  if (turn_ && turn_->first != worker && at - turn_->second < kTurnLost) {
    return false;
  }
  turn_ = {worker, at};
  return true;
}

bool Database::commit(Transaction& tx) {
  if (!tx.open_) {
    return false;
  }
  for (const Action& what : tx.at_commit_) {
    what();
  }
  for (const auto& booking : tx.bookings_) {
    shared_.judge.booked(booking.user, booking.task, booking.entry);
  }
  for (const auto& booking : tx.bookings_) {
    if (booking.entry.kind == EntryKind::kHold) {
      accounts_.at(booking.user).holds.push_back({booking.entry.after.seq, booking.task});
    }
  }
  for (const auto& [user, account] : tx.accounts_) {
    static_cast<Account&>(accounts_.at(user)) = account;
  }
  const auto keep = [this](const Row& row) {
    if (row.wake_at) {
      awake_[{*row.wake_at, row.id}] = &row;
    }
  };
  for (const Row& row : tx.inserted_) {
    rows_.push_back(row);
    by_id_.emplace(row.id, &rows_.back());
    keep(rows_.back());
    show(row, tx.now);
  }
  for (const Row& row : tx.tasks_) {
    Row& there = *by_id_.at(row.id);
    const bool shown = there.epoch != row.epoch || there.state != row.state ||
                       there.charged != row.charged || there.wake_at != row.wake_at ||
                       there.lease_until != row.lease_until || there.lane != row.lane ||
                       there.lost_leases != row.lost_leases;
    if (there.wake_at) {
      awake_.erase({*there.wake_at, there.id});
    }
    there = row;
    keep(there);
    if (shown) {
      show(there, tx.now);
    }
  }
  for (const auto& [user, account] : tx.accounts_) {
    shared_.judge.open_is(
        user, account.open.released, account.open.parked, account.open.parked_after);
  }
  shared_.judge.committed();
  release(tx);
  return true;
}

void Database::roll_back(Transaction& tx) {
  if (tx.open_) {
    release(tx);
  }
}

void Database::release(Transaction& tx) {
  tx.open_ = false;
  for (const Row& row : tx.tasks_) {
    std::uint64_t& holder = locked_[row.id];
    holder = holder == tx.number_ ? 0 : holder;
  }
  for (const auto& [user, account] : tx.accounts_) {
    std::uint64_t& holder = accounts_.at(user).locked_by;
    holder = holder == tx.number_ ? 0 : holder;
  }
}

void Database::show(const Row& row, Instant locked_at) {
  shared_.note("database", [&] { return text_of(row); });
  shared_.judge.saw({.task = row.id,
                     .user = row.user,
                     .state = row.state,
                     .epoch = row.epoch,
                     .claims = row.claims,
                     .lost_leases = row.lost_leases,
                     .parked = row.lane == Lane::kParked,
                     .created_at = row.created_at,
                     .locked_at = locked_at,
                     .charged = row.charged,
                     .failure = row.failure,
                     .output_key = row.output_key});
}

void Database::add_user(UserId user, Units amount) {
  Stored& account = accounts_[user];
  const auto entry = grant(account.balance, amount);
  AG_CHECK(entry.has_value());
  account.balance = entry->after;
  shared_.judge.granted(user, amount);
  shared_.judge.booked(user, {}, *entry);
}

void Database::audit() {
  for (const auto& [user, account] : accounts_) {
    shared_.judge.balance_is(user, account.balance);
  }
}

void Database::set_clock(Duration by) {
  set_by_ += by;
  shared_.judge.clock_was_set(by);
}

void Database::go_away() {
  away_ = true;
  for (const auto& weak : open_) {
    if (const auto tx = weak.lock()) {
      roll_back(*tx);
    }
  }
}

void Database::hold(TaskId task, Duration time) {
  std::uint64_t& holder = locked_[task];
  if (holder == 0) {
    holder = ++numbers_;
    shared_.timeline.after(time, [this, task, mine = numbers_] {
      std::uint64_t& now_held = locked_[task];
      now_held = now_held == mine ? 0 : now_held;
    });
  }
}

void Database::hold(UserId user, Duration time) {
  Stored& account = accounts_.at(user);
  if (account.locked_by == 0) {
    account.locked_by = ++numbers_;
    shared_.timeline.after(time, [this, user, mine = numbers_] {
      std::uint64_t& now_held = accounts_.at(user).locked_by;
      now_held = now_held == mine ? 0 : now_held;
    });
  }
}

}  // namespace audiogen::simulation
