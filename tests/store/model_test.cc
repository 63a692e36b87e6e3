// Random work against a plain model of what tasks and credits do. MODEL_SEED repeats one run.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>

#include "tests/store/task_fixture.h"

namespace audiogen::store {
namespace {

struct ModelTask {
  std::size_t user = 0;
  TaskState state = TaskState::kQueued;
  std::uint32_t epoch = 0, claims = 0;
  std::int64_t charged = 0;
  bool due = true, dead = false, lease_lost = false;
  bool called = false;  // Anybody, in its claim.
  bool wake = false;    // The sweeper's time to look has come.
  std::string output;
};

struct ModelUser {
  UserId id;
  std::int64_t available = 0, held = 0;
  std::map<std::string, std::pair<int, TaskId>> keys;  // Which request, which task.
};

class ModelTest : public TaskStoreTest {
 protected:
  static constexpr std::int64_t kHold = 150'000;

  std::size_t pick(std::size_t count) {
    return std::uniform_int_distribution<std::size_t>(0, count - 1)(random_);
  }
  bool chance(double p) { return std::bernoulli_distribution(p)(random_); }

  TaskId some_task() {
    auto at = model_.begin();
    std::advance(at, static_cast<std::ptrdiff_t>(pick(model_.size())));
    return at->first;
  }

  void finish(ModelTask& task, TaskState state, std::int64_t charged, bool fence) {
    users_[task.user].held -= kHold;
    users_[task.user].available += kHold - charged;
    task.state = state;
    task.charged = charged;
    task.epoch += fence ? 1 : 0;
    task.wake = false;
  }

  void creates() {
    std::vector<CreateCommand> commands;
    std::vector<std::size_t> owners;
    std::vector<int> requests;
    for (std::size_t i = 0, n = 1 + pick(6); i < n; ++i) {
      owners.push_back(pick(users_.size()));
      requests.push_back(static_cast<int>(pick(2)));
      std::optional<std::string> key;
      if (chance(0.6)) {
        key = "key" + std::to_string(pick(8));
      }
      commands.push_back(create_command(users_[owners[i]].id, key));
      commands[i].fingerprint = sha256("request" + std::to_string(requests[i]));
    }
    const auto outcomes = must(store_.create(commands));
    for (std::size_t i = 0; i < commands.size(); ++i) {
      ModelUser& user = users_[owners[i]];
      using Kind = CreateOutcome::Kind;
      Kind expected = Kind::kCreated;
      TaskId id = commands[i].id;
      const auto& key = commands[i].idempotency_key;
      if (const auto use = user.keys.find(key.value_or("")); use != user.keys.end()) {
        expected = use->second.first == requests[i] ? Kind::kReplayed : Kind::kConflict;
        id = use->second.second;
      } else if (user.available < kHold) {
        expected = Kind::kInsufficient;
      } else {
        user.available -= kHold;
        user.held += kHold;
        model_[id].user = owners[i];
        if (key) {
          user.keys[*key] = {requests[i], id};
        }
      }
      ASSERT_EQ(outcomes[i].kind, expected);
      if (expected == Kind::kCreated || expected == Kind::kReplayed) {
        ASSERT_EQ(outcomes[i].task.id, id);
        ASSERT_EQ(outcomes[i].task.state, model_[id].state);
      }
    }
  }

  void claims() {
    std::vector<Hint> hints;
    for (std::size_t i = 0, n = 1 + pick(6); i < n; ++i) {
      const TaskId id = some_task();
      const auto off = static_cast<std::uint32_t>(chance(0.1) ? 1 : 0);
      hints.push_back({id, model_[id].epoch + off});
    }
    const bool called = chance(0.5);
    const auto outcomes = must(store_.claim(hints, worker_, called ? some_provider : no_provider));
    for (std::size_t i = 0; i < hints.size(); ++i) {
      ModelTask& task = model_[hints[i].task];
      const bool ready = task.state == TaskState::kQueued && task.due && !task.dead &&
                         task.epoch == hints[i].epoch;
      ASSERT_EQ(outcomes[i].has_value(), ready);
      if (ready) {
        task.state = TaskState::kRunning;
        ++task.epoch;
        ++task.claims;
        task.called = called;
        task.wake = false;  // A look that was due moves to the lease.
        task.lease_lost = false;
        ASSERT_EQ(outcomes[i]->epoch, task.epoch);
        ASSERT_EQ(outcomes[i]->claims, task.claims);
      }
    }
  }

