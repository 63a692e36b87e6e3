// What a crash or a neighbour on the machine could learn of a running program, and the walls around
// its helpers.
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <seccomp.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/time.h"
#include "tests/support/log_lines.h"
#include "tests/support/places.h"
#include "tests/support/stack.h"

namespace audiogen::test {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

std::string read_all(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path).rdbuf();
  return out.str();
}

// The command without any of root's rights: as everybody else is to other processes of his.
std::vector<std::string> plain(std::vector<std::string> argv) {
  if (::geteuid() == 0) {
    argv.insert(argv.begin(), {"/usr/bin/setpriv", "--bounding-set", "-all", "--inh-caps", "-all"});
  }
  return argv;
}

Output read_as_neighbour(const Process& process) {
  return run(plain({"/usr/bin/cat", "/proc/" + std::to_string(process.pid()) + "/environ"}), {});
}

void allow_cores() {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_CORE, &limit), 0);
  limit.rlim_cur = limit.rlim_max;
  ASSERT_EQ(::setrlimit(RLIMIT_CORE, &limit), 0);
}

TEST(Secrets, StayInTheProcess) {
  allow_cores();
  Stack::Options options;
  options.workers = 0;
  options.api = false;
  Stack stack(options);
  // That the look is a fair one: a program that does nothing about it can be looked into.
  Process other(plain({"/usr/bin/sleep", "1000"}), {{"SECRET", "other"}}, "/dev/null");
  EXPECT_TRUE(eventually(std::chrono::seconds(60), [&] {
    return read_as_neighbour(other).out.find("SECRET=other") != std::string::npos;
  }));

  for (const std::vector<std::string>& program : std::vector<std::vector<std::string>>{
           {program_path("audio-api"), "serve"}, {program_path("audio-worker")}}) {
    Process process(plain(program), stack.environment(), stack.log_folder() + "/program.log");
    ASSERT_TRUE(eventually(std::chrono::seconds(30), [&] {
      return !process.running() || http("GET", stack.ops_url() + "/readyz").status == 200;
    }));
    ASSERT_TRUE(process.running()) << process.log();
    EXPECT_THAT(read_all("/proc/" + std::to_string(process.pid()) + "/limits"),
                ContainsRegex("Max core file size +0 +0 "));
    const Output environment = read_as_neighbour(process);
    EXPECT_NE(environment.code, 0);
    EXPECT_THAT(environment.out, Not(HasSubstr("DATABASE_URL"))) << "a neighbour can read it";
    process.signal(SIGABRT);
    EXPECT_EQ(process.wait(std::chrono::seconds(30)), 128 + SIGABRT);
    EXPECT_FALSE(process.left_core());
  }
}

// Runs `use` on a thread for which the kernel has no Landlock, nor for what it starts.
void without_landlock(const std::function<void()>& use) {
  std::thread([&] {
    const scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    ASSERT_EQ(
        seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(landlock_create_ruleset), 0), 0);
    ASSERT_EQ(seccomp_load(filter), 0);
    seccomp_release(filter);
    use();
  }).join();
}

TEST(Sandbox, WithoutLandlockTheWorkerWarnsOrRefuses) {
  Stack::Options options;
  options.workers = 0;
  options.api = false;
  Stack stack(options);
  constexpr const char* kWarning = "has no Landlock";
  without_landlock([&] {
    auto variables = stack.environment();
    variables["SANDBOX"] = "required";
    const Output refused = run({program_path("audio-worker")}, variables);
    EXPECT_EQ(refused.code, 2) << "it is not started again";
    EXPECT_THAT(refused.out, HasSubstr(kWarning));

    const std::size_t warned = stack.start_worker();
    EXPECT_THAT(stack.worker(warned).log(), HasSubstr(kWarning));
    stack.worker(warned).kill();
  });
  if (::syscall(SYS_landlock_create_ruleset, nullptr, 0, 1U) > 0) {
    const std::size_t plain = stack.start_worker({{"SANDBOX", "required"}});
    EXPECT_THAT(stack.worker(plain).log(), Not(HasSubstr(kWarning)));
  }
}

