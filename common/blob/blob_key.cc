#include "common/blob/blob_key.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "common/base/ascii.h"
#include "common/base/check.h"

namespace audiogen {
namespace {

constexpr std::size_t kTaskLength = 26;
constexpr std::size_t kRandomLength = 26;
constexpr std::size_t kRateAt = kTaskLength + kRandomLength + 2;
constexpr std::size_t kRateMax = 6;  // Digits.

struct Kind {
  OutputFormat format;
  std::string_view extension;
  std::string_view content_type;
};
constexpr std::array kKinds = {
    Kind{OutputFormat::kMp3, ".mp3", "audio/mpeg"},
    Kind{OutputFormat::kWav, ".wav", "audio/wav"},
    Kind{OutputFormat::kPcm, ".pcm", "audio/pcm"},
    Kind{OutputFormat::kOggOpus, ".opus", "audio/ogg; codecs=opus"},
};

bool is_base32(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return ascii::is_digit(c) ||
           (ascii::is_lower(c) && c != 'i' && c != 'l' && c != 'o' && c != 'u');
  });
}

bool is_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), ascii::is_digit);
}

bool is_name(std::string_view name) {
  if (name.size() < kRateAt || name[kTaskLength] != '-' || name[kRateAt - 1] != '-') {
    return false;
  }
  const auto dot = name.find('.', kRateAt);
  if (dot == std::string_view::npos || dot - kRateAt > kRateMax) {
    return false;
  }
  const auto extension = name.substr(dot);
  return is_base32(name.substr(0, kTaskLength)) &&
         is_base32(name.substr(kTaskLength + 1, kRandomLength)) &&
         is_digits(name.substr(kRateAt, dot - kRateAt)) &&
         std::any_of(
             kKinds.begin(), kKinds.end(), [&](const Kind& k) { return k.extension == extension; });
}

// Written as to_chars() writes it: a place has one key.
template <class Number>
bool read_number(std::string_view text, Number& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return is_digits(text) && error == std::errc() && end == text.data() + text.size() &&
         (text.size() == 1 || text[0] != '0');
}

}  // namespace

std::string make_blob_name(TaskId task, OutputFormat format, int sample_rate) {
  const auto kind =
      std::find_if(kKinds.begin(), kKinds.end(), [&](const Kind& k) { return k.format == format; });
  std::string name = encode_base32(task.uuid);
  name += '-';
  name += random_base32(kRandomLength);
  name += '-';
  name += std::to_string(sample_rate);
  name += kind->extension;
  return name;
}

std::string make_blob_key(const BlobPlace& place) {
  std::string key(place.segment);
  key += '/';
  key += std::to_string(place.seal.empty() ? place.offset : place.offset / kBlobBlock);
  key += '-';
  key += std::to_string(place.length);
  if (!place.seal.empty()) {
    key += '-';
    key += place.seal;
  }
  key += '/';
  key += place.name;
  return key;
}

std::optional<BlobPlace> parse_blob_key(std::string_view key) {
  BlobPlace place;
  place.name = key.substr(key.rfind('/') + 1);  // All of it without one: npos + 1 is 0.
  if (!is_name(place.name)) {
    return std::nullopt;
  }
  if (place.name.size() == key.size()) {
    return place;
  }
  key.remove_suffix(place.name.size() + 1);
  place.segment = key.substr(0, kSegmentName);
  if (key.size() <= kSegmentName || key[kSegmentName] != '/' || !is_base32(place.segment)) {
    return std::nullopt;
  }
  key.remove_prefix(kSegmentName + 1);
  const auto first = key.find('-');
  if (first == std::string_view::npos) {
    return std::nullopt;
  }
  const auto second = key.find('-', first + 1);
  const bool sealed = second != std::string_view::npos;
  if (!read_number(key.substr(0, first), place.offset) ||
      !read_number(key.substr(first + 1, sealed ? second - first - 1 : second), place.length) ||
      place.offset > (sealed ? kOffsetMax / kBlobBlock : kOffsetMax) || place.length > kBlobMax) {
    return std::nullopt;
  }
  if (!sealed) {
    return place.offset % kBlobBlock == 0 ? std::optional(place) : std::nullopt;
  }
  place.offset *= kBlobBlock;
  place.seal = key.substr(second + 1);
  return place.seal.size() == kSealText && is_base32(place.seal) ? std::optional(place)
                                                                 : std::nullopt;
}

TaskId blob_task(std::string_view key) {
  const auto place = parse_blob_key(key);
  AG_CHECK(place);
  const auto task = decode_base32(place->name.substr(0, kTaskLength));
  return task ? TaskId{*task} : TaskId{};  // 26 letters that are more than 128 bits: nobody's.
}

std::string blob_content_type(std::string_view key) {
  const auto place = parse_blob_key(key);
  AG_CHECK(place);
  const auto dot = place->name.rfind('.');
  const auto kind = std::find_if(kKinds.begin(), kKinds.end(), [&](const Kind& k) {
    return k.extension == place->name.substr(dot);
  });
  std::string type(kind->content_type);
  if (kind->format == OutputFormat::kPcm) {
    // Headerless: the media type is the only place that can say what the bytes are.
    type += "; rate=";
    type += place->name.substr(kRateAt, dot - kRateAt);
    type += "; channels=1; bits=16";
  }
  return type;
}

}  // namespace audiogen
