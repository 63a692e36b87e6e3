// The helper's side: a small process of one thread that forks a child per request. Forking from it
// costs a millisecond, keeps a crash to its request, and gives every request the same fresh state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace audiogen::sandbox {

// Where a child writes its answer.
inline constexpr int kAnswerDescriptor = 3;

// To be called first: takes away what the worker left open or set, and makes this process end only
// when the worker closes the socket. A signal to the terminal's or the service's whole group must
// not take the helper from jobs that finish.
void settle_in();

// Answers one request; gets what the request brought along besides the pipe. Must not return.
using Child = std::function<void(const std::string& packet, std::span<const int> descriptors)>;

// Says Hello, then runs `child` in a new process for every packet with `descriptors` descriptors
// (the pipe included), until the worker is gone. Returns the process's exit status; at once when
// not `ready`.
int serve(std::uint32_t version, bool ready, std::size_t descriptors, const Child& child);

// In a child: writes one block of the answer. Exits when nobody listens any more.
void write_block(std::uint32_t kind, std::span<const std::byte> payload);
// The same, of a helper's own kinds of block.
template <class Kind>
void write_block(Kind kind, const void* payload, std::size_t size) {
  write_block(static_cast<std::uint32_t>(kind),
              std::span(static_cast<const std::byte*>(payload), size));
}

}  // namespace audiogen::sandbox
