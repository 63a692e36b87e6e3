#include "worker/providers/speech_helper.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/log.h"

namespace audiogen {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::uint32_t kRateMax = 48000;  // Hz; espeak-ng speaks at 22050
constexpr milliseconds kStartTimeout{5000};
// The first failures cost nothing: a helper killed by hand is back at once.
constexpr int kFreeFailures = 3;
constexpr milliseconds kBackoffFirst{100}, kBackoffMax{10000};

class Descriptor {
 public:
  explicit Descriptor(int value = -1) : value_(value) {}
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  ~Descriptor() { reset(); }
  int get() const { return value_; }
  void reset() {
    if (value_ >= 0) {
      close(std::exchange(value_, -1));
    }
  }

 private:
  int value_;
};

int milliseconds_until(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<long long>(left, 0, 60000));
}

bool expired(Clock::time_point deadline) {
  return Clock::now() >= deadline;
}

// Takes blocks apart as they come (protocol.h). The sender may be under a hostile text's control:
// nothing it sends is believed without a check.
class BlockReader {
 public:
  explicit BlockReader(std::size_t bytes_max) : bytes_max_(bytes_max) {}

  // False when this is no answer to the request.
  bool feed(std::string_view data) {
    buffer_.append(data);
    std::string_view rest = buffer_;
    while (rest.size() >= sizeof(speech::BlockHeader)) {
      speech::BlockHeader header{};
      std::memcpy(&header, rest.data(), sizeof(header));
      if (header.size > speech::kBlockMax || end_) {
        return false;
      }
      if (rest.size() < sizeof(header) + header.size) {
        break;
      }
      if (!take(header.kind, rest.substr(sizeof(header), header.size))) {
        return false;
      }
      rest.remove_prefix(sizeof(header) + header.size);
    }
    buffer_.erase(0, buffer_.size() - rest.size());
    return true;
  }

  std::optional<speech::EndReason> end() const { return end_; }
  Speech take_speech() { return std::move(speech_); }

 private:
  bool take(speech::BlockKind kind, std::string_view payload) {
    std::uint32_t value = 0;
    switch (kind) {
      case speech::BlockKind::kStart:
        if (payload.size() != sizeof(value)) {
          return false;
        }
        std::memcpy(&value, payload.data(), sizeof(value));
        speech_.rate = static_cast<int>(std::min(value, kRateMax));
        return true;
      case speech::BlockKind::kSamples:
        speech_.samples.append(payload);
        return payload.size() % 2 == 0 && speech_.samples.size() <= bytes_max_;
      case speech::BlockKind::kEnd:
        if (payload.size() != sizeof(value)) {
          return false;
        }
        std::memcpy(&value, payload.data(), sizeof(value));
        end_ = static_cast<speech::EndReason>(value);
        return speech_.rate > 0;
    }
    return false;
  }

  const std::size_t bytes_max_;
  std::string buffer_;
  Speech speech_;
  std::optional<speech::EndReason> end_;
};

// Reads the answer to its end. Nullopt when it is complete.
std::optional<SpeechFault> listen(int answer,
                                  BlockReader& reader,
                                  Clock::time_point deadline,
                                  const Cancellation& cancellation) {
  std::vector<char> buffer(64UL * 1024);
  while (!reader.end()) {
    if (cancellation.canceled()) {
      return SpeechFault::kCanceled;
    }
    if (expired(deadline)) {
      return SpeechFault::kDeadline;
    }
    std::array<pollfd, 2> waits{pollfd{answer, POLLIN, 0},
                                pollfd{cancellation.descriptor(), POLLIN, 0}};
    poll(waits.data(), waits.size(), milliseconds_until(deadline));
    if (waits[0].revents == 0) {
      continue;
    }
    const ssize_t size = read(answer, buffer.data(), buffer.size());
    if (size < 0 && errno == EINTR) {
      continue;
    }
    if (size <= 0 || !reader.feed({buffer.data(), static_cast<std::size_t>(size)})) {
      return SpeechFault::kCrashed;
    }
  }
  switch (*reader.end()) {
    case speech::EndReason::kDone:
      return std::nullopt;
    case speech::EndReason::kVoiceMissing:
      return SpeechFault::kVoiceMissing;
    case speech::EndReason::kEngineFailed:
      break;
  }
  return SpeechFault::kCrashed;
}

}  // namespace

Cancellation::Cancellation() : descriptor_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

Cancellation::~Cancellation() {
  if (descriptor_ >= 0) {
    close(descriptor_);
  }
}

void Cancellation::cancel() {
  canceled_ = true;
  const std::uint64_t one = 1;
  // Fails only when the counter is full: then it is readable already.
  [[maybe_unused]] const ssize_t written = write(descriptor_, &one, sizeof(one));
}

// A running helper: its socket and process.
class SpeechHelper::Process {
 public:
  // Null when it does not start or does not say that it is ready.
  static std::shared_ptr<Process> start(const std::string& path);

