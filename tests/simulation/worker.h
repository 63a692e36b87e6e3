// A worker process, as far as the protocol goes: the rooms of worker/job and the upkeep beside them
// in one class, without providers, audio and files.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <unordered_set>

#include "tests/simulation/broker.h"
#include "tests/simulation/store.h"

namespace audiogen::simulation {

class Worker : public Process, public Consumer {
 public:
  // `number`: unlike that of any other start of a worker.
  Worker(Shared& shared, Database& database, Store& store, Broker& broker, std::size_t number);

  // Finishes what it can within 20 s, gives the rest back, and then does `ended`.
  void stop(Action ended);
  bool stopping() const { return closed_; }
  std::size_t number() const { return claimant_.number; }

  Process& process() override { return *this; }
  void deliver(const Delivery& delivery) override;

 private:
  struct Job {
    store::Claim claim;
    ClockLook::Steady lease_from;
    bool renewing = false, lost = false, given_back = false;
    bool called = false;     // A call is open.
    std::uint64_t call = 0;  // The newest; answers of others come too late.
    std::uint32_t row = 0;   // Of the newest call.
    int calls = 0;           // In this claim.
  };
  using JobPtr = std::shared_ptr<Job>;

  ClaimOf of(const Job& job) const { return {claimant_.number, job.claim.task, job.claim.epoch}; }
  std::size_t room() const;

  // --- intake
  std::size_t take(const std::vector<Hint>& hints);
  void go_on();
  void claim(const Delivery& delivery, int tries);
  void claimed(const store::Claim& claim, ClockLook::Steady asked_at);
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
  void sweep();
  void pull();

  void log(const Job& job, const std::string& what);

  Shared& shared_;
  Database& database_;
  Store& store_;
  Broker& broker_;
  const Claimant claimant_;
  std::deque<Delivery> waiting_;
  std::size_t reserved_ = 0;
  std::map<TaskId, JobPtr> jobs_;
  bool closed_ = false;
  Group<Hint, store::ClaimOutcome> claims_;
  Group<store::Lease, bool> renewals_;
  Group<store::AttemptStart, bool> attempts_;
  Group<store::SettleCommand, store::SettleOutcome> settlements_;
  Publisher publisher_;
  Sweeps sweeps_;
  // Of the puller.
  std::unordered_set<TaskId> asked_for_;
  std::deque<std::pair<ClockLook::Steady, TaskId>> asked_at_;
  bool finding_ = false;
};

}  // namespace audiogen::simulation
