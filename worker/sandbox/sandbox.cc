#include "worker/sandbox/sandbox.h"

#include <algorithm>
#include <cerrno>
#include <functional>
#include <iterator>
#include <span>
#include <utility>

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/unique_fd.h"
#include "worker/sandbox/landlock.h"

namespace audiogen::sandbox {
namespace {

// What espeak-ng, the codecs and glibc's memory and stdio need once they are started. Without
// mprotect and executable mappings no new code can come in. Files by name are separate, below.
constexpr int kAllowed[] = {
    SCMP_SYS(read),          SCMP_SYS(write),           SCMP_SYS(close),
    SCMP_SYS(fstat),         SCMP_SYS(newfstatat),      SCMP_SYS(lseek),
    SCMP_SYS(munmap),        SCMP_SYS(mremap),          SCMP_SYS(brk),
    SCMP_SYS(exit),          SCMP_SYS(exit_group),      SCMP_SYS(rt_sigreturn),
    SCMP_SYS(clock_gettime), SCMP_SYS(clock_nanosleep), SCMP_SYS(gettimeofday),
    SCMP_SYS(futex),         SCMP_SYS(getrandom),       SCMP_SYS(madvise),
    SCMP_SYS(sysinfo),                         // glibc's qsort looks how much memory there is
    SCMP_SYS(poll),          SCMP_SYS(ppoll),  // whether anybody listens still (zygote.cc)
};
constexpr int kAllowedWithFiles[] = {SCMP_SYS(getdents64), SCMP_SYS(access), SCMP_SYS(stat)};

bool allow(scmp_filter_ctx context, std::span<const int> calls) {
  return std::all_of(calls.begin(), calls.end(), [&](int call) {
    // An architecture that lacks a call (aarch64 has no stat) needs no rule for it.
    return call < 0 || seccomp_rule_add(context, SCMP_ACT_ALLOW, call, 0) == 0;
  });
}

bool add_file_rules(scmp_filter_ctx context, bool files) {
  if (!files) {
    // A library that looks for something optional does without it.
    return seccomp_rule_add(context, SCMP_ACT_ERRNO(EACCES), SCMP_SYS(openat), 0) == 0;
  }
  constexpr scmp_datum_t kWriting = O_ACCMODE | O_CREAT | O_TRUNC;
  return allow(context, kAllowedWithFiles) &&
         seccomp_rule_add(context,
                          SCMP_ACT_ALLOW,
                          SCMP_SYS(openat),
                          1,
                          SCMP_A2(SCMP_CMP_MASKED_EQ, kWriting, O_RDONLY)) == 0;
}

bool add_rules(scmp_filter_ctx context, bool files) {
  return allow(context, kAllowed) && add_file_rules(context, files) &&
         seccomp_rule_add(context,
                          SCMP_ACT_ALLOW,
                          SCMP_SYS(mmap),
                          1,
                          SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0)) == 0;
}

// Reading a file takes none of these: network, programs, other processes, names and attributes of
// files, namespaces, and what of the kernel is large and seldom needed.
constexpr int kFenced[] = {
    SCMP_SYS(socket),
    SCMP_SYS(execve),
    SCMP_SYS(execveat),
    SCMP_SYS(ptrace),
    SCMP_SYS(process_vm_readv),
    SCMP_SYS(process_vm_writev),
    SCMP_SYS(process_madvise),
    SCMP_SYS(kcmp),
    SCMP_SYS(kill),
    SCMP_SYS(tkill),
    SCMP_SYS(rt_sigqueueinfo),
    SCMP_SYS(rt_tgsigqueueinfo),
    SCMP_SYS(pidfd_open),
    SCMP_SYS(pidfd_getfd),
    SCMP_SYS(pidfd_send_signal),
    SCMP_SYS(setpriority),
    SCMP_SYS(sched_setattr),
    SCMP_SYS(sched_setparam),
    SCMP_SYS(sched_setscheduler),
    SCMP_SYS(ioprio_set),
    SCMP_SYS(truncate),
    SCMP_SYS(ftruncate),
    SCMP_SYS(fallocate),
    SCMP_SYS(creat),
    SCMP_SYS(openat2),
    SCMP_SYS(open_by_handle_at),
    SCMP_SYS(chmod),
    SCMP_SYS(fchmod),
    SCMP_SYS(fchmodat),
    SCMP_SYS(chown),
    SCMP_SYS(fchown),
    SCMP_SYS(lchown),
    SCMP_SYS(fchownat),
    SCMP_SYS(setxattr),
    SCMP_SYS(lsetxattr),
    SCMP_SYS(fsetxattr),
    SCMP_SYS(removexattr),
    SCMP_SYS(lremovexattr),
    SCMP_SYS(fremovexattr),
    SCMP_SYS(utime),
    SCMP_SYS(utimes),
    SCMP_SYS(futimesat),
    SCMP_SYS(utimensat),
    SCMP_SYS(unlink),
    SCMP_SYS(unlinkat),
    SCMP_SYS(rmdir),
    SCMP_SYS(rename),
    SCMP_SYS(renameat),
    SCMP_SYS(renameat2),
    SCMP_SYS(link),
    SCMP_SYS(linkat),
    SCMP_SYS(symlink),
    SCMP_SYS(symlinkat),
    SCMP_SYS(mkdir),
    SCMP_SYS(mkdirat),
    SCMP_SYS(mknod),
    SCMP_SYS(mknodat),
    SCMP_SYS(shmget),
    SCMP_SYS(shmat),
    SCMP_SYS(shmctl),
    SCMP_SYS(msgget),
    SCMP_SYS(msgsnd),
    SCMP_SYS(msgrcv),
    SCMP_SYS(msgctl),
    SCMP_SYS(semget),
    SCMP_SYS(semop),
    SCMP_SYS(semtimedop),
    SCMP_SYS(semctl),
    SCMP_SYS(mq_open),
    SCMP_SYS(mq_unlink),
    SCMP_SYS(unshare),
    SCMP_SYS(setns),
    SCMP_SYS(mount),
    SCMP_SYS(umount2),
    SCMP_SYS(chroot),
    SCMP_SYS(pivot_root),
    SCMP_SYS(open_tree),
    SCMP_SYS(move_mount),
    SCMP_SYS(fsopen),
    SCMP_SYS(fspick),
    SCMP_SYS(fsconfig),
    SCMP_SYS(fsmount),
    SCMP_SYS(mount_setattr),
    SCMP_SYS(bpf),
    SCMP_SYS(perf_event_open),
    SCMP_SYS(userfaultfd),
    SCMP_SYS(io_uring_setup),
    SCMP_SYS(io_uring_enter),
    SCMP_SYS(io_uring_register),
    SCMP_SYS(add_key),
    SCMP_SYS(request_key),
    SCMP_SYS(keyctl),
    452,  // fchmodat2 (Linux 6.6), the same number everywhere, and new to our libseccomp
};

constexpr scmp_arg_cmp has(unsigned argument, scmp_datum_t mask, scmp_datum_t bits) {
  return scmp_arg_cmp{argument, SCMP_CMP_MASKED_EQ, mask, bits};
}

bool refuse(scmp_filter_ctx context, int call, std::optional<scmp_arg_cmp> where = std::nullopt) {
  // An architecture that lacks a call (aarch64 has no creat) needs no rule for it.
  return call < 0 ||
         seccomp_rule_add_array(
             context, SCMP_ACT_ERRNO(EACCES), call, where ? 1 : 0, where ? &*where : nullptr) == 0;
}

// Not even on a kernel without Landlock is a file written.
bool refuse_writing(scmp_filter_ctx context, int call, unsigned flags) {
  return refuse(context, call, has(flags, O_ACCMODE, O_WRONLY)) &&
         refuse(context, call, has(flags, O_ACCMODE, O_RDWR)) &&
         refuse(context, call, has(flags, O_ACCMODE, O_ACCMODE)) &&
         refuse(context, call, has(flags, O_CREAT, O_CREAT)) &&
         refuse(context, call, has(flags, O_TRUNC, O_TRUNC));
}

bool add_fence(scmp_filter_ctx context) {
  const scmp_arg_cmp another{0, SCMP_CMP_NE, static_cast<scmp_datum_t>(getpid()), 0};
  return std::all_of(std::begin(kFenced),
                     std::end(kFenced),
                     [&](int call) { return refuse(context, call); }) &&
         refuse_writing(context, SCMP_SYS(open), 1) &&
         refuse_writing(context, SCMP_SYS(openat), 2) &&
         // A process may end itself, and limit itself.
         refuse(context, SCMP_SYS(tgkill), another) &&
         refuse(context, SCMP_SYS(prlimit64), scmp_arg_cmp{0, SCMP_CMP_NE, 0, 0}) &&
         refuse(context, SCMP_SYS(clone), has(0, CLONE_NEWUSER, CLONE_NEWUSER)) &&
         // Its flags cannot be seen; without it the C library takes clone.
         seccomp_rule_add(context, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0) == 0;
}

// What is not ruled on by `add` meets `otherwise`. Empty when the kernel has no such filters.
std::vector<sock_filter> compile_filter(std::uint32_t otherwise,
                                        const std::function<bool(scmp_filter_ctx)>& add) {
  const scmp_filter_ctx context = seccomp_init(otherwise);
  const UniqueFd file = memfd_create("filter", MFD_CLOEXEC);
  std::vector<sock_filter> filter;
  if (context != nullptr && file && add(context) && seccomp_export_bpf(context, file.get()) == 0) {
    const off_t size = lseek(file.get(), 0, SEEK_END);
    filter.resize(static_cast<std::size_t>(size) / sizeof(sock_filter));
    if (pread(file.get(), filter.data(), static_cast<std::size_t>(size), 0) != size) {
      filter.clear();
    }
  }
  seccomp_release(context);
  return filter;
}

// Every right of Landlock's first version; later versions add rights that the list of system calls
// denies anyway.
constexpr std::uint64_t kFileRights = (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1;

// A Landlock rule set (Linux 5.13) that allows reading `readable`, files, and what is below
// folders; -1 on a kernel without Landlock. Nullopt when a kernel that has it makes none (EMFILE,
// ENOMEM): whoever went on would read every file.
std::optional<int> make_ruleset(const std::vector<std::string>& readable) {
  landlock_ruleset_attr attributes{};
  attributes.handled_access_fs = kFileRights;
  const int ruleset =
      static_cast<int>(syscall(SYS_landlock_create_ruleset, &attributes, sizeof(attributes), 0));
  if (ruleset < 0) {
    return landlock_available() ? std::nullopt : std::optional(-1);
  }
  fcntl(ruleset, F_SETFD, FD_CLOEXEC);
  for (const std::string& path : readable) {
    landlock_path_beneath_attr rule{};
    rule.parent_fd = open(path.c_str(), O_PATH | O_CLOEXEC);
    struct stat kind {};
    if (rule.parent_fd >= 0 && fstat(rule.parent_fd, &kind) == 0) {
      // The right to a folder is refused for a file.
      rule.allowed_access =
          LANDLOCK_ACCESS_FS_READ_FILE | (S_ISDIR(kind.st_mode) ? LANDLOCK_ACCESS_FS_READ_DIR : 0U);
      syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
      close(rule.parent_fd);
    }
  }
  return ruleset;
}

bool limit(decltype(RLIMIT_AS) resource, rlim_t value) {
  const rlimit both{value, value};
  return setrlimit(resource, &both) == 0;
}

// For good. A `ruleset` of -1 takes nothing away.
bool lock(int ruleset, const std::vector<sock_filter>& filter) {
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    return false;
  }
  if (ruleset >= 0) {
    if (syscall(SYS_landlock_restrict_self, ruleset, 0) != 0) {
      return false;
    }
    close(ruleset);
  }
  // The kernel only reads the program; its interface just does not say so.
  const sock_fprog program{static_cast<unsigned short>(filter.size()),
                           const_cast<sock_filter*>(filter.data())};
  return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0;
}

}  // namespace

