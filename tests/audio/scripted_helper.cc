// A decoder helper whose children do as the file that they are given says, a line each:
//   once PATH     goes on if nobody has made PATH yet, else behind the line "then"
//   start HZ, samples COUNT, end EXACT   blocks of the answer
//   wait FIFO     until somebody has opened it to write, and closed it
//   flood         blocks without an end
//   die           with the helper
// Given a FIFO it takes up a request, and says no more of it than that, whenever somebody has
// opened that to write; a second one with the same takes up what there is.
#include <array>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "worker/decode/protocol.h"
#include "worker/sandbox/channel.h"
#include "worker/sandbox/zygote.h"

namespace audiogen::decode {
namespace {

void say(BlockKind kind, std::string_view payload) {
  sandbox::write_block(kind, payload.data(), payload.size());
}

// Returns once somebody who has opened it to write has closed it.
void wait_for(const std::string& fifo) {
  const int file = open(fifo.c_str(), O_RDONLY | O_CLOEXEC);
  char byte = 0;
  while (file >= 0 && read(file, &byte, 1) > 0) {
  }
  close(file);
}

bool is_first(const std::string& path) {
  return close(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)) == 0;
}

std::string text_of(int file) {
  std::array<char, 4096> text{};
  const ssize_t size = pread(file, text.data(), text.size(), 0);  // Of retries it is the same one.
  return {text.data(), static_cast<std::size_t>(size < 0 ? 0 : size)};
}

void play(const std::string& script) {
  std::istringstream lines(script);
  std::string word, argument;
  while (lines >> word) {
    if (word == "once" && lines >> argument && !is_first(argument)) {
      while (lines >> word && word != "then") {
      }
    } else if (word == "wait" && lines >> argument) {
      wait_for(argument);
    } else if (word == "start" && lines >> argument) {
      say(BlockKind::kStart, bytes_of(static_cast<std::uint32_t>(std::stoul(argument))));
    } else if (word == "samples" && lines >> argument) {
      const std::vector<float> samples(std::stoul(argument), 0.25F);
      say(BlockKind::kSamples,
          {reinterpret_cast<const char*>(samples.data()), samples.size() * sizeof(float)});
    } else if (word == "end" && lines >> argument) {
      say(BlockKind::kSound,
          bytes_of(Sound{static_cast<std::uint32_t>(std::stoul(argument)), 1, 8000, 1}));
    } else if (word == "die") {
      kill(getppid(), SIGKILL);
      for (;;) {
        pause();  // It takes its children with it. Other signals tell of the pipe.
      }
    }
    while (word == "flood") {
      say(BlockKind::kSamples, std::string(4096, '\0'));
    }
  }
}

int take_up_when_told(const std::string& gate) {
  const bool waits = is_first(gate + ".first");
  const sandbox::Hello hello{kProtocolVersion, 1};
  if (send(sandbox::kSocketDescriptor, &hello, sizeof(hello), MSG_NOSIGNAL) != sizeof(hello)) {
    return 1;
  }
  for (;;) {
    if (waits) {
      wait_for(gate);
    }
    std::array<char, sandbox::kPacketMax> packet{};
    iovec part{packet.data(), packet.size()};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sandbox::kDescriptorsMax * sizeof(int))> control{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    if (recvmsg(sandbox::kSocketDescriptor, &message, MSG_CMSG_CLOEXEC) <= 0) {
      return 0;
    }
    std::array<int, sandbox::kDescriptorsMax> descriptors{-1, -1};
    if (const cmsghdr* const header = CMSG_FIRSTHDR(&message); header != nullptr) {
      std::memcpy(descriptors.data(), CMSG_DATA(header), header->cmsg_len - CMSG_LEN(0));
    }
    const sandbox::BlockHeader begun{sandbox::kBegun, 0};
    [[maybe_unused]] const ssize_t written = write(descriptors.front(), &begun, sizeof(begun));
    for (const int descriptor : descriptors) {
      close(descriptor);
    }
  }
}

}  // namespace
}  // namespace audiogen::decode

int main(int argc, char** argv) {
  using namespace audiogen;
  sandbox::settle_in();
  if (argc > 1) {
    return decode::take_up_when_told(argv[1]);
  }
  return sandbox::serve(
      decode::kProtocolVersion, true, 2, [](const std::string&, std::span<const int> files) {
        decode::play(decode::text_of(files.front()));
      });
}
