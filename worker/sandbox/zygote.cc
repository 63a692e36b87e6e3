#include "worker/sandbox/zygote.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "worker/sandbox/channel.h"

namespace audiogen::sandbox {
namespace {

void set_signal(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigaction(signal, &action, nullptr);
}

void close_all(std::vector<int>& descriptors) {
  for (const int descriptor : descriptors) {
    close(descriptor);
  }
  descriptors.clear();
}

// In a child. A pipe that nobody reads any more is in error.
void stop_if_nobody_listens(int = 0) {
  const int interrupted = errno;
  pollfd answer{kAnswerDescriptor, 0, 0};
  if (poll(&answer, 1, 0) == 1) {
    _exit(1);
  }
  errno = interrupted;
}

// A child that computes for long writes nothing, and so would get no SIGPIPE: the kernel tells it
// when the reader closes (and when there is room again).
void stop_when_nobody_listens() {
  set_signal(SIGIO, &stop_if_nobody_listens);
  fcntl(kAnswerDescriptor, F_SETOWN, getpid());
  fcntl(kAnswerDescriptor, F_SETFL, fcntl(kAnswerDescriptor, F_GETFL) | O_ASYNC);
  stop_if_nobody_listens();
}

// Receives a packet and its descriptors. Returns its size: 0 when the worker is gone, -1 on
// failure.
ssize_t receive(std::string& packet, std::vector<int>& descriptors) {
  packet.resize(kPacketMax);
  iovec part{packet.data(), packet.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kDescriptorsMax * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t size = recvmsg(kSocketDescriptor, &message, MSG_CMSG_CLOEXEC);
  const cmsghdr* const header = size > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
  if (header != nullptr && header->cmsg_type == SCM_RIGHTS) {
    descriptors.resize((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    std::memcpy(descriptors.data(), CMSG_DATA(header), descriptors.size() * sizeof(int));
  }
  packet.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  return size;
}

}  // namespace

void settle_in() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    set_signal(signal, SIG_IGN);
  }
  set_signal(SIGCHLD, SIG_IGN);  // the kernel reaps
  set_signal(SIGPIPE, SIG_DFL);  // a child stops when nobody listens
  close_range(kSocketDescriptor + 1, ~0U, 0);
  umask(077);
}

int serve(std::uint32_t version, bool ready, std::size_t descriptors, const Child& child) {
  if (ready) {
    // From here on what a library complains of may be a user's text.
    dup2(STDOUT_FILENO, STDERR_FILENO);
  }
  const Hello hello{version, ready ? 1U : 0U};
  if (send(kSocketDescriptor, &hello, sizeof(hello), MSG_NOSIGNAL) != sizeof(hello) || !ready) {
    return 1;
  }
  const pid_t parent = getpid();
  std::string packet;
  std::vector<int> received;
  for (;;) {
    const ssize_t size = receive(packet, received);
    if (size == 0) {
      return 0;
    }
    if (size < 0 && errno != EINTR) {
      return 1;
    }
    if (size > 0 && received.size() == descriptors) {
      const pid_t forked = fork();
      if (forked == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) {
          _exit(1);  // died before the line above
        }
        // In the socket's place: the child must not hear the worker.
        dup2(received.front(), kAnswerDescriptor);
        close(received.front());
        stop_when_nobody_listens();
        write_block(kBegun, {});
        child(packet, std::span(received).subspan(1));
        _exit(1);
      }
      // Where no process or no memory is left for a child nobody begins with the request, and the
      // worker sees an end without a beginning.
    }
    // No child finds in its memory what was asked before it.
    explicit_bzero(packet.data(), packet.size());
    close_all(received);
  }
}

void write_block(std::uint32_t kind, std::span<const std::byte> payload) {
  static std::vector<std::byte> buffer;  // a child has one thread, and the sandbox no writev
  const BlockHeader header{kind, static_cast<std::uint32_t>(payload.size())};
  buffer.resize(sizeof(header) + payload.size());
  std::memcpy(buffer.data(), &header, sizeof(header));
  std::copy(payload.begin(), payload.end(), buffer.begin() + sizeof(header));
  for (std::size_t done = 0; done < buffer.size();) {
    // A write to a closed pipe also kills by SIGPIPE.
    const ssize_t count = write(kAnswerDescriptor, buffer.data() + done, buffer.size() - done);
    if (count < 0 && errno != EINTR) {
      _exit(1);
    }
    done += count > 0 ? static_cast<std::size_t>(count) : 0;
  }
}

}  // namespace audiogen::sandbox
