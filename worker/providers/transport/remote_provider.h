// A provider reached over HTTP. Every call is a Dialogue that lives on the client's thread, so any
// number of them wait at once without a thread of their own.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "common/http/client.h"
#include "worker/chain/provider.h"
#include "worker/providers/transport/dialogue.h"

namespace audiogen {

struct RemoteOptions {
  std::string name;
  Capabilities capabilities;
  // From start() to the audio, whatever the request's own deadline allows beyond that.
  std::chrono::milliseconds timeout{60'000};
  std::function<std::unique_ptr<Dialogue>(const ProviderRequest&)> open;
};

class RemoteProvider final : public AudioProvider {
 public:
  // `client` must outlive the provider.
  RemoteProvider(RemoteOptions options, http::Client& client);
  // Never on the client's thread.
  ~RemoteProvider() override;
  RemoteProvider(const RemoteProvider&) = delete;
  RemoteProvider& operator=(const RemoteProvider&) = delete;

  const std::string& name() const override { return options_.name; }
  const Capabilities& capabilities() const override { return options_.capabilities; }
  // `done` runs on the client's thread. A call whose time is over ends with kUnknownOutcome where
  // that was our patience with the provider, with kOutOfTime where it was the request's deadline;
  // with kNotCalled where no request had left by then.
  std::shared_ptr<ProviderCall> start(ProviderRequest request, Done done) override;

 private:
  struct Call;
  struct State;

  const RemoteOptions options_;
  const std::shared_ptr<State> state_;
};

}  // namespace audiogen
