// A database as the store sees it: rows that one transaction at a time has locked, a clock that
// somebody may set, and answers to COMMIT that get lost.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/domain/ledger.h"
#include "common/domain/lifecycle.h"
#include "common/domain/shares.h"
#include "tests/simulation/shared.h"

namespace audiogen::simulation {

// A row of `tasks`.
struct Row : TaskFacts {
  UserId user{};
  Instant created_at, updated_at;
  std::uint32_t calls = 0;
  std::optional<Units> charged{};
  std::optional<FailureCode> failure{};
};

// What the sweepers know together (`sweep_pass`), and what API processes have said.
struct SweepMarks {
  std::pair<Instant, TaskId> after;
  Instant began;
};
struct ApiSeen {
  TaskId unsent_from;
  Instant seen_at;
};
// A row of `workers`.
struct WorkerSeen {
  std::uint64_t places = 0, room = 0, ended = 0;
  Instant seen_at;
  bool has_ended = false;
};

// A row of `balances`.
struct Account {
  Balance balance;
  OpenTasks open;
};
// A ledger row that begins a hold.
struct Hold {
  std::uint64_t seq = 0;
  TaskId task;
};

// What a transaction has locked, and what it will leave of it.
class Transaction {
 public:
  Instant now;           // The database's clock when it began, which is when it locked.
  ReleaseWindow window;  // As of the locks.

  // Null: not there, or held.
  Row* task(TaskId id);
  Balance* balance(UserId user);
  OpenTasks* open_tasks(UserId user);
  bool is_held(TaskId id) const;
  bool is_held(UserId user) const;

  void book(UserId user, TaskId task, const Entry& entry);
  void insert(const Row& row) { inserted_.push_back(row); }
  // Happens with COMMIT, before the rows are seen.
  void at_commit(Action what) { at_commit_.push_back(std::move(what)); }

 private:
  friend class Database;
  Account* account(UserId user);
  struct Booking {
    UserId user;
    TaskId task;
    Entry entry;
  };
  std::uint64_t number_ = 0;
  bool open_ = true;
  std::vector<Row> tasks_, inserted_;
  std::vector<std::pair<UserId, Account>> accounts_;
  std::vector<TaskId> held_tasks_;
  std::vector<UserId> held_users_;
  std::vector<Booking> bookings_;
  std::vector<Action> at_commit_;
};

// How a transaction ended, as far as its client knows.
enum class TxEnd { kCommitted, kNothing, kUnknown };

class Database {
 public:
  using Body = std::function<void(Transaction&)>;
  using Ended = std::function<void(TxEnd)>;
  using Position = std::pair<Instant, TaskId>;  // In the index of wake_at.

  explicit Database(Shared& shared) : shared_(shared) {}
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // Sends a transaction: `body` runs in the server, locks, reads and says what is to be written;
  // `ended` in the client, unless that has died.
  void transact(Process& client, Body body, Ended ended);
  // Sends one statement without locks. `ended` is told whether it was carried out.
  void execute(Process& client, Action statement, std::function<void(bool)> ended);

  // --- in the server

  Instant now() const { return kBeginning + shared_.timeline.now() + set_by_; }
  // Skips what others hold.
  void lock_tasks(Transaction& tx, std::vector<TaskId> ids);
  void lock_balances(Transaction& tx, std::vector<UserId> users);
  const Row* find(TaskId id) const;
  // Those with a wake_at after `after` and no later than `until`, in its order.
  std::vector<const Row*> awake(const Position& after, Instant until) const;
  // The first `count` holds of a user after the row `seq` of his ledger.
  std::vector<Hold> holds(UserId user, std::uint64_t seq, std::size_t count) const;
  // The users with parked tasks after this one, in order, and their rows as they are.
  std::vector<std::pair<UserId, OpenTasks>> crowds(std::optional<UserId> after) const;
  // As it was written, and as it is known now.
  const ReleaseWindow& window() const { return window_; }
  ReleaseWindow known_window() const { return known_at(window_, looked_at_, now()); }
  void set_window(const ReleaseWindow& window, Instant looked_at);
  // Of the look after crowds. A session that has been idle for some seconds has none.
  bool take_turn(std::size_t worker);

  SweepMarks marks{{Instant(std::chrono::sys_days(std::chrono::year(2000) / 1 / 1)), {}},
                   Instant(std::chrono::sys_days(std::chrono::year(2000) / 1 / 1))};
  std::map<std::size_t, ApiSeen> apis;
  std::map<std::size_t, WorkerSeen> workers;

  // --- from outside

  void add_user(UserId user, Units amount);
  const std::deque<Row>& rows() const { return rows_; }
  void audit();
  void set_clock(Duration by);
  void go_away();
  void come_back() { away_ = false; }
  bool away() const { return away_; }
  // Somebody's console holds this row, or this user's balance.
  void hold(TaskId task, Duration time);
  void hold(UserId user, Duration time);

 private:
  struct Stored : Account {
    std::uint64_t locked_by = 0;  // 0: nobody.
    std::vector<Hold> holds{};    // In the order of the ledger.
  };

  std::shared_ptr<Transaction> begin();
  void send_commit(Process& client, const std::shared_ptr<Transaction>& tx, const Ended& ended);
  // False: the server has ended it before.
  bool commit(Transaction& tx);
  void roll_back(Transaction& tx);
  void release(Transaction& tx);
  void show(const Row& row, Instant locked_at);

  Shared& shared_;
  Duration set_by_{0};
  bool away_ = false;
  std::uint64_t numbers_ = 0;
  std::deque<Row> rows_;
  std::unordered_map<TaskId, Row*> by_id_;
  std::unordered_map<TaskId, std::uint64_t> locked_;
  std::map<UserId, Stored> accounts_;
  std::map<Position, const Row*> awake_;
  ReleaseWindow window_{.size = 1000};
  std::optional<Instant> looked_at_;
  std::optional<std::pair<std::size_t, Duration>> turn_;  // Whose it is, and since when unused.
  std::vector<std::weak_ptr<Transaction>> open_;
};

}  // namespace audiogen::simulation
