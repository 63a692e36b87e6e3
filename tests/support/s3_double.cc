#include "tests/support/s3_double.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <sstream>
#include <stdexcept>
#include <utility>

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/ascii.h"

namespace audiogen::test {
namespace {

constexpr std::size_t kBodyMax = 16U << 20U;
constexpr std::time_t kSkewMax = 15 * 60;

std::string hmac(std::string_view key, std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> out{};
  unsigned size = 0;
  HMAC(EVP_sha256(),
       key.data(),
       static_cast<int>(key.size()),
       reinterpret_cast<const unsigned char*>(text.data()),
       text.size(),
       out.data(),
       &size);
  return {reinterpret_cast<const char*>(out.data()), size};
}

std::string hex(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    out += ascii::kHexDigits[static_cast<unsigned char>(c) >> 4U];
    out += ascii::kHexDigits[static_cast<unsigned char>(c) & 15U];
  }
  return out;
}

std::string hex_sha256(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> out{};
  unsigned size = 0;
  EVP_Digest(text.data(), text.size(), out.data(), &size, EVP_sha256(), nullptr);
  return hex({reinterpret_cast<const char*>(out.data()), size});
}

std::string scope_of(std::string_view date, const std::string& region) {
  return std::string(date.substr(0, 8)) + "/" + region + "/s3/aws4_request";
}

// The value of `name` in "AWS4-HMAC-SHA256 Credential=…, SignedHeaders=…, Signature=…".
std::string parameter(std::string_view header, const std::string& name) {
  const auto at = header.find(name + "=");
  if (at == std::string_view::npos) {
    return "";
  }
  const auto value = header.substr(at + name.size() + 1);
  return std::string(value.substr(0, value.find(',')));
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, at);) {
    out.push_back(part);
  }
  return out;
}

bool is_now(const std::string& date) {
  std::tm parts{};
  return strptime(date.c_str(), "%Y%m%dT%H%M%SZ", &parts) != nullptr &&
         std::abs(timegm(&parts) - std::time(nullptr)) < kSkewMax;
}

// Ten bytes where a hundred are promised.
http::FileBody short_file() {
  UniqueFd file(::memfd_create("short", MFD_CLOEXEC));
  if (::ftruncate(file.get(), 10) != 0) {
    throw std::runtime_error("memfd");
  }
  return {std::move(file), 0, 100};
}

}  // namespace

std::string s3_signature(const SignedRequest& request,
                         const std::string& region,
                         const std::string& secret_key) {
  std::string names;
  std::string canonical = request.method + "\n" + request.path + "\n" + request.query + "\n";
  for (const auto& [name, value] : request.headers) {
    canonical += name;
    canonical += ":" + value + "\n";
    names += (names.empty() ? "" : ";") + name;
  }
  canonical += "\n" + names + "\n" + request.payload_hash;
  const std::string text = "AWS4-HMAC-SHA256\n" + request.date + "\n" +
                           scope_of(request.date, region) + "\n" + hex_sha256(canonical);
  std::string key = hmac("AWS4" + secret_key, request.date.substr(0, 8));
  for (const std::string& part : {region, std::string("s3"), std::string("aws4_request")}) {
    key = hmac(key, part);
  }
  return hex(hmac(key, text));
}

S3Double::S3Double(std::string bucket, std::string region, S3Credentials credentials)
    : bucket_(std::move(bucket)),
      region_(std::move(region)),
      credentials_(std::move(credentials)),
      server_(
          http::ServerOptions{.limits = {.body = kBodyMax}},
          [this](http::Exchange exchange) { handle(std::move(exchange)); },
          [](int status, std::string_view, const http::Request*) {
            http::Response response;
            response.status = status;
            return response;
          }) {
  if (const auto started = server_.start(); !started) {
    throw std::runtime_error(started.error().message);
  }
}

S3Double::~S3Double() {
  server_.stop();
}

std::string S3Double::endpoint() const {
  return "http://127.0.0.1:" + std::to_string(server_.port());
}

std::optional<S3Double::Object> S3Double::object(const std::string& name) const {
  const std::scoped_lock lock(mutex_);
  const auto it = objects_.find(name);
  return it == objects_.end() ? std::nullopt : std::optional(it->second);
}

std::size_t S3Double::objects() const {
  const std::scoped_lock lock(mutex_);
  return objects_.size();
}

void S3Double::fail_next(std::vector<Fault> faults) {
  const std::scoped_lock lock(mutex_);
  faults_.assign(faults.begin(), faults.end());
}

void S3Double::limit(std::size_t bytes) {
  const std::scoped_lock lock(mutex_);
  limit_ = bytes;
}

int S3Double::requests() const {
  const std::scoped_lock lock(mutex_);
  return requests_;
}

int S3Double::requests_for(const std::string& name) const {
  const std::scoped_lock lock(mutex_);
  const auto it = requests_for_.find(name);
  return it == requests_for_.end() ? 0 : it->second;
}

