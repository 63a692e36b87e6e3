#include "worker/providers/transport/wire.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <ctime>
#include <memory>

#include <curl/curl.h>

#include "common/base/ascii.h"
#include "common/base/base64.h"
#include "common/base/crypto.h"
#include "common/domain/call_failure.h"
#include "worker/audio/bytes.h"
#include "worker/audio/mp3_frames.h"
#include "worker/audio/ogg_pages.h"
#include "worker/audio/plain.h"
#include "worker/audio/sniff.h"
#include "worker/providers/transport/blame.h"

namespace audiogen::wire {
namespace {

constexpr std::size_t kTokenMax = 60;
constexpr std::size_t kWavHeader = 12;
constexpr int kPcmRateMin = 8000, kPcmRateMax = 96'000;  // Hz; what is taken of any file.

// True when the data chunk promises more than is there, or holds but the first of more.
bool is_cut_wav(std::string_view wav) {
  if (const auto view = view_wav(wav); view && view->goes_on) {
    return true;
  }
  for (std::size_t at = kWavHeader; at + 8 <= wav.size();) {
    const std::uint32_t size = little32(wav.substr(at + 4, 4));
    if (wav.substr(at, 4) == "data") {
      // More than any answer may hold: the writer did not know. Those who stream write the largest
      // number of 31 or 32 bits there, or something below it.
      return size <= kAudioAnswerMax && size > wav.size() - at - 8;
    }
    at += 8 + static_cast<std::size_t>(size) + (size & 1U);
  }
  return true;  // No data chunk at all.
}

// A FLAC that is cut short is the decoder's to refuse, and bare samples have no end to miss.
bool is_cut(std::string_view bytes, AudioType type) {
  switch (type) {
    case AudioType::kWav:
      return is_cut_wav(bytes);
    case AudioType::kMp3:
      return is_cut_mp3(bytes);
    case AudioType::kOgg: {
      const auto survey = survey_ogg(bytes);
      return survey && survey->cut;
    }
    case AudioType::kFlac:
    case AudioType::kPcmS16Le:
      break;
  }
  return false;
}

bool is_text(std::string_view bytes) {
  const auto start = bytes.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  const std::string_view head =
      start == std::string_view::npos ? std::string_view() : bytes.substr(start, 64);
  return head.starts_with("{\"") || head.starts_with("<!") || head.starts_with("<html") ||
         head.starts_with("<HTML") || head.starts_with("<?xml");
}

// Providers label audio loosely; what matters is to know text by its label.
bool may_be_audio(std::string_view content_type) {
  std::string type = ascii::lower(content_type.substr(0, content_type.find(';')));
  while (!type.empty() && type.back() == ' ') {
    type.pop_back();
  }
  return type.empty() || type.starts_with("audio/") || type.starts_with("video/") ||
         type.ends_with("/octet-stream") || type == "application/ogg";
}

// A parameter of a media type (RFC 9110 section 8.3.1) as a number; `fallback` without it, 0 when
// it is none.
int parameter(std::string_view content_type, std::string_view name, int fallback) {
  for (auto at = content_type.find(';'); at != std::string_view::npos;) {
    content_type.remove_prefix(at + 1);
    at = content_type.find(';');
    const std::string_view one = ascii::trim(content_type.substr(0, at));
    const auto equals = one.find('=');
    if (equals == std::string_view::npos || ascii::lower(one.substr(0, equals)) != name) {
      continue;
    }
    std::string_view text = one.substr(equals + 1);
    if (text.size() >= 2 && text.front() == '"' && text.back() == '"') {
      text = text.substr(1, text.size() - 2);
    }
    int value = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
    return read.ec == std::errc() && read.ptr == text.data() + text.size() ? value : 0;
  }
  return fallback;
}

ProviderFault bad_audio(const char* why) {
  return {Fault::kTryNext, std::string(kBadAudio) + why, std::nullopt, true};
}

using Url = std::unique_ptr<CURLU, decltype(&curl_url_cleanup)>;

Url parse_url(const std::string& text) {
  Url url(curl_url(), curl_url_cleanup);
  if (curl_url_set(url.get(), CURLUPART_URL, text.c_str(), 0) != CURLUE_OK) {
    url.reset();
  }
  return url;
}

std::string part(const Url& url, CURLUPart which) {
  char* text = nullptr;
  if (curl_url_get(url.get(), which, &text, CURLU_DEFAULT_PORT) != CURLUE_OK) {
    return "";
  }
  std::string out = ascii::lower(text);
  curl_free(text);
  return out;
}

// Where the string ends that begins at `open`; npos: nowhere.
std::size_t end_of_string(std::string_view json, std::size_t open) {
  std::size_t at = open;
  bool escaped = true;
  while (escaped) {
    at = json.find('"', at + 1);
    if (at == std::string_view::npos) {
      return at;
    }
    std::size_t slashes = 0;
    while (json[at - 1 - slashes] == '\\') {
      ++slashes;
    }
    escaped = slashes % 2 == 1;
  }
  return at;
}

// A comma, or the beginning of an array or an object, stands before each value but one. What is no
// JSON may have any number.
bool has_more_values_than(std::string_view json, std::size_t count) {
  std::size_t found = 0;
  for (std::size_t i = 0; i < json.size() && found <= count; ++i) {
    if (json[i] == '"') {
      i = end_of_string(json, i);
      if (i == std::string_view::npos) {
        return false;
      }
    } else if (json[i] == ',' || json[i] == '[' || json[i] == '{') {
      ++found;
    }
  }
  return found > count;
}

}  // namespace

std::optional<std::chrono::seconds> retry_after(std::string_view value,
                                                std::chrono::sys_seconds now) {
  if (value.empty()) {
    return std::nullopt;
  }
  std::int64_t seconds = 0;
  if (value.find_first_not_of("0123456789") == std::string_view::npos) {
    const auto read = std::from_chars(value.data(), value.data() + value.size(), seconds);
    if (read.ec != std::errc()) {
      seconds = kRetryAfterMax.count();  // More digits than any time has.
    }
  } else {
    const std::time_t then = curl_getdate(std::string(value).c_str(), nullptr);
    if (value.size() < 10 || !ascii::is_alnum(value.front()) || then < 0) {
      return std::nullopt;
    }
    seconds = static_cast<std::int64_t>(then) - now.time_since_epoch().count();
  }
  if (seconds <= 0) {
    return std::nullopt;
  }
  return std::min(std::chrono::seconds(seconds), kRetryAfterMax);
}

std::optional<std::chrono::seconds> retry_after_of(const http::ClientResponse& response) {
  return retry_after(
      response.header("retry-after"),
      std::chrono::time_point_cast<std::chrono::seconds>(std::chrono::system_clock::now()));
}

std::optional<Thousandths> thousandths(std::string_view value) {
  double units = -1;
  const char* const end = value.data() + value.size();
  const auto read = std::from_chars(value.data(), end, units, std::chars_format::fixed);
  return read.ec == std::errc() && read.ptr == end ? audiogen::thousandths_of(units) : std::nullopt;
}

std::optional<Thousandths> thousandths_in(const rapidjson::Value& object, const char* name) {
  const rapidjson::Value* const value = member(object, name);
  return value != nullptr && value->IsNumber() ? audiogen::thousandths_of(value->GetDouble())
                                               : std::nullopt;
}

std::string token(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, kTokenMax)) {
    if (!ascii::is_alnum(c) && std::string_view("_.:-").find(c) == std::string_view::npos) {
      break;
    }
    out += c;
  }
  return out;
}

