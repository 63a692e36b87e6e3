// What a benchmark stands on: the whole service over a database of its own, with accounts, work to
// do, and a look at what every process of it costs.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/store/task_store.h"
#include "tests/support/stack.h"

namespace audiogen::bench {

// CPU seconds used so far, by part: "api", "workers", "database", "broker", "provider", "load" (the
// benchmark itself). Parts that do not run here are missing.
using Usage = std::map<std::string, double>;

// What every user was granted.
inline constexpr Units kGranted = credits(1'000'000'000);

// The provider of the benchmarks: answers every call with the same WAV file after `delay_ms`.
class Provider {
 public:
  Provider(const std::string& folder, double audio_seconds, int delay_ms);
  const std::string& file() const { return file_; }  // For PROVIDERS_FILE.
  pid_t pid() const { return process_->pid(); }

 private:
  std::string file_;
  std::unique_ptr<test::Process> process_;
};

class Stand {
 public:
  struct Options {
    bool api = true;
    std::size_t users = 256;
    std::map<std::string, std::string> environment;  // For both programs.
  };
  explicit Stand(const Options& options);
  ~Stand();
  Stand(const Stand&) = delete;
  Stand& operator=(const Stand&) = delete;

  // Deletes the files of all stands there were. Not between drivers: for minutes after a thousand
  // files are deleted, ext4 searches long for an inode that was not just freed.
  static void delete_files();

  test::Stack& stack() { return *stack_; }
  const DatabaseUrl& database() { return stack_->database().url(); }
  std::uint16_t api_port() const;
  const std::vector<UserId>& users() const { return users_; }
  // A key of each user, in their order.
  const std::vector<std::string>& keys() const { return keys_; }

  // Makes `count` open tasks of all users, without messages.
  std::vector<TaskId> fill(std::size_t count);
  // Sends the hints of tasks made by fill() and waits until the broker has them.
  void publish(const std::vector<TaskId>& tasks);

  // Starts a worker and remembers it for usage() and succeeded().
  void add_worker(const std::map<std::string, std::string>& environment);
  // Tasks that are claimed now.
  std::int64_t running();
  // Tasks that all workers have finished so far.
  double succeeded() const;
  void watch(const Provider& provider) { provider_ = provider.pid(); }

  Usage usage() const;
  // Resident memory in MB now, and at its highest.
  double api_rss() const;
  double worker_rss_max() const;

  // `audio-api admin audit`: exits when the books are not clean.
  void audit();

 private:
  std::unique_ptr<test::Stack> stack_;
  std::vector<UserId> users_;
  std::vector<std::string> keys_;
  std::size_t workers_ = 0;
  pid_t database_ = 0, broker_ = 0, provider_ = 0;
};

// A body and a stored request of the usual size.
std::string_view usual_body();
std::string usual_request();
store::CreateCommand usual_command(UserId user);

// A line of /proc/PID/status in MB, such as "VmRSS".
double memory_mb(pid_t pid, const std::string& name);

// The end of the benchmark, with a reason.
[[noreturn]] void fail(const std::string& why);

}  // namespace audiogen::bench
