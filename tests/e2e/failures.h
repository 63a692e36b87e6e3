// Every way an openai-compatible provider can fail, as a double plays it.
#pragma once

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "tests/e2e/chain.h"
#include "tests/support/provider_double.h"

namespace audiogen::test {

using Form = DoubleReply::Form;

// What must not come back to a client, nor reach a log.
inline constexpr const char* kWords = "WORDS-OF-THE-PROVIDER";
inline constexpr const char* kUserWords = "WORDS-OF-THE-USER";

inline std::string error_body(const std::string& code) {
  return R"({"error":{"message":")" + std::string(kWords) + " " + kUserWords + " " + kProviderKey +
         R"(","type":"t","param":null,"code":")" + code + R"("}})";
}

// One way for the first provider to fail.
struct Failure {
  std::string name;
  DoubleReply reply;
  std::string state = "failed";  // As the call is remembered; "": any.
  std::size_t calls = 1;
};

inline DoubleReply at(int status, const std::string& code = "some_code") {
  return {
      .status = status, .headers = {"Content-Type: application/json"}, .body = error_body(code)};
}

inline DoubleReply on_the_wire(Form form) {
  DoubleReply out = wav_reply(1.0);
  out.form = form;
  if (form == Form::kShortLength) {
    // What comes after the announced length may arrive when the connection is in use again.
    out.headers.emplace_back("Connection: close");
  }
  return out;
}

inline DoubleReply body_of(std::string type, std::string body) {
  return {.headers = {"Content-Type: " + std::move(type)}, .body = std::move(body)};
}

// Every status and code that worker/providers/openai.cc tells apart, answers that only look like
// audio, and everything the wire can do.
inline std::vector<Failure> failures(const std::string& canary) {
  std::string silence = tone_wav(1.0);
  std::memset(silence.data() + 44, 0, silence.size() - 44);
  return {
      {"400", at(400)},
      {"401", at(401, "invalid_api_key")},
      {"402", at(402)},
      {"403", at(403)},
      {"404", at(404, "model_not_found")},
      {"408", at(408), "failed", 3},
      {"413", at(413)},
      {"418", at(418)},
      {"422", at(422)},
      {"429 rate", at(429, "rate_limit_exceeded"), "failed", 3},
      {"429 slow", at(429, "slow_down"), "failed", 3},
      {"429 quota", at(429, "insufficient_quota")},
      {"429 balance", at(429, "credit_balance_exhausted")},
      {"500", at(500), "failed", 3},
      {"501", at(501)},
      {"502", at(502), "failed", 3},
      {"503", at(503), "failed", 3},
      {"504", at(504), "unknown outcome"},
      {"524", at(524), "unknown outcome"},
      {"204", at(204)},
      {"302", {.status = 302, .headers = {"Location: " + canary}}},
      {"307", {.status = 307, .headers = {"Location: " + canary}}},
      {"error in 200", body_of("application/json", error_body("server_error"))},
      {"error as audio", body_of("audio/wav", error_body("server_error"))},
      {"html", body_of("text/html", "<html>" + std::string(kWords))},
      {"html as audio", body_of("audio/wav", "<!DOCTYPE html>" + std::string(kWords))},
      {"empty", body_of("audio/wav", "")},
      {"noise", body_of("audio/wav", std::string(5000, 'n'))},
      {"silence", body_of("audio/wav", silence)},
      {"50 ms", wav_reply(0.05)},
      {"half a file", body_of("audio/wav", tone_wav(1.0).substr(0, 20'000))},
      {"only a header", body_of("audio/wav", tone_wav(1.0).substr(0, 44))},
      {"broken mp3", body_of("audio/mpeg", "\xFF\xFB\x90\x64" + std::string(3000, '\x01'))},
      {"broken ogg", body_of("audio/ogg", "OggS" + std::string(3000, '\x01'))},
      {"truncated", on_the_wire(Form::kTruncated), "unknown outcome"},
      {"truncated and reset", on_the_wire(Form::kTruncatedReset), "unknown outcome"},
      {"cut chunked", on_the_wire(Form::kCutChunked), "unknown outcome"},
      {"length too long", on_the_wire(Form::kLongLength), "unknown outcome"},
      {"length too short", on_the_wire(Form::kShortLength)},
      {"reset", on_the_wire(Form::kReset), "unknown outcome"},
      {"close", on_the_wire(Form::kClose), "unknown outcome"},
      {"hang", on_the_wire(Form::kHang), "unknown outcome"},
      {"drip", on_the_wire(Form::kDrip), "unknown outcome"},
      {"endless", on_the_wire(Form::kEndless), ""},
      {"garbage", on_the_wire(Form::kGarbage), "unknown outcome"},
      {"endless head", on_the_wire(Form::kEndlessHead), ""},
  };
}

}  // namespace audiogen::test