// Every "requests refused" line of a log: its counts, and when it was written.
struct Refusals {
  std::map<std::string, std::uint64_t> sums;
  std::vector<Instant> at;
};

Refusals refusals(const std::string& log) {
  Refusals out;
  out.at = lines_about(log, "requests refused", [&](const rapidjson::Document& line) {
    EXPECT_STREQ(line["example_address"].GetString(), "127.0.0.1");
    for (const char* kind :
         {"unauthorized", "forbidden", "too_many_requests", "range_refused", "operator_token"}) {
      if (line.HasMember(kind) && line[kind].GetUint64() > 0) {
        out.sums[kind] += line[kind].GetUint64();
      }
    }
  });
  return out;
}

TEST(SecurityEvents, AreCountedAndSummedUpInTheLog) {
  Stack::Options options;
  options.environment["RATE_LIMIT_UNAUTHENTICATED_PER_MINUTE"] = "40";
  Stack stack(options);
  const Account account = stack.account();
  stack.admin({"user", "create", "--email", "poor@example.com"});
  Account poor = account;
  poor.key = stack.admin({"key", "create", "--user", "poor@example.com", "--name", "k"})["key"]
                 .GetString();
  const std::string secret = "svc_live_0123456789abcdef0123456789abcdef";

  std::map<std::string, std::uint64_t> expected;
  // Before the flood: after it, this address may not show a key that is new.
  EXPECT_EQ(stack.create(poor, Stack::body()).status, 403);
  expected["forbidden"] = 1;
  const std::string id = stack.create(account, Stack::body()).text("id");
  const Reply made = stack.wait_final(account, id);
  EXPECT_EQ(http("GET", made.text("output.url"), {"Range: bytes=99999999-"}).status, 416);
  expected["range_refused"] = 1;

  for (int i = 0; i < 60; ++i) {
    Account stranger = account;
    stranger.key = secret;
    const int status = stack.create(stranger, Stack::body()).status;
    ASSERT_TRUE(status == 401 || status == 429) << status;
    ++expected[status == 401 ? "unauthorized" : "too_many_requests"];
  }
  const std::string metrics = http("GET", stack.ops_url() + "/metrics").body;
  for (const auto& [kind, count] : expected) {
    EXPECT_GT(count, 0U) << kind;
    EXPECT_THAT(
        metrics,
        HasSubstr("api_security_events_total{kind=\"" + kind + "\"} " + std::to_string(count)));
  }
  EXPECT_TRUE(eventually(std::chrono::seconds(60), [&] {
    return refusals(stack.api().log()).sums == expected;
  })) << stack.api().log();
  const Refusals lines = refusals(stack.api().log());
  expect_one_a_second(lines.at);
  EXPECT_THAT(stack.api().log(), Not(HasSubstr(secret)));
}

// Whatever address they come from: each may guess ten times, and there are very many.
TEST(SecurityEvents, WrongTokensOfOperatorsAreSuch) {
  constexpr std::uint64_t kGuesses = 60;
  Stack::Options options;
  options.workers = 0;
  options.environment["OPS_TOKEN"] = "a-token-of-forty-characters-at-the-least";
  Stack stack(options);
  for (std::uint64_t i = 0; i < kGuesses; ++i) {
    const int status =
        http("POST", stack.ops_url() + "/ops/actions", Stack::bearer("guess")).status;
    ASSERT_TRUE(status == 401 || status == 429) << status;
  }
  EXPECT_THAT(http("GET", stack.ops_url() + "/metrics").body,
              HasSubstr("api_security_events_total{kind=\"operator_token\"} 60\n"));
  const std::map<std::string, std::uint64_t> expected = {{"operator_token", kGuesses}};
  EXPECT_TRUE(eventually(std::chrono::seconds(60), [&] {
    return refusals(stack.api().log()).sums == expected;
  })) << stack.api().log();
  const Refusals lines = refusals(stack.api().log());
  expect_one_a_second(lines.at);
  EXPECT_THAT(stack.api().log(), Not(HasSubstr("wrong or missing"))) << "no line each";
}

}  // namespace
}  // namespace audiogen::test
