// What the worker and a helper program say to each other, whatever the helper does. Both are built
// together and run on one machine, so integers are native.
//
// Over a SOCK_SEQPACKET socket (descriptor 3 of the helper): the helper says Hello once, then the
// worker sends one packet per request, with descriptors (SCM_RIGHTS) of which the first is the
// write end of a pipe. Over that pipe the child made for the request answers blocks. An end of file
// before the last block means that the child crashed or was stopped. Closing the read end stops the
// child.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

namespace audiogen::sandbox {

inline constexpr int kSocketDescriptor = 3;
inline constexpr std::size_t kPacketMax = 128UL * 1024;  // bytes, a Unix socket takes them at once
inline constexpr std::size_t kDescriptorsMax = 2;        // of one packet

struct Hello {
  std::uint32_t version = 0;  // of the program's own protocol
  std::uint32_t ready = 0;    // 0: what the helper is for does not start
};

struct BlockHeader {
  std::uint32_t kind;  // the program's own protocol says which there are
  std::uint32_t size;  // bytes of payload
};
inline constexpr std::size_t kBlockMax = 1024UL * 1024;

// Appends the bytes of `value`.
template <class T>
void put(std::string& out, const T& value) {
  static_assert(std::is_trivially_copyable_v<T> && std::has_unique_object_representations_v<T>);
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// Takes `value` off the front of `in`; false when there is too little.
template <class T>
bool take(std::string_view& in, T& value) {
  static_assert(std::is_trivially_copyable_v<T> && std::has_unique_object_representations_v<T>);
  if (in.size() < sizeof(value)) {
    return false;
  }
  std::memcpy(&value, in.data(), sizeof(value));
  in.remove_prefix(sizeof(value));
  return true;
}

}  // namespace audiogen::sandbox
