#include "tests/simulation/simulation.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "tests/simulation/api.h"
#include "tests/simulation/worker.h"

namespace audiogen::simulation {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

// Everything ends so long after it has healed: a lease, the time in which a clock is not believed,
// a call of 90 s; and where nobody pulls, the time in which a hint
// that may be lost is trusted, and a pass of the sweepers.
constexpr Duration kHealsPulling = seconds(220);
constexpr Duration kHealsSwept = seconds(400);
// And what is open then takes its time: a job, and a suspect with what it waits for.
constexpr Duration kJob = seconds(5), kSuspectsTurn = seconds(30);
// Whoever was late is still there for so long.
constexpr Duration kAfterwards = seconds(45);
// A broker gives up a process that says nothing for so long.
constexpr Duration kSilent = seconds(25);

UserId make_user_id(std::size_t number) {
  UserId id;
  id.uuid.bytes[15] = static_cast<std::uint8_t>(number + 1);
  return id;
}

class Simulation {
 public:
  Simulation(std::uint64_t seed, Mutant mutant, bool log)
      : shared_(seed, mutant, log),
        database_(shared_),
        store_(shared_, database_),
        broker_(shared_) {}

  Report run() {
    begin();
    const Timeline& timeline = shared_.timeline;
    const Duration last = shared_.plan.heals + shared_.plan.deadline + minutes(10);
    Duration end = last;
    while (!shared_.judge.verdict() && timeline.now() < end && shared_.timeline.step()) {
      if (!shared_.healed || !shared_.judge.all_final()) {
        end = last;
      } else if (end == last) {
        end = timeline.now() + kAfterwards;
      }
    }
    if (!shared_.judge.verdict()) {
      database_.audit();
      shared_.judge.finish();
    }
    const Judge& judge = shared_.judge;
    return {.verdict = judge.verdict(),
            .plan = describe(shared_.plan),
            .log = shared_.log.text(),
            .events = timeline.events(),
            .lasted = timeline.now(),
            .tasks = judge.ended(),
            .succeeded = judge.succeeded(),
            .parked = judge.parked(),
            .suspects = judge.suspects(),
            .refused_as_late = judge.refused_as_late(),
            .latest_after_deadline = judge.latest_after_deadline(),
            .latest_after_healing = judge.latest_after_healing(),
            .longest_stuck = judge.longest_stuck(),
            .longest_single = judge.longest_single()};
  }

 private:
  void begin() {
    const Plan& plan = shared_.plan;
    for (std::size_t i = 0; i < plan.users; ++i) {
      users_.push_back(make_user_id(i));
      const auto tasks = static_cast<std::int64_t>(
          static_cast<double>(plan.tasks) * plan.credits_for / static_cast<double>(plan.users));
      const auto at_once = static_cast<std::int64_t>(burst_of(i));
      database_.add_user(users_.back(), credits(150 * (tasks + at_once + 1)));
      shared_.judge.allowed(users_.back(), plan.released_max[i]);
    }
    shared_.judge.undisturbed(undisturbed());
    apis_.resize(plan.apis);
    workers_.resize(plan.workers);
    restart();
    for (std::size_t i = 0; i < plan.tasks; ++i) {
      const auto number = static_cast<std::uint16_t>(i + 1);
      at(shared_.random.between(Duration(0), plan.heals),
         [this, number] { ask(shared_.random.below(users_.size()), number); });
    }
    for (std::size_t i = 0, number = plan.tasks; i < plan.bursts.size(); ++i) {
      const Duration from = shared_.random.between(Duration(0), plan.heals - seconds(3));
      for (std::size_t j = 0; j < plan.bursts[i]; ++j) {
        const auto next = static_cast<std::uint16_t>(++number);
        at(from + shared_.random.between(Duration(0), seconds(2)),
           [this, user = i % users_.size(), next] { ask(user, next); });
      }
    }
    strike(plan.worker_dies, &Simulation::kill_worker);
    strike(plan.worker_freezes, &Simulation::freeze_worker);
    strike(plan.worker_stops, &Simulation::stop_worker);
    strike(plan.api_dies, &Simulation::kill_api);
    strike(plan.api_freezes, &Simulation::freeze_api);
    strike(plan.database_away, &Simulation::end_database);
    strike(plan.broker_away, &Simulation::end_broker);
    strike(plan.broker_purged, &Simulation::purge);
    strike(plan.clock_set, &Simulation::set_clock);
    strike(plan.row_held, &Simulation::hold_row);
    at(plan.heals, [this] { heal(); });
  }