  Process(Descriptor socket, pid_t pid) : socket_(std::move(socket)), pid_(pid) {}
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  // Closing the socket is what ends it; the signal is for one that hangs.
  ~Process() {
    socket_.reset();
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  pid_t pid() const { return pid_; }

  // Waits for the helper's Hello.
  bool greeted() const {
    pollfd socket{socket_.get(), POLLIN, 0};
    speech::Hello hello;
    return poll(&socket, 1, static_cast<int>(kStartTimeout.count())) == 1 &&
           recv(socket_.get(), &hello, sizeof(hello), 0) == sizeof(hello) &&
           hello.version == speech::kProtocolVersion && hello.rate > 0;
  }

  // Sends a request with the end of the pipe to answer on.
  bool send(const std::string& packet, int answer) const {
    iovec part{const_cast<char*>(packet.data()), packet.size()};  // only read
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &answer, sizeof(answer));
    return sendmsg(socket_.get(), &message, MSG_NOSIGNAL) == static_cast<ssize_t>(packet.size());
  }

  // The kernel closes a process's descriptors before it kills its children, so a child that died
  // with its parent finds this false.
  bool alive() const {
    pollfd socket{socket_.get(), POLLIN, 0};
    return poll(&socket, 1, 0) == 0;
  }

 private:
  Descriptor socket_;
  pid_t pid_;
};

std::shared_ptr<SpeechHelper::Process> SpeechHelper::Process::start(const std::string& path) {
  std::array<int, 2> pair{};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair.data()) != 0) {
    return nullptr;
  }
  Descriptor ours(pair[0]);
  Descriptor theirs(pair[1]);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, theirs.get(), speech::kSocketDescriptor);
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    posix_spawn_file_actions_addopen(&actions, standard, "/dev/null", O_RDWR, 0);
  }
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::string program = path;
  const std::array<char*, 2> arguments = {program.data(), nullptr};
  // No environment: it would name other folders for the engine's data, and hold our secrets.
  const std::array<char*, 1> environment = {nullptr};
  pid_t pid = -1;
  const int error =
      posix_spawn(&pid, path.c_str(), &actions, &attributes, arguments.data(), environment.data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    log::error("speech_helper_not_started", {{"path", path}, {"error", std::strerror(error)}});
    return nullptr;
  }

  theirs.reset();  // so that a helper that ends at once is an end of file
  const auto process = std::make_shared<Process>(std::move(ours), pid);
  if (!process->greeted()) {
    log::error("speech_helper_not_ready", {{"path", path}});
    return nullptr;
  }
  return process;
}

std::string SpeechHelper::default_path() {
  if (const char* const named = std::getenv("SPEECH_HELPER"); named != nullptr && *named != '\0') {
    return named;
  }
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).replace_filename("audio-speech");
}

SpeechHelper::SpeechHelper(std::string path) : path_(std::move(path)) {}

SpeechHelper::~SpeechHelper() = default;

std::optional<pid_t> SpeechHelper::process() const {
  const std::lock_guard lock(mutex_);
  return process_ ? std::optional(process_->pid()) : std::nullopt;
}

std::shared_ptr<SpeechHelper::Process> SpeechHelper::running() {
  const std::lock_guard lock(mutex_);
  if (process_ && process_->alive()) {
    return process_;
  }
  if (process_) {
    process_.reset();
    note_failure();
  }
  if (expired(next_start_)) {
    process_ = Process::start(path_);
    if (!process_) {
      note_failure();
    }
  }
  return process_;
}

void SpeechHelper::lost(const std::shared_ptr<Process>& process) {
  const std::lock_guard lock(mutex_);
  if (process_ == process) {
    process_.reset();
    note_failure();
  }
}

void SpeechHelper::note_failure() {
  ++failures_;
  log::warn("speech_helper_lost", {{"failures", failures_}});
  if (failures_ > kFreeFailures) {
    const int doublings = std::min(failures_ - kFreeFailures - 1, 10);
    next_start_ = Clock::now() + std::min(kBackoffFirst * (1 << doublings), kBackoffMax);
  }
}

Result<Speech, SpeechFault> SpeechHelper::speak(const speech::Request& request,
                                                Clock::time_point deadline,
                                                const Cancellation& cancellation) {
  const std::optional<std::string> packet = speech::encode(request);
  if (!packet) {
    return SpeechFault::kCrashed;  // no engine takes so much at once
  }
  // A helper that died takes its children with it, through no fault of the text: once more.
  for (int attempt = 0; attempt < 2; ++attempt) {
    const std::shared_ptr<Process> process = running();
    if (!process) {
      return SpeechFault::kUnavailable;
    }
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) {
      return SpeechFault::kUnavailable;
    }
    const Descriptor answer(ends[0]);
    Descriptor theirs(ends[1]);
    const bool sent = process->send(*packet, theirs.get());
    theirs.reset();
    if (sent) {
      BlockReader reader(std::size_t{request.seconds_max} * kRateMax * sizeof(std::int16_t));
      const std::optional<SpeechFault> fault = listen(answer.get(), reader, deadline, cancellation);
      if (!fault) {
        const std::lock_guard lock(mutex_);
        failures_ = 0;
        return reader.take_speech();
      }
      if (*fault != SpeechFault::kCrashed || process->alive()) {
        return *fault;
      }
    }
    lost(process);
  }
  return SpeechFault::kUnavailable;
}

}  // namespace audiogen
