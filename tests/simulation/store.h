// The mechanics of the store's transactions, as common/store/task_store_*.cc has them: what each
// reads, locks and writes. What becomes of a task the product's own rules decide
// (common/domain/lifecycle.h, common/domain/ledger.h), and who works for whom next those of
// common/domain/shares.h.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <unordered_set>
#include <vector>

#include "common/domain/clock_trust.h"
#include "tests/simulation/group.h"

namespace audiogen::simulation {

using CreateItems = Group<store::CreateCommand, store::CreateOutcome>::Items;
using ClaimItems = Group<Hint, store::ClaimOutcome>::Items;
using RenewItems = Group<store::Lease, bool>::Items;
using StartItems = Group<store::CallStart, bool>::Items;
// What became of a settlement, and the hints of what its transaction released, with one of those
// that did.
struct Settled {
  store::SettleOutcome outcome = store::SettleOutcome::kFailed;
  std::vector<Hint> released{};
};
using SettleItems = Group<store::SettleCommand, Settled>::Items;
using CancelItems = Group<store::CancelCommand, store::Cancellation>::Items;

// Who claims: the judge knows workers by number.
struct Claimant {
  WorkerId id;
  std::size_t number = 0;
};

class Store {
 public:
  Store(Shared& shared, Database& database) : shared_(shared), database_(database) {}

  void create(Transaction& tx, CreateItems& items, const Runs& runs);
  // Which provider is called first; empty: nobody yet; nullopt: not by this worker now.
  using FirstProvider = std::function<std::optional<std::string>(const store::Claim&)>;
  void claim(Transaction& tx,
             ClaimItems& items,
             Runs& runs,
             const Claimant& worker,
             const FirstProvider& first_provider);
  void renew(Transaction& tx, RenewItems& items, WorkerId worker);
  void start_calls(Transaction& tx, StartItems& items);
  void settle(Transaction& tx, SettleItems& items);
  void cancel(Transaction& tx, CancelItems& items, const Runs& runs);

  std::vector<Hint> ready(std::size_t limit,
                          std::chrono::seconds age,
                          const std::unordered_set<TaskId>& without,
                          bool express_only);

  // Releases parked tasks of these users, whose balances are locked (common/store/lanes.h).
  struct Released {
    std::vector<Hint> hints;
    std::vector<UserId> further;
  };
  Released release_next(Transaction& tx, std::span<const UserId> users, std::size_t beyond);

  // --- the sweeper's

  struct Pass {
    Instant now;
    std::pair<Instant, TaskId> after;
    Instant began;
    bool over = false, ahead = false;
    TaskId unsent_from;
  };
  Pass read_pass();
  void move_pass(const Pass& from, const std::pair<Instant, TaskId>& to);
  std::vector<TaskId> to_pull_back(Instant now);
  // The number of rows pulled back.
  std::size_t pull_back(Transaction& tx, const std::vector<TaskId>& found, Instant looked_at);
  void bring_back(Row& row, Instant now) const;
  void lock_tasks(Transaction& tx, const std::vector<TaskId>& ids);
  struct Due {
    std::pair<Instant, TaskId> at;
    UserId user;
    bool ends = false;
  };
  // The hints to be sent, first those of tasks that were tried; adds what others hold to `held`.
  struct Publish {
    std::vector<Hint> tried, others;
  };
  Publish sweep(Transaction& tx,
                std::span<const Due> due,
                const Pass& pass,
                const QueuesSeen& queues,
                bool was_away,
                std::set<TaskId>& held);

 private:
  // Ends the task's hold, and with it what its user has reserved, and counts one open task less.
  // False: the books do not allow it.
  bool end(Transaction& tx, const Row& task, Units charged);
  void move(Row& task, const TaskMove& move, Instant now) const;

  Shared& shared_;
  Database& database_;
};

// One worker's sweeps, one after the other (TaskStore::sweep).
class Sweeps {
 public:
  Sweeps(Shared& shared, Database& database, Store& store, Process& client)
      : shared_(shared), database_(database), store_(store), client_(client) {}

  struct Result {
    bool done = false;  // False: the database was away.
    Store::Publish publish{};
    bool more = false;
  };
  // One at a time.
  void sweep(bool hints_go_out, const QueuesSeen& queues, std::function<void(Result)> done);

 private:
  using Position = std::pair<Instant, TaskId>;
  struct Look;

  void pull_back(const std::shared_ptr<Look>& look);
  void look_at_new_rows(const std::shared_ptr<Look>& look);
  void read_page(Look& look, const Position& after);
  void look_at_rows(const std::shared_ptr<Look>& look);
  void change(const std::shared_ptr<Look>& look, const Action& then);
  void finish(const std::shared_ptr<Look>& look);

  Shared& shared_;
  Database& database_;
  Store& store_;
  Process& client_;
  ClockWatch watch_;
  bool pulling_back_ = false;
  std::optional<Position> resume_at_;
  std::optional<Position> seen_to_;
  bool lags_ = false;
};

// One worker's looks after crowds, one after the other (Sweeper::look_after_crowds and
// TaskStore::look_after_crowds).
class Crowds {
 public:
  using Send = std::function<void(std::span<const Hint>)>;

  // `send` gets the hints of what was released.
  Crowds(Shared& shared,
         Database& database,
         Store& store,
         Process& client,
         std::size_t worker,
         Send send)
      : shared_(shared),
        database_(database),
        store_(store),
        client_(client),
        worker_(worker),
        send_(std::move(send)) {}

  // Where it is this worker's turn. One at a time.
  void look(Action done);

 private:
  struct Look;
  using LookPtr = std::shared_ptr<Look>;

  void begin_round(const LookPtr& look);
  void read_window(Look& look) const;
  QueueSeen see_queue() const;
  void set_window(const LookPtr& look);
  void read_crowds(const LookPtr& look);
  void release(const LookPtr& look);
  void end_round(const LookPtr& look, bool done);

  Shared& shared_;
  Database& database_;
  Store& store_;
  Process& client_;
  const std::size_t worker_;
  const Send send_;
  WindowWatch window_;
  PaceWatch pace_;
  std::optional<UserId> crowd_at_;  // How far a round has come.
  std::uint32_t crowd_window_ = 0;  // As it was when that began.
};

}  // namespace audiogen::simulation