  // What the judge may count on.
  Judge::Undisturbed undisturbed() const {
    const Plan& plan = shared_.plan;
    const Duration never{0};
    Judge::Undisturbed out;
    out.leases = plan.database_away == never && plan.worker_freezes == never && plan.row_slow == 0;
    out.releases = plan.row_held == never && plan.clock_set == never && plan.cancels == 0;
    if (plan.calm) {
      // Before it in the express lane are at most so many of each other user's; with every fourth
      // place for the bulk lane, one worker has to take all of them and it.
      const std::size_t express = 4 * (plan.users - 1) + 1;
      const std::size_t places = express + (express + 2) / 3;
      const std::size_t rounds = 1 + (places + plan.places - 1) / plan.places;
      out.single_within = kJob * static_cast<int>(rounds);
    }
    return out;
  }

  // So many tasks of this user come in bursts.
  std::size_t burst_of(std::size_t user) const {
    std::size_t count = 0;
    for (std::size_t i = user; i < shared_.plan.bursts.size(); i += shared_.plan.users) {
      count += shared_.plan.bursts[i];
    }
    return count;
  }

  // What has not ended of bursts when everything heals takes its time, one after the other. And a
  // retry comes when it is due: what runs may yet fail.
  Duration heals_within() const {
    const Plan& plan = shared_.plan;
    std::map<UserId, std::size_t> ended;
    std::size_t suspects = 0, jobs = 0;
    Duration until_due{0};
    for (const Row& row : database_.rows()) {
      if (row.state == TaskState::kQueued) {
        const auto most = retry_delay(
            kClaimsMax - 1, std::chrono::floor<std::chrono::milliseconds>(plan.deadline), 1);
        until_due = std::max<Duration>(until_due,
                                       std::min<Duration>(row.next_run_at - database_.now(), most));
      } else if (row.state == TaskState::kRunning) {
        const auto left = std::chrono::floor<std::chrono::milliseconds>(
            std::max<Duration>(row.deadline_at - database_.now(), Duration(0)));
        until_due = std::max<Duration>(until_due, retry_delay(row.claims, left, 1));
      }
      ended[row.user] += is_final(row.state) ? 1U : 0U;
      suspects += !is_final(row.state) && row.lost_leases >= kLostTogether - 1 ? 1U : 0U;
    }
    const auto shared_by = [](std::size_t count, std::size_t by) { return (count + by - 1) / by; };
    for (std::size_t i = 0; i < users_.size(); ++i) {
      const std::size_t places = plan.places * plan.workers, most = plan.released_max[i];
      const std::size_t left = burst_of(i) - std::min(burst_of(i), ended[users_[i]]);
      jobs += shared_by(left, most == 0 ? places : std::min(places, most));
    }
    return (plan.pull ? kHealsPulling : kHealsSwept) + until_due + kJob * static_cast<int>(jobs) +
           kSuspectsTurn * static_cast<int>(shared_by(suspects, plan.workers));
  }

  void at(Duration delay, Action what) { shared_.timeline.after(delay, std::move(what)); }

  // Does `what` now and then, as long as things go wrong.
  void strike(Duration mean, void (Simulation::*what)()) {
    if (mean == Duration(0)) {
      return;
    }
    at(shared_.random.between(mean / 5, mean * 2), [this, mean, what] {
      if (!shared_.healed) {
        (this->*what)();
        shared_.judge.struck();
        look();
        strike(mean, what);
      }
    });
  }

  // Tells the judge whether anybody can do anything.
  void look() {
    const bool works = std::any_of(workers_.begin(), workers_.end(), [](const Worker* worker) {
      return worker != nullptr && worker->runs();
    });
    shared_.judge.blocked(!works || database_.away() || holds_ > 0);
  }

