// What the worker and its helper programs say to each other, whatever a helper is for. Both sides
// are built together and run on one machine, so integers are native.
//
// Over a SOCK_SEQPACKET socket (descriptor 3 of the helper): the helper says Hello once, then the
// worker sends one packet per request with descriptors (SCM_RIGHTS): first the write end of a pipe
// for the answer, then what the request brings along. Over that pipe the child made for the request
// says kBegun, before it looks at the request, and answers blocks, of the helper's own kinds. An
// end of file before the last block means that the child crashed or was stopped; before kBegun,
// that there was none. Closing the read end stops the child.
#pragma once

#include <cstddef>
#include <cstdint>

namespace audiogen::sandbox {

inline constexpr int kSocketDescriptor = 3;
inline constexpr std::size_t kPacketMax = 128UL * 1024;  // bytes, a Unix socket takes them at once
inline constexpr std::size_t kDescriptorsMax = 2;        // of a packet

struct Hello {
  std::uint32_t version = 0;  // of the helper's packets and blocks
  std::uint32_t ready = 0;    // 0: what the helper needs does not start
};

struct BlockHeader {
  std::uint32_t kind;
  std::uint32_t size;  // bytes of payload
};
inline constexpr std::size_t kBlockMax = 1024UL * 1024;
// The kind of the first block of each answer, which has no payload; none of a helper's own kinds.
inline constexpr std::uint32_t kBegun = 0;

}  // namespace audiogen::sandbox