  void settles() {
    std::vector<SettleCommand> commands;
    for (std::size_t i = 0, n = 1 + pick(6); i < n; ++i) {
      const TaskId id = some_task();
      Claim claim;
      claim.task = id;
      claim.user = users_[model_[id].user].id;
      claim.epoch = model_[id].epoch - std::min(model_[id].epoch, chance(0.15) ? 1U : 0U);
      constexpr std::array kKinds = {
          Settle::kSucceed, Settle::kFail, Settle::kRetry, Settle::kRelease};
      commands.push_back(settle_command(kKinds[pick(4)], claim));
      commands.back().held.reset();
      if (commands.back().kind == Settle::kSucceed && chance(0.8)) {  // As a first claim's worker.
        commands.back().held = Units{kHold};
        commands.back().call = 1;
        commands.back().call_state = kCallSucceeded;
      }
      commands.back().duration_ms = static_cast<std::int64_t>(pick(130'000));
      commands.back().retry_after = chance(0.5) ? 0ms : std::chrono::milliseconds(100'000);
    }
    const auto outcomes = must(store_.settle(commands));
    for (std::size_t i = 0; i < commands.size(); ++i) {
      const SettleCommand& command = commands[i];
      ModelTask& task = model_[command.task];
      SettleOutcome expected = SettleOutcome::kNotOurs;
      if (task.state == TaskState::kRunning && task.epoch == command.epoch) {
        const bool over = command.kind == Settle::kRetry && (task.claims >= 5 || task.dead);
        if (command.kind == Settle::kSucceed) {
          // 1.25 credits a second, halves up, 10 to 150 credits.
          const std::int64_t exact = (command.duration_ms * 125 + 50) / 100;
          finish(
              task, TaskState::kSucceeded, std::clamp<std::int64_t>(exact, 10'000, kHold), false);
          task.output = command.output_key;
          expected = SettleOutcome::kSettled;
        } else if (command.kind == Settle::kFail || over) {
          finish(task, TaskState::kFailed, 0, false);
          expected = SettleOutcome::kSettled;
        } else {
          task.state = TaskState::kQueued;
          ++task.epoch;
          task.claims -= command.kind == Settle::kRelease ? 1 : 0;
          task.due = command.retry_after == 0ms || (command.kind == Settle::kRelease && task.dead);
          task.wake = task.due || task.dead;
          expected = SettleOutcome::kRequeued;
        }
        task.lease_lost = false;
      } else if (task.epoch == command.epoch &&
                 ((task.state == TaskState::kSucceeded && command.kind == Settle::kSucceed &&
                   task.output == command.output_key) ||
                  (task.state == TaskState::kFailed &&
                   (command.kind == Settle::kFail || command.kind == Settle::kRetry)))) {
        expected = SettleOutcome::kSettled;  // As if it were the repeat of a lost answer.
      } else if (task.state == TaskState::kQueued && task.epoch == command.epoch + 1 &&
                 (command.kind == Settle::kRetry || command.kind == Settle::kRelease)) {
        expected = SettleOutcome::kRequeued;
      }
      ASSERT_EQ(outcomes[i], expected);
    }
  }

  void cancels() {
    const TaskId id = some_task();
    ModelTask& task = model_[id];
    const CancelOutcome outcome = must(store_.cancel(id));
    if (is_final(task.state)) {
      ASSERT_EQ(outcome, CancelOutcome::kAlreadyFinal);
    } else {
      ASSERT_EQ(outcome, CancelOutcome::kCanceled);
      finish(task, TaskState::kCanceled, 0, true);
    }
  }

  void time_passes() {
    const TaskId id = some_task();
    ModelTask& task = model_[id];
    if (is_final(task.state)) {
      return;
    }
    if (chance(0.2)) {
      pass_deadline(id);
      task.dead = true;
    } else if (task.state == TaskState::kRunning) {
      expire_lease(id);
      task.lease_lost = true;
    } else {
      make_due(id);
      task.due = true;
    }
    task.wake = true;
  }

  void sweeps() {
    std::size_t looked = 0, reaped = 0, expired = 0, exhausted = 0;
    std::vector<Hint> publish;
    for (auto& [id, task] : model_) {
      if (!task.wake) {
        continue;
      }
      ++looked;
      task.wake = false;
      if (task.dead) {
        finish(task, TaskState::kFailed, 0, true);
        ++expired;
      } else if (task.state == TaskState::kRunning && task.lease_lost) {
        if (task.called && task.claims >= 5) {
          finish(task, TaskState::kFailed, 0, true);
          ++exhausted;
        } else {
          task.state = TaskState::kQueued;
          ++task.epoch;
          task.claims -= task.called ? 0 : 1;
          task.due = true;
          publish.push_back({id, task.epoch});
          ++reaped;
        }
        task.lease_lost = false;
      } else if (task.state == TaskState::kQueued && task.due) {
        publish.push_back({id, task.epoch});
      }
    }
    SweepResult result = must(store_.sweep(10'000));
    EXPECT_EQ(result.looked_at, looked);
    EXPECT_EQ(result.reaped, reaped);
    EXPECT_EQ(result.expired, expired);
    EXPECT_EQ(result.exhausted, exhausted);
    const auto by_id = [](const Hint& a, const Hint& b) { return a.task < b.task; };
    std::sort(result.publish.begin(), result.publish.end(), by_id);
    EXPECT_EQ(result.publish, publish);
  }

  void compare() {
    for (const ModelUser& user : users_) {
      const Balance balance = db_.balance(user.id);
      EXPECT_EQ(balance.available.value, user.available);
      EXPECT_EQ(balance.held.value, user.held);
    }
    for (const auto& [id, task] : model_) {
      const auto view = find(id, users_[task.user].id);
      ASSERT_TRUE(view);
      EXPECT_EQ(view->state, task.state);
      EXPECT_EQ(view->claims, task.claims);
      EXPECT_EQ(view->output_key, task.output);
      EXPECT_EQ(view->charged.has_value(), is_final(task.state));
      EXPECT_EQ(view->charged.value_or(Units{}).value, task.charged);
      EXPECT_EQ(column(id, "epoch"), task.epoch);
    }
  }

  void run(unsigned seed, int steps) {
    SCOPED_TRACE("MODEL_SEED=" + std::to_string(seed));
    random_.seed(seed);
    model_.clear();
    users_.clear();
    for (const std::int64_t whole : {100, 450, 1500, 100'000}) {
      users_.push_back({db_.add_user(credits(whole)), whole * 1000, 0, {}});
    }
    // Only this run's rows are the sweeper's to see.
    db_.execute(Sql("UPDATE tasks SET wake_at=deadline_at WHERE wake_at IS NOT NULL"));
    must(store_.sweep(10'000));
    creates();
    for (int step = 0; step < steps && !HasFatalFailure(); ++step) {
      if (model_.empty() || chance(0.25)) {
        creates();
        continue;
      }
      constexpr std::array kSteps = {&ModelTest::claims,
                                     &ModelTest::claims,
                                     &ModelTest::settles,
                                     &ModelTest::settles,
                                     &ModelTest::cancels,
                                     &ModelTest::time_passes,
                                     &ModelTest::time_passes,
                                     &ModelTest::sweeps};
      (this->*kSteps[pick(kSteps.size())])();
    }
    compare();
    db_.expect_invariants();
  }

  std::minstd_rand random_;
  std::map<TaskId, ModelTask> model_;
  std::vector<ModelUser> users_;
};

TEST_F(ModelTest, RandomWorkAgreesWithTheModel) {
  constexpr unsigned kSeeds = 15;
  constexpr int kSteps = 200;
  if (const char* seed = std::getenv("MODEL_SEED")) {
    run(static_cast<unsigned>(std::strtoul(seed, nullptr, 10)), kSteps);
    return;
  }
  std::random_device device;
  for (unsigned i = 0; i < kSeeds && !HasFailure(); ++i) {
    run(i < kSeeds / 2 ? i : device(), kSteps);  // Some the same each time, some new.
  }
}

}  // namespace
}  // namespace audiogen::store
