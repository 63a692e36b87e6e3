// The worker's side of a helper program: one that is stuck, and a clock that has gone on.
#include "worker/sandbox/helper.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/unique_fd.h"
#include "tests/support/places.h"
#include "tests/support/wait.h"
#include "worker/decode/protocol.h"
#include "worker/sandbox/channel.h"

namespace audiogen::sandbox {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using decode::BlockKind;

constexpr auto kPatience = 60s;
constexpr std::chrono::milliseconds kNever = 1h;

// How one request has ended, and what a child has said.
struct Answer {
  Ending ending = Ending::kUnavailable;
  int begun = 0;  // children, with it
};

class HelperTest : public testing::Test {
 protected:
  HelperTest() {
    std::string name = testing::TempDir() + "helper-XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~HelperTest() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::string fifo(const std::string& name) const {
    EXPECT_EQ(mkfifo(path(name).c_str(), 0600), 0);
    return path(name);
  }
  // Lets go on who waits for it, or who will.
  static void open_once(const std::string& fifo) {
    close(open(fifo.c_str(), O_WRONLY | O_CLOEXEC));
  }

  static std::unique_ptr<Helper> helper(std::chrono::milliseconds silence_max,
                                        std::vector<std::string> arguments = {}) {
    auto out = std::make_unique<Helper>(
        test::program_path("scripted-helper"),
        decode::kProtocolVersion,
        Start{.arguments = std::move(arguments), .time_max = kNever, .silence_max = silence_max});
    EXPECT_EQ(out->prepare(), std::nullopt);
    return out;
  }

