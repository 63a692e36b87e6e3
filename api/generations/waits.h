// Requests that wait for a task to become final (Prefer: wait), and streams that wait for it to
// change. All of a process are one thread's, which looks at all of their tasks together, once in a
// quarter of a second; whoever waits for the same task shares the look.
//
// Who can fill it, and what the others feel: a key has kWaitsPerKey places, and a user, however
// many keys he has, `per_user`; the next wait is answered at once, without waiting. All together
// have `total`; when they are taken, the same happens to everybody's, and who was not going to wait
// feels nothing but the reads: at most `total` every quarter of a second, in batches, through the
// group that all reads go through, and refused there, like any other, when others wait too long.
// Streams have places of their own (Generations::events), as many again.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <thread>
#include <unordered_map>
#include <utility>

#include "api/server/call.h"
#include "api/server/handling.h"
#include "api/server/places.h"
#include "common/base/mutex.h"
#include "common/domain/task.h"
#include "common/store/commands.h"

namespace audiogen::api {

inline constexpr std::size_t kWaitsPerKey = 20;

struct WaitsOptions {
  Places::Limits places{.per_key = kWaitsPerKey};
  std::chrono::milliseconds look_every{250};
};

class Waits {
 public:
  using Clock = std::chrono::steady_clock;
  using Found = std::function<void(Result<store::FindOutcome, store::StoreFault>)>;
  // Reads a task, as store::GroupCommit::submit() does: false, without an answer, when that is too
  // much now; else one answer, on any thread.
  using Find = std::function<bool(const store::FindCommand&, Found)>;

  explicit Waits(Find find, WaitsOptions options = {});
  ~Waits();
  Waits(const Waits&) = delete;
  Waits& operator=(const Waits&) = delete;

  class Wait;
  // `const bool waited = co_await waits.until_final(call, task, limit);`: false, at once, when
  // there is no place. Else `task`, which is call.key().user's, has been read again: it is final,
  // or the next look would come after `limit`, or the client has ended, or release() was called.
  // The handler goes on on the thread of this object, and is not to keep it for long.
  Wait until_final(const Call& call, TaskView& task, std::chrono::milliseconds limit);
  // The same until `task` is another than it is now. For whoever has a place elsewhere: it needs
  // none, and is false only after release().
  Wait until_changed(const Call& call, TaskView& task, std::chrono::milliseconds limit);

  // Ends all waits; later ones end at once. For a server that drains. Any thread.
  void release();

 private:
  struct Waiter {
    const Call* call;  // In the handler's frame, as is the task: `share` keeps them.
    TaskView* task;
    Clock::time_point deadline;
    bool for_change;
    Handling::Share share;
    std::optional<Places::Place> place{};
  };
  struct Look;

  bool add(Waiter waiter);
  void work();
  std::shared_ptr<Look> look() LOCKS_REQUIRED(mutex_);
  std::list<Waiter> take_ended(Look& look, Clock::time_point next) LOCKS_REQUIRED(mutex_);

  const Find find_;
  const WaitsOptions options_;
  Places places_;
  Mutex mutex_;
  ConditionVariable changed_;
  std::list<Waiter> waiters_ GUARDED_BY(mutex_);
  bool released_ GUARDED_BY(mutex_) = false;
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

class Waits::Wait {
 public:
  Wait(Waits& waits,
       const Call& call,
       TaskView& task,
       std::chrono::milliseconds limit,
       bool for_change)
      : waits_(waits), call_(call), task_(task), limit_(limit), for_change_(for_change) {}

  bool await_ready() const noexcept { return false; }
  bool await_suspend(Handling::Frame frame) {
    // Once added, this object may be gone before add() returns.
    waited_ = true;
    if (waits_.add({&call_, &task_, Clock::now() + limit_, for_change_, Handling::Share(frame)})) {
      return true;
    }
    waited_ = false;
    return false;
  }
  bool await_resume() const noexcept { return waited_; }

 private:
  Waits& waits_;
  const Call& call_;
  TaskView& task_;
  std::chrono::milliseconds limit_;
  bool for_change_;
  bool waited_ = false;
};

}  // namespace audiogen::api
