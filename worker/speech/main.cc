// audio-speech: started by the worker, makes one sandboxed child per request (protocol.h). Forking
// from this small process of one thread costs a millisecond, keeps a crash to its request, and
// gives every request the same fresh engine, so that equal requests give equal sound.
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "worker/speech/engine.h"

namespace audiogen::speech {
namespace {

// The child keeps standard input, output and error (the null device) and this.
constexpr int kOutputDescriptor = 3;

void set_signal(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  sigaction(signal, &action, nullptr);
}

// Receives a packet with one descriptor. Returns its size: 0 when the worker is gone, -1 on
// failure.
ssize_t receive(std::string& packet, int& descriptor) {
  packet.resize(kPacketMax);
  iovec part{packet.data(), packet.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t size = recvmsg(kSocketDescriptor, &message, MSG_CMSG_CLOEXEC);
  descriptor = -1;
  const cmsghdr* const header = size > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
  if (header != nullptr && header->cmsg_type == SCM_RIGHTS) {
    std::memcpy(&descriptor, CMSG_DATA(header), sizeof(descriptor));
  }
  packet.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  return size;
}

int run() {
  // The worker decides when this process ends: it closes the socket after its last job. A signal to
  // the terminal's or the service's whole group must not take the speech from jobs that finish.
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    set_signal(signal, SIG_IGN);
  }
  set_signal(SIGCHLD, SIG_IGN);  // the kernel reaps
  set_signal(SIGPIPE, SIG_DFL);  // a child stops when nobody listens
  close_range(kSocketDescriptor + 1, ~0U, 0);
  umask(077);

  std::string data_folder;
  Hello hello;
  hello.rate = start_engine(data_folder);
  const std::optional<Sandbox> sandbox = Sandbox::prepare({data_folder});
  if (!sandbox) {
    hello.rate = 0;
  }
  const KanaReader kana;
  if (send(kSocketDescriptor, &hello, sizeof(hello), MSG_NOSIGNAL) != sizeof(hello) ||
      hello.rate == 0) {
    return 1;
  }

  const pid_t parent = getpid();
  std::string packet;
  for (;;) {
    int output = -1;
    const ssize_t size = receive(packet, output);
    if (size == 0) {
      return 0;
    }
    if (size < 0) {
      if (errno == EINTR) {
        continue;
      }
      return 1;
    }
    const std::optional<Request> request = decode(packet);
    if (output >= 0 && request && fork() == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) {
        _exit(1);  // died before the line above
      }
      // In the socket's place: the child must not hear the worker.
      dup2(output, kOutputDescriptor);
      close(output);
      speak_and_exit(*request, hello.rate, *sandbox, kana, kOutputDescriptor);
    }
    if (output >= 0) {
      close(output);
    }
  }
}

}  // namespace
}  // namespace audiogen::speech

int main() {
  return audiogen::speech::run();
}
