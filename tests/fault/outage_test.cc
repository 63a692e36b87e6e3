// The database and the broker go away under load and come back.
#include <atomic>
#include <mutex>
#include <sstream>
#include <thread>

#include <gtest/gtest.h>

#include "common/queue/publisher.h"
#include "tests/support/certificates.h"
#include "tests/support/private_database.h"
#include "tests/support/stack.h"
#include "tests/support/tcp_proxy.h"
#include "tests/support/test_broker.h"

namespace audiogen::test {
namespace {

const std::map<std::string, std::string> kUnlimited = {{"RATE_LIMIT_CREATE_PER_MINUTE", "1000000"},
                                                       {"RATE_LIMIT_CREATE_BURST", "100000"}};

// What the first worker tells under that name; -1: nothing yet.
double told_by_worker(const Stack& stack, const std::string& name) {
  const std::string metrics = http("GET", stack.worker_ops_url(0) + "/metrics").body;
  const std::string line = "\naudiogen_" + name + " ";
  const auto at = metrics.find(line);
  return at == std::string::npos ? -1 : std::stod(metrics.substr(at + line.size()));
}

void expect_unavailable(const Reply& reply, double seconds) {
  EXPECT_EQ(reply.status, 503) << reply.error;
  EXPECT_EQ(reply.text("error.code"), "service_unavailable");
  EXPECT_FALSE(reply.header("retry-after").empty());
  EXPECT_LT(reply.seconds, seconds);
}

// Twenty fillings of a worker's two places: ten minutes, were there one in 30 s.
void expect_all_soon(Stack& stack, const Account& account, const std::vector<std::string>& ids) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(4);
  for (const std::string& id : ids) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    ASSERT_EQ(stack.wait_final(account, id, left).text("status"), "succeeded");
  }
}