  static UniqueFd file_of(const std::string& text) {
    UniqueFd out(memfd_create("script", MFD_CLOEXEC));
    EXPECT_EQ(write(out.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
    return out;
  }

  // Asks for what `script` says (scripted_helper.cc).
  static Answer ask(
      Helper& helper,
      const std::string& script,
      Request request,
      const std::function<void()>& begin = [] {}) {
    const UniqueFd file = file_of(script);
    request.attachment = file.get();
    Answer out;
    out.ending = helper.ask(
        request,
        [&] {
          ++out.begun;
          begin();
        },
        [](std::uint32_t kind, std::string_view) {
          return static_cast<BlockKind>(kind) == BlockKind::kSound ? Taken::kLast : Taken::kMore;
        });
    return out;
  }
  static Answer ask(Helper& helper, const std::string& script) {
    return ask(helper, script, within(kPatience));
  }
  static std::future<Answer> ask_beside(
      Helper& helper, std::string script, Request request, std::function<void()> begin = [] {}) {
    return std::async(std::launch::async, [&helper, script, request, begin] {
      return ask(helper, script, request, begin);
    });
  }

  static Request within(std::chrono::milliseconds time,
                        const Cancellation* cancellation = nullptr) {
    return {.packet = "request", .deadline = Clock::now() + time, .cancellation = cancellation};
  }
  // So large that few of them fill a socket.
  static Request large(std::chrono::milliseconds time, const Cancellation* cancellation = nullptr) {
    Request out = within(time, cancellation);
    out.packet.assign(kPacketMax, 'x');
    return out;
  }

  static pid_t process_of(const Helper& helper) { return helper.process().value_or(0); }

  // Stops it, and returns once it stands.
  static pid_t freeze(const Helper& helper) {
    const pid_t pid = process_of(helper);
    EXPECT_GT(pid, 0);
    EXPECT_EQ(kill(pid, SIGSTOP), 0);
    int status = 0;
    EXPECT_EQ(waitpid(pid, &status, WUNTRACED), pid);
    EXPECT_TRUE(WIFSTOPPED(status));
    return pid;
  }

  static bool is_gone(pid_t pid) { return kill(pid, 0) != 0 && errno == ESRCH; }

  static std::size_t children_of(pid_t pid) {
    const std::string name = std::to_string(pid);
    std::ifstream in("/proc/" + name + "/task/" + name + "/children");
    return static_cast<std::size_t>(std::distance(std::istream_iterator<std::string>(in),
                                                  std::istream_iterator<std::string>()));
  }

  // Has some socket of this process got no room, because nobody reads what was sent by it?
  static bool has_full_socket() {
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      const int descriptor = std::stoi(entry.path().filename());
      int kind = 0, unread = 0, room = 0;
      socklen_t size = sizeof(int);
      if (getsockopt(descriptor, SOL_SOCKET, SO_TYPE, &kind, &size) == 0 &&
          kind == SOCK_SEQPACKET &&
          getsockopt(descriptor, SOL_SOCKET, SO_SNDBUF, &room, &size) == 0 &&
          ioctl(descriptor, SIOCOUTQ, &unread) == 0 && unread >= room) {
        return true;
      }
    }
    return false;
  }

  // What must end by itself. What does not is let go, and has failed.
  template <class T>
  static T ended(std::future<T> future, pid_t frozen) {
    if (future.wait_for(kPatience) != std::future_status::ready) {
      ADD_FAILURE() << "it waits for a helper that is stuck";
      kill(frozen, SIGKILL);
    }
    return future.get();
  }

 private:
  std::string folder_;
};

// Whoever of them hears that it is.
TEST_F(HelperTest, ThatIsReadyIsReadyForAllWhoWait) {
  for (int round = 0; round < 5; ++round) {
    Helper mine(test::program_path("scripted-helper"),
                decode::kProtocolVersion,
                Start{.time_max = kNever, .silence_max = kNever});
    std::vector<std::future<Answer>> all;
    for (int i = 0; i < 20; ++i) {
      all.push_back(ask_beside(mine, "end 0", within(kPatience)));
    }
    for (std::future<Answer>& one : all) {
      EXPECT_EQ(one.get().ending, Ending::kComplete);
    }
  }
}

TEST_F(HelperTest, ThatIsStuckIsReplaced) {
  const auto mine = helper(300ms);
  const pid_t before = freeze(*mine);
  const Ending first = ended(ask_beside(*mine, "end 0", within(kPatience)), before).ending;
  EXPECT_TRUE(first == Ending::kComplete || first == Ending::kUnavailable)
      << static_cast<int>(first);
  EXPECT_TRUE(
      test::eventually(kPatience, [&] { return ask(*mine, "end 0").ending == Ending::kComplete; }));
  EXPECT_NE(process_of(*mine), before);
  EXPECT_TRUE(is_gone(before));
}

// The time of each is over before any of them can tell.
TEST_F(HelperTest, ThatIsStuckIsReplacedHoweverLittleTimeItsCallsHave) {
  const auto mine = helper(300ms);
  const pid_t before = freeze(*mine);
  EXPECT_TRUE(test::eventually(kPatience, [&] {
    const Ending ending = ask(*mine, "end 0", within(20ms)).ending;
    EXPECT_NE(ending, Ending::kCrashed);
    return process_of(*mine) != before && process_of(*mine) > 0;
  }));
  EXPECT_TRUE(is_gone(before));
}

TEST_F(HelperTest, ThatIsStuckLetsAllCallsComeBack) {
  constexpr int kCallers = 20, kCallsEach = 20;
  auto mine = helper(300ms);
  const pid_t before = freeze(*mine);
  std::vector<std::future<int>> callers;
  for (int i = 0; i < kCallers; ++i) {
    callers.push_back(std::async(std::launch::async, [&] {
      int judged = 0;
      for (int call = 0; call < kCallsEach; ++call) {
        const Ending ending = ask(*mine, "end 0", large(kPatience)).ending;
        judged += ending == Ending::kComplete || ending == Ending::kUnavailable ? 0 : 1;
      }
      return judged;
    }));
  }
  for (std::future<int>& caller : callers) {
    EXPECT_EQ(ended(std::move(caller), before), 0) << "it says nothing of a request";
  }
  mine.reset();
  EXPECT_TRUE(is_gone(before));
}

TEST_F(HelperTest, ThatIsStuckKeepsTheChildrenThatAreAtWork) {
  const auto mine = helper(300ms);
  const std::string gate = fifo("gate");
  std::promise<void> begun;
  std::future<Answer> first =
      ask_beside(*mine, "wait " + gate + " end 0", within(kNever), [&] { begun.set_value(); });
  begun.get_future().wait();
  const pid_t before = freeze(*mine);
  EXPECT_TRUE(
      test::eventually(kPatience, [&] { return ask(*mine, "end 0").ending == Ending::kComplete; }));
  EXPECT_NE(process_of(*mine), before);
  open_once(gate);
  const Answer answer = ended(std::move(first), before);
  EXPECT_EQ(answer.ending, Ending::kComplete);
  EXPECT_EQ(answer.begun, 1);
  EXPECT_TRUE(is_gone(before));
}

// It may have to take up much, and take its time over each.
TEST_F(HelperTest, ThatTakesUpOneRequestIsNotStuckForTheNext) {
  constexpr auto kSilence = 3s;
  // Where the machine stands still for that long both are given up: once more.
  int tries = 0;
  for (bool in_time = false; !in_time;) {
    const std::string gate = fifo("gate" + std::to_string(++tries));
    const auto mine = helper(kSilence, {gate});
    const auto begin = Clock::now();
    const auto end_of_one = [&] {
      ask(*mine, "", large(kNever));
      return Clock::now();
    };
    std::future<Clock::time_point> one = std::async(std::launch::async, end_of_one);
    std::future<Clock::time_point> another = std::async(std::launch::async, end_of_one);
    EXPECT_TRUE(test::eventually(kPatience, [] { return has_full_socket(); })) << "both are there";
    const auto sent = Clock::now();
    EXPECT_TRUE(test::eventually(kPatience, [&] { return Clock::now() > sent + 500ms; }));
    const auto told = Clock::now();
    open_once(gate);  // For the first of them, whichever that is.
    in_time = Clock::now() < begin + kSilence / 2;
    const auto ends = std::minmax({one.get(), another.get()});
    if (in_time) {
      EXPECT_GE(ends.second, told + kSilence) << "the other had to wait for the first";
    }
  }
}

// The first helper has had of the time that the request may take.
TEST_F(HelperTest, ASecondOneThatHasTooLittleTimeSaysNothingOfTheRequest) {
  const auto mine = helper(kNever);
  const UniqueFd file =
      file_of("once " + path("first") + " die then wait " + fifo("gate") + " end 0");
  Request request = within(kNever);
  request.attachment = file.get();
  int begun = 0;
  const Ending ending = mine->ask(
      request,
      [&] {
        if (++begun == 2) {
          request.deadline = Clock::now();
        }
      },
      [](std::uint32_t, std::string_view) { return Taken::kNonsense; });
  EXPECT_EQ(begun, 2);
  EXPECT_EQ(ending, Ending::kUnavailable);
}

TEST_F(HelperTest, WithoutRoomIsWaitedForNoLongerThanACallMayTake) {
  const auto mine = helper(kNever);
  const pid_t before = freeze(*mine);
  std::vector<std::future<Answer>> taken;
  for (int i = 0; i < 2; ++i) {
    taken.push_back(ask_beside(*mine, "end 0", large(kNever)));
  }
  ASSERT_TRUE(test::eventually(kPatience, [] { return has_full_socket(); }));
  EXPECT_EQ(ended(ask_beside(*mine, "end 0", large(20ms)), before).ending, Ending::kUnavailable)
      << "no child has seen it";
  Cancellation cancellation;
  std::future<Answer> canceled = ask_beside(*mine, "end 0", large(kNever, &cancellation));
  std::future<Answer> patient = ask_beside(*mine, "end 0", large(kNever));
  cancellation.cancel();
  EXPECT_EQ(ended(std::move(canceled), before).ending, Ending::kCanceled);
  EXPECT_EQ(kill(before, SIGCONT), 0);
  taken.push_back(std::move(patient));
  for (std::future<Answer>& one : taken) {
    EXPECT_EQ(ended(std::move(one), before).ending, Ending::kComplete);
  }
  EXPECT_EQ(process_of(*mine), before) << "it had much to take up, and was not stuck";
}

// As when the worker is stopped for longer than its request may take.
TEST_F(HelperTest, AnAnswerThatIsThereCountsBeforeTheClock) {
  const auto mine = helper(kNever);
  const std::string gate = fifo("gate");
  const UniqueFd file = file_of("start 8000 wait " + gate + " end 0");
  Request request = within(kNever);
  request.attachment = file.get();
  const auto pass_over = [&] {
    open_once(gate);
    EXPECT_TRUE(test::eventually(kPatience, [&] { return children_of(process_of(*mine)) == 0; }))
        << "it has said all";
    request.deadline = Clock::now() - 1s;
  };
  const Ending ending = mine->ask(
      request,
      [] {},
      [&](std::uint32_t kind, std::string_view) {
        if (static_cast<BlockKind>(kind) == BlockKind::kSound) {
          return Taken::kLast;
        }
        pass_over();
        return Taken::kMore;
      });
  EXPECT_EQ(ending, Ending::kComplete);
}

TEST_F(HelperTest, AnAnswerWithoutAnEndEndsAtTheDeadline) {
  const auto mine = helper(kNever);
  const UniqueFd file = file_of("flood");
  Request request = within(kNever);
  request.attachment = file.get();
  std::size_t late = 0;  // bytes
  const Ending ending = mine->ask(
      request,
      [] {},
      [&](std::uint32_t, std::string_view payload) {
        late += payload.size();
        request.deadline = Clock::now() - 1s;
        test::pace(1ms);  // The child is ahead: there is always more.
        return late < (512UL << 10U) ? Taken::kMore : Taken::kNonsense;
      });
  EXPECT_EQ(ending, Ending::kDeadline);
}

// A process that somebody traces is not its parent's to wait for, as one that the kernel holds.
TEST_F(HelperTest, ThatCannotEndIsLeft) {
  auto mine = helper(kNever);
  const pid_t helper = process_of(*mine);
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
  const UniqueFd heard(ends[0]);
  UniqueFd said(ends[1]);
  const pid_t tracer = fork();
  if (tracer == 0) {
    const char traces = ptrace(PTRACE_SEIZE, helper, nullptr, nullptr) == 0 ? 1 : 0;
    [[maybe_unused]] const ssize_t written = write(said.get(), &traces, 1);
    pause();
    _exit(0);
  }
  said.reset();
  char traces = 0;
  EXPECT_EQ(read(heard.get(), &traces, 1), 1);
  std::future<void> gone = std::async(std::launch::async, [&] { mine.reset(); });
  if (traces == 1) {
    EXPECT_EQ(gone.wait_for(kPatience), std::future_status::ready);
  }
  EXPECT_EQ(kill(tracer, SIGKILL), 0);
  EXPECT_EQ(waitpid(tracer, nullptr, 0), tracer);
  gone.wait();
  if (traces == 0) {
    GTEST_SKIP() << "this system lets nobody trace";
  }
  EXPECT_EQ(waitpid(helper, nullptr, 0), helper);
}

}  // namespace
}  // namespace audiogen::sandbox
