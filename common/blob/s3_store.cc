#include "common/blob/s3_store.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <functional>
#include <optional>
#include <stop_token>
#include <utility>

#include <curl/curl.h>

#include "common/base/ascii.h"
#include "common/base/check.h"
#include "common/base/crypto.h"
#include "common/base/metrics.h"
#include "common/base/rest.h"
#include "common/blob/blob_key.h"
#include "common/http/curl_memory.h"
#include "common/http/outgoing.h"

namespace audiogen {
namespace {

// Here, so that they are told from the start.
prometheus::Counter& retries =
    metrics::counter("blob_retries_total", "Requests to the S3 service sent again");

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::size_t kReplyMax = 16 * 1024;  // Replies are empty or a short error document.
constexpr int kPauseDoublings = 4;

struct Hint {
  std::string_view code;
  std::string_view hint;
};
// What an operator can do about S3's error codes.
constexpr std::array kHints = {
    Hint{"AccessDenied", "check the rights of AWS_ACCESS_KEY_ID on the bucket"},
    Hint{"AuthorizationHeaderMalformed", "check the region in BLOB_URL"},
    Hint{"InvalidAccessKeyId", "check AWS_ACCESS_KEY_ID"},
    Hint{"NoSuchBucket", "check the bucket in BLOB_URL"},
    Hint{"PermanentRedirect", "check the endpoint and the region in BLOB_URL"},
    Hint{"RequestTimeTooSkewed", "check this machine's clock"},
    Hint{"ExpiredToken", "AWS_SESSION_TOKEN has ended"},
    Hint{"InvalidToken", "check AWS_SESSION_TOKEN"},
    Hint{"SignatureDoesNotMatch", "check AWS_SECRET_ACCESS_KEY"},
};

bool consists_of(std::string_view text, std::string_view punctuation) {
  return std::all_of(text.begin(), text.end(), [&](char c) {
    return ascii::is_alnum(c) || punctuation.find(c) != std::string_view::npos;
  });
}

std::string percent_decode(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(text.data() + i + 1, text.data() + i + 3, value, 16).ptr ==
            text.data() + i + 3) {
      out += static_cast<char>(value);
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

// The text of <Code> in an S3 error document, or "" for anything that is no such document.
std::string_view error_code(std::string_view body) {
  constexpr std::string_view kOpen = "<Code>";
  const auto open = body.find(kOpen);
  const auto close = body.find("</Code>");
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) {
    return "";
  }
  const auto code = body.substr(open + kOpen.size(), close - open - kOpen.size());
  return code.size() <= 64 && consists_of(code, "") ? code : "";
}

std::size_t on_reply(char* bytes, std::size_t size, std::size_t count, void* to) {
  auto& reply = *static_cast<std::string*>(to);
  reply.append(bytes, std::min(size * count, kReplyMax - reply.size()));
  return size * count;
}

// The end of a wait for the service, before its time. One that is just answering is heard all the
// same, whatever is asked: what it has done would only be done again.
class Ending {
 public:
  Ending(const std::stop_token& stop, const std::function<bool()>& wanted, milliseconds still)
      : wanted_(wanted), still_(still), note_(stop, [this] { asked_at_.store(Clock::now()); }) {}

  // libcurl's way to ask, about once a second at least.
  static int is_over(void* ending, curl_off_t, curl_off_t, curl_off_t to_send, curl_off_t sent) {
    constexpr milliseconds kAnswers{200};
    auto& self = *static_cast<Ending*>(ending);
    const auto now = Clock::now();
    if (self.wanted_ && !self.wanted_()) {
      self.asked_at_ = std::min(self.asked_at_.load(), now);
    }
    return now - kAnswers >= self.asked_at_.load() || self.look(now, to_send, sent) ? 1 : 0;
  }

  // It has ended because its body has not moved on.
  bool stands_still() const { return stands_still_; }

 private:
  bool look(Clock::time_point now, curl_off_t to_send, curl_off_t sent) {
    // Of what is still being connected to there is nothing to send yet, and what has all of it may
    // take its time: it may be a proxy, which passes it on only now.
    if (sent != sent_ || sent >= to_send) {
      sent_ = sent;
      moved_at_ = now;
    }
    stands_still_ = now - moved_at_ >= still_;
    return stands_still_;
  }

