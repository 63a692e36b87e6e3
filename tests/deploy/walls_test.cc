// The walls that our units and compose.yaml put around a worker leave its helpers room to fork and
// to raise their own: it speaks behind them. Systemd's and Docker's means, without systemd and
// Docker.
#include <fstream>
#include <functional>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <linux/mount.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/support/places.h"
#include "tests/support/stack.h"

namespace audiogen::test {
namespace {

using testing::HasSubstr;
using testing::Not;

// The system calls of one of systemd's groups.
std::set<std::string> group(const std::string& name) {
  std::set<std::string> out;
  std::istringstream lines(run({"/usr/bin/systemd-analyze", "syscall-filter", name}, {}).out);
  for (std::string line; std::getline(lines, line);) {
    const auto at = line.find_first_not_of(' ');
    if (at == 0 || at == std::string::npos || line[at] == '#') {
      continue;
    }
    const std::string word = line.substr(at);
    word[0] == '@' ? out.merge(group(word)) : static_cast<void>(out.insert(word));
  }
  EXPECT_FALSE(out.empty()) << name;
  return out;
}

// What the SystemCallFilter lines of the worker's unit leave.
std::set<std::string> calls_of_unit() {
  std::ifstream unit(source_path(".deploy/systemd/audio-worker@.service"));
  constexpr std::string_view kSetting = "SystemCallFilter=";
  std::set<std::string> out;
  for (std::string line; std::getline(unit, line);) {
    if (!line.starts_with(kSetting)) {
      continue;
    }
    line.erase(0, kSetting.size());
    const bool removed = line.starts_with('~');
    std::istringstream words(line.substr(removed ? 1 : 0));
    for (std::string word; words >> word;) {
      for (const std::string& call : word[0] == '@' ? group(word) : std::set<std::string>{word}) {
        removed ? out.erase(call) : out.insert(call).second;
      }
    }
  }
  EXPECT_TRUE(out.contains("execve"));  // Which systemd itself needs.
  return out;
}

void load(const scmp_filter_ctx& filter) {
  EXPECT_EQ(seccomp_load(filter), 0);
  seccomp_release(filter);
}

// SystemCallFilter, and MemoryDenyWriteExecute.
void filter_calls(const std::set<std::string>& calls) {
  const scmp_filter_ctx writable_code = seccomp_init(SCMP_ACT_ALLOW);
  constexpr scmp_datum_t kBoth = PROT_WRITE | PROT_EXEC;
  EXPECT_EQ(seccomp_rule_add(writable_code,
                             SCMP_ACT_ERRNO(EPERM),
                             SCMP_SYS(mmap),
                             1,
                             SCMP_A2(SCMP_CMP_MASKED_EQ, kBoth, kBoth)),
            0);
  EXPECT_EQ(seccomp_rule_add(
                writable_code,
                SCMP_ACT_ERRNO(EPERM),
                SCMP_SYS(mprotect),
                1,
                SCMP_A2(SCMP_CMP_MASKED_EQ, scmp_datum_t{PROT_EXEC}, scmp_datum_t{PROT_EXEC})),
            0);
  load(writable_code);
  const scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
  for (const std::string& call : calls) {
    if (const int number = seccomp_syscall_resolve_name(call.c_str()); number >= 0) {
      EXPECT_EQ(seccomp_rule_add(filter, SCMP_ACT_ALLOW, number, 0), 0) << call;
    }
  }
  load(filter);
}

// CapabilityBoundingSet and cap_drop, NoNewPrivileges.
void drop_rights() {
  for (int right = 0; right <= CAP_LAST_CAP && ::geteuid() == 0; ++right) {
    ::prctl(PR_CAPBSET_DROP, right, 0, 0, 0);
  }
  EXPECT_EQ(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
}

// read_only: nothing can be written to but `folder`. For this thread and what it starts.
void make_root_read_only(const std::string& folder) {
  ASSERT_EQ(::unshare(CLONE_FS | CLONE_NEWNS), 0);
  ASSERT_EQ(::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
  ASSERT_EQ(::mount(folder.c_str(), folder.c_str(), nullptr, MS_BIND, nullptr), 0);
  mount_attr read_only{};
  read_only.attr_set = MOUNT_ATTR_RDONLY;
  ASSERT_EQ(::syscall(SYS_mount_setattr, AT_FDCWD, "/", AT_RECURSIVE, &read_only, sizeof read_only),
            0);
  mount_attr writable{};
  writable.attr_clr = MOUNT_ATTR_RDONLY;
  ASSERT_EQ(::syscall(SYS_mount_setattr, AT_FDCWD, folder.c_str(), 0, &writable, sizeof writable),
            0);
  ASSERT_EQ(::open("/var/tmp", O_TMPFILE | O_RDWR, 0600), -1)
      << "it can be written to all the same";
}

// A worker behind `walls`, which are raised around a thread and what it starts, speaks a text.
void expect_speech_behind(const std::function<void(Stack&)>& walls) {
  Stack::Options options;
  options.workers = 0;
  Stack stack(options);
  const Account ann = stack.account();
  const std::string id = stack.create(ann, Stack::body()).text("id");
  std::thread([&] {
    walls(stack);
    // The leak checker wants to look into threads, which no wall allows.
    const std::size_t worker = stack.start_worker({{"SANDBOX", "required"},
                                                   {"REFERENCES_FOLDER", stack.log_folder()},
                                                   {"ASAN_OPTIONS", "detect_leaks=0"}});
    EXPECT_EQ(stack.wait_final(ann, id).text("status"), "succeeded");
    EXPECT_THAT(stack.worker(worker).log(), Not(HasSubstr("has no Landlock")));
    stack.worker(worker).kill();
  }).join();
}

TEST(Walls, OfTheUnitLeaveTheHelpersRoom) {
  const std::set<std::string> calls = calls_of_unit();
  expect_speech_behind([&](Stack&) {
    drop_rights();
    filter_calls(calls);
    EXPECT_EQ(::mmap(nullptr, 1, PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
              MAP_FAILED);
    EXPECT_EQ(::chown("/nowhere", 0, 0), -1);
    EXPECT_EQ(errno, EPERM);  // Of the filter: there is no such file.
  });
}

TEST(Walls, OfTheContainerLeaveTheHelpersRoom) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "only root can make a root folder read-only";
  }
  expect_speech_behind([](Stack& stack) {
    make_root_read_only(stack.log_folder());
    drop_rights();
  });
}

}  // namespace
}  // namespace audiogen::test
