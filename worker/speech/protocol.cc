// SPDX-License-Identifier: Apache-2.0

#include "worker/speech/protocol.h"

#include <cstring>
#include <type_traits>

namespace audiogen::speech {
namespace {

struct RequestHeader {
  std::uint32_t version;
  sandbox::Limits limits;
  std::uint32_t words_per_minute, speak_punctuation, seconds_max, utterances;
};

struct UtteranceHeader {
  std::uint32_t voice_size, text_size, kanji_to_kana, engine;
  std::int32_t pitch;
  std::uint32_t breath_permille;
};

template <class T>
void put(std::string& out, const T& value) {
  static_assert(std::is_trivially_copyable_v<T> && std::has_unique_object_representations_v<T>);
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

template <class T>
bool take(std::string_view& in, T& value) {
  if (in.size() < sizeof(value)) {
    return false;
  }
  std::memcpy(&value, in.data(), sizeof(value));
  in.remove_prefix(sizeof(value));
  return true;
}

bool take(std::string_view& in, std::size_t size, std::string& value) {
  if (in.size() < size) {
    return false;
  }
  value.assign(in.substr(0, size));
  in.remove_prefix(size);
  return true;
}

}  // namespace

std::optional<std::string> encode(const Request& request) {
  std::string out;
  put(out,
      RequestHeader{kProtocolVersion,
                    request.limits,
                    request.words_per_minute,
                    request.speak_punctuation,
                    request.seconds_max,
                    static_cast<std::uint32_t>(request.utterances.size())});
  for (const Utterance& utterance : request.utterances) {
    put(out,
        UtteranceHeader{static_cast<std::uint32_t>(utterance.voice.size()),
                        static_cast<std::uint32_t>(utterance.text.size()),
                        utterance.kanji_to_kana ? 1U : 0U,
                        static_cast<std::uint32_t>(utterance.engine),
                        utterance.pitch,
                        utterance.breath_permille});
    out += utterance.voice;
    out += utterance.text;
    if (out.size() > sandbox::kPacketMax) {
      return std::nullopt;
    }
  }
  return out;
}

std::optional<Request> decode(std::string_view packet) {
  RequestHeader header{};
  if (!take(packet, header) || header.version != kProtocolVersion) {
    return std::nullopt;
  }
  Request request{
      header.limits, header.words_per_minute, header.speak_punctuation, header.seconds_max, {}};
  for (std::uint32_t i = 0; i < header.utterances; ++i) {
    UtteranceHeader sizes{};
    Utterance utterance;
    if (!take(packet, sizes) || sizes.engine > static_cast<std::uint32_t>(Engine::kFlite) ||
        !take(packet, sizes.voice_size, utterance.voice) ||
        !take(packet, sizes.text_size, utterance.text)) {
      return std::nullopt;
    }
    utterance.kanji_to_kana = sizes.kanji_to_kana != 0;
    utterance.engine = static_cast<Engine>(sizes.engine);
    utterance.pitch = sizes.pitch;
    utterance.breath_permille = sizes.breath_permille;
    request.utterances.push_back(std::move(utterance));
  }
  if (!packet.empty()) {
    return std::nullopt;
  }
  return request;
}

}  // namespace audiogen::speech
