#include "common/domain/request.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include <rapidjson/reader.h>

#include "common/base/ascii.h"
#include "common/base/check.h"
#include "common/base/json.h"
#include "common/base/utf8.h"
#include "common/domain/api_error.h"
#include "common/domain/json_body.h"
#include "common/domain/public_url.h"
#include "common/domain/voices.h"

namespace audiogen {
namespace {

constexpr std::array<std::string_view, 4> kFormatNames = {"mp3", "wav", "pcm", "ogg_opus"};

// ---- Members ----

enum class RequestMember : std::uint8_t {
  kModel,
  kPrompt,
  kVoice,
  kAudioReferences,
  kImageUrl,
  kOutputFormat,
  kSampleRate,
  kSpeed,
  kVolume,
  kPitch,
  kMetadata,
  kMaxCredits,
};

struct MemberRow {
  std::string_view name;
  std::string_view type;
};

// In the order of RequestMember.
constexpr std::array<MemberRow, 12> kMembers = {
    MemberRow{"model", "a string"},
    MemberRow{"prompt", "a string"},
    MemberRow{"voice", "a string"},
    MemberRow{"audio_references", "an array of strings"},
    MemberRow{"image_url", "a string"},
    MemberRow{"output_format", "a string"},
    MemberRow{"sample_rate", "an integer"},
    MemberRow{"speed", "a number"},
    MemberRow{"volume", "a number"},
    MemberRow{"pitch", "a number"},
    MemberRow{"metadata", "an object of strings"},
    MemberRow{"max_credits", "a number"}};

const MemberRow& row(RequestMember member) {
  return kMembers[static_cast<std::size_t>(member)];
}

std::optional<RequestMember> find_member(std::string_view name) {
  const auto found = std::find_if(
      kMembers.begin(), kMembers.end(), [&](const MemberRow& r) { return r.name == name; });
  if (found == kMembers.end()) {
    return std::nullopt;
  }
  return static_cast<RequestMember>(found - kMembers.begin());
}

// A client's own text inside a message: cut, and nothing a terminal or a log could act on.
std::string shown(std::string_view text) {
  constexpr std::size_t kShownMax = 64;
  std::string out = "\"";
  for (const char c : text.substr(0, kShownMax)) {
    out += c >= ' ' && c <= '~' && c != '"' && c != '\\' ? c : '?';
  }
  return out + (text.size() > kShownMax ? "...\"" : "\"");
}

std::string number_text(double value) {
  std::array<char, 32> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  return {buffer.data(), end};
}

template <class T, std::size_t kSize>
std::string joined(const std::array<T, kSize>& values) {
  std::string out;
  for (const T& value : values) {
    out += out.empty() ? "" : ", ";
    if constexpr (std::is_arithmetic_v<T>) {
      out += std::to_string(value);
    } else {
      out += value;
    }
  }
  return out;
}

// ---- Reader: RapidJSON's events to a request; the first refusal stops it ----

class RequestReader {
 public:
  // Without rules it reads the canonical form: no model, addresses as they are.
  explicit RequestReader(const RequestRules* rules) : rules_(rules) {}

  // The names are RapidJSON's.
  bool Null() { return wrong_type("null"); }
  bool Bool(bool /*value*/) { return wrong_type("a boolean"); }
  bool RawNumber(const char* text, rapidjson::SizeType length, bool /*copy*/) {
    return number({text, length});
  }
  bool String(const char* text, rapidjson::SizeType length, bool /*copy*/) {
    return string({text, length});
  }
  bool Key(const char* text, rapidjson::SizeType length, bool /*copy*/) {
    return key({text, length});
  }
  bool StartObject() {
    if (place_ == Place::kBody) {
      place_ = Place::kObject;
    } else if (place_ == Place::kObject && member_ == RequestMember::kMetadata) {
      place_ = Place::kMetadata;
    } else {
      return wrong_type("an object");
    }
    return true;
  }
  bool EndObject(rapidjson::SizeType /*members*/) {
    place_ = Place::kObject;
    return true;
  }
  bool StartArray() {
    if (place_ != Place::kObject || member_ != RequestMember::kAudioReferences) {
      return wrong_type("an array");
    }
    place_ = Place::kReferences;
    return true;
  }
  bool EndArray(rapidjson::SizeType /*items*/) {
    place_ = Place::kObject;
    return true;
  }
  // Never called: numbers come as text, so that none is rounded or too large for the parser.
  bool Int(int /*value*/) { return false; }
  bool Uint(unsigned /*value*/) { return false; }
  bool Int64(std::int64_t /*value*/) { return false; }
  bool Uint64(std::uint64_t /*value*/) { return false; }
  bool Double(double /*value*/) { return false; }

