// How a thread that is to end soon, once it is asked to, waits.
#pragma once

#include <chrono>
#include <condition_variable>
#include <stop_token>
#include <thread>

#include "common/base/mutex.h"

namespace audiogen {

// Waits for `pause`, or until this thread is asked to stop, which a std::jthread does at its end.
// True: it was, and is to end.
inline bool stopped_within(const std::stop_token& stop, std::chrono::nanoseconds pause) {
  Mutex mutex;  // Guards nothing, but a wait needs one.
  std::condition_variable_any never;
  MutexLock lock(mutex);
  never.wait_for(lock, stop, pause, [] { return false; });
  return stop.stop_requested();
}

// Asks `thread` to stop and waits for its end; the second time, for nothing.
inline void stop_and_join(std::jthread& thread) {
  thread.request_stop();
  if (thread.joinable()) {
    thread.join();
  }
}

}  // namespace audiogen