  void note(const std::string& what) {
    shared_.note("world", [&] { return what; });
  }

  // --- clients

  void ask(std::size_t whose, std::uint16_t number) {
    Api* const api = shared_.random.pick(apis_);
    if (api == nullptr) {
      return;
    }
    const UserId user = users_[whose];
    const std::uint32_t most = shared_.plan.released_max[whose];
    api->after(shared_.way(), [api, user, number, most] { api->create(user, number, most); });
    if (shared_.random.chance(shared_.plan.cancels)) {
      at(shared_.random.between(milliseconds(1), seconds(60)), [this] { cancel_some(); });
    }
  }

  void cancel_some() {
    Api* const api = shared_.random.pick(apis_);
    if (api != nullptr && !database_.rows().empty()) {
      const TaskId task = database_.rows()[shared_.random.below(database_.rows().size())].id;
      api->after(shared_.way(), [api, task] { api->cancel(task); });
    }
  }

  // --- processes

  void restart() {
    for (Api*& api : apis_) {
      if (api == nullptr) {
        all_apis_.push_back(
            std::make_unique<Api>(shared_, database_, store_, broker_, all_apis_.size() + 1));
        api = all_apis_.back().get();
      }
    }
    for (Worker*& worker : workers_) {
      if (worker == nullptr) {
        all_workers_.push_back(std::make_unique<Worker>(
            shared_, database_, store_, broker_, all_workers_.size() + 1, [this](Worker& crashed) {
              kill(crashed);
            }));
        worker = all_workers_.back().get();
        began_last_ = shared_.timeline.now();
        shared_.judge.leases_say_nothing({}, {});  // This one has not seen it.
        note(worker->name() + " begins");
      }
    }
    look();
  }

  void restart_later() {
    const Duration most = shared_.healed ? Duration(0) : seconds(40);
    at(shared_.random.between(Duration(0), most), [this] { restart(); });
  }

  void kill(Worker& worker) {
    if (!worker.alive()) {
      return;
    }
    note(worker.name() + " ends");
    worker.die();
    broker_.leave(worker);
    shared_.judge.died(worker.number());
    shared_.judge.struck();
    std::replace(workers_.begin(), workers_.end(), &worker, static_cast<Worker*>(nullptr));
    look();
    restart_later();
  }

  void kill_worker() {
    if (Worker* const worker = shared_.random.pick(workers_)) {
      at_some_time(*worker, [this, worker] { kill(*worker); });
    }
  }

  void stop_worker() {
    Worker* const worker = shared_.random.pick(workers_);
    if (worker != nullptr && worker->runs() && !worker->stopping()) {
      note(worker->name() + " is asked to stop");
      worker->stop([this, worker] { kill(*worker); });
    }
  }

  Duration freezing_time() {
    const std::vector<Duration> most = {seconds(1), seconds(10), seconds(40), seconds(120)};
    return shared_.random.between(milliseconds(50), shared_.random.pick(most));
  }

  void freeze_worker() {
    Worker* const worker = shared_.random.pick(workers_);
    if (worker != nullptr) {
      at_some_time(*worker, [this, worker] { freeze(*worker); });
    }
  }

  // Now, or in the middle of something.
  void at_some_time(Process& process, Action what) {
    if (shared_.random.chance(0.6)) {
      process.when_it_sends([this, what = std::move(what)] {
        if (!shared_.healed) {
          what();
          look();
        }
      });
    } else {
      what();
    }
  }

  void freeze(Worker& worker) {
    if (!worker.runs()) {
      return;
    }
    const Duration time = freezing_time();
    note(worker.name() + " freezes");
    worker.freeze();
    shared_.judge.froze(worker.number(), true);
    at(std::min(time, kSilent), [this, &worker, time] {
      if (worker.frozen() && time > kSilent) {
        broker_.leave(worker);
      }
    });
    at(time, [this, &worker] { thaw(worker); });
  }

