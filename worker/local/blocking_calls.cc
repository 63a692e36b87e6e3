#include "worker/local/blocking_calls.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace audiogen {

BlockingCalls::BlockingCalls(int threads, Make make) : make_(std::move(make)) {
  for (int i = 0; i < std::max(1, threads); ++i) {
    threads_.emplace_back([this] { work(); });
  }
}

BlockingCalls::~BlockingCalls() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    for (const auto& call : waiting_) {
      call->cancel();
    }
    for (const auto& call : running_) {
      call->cancel();
    }
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

std::shared_ptr<ProviderCall> BlockingCalls::start(ProviderRequest request,
                                                   AudioProvider::Done done) {
  auto call = std::make_shared<Call>(std::move(request), std::move(done));
  {
    const MutexLock lock(mutex_);
    AG_CHECK(!stopping_);
    waiting_.push_back(call);
  }
  changed_.notify_one();
  return call;
}

void BlockingCalls::work() {
  for (;;) {
    std::shared_ptr<Call> call;
    {
      MutexLock lock(mutex_);
      changed_.wait(lock,
                    [this]() LOCKS_REQUIRED(mutex_) { return stopping_ || !waiting_.empty(); });
      if (waiting_.empty()) {
        return;
      }
      call = std::move(waiting_.front());
      waiting_.pop_front();
      running_.push_back(call);
    }
    if (call->request.facts) {
      call->request.facts->sent = CallFacts::Clock::now();
    }
    Result<Audio, ProviderFault> result = make_(*call);
    {
      const MutexLock lock(mutex_);
      std::erase(running_, call);
    }
    call->done(std::move(result));
  }
}

}  // namespace audiogen
