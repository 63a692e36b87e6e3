// README.md's commands, as they stand there: a backup made while clients create and workers work,
// and what comes of it on another database, with another folder and a broker that knows nothing.
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <utility>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "common/domain/pricing.h"
#include "tests/e2e/chain.h"
#include "tests/support/places.h"
#include "tests/support/test_broker.h"
#include "tests/support/wait.h"

namespace audiogen::test {
namespace {

using namespace std::chrono_literals;
using store::Sql;

// The `number`-th block of commands (from 1) in README.md behind "**Backup.**".
std::string commands(int number) {
  std::ifstream in(source_path("README.md"));
  std::ostringstream text;
  text << in.rdbuf();
  const std::string readme = text.str();
  constexpr std::string_view kBegin = "\n```sh\n", kEnd = "\n```\n";
  std::size_t begin = readme.find("\n**Backup.**"), end = begin;
  for (int i = 0; i < number && begin != std::string::npos; ++i) {
    begin = readme.find(kBegin, end);
    end = readme.find(kEnd, begin + 1);
  }
  if (begin == std::string::npos || end == std::string::npos) {
    throw std::runtime_error("README.md has no such commands");
  }
  return readme.substr(begin + kBegin.size(), end - begin - kBegin.size());
}

// On MySQL they are given to its own clients, where those are at hand, as README.md has it.
std::string for_this_server(std::string commands) {
  const char* const clients = std::getenv("TEST_MYSQL_CLIENTS");
  if (clients == nullptr) {
    return commands;
  }
  const std::string folder = std::string(clients) + "/";
  const std::pair<std::string, std::string> changes[] = {
      {"mariadb-dump ", folder + "mysqldump "},
      {"mariadb ", folder + "mysql "},
      {"--single-transaction ", "--single-transaction --set-gtid-purged=OFF "}};
  for (const auto& [from, to] : changes) {
    for (std::size_t at = commands.find(from); at != std::string::npos;
         at = commands.find(from, at + to.size())) {
      commands.replace(at, from.size(), to);
    }
  }
  return commands;
}

// What a client was promised.
struct Promise {
  std::string key, id;
};

class Backup : public testing::Test {
 protected:
  Backup()
      : provider_([this](const DoubleCall& call) {
          DoubleReply reply = wav_reply(1);
          // So that some are done, some are worked on, and most wait.
          reply.delay = quick_ || call.number < kQuick ? 0ms : 8s;
          return reply;
        }),
        chain_({openai_entry("upstream", provider_)}) {
    provider_.forget_bodies();
  }

  static Reply create(Stack& stack, const Account& account, const std::string& key) {
    return stack.create(account, wav_body("Number " + key), {"Idempotency-Key: " + key});
  }
  // Runs the commands about a stack's database and audio.
  static void run_commands(int number, Stack& stack, const std::string& backup) {
    const DatabaseUrl& url = stack.database().url();
    const std::string login = stack.log_folder() + "/owner.cnf";
    std::ofstream(login) << "[client]\nuser=" << url.user << "\npassword=" << url.password
                         << (url.socket.empty() ? "\nprotocol=tcp\nhost=" + url.host +
                                                      "\nport=" + std::to_string(url.port)
                                                : "\nsocket=" + url.socket)
                         << "\n";
    const Output output =
        run({"/bin/sh", "-euxc", "exec 2>&1; " + for_this_server(commands(number))},
            {{"OWNER", login},
             {"DATABASE", url.database},
             {"BLOBS", stack.log_folder() + "/blobs"},
             {"BACKUP", backup}});
    ASSERT_EQ(output.code, 0) << output.out;
  }

  static constexpr std::size_t kQuick = 8;

