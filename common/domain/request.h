// What a client asks for: reading it from JSON, its rules, its canonical form. schema/openapi.json
// publishes the rules as GenerationRequest.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/crypto.h"
#include "common/base/result.h"
#include "common/domain/pricing.h"

namespace audiogen {

enum class OutputFormat : std::uint8_t { kMp3 = 1, kWav = 2, kPcm = 3, kOggOpus = 4 };

// The name in the interface: mp3, wav, pcm, ogg_opus.
std::string_view format_name(OutputFormat format);
std::optional<OutputFormat> parse_format(std::string_view name);

inline constexpr std::array<OutputFormat, 4> kOutputFormats = {
    OutputFormat::kMp3, OutputFormat::kWav, OutputFormat::kPcm, OutputFormat::kOggOpus};

// The limits of a request.
inline constexpr std::size_t kPromptMax = 2048;  // code points
inline constexpr std::size_t kAudioReferencesMax = 3;
inline constexpr std::size_t kUrlMax = 2048;  // bytes
inline constexpr std::size_t kIdempotencyKeyMax = 128;
inline constexpr std::size_t kMetadataMax = 16;                              // pairs
inline constexpr std::size_t kMetadataNameMax = 40, kMetadataTextMax = 500;  // code points
inline constexpr std::array<int, 6> kSampleRates = {8000, 16000, 24000, 32000, 44100, 48000};  // Hz

// Both ends are allowed.
struct Range {
  double low, high;
};
inline constexpr Range kSpeedRange{0.5, 2.0};     // times the normal speed
inline constexpr Range kVolumeRange{0.5, 2.0};    // times the normal amplitude
inline constexpr Range kPitchRange{-12.0, 12.0};  // semitones

// The client's own notes: at most kMetadataMax pairs of valid UTF-8 without control characters but
// tab and line breaks, and without those in names, which are not empty.
using Metadata = std::map<std::string, std::string>;

// Appends the pairs as a JSON object, in the order of their names.
void append_metadata(std::string& out, const Metadata& metadata);

// A request that obeys every rule, with defaults filled in.
struct GenerationRequest {
  std::string prompt;                         // 1-2048 code points of valid UTF-8 without U+0000
  std::optional<std::string> voice;           // one of voices.h
  std::vector<std::string> audio_references;  // at most 3; never together with image_url
  std::optional<std::string> image_url;
  OutputFormat output_format = OutputFormat::kMp3;
  int sample_rate = 24000;
  double speed = 1.0;
  double volume = 1.0;
  double pitch = 0.0;
  Metadata metadata;
  // The charge is never more: audio is cut at longest_ms(). From kChargeMin to kHoldAmount.
  Units max_credits = kHoldAmount;
  friend bool operator==(const GenerationRequest&, const GenerationRequest&) = default;
};

// Which addresses pass: public ones, or any http(s) address (tests only).
struct RequestRules {
  std::string model_name;  // "svc-audio-1.0"
  bool any_url = false;
};

// Why a body is refused: a sentence for the client, and the member at fault, as the client has to
// look for it ("audio_references[1]", "metadata.order"); empty when it is the body as a whole.
struct RequestFault {
  std::string message;
  std::string param;
};

// Reads and validates a request body. The error's message is one sentence for the client that names
// the member and the rule: the first one broken in the order of the text, then missing members,
// then members that exclude each other. Never quotes a value. Pure; no I/O.
Result<GenerationRequest, RequestFault> parse_request(std::string_view body,
                                                      const RequestRules& rules);

// The canonical JSON of a valid request: fixed member order, shortest numbers, defaults filled in,
// absent members left out. So are metadata without pairs and max_credits at its most: what says
// nothing of either has the form, and the fingerprint, that it had before there were any. Stored
// with the task. decode_request reads back exactly that and nothing else; it does not judge
// addresses again.
std::string encode_request(const GenerationRequest& request);
Result<GenerationRequest> decode_request(std::string_view json);

// SHA-256 over a version mark and the canonical form: what "the same request" means for an
// Idempotency-Key. Not over the client's bytes: member order, white space and the spelling of
// numbers change when another program sends the same request again.
Sha256 fingerprint(std::string_view canonical);

// 1-128 visible ASCII characters. A value quoted as a structured-field string (RFC 8941 section
// 3.3.3, as the IETF httpapi draft writes this header) is the same key as the bare one. Nullopt
// when it breaks the rule.
std::optional<std::string> parse_idempotency_key(std::string_view header);

}  // namespace audiogen