void S3Double::let_go() {
  const std::scoped_lock lock(mutex_);
  for (const http::Exchange& exchange : late_) {
    carry_out(exchange, std::nullopt);
  }
  late_.clear();
}

std::string S3Double::name_in(const http::Request& request) const {
  return std::string(request.path.substr(bucket_.size() + 2));
}

std::string S3Double::refusal(const http::Request& request) const {
  const std::string_view authorization = request.header("authorization");
  const std::string date(request.header("x-amz-date"));
  if (!authorization.starts_with("AWS4-HMAC-SHA256 ")) {
    return "AccessDenied";
  }
  if (!is_now(date)) {
    return "RequestTimeTooSkewed";
  }
  const std::string credential = parameter(authorization, "Credential");
  if (!credential.starts_with(credentials_.access_key_id + "/")) {
    return "InvalidAccessKeyId";
  }
  if (credential.substr(credentials_.access_key_id.size() + 1) != scope_of(date, region_)) {
    return "AuthorizationHeaderMalformed";
  }
  SignedRequest signed_request{.method = std::string(request.method),
                               .path = std::string(request.path),
                               .query = std::string(request.query),
                               .headers = {},
                               .payload_hash = std::string(request.header("x-amz-content-sha256")),
                               .date = date};
  for (const std::string& name : split(parameter(authorization, "SignedHeaders"), ';')) {
    signed_request.headers[name] = request.header(name);
  }
  // S3 demands these to be signed when they are there, the host always.
  for (const char* name :
       {"host", "x-amz-content-sha256", "x-amz-date", "x-amz-security-token", "content-type"}) {
    const bool needed = request.has_header(name) || std::string_view(name) == "host";
    if (needed && signed_request.headers.count(name) == 0) {
      return "AccessDenied";
    }
  }
  if (request.header("x-amz-security-token") != credentials_.session_token) {
    return "InvalidToken";
  }
  if (s3_signature(signed_request, region_, credentials_.secret_key) !=
      parameter(authorization, "Signature")) {
    return "SignatureDoesNotMatch";
  }
  return signed_request.payload_hash == hex_sha256(request.body) ? "" : "XAmzContentSHA256Mismatch";
}

void S3Double::answer(const http::Exchange& exchange, int status, std::string_view code) const {
  http::Response response;
  response.status = status;
  if (!code.empty()) {
    response.headers = "Content-Type: application/xml\r\n";
    response.body = "<?xml version=\"1.0\"?><Error><Code>" + std::string(code) +
                    "</Code><Message>Words for people.</Message></Error>";
  }
  exchange.reply(std::move(response));
}

void S3Double::handle(http::Exchange exchange) {
  const http::Request& request = exchange.request();
  const std::scoped_lock lock(mutex_);
  ++requests_;
  if (const std::string wrong = refusal(request); !wrong.empty()) {
    answer(exchange, wrong == "XAmzContentSHA256Mismatch" ? 400 : 403, wrong);
    return;
  }
  const std::string prefix = "/" + bucket_ + "/";
  if (!request.path.starts_with(prefix)) {
    answer(exchange, 404, "NoSuchBucket");
    return;
  }
  ++requests_for_[name_in(request)];
  std::optional<Fault> fault;
  if (!faults_.empty()) {
    fault = faults_.front();
    faults_.pop_front();
  }
  if (fault == Fault::kUnavailable) {
    answer(exchange, 503, "SlowDown");
    return;
  }
  if (fault == Fault::kTooMany) {
    answer(exchange, 429, "");
    return;
  }
  if (fault == Fault::kSkewed) {
    answer(exchange, 403, "RequestTimeTooSkewed");
    return;
  }
  if (fault == Fault::kRejectPayload) {
    answer(exchange, 400, "<b>secret &amp; markup</b>");
    return;
  }
  if (fault == Fault::kTooLarge || (limit_ && request.body.size() > *limit_)) {
    answer(exchange, 413, "");
    return;
  }
  if (fault == Fault::kEntityTooLarge) {
    answer(exchange, 400, "EntityTooLarge");
    return;
  }
  if (fault == Fault::kSilent) {
    unanswered_.push_back(std::move(exchange));
    return;
  }
  if (fault == Fault::kLate) {
    late_.push_back(std::move(exchange));
    return;
  }
  carry_out(exchange, fault);
}

void S3Double::carry_out(const http::Exchange& exchange, std::optional<Fault> fault) {
  const http::Request& request = exchange.request();
  const std::string name = name_in(request);
  if (request.method == "PUT") {
    objects_[name] = {std::string(request.body), std::string(request.header("content-type"))};
  } else if (request.method == "DELETE") {
    objects_.erase(name);
  } else {
    answer(exchange, 405, "MethodNotAllowed");
    return;
  }
  if (fault == Fault::kTruncated) {
    http::Response response;
    response.file = short_file();
    exchange.reply(std::move(response));
    return;
  }
  answer(exchange, request.method == "PUT" ? 200 : 204, "");
}

}  // namespace audiogen::test
