// Where faults are tried: the whole service with a proxy on every link, clients that write down
// what they were told, and a judge who believes nobody but them.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/clusters.h"
#include "tests/support/private_database.h"
#include "tests/support/provider_double.h"
#include "tests/support/small_disk.h"
#include "tests/support/stack.h"
#include "tests/support/tcp_proxy.h"
#include "tests/support/test_broker.h"

namespace audiogen::test {

// One generation as its client lived it.
struct Story {
  std::size_t user = 0;
  std::string key;                // Its idempotency key.
  std::int64_t milliseconds = 0;  // Of the audio that providers make for it: no neighbour's.
  std::string id;                 // What was promised; empty: nothing yet.
  std::string last;               // The status it was seen in last.
  std::string billing;            // Of its first final answer.
  std::string checksum;           // In hexadecimal, of the file that was served.
};

// How long nothing of a kind happened, at the longest.
class Gap {
 public:
  void restart();
  void happened();
  std::chrono::milliseconds longest() const;

 private:
  using Clock = std::chrono::steady_clock;

  mutable std::mutex mutex_;
  Clock::time_point last_ = Clock::now();
  Clock::duration longest_{};
};

class Arena {
 public:
  // Places for workers, 0 and 1; each has one, dead or alive.
  static constexpr std::size_t kWorkers = 2;

  struct Options {
    bool own_database = false;  // To kill and freeze; else that of all tests.
    bool own_broker = false;
    bool clusters = false;  // Of databases and of brokers, in the place of both.
    bool soak = false;
    bool movable_clock = false;  // Of its own database.
    // Megabytes of a disk that can be filled, with the audio, or its own database, on it.
    int audio_disk = 0, database_disk = 0;
    std::size_t clients = 4;
    std::uint64_t seed = 1;
    std::map<std::string, std::string> environment{};
  };
  // Starts everything, in the order in which it depends on each other; then the clients begin.
  explicit Arena(const Options& options);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // The links. Each program reaches the database by one of its own; all workers the broker, and
  // the first provider, by the same one.
  TcpProxy& api_database() { return *api_database_; }
  TcpProxy& worker_database(std::size_t place) { return *worker_database_.at(place); }
  TcpProxy& api_broker() { return *api_broker_; }
  TcpProxy& worker_broker() { return *worker_broker_; }
  TcpProxy& first_provider() { return *first_provider_; }
  // Options::own_database, Options::own_broker, one of the disks.
  PrivateDatabase& database() { return *own_database_; }
  PrivateBroker& broker() { return *own_broker_; }
  SmallDisk& disk() { return *disk_; }
  // Options::clusters.
  Nodes& nodes() { return *nodes_; }
  DatabaseCluster& databases() { return *databases_; }
  BrokerCluster& brokers() { return *brokers_; }
  // Where the service's queues are, past the proxies.
  const AmqpUrl& broker_url() const { return broker_url_; }

  Stack& stack() { return *stack_; }
  // Starts the API again, which has ended. `more` of its environment; with a CRASH_POINT it may end
  // before this returns.
  void start_api(const std::map<std::string, std::string>& more = {});
  Process& worker(std::size_t place);
  void start_worker(std::size_t place, const std::map<std::string, std::string>& more = {});
  // What only passing time would bring: the leases of that worker end now. Not in a soak, which has
  // the time.
  void end_leases(std::size_t place);

  // From now on the first provider answers as `how` says; nothing: well.
  void provider_answers(std::function<DoubleReply()> how);

  // Sends a statement to the database, past the proxies, by a connection of its own. Errors are
  // the caller's.
  void execute(const store::Sql& sql);

  // Returns when clients have been answered, or refused, `answers` times more; after `limit`
  // anyway.
  void felt(std::size_t answers, std::chrono::milliseconds limit = std::chrono::seconds(5)) const;
  // Returns when that many of their requests were refused, or had no answer, since it was called;
  // after `limit` that they were not is a failure of the test.
  void expect_refusals(std::size_t count,
                       std::chrono::milliseconds limit = std::chrono::seconds(60)) const;
  // All that was begun before this call ends, and every client begins and ends one more. A client
  // that waits longer than two minutes is a broken promise, and a failure of the test.
  void expect_life();
  // Clients finish what they have begun; then everything that they were told is held against the
  // service. Once. `nonsense`: messages that nobody could read were sent to the work queue.
  void judge(std::uint64_t nonsense = 0);
  // After judge(), of clusters: every node has the same money and the same tasks.
  void expect_one_history();

  std::size_t generations() const;

  // What clients felt since watch(): how long none of them had a generation promised, none saw one
  // end, and how many requests were refused or had no answer.
  struct Felt {
    std::chrono::milliseconds without_promise{}, without_end{};
    std::size_t refused = 0;
  };
  void watch();
  Felt watched() const;

 private:
  struct Client {
    std::size_t number = 0;
    std::atomic<std::size_t> ended{0};  // Generations.
    std::thread thread{};
  };

  void live(Client& client);
  Reply ask(const std::string& method,
            const std::string& path,
            const Story& story,
            std::vector<std::string> headers = {},
            std::string_view body = {});
  // Each until the service has said something that counts. False: nobody waits any longer.
  bool create(Story& story);
  bool follow(Story& story);
  void cancel(const Story& story);
  void judge_audio(Story& story, const Reply& reply);
  void judge_story(const Story& story);
  void sample();  // The books, while everything goes on.
  // Of a program that reaches these.
  std::map<std::string, std::string> environment_of(const std::string& role,
                                                    const TcpProxy& database,
                                                    const TcpProxy& broker);

  const Options options_;
  std::unique_ptr<SmallDisk> disk_;  // Goes last: a server is ended by what stands in its folder.
  std::unique_ptr<PrivateDatabase> own_database_;
  std::unique_ptr<PrivateBroker> own_broker_;
  std::optional<Nodes> nodes_;
  std::optional<DatabaseCluster> databases_;
  std::optional<BrokerCluster> brokers_;
  AmqpUrl broker_url_;
  std::unique_ptr<TcpProxy> api_database_, api_broker_, worker_broker_;
  std::vector<std::unique_ptr<TcpProxy>> worker_database_;  // By place.

  std::mutex provider_mutex_;
  std::function<DoubleReply()> provider_answers_;
  std::unique_ptr<ProviderDouble> provider_;
  std::unique_ptr<TcpProxy> first_provider_;
  std::string chain_file_;

  std::unique_ptr<Stack> stack_;
  std::vector<std::size_t> workers_;  // By place: which of the stack's.
  std::vector<Account> accounts_;
  std::uint64_t dead_before_ = 0;  // Letters.

  std::atomic<bool> closing_{false}, abandoned_{false};
  std::atomic<std::size_t> answers_{0}, refusals_{0}, begun_{0}, refusals_before_{0};
  Gap promises_, ends_;
  mutable std::mutex stories_mutex_;
  std::vector<Story> stories_;  // That ended.
  std::vector<std::unique_ptr<Client>> clients_;
  std::thread sampler_;
};

}  // namespace audiogen::test
