// Calls of a provider that makes audio by waiting for it: each has one of a few threads for as
// long.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "worker/chain/provider.h"
#include "worker/sandbox/helper.h"

namespace audiogen {

class BlockingCalls {
 public:
  struct Call : ProviderCall {
    Call(ProviderRequest r, AudioProvider::Done d) : request(std::move(r)), done(std::move(d)) {}
    void cancel() override { cancellation.cancel(); }

    const ProviderRequest request;
    const AudioProvider::Done done;
    sandbox::Cancellation cancellation;
  };
  // Answers one call; must heed its cancellation.
  using Make = std::function<Result<Audio, ProviderFault>(const Call& call)>;

  BlockingCalls(int threads, Make make);
  // Ends open calls as canceled.
  ~BlockingCalls();
  BlockingCalls(const BlockingCalls&) = delete;
  BlockingCalls& operator=(const BlockingCalls&) = delete;

  // As AudioProvider::start; waits for a thread that is free.
  std::shared_ptr<ProviderCall> start(ProviderRequest request, AudioProvider::Done done);

 private:
  void work();

  const Make make_;
  Mutex mutex_;
  ConditionVariable changed_;
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::deque<std::shared_ptr<Call>> waiting_ GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<Call>> running_ GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;
};

}  // namespace audiogen
