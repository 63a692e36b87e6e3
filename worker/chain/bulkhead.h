// Keeps a provider to its max_in_flight, and to what this worker has of its account's places:
// further calls wait their turn, first come first served, so that one slow provider never takes
// more of the worker, and never gets more calls, than it was given. Learns how long they take: one
// whose turn comes too late for that is not made.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>

#include "common/domain/worker_status.h"
#include "worker/chain/account.h"
#include "worker/chain/provider.h"
#include "worker/chain/usual_time.h"

namespace audiogen {

class Bulkhead final : public AudioProvider {
 public:
  // `account`: whose places its calls take; null: none.
  explicit Bulkhead(std::unique_ptr<AudioProvider> inner,
                    std::shared_ptr<Account> account = nullptr);
  ~Bulkhead() override;

  const std::string& name() const override { return inner_->name(); }
  const Capabilities& capabilities() const override { return inner_->capabilities(); }
  // A call that waits and is canceled is answered on the canceling thread; one whose turn comes too
  // late, with kNotCalled.
  std::shared_ptr<ProviderCall> start(ProviderRequest request, Done done) override;

  std::size_t running() const;
  std::size_t waiting() const;
  // Calls that may be under way at once, and how many more could begin now.
  std::size_t limit() const;
  // The same without regard to its account.
  std::size_t own_limit() const;
  std::size_t idle() const;
  const Account* account() const;
  // Does a call wait for a place of the account, and nothing else?
  bool waits_for_account() const;
  // What a call has taken on the average. Nullopt: not known yet.
  std::optional<std::chrono::milliseconds> mean_time() const;
  // What a call has usually needed, with all that follows it. Nullopt: not known yet.
  std::optional<std::chrono::milliseconds> needed() const;
  // Would a call that begins now end in time? One that is asked for now, after those that wait, and
  // so many others that will?
  bool fits(TaskTime time) const;
  bool fits_in_turn(TaskTime time, std::size_t others = 0) const;

  // Would a call that begins now, as long as one usually is or else may be, still be under way at
  // `until`?
  bool outlasts(std::chrono::steady_clock::time_point until) const;

  // Nobody gets the audio that a call brought.
  void undelivered() const;
  // For operators: what became of the calls that were made lately.
  ProviderCalls calls() const;

 private:
  struct Call;
  struct State;
  static void run(const std::shared_ptr<State>& state, const std::shared_ptr<Call>& call);
  static bool begin_next(const std::shared_ptr<State>& state);
  static void finished(const std::shared_ptr<State>& state, const Call& call);

  std::shared_ptr<State> state_;
  std::unique_ptr<AudioProvider> inner_;
};

}  // namespace audiogen
