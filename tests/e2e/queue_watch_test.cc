// The screen of `audio-api admin queue --watch` in a real terminal: tmux draws what it writes.
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/e2e/chain.h"
#include "tests/support/places.h"
#include "tests/support/tcp_proxy.h"
#include "tests/support/wait.h"

namespace audiogen::test {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

constexpr auto kSoon = 40s;  // For what happens within 2 s on an idle machine.

// A terminal of its own with one program in it.
class Screen {
 public:
  struct Options {
    std::string columns = "80", rows = "24";
    std::map<std::string, std::string> environment{};
  };

  // In the terminal a shell says "before", runs the program, says its exit code and how the
  // terminal is set, and stays. `folder` takes the socket of a tmux that nobody else uses.
  Screen(const std::string& folder,
         const std::map<std::string, std::string>& environment,
         const Options& options)
      : socket_(folder + "/tmux-" + std::to_string(made_++)) {
    std::ofstream(socket_ + ".conf") << "set -g status off\n"
                                        "set -g default-terminal screen-256color\n";
    std::vector<std::string> command = {"-f",
                                        socket_ + ".conf",
                                        "new-session",
                                        "-d",
                                        "-s",
                                        "t",
                                        "-x",
                                        options.columns,
                                        "-y",
                                        options.rows,
                                        "env",
                                        "LC_ALL=C.UTF-8"};
    for (const auto& variables : {environment, options.environment}) {
      for (const auto& [name, value] : variables) {
        command.push_back(name + "=" + value);
      }
    }
    for (const char* const part :
         {"sh",
          "-c",
          "trap : INT; echo before; \"$@\"; echo \"code $?\"; stty -a | grep -o -- "
          "'-*icanon\\|-*echo ' | tr '\\n' ' '; echo end; exec cat",
          "sh"}) {
      command.emplace_back(part);
    }
    command.push_back(program_path("audio-api"));
    for (const char* const part : {"admin", "queue", "--watch"}) {
      command.emplace_back(part);
    }
    EXPECT_EQ(tmux(command).code, 0);
  }
  ~Screen() { tmux({"kill-server"}); }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  // What is to be seen; `escapes`: with what makes it bold and coloured.
  std::string text(bool escapes = false) const {
    std::vector<std::string> command = {"capture-pane", "-p", "-t", "t"};
    if (escapes) {
      command.emplace_back("-e");
    }
    return tmux(command).out;
  }
  template <class Matcher>
  bool shows(const Matcher& what) const {
    return eventually(kSoon, [&] { return testing::Value(text(), what); });
  }
  void type(const std::string& keys) const { tmux({"send-keys", "-t", "t", "-l", keys}); }
  void press(const std::string& key) const { tmux({"send-keys", "-t", "t", key}); }
  void resize(const std::string& columns, const std::string& rows) const {
    tmux({"resize-window", "-t", "t", "-x", columns, "-y", rows});
  }
  std::string state(const std::string& format) const {
    std::string out = tmux({"display-message", "-p", "-t", "t", format}).out;
    return out.substr(0, out.find('\n'));
  }
  // Of the program; -1: there is none.
  pid_t program() const {
    const std::string shell = state("#{pane_pid}");
    std::ifstream children("/proc/" + shell + "/task/" + shell + "/children");
    pid_t out = -1;
    children >> out;
    return out;
  }
  // The other screen is gone, what was there before is to be seen again, and keys are echoed.
  void expect_restored(const std::string& code) const {
    EXPECT_TRUE(shows(HasSubstr("end"))) << text();
    EXPECT_THAT(text(), MatchesRegex("before\ncode " + code + "\nicanon echo *end\n(.|\n)*"));
    EXPECT_EQ(state("#{alternate_on} #{cursor_flag}"), "0 1");
  }

 private:
  Output tmux(const std::vector<std::string>& arguments) const {
    std::vector<std::string> command = {"/usr/bin/env", "tmux", "-S", socket_};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return run(command, {{"TMUX", ""}, {"LC_ALL", "C.UTF-8"}});
  }