  // The rules between members, once the text has ended.
  bool finish() {
    if (rules_ != nullptr && !seen(RequestMember::kModel)) {
      return refuse("model is required.", "model");
    }
    if (!seen(RequestMember::kPrompt)) {
      return refuse("prompt is required.", "prompt");
    }
    if (request_.image_url && !request_.audio_references.empty()) {
      return refuse("image_url and audio_references cannot be used together.", "image_url");
    }
    return true;
  }

  // A number RapidJSON itself gives up on; otherwise the text is no JSON.
  void malformed(rapidjson::ParseErrorCode code, std::size_t offset) {
    if (code == rapidjson::kParseErrorDocumentEmpty) {
      wrong_type("nothing");
    } else if (code == rapidjson::kParseErrorNumberTooBig) {
      number("1e999");
    } else if (code == rapidjson::kParseErrorStringUnicodeSurrogateInvalid) {
      refuse("The body must not contain lone surrogates.");
    } else {
      refuse("The body is not valid JSON (byte " + std::to_string(offset) + ").");
    }
  }

  GenerationRequest& request() { return request_; }
  RequestFault& fault() { return fault_; }

 private:
  enum class Place : std::uint8_t { kBody, kObject, kReferences, kMetadata };

  bool refuse(std::string message, std::string_view param = {}) {
    fault_ = {std::move(message), std::string(param)};
    return false;
  }

  // The member at hand, or its item.
  std::string name() const {
    std::string out(row(member_).name);
    if (place_ == Place::kReferences) {
      out += "[" + std::to_string(request_.audio_references.size()) + "]";
    } else if (place_ == Place::kMetadata) {
      // The name is the client's: shown when there is nothing in it to act on.
      const bool plain = std::all_of(note_.begin(), note_.end(), [](char c) {
        return ascii::is_alnum(c) || c == '_' || c == '-' || c == '.';
      });
      out += plain && !note_.empty() ? "." + note_
                                     : "[" + std::to_string(request_.metadata.size()) + "]";
    }
    return out;
  }

  bool broken(std::string_view rule) {
    const std::string param = name();
    return refuse(param + " " + std::string(rule) + ".", param);
  }

  bool wrong_type(std::string_view got) {
    if (place_ == Place::kBody) {
      return refuse("The body must be a JSON object.");
    }
    const auto wanted = place_ == Place::kObject ? row(member_).type : "a string";
    return broken("must be " + std::string(wanted) + ", not " + std::string(got));
  }

  static unsigned bit(RequestMember member) { return 1U << static_cast<unsigned>(member); }
  bool seen(RequestMember member) const { return (seen_ & bit(member)) != 0; }

  bool key(std::string_view name) {
    if (place_ == Place::kMetadata) {
      return note_name(name);
    }
    const auto member = find_member(name);
    if (!member || (*member == RequestMember::kModel && rules_ == nullptr)) {
      return refuse("Unknown member " + shown(name) + ".",
                    may_be_shown(name) ? name : std::string_view());
    }
    if (seen(*member)) {
      return refuse("Duplicate member " + shown(name) + ".", name);
    }
    seen_ |= bit(*member);
    member_ = *member;
    return true;
  }

