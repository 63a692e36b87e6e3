// SPDX-License-Identifier: Apache-2.0
//
// What the worker and the speech helper say to each other, over worker/sandbox/channel.h. A packet
// is one Request; its answer is blocks: kStart, kSamples…, again from each change of rate on, kEnd.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "worker/sandbox/channel.h"
#include "worker/sandbox/sandbox.h"

namespace audiogen::speech {

inline constexpr std::uint32_t kProtocolVersion = 3;

enum class Engine : std::uint32_t { kEspeak = 0, kFlite = 1 };

// A run of text for one voice of one engine.
struct Utterance {
  std::string voice;           // espeak-ng: a voice or file name, with +variant; flite: "slt", …
  std::string text;            // UTF-8; flite knows ASCII alone
  bool kanji_to_kana = false;  // the Japanese voice reads kana only
  Engine engine = Engine::kEspeak;
  std::int32_t pitch = 50;            // espeak-ng: 0-99; flite: cents from the voice's own
  std::uint32_t breath_permille = 0;  // flite: how much of its tone gives way to noise
};

// The normal speed of both engines.
inline constexpr std::uint32_t kWordsPerMinute = 175;

struct Request {
  sandbox::Limits limits;
  std::uint32_t words_per_minute = kWordsPerMinute;  // 80-1000
  std::uint32_t speak_punctuation = 0;               // 1: espeak-ng names it
  std::uint32_t seconds_max = 0;                     // of audio: speech stops there
  std::vector<Utterance> utterances;
};

// A packet of at most sandbox::kPacketMax bytes, or nullopt when the request does not fit one.
std::optional<std::string> encode(const Request& request);
// The reverse; nullopt for anything that encode() does not write.
std::optional<Request> decode(std::string_view packet);

enum class BlockKind : std::uint32_t {
  kStart = 1,    // payload: the sample rate in Hz of what follows, 32 bits
  kSamples = 2,  // payload: 16-bit mono samples
  kEnd = 3,      // payload: an EndReason, 32 bits
};
enum class EndReason : std::uint32_t { kDone = 0, kVoiceMissing = 1, kEngineFailed = 2 };

}  // namespace audiogen::speech
