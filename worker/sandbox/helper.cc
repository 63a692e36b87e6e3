#include "worker/sandbox/helper.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <spawn.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/result.h"
#include "worker/sandbox/channel.h"

namespace audiogen::sandbox {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::size_t kComplaintMax = 400;  // bytes of what a helper says before it ends
constexpr std::size_t kHeardMax = 256UL * 1024;
// A helper that was killed takes its children with it. One that it had just forked may hold the
// helper's end of the socket, too, for a moment after its answer has ended.
constexpr milliseconds kDiesTogether{200};
// A helper that was killed has ended by then, unless the kernel does not let it go.
constexpr milliseconds kEndsWithin{5000};
// The first failures cost nothing: a helper killed by hand is back at once.
constexpr int kFreeFailures = 3;
constexpr milliseconds kBackoffFirst{100}, kBackoffMax{10000};
// One that takes longer to fail is not started again at once.
constexpr milliseconds kLongStart{2000};

int milliseconds_until(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<long long>(left, 0, 60000));
}

// What can be read of `output`, its end, on one line: without what terminals take for colours.
std::string complaint_in(int output) {
  std::string text;
  std::array<char, 4096> buffer{};
  // One that is stuck may go on to write.
  for (ssize_t size = 0;
       text.size() < kHeardMax && (size = read(output, buffer.data(), buffer.size())) > 0;) {
    text.append(buffer.data(), static_cast<std::size_t>(size));
  }
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b') {
      i = std::min(text.find('m', i), text.size() - 1);
    } else if (static_cast<unsigned char>(text[i]) >= ' ') {
      out += text[i];
    } else if (!out.empty() && out.back() != ' ') {
      out += ' ';
    }
  }
  while (out.ends_with(' ')) {
    out.pop_back();
  }
  return out.size() <= kComplaintMax ? out : out.substr(out.size() - kComplaintMax);
}

bool expired(Clock::time_point deadline) {
  return Clock::now() >= deadline;
}

// Takes blocks apart as they come.
class BlockReader {
 public:
  explicit BlockReader(const Helper::TakeBlock& take) : take_(take) {}

  Taken feed(std::string_view data) {
    buffer_.append(data);
    std::string_view rest = buffer_;
    while (rest.size() >= sizeof(BlockHeader)) {
      BlockHeader header{};
      std::memcpy(&header, rest.data(), sizeof(header));
      if (header.size > kBlockMax) {
        return Taken::kNonsense;
      }
      if (rest.size() < sizeof(header) + header.size) {
        break;
      }
      const Taken taken = take_(header.kind, rest.substr(sizeof(header), header.size));
      if (taken != Taken::kMore) {
        return taken;
      }
      rest.remove_prefix(sizeof(header) + header.size);
    }
    buffer_.erase(0, buffer_.size() - rest.size());
    return Taken::kMore;
  }

 private:
  const Helper::TakeBlock& take_;
  std::string buffer_;
};

}  // namespace

Cancellation::Cancellation() : descriptor_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void Cancellation::cancel() {
  canceled_ = true;
  const std::uint64_t one = 1;
  // Fails only when the counter is full: then it is readable already.
  [[maybe_unused]] const ssize_t written = write(descriptor_.get(), &one, sizeof(one));
}

// A running helper: its socket and process.
class Helper::Process {
 public:
  // Does not wait until it is ready.
  static Result<std::shared_ptr<Process>> start(const std::string& path, const Start& how);