  bool string(std::string_view text) {
    if (place_ == Place::kBody) {
      return wrong_type("a string");
    }
    switch (member_) {
      case RequestMember::kModel:
        return text == rules_->model_name || broken("must be \"" + rules_->model_name + "\"");
      case RequestMember::kPrompt:
        return prompt(text);
      case RequestMember::kVoice:
        request_.voice = text;
        return is_voice(text) || broken("must be one of " + voice_list());
      case RequestMember::kAudioReferences:
        return place_ == Place::kReferences ? reference(text) : wrong_type("a string");
      case RequestMember::kImageUrl:
        request_.image_url = text;
        return url(text);
      case RequestMember::kOutputFormat: {
        const auto format = parse_format(text);
        request_.output_format = format.value_or(OutputFormat::kMp3);
        return format.has_value() || broken("must be one of " + joined(kFormatNames));
      }
      case RequestMember::kMetadata:
        return place_ == Place::kMetadata ? note(text) : wrong_type("a string");
      case RequestMember::kSampleRate:
      case RequestMember::kSpeed:
      case RequestMember::kVolume:
      case RequestMember::kPitch:
      case RequestMember::kMaxCredits:
        break;
    }
    return wrong_type("a string");
  }

  bool number(std::string_view text) {
    if (place_ != Place::kObject) {
      return wrong_type("a number");
    }
    // JSON's numbers are a subset of what from_chars reads. It refuses what no double holds.
    double value = 0;
    const bool held =
        std::from_chars(text.data(), text.data() + text.size(), value).ec == std::errc();
    switch (member_) {
      case RequestMember::kSampleRate:
        return sample_rate(held ? value : 0);
      case RequestMember::kSpeed:
        return ranged(held, value, kSpeedRange, request_.speed);
      case RequestMember::kVolume:
        return ranged(held, value, kVolumeRange, request_.volume);
      case RequestMember::kPitch:
        return ranged(held, value, kPitchRange, request_.pitch);
      case RequestMember::kMaxCredits:
        return max_credits(held ? value : 0);
      case RequestMember::kModel:
      case RequestMember::kPrompt:
      case RequestMember::kVoice:
      case RequestMember::kAudioReferences:
      case RequestMember::kImageUrl:
      case RequestMember::kOutputFormat:
      case RequestMember::kMetadata:
        break;
    }
    return wrong_type("a number");
  }

  // Counts code points. False when the text is refused.
  bool count(std::string_view text, std::size_t& characters) {
    characters = 0;
    for (std::size_t i = 0; i < text.size(); ++characters) {
      const char c = text[i];
      // The bytes were judged before; only an escape can still bring a lone surrogate.
      const std::size_t length = utf8_sequence_length(text.substr(i));
      if (length == 0) {
        return broken("must not contain lone surrogates");
      }
      if (c >= '\0' && c < ' ' && c != '\t' && c != '\n' && c != '\r') {
        return broken("must not contain control characters other than tab and line breaks");
      }
      i += length;
    }
    return true;
  }

  bool prompt(std::string_view text) {
    std::size_t characters = 0;
    if (!count(text, characters)) {
      return false;
    }
    if (characters < 1 || characters > kPromptMax) {
      return broken("must be 1 to " + std::to_string(kPromptMax) + " characters long");
    }
    request_.prompt = text;
    return true;
  }

  bool note_name(std::string_view text) {
    note_.clear();  // Until it is known to be short.
    std::size_t characters = 0;
    if (!count(text, characters)) {
      return false;
    }
    if (characters < 1 || characters > kMetadataNameMax ||
        text.find_first_of("\t\n\r") != std::string_view::npos) {
      return broken("must have a name of 1 to " + std::to_string(kMetadataNameMax) +
                    " characters, none of them a control character");
    }
    note_ = text;
    if (request_.metadata.contains(note_)) {
      return broken("is there twice");
    }
    return request_.metadata.size() < kMetadataMax ||
           refuse("metadata must have at most " + std::to_string(kMetadataMax) + " members.",
                  "metadata");
  }

