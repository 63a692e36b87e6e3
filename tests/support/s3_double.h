// An S3 service for tests: keeps objects in memory, refuses what is not signed as AWS Signature
// Version 4 demands (checked by an implementation of its own), and fails on command.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/config.h"
#include "common/http/server.h"

namespace audiogen::test {

// What a signature covers; names of headers in lower case.
struct SignedRequest {
  std::string method, path, query;
  std::map<std::string, std::string> headers;  // The signed ones.
  std::string payload_hash;
  std::string date;  // "20130524T000000Z"
};

// The signature in lower-case hexadecimal, by "Authenticating Requests (AWS Signature Version 4)"
// of Amazon's S3 API reference.
std::string s3_signature(const SignedRequest& request,
                         const std::string& region,
                         const std::string& secret_key);

class S3Double {
 public:
  // `bucket` is the one that exists.
  S3Double(std::string bucket, std::string region, S3Credentials credentials);
  ~S3Double();
  S3Double(const S3Double&) = delete;
  S3Double& operator=(const S3Double&) = delete;

  std::string endpoint() const;  // "http://127.0.0.1:<port>"

  struct Object {
    std::string bytes, content_type;
  };
  std::optional<Object> object(const std::string& name) const;  // The path below the bucket.
  std::size_t objects() const;

  enum class Fault {
    kUnavailable,     // 503 SlowDown
    kTooMany,         // 429
    kTruncated,       // Stores, then breaks off in the middle of the reply.
    kSilent,          // Never answers.
    kLate,            // Answers once let_go() says so.
    kSkewed,          // 403 RequestTimeTooSkewed
    kRejectPayload,   // 400, with markup that is no S3 error document.
    kTooLarge,        // 413 without a document, as a proxy says it.
    kEntityTooLarge,  // 400 EntityTooLarge
  };
  // What the next well-signed requests get, one each.
  void fail_next(std::vector<Fault> faults);
  void let_go();

  // More is refused (413), as by a proxy that stands before a service.
  void limit(std::size_t bytes);

  int requests() const;                             // Seen so far, refused ones included.
  int requests_for(const std::string& name) const;  // The same of one object, well signed.
  std::size_t connections() const { return server_.stats().connections; }

 private:
  void handle(http::Exchange exchange);
  void carry_out(const http::Exchange& exchange, std::optional<Fault> fault);
  std::string name_in(const http::Request& request) const;  // The path below the bucket.
  void answer(const http::Exchange& exchange, int status, std::string_view code) const;
  // "" or S3's code for what is wrong with the signature.
  std::string refusal(const http::Request& request) const;

  const std::string bucket_, region_;
  const S3Credentials credentials_;
  mutable std::mutex mutex_;
  std::map<std::string, Object> objects_;
  std::optional<std::size_t> limit_;
  std::deque<Fault> faults_;
  std::vector<http::Exchange> unanswered_, late_;
  int requests_ = 0;
  std::map<std::string, int> requests_for_;
  http::Server server_;  // Last: its threads use what is above.
};

}  // namespace audiogen::test