  const std::function<bool()>& wanted_;
  const milliseconds still_;
  Clock::time_point moved_at_ = Clock::now();
  curl_off_t sent_ = 0;
  bool stands_still_ = false;
  std::atomic<Clock::time_point> asked_at_{Clock::time_point::max()};
  const std::stop_callback<std::function<void()>> note_;
};

// Full jitter over the upper half: callers that failed together do not come back together.
milliseconds jittered(milliseconds pause) {
  std::array<std::uint8_t, 2> bytes{};
  random_bytes(bytes);
  const double share = (bytes[0] << 8U | bytes[1]) / 65535.0;
  return milliseconds(
      static_cast<std::int64_t>(static_cast<double>(pause.count()) * (0.5 + share / 2)));
}

}  // namespace

Result<S3Address> parse_s3_url(std::string_view url) {
  constexpr std::string_view kScheme = "s3://";
  const std::string wrong = "BLOB_URL: ";
  if (!url.starts_with(kScheme)) {
    return Error{wrong + "neither file:// nor s3://"};
  }
  url.remove_prefix(kScheme.size());
  std::string endpoint;
  std::string region;
  if (const auto mark = url.find('?'); mark != std::string_view::npos) {
    std::string_view query = url.substr(mark + 1);
    url = url.substr(0, mark);
    while (!query.empty()) {
      const auto parameter = query.substr(0, query.find('&'));
      query.remove_prefix(std::min(parameter.size() + 1, query.size()));
      const auto equals = parameter.find('=');
      const auto name = parameter.substr(0, equals);
      std::string* const value = name == "endpoint" ? &endpoint
                                 : name == "region" ? &region
                                                    : nullptr;
      if (value == nullptr || equals == std::string_view::npos) {
        return Error{wrong + "unknown parameter; endpoint= and region= are known"};
      }
      *value = percent_decode(parameter.substr(equals + 1));
    }
  }
  const std::string bucket(url.substr(0, url.find('/')));
  std::string prefix(url.substr(bucket.size()));
  prefix.erase(0, prefix.find_first_not_of('/'));
  while (prefix.ends_with('/')) {
    prefix.pop_back();
  }
  if (bucket.size() < 3 || bucket.size() > 63 || !consists_of(bucket, ".-")) {
    return Error{wrong + "s3:// needs a bucket name of 3 to 63 letters, digits, '.' and '-'"};
  }
  // No character that would have to be encoded: the signature covers the encoded form.
  if (!consists_of(prefix, "._-/") || prefix.find("..") != std::string::npos ||
      prefix.find("//") != std::string::npos) {
    return Error{wrong + "the prefix may have letters, digits, '.', '_', '-' and single '/' only"};
  }
  if (!consists_of(region, "-")) {
    return Error{wrong + "region= is not the name of a region"};
  }
  std::string objects;
  if (endpoint.empty()) {
    if (region.empty()) {
      return Error{wrong + "s3:// needs region= (AWS) or endpoint= (another S3 service)"};
    }
    objects = "https://" + bucket + ".s3." + region + ".amazonaws.com/";
  } else {
    const bool http = endpoint.starts_with("http://") || endpoint.starts_with("https://");
    if (!http || endpoint.find_first_of("?#@ ") != std::string::npos) {
      return Error{wrong + "endpoint= must be http(s)://host[:port]"};
    }
    while (endpoint.ends_with('/')) {
      endpoint.pop_back();
    }
    objects = endpoint + "/" + bucket + "/";
  }
  if (!prefix.empty()) {
    objects += prefix + "/";
  }
  return S3Address{std::move(objects), region.empty() ? "us-east-1" : std::move(region)};
}

// An easy handle: keeps its connection open between calls.
class S3Store::Connection {
 public:
  Connection() : easy_(curl_easy_init()) { AG_CHECK(easy_ != nullptr); }
  ~Connection() { curl_easy_cleanup(easy_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  template <class Value>
  void set(CURLoption option, Value value) {
    AG_CHECK(curl_easy_setopt(easy_, option, value) == CURLE_OK);
  }
  void reset() { curl_easy_reset(easy_); }
  void follow_rules() { http::set_outgoing_rules(easy_); }
  CURLcode perform() { return curl_easy_perform(easy_); }
  long status() const {
    long out = 0;
    curl_easy_getinfo(easy_, CURLINFO_RESPONSE_CODE, &out);
    return out;
  }

 private:
  CURL* const easy_;
};

struct S3Store::Call {
  const char* method;
  std::string_view key;
  std::string_view body;
  std::string content_hash;        // SHA-256 of the body: S3 checks what arrived against it.
  std::function<bool()> wanted{};  // See NewBlob.
};

struct S3Store::Outcome {
  std::optional<std::string> failure;
  bool may_pass = false;
  bool of_this_blob = false;
};

S3Store::S3Store(S3Address address, S3Credentials credentials, S3Limits limits)
    : address_(std::move(address)), credentials_(std::move(credentials)), limits_(limits) {
  http::init_curl();
}

S3Store::~S3Store() = default;

std::vector<PutResult> S3Store::put(std::span<const NewBlob> blobs) {
  std::vector<PutResult> keys;
  for (const NewBlob& blob : blobs) {
    AG_CHECK(is_blob_key(blob.name));
    const auto stored =
        send({"PUT", blob.name, blob.bytes, to_hex(sha256(blob.bytes)), blob.wanted}, {});
    keys.push_back(stored ? PutResult(std::string(blob.name)) : stored.error());
  }
  return keys;
}

PutShape S3Store::put_shape() const {
  // They wait for the network, each for its own request.
  return {.threads = 16, .batch_max = 1, .slowest = limits_.slowest};
}

Result<Removal> S3Store::remove(std::string_view key, const std::stop_token& stop) {
  if (!is_blob_key(key)) {
    return Removal::kNotOurs;
  }
  const auto sent = send({"DELETE", key, "", to_hex(sha256(""))}, stop);
  return sent ? Result<Removal>(Removal::kGone) : Error{sent.error().message};
}

Result<Done, PutFault> S3Store::send(const Call& call, const std::stop_token& stop) {
  const milliseconds longer = put_shape().time_for(call.body.size());
  const auto deadline = Clock::now() + limits_.total + longer;
  for (int attempt = 0;; ++attempt) {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
    const Outcome outcome =
        send_once(call, std::max(milliseconds(1), std::min(left, limits_.attempt + longer)), stop);
    if (!outcome.failure) {
      return Done{};
    }
    const auto pause = jittered(limits_.first_pause * (1 << std::min(attempt, kPauseDoublings)));
    const bool unwanted = call.wanted && !call.wanted();
    if (!outcome.may_pass || unwanted || Clock::now() + pause >= deadline ||
        stopped_within(stop, pause)) {
      return PutFault{*outcome.failure, outcome.of_this_blob, unwanted};
    }
    retries.Increment();
  }
}

S3Store::Outcome S3Store::send_once(const Call& call,
                                    milliseconds limit,
                                    const std::stop_token& stop) {
  std::unique_ptr<Connection> connection;
  {
    const MutexLock lock(mutex_);
    if (!idle_.empty()) {
      connection = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  if (!connection) {
    connection = std::make_unique<Connection>();
  }

  curl_slist* lines = nullptr;
  const auto add_line = [&lines](const std::string& line) {
    lines = curl_slist_append(lines, line.c_str());
    AG_CHECK(lines != nullptr);
  };
  add_line("x-amz-content-sha256: " + call.content_hash);
  // Of credentials that end by themselves; libcurl signs every line that is given to it.
  if (!credentials_.session_token.empty()) {
    add_line("x-amz-security-token: " + credentials_.session_token);
  }
  std::string reply;
  Connection& c = *connection;
  c.reset();
  c.follow_rules();
  c.set(CURLOPT_URL, (address_.objects_url + std::string(call.key)).c_str());
  c.set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(limits_.connect.count()));
  c.set(CURLOPT_TIMEOUT_MS, static_cast<long>(limit.count()));
  c.set(CURLOPT_AWS_SIGV4, ("aws:amz:" + address_.region + ":s3").c_str());
  c.set(CURLOPT_USERNAME, credentials_.access_key_id.c_str());
  c.set(CURLOPT_PASSWORD, credentials_.secret_key.c_str());
  if (!call.body.empty()) {
    add_line("Content-Type: " + blob_content_type(call.key));
    add_line("Expect:");  // No second round trip to ask whether the body is welcome.
    c.set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(call.body.size()));
    c.set(CURLOPT_POSTFIELDS, call.body.data());  // Not copied.
  }
  c.set(CURLOPT_CUSTOMREQUEST, call.method);
  c.set(CURLOPT_HTTPHEADER, lines);
  Ending ending(stop, call.wanted, limits_.still);
  c.set(CURLOPT_NOPROGRESS, 0L);
  c.set(CURLOPT_XFERINFOFUNCTION, &Ending::is_over);
  c.set(CURLOPT_XFERINFODATA, &ending);
  c.set(CURLOPT_WRITEFUNCTION, on_reply);
  c.set(CURLOPT_WRITEDATA, &reply);
  const CURLcode code = c.perform();
  const long status = c.status();
  c.reset();  // Before what it points to goes.
  curl_slist_free_all(lines);
  {
    const MutexLock lock(mutex_);
    idle_.push_back(std::move(connection));
  }

  const std::string what = std::string("S3 store: ") + call.method + ": ";
  if (code != CURLE_OK) {
    const bool lasting = code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_URL_MALFORMAT ||
                         code == CURLE_UNSUPPORTED_PROTOCOL;
    return {.failure = what + (ending.stands_still() ? "nothing of it is taken any more"
                                                     : curl_easy_strerror(code)),
            .may_pass = !lasting};
  }
  const std::string_view s3_code = error_code(reply);
  // NoSuchKey can only answer a remove, whose work is then done.
  if (status / 100 == 2 || (status == 404 && s3_code == "NoSuchKey")) {
    return {};
  }
  std::string failure = what + "HTTP " + std::to_string(status);
  if (!s3_code.empty()) {
    failure += ' ';
    failure += s3_code;
  }
  for (const Hint& hint : kHints) {
    if (hint.code == s3_code) {
      failure += ": ";
      failure += hint.hint;
    }
  }
  return {
      .failure = failure,
      .may_pass = status >= 500 || status == 408 || status == 429 || s3_code == "RequestTimeout",
      // 413 may come from what stands before the service, without a document (RFC 9110, 15.5.14).
      .of_this_blob = status == 413 || s3_code == "EntityTooLarge"};
}

}  // namespace audiogen
