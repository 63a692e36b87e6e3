// What a benchmark stands on: the whole service over a database of its own, with accounts, work to
// do, and a look at what every process of it costs.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "common/store/task_store.h"
#include "tests/bench/load.h"
#include "tests/support/stack.h"

namespace audiogen::bench {

// The processes there are, by part: "api", "workers", "database", "broker", "proxy", "provider".
// Parts that do not run here are missing.
using Parts = std::map<std::string, std::vector<pid_t>>;
// CPU seconds used so far by each of the parts, and by "load" (the benchmark itself).
using Usage = std::map<std::string, double>;

// What every user was granted.
inline constexpr Units kGranted = credits(1'000'000'000);

// The provider of the benchmarks: answers every call with the same 20 KB of WAV after `delay_ms`.
class Provider {
 public:
  // How long its calls take: one of `long_every` takes longer, of 0 none.
  struct Delays {
    int ms = 0;
    int long_every = 0;
    int long_ms = 0;
  };
  // `most`: calls that a worker may have with it at once.
  Provider(const std::string& folder, int delay_ms, int most = 10'000)
      : Provider(folder, Delays{.ms = delay_ms}, most) {}
  Provider(const std::string& folder, const Delays& delays, int most);
  const std::string& file() const { return file_; }  // For PROVIDERS_FILE.
  pid_t pid() const { return process_->pid(); }

 private:
  std::string file_;
  std::unique_ptr<test::Process> process_;
};

// nginx in front of API processes, as the README says: all requests with one key go to the same
// one, over connections that are kept.
class Proxy {
 public:
  Proxy(const std::string& folder, const std::vector<std::uint16_t>& apis);
  std::uint16_t port() const { return port_; }
  std::vector<pid_t> pids() const;

 private:
  std::uint16_t port_;
  std::vector<std::unique_ptr<test::Process>> processes_;
};

class Stand {
 public:
  struct Options {
    bool api = true;
    std::size_t users = 256;
    std::map<std::string, std::string> environment;  // For both programs.
    std::string amqp_url{};                          // Empty: the broker of all tests.
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
  std::vector<TaskId> fill(std::size_t count) { return fill(count, users_); }
  std::vector<TaskId> fill(std::size_t count, std::span<const UserId> users);  // Of these alone.
  // Sends the hints of tasks made by fill() and waits until the broker has them.
  void publish(const std::vector<TaskId>& tasks);
  // The same of all tasks that wait and are not parked.
  void publish_released();

  // Creates one by HTTP as that user; the status of the answer.
  int create(std::size_t user);
  // Creates `count` tasks as that user, one each half second, and waits until all are
  // claimed: how long each was not.
  Histogram claim_waits(std::size_t user, std::size_t count);

  // Starts one more API over the same database and broker; its port.
  std::uint16_t add_api();
  // Starts a worker and remembers it for processes() and succeeded().
  void add_worker(const std::map<std::string, std::string>& environment);
  // Tasks that are claimed now.
  std::int64_t running();
  // Tasks that all workers have finished so far.
  double succeeded() const;
  // Counts these processes as `part`, instead of those named before.
  void watch(const std::string& part, std::vector<pid_t> pids) { others_[part] = std::move(pids); }

  Parts processes() const;
  Usage usage() const;
  // Resident memory in MB now, and at its highest.
  double api_rss() const;
  double worker_rss_max() const;

  // `audio-api admin audit`: exits when the books are not clean.
  void audit();

 private:
  static void publish_all(const std::vector<Hint>& hints);

  std::unique_ptr<test::Stack> stack_;
  std::vector<UserId> users_;
  std::vector<std::string> keys_;
  std::vector<std::unique_ptr<test::Process>> more_apis_;
  std::size_t workers_ = 0;
  Parts others_;  // Than API and workers.
};

// A body and a stored request of the usual size.
std::string_view usual_body();
std::string usual_request();
store::CreateCommand usual_command(UserId user);

// Until all are done: commands that meet a row another thread holds are tried again.
void create_all(store::TaskStore& store, std::vector<store::CreateCommand> commands);
void settle_all(store::TaskStore& store, std::vector<store::SettleCommand> commands);

// Claims tasks that are free, and tells how each of them is settled as succeeded.
std::vector<store::SettleCommand> claim_all(store::TaskStore& store,
                                            std::span<const TaskId> tasks,
                                            WorkerId worker);

// What that program's /metrics say of it; zero if nothing.
double metric(const std::string& ops, std::string_view name);

// A line of /proc/PID/status in MB, such as "VmRSS".
double memory_mb(pid_t pid, const std::string& name);

// SQL of a table `x` whose column `n` has `count` numbers from `from` on: 1,000,000 at most.
std::string numbers(std::int64_t from, std::int64_t count);

// The end of the benchmark, with a reason.
[[noreturn]] void fail(const std::string& why);

}  // namespace audiogen::bench