bool fence(const std::vector<std::string>& readable) {
  const std::vector<sock_filter> filter = compile_filter(SCMP_ACT_ALLOW, add_fence);
  const std::optional<int> ruleset = make_ruleset(readable);
  return !filter.empty() && ruleset && lock(*ruleset, filter);
}

std::optional<Sandbox> Sandbox::prepare(const std::vector<std::string>& readable) {
  Sandbox sandbox;
  sandbox.filter_ = compile_filter(SCMP_ACT_KILL_PROCESS, [&](scmp_filter_ctx context) {
    return add_rules(context, !readable.empty());
  });
  if (sandbox.filter_.empty()) {
    return std::nullopt;
  }
  const std::optional<int> ruleset = make_ruleset(readable);
  if (!ruleset) {
    return std::nullopt;
  }
  sandbox.ruleset_ = *ruleset;
  return sandbox;
}

Sandbox::Sandbox(Sandbox&& other) noexcept
    : filter_(std::move(other.filter_)), ruleset_(std::exchange(other.ruleset_, -1)) {}

Sandbox::~Sandbox() {
  if (ruleset_ >= 0) {
    close(ruleset_);
  }
}

bool Sandbox::enter(const Limits& limits) const {
  // The limit of core files does not hold for what the system hands to a program. exec has made the
  // process dumpable again.
  if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) {
    return false;
  }
  alarm(limits.wall_seconds);
  constexpr rlim_t kMebibyte = 1024UL * 1024;
  if (!limit(RLIMIT_AS, limits.memory_mib * kMebibyte) || !limit(RLIMIT_CPU, limits.cpu_seconds) ||
      !limit(RLIMIT_FSIZE, 0) || !limit(RLIMIT_CORE, 0) || !limit(RLIMIT_NPROC, 0)) {
    return false;
  }
  return lock(ruleset_, filter_);
}

}  // namespace audiogen::sandbox