ProviderFault fault(Fault kind,
                    const http::ClientResponse& response,
                    std::string_view code,
                    const char* id_header) {
  return fault_with_id(kind, response, code, response.header(id_header));
}

ProviderFault fault_with_id(Fault kind,
                            const http::ClientResponse& response,
                            std::string_view code,
                            std::string_view request_id) {
  if (kind == Fault::kMisconfigured && response.status == 403 && blame::is_page(response.body)) {
    kind = Fault::kBrokenByInput;
  }
  ProviderFault out{kind, "HTTP " + std::to_string(response.status), std::nullopt};
  if (const std::string safe = token(code); !safe.empty()) {
    out.detail += " " + safe;
  }
  if (const std::string id = token(request_id); !id.empty()) {
    out.detail += " id=" + id;
  }
  if (is_brief(kind)) {
    out.retry_after = retry_after_of(response);
  }
  out.detail.resize(std::min(out.detail.size(), kDetailMax));
  return out;
}

ProviderFault no_audio(const http::ClientResponse& response,
                       std::string_view code,
                       std::string_view id) {
  ProviderFault out = fault_with_id(Fault::kTryNext, response, code, id);
  out.made = true;
  return out;
}

ProviderFault fault_of(const http::ClientError& error) {
  const auto with = [&error](Fault kind) {
    return ProviderFault{kind, error.detail.substr(0, kDetailMax), std::nullopt};
  };
  switch (error.fault) {
    case http::ClientFault::kNotSent:
    case http::ClientFault::kForbidden:
      return with(Fault::kTryNext);
    case http::ClientFault::kTooLarge:
      return bad_audio("the answer is too large");
    case http::ClientFault::kUnknown:
    case http::ClientFault::kCanceled:
      return with(Fault::kUnknownOutcome);
  }
  return with(Fault::kUnknownOutcome);
}