  Process(UniqueFd socket, UniqueFd heard, pid_t pid, milliseconds silence_max)
      : socket_(std::move(socket)),
        heard_(std::move(heard)),
        pid_(pid),
        silence_max_(silence_max) {}
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  // Closing the socket is what ends it; the signal is for one that hangs.
  ~Process() {
    socket_.reset();
    kill(pid_, SIGKILL);
    // One that the kernel does not let go is left to it: whoever waited for it would hang, too.
    const UniqueFd ended(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
    pollfd wait{ended.get(), POLLIN, 0};
    while (ended && poll(&wait, 1, static_cast<int>(kEndsWithin.count())) < 0 && errno == EINTR) {
    }
    waitpid(pid_, nullptr, ended ? WNOHANG : 0);
  }

  pid_t pid() const { return pid_; }

  Clock::time_point started() const { return started_; }
  bool ready() const { return ready_; }

  // Waits for the helper's Hello, or its end.
  void wait_for_hello(Clock::time_point until, const Cancellation* cancellation) const {
    // poll() passes over a negative descriptor.
    const int canceled = cancellation != nullptr ? cancellation->descriptor() : -1;
    std::array<pollfd, 2> waits{pollfd{socket_.get(), POLLIN, 0}, pollfd{canceled, POLLIN, 0}};
    poll(waits.data(), waits.size(), milliseconds_until(until));
  }

  // Takes the Hello if it is there. Why it is not going to be ready, if that is certain.
  std::optional<std::string> take_hello(std::uint32_t version, milliseconds time_max) {
    Hello hello;
    // It is left there, for all who wait for it: the helper says nothing else by the socket.
    const ssize_t size = recv(socket_.get(), &hello, sizeof(hello), MSG_DONTWAIT | MSG_PEEK);
    if (size < 0 && errno == EAGAIN && !expired(started_ + time_max)) {
      return std::nullopt;
    }
    ready_ = size == sizeof(hello) && hello.version == version && hello.ready == 1;
    const std::string complaint = ready_ ? "" : complaint_in(heard_.get());
    heard_.reset();
    return ready_              ? std::nullopt
           : complaint.empty() ? std::optional<std::string>("it does not become ready")
                               : std::optional(complaint);
  }

  // Sends the packet with `answer`, the pipe's end for the child; waits for room. Nullopt: it has
  // arrived. kUnavailable: the helper has ended, or takes nothing up.
  std::optional<Ending> hand_over(const Request& request, int answer) {
    const std::array<int, kDescriptorsMax> descriptors = {answer, request.attachment};
    const auto brought = std::span(descriptors).first(request.attachment < 0 ? 1 : 2);
    for (;;) {
      const int error = send(request.packet, brought);
      if (error != EAGAIN) {
        return error == 0 ? std::nullopt : std::optional(Ending::kUnavailable);
      }
      if (const auto ending = wait_for(socket_.get(), POLLOUT, request, false)) {
        return ending;
      }
    }
  }

  // Reads the answer to its end. `begun` is true once a child has begun with the request; until
  // then kUnavailable: the helper takes nothing up.
  Ending listen(int answer, const Request& request, const TakeBlock& take, const bool& begun) {
    BlockReader reader(take);
    std::vector<char> buffer(64UL * 1024);
    ssize_t late = 0;  // bytes that were read after the deadline
    const int pipe_size = fcntl(answer, F_GETPIPE_SZ);
    for (;;) {
      if (const auto ending = wait_for(answer, POLLIN, request, begun)) {
        return *ending;
      }
      const ssize_t size = read(answer, buffer.data(), buffer.size());
      if (size < 0 && errno == EINTR) {
        continue;
      }
      if (size <= 0) {
        return Ending::kCrashed;
      }
      late += expired(request.deadline) ? size : 0;
      switch (reader.feed({buffer.data(), static_cast<std::size_t>(size)})) {
        case Taken::kMore:
          break;
        case Taken::kLast:
          return Ending::kComplete;
        case Taken::kNonsense:
          return Ending::kCrashed;
      }
      // What lay in the pipe by the deadline is no more than the pipe holds; a child may write
      // without an end.
      if (late >= pipe_size) {
        return Ending::kDeadline;
      }
    }
  }

  // A child has begun with a request, so what came before it has been taken up as well.
  void note_begun() {
    const MutexLock lock(mutex_);
    waiting_since_ = Clock::now();
  }

  // Is it, and does it stay so for `within`? What it says meanwhile is no end.
  bool alive(milliseconds within = milliseconds(0)) const {
    pollfd socket{socket_.get(), 0, 0};
    return poll(&socket, 1, static_cast<int>(within.count())) == 0;
  }

 private:
  // 0, or what sendmsg() says: EAGAIN, there is no room. A helper that is stuck reads nothing any
  // more, and whoever waited for it in the kernel could neither be canceled nor pass a deadline.
  int send(const std::string& packet, std::span<const int> descriptors) {
    iovec part{const_cast<char*>(packet.data()), packet.size()};  // only read
    alignas(cmsghdr) std::array<char, CMSG_SPACE(kDescriptorsMax * sizeof(int))> control{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
    const MutexLock lock(mutex_);
    // What others have sent may be left from calls that have given up: then it waits for longer.
    int unread = 0;
    if (ioctl(socket_.get(), SIOCOUTQ, &unread) != 0 || unread == 0) {
      waiting_since_ = Clock::now();
    }
    return sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? errno : 0;
  }

  Clock::time_point stuck_at() const {
    const MutexLock lock(mutex_);
    return waiting_since_ + silence_max_;
  }

  // Waits until `descriptor` is ready for `events`, or has failed: nullopt. Else kCanceled,
  // kDeadline or, unless the request has `begun`, kUnavailable: the helper takes nothing up.
  std::optional<Ending> wait_for(int descriptor,
                                 short events,
                                 const Request& request,
                                 bool begun) const {
    const Cancellation* const cancellation = request.cancellation;
    while (cancellation == nullptr || !cancellation->canceled()) {
      // poll() passes over a negative descriptor.
      const int canceled = cancellation != nullptr ? cancellation->descriptor() : -1;
      std::array<pollfd, 2> waits{pollfd{descriptor, events, 0}, pollfd{canceled, POLLIN, 0}};
      const auto until = begun ? request.deadline : std::min(request.deadline, stuck_at());
      poll(waits.data(), waits.size(), milliseconds_until(until));
      // What is there counts before the clock: this process may have been stopped for long.
      if (waits[0].revents != 0) {
        return std::nullopt;
      }
      if (!begun && expired(stuck_at())) {
        return Ending::kUnavailable;
      }
      if (expired(request.deadline)) {
        return Ending::kDeadline;
      }
    }
    return Ending::kCanceled;
  }

  UniqueFd socket_;
  UniqueFd heard_;  // its standard error, until it is ready
  const pid_t pid_;
  const Clock::time_point started_ = Clock::now();
  bool ready_ = false;  // under the Helper's lock
  const milliseconds silence_max_;
  mutable Mutex mutex_;
  // From then on it has taken up nothing of what lies before it, if anything does.
  Clock::time_point waiting_since_ GUARDED_BY(mutex_) = started_;
};

Result<std::shared_ptr<Helper::Process>> Helper::Process::start(const std::string& path,
                                                                const Start& how) {
  std::array<int, 2> pair{}, output{};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair.data()) != 0) {
    return Error{std::strerror(errno)};
  }
  UniqueFd ours(pair[0]);
  UniqueFd theirs(pair[1]);
  // Nobody waits for what it writes there, nor for room.
  if (pipe2(output.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
    return Error{std::strerror(errno)};
  }
  UniqueFd heard(output[0]);
  UniqueFd told(output[1]);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, theirs.get(), kSocketDescriptor);
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO}) {
    posix_spawn_file_actions_addopen(&actions, standard, "/dev/null", O_RDWR, 0);
  }
  posix_spawn_file_actions_adddup2(&actions, told.get(), STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::vector<std::string> words = {path};
  words.insert(words.end(), how.arguments.begin(), how.arguments.end());
  std::vector<char*> arguments;
  for (std::string& word : words) {
    arguments.push_back(word.data());
  }
  arguments.push_back(nullptr);
  // No environment: it would name other folders for data, and hold our secrets.
  const std::array<char*, 1> environment = {nullptr};
  pid_t pid = -1;
  const int error =
      posix_spawn(&pid, path.c_str(), &actions, &attributes, arguments.data(), environment.data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    return Error{std::string("it does not start: ") + std::strerror(error)};
  }

  theirs.reset();  // so that a helper that ends at once is an end of file
  told.reset();
  return std::make_shared<Process>(std::move(ours), std::move(heard), pid, how.silence_max);
}