TEST(Broker, DownCreatesAreAcceptedAndRunWhenItIsBack) {
  PrivateBroker broker;
  Stack::Options options;
  options.amqp_url = text_of(broker.url());
  options.environment = kUnlimited;
  Stack stack(options);
  const Account ann = stack.account(100'000);
  EXPECT_EQ(stack.wait_final(ann, stack.create(ann, Stack::body()).text("id")).text("status"),
            "succeeded");
  broker.kill();
  std::vector<std::string> ids;
  const auto began = std::chrono::steady_clock::now();
  for (int i = 0; i < 30; ++i) {
    const Reply reply = stack.create(ann, Stack::body("Number " + std::to_string(i)));
    // Whoever waited for the broker, which is away until all are accepted, would be told 503.
    ASSERT_EQ(reply.status, 202);
    ids.push_back(reply.text("id"));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(30))
      << "nor does anybody wait for a while first: not a second each";
  EXPECT_EQ(http("GET", stack.ops_url() + "/readyz").status, 200)
      << "creating works without the broker";
  EXPECT_EQ(stack.wait_final(ann, ids.front(), std::chrono::seconds(60)).text("status"),
            "succeeded")
      << "and so do tasks, at the sweeper's first look";
  broker.start();
  for (const std::string& id : ids) {
    EXPECT_EQ(stack.wait_final(ann, id, std::chrono::seconds(90)).text("status"), "succeeded");
  }
  stack.database().expect_invariants();
}

// The database is the queue: without a broker a worker takes what it has room for, and the next as
// soon as there is room again. It used to take its fill once in 30 s.
TEST(Broker, AwayForGoodTasksRunAsTheyCome) {
  PrivateBroker broker;
  Stack::Options options;
  options.amqp_url = text_of(broker.url());
  options.environment = kUnlimited;
  options.environment["WORKER_IN_FLIGHT"] = "2";
  Stack stack(options);
  const Account ann = stack.account(100'000);
  broker.kill();
  std::vector<std::string> ids;
  for (int i = 0; i < 40; ++i) {
    const Reply reply = stack.create(ann, Stack::body("Number " + std::to_string(i)));
    ASSERT_EQ(reply.status, 202);
    ids.push_back(reply.text("id"));
  }
  expect_all_soon(stack, ann, ids);
  stack.database().expect_invariants();
}

// The broker is there and takes nothing: no hint comes, and none is refused either.
TEST(Broker, OutOfMemoryTasksRunAsTheyCome) {
  PrivateBroker broker;
  Stack::Options options;
  options.amqp_url = text_of(broker.url());
  options.environment = kUnlimited;
  options.environment["WORKER_IN_FLIGHT"] = "2";
  Stack stack(options);
  const Account ann = stack.account(100'000);
  broker.alarm();
  std::vector<std::string> ids;
  for (int i = 0; i < 40; ++i) {
    const Reply reply = stack.create(ann, Stack::body("Number " + std::to_string(i)));
    ASSERT_EQ(reply.status, 202);
    ids.push_back(reply.text("id"));
  }
  expect_all_soon(stack, ann, ids);
  broker.no_alarm();
  stack.database().expect_invariants();
}

// Their hints were confirmed, so the sweeper would believe for two minutes that they are there.
TEST(Broker, APurgedQueueCostsSeconds) {
  PrivateBroker broker;
  Stack::Options options;
  options.amqp_url = text_of(broker.url());
  options.environment = kUnlimited;
  options.workers = 0;
  Stack stack(options);
  const Account ann = stack.account(100'000);
  std::vector<std::string> ids;
  for (int i = 0; i < 20; ++i) {
    ids.push_back(stack.create(ann, Stack::body("Number " + std::to_string(i))).text("id"));
  }
  ASSERT_TRUE(eventually(std::chrono::seconds(30), [&] {
    const std::string metrics = http("GET", stack.ops_url() + "/metrics").body;
    return metrics.find("hints_confirmed_total 20") != std::string::npos;
  }));
  purge_jobs(broker.url());
  stack.start_worker();
  for (const std::string& id : ids) {
    ASSERT_EQ(stack.wait_final(ann, id, std::chrono::seconds(60)).text("status"), "succeeded");
  }
  EXPECT_NE(http("GET", stack.worker_ops_url(0) + "/metrics").body.find("worker_pulled_total 20"),
            std::string::npos)
      << "not by the sweeper, which trusts a hint for two minutes";
  stack.database().expect_invariants();
}

TEST(Broker, ASecondAndATenthMessageChangeNothing) {
  Stack stack;
  const Account ann = stack.account(1000);
  const std::string id = stack.create(ann, Stack::body()).text("id");
  EXPECT_EQ(stack.wait_final(ann, id).text("status"), "succeeded");
  std::atomic<std::size_t> confirmed{0};
  AmqpUrl broker = test_broker_url();
  broker.vhost = Stack::virtual_host();
  queue::Publisher publisher(
      broker, {}, [&](std::span<const Hint> hints) { confirmed += hints.size(); });
  const std::vector<Hint> hints(10, Hint{.task = *TaskId::parse(id), .epoch = 0});
  ASSERT_TRUE(eventually(std::chrono::seconds(60), [&] { return publisher.connected(); }));
  publisher.submit(hints);
  ASSERT_TRUE(eventually(std::chrono::seconds(60), [&] { return confirmed == hints.size(); }));
  // A task created after them is done after them.
  EXPECT_EQ(stack.wait_final(ann, stack.create(ann, Stack::body()).text("id")).text("status"),
            "succeeded");
  EXPECT_GE(told_by_worker(stack, "hints_delivered_total"), 12);
  EXPECT_EQ(stack.admin({"task", "show", id})["attempts"].Size(), 1U);
  EXPECT_EQ(stack.admin({"user", "show", "--user", ann.user})["available_credits"].GetDouble(),
            980);
  stack.database().expect_invariants();
}

// A worker whose database is silent keeps the hints it has; the broker ends its channel for it, as
// it does for all when its own clock jumps ahead, and sends them again.
TEST(Broker, AHintKeptTooLongComesTwiceAndItsTaskRunsOnce) {
  PrivateBroker broker;
  broker.end_channels_after(std::chrono::seconds(5));
  Stack::Options options;
  options.amqp_url = text_of(broker.url());
  options.environment = kUnlimited;
  options.workers = 0;
  Stack stack(options);
  TcpProxy proxy(stack.database().url().port);
  const Account ann = stack.account(1000);
  stack.start_worker({{"DATABASE_URL", stack.database_through(proxy.port())}});
  const auto comes_to = [&](double least, const char* name) {
    return eventually(std::chrono::seconds(120),
                      [&] { return told_by_worker(stack, name) >= least; });
  };
  ASSERT_TRUE(comes_to(1, "broker_connected{role=\"consumer\"}"));
  proxy.blackhole();
  const std::string id = stack.create(ann, Stack::body()).text("id");
  ASSERT_TRUE(comes_to(1, "hints_delivered_total"));
  ASSERT_TRUE(comes_to(1, "broker_reconnects_total{role=\"consumer\"}")) << stack.worker(0).log();
  ASSERT_TRUE(comes_to(2, "hints_delivered_total")) << "it comes again";
  proxy.resume();
  const Reply done = stack.wait_final(ann, id, std::chrono::seconds(120));
  EXPECT_EQ(done.text("status"), "succeeded") << done.body;
  EXPECT_EQ(stack.admin({"task", "show", id})["attempts"].Size(), 1U);
  EXPECT_EQ(stack.database().number(store::Sql("SELECT COUNT(*) FROM ledger WHERE kind=2")), 1);
  EXPECT_EQ(stack.admin({"user", "show", "--user", ann.user})["available_credits"].GetDouble(),
            990);
  ASSERT_TRUE(eventually(std::chrono::seconds(30), [&] {
    const auto depth = queue::read_depth(broker.url());
    return depth && depth->ready == 0;
  }));
  stack.database().expect_invariants();
}

TEST(Database, DownIs503AndComesBackWithoutARestart) {
  PrivateDatabase server;
  Stack::Options options;
  options.environment = kUnlimited;
  Stack stack(options);
  const Account ann = stack.account(100'000);
  const std::string id = stack.create(ann, Stack::body()).text("id");
  stack.wait_final(ann, id);
  server.kill();
  // After nine seconds the server itself says so, whoever waits for the database.
  expect_unavailable(stack.create(ann, Stack::body()), 9);
  expect_unavailable(stack.get(ann, id), 9);
  ASSERT_TRUE(eventually(std::chrono::seconds(60),
                         [&] { return http("GET", stack.ops_url() + "/readyz").status == 503; }));
  EXPECT_EQ(http("GET", stack.ops_url() + "/healthz").status, 200);
  server.start();
  Reply reply;
  ASSERT_TRUE(eventually(std::chrono::seconds(60), [&] {
    reply = stack.create(ann, Stack::body());
    return reply.status == 202;
  }));
  EXPECT_EQ(stack.wait_final(ann, reply.text("id")).text("status"), "succeeded");
  stack.database().expect_invariants();
}

TEST(Database, FrozenNeverHangsARequest) {
  PrivateDatabase server;
  Stack::Options options;
  options.environment = kUnlimited;
  Stack stack(options);
  const Account ann = stack.account(100'000);
  const std::string id = stack.create(ann, Stack::body()).text("id");
  stack.wait_final(ann, id);
  server.freeze();
  std::vector<std::thread> clients;
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back([&, i] {
      expect_unavailable(i % 2 == 0 ? stack.create(ann, Stack::body()) : stack.get(ann, id), 10);
    });
  }
  for (std::thread& client : clients) {
    client.join();
  }
  server.thaw();
  Reply reply;
  ASSERT_TRUE(eventually(std::chrono::seconds(60), [&] {
    reply = stack.create(ann, Stack::body());
    return reply.status == 202;
  }));
  EXPECT_EQ(stack.wait_final(ann, reply.text("id"), std::chrono::seconds(90)).text("status"),
            "succeeded");
  stack.database().expect_invariants();
}

TEST(Database, KilledUnderLoadKeepsEvery202) {
  PrivateDatabase server;
  Stack::Options options;
  options.environment = kUnlimited;
  Stack stack(options);
  const Account ann = stack.account(1'000'000);
  std::atomic<bool> stop{false};
  std::mutex mutex;
  std::vector<std::string> accepted;
  std::vector<std::thread> clients;
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back([&] {
      while (!stop) {
        const Reply reply = stack.create(ann, Stack::body());
        EXPECT_TRUE(reply.status == 202 || reply.status == 503) << reply.status << reply.body;
        if (reply.status == 202) {
          const std::scoped_lock lock(mutex);
          accepted.push_back(reply.text("id"));
        }
      }
    });
  }
  const auto accepted_now = [&] {
    const std::scoped_lock lock(mutex);
    return accepted.size();
  };
  for (int round = 0; round < 3; ++round) {
    const std::size_t before = accepted_now();
    EXPECT_TRUE(eventually(std::chrono::seconds(60), [&] { return accepted_now() > before + 20; }));
    server.kill();
    server.start();
  }
  stop = true;
  for (std::thread& client : clients) {
    client.join();
  }
  ASSERT_TRUE(eventually(std::chrono::seconds(60),
                         [&] { return stack.get(ann, accepted.front()).status == 200; }));
  for (const std::string& id : accepted) {
    EXPECT_EQ(stack.get(ann, id).status, 200) << id;
  }
  for (const std::string& id : accepted) {
    EXPECT_EQ(stack.wait_final(ann, id, std::chrono::seconds(120)).text("status"), "succeeded");
  }
  stack.database().expect_invariants();
}

// --- servers with somebody else's certificate: a mistake of an operator, who needs to be told

int lines_with(const std::string& log, const std::string& one, const std::string& other) {
  std::istringstream lines(log);
  int count = 0;
  for (std::string line; std::getline(lines, line);) {
    count += line.find(one) != std::string::npos && line.find(other) != std::string::npos ? 1 : 0;
  }
  return count;
}

TEST(Broker, WithAnotherNameInItsCertificateIsSaidInOneLine) {
  const Certificates certificates;
  PrivateBroker broker([&](const std::string& folder) { certificates.give_to_server(folder); });
  const auto url_by = [&](const std::string& host) {
    return "amqps://" + broker.url().user + ":" + broker.url().password + "@" + host + ":" +
           std::to_string(broker.url().port) + "/?cacertfile=" + certificates.ca() +
           "&certfile=" + certificates.client_cert() + "&keyfile=" + certificates.client_key();
  };
  Stack::Options options;
  options.amqp_url = url_by("127.0.0.1");
  options.workers = 0;
  options.api = false;
  Stack stack(options);
  stack.start_api();  // It takes creations all the same.
  stack.start_worker({}, false);
  const auto begun = std::chrono::steady_clock::now();
  const std::string why = "not for the host of AMQP_URL";
  const auto expect_one_line = [&](Process& program, const std::string& role) {
    EXPECT_TRUE(eventually(std::chrono::seconds(30), [&] {
      return lines_with(program.log(), why, "\"role\":\"" + role + "\"") > 0;
    })) << program.log();
  };
  expect_one_line(stack.api(), "publisher");
  expect_one_line(stack.worker(0), "publisher");
  expect_one_line(stack.worker(0), "consumer");
  // By the next of its tries it says nothing more for a minute.
  ASSERT_TRUE(eventually(std::chrono::seconds(60), [&] {
    return std::chrono::steady_clock::now() - begun > std::chrono::seconds(6);
  }));
  const auto minutes = static_cast<int>(
      std::chrono::ceil<std::chrono::minutes>(std::chrono::steady_clock::now() - begun).count());
  for (const char* role : {"publisher", "consumer"}) {
    EXPECT_LE(lines_with(stack.worker(0).log(), why, "\"role\":\"" + std::string(role) + "\""),
              minutes)
        << stack.worker(0).log();
  }
  EXPECT_EQ(stack.worker(0).log().find(broker.url().password), std::string::npos);
  EXPECT_EQ(http("GET", stack.worker_ops_url(0) + "/readyz").status, 503);
  stack.start_worker({{"AMQP_URL", url_by("localhost")}});  // Ready: the name was all.
}

TEST(Database, WithAnotherNameInItsCertificateIsSaidAndNeverTold) {
  const Certificates certificates;
  PrivateDatabase server(
      {.prepare = [&](const std::string& folder) { certificates.give_to_server(folder); }});
  Stack::Options options;
  options.workers = 0;
  options.api = false;
  Stack stack(options);
  const auto url_by = [&](const std::string& host) {
    std::string url = stack.database_through(stack.database().url().port);
    return url.replace(url.find("127.0.0.1"), 9, host) +
           "?ssl-mode=verify_identity&ssl-ca=" + certificates.ca();
  };
  // Not as 127.0.0.1, whose name the client library of Debian 13 does not ask for.
  const std::map<std::string, std::string> wrong = {{"DATABASE_URL", url_by("127.1")}};
  const std::map<std::string, std::string> right = {{"DATABASE_URL", url_by("localhost")}};
  stack.start_api(wrong, false);
  stack.start_worker(wrong, false);
  for (Process* const program : {&stack.api(), &stack.worker(0)}) {
    EXPECT_TRUE(eventually(std::chrono::seconds(30), [&] {
      return program->log().find("not for the host of DATABASE_URL") != std::string::npos;
    })) << program->log();
    EXPECT_EQ(program->log().find(stack.database().url().password), std::string::npos);
  }
  EXPECT_EQ(http("GET", stack.ops_url() + "/readyz").status, 503);
  EXPECT_EQ(http("GET", stack.worker_ops_url(0) + "/readyz").status, 503);
  stack.start_api(right);  // Ready: the name was all.
  stack.start_worker(right);
}

}  // namespace
}  // namespace audiogen::test