Fault fault_of_status(int status) {
  switch (status) {
    case 429:
      return Fault::kThrottled;
    case 408:
    case 500:
    case 502:
    case 503:
      return Fault::kRetrySame;
    case 504:
    case 520:
    case 524:
      return Fault::kUnknownOutcome;
    case 413:
      return Fault::kUnsupportedInput;
    case 401:
    case 402:
    case 403:
    case 404:
      return Fault::kMisconfigured;
    default:
      return Fault::kTryNext;
  }
}

bool is_out_of_reach(int status) {
  constexpr std::array kStatuses = {521, 522, 523, 525, 526, 527, 530};
  return std::find(kStatuses.begin(), kStatuses.end(), status) != kStatuses.end();
}

bool leaves_job_open(int status) {
  return status == 408 || status == 409 || status == 425 || status == 429 || status >= 500;
}

Result<Audio, ProviderFault> audio_of(std::string bytes,
                                      std::string_view content_type,
                                      AudioType expected,
                                      int rate) {
  if (!may_be_audio(content_type)) {
    return bad_audio("the content type is not audio");
  }
  if (bytes.empty()) {
    return bad_audio("empty");
  }
  Audio out;
  if (const auto type = sniff_audio(bytes)) {
    out.type = *type;
  } else if (is_text(bytes)) {
    return bad_audio("text");
  } else if (expected == AudioType::kPcmS16Le) {
    out.type = expected;
    out.rate = parameter(content_type, "rate", rate);
    out.channels = parameter(content_type, "channels", 1);
    if (out.rate < kPcmRateMin || out.rate > kPcmRateMax || out.channels < 1 || out.channels > 2) {
      return bad_audio("a rate or channels that nothing has");
    }
    if (bytes.size() % (2 * static_cast<std::size_t>(out.channels)) != 0) {
      return bad_audio("half a sample");
    }
  } else {
    return bad_audio("unknown bytes");
  }
  if (is_cut(bytes, out.type)) {
    return bad_audio("cut short");
  }
  out.bytes = std::move(bytes);
  return out;
}

Result<Audio, ProviderFault> billed(Result<Audio, ProviderFault> audio,
                                    std::optional<Thousandths> told) {
  if (audio) {
    audio->billed = told;
    return audio;
  }
  ProviderFault fault = audio.error();
  fault.billed = told;
  return fault;
}

Result<std::string, ProviderFault> base64_member(http::ClientResponse& response,
                                                 const char* name,
                                                 const char* id_header) {
  rapidjson::Document document;
  std::string body = std::move(response.body);
  if (!parse_object(body, document)) {
    return fault(Fault::kTryNext, response, "not_json", id_header);
  }
  auto bytes = decode_base64(text_of(document, name));
  if (!bytes) {
    return no_audio(response, "bad_base64", response.header(id_header));
  }
  return std::move(*bytes);
}

std::optional<std::string> decode_hex(std::string_view text) {
  if (text.size() % 2 != 0) {
    return std::nullopt;
  }
  std::string out(text.size() / 2, '\0');
  for (std::size_t i = 0; i < out.size(); ++i) {
    const int high = ascii::hex_value(text[2 * i]);
    const int low = ascii::hex_value(text[2 * i + 1]);
    if (high < 0 || low < 0) {
      return std::nullopt;
    }
    out[i] = static_cast<char>(high << 4 | low);
  }
  return out;
}

std::string number(double value) {
  std::array<char, 32> text{};
  const int length = std::snprintf(text.data(), text.size(), "%.3f", value);
  std::string out(text.data(), static_cast<std::size_t>(std::max(0, length)));
  out.erase(out.find_last_not_of('0') + 1);
  return out.ends_with('.') ? out.substr(0, out.size() - 1) : out;
}