std::string Helper::path_of(const char* program, const char* variable) {
  if (const char* const named = std::getenv(variable); named != nullptr && *named != '\0') {
    return named;
  }
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).replace_filename(program);
}

Helper::Helper(std::string path, std::uint32_t version, Start start)
    : path_(std::move(path)),
      version_(version),
      start_(std::move(start)),
      crashes_(metrics::counter("sandbox_crashes_total",
                                "Requests over which a helper, or its child, has died",
                                {{"helper", std::filesystem::path(path_).filename()}})) {}

Helper::~Helper() = default;

std::optional<pid_t> Helper::process() const {
  const MutexLock lock(mutex_);
  return process_ ? std::optional(process_->pid()) : std::nullopt;
}

Result<std::shared_ptr<Helper::Process>> Helper::start_if_none() {
  const MutexLock lock(mutex_);
  if (process_ && (!process_->ready() || process_->alive())) {
    return process_;
  }
  if (process_) {
    process_.reset();
    note_failure();
  }
  if (next_start_ && !expired(*next_start_)) {
    return Error{"it keeps failing"};
  }
  auto started = Process::start(path_, start_);
  if (started) {
    process_ = *started;
  } else {
    log::error("helper_not_ready", {{"path", path_}, {"why", started.error().message}});
    note_failure();
  }
  return started;
}

