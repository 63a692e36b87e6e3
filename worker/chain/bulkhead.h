// Keeps a provider to its max_in_flight: further calls wait their turn, first come first served, so
// that one slow provider never takes more of the worker, and never gets more calls, than it was
// given.
#pragma once

#include <cstddef>
#include <memory>

#include "worker/chain/provider.h"

namespace audiogen {

class Bulkhead final : public AudioProvider {
 public:
  explicit Bulkhead(std::unique_ptr<AudioProvider> inner);
  ~Bulkhead() override;

  const std::string& name() const override { return inner_->name(); }
  const Capabilities& capabilities() const override { return inner_->capabilities(); }
  // A call that waits and is canceled is answered on the canceling thread.
  std::shared_ptr<ProviderCall> start(ProviderRequest request, Done done) override;

  std::size_t running() const;
  std::size_t waiting() const;

 private:
  struct Call;
  struct State;
  static void run(const std::shared_ptr<State>& state, const std::shared_ptr<Call>& call);
  static void finished(const std::shared_ptr<State>& state);

  std::shared_ptr<State> state_;
  std::unique_ptr<AudioProvider> inner_;
};

}  // namespace audiogen