std::string data_uri(const AudioReference& sound) {
  const char* const type = sound.type == AudioType::kMp3    ? "audio/mpeg"
                           : sound.type == AudioType::kFlac ? "audio/flac"
                           : sound.type == AudioType::kOgg  ? "audio/ogg"
                                                            : "audio/wav";
  return "data:" + std::string(type) + ";base64," + encode_base64(sound.bytes);
}

std::string data_uri(const ImageReference& image) {
  const char* const type = image.type == ImageType::kPng    ? "image/png"
                           : image.type == ImageType::kJpeg ? "image/jpeg"
                                                            : "image/webp";
  return "data:" + std::string(type) + ";base64," + encode_base64(image.bytes);
}

bool parse_object(std::string& body, rapidjson::Document& document) {
  // Each value takes 16 bytes and may be two bytes of text: 128 MB of nothing but zeroes would be a
  // gigabyte. Audio is one value.
  constexpr std::size_t kValuesMax = 100'000;
  if (has_more_values_than(body, kValuesMax)) {
    return false;
  }
  // Iterative: the depth of a provider's text must not be the depth of our stack.
  constexpr unsigned kFlags = rapidjson::kParseInsituFlag | rapidjson::kParseIterativeFlag;
  document.ParseInsitu<kFlags>(body.data());
  return !document.HasParseError() && document.IsObject();
}

const rapidjson::Value* member(const rapidjson::Value& object, const char* name) {
  if (!object.IsObject()) {
    return nullptr;
  }
  const auto it = object.FindMember(name);
  return it == object.MemberEnd() ? nullptr : &it->value;
}

std::string_view text_of(const rapidjson::Value& object, const char* name) {
  const rapidjson::Value* const value = member(object, name);
  return value != nullptr && value->IsString()
             ? std::string_view(value->GetString(), value->GetStringLength())
             : std::string_view();
}

std::string bad_member(const rapidjson::Value& detail) {
  if (!detail.IsArray() || detail.Empty()) {
    return "";
  }
  const rapidjson::Value* const loc = member(detail[0], "loc");
  if (loc == nullptr || !loc->IsArray()) {
    return "";
  }
  std::string out;
  for (const rapidjson::Value& one : loc->GetArray()) {
    const std::string_view part = one.IsString() ? one.GetString() : "";
    // That it came in the body is no name.
    if (!part.empty() && (part != "body" || !out.empty())) {
      out += (out.empty() ? "" : ".") + std::string(part);
    }
  }
  return out;
}

std::string request_uuid(std::string_view request_key) {
  Sha256 hash = sha256(request_key);
  hash[6] = static_cast<std::uint8_t>((hash[6] & 0x0FU) | 0x80U);  // Version 8: a hash of our own.
  hash[8] = static_cast<std::uint8_t>((hash[8] & 0x3FU) | 0x80U);
  const std::string hex = to_hex(std::span(hash).first(16));
  return hex.substr(0, 8) + "-" + hex.substr(8, 4) + "-" + hex.substr(12, 4) + "-" +
         hex.substr(16, 4) + "-" + hex.substr(20);
}

std::string percent_encode(std::string_view text) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    if (ascii::is_alnum(c) || std::string_view("-._~").find(c) != std::string_view::npos) {
      out += c;
    } else {
      out += '%';
      out += kHex[static_cast<unsigned char>(c) >> 4U];
      out += kHex[static_cast<unsigned char>(c) & 0xFU];
    }
  }
  return out;
}

bool same_origin(const std::string& a, const std::string& b) {
  const Url first = parse_url(a);
  const Url second = parse_url(b);
  if (!first || !second || !part(second, CURLUPART_USER).empty()) {
    return false;
  }
  return part(first, CURLUPART_SCHEME) == part(second, CURLUPART_SCHEME) &&
         part(first, CURLUPART_HOST) == part(second, CURLUPART_HOST) &&
         part(first, CURLUPART_PORT) == part(second, CURLUPART_PORT);
}

void add_trace(http::ClientRequest& request, const std::optional<TraceSpan>& span) {
  if (span && request.reach == http::Reach::kAny) {
    request.headers.push_back("traceparent: " + traceparent(*span));
  }
}

bool is_loopback(const std::string& url) {
  const Url parsed = parse_url(url);
  if (!parsed) {
    return false;
  }
  const std::string host = part(parsed, CURLUPART_HOST);
  return host == "localhost" || host == "[::1]" ||
         (host.starts_with("127.") && host.find_first_not_of("0123456789.") == std::string::npos);
}

}  // namespace audiogen::wire