Result<Helper::Standing> Helper::standing_of(const std::shared_ptr<Process>& process) {
  const MutexLock lock(mutex_);
  if (process_ != process && process->ready()) {
    return Standing::kReplaced;  // It was, until another call lost it.
  }
  if (process_ != process) {
    return Error{"it does not become ready"};  // another call has said why
  }
  const std::optional<std::string> why =
      process->ready() ? std::nullopt : process->take_hello(version_, start_.time_max);
  if (!why) {
    return process->ready() ? Standing::kReady : Standing::kStarting;
  }
  log::error("helper_not_ready", {{"path", path_}, {"why", *why}});
  process_.reset();
  note_failure();
  if (expired(process->started() + kLongStart)) {
    next_start_ = Clock::now() + kBackoffMax;
  }
  return Error{*why};
}

Helper::Waited Helper::running(Clock::time_point deadline,
                               milliseconds patience,
                               const Cancellation* cancellation) {
  auto started = start_if_none();
  if (!started) {
    return {.why = started.error().message};
  }
  const std::shared_ptr<Process> process = *std::move(started);
  const auto until = process->started() + patience;
  // Whoever waits hears the Hello, and nobody holds the lock meanwhile.
  for (;;) {
    const Result<Standing> standing = standing_of(process);
    if (!standing) {
      return {.why = standing.error().message};
    }
    if (*standing == Standing::kReplaced) {
      return running(deadline, patience, cancellation);
    }
    if (*standing == Standing::kReady) {
      return {.process = process};
    }
    if (cancellation != nullptr && cancellation->canceled()) {
      return {.ending = Ending::kCanceled};
    }
    if (expired(deadline)) {
      return {.ending = Ending::kDeadline};
    }
    if (expired(until)) {
      return {.why = "it is not ready yet"};
    }
    process->wait_for_hello(std::min(deadline, until), cancellation);
  }
}

std::optional<std::string> Helper::prepare() {
  const Waited waited = running(Clock::time_point::max(), start_.time_max, nullptr);
  return waited.process ? std::nullopt : std::optional(waited.why);
}

void Helper::lost(const std::shared_ptr<Process>& process) {
  const MutexLock lock(mutex_);
  if (process_ == process) {
    process_.reset();
    note_failure();
  }
}

void Helper::note_failure() {
  ++failures_;
  log::warn("helper_lost", {{"path", path_}, {"failures", failures_}});
  if (failures_ > kFreeFailures) {
    const int doublings = std::min(failures_ - kFreeFailures - 1, 10);
    next_start_ = Clock::now() + std::min(kBackoffFirst * (1 << doublings), kBackoffMax);
  }
}

Helper::Asked Helper::ask_one(const Request& request,
                              const std::function<void()>& begin,
                              const TakeBlock& take) {
  const Waited waited = running(request.deadline, start_.patience, request.cancellation);
  const std::shared_ptr<Process>& process = waited.process;
  std::array<int, 2> ends{};
  if (!process || pipe2(ends.data(), O_CLOEXEC) != 0) {
    return {.ending = waited.ending};
  }
  const UniqueFd answer(ends[0]);
  UniqueFd theirs(ends[1]);
  std::optional<Ending> ending = process->hand_over(request, theirs.get());
  theirs.reset();
  bool begun = false;
  if (!ending) {
    ending = process->listen(
        answer.get(),
        request,
        [&](std::uint32_t kind, std::string_view payload) {
          if (begun) {
            return take(kind, payload);
          }
          if (kind != kBegun) {
            return Taken::kNonsense;
          }
          begun = true;
          process->note_begun();
          begin();
          return Taken::kMore;
        },
        begun);
  }
  if (ending == Ending::kComplete) {
    const MutexLock lock(mutex_);
    failures_ = 0;
  }
  bool dead = ending == Ending::kUnavailable;
  if (ending == Ending::kCrashed) {
    dead = !process->alive(kDiesTogether);
    if (!dead && !begun) {
      ending = Ending::kUnavailable;  // no process was left for a child
    }
    crashes_.Increment(ending == Ending::kCrashed ? 1 : 0);
  }
  if (dead) {
    lost(process);
  }
  return {.ending = *ending, .begun = begun, .lost = dead};
}

Ending Helper::ask(const Request& request,
                   const std::function<void()>& begin,
                   const TakeBlock& take) {
  const Asked first = ask_one(request, begin, take);
  if (!first.lost) {
    return first.begun || first.ending != Ending::kDeadline ? first.ending : Ending::kUnavailable;
  }
  // A helper that died took its children with it, through no fault of the request: once more.
  const Asked second = ask_one(request, begin, take);
  // That it took too long says nothing either: the first has had of its time.
  const bool late = second.ending == Ending::kDeadline;
  return second.lost || late ? Ending::kUnavailable : second.ending;
}

}  // namespace audiogen::sandbox
