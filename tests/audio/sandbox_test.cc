// The sandbox of helper programs, entered by a forked child, and the speech packets.
#include "worker/sandbox/sandbox.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <functional>
#include <string>
#include <utility>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "worker/sandbox/landlock.h"
#include "worker/speech/protocol.h"

namespace audiogen::speech {
namespace {

constexpr int kNotEntered = 99;

// Runs `action` in a sandboxed child: its exit status is the action's result, or minus the signal
// that killed it. The action makes system calls only.
int in_sandbox(const std::function<int()>& action,
               const sandbox::Limits& limits = {},
               const std::vector<std::string>& readable = {"/usr/share"}) {
  const std::optional<sandbox::Sandbox> locked = sandbox::Sandbox::prepare(readable);
  EXPECT_TRUE(locked);
  const pid_t child = fork();
  if (child == 0) {
    if (!locked->enter(limits)) {
      _exit(kNotEntered);
    }
    syscall(SYS_exit_group, action());
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

int try_open(const char* path, int flags) {
  const int file = open(path, flags, 0600);
  return file >= 0 ? 0 : errno;
}

TEST(Sandbox, LetsAnInnocentChildWork) {
  EXPECT_EQ(in_sandbox([] { return 7; }), 7);
  EXPECT_EQ(in_sandbox([] { return try_open("/usr/share/common-licenses/GPL-3", O_RDONLY); }), 0);
  EXPECT_EQ(in_sandbox([] {
              const void* const memory =
                  mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
              return memory == MAP_FAILED ? errno == ENOMEM ? 0 : 1 : 0;
            }),
            0);
}

TEST(Sandbox, HidesFiles) {
  if (!sandbox::landlock_available()) {
    GTEST_SKIP() << "this kernel has no Landlock";
  }
  EXPECT_EQ(in_sandbox([] { return try_open("/etc/passwd", O_RDONLY); }), EACCES);
  EXPECT_EQ(in_sandbox([] { return try_open("/proc/self/environ", O_RDONLY); }), EACCES);
}

// As with no descriptor or no memory left: EMFILE for a rule set, but not for the kernel's version.
bool refuse_rulesets() {
  const scmp_filter_ctx context = seccomp_init(SCMP_ACT_ALLOW);
  const bool loaded = seccomp_rule_add(context,
                                       SCMP_ACT_ERRNO(EMFILE),
                                       SCMP_SYS(landlock_create_ruleset),
                                       1,
                                       SCMP_A0(SCMP_CMP_NE, 0)) == 0 &&
                      seccomp_load(context) == 0;
  seccomp_release(context);
  return loaded;
}

TEST(Sandbox, IsNoneWhereTheKernelHasLandlockAndMakesNoRules) {
  if (!sandbox::landlock_available()) {
    GTEST_SKIP() << "this kernel has no Landlock";
  }
  const auto without_rules = [](const std::function<bool()>& locks) {
    const pid_t child = fork();
    if (child == 0) {
      _exit(!refuse_rulesets() ? kNotEntered : locks() ? 1 : 0);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  EXPECT_EQ(without_rules([] { return sandbox::Sandbox::prepare({"/usr/share"}).has_value(); }), 0)
      << "it would read every file";
  EXPECT_EQ(without_rules([] { return sandbox::fence({"/usr/share"}); }), 0);
}

// By the list of system calls alone: it must not take Landlock.
TEST(Sandbox, WithNothingReadableOpensNoFile) {
  const auto open_in_vain = [](const char* path, int flags) {
    return in_sandbox([=] { return try_open(path, flags); }, {}, {});
  };
  EXPECT_EQ(open_in_vain("/usr/share/common-licenses/GPL-3", O_RDONLY), EACCES);
  EXPECT_EQ(open_in_vain("/nonexistent", O_RDONLY), EACCES);
  EXPECT_EQ(open_in_vain("/tmp/x", O_WRONLY | O_CREAT), EACCES);
  EXPECT_EQ(in_sandbox([] { return access("/etc/passwd", R_OK); }, {}, {}), -SIGSYS);
  EXPECT_EQ(in_sandbox([] { return socket(AF_UNIX, SOCK_STREAM, 0); }, {}, {}), -SIGSYS);
}

TEST(Sandbox, KillsWhatAsksForMore) {
  EXPECT_EQ(in_sandbox([] { return try_open("/tmp/x", O_WRONLY | O_CREAT); }), -SIGSYS);
  EXPECT_EQ(in_sandbox([] { return try_open("/usr/share/common-licenses/GPL-3", O_RDWR); }),
            -SIGSYS);
  EXPECT_EQ(in_sandbox([] { return socket(AF_INET, SOCK_STREAM, 0); }), -SIGSYS);
  EXPECT_EQ(in_sandbox([] { return socket(AF_UNIX, SOCK_STREAM, 0); }), -SIGSYS);
  EXPECT_EQ(in_sandbox([] { return static_cast<int>(syscall(SYS_fork)); }), -SIGSYS);
  EXPECT_EQ(in_sandbox([] { return execl("/bin/true", "true", nullptr); }), -SIGSYS);
  EXPECT_EQ(in_sandbox([] { return kill(getppid(), 0); }), -SIGSYS);
  EXPECT_EQ(
      in_sandbox([] {
        return mmap(nullptr, 4096, PROT_EXEC | PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
               MAP_FAILED;
      }),
      -SIGSYS);
}

TEST(Sandbox, LimitsTimeAndCoreFiles) {
  sandbox::Limits limits;
  limits.cpu_seconds = 1;
  limits.wall_seconds = 20;
  const auto spin = [] {
    for (;;) {
      std::atomic_signal_fence(std::memory_order_seq_cst);
    }
    return 0;
  };
  const int by_cpu = in_sandbox(spin, limits);
  EXPECT_TRUE(by_cpu == -SIGXCPU || by_cpu == -SIGKILL) << by_cpu;
  limits.cpu_seconds = 20;
  limits.wall_seconds = 1;
  EXPECT_EQ(in_sandbox(spin, limits), -SIGALRM);
}

// What it holds is a client's, and a system may hand a core to a program whatever its size may be.
// The files of /proc about a process that may not be dumped belong to root.
TEST(Sandbox, IsNotDumped) {
  const auto locked = sandbox::Sandbox::prepare({});
  ASSERT_TRUE(locked);
  int to_child[2], to_parent[2];
  ASSERT_EQ(pipe(to_child) | pipe(to_parent), 0);
  constexpr uid_t kNobody = 65534;
  const pid_t child = fork();
  if (child == 0) {
    close(to_child[1]);
    const bool other = getuid() != 0 || (setgid(kNobody) == 0 && setuid(kNobody) == 0);
    char byte = 0;
    const bool entered = other && prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0 && locked->enter({});
    syscall(SYS_write, to_parent[1], &byte, entered ? 1 : 0);
    syscall(SYS_read, to_child[0], &byte, 1);  // Until the other end is closed.
    syscall(SYS_exit_group, 0);
  }
  close(to_parent[1]);
  char byte = 0;
  EXPECT_EQ(read(to_parent[0], &byte, 1), 1);
  struct stat about {};
  EXPECT_EQ(stat(("/proc/" + std::to_string(child) + "/maps").c_str(), &about), 0);
  EXPECT_EQ(about.st_uid, 0U);
  close(to_child[1]);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  close(to_child[0]);
  close(to_parent[0]);
}

// The same behind a fence, which the action may go beyond no more than others.
int behind_fence(const std::function<int()>& action, const std::vector<std::string>& readable) {
  const pid_t child = fork();
  if (child == 0) {
    _exit(sandbox::fence(readable) ? action() : kNotEntered);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

TEST(Fence, LeavesWhatIsNamedToRead) {
  if (!sandbox::landlock_available()) {
    GTEST_SKIP() << "this kernel has no Landlock";
  }
  const auto opened = [](const char* path, int flags = O_RDONLY) {
    return behind_fence([=] { return try_open(path, flags); }, {"/usr/share", "/etc/passwd"});
  };
  EXPECT_EQ(opened("/usr/share/common-licenses/GPL-3"), 0);
  EXPECT_EQ(opened("/etc/passwd"), 0) << "a file by itself";
  EXPECT_EQ(opened("/etc/group"), EACCES);
  EXPECT_EQ(opened("/etc/passwd", O_RDWR), EACCES);
  EXPECT_EQ(opened("/tmp/x", O_WRONLY | O_CREAT), EACCES);
}

TEST(Fence, LeavesNeitherNetworkNorPrograms) {
  const auto refused = [](int result) { return result < 0 ? errno : 0; };
  const std::vector<std::string> all = {"/"};
  EXPECT_EQ(behind_fence([&] { return refused(socket(AF_INET, SOCK_STREAM, 0)); }, all), EACCES);
  EXPECT_EQ(behind_fence([&] { return refused(socket(AF_UNIX, SOCK_STREAM, 0)); }, all), EACCES);
  EXPECT_EQ(behind_fence([&] { return refused(execl("/bin/true", "true", nullptr)); }, all),
            EACCES);
}

// As far as the list of system calls goes: without Landlock it is all there is.
TEST(Fence, LeavesFilesAndOtherProcessesAsTheyAre) {
  const std::string path = testing::TempDir() + "fence-" + std::to_string(getpid());
  const std::string other = path + "-2";
  std::ofstream(path) << "content";
  const char* const file = path.c_str();
  const char* const to = other.c_str();
  const std::pair<const char*, std::function<long()>> actions[] = {
      {"truncate", [=] { return truncate(file, 0); }},
      {"open to write", [=] { return open(file, O_WRONLY); }},
      {"open to read and write", [=] { return open(file, O_RDWR); }},
      {"open to truncate", [=] { return open(file, O_RDONLY | O_TRUNC); }},
      {"open to make", [=] { return open(to, O_RDONLY | O_CREAT, 0600); }},
      {"chmod", [=] { return chmod(file, 0777); }},
      {"fchmodat2", [=] { return syscall(452, AT_FDCWD, file, 0777, 0); }},
      {"chown", [=] { return chown(file, getuid(), getgid()); }},
      {"setxattr", [=] { return setxattr(file, "user.a", "b", 1, 0); }},
      {"utimensat", [=] { return utimensat(AT_FDCWD, file, nullptr, 0); }},
      {"unlink", [=] { return unlink(file); }},
      {"rename", [=] { return rename(file, to); }},
      {"link", [=] { return link(file, to); }},
      {"symlink", [=] { return symlink(file, to); }},
      {"mkdir", [=] { return mkdir(to, 0700); }},
      {"mknod", [=] { return mkfifo(to, 0600); }},
      {"kill", [] { return kill(getppid(), 0); }},
      {"tgkill", [] { return syscall(SYS_tgkill, getppid(), getppid(), 0); }},
      {"pidfd_open", [] { return syscall(SYS_pidfd_open, getppid(), 0); }},
      {"prlimit",
       [] {
         rlimit out{};
         return prlimit(getppid(), RLIMIT_NOFILE, nullptr, &out);
       }},
      {"ptrace", [] { return ptrace(PTRACE_SEIZE, getppid(), nullptr, nullptr); }},
      {"setpriority", [] { return setpriority(PRIO_PROCESS, static_cast<id_t>(getppid()), 19); }},
      {"unshare", [] { return unshare(CLONE_NEWUSER); }},
      {"clone", [] { return syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0); }},
      {"mount", [] { return mount("none", "/tmp", "tmpfs", 0, nullptr); }},
      {"bpf", [] { return syscall(SYS_bpf, 0, nullptr, 0); }},
      {"perf_event_open", [] { return syscall(SYS_perf_event_open, nullptr, 0, -1, -1, 0); }},
      {"userfaultfd", [] { return syscall(SYS_userfaultfd, 0); }},
      {"io_uring_setup", [] { return syscall(SYS_io_uring_setup, 1, nullptr); }},
  };
  for (const auto& [name, action] : actions) {
    EXPECT_EQ(behind_fence([&] { return action() < 0 ? errno : 0; }, {"/"}), EACCES) << name;
  }
  std::string content;
  std::getline(std::ifstream(path), content);
  EXPECT_EQ(content, "content");
  EXPECT_EQ(unlink(file), 0);
  // What it does to itself.
  EXPECT_EQ(behind_fence([] { return raise(SIGTERM); }, {"/"}), -SIGTERM);
  EXPECT_EQ(behind_fence(
                [] {
                  const rlimit none{0, 0};
                  return setrlimit(RLIMIT_CORE, &none) == 0 ? 0 : errno;
                },
                {"/"}),
            0);
}

TEST(Fence, HoldsChildrenThatLockThemselvesIn) {
  const std::optional<sandbox::Sandbox> locked = sandbox::Sandbox::prepare({"/usr/share"});
  ASSERT_TRUE(locked);
  const auto in_child = [&](const std::function<int()>& action) {
    return behind_fence(
        [&] {
          const pid_t child = fork();
          if (child == 0) {
            syscall(SYS_exit_group, locked->enter({}) ? action() : kNotEntered);
          }
          int status = 0;
          waitpid(child, &status, 0);
          return WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
        },
        {"/usr/share"});
  };
  EXPECT_EQ(in_child([] { return 7; }), 7);
  EXPECT_EQ(in_child([] { return try_open("/usr/share/common-licenses/GPL-3", O_RDONLY); }), 0);
  EXPECT_EQ(in_child([] { return socket(AF_INET, SOCK_STREAM, 0); }), SIGSYS);
}

TEST(Protocol, RoundTrip) {
  Request request;
  request.words_per_minute = 350;
  request.speak_punctuation = 1;
  request.seconds_max = 121;
  request.limits.cpu_seconds = 3;
  request.utterances = {{"en-us+f3", "Hello", false},
                        {"ja", "こんにちは", true, Engine::kEspeak, 10},
                        {"slt", "", false, Engine::kFlite, -1200, 700}};
  const std::optional<std::string> packet = encode(request);
  ASSERT_TRUE(packet);
  const std::optional<Request> back = decode(*packet);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->words_per_minute, 350U);
  EXPECT_EQ(back->speak_punctuation, 1U);
  EXPECT_EQ(back->seconds_max, 121U);
  EXPECT_EQ(back->limits.cpu_seconds, 3U);
  ASSERT_EQ(back->utterances.size(), 3U);
  EXPECT_EQ(back->utterances[1].voice, "ja");
  EXPECT_EQ(back->utterances[1].text, "こんにちは");
  EXPECT_TRUE(back->utterances[1].kanji_to_kana);
  EXPECT_EQ(back->utterances[1].pitch, 10);
  EXPECT_EQ(back->utterances[2].engine, Engine::kFlite);
  EXPECT_EQ(back->utterances[2].pitch, -1200);
  EXPECT_EQ(back->utterances[2].breath_permille, 700U);
  EXPECT_EQ(encode(*back), packet);
}

TEST(Protocol, RefusesEveryOtherPacket) {
  Request request;
  request.utterances = {{"en", "Hello", false}};
  const std::string packet = *encode(request);
  for (std::size_t size = 0; size < packet.size(); ++size) {
    EXPECT_FALSE(decode(packet.substr(0, size))) << size;
  }
  EXPECT_FALSE(decode(packet + "x"));
  std::string other_version = packet;
  other_version[0] = 9;
  EXPECT_FALSE(decode(other_version));
  request.utterances[0].text.assign(sandbox::kPacketMax, 'x');
  EXPECT_FALSE(encode(request));
}

}  // namespace
}  // namespace audiogen::speech