  void thaw(Worker& worker) {
    if (!worker.frozen()) {
      return;
    }
    note(worker.name() + " goes on");
    worker.thaw();
    shared_.judge.froze(worker.number(), false);
    shared_.judge.struck();
    broker_.leave(worker);
    if (!worker.stopping()) {
      broker_.consume(worker, shared_.plan.places);
    }
    look();
  }

  void kill_api() {
    Api*& api = apis_[shared_.random.below(apis_.size())];
    if (api != nullptr) {
      note(api->name() + " ends");
      api->die();
      api = nullptr;
      restart_later();
    }
  }

  void freeze_api() {
    Api* const api = shared_.random.pick(apis_);
    if (api != nullptr && !api->frozen()) {
      note(api->name() + " freezes");
      api->freeze();
      at(freezing_time(), [api] { api->thaw(); });
    }
  }

  // --- what they need

  void end_database() {
    if (database_.away()) {
      return;
    }
    note("the database ends");
    database_.go_away();
    away_from_ = shared_.timeline.now();
    shared_.judge.leases_say_nothing({}, {});
    at(shared_.random.between(milliseconds(500), seconds(40)), [this] { begin_database(); });
  }

  void begin_database() {
    if (database_.away()) {
      note("the database is back");
      database_.come_back();
      // Who has looked every second until then sees how long that was.
      const Duration now = shared_.timeline.now();
      if (shared_.plan.worker_freezes == Duration(0) && now - away_from_ > seconds(13) &&
          away_from_ - std::max(began_last_, back_at_) > seconds(10)) {
        shared_.judge.leases_say_nothing(away_from_, now + seconds(25));
      }
      back_at_ = now;
      look();
    }
  }

  void end_broker() {
    if (broker_.connected()) {
      note("the broker ends");
      broker_.go_away(shared_.random.chance(0.5));
      at(shared_.random.between(seconds(1), seconds(100)), [this] { begin_broker(); });
    }
  }

  void begin_broker() {
    if (!broker_.connected()) {
      note("the broker is back");
      broker_.come_back();
    }
  }

  void purge() {
    note("the queue is purged");
    broker_.purge();
  }

  // Small steps are what keeps a clock right; what is larger somebody has done.
  void set_clock() {
    const std::vector<Duration> most = {seconds(1), seconds(20), seconds(240), seconds(4000)};
    const Duration limit = shared_.random.pick(most);
    const Duration by = shared_.random.between(-limit, limit);
    note("the database's clock is set by " +
         std::to_string(std::chrono::duration<double>(by).count()) + " s");
    database_.set_clock(by);
  }

  void hold_row() {
    const Duration left = shared_.plan.heals - shared_.timeline.now();
    const Duration time = std::min(left, shared_.random.between(milliseconds(100), seconds(20)));
    ++holds_;
    at(time, [this] {
      --holds_;
      look();
    });
    if (database_.rows().empty() || shared_.random.chance(0.4)) {
      note("a balance is held");
      database_.hold(shared_.random.pick(users_), time);
    } else {
      const TaskId task = database_.rows()[shared_.random.below(database_.rows().size())].id;
      note(short_name(task) + " is held");
      database_.hold(task, time);
    }
  }

  void heal() {
    note("everything heals");
    shared_.healed = true;
    for (const auto& worker : all_workers_) {
      thaw(*worker);
    }
    for (const auto& api : all_apis_) {
      api->thaw();
    }
    begin_database();
    begin_broker();
    restart();
    shared_.judge.struck();
    shared_.judge.healed(heals_within());
  }

  Shared shared_;
  Database database_;
  Store store_;
  Broker broker_;
  std::vector<UserId> users_;
  // Those that have died, too: what they sent may still be on its way.
  std::vector<std::unique_ptr<Api>> all_apis_;
  std::vector<std::unique_ptr<Worker>> all_workers_;
  std::vector<Api*> apis_;        // Null: dead.
  std::vector<Worker*> workers_;  // Likewise.
  int holds_ = 0;
  Duration away_from_{0}, back_at_{0};  // The database.
  Duration began_last_{0};              // The newest worker.
};

}  // namespace

Report simulate(std::uint64_t seed, Mutant mutant, bool log) {
  return Simulation(seed, mutant, log).run();
}

}  // namespace audiogen::simulation
