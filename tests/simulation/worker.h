// A worker process, as far as the protocol goes: the rooms of worker/job and the upkeep beside them
// in one class, without providers, audio and files.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <unordered_set>

#include "common/domain/waiting.h"
#include "tests/simulation/broker.h"
#include "tests/simulation/store.h"
#include "worker/job/suspects.h"

namespace audiogen::simulation {

class Worker : public Process, public Consumer {
 public:
  // `number`: unlike that of any other start of a worker. `crash`: what it is asked to do has ended
  // it.
  Worker(Shared& shared,
         Database& database,
         Store& store,
         Broker& broker,
         std::size_t number,
         std::function<void(Worker&)> crash);

  // Finishes what it can within 20 s, gives the rest back, and then does `ended`.
  void stop(Action ended);
  bool stopping() const { return closed_; }
  std::size_t number() const { return claimant_.number; }

  Process& process() override { return *this; }
  void deliver(const Delivery& delivery) override;

 private:
  struct Job {
    store::Claim claim;
    Lane lane = Lane::kBulk;
    bool aside = false;  // Its place is free again.
    ClockLook::Steady began_at, lease_from;
    bool renewing = false, lost = false, given_back = false;
    bool called = false;     // A call is open.
    std::uint64_t call = 0;  // The newest; answers of others come too late.
    std::uint32_t row = 0;   // Of the newest call.
    int calls = 0;           // In this claim.
  };
  using JobPtr = std::shared_ptr<Job>;

  ClaimOf of(const Job& job) const { return {claimant_.number, job.claim.task, job.claim.epoch}; }

  // --- places (worker/job/roster.h)
  Room places() const;
  std::size_t left(Lane lane) const;
  std::size_t& taken(Lane lane) { return lane == Lane::kExpress ? express_ : bulk_; }
  bool reserve(Lane lane, std::size_t spoken_for = 0);
  void unreserve(Lane lane);
  void enter(const JobPtr& job);
  void step_aside(const JobPtr& job);
  bool has(const JobPtr& job) const;
  void freed();

  // --- suspects (worker/job/suspects.h)
  bool offer(TaskId task);
  void batch_of_claims_over();
  void came(const JobPtr& job);
  void watch_suspect(const JobPtr& job);
  void look_at_suspect();
  void suspect_is_over();
  void give_back(const JobPtr& job, Duration wait);

  // --- intake
  Room room() const;
  std::vector<Hint> take(const std::vector<Hint>& hints);
  std::vector<Hint> take_tried(const std::vector<Hint>& hints);
  QueuesSeen queues_seen() const;
  void go_on();
  void claim(const Delivery& delivery, int tries);
  std::optional<std::string> first_provider(const store::Claim& claim);
  void claimed(const store::Claim& claim, Lane lane, ClockLook::Steady asked_at);
  void begin(const JobPtr& job);
  void ack(const Delivery& delivery);

  // --- calls
  void write_and_call(const JobPtr& job);
  void write(const JobPtr& job, std::uint32_t row);
  void call(const JobPtr& job);
  void end_call(Job& job);
  void answered(const JobPtr& job);
  void failed(const JobPtr& job);

  // --- the end
  void succeed(const JobPtr& job);
  void give_up(const JobPtr& job, Trouble trouble, Duration not_before);
  void settle(const JobPtr& job, const store::SettleCommand& command, int tries);
  void leave(const JobPtr& job);

  // --- leases
  bool lease_is_over(const Job& job) const;
  void watch();
  void renew(const JobPtr& job);
  void lose(const JobPtr& job, const char* why);

  // --- upkeep
  void report();
  void upkeep();
  void pull();

  void log(const Job& job, const std::string& what);

  Shared& shared_;
  Database& database_;
  Store& store_;
  Broker& broker_;
  const Claimant claimant_;
  const std::function<void(Worker&)> crash_;
  Waiting<Delivery> waiting_;
  std::size_t reserved_ = 0, bulk_ = 0, express_ = 0;  // Of the places, the last two by lane.
  std::map<TaskId, JobPtr> jobs_;
  bool closed_ = false;         // Claims nothing more.
  bool roster_closed_ = false;  // There is no place for others than the suspect.
  std::uint64_t ended_ = 0;
  worker::Isolation isolation_;
  JobPtr suspect_;
  Group<Hint, store::ClaimOutcome> claims_;
  Group<store::Lease, bool> renewals_;
  Group<store::CallStart, bool> calls_;
  Group<store::SettleCommand, Settled> settlements_;
  Publisher publisher_;
  Sweeps sweeps_;
  Crowds crowds_;
  ClockLook::Steady next_report_, next_crowds_;
  // Of the puller.
  std::unordered_set<TaskId> asked_for_;
  std::deque<std::pair<ClockLook::Steady, TaskId>> asked_at_;
  bool finding_ = false;
};

}  // namespace audiogen::simulation