  bool note(std::string_view text) {
    std::size_t characters = 0;
    if (!count(text, characters)) {
      return false;
    }
    if (characters > kMetadataTextMax) {
      return broken("must be a string of at most " + std::to_string(kMetadataTextMax) +
                    " characters");
    }
    request_.metadata.emplace(note_, text);
    return true;
  }

  bool max_credits(double value) {
    constexpr double kThousand = 1000.0;
    const Units low = kChargeMin, high = kHoldAmount;
    // Judged before it is rounded, so that nothing is too large for the integer.
    if (!(value >= static_cast<double>(low.value) / kThousand &&
          value <= static_cast<double>(high.value) / kThousand)) {
      return broken("must be a number from " + format_credits(low) + " to " + format_credits(high));
    }
    const Units units{std::llround(value * kThousand)};
    // Both are the double that is nearest to the same decimal number, if it is one.
    if (static_cast<double>(units.value) / kThousand != value) {
      return broken("must have at most three decimals");
    }
    request_.max_credits = units;
    return true;
  }

  bool reference(std::string_view text) {
    if (request_.audio_references.size() == kAudioReferencesMax) {
      return refuse(
          "audio_references must have at most " + std::to_string(kAudioReferencesMax) + " items.",
          "audio_references");
    }
    if (!url(text)) {
      return false;
    }
    request_.audio_references.emplace_back(text);
    return true;
  }

  bool url(std::string_view text) {
    if (text.size() > kUrlMax) {
      return broken("must be at most " + std::to_string(kUrlMax) + " bytes long");
    }
    if (rules_ == nullptr) {
      return true;
    }
    const auto checked = rules_->any_url ? check_any_url(text) : check_public_url(text);
    return checked || broken(checked.error().message);
  }

  bool sample_rate(double value) {
    const auto found = std::find(kSampleRates.begin(), kSampleRates.end(), value);
    if (found == kSampleRates.end()) {
      return broken("must be one of " + joined(kSampleRates));
    }
    request_.sample_rate = *found;
    return true;
  }

  bool ranged(bool held, double value, Range range, double& out) {
    if (!held || !(value >= range.low && value <= range.high)) {
      return broken("must be from " + number_text(range.low) + " to " + number_text(range.high));
    }
    out = value == 0 ? 0 : value;  // -0 is 0: one meaning, one canonical form.
    return true;
  }

