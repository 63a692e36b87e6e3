// What the worker and the speech helper say to each other. Both are built together and run on one
// machine, so integers are native.
//
// Over a SOCK_SEQPACKET socket (descriptor 3 of the helper): the helper says Hello once, then the
// worker sends one packet per request with the write end of a pipe (SCM_RIGHTS). Over that pipe the
// child made for the request answers blocks: kStart, kSamples…, kEnd. An end of file without kEnd
// means that the child crashed or was stopped. Closing the read end stops the child.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace audiogen::speech {

inline constexpr std::uint32_t kProtocolVersion = 1;
inline constexpr int kSocketDescriptor = 3;
inline constexpr std::size_t kPacketMax = 128UL * 1024;  // bytes, a Unix socket takes them at once

// Says that the helper is ready, or with a rate of 0 that the engine does not start.
struct Hello {
  std::uint32_t version = kProtocolVersion;
  std::uint32_t rate = 0;  // Hz
};

// What one child may use.
struct Limits {
  std::uint32_t memory_mib = 256;  // address space
  std::uint32_t cpu_seconds = 10;
  std::uint32_t wall_seconds = 60;
};

// A run of text for one espeak-ng voice.
struct Utterance {
  std::string voice;           // a voice or file name, with +variant
  std::string text;            // UTF-8
  bool kanji_to_kana = false;  // the Japanese voice reads kana only
};

struct Request {
  Limits limits;
  std::uint32_t words_per_minute = 175;  // 80-1000
  std::uint32_t pitch = 50;              // 0-99
  std::uint32_t speak_punctuation = 0;   // 1: names it
  std::uint32_t seconds_max = 0;         // of audio: speech stops there
  std::vector<Utterance> utterances;
};

// A packet of at most kPacketMax bytes, or nullopt when the request does not fit one.
std::optional<std::string> encode(const Request& request);
// The reverse; nullopt for anything that encode() does not write.
std::optional<Request> decode(std::string_view packet);

enum class BlockKind : std::uint32_t {
  kStart = 1,    // payload: the sample rate in Hz, 32 bits
  kSamples = 2,  // payload: 16-bit mono samples
  kEnd = 3,      // payload: an EndReason, 32 bits
};
enum class EndReason : std::uint32_t { kDone = 0, kVoiceMissing = 1, kEngineFailed = 2 };

struct BlockHeader {
  BlockKind kind;
  std::uint32_t size;  // bytes of payload
};
inline constexpr std::size_t kBlockMax = 1024UL * 1024;

}  // namespace audiogen::speech
