// RUNBOOK.md has a section for each alert and for nothing else, and every command in it runs on the
// real service and says what stands below it. Only the managers of services, the broker's own tool
// and nginx are stood in for: they would act on this machine.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "tests/e2e/chain.h"
#include "tests/support/certificates.h"
#include "tests/support/places.h"
#include "tests/support/tcp_proxy.h"
#include "tests/support/test_broker.h"
#include "tests/support/wait.h"

namespace audiogen::test {
namespace {

using namespace std::chrono_literals;
using testing::ContainerEq;

using Lines = std::vector<std::string>;

Lines lines_of(const std::string& file) {
  Lines out;
  std::ifstream in(source_path(file));
  for (std::string line; std::getline(in, line);) {
    out.push_back(line);
  }
  return out;
}

std::set<std::string> alerts() {
  constexpr std::string_view kBegin = "      - alert: ";
  std::set<std::string> out;
  for (const std::string& line : lines_of(".deploy/observe/alerts.yml")) {
    if (line.starts_with(kBegin)) {
      out.insert(line.substr(kBegin.size()));
    }
  }
  return out;
}

// By heading; what stands before the first one has none.
std::map<std::string, Lines> sections() {
  std::map<std::string, Lines> out;
  std::string heading;
  for (const std::string& line : lines_of("RUNBOOK.md")) {
    if (line.starts_with("## ")) {
      heading = line.substr(3);
      EXPECT_FALSE(out.contains(heading)) << heading;
    }
    out[heading].push_back(line);
  }
  return out;
}

TEST(Runbook, HasAScreenForEachAlertAndForNothingElse) {
  auto there = sections();
  there.erase("");
  std::set<std::string> headings;
  for (const auto& [heading, lines] : there) {
    headings.insert(heading);
    EXPECT_LE(lines.size(), 40U) << heading << ": more than a screen";
    auto at = lines.begin();
    for (const char* part :
         {"**Means.** ", "**Look.** ", "**Do.** ", "**Undo.** ", "**If it does not help.** "}) {
      at = std::find_if(
          at, lines.end(), [&](const std::string& line) { return line.starts_with(part); });
      ASSERT_NE(at, lines.end()) << heading << " does not say, in this order: " << part;
    }
  }
  EXPECT_THAT(headings, ContainerEq(alerts()));
}

struct Command {
  std::string section, text;
  Lines says;
};

std::vector<Command> commands() {
  std::vector<Command> out;
  for (const auto& [heading, lines] : sections()) {
    bool inside = false;
    for (const std::string& line : lines) {
      if (line.starts_with("```")) {
        inside = line == "```console";
      } else if (inside && line.starts_with("$ ")) {
        out.push_back({.section = heading, .text = line.substr(2), .says = {}});
      } else if (inside) {
        out.back().says.push_back(line);
      }
    }
  }
  return out;
}

constexpr std::string_view kAny = "…";

// Whether `text` is `pattern`, in which kAny stands for anything.
bool fits(std::string_view pattern, std::string_view text) {
  const auto any = pattern.find(kAny);
  if (any == std::string_view::npos) {
    return pattern == text;
  }
  if (!text.starts_with(pattern.substr(0, any))) {
    return false;
  }
  pattern.remove_prefix(any + kAny.size());
  for (std::size_t at = any; at <= text.size(); ++at) {
    if (fits(pattern, text.substr(at))) {
      return true;
    }
  }
  return false;
}

// The same of lines; a line of kAny alone stands for any number of them.
bool fit(std::span<const std::string> patterns, std::span<const std::string> lines) {
  if (patterns.empty()) {
    return lines.empty();
  }
  if (patterns.front() != kAny) {
    return !lines.empty() && fits(patterns.front(), lines.front()) &&
           fit(patterns.subspan(1), lines.subspan(1));
  }
  for (std::size_t skipped = 0; skipped <= lines.size(); ++skipped) {
    if (fit(patterns.subspan(1), lines.subspan(skipped))) {
      return true;
    }
  }
  return false;
}

// Without empty lines, and with single spaces: columns are as wide as what is in them.
Lines plain(const std::string& text) {
  Lines out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string single;
    for (std::string word; words >> word;) {
      single += (single.empty() ? "" : " ") + word;
    }
    if (!single.empty()) {
      out.push_back(single);
    }
  }
  return out;
}

std::string joined(const Lines& lines) {
  std::string out;
  for (const std::string& line : lines) {
    out += line + "\n";
  }
  return out;
}

TEST(Runbook, ShapesAreTakenAtTheirWord) {
  const auto same = [](const std::string& pattern, const std::string& text) {
    const Lines patterns = plain(pattern), lines = plain(text);
    return fit(patterns, lines);
  };
  EXPECT_TRUE(same("dead  0\n", "dead      0\n\n"));
  EXPECT_FALSE(same("dead 0", "dead 10"));
  EXPECT_TRUE(same("…\nb…d\n…", "a\nbcd\n"));
  EXPECT_FALSE(same("…\nb…d\n…", "a\nbce\n"));
  EXPECT_FALSE(same("", "a"));
  EXPECT_FALSE(same("a", ""));
  EXPECT_TRUE(same("…", ""));
}

class RunbookTest : public testing::Test {
 protected:
  RunbookTest()
      : provider_([](const DoubleCall&) { return wav_reply(0.3); }),
        chain_({openai_entry("primary", provider_), kLocalEntry}),
        stack_(chain_.options()),
        ann_(stack_.account(100'000)) {
    const std::string seen = stack_.log_folder() + "/seen";
    certificates_.issue(seen, "localhost", 30);
    const std::string folder = stack_.log_folder() + "/bin";
    std::filesystem::create_directories(folder);
    stand_in(folder + "/systemctl", "true");
    stand_in(folder + "/journalctl", "cat '" + stack_.log_folder() + "'/*.log");
    stand_in(folder + "/rabbitmqctl", "true");
    stand_in(folder + "/nginx", "true");
    const DatabaseUrl& url = stack_.database().url();
    const std::string login = stack_.log_folder() + "/owner.cnf";
    std::ofstream(login) << "[client]\nuser=" << url.user << "\npassword=" << url.password
                         << (url.socket.empty() ? "\nprotocol=tcp\nhost=" + url.host +
                                                      "\nport=" + std::to_string(url.port)
                                                : "\nsocket=" + url.socket)
                         << "\n";
    environment_ = stack_.environment();
    environment_["DATABASE_URL"] = stack_.database_url("admin");
    environment_["PATH"] = folder + ":" +
                           std::filesystem::path(program_path("audio-api")).parent_path().string() +
                           ":" + ::getenv("PATH");
    environment_["API_OPS"] = stack_.ops_url();
    environment_["WORKER_OPS"] = stack_.worker_ops_url(0);
    environment_["OWNER"] = login;
    environment_["DATABASE"] = url.database;
    environment_["BLOBS"] = stack_.log_folder() + "/blobs";
    environment_["CERTIFICATE"] = seen + ".pem";
    environment_["ACCOUNT"] = ann_.user;
    environment_["PROVIDER"] = "primary";
    environment_["CREDITS"] = "-12.5";
  }

  static void stand_in(const std::string& file, const std::string& does) {
    std::ofstream(file) << "#!/bin/sh\n" << does << "\n";
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  }

  // What a command that ends something needs. A task stays open while no worker does anything.
  void prepare(const std::string& command) {
    if (command.find("$TASK") != std::string::npos) {
      stack_.worker(0).signal(SIGSTOP);
      // It may hold the account's row just now: until the server takes that back, a busy machine's
      // answer may be 503.
      EXPECT_TRUE(eventually(60s, [&] {
        environment_["TASK"] = stack_.create(ann_, wav_body("x")).text("id");
        return !environment_["TASK"].empty();
      }));
    }
    if (command.find("$KEY") != std::string::npos) {
      const auto made =
          stack_.admin({"key", "create", "--user", ann_.user, "--name", "to be deleted"});
      environment_["KEY"] = made["id"].GetString();
    }
    if (command.find("$WORKER ") != std::string::npos) {
      environment_["WORKER"] = another_worker();
    }
    if (command.find("$MESSAGE") != std::string::npos) {
      environment_["MESSAGE"] = a_dead_message();
    }
  }

  // The id of one that works beside those there are.
  std::string another_worker() {
    const auto working = [&] {
      std::set<std::string> out;
      const auto queue = stack_.admin({"queue"});
      for (const auto& worker : queue["workers"].GetArray()) {
        if (std::string_view(worker["state"].GetString()) == "working") {
          out.insert(worker["id"].GetString());
        }
      }
      return out;
    };
    const auto before = working();
    stack_.start_worker();
    std::string out;
    EXPECT_TRUE(eventually(60s, [&] {
      for (const std::string& id : working()) {
        if (!before.contains(id)) {
          out = id;
        }
      }
      return !out.empty();
    }));
    return out;
  }

  std::string a_dead_message() {
    const auto first = [&]() -> std::string {
      const auto list = stack_.admin({"dead", "list"});
      return list["messages"].Empty() ? "" : list["messages"][0]["id"].GetString();
    };
    std::string out = first();
    if (out.empty()) {
      AmqpUrl broker = test_broker_url();
      broker.vhost = Stack::virtual_host();
      publish(broker, "this is no hint");
      EXPECT_TRUE(eventually(60s, [&] {
        out = first();
        return !out.empty();
      }));
    }
    return out;
  }

  void check(const Command& command) {
    const Lines says = plain(joined(command.says));
    Output output;
    prepare(command.text);
    // What is seen of the service is seconds old.
    const bool done = eventually(60s, [&] {
      output = run({"/bin/bash", "-c", "set -o pipefail\n" + command.text}, environment_);
      const Lines told = plain(output.out);
      return output.code == 0 && fit(says, told);
    });
    stack_.worker(0).signal(SIGCONT);
    EXPECT_TRUE(done) << command.section << ": " << command.text << "\nends with " << output.code
                      << "\n"
                      << output.out << "and has to say\n"
                      << joined(says);
  }

  ProviderDouble provider_;
  ChainFile chain_;
  Stack stack_;
  Account ann_;
  Certificates certificates_;
  std::map<std::string, std::string> environment_;
};

TEST_F(RunbookTest, EveryCommandRunsAndSaysWhatIsHealthy) {
  ASSERT_EQ(stack_.wait_final(ann_, stack_.create(ann_, wav_body("x")).text("id")).text("status"),
            "succeeded");
  const auto all = commands();
  ASSERT_GT(all.size(), 40U);
  for (const Command& command : all) {
    check(command);
  }
}

// They are asked when something is away, and then the answer is a 503.
TEST_F(RunbookTest, WhoIsNotReadySaysWhatIsAway) {
  TcpProxy database(stack_.database().url().port);
  stack_.start_api({{"DATABASE_URL", stack_.database_url("api", database.port())}});
  const std::size_t worker =
      stack_.start_worker({{"DATABASE_URL", stack_.database_url("worker", database.port())}});
  environment_["WORKER_OPS"] = stack_.worker_ops_url(worker);
  database.refuse();
  database.cut_all();
  int asked = 0;
  for (const Command& command : commands()) {
    if (command.text.find("/readyz") == std::string::npos) {
      continue;
    }
    ++asked;
    Output output;
    const bool told = eventually(60s, [&] {
      output = run({"/bin/bash", "-c", command.text}, environment_);
      return output.out.find(R"("database":false)") != std::string::npos;
    });
    ASSERT_TRUE(told) << command.section << ": " << command.text << "\nsays\n" << output.out;
    EXPECT_NE(output.code, 0) << command.section << ": " << command.text;
  }
  EXPECT_GT(asked, 5);
}

}  // namespace
}  // namespace audiogen::test
