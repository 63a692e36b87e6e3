#include "common/http/framer.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "common/base/ascii.h"

namespace audiogen::http {
namespace {

// A chunk-size line holds at most these many digits: no size we accept needs more.
constexpr std::size_t kChunkDigitsMax = 8;
constexpr std::size_t kChunkLineMax = 1024;
constexpr std::size_t kMethodMax = 32;
constexpr const char* kTargetForm =
    "the request target neither begins with a slash nor is an http address";
constexpr const char* kHeadTooLong = "the request line and headers are too long";

using CharSet = std::array<bool, 256>;

constexpr CharSet char_set(std::string_view extra) {
  CharSet set{};
  for (std::size_t c = 0; c < 0x80; ++c) {
    set[c] = ascii::is_alnum(static_cast<char>(c));
  }
  for (const char c : extra) {
    set[static_cast<unsigned char>(c)] = true;
  }
  return set;
}

constexpr CharSet kToken = char_set("!#$%&'*+-.^_`|~");          // RFC 9110 5.6.2
constexpr CharSet kHostChars = char_set("-._~%!$&'()*+,;=:[]");  // RFC 3986 3.2.2, and a port

bool all_of(const CharSet& set, std::string_view text) {
  return std::all_of(
      text.begin(), text.end(), [&](char c) { return set[static_cast<unsigned char>(c)]; });
}

// Field values: visible characters, spaces, tabs and obs-text (RFC 9110 5.5).
bool has_control(std::string_view text) {
  return std::any_of(
      text.begin(), text.end(), [](char c) { return ascii::is_control(c) && c != '\t'; });
}

// True when the comma-separated list has that member.
bool lists(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const auto comma = std::min(list.find(','), list.size());
    if (ascii::equals_ignoring_case(ascii::trim(list.substr(0, comma)), word)) {
      return true;
    }
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return false;
}

// Digits only: no sign, no space, no list (RFC 9110 8.6). False when it is not so or cannot fit.
bool parse_length(std::string_view text, std::size_t& value) {
  if (text.empty() || text.size() > 18) {
    return false;
  }
  value = 0;
  for (const char c : text) {
    if (!ascii::is_digit(c)) {
      return false;
    }
    value = value * 10 + static_cast<std::size_t>(c - '0');
  }
  return true;
}

}  // namespace

std::string_view Request::header(std::string_view lower_case_name) const {
  if ((marks_ & mark_of(lower_case_name)) == 0) {
    return {};
  }
  for (const Field& field : fields_) {
    if (name_of(field) == lower_case_name) {
      return {base_ + field.value, field.value_size};
    }
  }
  return {};
}

int Request::header_count(std::string_view lower_case_name) const {
  if ((marks_ & mark_of(lower_case_name)) == 0) {
    return 0;
  }
  return static_cast<int>(std::count_if(fields_.begin(), fields_.end(), [&](const Field& field) {
    return name_of(field) == lower_case_name;
  }));
}

std::string Request::joined_headers(std::string_view lower_case_name) const {
  std::string out;
  for (const Field& field : fields_) {
    if (name_of(field) == lower_case_name) {
      if (!out.empty()) {
        out += ',';
      }
      out.append(base_ + field.value, field.value_size);
    }
  }
  return out;
}

void Framer::append(std::string_view bytes) {
  bytes_.append(bytes);
  // The head may be looked at before the next advance(), for instance to refuse its body.
  if (bytes_.data() != request_.base_) {
    bind_views();
  }
}

void Framer::reset() {
  bytes_.clear();
  next_ = scanned_ = 0;
  stage_ = Stage::kRequestLine;
  skipped_empty_line_ = false;
  method_at_ = method_size_ = target_at_ = target_size_ = 0;
  authority_at_ = authority_size_ = 0;
  body_at_ = body_size_ = content_length_ = chunk_left_ = overhead_ = 0;
  chunked_ = too_large_ = false;
  reason_.clear();
  std::vector<Field> fields = std::move(request_.fields_);
  fields.clear();
  request_ = Request();
  request_.fields_ = std::move(fields);
}

void Framer::refuse(std::string reason) {
  reason_ = std::move(reason);
  stage_ = Stage::kFailed;
}

bool Framer::next_line(std::size_t limit,
                       const char* too_long,
                       std::size_t& begin,
                       std::size_t& end) {
  const std::size_t from = std::max(scanned_, next_);
  const void* found = std::memchr(bytes_.data() + from, '\n', bytes_.size() - from);
  const std::size_t newline =
      found == nullptr ? bytes_.size()
                       : static_cast<std::size_t>(static_cast<const char*>(found) - bytes_.data());
  scanned_ = newline;
  if (newline - next_ > limit) {
    refuse(too_long);
    return false;
  }
  if (found == nullptr) {
    return false;
  }
  if (newline == next_ || bytes_[newline - 1] != '\r') {
    refuse("a line ends with a bare line feed");
    return false;
  }
  begin = next_;
  end = newline - 1;
  next_ = newline + 1;
  return true;
}

void Framer::read_request_line(std::size_t begin, std::size_t end) {
  const std::string_view line = std::string_view(bytes_).substr(begin, end - begin);
  if (line.empty() && !skipped_empty_line_) {
    skipped_empty_line_ = true;  // RFC 9112 2.2: some clients end a body with one CRLF too many.
    bytes_.erase(0, next_);
    next_ = scanned_ = 0;
    return;
  }
  const auto first = line.find(' ');
  const auto second = first == std::string_view::npos ? first : line.find(' ', first + 1);
  const std::string_view method = line.substr(0, std::min(first, line.size()));
  if (method.empty() || method.size() > kMethodMax || !all_of(kToken, method)) {
    return refuse("the method is not a token");
  }
  method_at_ = begin;
  method_size_ = method.size();
  if (second == std::string_view::npos) {
    return refuse("the request line is not method, target and version");
  }
  const std::string_view target = line.substr(first + 1, second - first - 1);
  if (std::any_of(target.begin(), target.end(), [](unsigned char c) {
        return c <= 0x20 || c >= 0x7f || c == '#';
      })) {
    return refuse("the request target has a character that is not allowed in it");
  }
  if (!target.starts_with('/') && target.find("://") == std::string_view::npos) {
    return refuse(kTargetForm);
  }
  const std::string_view version = line.substr(second + 1);
  if (version != "HTTP/1.1" && version != "HTTP/1.0") {
    return refuse("the version is neither HTTP/1.1 nor HTTP/1.0");
  }
  request_.http10 = version == "HTTP/1.0";
  target_at_ = begin + first + 1;
  target_size_ = target.size();
  if (target.front() != '/' && !split_absolute_target()) {
    return refuse(kTargetForm);
  }
  stage_ = Stage::kHeaders;
}

// "http://host/path?query" (RFC 9112 3.2.2): the target becomes "/path?query". False when it is
// not of that form; a user in the authority is an error (RFC 9110 4.2.4).
bool Framer::split_absolute_target() {
  const std::string_view target = std::string_view(bytes_).substr(target_at_, target_size_);
  const auto colon = target.find("://");
  if (colon == std::string_view::npos ||
      !(ascii::equals_ignoring_case(target.substr(0, colon), "http") ||
        ascii::equals_ignoring_case(target.substr(0, colon), "https"))) {
    return false;
  }
  const std::size_t begin = colon + 3;
  const std::size_t end = std::min(target.find_first_of("/?", begin), target.size());
  const std::string_view authority = target.substr(begin, end - begin);
  if (authority.empty() || authority.front() == ':' || !all_of(kHostChars, authority)) {
    return false;
  }
  authority_at_ = target_at_ + begin;
  authority_size_ = authority.size();
  if (end == target.size() || target[end] == '?') {
    // An empty path is "/" (RFC 9110 4.2.3).
    bytes_.insert(target_at_ + end, 1, '/');
    ++target_size_;
    ++next_;
  }
  target_at_ += end;
  target_size_ -= end;
  return true;
}

bool Framer::read_field(std::size_t begin, std::size_t end, Field& field) {
  const std::string_view line = std::string_view(bytes_).substr(begin, end - begin);
  if (line.front() == ' ' || line.front() == '\t') {
    refuse("a header line is folded");
    return false;
  }
  const auto colon = line.find(':');
  if (colon == std::string_view::npos) {
    refuse("a header line has no colon");
    return false;
  }
  if (colon == 0 || !all_of(kToken, line.substr(0, colon))) {
    refuse("a header name is not a token");
    return false;
  }
  const std::string_view value = ascii::trim(line.substr(colon + 1));
  if (has_control(value)) {
    refuse("a header value has a control character");
    return false;
  }
  std::transform(bytes_.begin() + static_cast<std::ptrdiff_t>(begin),
                 bytes_.begin() + static_cast<std::ptrdiff_t>(begin + colon),
                 bytes_.begin() + static_cast<std::ptrdiff_t>(begin),
                 [](char c) { return ascii::lower(c); });
  const std::size_t value_at =
      value.empty() ? end : static_cast<std::size_t>(value.data() - bytes_.data());
  field = {static_cast<std::uint32_t>(begin),
           static_cast<std::uint32_t>(colon),
           static_cast<std::uint32_t>(value_at),
           static_cast<std::uint32_t>(value.size())};
  return true;
}

void Framer::end_of_head(const FramerLimits& limits) {
  request_.base_ = bytes_.data();
  const int hosts = request_.header_count("host");
  if (hosts > 1 || (hosts == 0 && !request_.http10)) {
    return refuse("there must be exactly one Host header");
  }
  if (!all_of(kHostChars, request_.header("host"))) {
    return refuse("the Host header is malformed");
  }
  request_.keep_alive = !request_.http10;
  for (const Field& field : request_.fields_) {
    if (request_.name_of(field) == "connection") {
      const std::string_view value(bytes_.data() + field.value, field.value_size);
      if (lists(value, "close")) {
        request_.keep_alive = false;
        break;
      }
      request_.keep_alive = request_.keep_alive || lists(value, "keep-alive");
    }
  }
  body_at_ = next_;
  const int lengths = request_.header_count("content-length");
  const int encodings = request_.header_count("transfer-encoding");
  if (lengths > 0 && encodings > 0) {
    return refuse("Content-Length and Transfer-Encoding exclude each other");
  }
  if (encodings > 0) {
    if (encodings > 1 ||
        !ascii::equals_ignoring_case(request_.header("transfer-encoding"), "chunked")) {
      return refuse("the only Transfer-Encoding understood is chunked, once");
    }
    if (request_.http10) {
      return refuse("Transfer-Encoding does not belong in HTTP/1.0");  // RFC 9112 6.1
    }
    chunked_ = true;
    stage_ = Stage::kChunkSize;
    return;
  }
  if (lengths > 1 ||
      (lengths == 1 && !parse_length(request_.header("content-length"), content_length_))) {
    return refuse("Content-Length must be one number, digits only");
  }
  if (content_length_ > limits.body) {
    too_large_ = true;
    return refuse("the body is larger than " + std::to_string(limits.body) + " bytes");
  }
  stage_ = Stage::kSizedBody;
}

void Framer::read_chunk_size(std::size_t begin, std::size_t end, const FramerLimits& limits) {
  const std::string_view line = std::string_view(bytes_).substr(begin, end - begin);
  std::size_t digits = 0;
  std::size_t size = 0;
  for (; digits < line.size() && ascii::hex_value(line[digits]) >= 0; ++digits) {
    if (digits == kChunkDigitsMax) {
      return refuse("a chunk size has too many digits");
    }
    size = size * 16 + static_cast<std::size_t>(ascii::hex_value(line[digits]));
  }
  // RFC 9112 7.1.1: extensions are ignored; white space is allowed only in front of one.
  const std::string_view extension = ascii::trim(line.substr(digits));
  if (digits == 0 || (digits < line.size() && (extension.empty() || extension.front() != ';')) ||
      has_control(extension)) {
    return refuse("a chunk size is malformed");
  }
  overhead_ += line.size() - digits;
  if (overhead_ > limits.head) {
    return refuse("the chunk extensions are too long");
  }
  if (size > limits.body - body_size_) {
    too_large_ = true;
    return refuse("the body is larger than " + std::to_string(limits.body) + " bytes");
  }
  chunk_left_ = size;
  stage_ = size == 0 ? Stage::kTrailers : Stage::kChunkData;
}

// Moves what is here of the chunk down to the end of the decoded body.
void Framer::read_chunk_data() {
  const std::size_t here = std::min(chunk_left_, bytes_.size() - next_);
  std::memmove(bytes_.data() + body_at_ + body_size_, bytes_.data() + next_, here);
  body_size_ += here;
  next_ += here;
  chunk_left_ -= here;
  if (chunk_left_ == 0) {
    stage_ = Stage::kChunkEnd;
  }
}

void Framer::bind_views() {
  const std::string_view all(bytes_);
  request_.base_ = bytes_.data();
  request_.method = all.substr(method_at_, method_size_);
  request_.target = all.substr(target_at_, target_size_);
  const auto question = request_.target.find('?');
  request_.path = request_.target.substr(0, question);
  request_.query = question == std::string_view::npos ? std::string_view()
                                                      : request_.target.substr(question + 1);
  request_.authority = all.substr(authority_at_, authority_size_);
  request_.body = stage_ == Stage::kDone ? all.substr(body_at_, body_size_) : std::string_view();
}

std::unique_ptr<Framer> Framer::copy_head() const {
  auto head = std::make_unique<Framer>();
  head->bytes_.assign(bytes_, 0, body_at_);
  head->method_at_ = method_at_;
  head->method_size_ = method_size_;
  head->target_at_ = target_at_;
  head->target_size_ = target_size_;
  head->authority_at_ = authority_at_;
  head->authority_size_ = authority_size_;
  head->request_ = request_;
  head->bind_views();
  return head;
}

bool Framer::expects_continue() const {
  return (stage_ == Stage::kSizedBody || stage_ == Stage::kChunkSize) && !request_.http10 &&
         bytes_.size() == body_at_ && lists(request_.header("expect"), "100-continue");
}

Framer::Status Framer::advance(const FramerLimits& limits) {
  std::size_t begin = 0;
  std::size_t end = 0;
  bool more = true;
  while (more) {
    switch (stage_) {
      case Stage::kRequestLine:
        // `next_` counts towards the limit: lines together, not each, must fit.
        more = next_line(limits.head - std::min(next_, limits.head), kHeadTooLong, begin, end);
        if (more) {
          read_request_line(begin, end);
        }
        break;
      case Stage::kHeaders:
        more = next_line(limits.head - std::min(next_, limits.head), kHeadTooLong, begin, end);
        if (more && begin == end) {
          end_of_head(limits);
        } else if (more) {
          Field field;
          if (request_.fields_.size() == limits.headers) {
            refuse("there are more than " + std::to_string(limits.headers) + " headers");
          } else if (read_field(begin, end, field)) {
            request_.add(field, std::string_view(bytes_).substr(field.name, field.name_size));
          }
        }
        break;
      case Stage::kSizedBody:
        more = false;
        if (bytes_.size() - next_ >= content_length_) {
          body_size_ = content_length_;
          next_ += content_length_;
          stage_ = Stage::kDone;
        }
        break;
      case Stage::kChunkSize:
        more = next_line(kChunkLineMax, "a chunk size is malformed", begin, end);
        if (more) {
          read_chunk_size(begin, end, limits);
        }
        break;
      case Stage::kChunkData:
        more = next_ < bytes_.size();
        read_chunk_data();
        break;
      case Stage::kChunkEnd:
        more = next_line(1, "a chunk is longer than its size", begin, end);  // Only its CRLF fits.
        if (more) {
          stage_ = Stage::kChunkSize;
        }
        break;
      case Stage::kTrailers:
        more = next_line(limits.head - overhead_, "the trailers are too long", begin, end);
        if (more && begin == end) {
          stage_ = Stage::kDone;
        } else if (more) {
          Field ignored;
          read_field(begin, end, ignored);
          overhead_ += end - begin;
        }
        break;
      case Stage::kDone:
      case Stage::kFailed:
        more = false;
        break;
    }
  }
  if (chunked_ && stage_ != Stage::kDone && next_ > body_at_ + body_size_) {
    const std::size_t gap = next_ - (body_at_ + body_size_);
    bytes_.erase(body_at_ + body_size_, gap);
    next_ -= gap;
    scanned_ -= std::min(scanned_, gap);
  }
  bind_views();
  switch (stage_) {
    case Stage::kDone:
      return Status::kComplete;
    case Stage::kFailed:
      return Status::kRefused;
    case Stage::kRequestLine:
    case Stage::kHeaders:
      return Status::kHead;
    default:
      return Status::kBody;
  }
}

}  // namespace audiogen::http