  static inline int made_ = 0;  // One may still be ending when the next begins.
  const std::string socket_;
};

class QueueWatchTest : public testing::Test {
 protected:
  static Stack::Options options() {
    Stack::Options out;
    out.workers = 0;
    out.environment = {{"RATE_LIMIT_CREATE_BURST", "1000"}};
    return out;
  }
  std::map<std::string, std::string> environment() {
    return {{"DATABASE_URL", stack_.database_url("admin", proxy_.port())},
            {"AMQP_URL", stack_.environment()["AMQP_URL"]}};
  }
  std::string create() { return stack_.create(ann_, wav_body("x")).text("id"); }

  Stack stack_{options()};
  TcpProxy proxy_{stack_.database().url().port};
  Account ann_ = stack_.account();
};

TEST_F(QueueWatchTest, ShowsTheTruthAndDoesWhatKeysSay) {
  std::vector<std::string> ids;
  for (int i = 0; i < 7; ++i) {
    ids.push_back(create());
  }
  const Screen screen(stack_.log_folder(), environment(), {});
  ASSERT_TRUE(screen.shows(HasSubstr("ready 7"))) << screen.text();
  EXPECT_EQ(screen.state("#{alternate_on} #{cursor_flag}"), "1 0");
  EXPECT_THAT(screen.text(),
              AllOf(HasSubstr("No worker takes tasks: 7 wait"),
                    HasSubstr("running 0  retry 0  parked 0"),
                    HasSubstr("done 0/min  failed 0/min"),
                    testing::ContainsRegex("held 1050 credits  dead [0-9]"),
                    HasSubstr("CLAIMS"),
                    HasSubstr("q quit  p pause  s sort: age  / find  Enter open")));
  // The oldest first.
  const auto first = [&](const std::string& id) { return screen.text().find(id); };
  EXPECT_LT(first(ids[0]), first(ids[1]));

  // Found by a part of its id; shown whole, and left again.
  screen.type("/" + ids[3].substr(ids[3].size() - 8));
  EXPECT_TRUE(screen.shows(AllOf(HasSubstr("find: " + ids[3].substr(ids[3].size() - 8) + "_"),
                                 HasSubstr(ids[3]),
                                 Not(HasSubstr(ids[4])))))
      << screen.text();
  screen.press("Enter");
  EXPECT_TRUE(screen.shows(HasSubstr("/ find: " + ids[3].substr(ids[3].size() - 8) + "  Enter")));
  screen.press("Enter");
  EXPECT_TRUE(screen.shows(
      AllOf(HasSubstr("q back"), ContainsRegex("reserved credits +150"), HasSubstr(ids[3]))))
      << screen.text();
  screen.type("q");
  EXPECT_TRUE(screen.shows(HasSubstr("q quit")));
  screen.type("/");
  screen.press("Escape");
  EXPECT_TRUE(screen.shows(AllOf(HasSubstr(ids[3]), HasSubstr(ids[4]))));

  screen.type("s");
  EXPECT_TRUE(screen.shows(HasSubstr("s sort: cause")));
  screen.type("s");
  EXPECT_TRUE(screen.shows(HasSubstr("s sort: user")));

  // Paused, it says how old it is, and goes on to.
  screen.type("p");
  ASSERT_TRUE(screen.shows(HasSubstr("old, paused")));
  const std::string before = screen.text();
  create();
  EXPECT_TRUE(screen.shows(ContainsRegex(" ([6-9]|[1-9][0-9]) s old, paused")));
  EXPECT_THAT(screen.text(), HasSubstr("ready 7")) << before;
  screen.type("p");
  EXPECT_TRUE(screen.shows(AllOf(HasSubstr("ready 8"), Not(HasSubstr("paused")))));
  for (const std::string& id : ids) {
    stack_.admin({"task", "cancel", id});
  }
  EXPECT_TRUE(screen.shows(AllOf(HasSubstr("ready 1  running"), HasSubstr("held 150 credits"))));

  screen.type("q");
  screen.expect_restored("0");
}

TEST_F(QueueWatchTest, FitsAfterAResize) {
  const std::string id = create();
  const Screen screen(stack_.log_folder(), environment(), {.columns = "60", .rows = "24"});
  const auto widest = [&] {
    std::istringstream lines(screen.text());
    std::size_t out = 0;
    for (std::string line; std::getline(lines, line);) {
      out = std::max(out, line.size());
    }
    return out;
  };
  ASSERT_TRUE(screen.shows(AllOf(HasSubstr(id), HasSubstr("q quit")))) << screen.text();
  EXPECT_THAT(screen.text(), AllOf(Not(HasSubstr("CLAIMS")), HasSubstr("WAITS FOR")));
  EXPECT_LE(widest(), 60U);
  screen.resize("80", "24");
  EXPECT_TRUE(screen.shows(HasSubstr("CLAIMS"))) << "at once, not when it looks again";
  screen.resize("40", "10");
  EXPECT_TRUE(screen.shows(AllOf(Not(HasSubstr("CLAIMS")), HasSubstr("q quit"))));
  screen.resize("80", "24");
  EXPECT_TRUE(screen.shows(AllOf(HasSubstr("CLAIMS"), HasSubstr(id), HasSubstr("ready 1"))));
  screen.press("C-c");
  screen.expect_restored("130");
}

TEST_F(QueueWatchTest, HasNoColourWhereNobodyWantsIt) {
  const auto escapes = [&](const std::map<std::string, std::string>& variables) {
    const Screen screen(stack_.log_folder(), environment(), {.environment = variables});
    EXPECT_TRUE(screen.shows(HasSubstr("No worker takes tasks"))) << screen.text();
    return screen.text(true);
  };
  const auto* const colour = "\x1B\\[[0-9;]*3[0-7]m";
  EXPECT_THAT(escapes({}), ContainsRegex(colour));
  const std::string plain = escapes({{"NO_COLOR", "1"}});
  EXPECT_THAT(plain, Not(ContainsRegex(colour)));
  EXPECT_THAT(plain, ContainsRegex("\x1B\\[[0-9;]*1m")) << "bold is none";
}

TEST_F(QueueWatchTest, LeavesTheTerminalAsItWasOnASignal) {
  const Screen screen(stack_.log_folder(), environment(), {});
  ASSERT_TRUE(screen.shows(HasSubstr("No worker takes tasks"))) << screen.text();
  const pid_t program = screen.program();
  ASSERT_GT(program, 0);
  ASSERT_EQ(::kill(program, SIGTERM), 0);
  screen.expect_restored("143");
}

TEST_F(QueueWatchTest, SaysThatTheDatabaseIsAwayAndEndsAllTheSame) {
  create();
  const Screen screen(stack_.log_folder(), environment(), {});
  ASSERT_TRUE(screen.shows(HasSubstr("ready 1"))) << screen.text();
  proxy_.refuse();
  proxy_.cut_all();
  EXPECT_TRUE(screen.shows(AllOf(HasSubstr("the database is away"), HasSubstr("ready 1"))))
      << screen.text();
  EXPECT_TRUE(eventually(kSoon, [&] {
    return testing::Value(screen.text(true), ContainsRegex("\x1B\\[[0-9;]*2m"));
  })) << "what is old is grey";
  proxy_.accept_again();
  EXPECT_TRUE(screen.shows(Not(HasSubstr("the database is away"))));
  // Nor does anybody wait for one that does not answer.
  proxy_.blackhole();
  EXPECT_TRUE(screen.shows(ContainsRegex(" ([5-9]|[1-9][0-9]) s old")));
  screen.type("q");
  screen.expect_restored("0");
  proxy_.resume();
}

TEST_F(QueueWatchTest, WithoutADatabaseFromTheStartItSaysSo) {
  proxy_.refuse();
  const Screen screen(stack_.log_folder(), environment(), {});
  EXPECT_TRUE(screen.shows(HasSubstr("the database is away"))) << screen.text();
  screen.type("q");
  screen.expect_restored("0");
}

}  // namespace
}  // namespace audiogen::test
