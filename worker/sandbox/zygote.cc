#include "worker/sandbox/zygote.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>
#include <vector>

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

namespace audiogen::sandbox {
namespace {

void set_signal(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  sigaction(signal, &action, nullptr);
}

// Receives a packet with descriptors. Returns its size: 0 when the worker is gone, -1 on failure.
ssize_t receive(std::string& packet, std::vector<int>& descriptors) {
  packet.resize(kPacketMax);
  descriptors.clear();
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

[[noreturn]] void handle_in_child(pid_t parent,
                                  const Handler& handler,
                                  std::string_view packet,
                                  std::vector<int>& descriptors) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) {
    _exit(1);  // died before the line above
  }
  // In the socket's place: the child must not hear the worker.
  dup2(descriptors[0], kSocketDescriptor);
  close(descriptors[0]);
  descriptors[0] = kSocketDescriptor;
  handler(packet, descriptors);
  _exit(0);
}

void write_all(int descriptor, const char* data, std::size_t size) {
  while (size > 0) {
    const ssize_t count = write(descriptor, data, size);
    if (count < 0 && errno != EINTR) {
      _exit(1);  // a closed pipe has killed by SIGPIPE already
    }
    const std::size_t done = count > 0 ? static_cast<std::size_t>(count) : 0;
    data += done;
    size -= done;
  }
}

}  // namespace

int run_zygote(std::uint32_t version, const std::function<Handler()>& start) {
  // The worker decides when this process ends: it closes the socket after its last job. A signal to
  // the terminal's or the service's whole group must not take the helper from jobs that finish.
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    set_signal(signal, SIG_IGN);
  }
  set_signal(SIGCHLD, SIG_IGN);  // the kernel reaps
  set_signal(SIGPIPE, SIG_DFL);  // a child stops when nobody listens
  close_range(kSocketDescriptor + 1, ~0U, 0);
  umask(077);

  const Handler handler = start();
  const Hello hello{version, handler ? 1U : 0U};
  if (send(kSocketDescriptor, &hello, sizeof(hello), MSG_NOSIGNAL) != sizeof(hello) || !handler) {
    return 1;
  }
  const pid_t parent = getpid();
  std::string packet;
  std::vector<int> descriptors;
  for (;;) {
    const ssize_t size = receive(packet, descriptors);
    if (size == 0) {
      return 0;
    }
    if (size < 0) {
      if (errno == EINTR) {
        continue;
      }
      return 1;
    }
    if (!descriptors.empty() && fork() == 0) {
      handle_in_child(parent, handler, packet, descriptors);
    }
    std::for_each(descriptors.begin(), descriptors.end(), close);
  }
}

void write_block(int descriptor, std::uint32_t kind, std::string_view payload) {
  const BlockHeader header{kind, static_cast<std::uint32_t>(payload.size())};
  write_all(descriptor, reinterpret_cast<const char*>(&header), sizeof(header));
  write_all(descriptor, payload.data(), payload.size());
}

}  // namespace audiogen::sandbox
