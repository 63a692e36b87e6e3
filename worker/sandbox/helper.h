// The worker's side of a helper program (zygote.h): keeps it running and asks it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <sys/types.h>

namespace audiogen::sandbox {

// Takes the answer to a request apart. Its sender may be under hostile input's control: nothing it
// says may be believed without a check.
class Listener {
 public:
  enum class Taken : std::uint8_t { kMore, kComplete, kNonsense };

  virtual ~Listener() = default;
  // The answer begins, or begins again: forgets what came before.
  virtual void begin() = 0;
  virtual Taken take(std::uint32_t kind, std::string_view payload) = 0;
};

struct HelperRequest {
  std::string_view packet;           // at most kPacketMax bytes
  std::span<const int> descriptors;  // for the child besides its pipe; kDescriptorsMax - 1 of them
  std::chrono::steady_clock::time_point deadline;
  int cancellation = -1;  // a descriptor; readable: canceled
};

enum class HelperFault : std::uint8_t {
  kCanceled,
  kDeadline,
  kCrashed,      // the child, on this request; or it answered nonsense
  kUnavailable,  // the helper does not start, or keeps dying
};

class Helper {
 public:
  // The path of `program` beside this one, or what the environment variable `variable` names.
  static std::string beside(const char* program, const char* variable);

  // Starts nothing yet. `version` is that of the program's protocol.
  Helper(std::string path, std::uint32_t version);
  // Ends the helper and what it still does.
  ~Helper();
  Helper(const Helper&) = delete;
  Helper& operator=(const Helper&) = delete;

  // Asks once; a helper that dies takes its children with it, through no fault of the request, and
  // is asked once more. Blocks until the answer is complete (nullopt) or a fault. Starts the helper
  // when there is none, at growing intervals when it keeps failing. Thread-safe; calls run beside
  // each other, each with its own listener.
  std::optional<HelperFault> ask(const HelperRequest& request, Listener& listener);

  // The helper's process id, when one runs.
  std::optional<pid_t> process() const;

 private:
  class Process;

  std::shared_ptr<Process> running();
  void lost(const std::shared_ptr<Process>& process);
  void note_failure();  // mutex_ is held

  const std::string path_;
  const std::uint32_t version_;
  mutable std::mutex mutex_;
  std::shared_ptr<Process> process_;
  int failures_ = 0;  // since the last complete answer
  std::chrono::steady_clock::time_point next_start_{};
};

}  // namespace audiogen::sandbox
