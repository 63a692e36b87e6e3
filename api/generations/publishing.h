// After the commit: hints go to the broker, from memory. The sweeper is told once for all of them
// which the broker has, so that it sends only the others; and beside it operators, what became of
// the creations that this process was asked for.
#pragma once

#include <chrono>
#include <thread>

#include "common/base/config.h"
#include "common/base/mutex.h"
#include "common/domain/refusals.h"
#include "common/http/request_meter.h"
#include "common/queue/publisher.h"
#include "common/queue/unsent.h"
#include "common/store/task_store.h"

namespace audiogen::api {

// Creations refused because an operator has paused intake, which is nobody's fault. Counted before
// they are answered.
prometheus::Counter& paused_creations();

class TaskPublisher {
 public:
  // Blocks until the database knows of this process, or does not answer. `creations`: the meters of
  // all routes that make them; a pause is counted for all together.
  TaskPublisher(const Config& config, ApiId id, std::vector<const http::RequestMeter*> creations);
  ~TaskPublisher();
  TaskPublisher(const TaskPublisher&) = delete;
  TaskPublisher& operator=(const TaskPublisher&) = delete;

  // All three: thread-safe, never block, promise nothing. Before the task's transaction: should its
  // hint never be confirmed, for whatever reason, the sweeper sends another one at its first look.
  void expect(TaskId task);
  // It was committed, and is for `lane`: a parked one has no hint. When nobody knows that, neither
  // this nor forget() is to be called.
  void publish(TaskId task, Lane lane, const Trail& trail);
  // It was not.
  void forget(TaskId task);

  bool connected() const { return publisher_.connected(); }

  // Sends what waits, up to `limit`, and stops. Nothing may be expected any more.
  void stop(std::chrono::milliseconds limit);

 private:
  // Whether all hints were sent.
  bool report();
  void keep_reporting();

  const ApiId id_;
  const std::vector<const http::RequestMeter*> creations_;
  Refusals refusals_;       // As store_.
  store::TaskStore store_;  // The constructor's, then the reporter's.
  Mutex mutex_;
  ConditionVariable changed_;
  queue::UnsentHints unsent_ GUARDED_BY(mutex_);
  bool stopping_ GUARDED_BY(mutex_) = false;
  queue::Publisher publisher_;
  std::thread reporter_;
};

}  // namespace audiogen::api
