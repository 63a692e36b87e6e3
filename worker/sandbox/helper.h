// The worker's side: a helper program, started on first need, replaced when it dies.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "common/base/metrics.h"
#include "common/base/mutex.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace audiogen::sandbox {

// A flag that a thread waiting in poll() notices. Thread-safe.
class Cancellation {
 public:
  Cancellation();
  Cancellation(const Cancellation&) = delete;
  Cancellation& operator=(const Cancellation&) = delete;

  void cancel();
  bool canceled() const { return canceled_.load(); }
  int descriptor() const { return descriptor_.get(); }  // readable once canceled

 private:
  std::atomic<bool> canceled_{false};
  const UniqueFd descriptor_;
};

// How a request ended.
enum class Ending : std::uint8_t {
  kComplete,
  kCrashed,   // the child, on this request; or it answered what it must not
  kDeadline,  // the child was still at it
  kCanceled,
  // The helper does not start, keeps dying, takes nothing up, or gets no further process, until the
  // deadline at the latest: says nothing of the request.
  kUnavailable,
};

// What a reader makes of a block. A child may be under hostile input's control: nothing it says is
// believed without a check.
enum class Taken : std::uint8_t { kMore, kLast, kNonsense };

struct Request {
  std::string packet;   // at most kPacketMax bytes
  int attachment = -1;  // a descriptor to go along, or none
  std::chrono::steady_clock::time_point deadline;
  const Cancellation* cancellation = nullptr;  // or never
};

// How a helper is started.
struct Start {
  std::vector<std::string> arguments{};
  std::chrono::milliseconds time_max{5000};  // until it is ready
  // A request that comes longer after a start than this does not wait until it is ready, nor one
  // that has waited so long.
  std::chrono::milliseconds patience = time_max;
  // One that takes up nothing of what it was sent for so long is stuck, and replaced. It takes a
  // millisecond, but it may wait for a processor, or for memory.
  std::chrono::milliseconds silence_max{10'000};
};

class Helper {
 public:
  // The program beside this one, or what the environment variable `variable` names.
  static std::string path_of(const char* program, const char* variable);

  // Starts nothing yet. `version` is that of the helper's packets and blocks.
  Helper(std::string path, std::uint32_t version, Start start = {});
  // Ends the helper and its children.
  ~Helper();
  Helper(const Helper&) = delete;
  Helper& operator=(const Helper&) = delete;

  using TakeBlock = std::function<Taken(std::uint32_t kind, std::string_view payload)>;

  // Has one request answered, block by block. Blocks until the last block, a crash, `deadline` or
  // `cancellation`. Starts the helper when there is none, at growing intervals when it keeps
  // failing, and waits for it with patience; it goes on becoming ready when nobody waits. A request
  // whose helper died, or is stuck, is sent once more, to a new one: `begin` is called whenever a
  // child has begun with it and must forget what was taken. Thread-safe; calls run beside each
  // other.
  Ending ask(const Request& request, const std::function<void()>& begin, const TakeBlock& take);

  // Starts it when there is none. Why it does not become ready: what it wrote to its standard error
  // until then, the end of it. Nullopt: it is. Blocks until either.
  std::optional<std::string> prepare();

  // The helper's process id, when one runs.
  std::optional<pid_t> process() const;

 private:
  class Process;
  // A process that is ready, or why there is none.
  struct Waited {
    std::shared_ptr<Process> process{};
    Ending ending = Ending::kUnavailable;
    std::string why{};
  };

  // How one helper has served a request.
  struct Asked {
    Ending ending = Ending::kUnavailable;
    bool begun = false;  // a child has, with it
    bool lost = false;   // the helper is
  };

  Asked ask_one(const Request& request, const std::function<void()>& begin, const TakeBlock& take);
  // Blocks no longer than that, without the lock.
  Waited running(std::chrono::steady_clock::time_point deadline,
                 std::chrono::milliseconds patience,
                 const Cancellation* cancellation);
  Result<std::shared_ptr<Process>> start_if_none();
  enum class Standing : std::uint8_t { kStarting, kReady, kReplaced };
  // Or why it is not going to be ready.
  Result<Standing> standing_of(const std::shared_ptr<Process>& process);
  void lost(const std::shared_ptr<Process>& process);
  void note_failure() LOCKS_REQUIRED(mutex_);

  const std::string path_;
  const std::uint32_t version_;
  const Start start_;
  prometheus::Counter& crashes_;
  mutable Mutex mutex_;
  std::shared_ptr<Process> process_ GUARDED_BY(mutex_);
  int failures_ GUARDED_BY(mutex_) = 0;  // since the last complete answer
  // Not before, after failures.
  std::optional<std::chrono::steady_clock::time_point> next_start_ GUARDED_BY(mutex_);
};

}  // namespace audiogen::sandbox