  std::atomic<bool> quick_{false};
  ProviderDouble provider_;
  ChainFile chain_;
};

TEST_F(Backup, MadeAtWorkIsRestoredWithNothingLostNorChargedTwice) {
  constexpr std::int64_t kGranted = 1'000'000;
  Stack::Options options = chain_.options();
  options.workers = 1;
  options.environment["WORKER_IN_FLIGHT"] = "4";
  options.environment["RATE_LIMIT_FILES_BURST"] = "1000000";
  Stack before(options);
  const Account ann = before.account(kGranted);

  std::mutex mutex;
  std::vector<Promise> promises;
  std::atomic<bool> stopping{false};
  std::vector<std::thread> clients;
  for (int client = 0; client < 2; ++client) {
    clients.emplace_back([&, client] {
      for (int n = 0; !stopping; ++n) {
        const std::string key = std::to_string(client) + "-" + std::to_string(n);
        const Reply reply = create(before, ann, key);
        EXPECT_EQ(reply.status, 202) << reply.error << " " << reply.body;
        if (n > 11) {
          pace(200ms);
        }
        const std::scoped_lock lock(mutex);
        promises.push_back({key, reply.text("id")});
      }
    });
  }
  const auto tasks = [](Stack& stack, std::string_view where) {
    return stack.database().number(
        Sql::trusted("SELECT COUNT(*) FROM tasks WHERE " + std::string(where)));
  };
  EXPECT_TRUE(eventually(60s, [&] {
    return tasks(before, "state=3") >= std::int64_t{kQuick} && tasks(before, "state=2") > 0 &&
           tasks(before, "state=1") >= std::int64_t{kQuick};
  }));
  const std::vector<Promise> told = [&] {
    const std::scoped_lock lock(mutex);
    return promises;
  }();
  const std::string backup = before.log_folder() + "/backup";
  run_commands(1, before, backup);
  stopping = true;
  for (std::thread& client : clients) {
    client.join();
  }
  // All there was is gone.
  before.api().kill();
  before.worker(0).kill();
  quick_ = true;
  AmqpUrl broker = test_broker_url();
  broker.vhost = Stack::virtual_host();
  purge_jobs(broker);

  options.api = false;
  options.workers = 0;
  Stack after(options);
  after.database().execute(Sql::trusted("DROP DATABASE " + after.database().url().database));
  after.database().session().disconnect();  // Else it uses none.
  run_commands(2, after, backup);
  EXPECT_GT(tasks(after, "state=1"), 0);
  EXPECT_GT(tasks(after, "state=2"), 0) << "somebody worked on it";
  EXPECT_GE(tasks(after, "state=3"), std::int64_t{kQuick});
  EXPECT_GE(tasks(after, "1=1"), static_cast<std::int64_t>(told.size()));
  // What only passing time would bring.
  after.database().execute(
      Sql("UPDATE tasks SET lease_until=UTC_TIMESTAMP(6) - INTERVAL 1 SECOND, "
          "wake_at=UTC_TIMESTAMP(6) WHERE state=2"));
  after.start_api();
  after.start_worker();
  for (const Promise& promise : told) {
    const Reply again = create(after, ann, promise.key);
    EXPECT_EQ(again.text("id"), promise.id) << "one key, two generations";
    const Reply done = after.wait_final(ann, promise.id);
    ASSERT_EQ(done.text("status"), "succeeded") << done.body;
    const Reply file = http("GET", done.text("output.url"));
    EXPECT_EQ(file.status, 200);
    EXPECT_EQ(file.body, wav_reply(1).body);
  }
  // Those that were promised while it was made.
  EXPECT_TRUE(eventually(60s, [&] { return tasks(after, "state<3") == 0; }));
  const auto paid = static_cast<double>(tasks(after, "state=3") * charge_for(1000).value);
  EXPECT_DOUBLE_EQ(credits_of(after, ann, "available_credits"), kGranted - paid / 1000);
  EXPECT_EQ(credits_of(after, ann, "reserved_credits"), 0);
  EXPECT_EQ(after.admin_raw({"audit"}).code, 0);
  after.database().expect_invariants();
}

}  // namespace
}  // namespace audiogen::test