  const RequestRules* rules_;
  GenerationRequest request_;
  RequestFault fault_;
  Place place_ = Place::kBody;
  RequestMember member_ = RequestMember::kModel;
  std::string note_;  // The name of the pair at hand, of metadata.
  unsigned seen_ = 0;
};

Result<GenerationRequest, RequestFault> read(std::string_view body, const RequestRules* rules) {
  if (auto refused = json_body_fault(body)) {
    return RequestFault{std::move(*refused), ""};
  }
  // Its encoding is judged already, once and at a fraction of what the parser takes for it.
  constexpr unsigned kFlags = rapidjson::kParseIterativeFlag | rapidjson::kParseInsituFlag |
                              rapidjson::kParseNumbersAsStringsFlag;
  RequestReader handler(rules);
  // Read where it lies: a third of the work for each letter of a stream that is copied elsewhere.
  // There is no other NUL than the one behind it.
  std::string text(body);
  rapidjson::InsituStringStream stream(text.data());
  rapidjson::Reader reader;
  const auto parsed = reader.Parse<kFlags>(stream, handler);
  if (parsed.IsError() && parsed.Code() != rapidjson::kParseErrorTermination) {
    handler.malformed(parsed.Code(), parsed.Offset());
  }
  if (parsed.IsError() || !handler.finish()) {
    return std::move(handler.fault());
  }
  return std::move(handler.request());
}

// ---- Canonical form ----

void append_member(std::string& out, RequestMember member) {
  out += out.empty() ? "{\"" : ",\"";
  out += row(member).name;
  out += "\":";
}

}  // namespace

std::string_view format_name(OutputFormat format) {
  const auto index = static_cast<std::size_t>(format) - 1;
  AG_CHECK(index < kFormatNames.size());
  return kFormatNames[index];
}

std::optional<OutputFormat> parse_format(std::string_view name) {
  const auto found = std::find(kFormatNames.begin(), kFormatNames.end(), name);
  if (found == kFormatNames.end()) {
    return std::nullopt;
  }
  return static_cast<OutputFormat>(found - kFormatNames.begin() + 1);
}

Result<GenerationRequest, RequestFault> parse_request(std::string_view body,
                                                      const RequestRules& rules) {
  return read(body, &rules);
}

void append_metadata(std::string& out, const Metadata& metadata) {
  JsonWriter json(out);
  json.begin_object();
  for (const auto& [name, text] : metadata) {
    json.foreign_key(name).value(std::string_view(text));
  }
  json.end_object();
}

std::string encode_request(const GenerationRequest& request) {
  std::string out;
  out.reserve(256 + request.prompt.size());
  append_member(out, RequestMember::kPrompt);
  append_json_string(out, request.prompt);
  if (request.voice) {
    append_member(out, RequestMember::kVoice);
    append_json_string(out, *request.voice);
  }
  if (!request.audio_references.empty()) {
    append_member(out, RequestMember::kAudioReferences);
    char separator = '[';
    for (const std::string& reference : request.audio_references) {
      out += separator;
      append_json_string(out, reference);
      separator = ',';
    }
    out += ']';
  }
  if (request.image_url) {
    append_member(out, RequestMember::kImageUrl);
    append_json_string(out, *request.image_url);
  }
  append_member(out, RequestMember::kOutputFormat);
  append_json_string(out, format_name(request.output_format));
  append_member(out, RequestMember::kSampleRate);
  out += std::to_string(request.sample_rate);
  append_member(out, RequestMember::kSpeed);
  out += number_text(request.speed);
  append_member(out, RequestMember::kVolume);
  out += number_text(request.volume);
  append_member(out, RequestMember::kPitch);
  out += number_text(request.pitch);
  if (!request.metadata.empty()) {
    append_member(out, RequestMember::kMetadata);
    append_metadata(out, request.metadata);
  }
  if (request.max_credits != kHoldAmount) {
    append_member(out, RequestMember::kMaxCredits);
    out += format_credits(request.max_credits);
  }
  out += '}';
  return out;
}

Result<GenerationRequest> decode_request(std::string_view json) {
  auto out = read(json, nullptr);
  if (!out) {
    return Error{std::move(out.error().message)};
  }
  if (encode_request(*out) != json) {
    return Error{"The stored request is not in its canonical form."};
  }
  return std::move(*out);
}

Sha256 fingerprint(std::string_view canonical) {
  // The version and the route keep keys apart if the form or the number of routes ever changes.
  std::string text = "v1\nPOST /audio/generations\n";
  text += canonical;
  return sha256(text);
}

std::optional<std::string> parse_idempotency_key(std::string_view header) {
  std::string key;
  if (header.starts_with('"')) {
    std::size_t i = 1;
    for (; i < header.size() && header[i] != '"'; ++i) {
      if (header[i] == '\\') {
        ++i;
        if (i == header.size() || (header[i] != '"' && header[i] != '\\')) {
          return std::nullopt;
        }
      }
      key += header[i];
    }
    if (i + 1 != header.size()) {
      return std::nullopt;
    }
  } else {
    key = header;
  }
  const bool visible =
      std::all_of(key.begin(), key.end(), [](char c) { return c > ' ' && c <= '~'; });
  if (key.empty() || key.size() > kIdempotencyKeyMax || !visible) {
    return std::nullopt;
  }
  return key;
}

}  // namespace audiogen
