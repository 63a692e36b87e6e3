// What the worker and the model helper say to each other: how it is started, and over
// worker/sandbox/channel.h. A packet is one Request; its answer is blocks: kStart, kSamples…, kEnd.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "worker/sandbox/channel.h"
#include "worker/sandbox/sandbox.h"

namespace audiogen::onnx {

inline constexpr std::uint32_t kProtocolVersion = 3;

// The library of the runtime, in its folder, and the only version whose interface is the one that
// we know (sherpa.h).
inline constexpr const char* kRuntimeLibrary = "libsherpa-onnx-c-api.so";
inline constexpr std::string_view kRuntimeVersion = "1.13.8";

inline constexpr std::array<std::string_view, 3> kFamilies = {"vits", "kokoro", "kitten"};

// Hundreds of megabytes from a disk, and the graph made ready for this processor.
inline constexpr std::chrono::seconds kLoadMax{60};

// What one helper has loaded as long as it lives.
struct Model {
  std::string runtime;  // the folder of kRuntimeLibrary
  std::string family;   // one of kFamilies
  std::string folder;   // where all of it lies, and all that is read
  // Paths; "" without.
  std::string file, tokens, voices, data;
  std::string lexicon, rules;  // several: with commas between them
  std::string language;        // of Kokoro
  std::string last_speaker;    // the highest number of a speaker that it must have
};

// Of the helper's command line; and the reverse, nullopt for anything else.
std::vector<std::string> arguments_of(const Model& model);
std::optional<Model> model_of(std::span<const char* const> arguments);

struct Request {
  sandbox::Limits limits;  // the memory beside the model's own
  std::uint32_t speaker = 0;
  std::uint32_t speed_permille = 1000;
  std::uint32_t seconds_max = 0;  // of audio: speech stops there
  std::string text;               // UTF-8
};

// A packet of at most sandbox::kPacketMax bytes, or nullopt when the request does not fit one.
std::optional<std::string> encode(const Request& request);
// The reverse; nullopt for anything that encode() does not write.
std::optional<Request> decode(std::string_view packet);

inline constexpr std::uint32_t kRateMin = 8000, kRateMax = 96000;  // Hz: what the pipeline takes

enum class BlockKind : std::uint32_t {
  kStart = 1,    // payload: the sample rate in Hz, 32 bits
  kSamples = 2,  // payload: 16-bit mono samples
  kEnd = 3,      // payload: an EndReason, 32 bits
};
enum class EndReason : std::uint32_t {
  kDone = 0,
  kNothing = 1,  // the text has nothing that the model knows
};

}  // namespace audiogen::onnx
