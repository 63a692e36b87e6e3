// fal and Replicate: the job from submission to its file, and every way it can go wrong.
#include "worker/providers/transport/polled.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/http/redirect.h"
#include "tests/provider/fixture.h"
#include "tests/support/wait.h"
#include "worker/providers/fal.h"
#include "worker/providers/replicate.h"
#include "worker/providers/transport/remote_provider.h"
#include "worker/providers/transport/wire.h"

namespace audiogen::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kBase = "https://queue.example";

http::ClientResponse json(int status, std::string body) {
  http::ClientResponse out;
  out.status = status;
  out.headers = {{"content-type", "application/json"}};
  out.body = std::move(body);
  return out;
}

// A dialogue without a wire. Each say() gives the next step as text: "ask METHOD URL", "audio" or
// the fault.
class Talk {
 public:
  explicit Talk(const ProviderKind& kind, GenerationRequest request = {})
      : Talk(kind, entry_of(kind, kBase), std::move(request)) {}
  Talk(const ProviderKind& kind, ProviderEntry entry, GenerationRequest request = {})
      : entry_(std::move(entry)) {
    dialogue_ = make_polled_dialogue(std::make_shared<const ProviderEntry>(entry_),
                                     *std::get<const PolledFormat*>(kind.format),
                                     request_of(std::move(request)));
  }

  std::string begin(std::chrono::seconds left = 90s) { return text(dialogue_->begin(left)); }
  std::string say(Heard answer) { return text(dialogue_->heard(std::move(answer))); }
  std::string lose() { return say(http::ClientError{http::ClientFault::kUnknown, "lost"}); }
  std::string withdrawal() const {
    const auto request = dialogue_->withdraw();
    return request ? request->method + " " + request->url : "nothing";
  }
  const Ask& ask() const { return ask_; }
  // What the call is said to cost.
  std::optional<Thousandths> billed() const { return billed_; }
  bool made() const { return made_; }  // Billed there, though nothing came of it.

 private:
  std::string text(Step step) {
    if (const auto* const audio = std::get_if<Audio>(&step)) {
      billed_ = audio->billed;
      return "audio";
    }
    if (const auto* const fault = std::get_if<ProviderFault>(&step)) {
      billed_ = fault->billed;
      made_ = fault->made;
      return std::string(fault_name(fault->fault)) + ": " + fault->detail;
    }
    ask_ = std::get<Ask>(step);
    return "ask " + ask_.request.method + " " + ask_.request.url;
  }

  ProviderEntry entry_;
  std::unique_ptr<Dialogue> dialogue_;
  Ask ask_;
  std::optional<Thousandths> billed_;
  bool made_ = false;
};

constexpr const char* kFalTicket =
    R"({"request_id":"r1","status":"IN_QUEUE","status_url":"https://queue.example/s/r1",
        "response_url":"https://queue.example/r/r1","cancel_url":"https://queue.example/c/r1"})";
constexpr const char* kReplicateTicket =
    R"({"id":"p1","status":"starting","output":null,"urls":{"get":"https://queue.example/p/p1",
        "cancel":"https://queue.example/p/p1/cancel"}})";

http::ClientResponse wav_file() {
  http::ClientResponse out;
  out.status = 200;
  out.headers = {{"content-type", "audio/wav"}};
  out.body = tone_wav(0.5);
  return out;
}

TEST(Fal, FromSubmissionToFile) {
  GenerationRequest asked;
  asked.prompt = "rain";
  asked.voice = "atlas";
  Talk talk(fal::kKind, asked);
  EXPECT_EQ(talk.begin(), "ask POST https://queue.example/owner/app");
  EXPECT_EQ(talk.ask().request.body, R"({"prompt":"rain","voice":"onyx"})");
  EXPECT_THAT(talk.ask().request.headers,
              testing::IsSupersetOf({"Authorization: Key " + std::string(kSecret),
                                     std::string("X-Fal-Request-Timeout: 90")}));
  EXPECT_EQ(talk.withdrawal(), "nothing");
  EXPECT_EQ(talk.say(json(200, kFalTicket)), "ask GET https://queue.example/s/r1");
  EXPECT_GE(talk.ask().delay, 800ms);
  EXPECT_EQ(talk.withdrawal(), "PUT https://queue.example/c/r1");
  // Any status: the body decides.
  EXPECT_EQ(talk.say(json(202, R"({"status":"IN_QUEUE","queue_position":1})")),
            "ask GET https://queue.example/s/r1");
  EXPECT_EQ(talk.say(json(400, R"({"status":"IN_PROGRESS","logs":[]})")),
            "ask GET https://queue.example/s/r1");
  EXPECT_EQ(talk.say(json(200, R"({"status":"COMPLETED","metrics":{}})")),
            "ask GET https://queue.example/r/r1");
  EXPECT_EQ(talk.ask().delay, 0ms);
  http::ClientResponse result = json(200, R"({"audio":{"url":"https://cdn.example/o.wav"}})");
  result.headers.emplace("x-fal-billable-units", "2.5");
  EXPECT_EQ(talk.say(result), "ask GET https://cdn.example/o.wav");
  // The file may be anywhere public, and our key is not for its host.
  EXPECT_THAT(talk.ask().request.headers, ElementsAre());
  EXPECT_EQ(talk.ask().request.reach, http::Reach::kPublicOnly);
  EXPECT_EQ(talk.withdrawal(), "nothing");
  EXPECT_EQ(talk.say(wav_file()), "audio");
  EXPECT_EQ(talk.billed(), 2'500);
  EXPECT_EQ(fal::kKind.reports, PriceUnit::kBillableUnit);
}

TEST(Fal, PausesGrowToFiveSeconds) {
  Talk talk(fal::kKind);
  talk.begin();
  talk.say(json(200, kFalTicket));
  std::chrono::milliseconds longest{0};
  for (int i = 0; i < 20; ++i) {
    ASSERT_THAT(talk.say(json(202, R"({"status":"IN_QUEUE"})")), HasSubstr("ask GET"));
    longest = std::max(longest, talk.ask().delay);
  }
  EXPECT_GE(talk.ask().delay, 4s);
  EXPECT_LE(longest, 6s);
}

// By the time a job is done its pauses are long.
TEST(Fal, AFileThatIsNotThereYetIsLookedForSoon) {
  Talk talk(fal::kKind);
  talk.begin();
  talk.say(json(200, kFalTicket));
  for (int i = 0; i < 10; ++i) {
    talk.say(json(202, R"({"status":"IN_QUEUE"})"));
  }
  talk.say(json(200, R"({"status":"COMPLETED"})"));
  talk.say(json(200, R"({"audio":{"url":"https://cdn.example/o.wav"}})"));
  std::chrono::milliseconds all{0};
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(talk.say(json(404, "{}")), "ask GET https://cdn.example/o.wav");
    EXPECT_LT(talk.ask().delay, 4s);
    all += talk.ask().delay;
  }
  EXPECT_LT(all, 7s);
  EXPECT_EQ(talk.say(wav_file()), "audio");
}

// What was lost sight of and turns out to be done has its own patience: it is paid for.
TEST(Fal, WhoIsDoneAfterLongSilenceIsAskedAgain) {
  constexpr std::chrono::milliseconds kPatience = 45s;  // Half of what begin() gives.
  Talk talk(fal::kKind);
  talk.begin();
  talk.say(json(200, kFalTicket));
  for (std::chrono::milliseconds all{0}; all < kPatience; all += talk.ask().delay) {
    ASSERT_EQ(talk.lose(), "ask GET https://queue.example/s/r1");
  }
  talk.say(json(200, R"({"status":"COMPLETED"})"));
  EXPECT_EQ(talk.say(json(503, "<html>")), "ask GET https://queue.example/s/r1");
  // Once: that it is still done is no news.
  for (int i = 0; i < 50 && talk.say(json(200, R"({"status":"COMPLETED"})")).starts_with("ask");
       ++i) {
    if (!talk.say(json(503, "<html>")).starts_with("ask")) {
      return;
    }
  }
  FAIL() << "without end";
}

// A client's bad reference shut the entry for everybody when its member had "voice" in its name;
// what the operator sends every time was the client's fault.
TEST(Fal, TheTextTheReferencesAndTheShapeAreTheClients) {
  const auto refused = [](const std::string& member, bool at_result) {
    ProviderEntry entry = entry_of(fal::kKind, kBase);
    entry.options["voice_member"] = "voice_id";
    entry.options["audio_references_member"] = "ref_voice_url";
    entry.options["speed_member"] = "pace";
    entry.options["input"] = R"({"steps":400})";
    Talk talk(fal::kKind, std::move(entry));
    talk.begin();
    if (at_result) {
      talk.say(json(200, kFalTicket));
      talk.say(json(200, R"({"status":"COMPLETED"})"));
    }
    return talk.say(
        json(422, R"({"detail":[{"loc":["body",")" + member + R"(",0],"type":"bad"}]})"));
  };
  for (const bool at_result : {false, true}) {
    EXPECT_EQ(refused("voice_id", at_result), "misconfigured: HTTP 422 bad");
    EXPECT_EQ(refused("ref_voice_url", at_result), "unsupported_input: HTTP 422 bad");
    EXPECT_EQ(refused("pace", at_result), "unsupported_input: HTTP 422 bad");
    EXPECT_EQ(refused("steps", at_result), "misconfigured: HTTP 422 bad");
    EXPECT_EQ(refused("body", at_result), "broken_by_input: HTTP 422 bad");
  }
}

TEST(Fal, RefusalsAtEachStep) {
  const auto submitted = [](http::ClientResponse answer) {
    Talk talk(fal::kKind);
    talk.begin();
    return talk.say(std::move(answer));
  };
  EXPECT_EQ(submitted(json(429, "{}")), "throttled: HTTP 429");
  EXPECT_EQ(submitted(json(401, R"({"detail":"no"})")), "misconfigured: HTTP 401");
  EXPECT_EQ(submitted(json(422, R"({"detail":[{"loc":["body","voice"],"type":"enum"}]})")),
            "misconfigured: HTTP 422 enum");
  EXPECT_EQ(submitted(json(422, R"({"detail":[{"loc":["body","prompt"],"type":"enum"}]})")),
            "unsupported_input: HTTP 422 enum");
  EXPECT_EQ(submitted(json(422, R"({"detail":[{"type":"image_load_error"}]})")),
            "unsupported_input: HTTP 422 image_load_error");
  EXPECT_EQ(submitted(json(422, R"({"detail":[{"type":"unheard_of"}]})")),
            "broken_by_input: HTTP 422 unheard_of");
  EXPECT_EQ(submitted(json(422, R"({"detail":[{"type":"content_policy_violation"}]})")),
            "rejected: HTTP 422 content_policy_violation");
  // It was taken, and runs there for all we know.
  EXPECT_EQ(submitted(json(200, "<html>")), "unknown_outcome: HTTP 200 no_ticket");
  EXPECT_EQ(submitted(json(200, "{}")), "unknown_outcome: HTTP 200 no_ticket");
  EXPECT_EQ(submitted(json(
                200,
                R"({"status_url":"https://evil.example/s","response_url":"https://evil.example/r",
                         "cancel_url":"https://evil.example/c"})")),
            "unknown_outcome: the job's addresses are not the provider's");

  // Each address by itself: our key goes along to all of them.
  EXPECT_EQ(submitted(json(200, R"({"status_url":"https://evil.example/s",
                                    "response_url":"https://queue.example/r"})")),
            "unknown_outcome: the job's addresses are not the provider's");
  EXPECT_EQ(submitted(json(200, R"({"status_url":"https://queue.example/s",
                                    "response_url":"https://evil.example/r"})")),
            "unknown_outcome: the job's addresses are not the provider's");
  Talk withdrawn(fal::kKind);
  withdrawn.begin();
  EXPECT_EQ(withdrawn.say(json(200, R"({"status_url":"https://queue.example/s",
                                        "response_url":"https://queue.example/r",
                                        "cancel_url":"https://evil.example/c"})")),
            "ask GET https://queue.example/s");
  EXPECT_EQ(withdrawn.withdrawal(), "nothing");

  const auto polled = [](http::ClientResponse answer) {
    Talk talk(fal::kKind);
    talk.begin();
    talk.say(json(200, kFalTicket));
    return talk.say(std::move(answer));
  };
  EXPECT_EQ(
      polled(json(200, R"({"status":"COMPLETED","error":"x","error_type":"request_timeout"})")),
      "try_next: HTTP 200 request_timeout");
  EXPECT_EQ(polled(json(200, R"({"status":"COMPLETED","error":"a private prompt"})")),
            "try_next: HTTP 200 failed");
  EXPECT_EQ(polled(json(404, R"({"detail":"gone"})")), "try_next: HTTP 404");
  // As at the other steps; only what else ends a job is not anybody's input.
  EXPECT_EQ(polled(json(422, R"({"detail":[{"loc":["body","voice"],"type":"enum"}]})")),
            "misconfigured: HTTP 422 enum");
  EXPECT_EQ(polled(json(422, R"({"detail":[{"type":"image_load_error"}]})")),
            "unsupported_input: HTTP 422 image_load_error");
  EXPECT_EQ(polled(json(422, R"({"status":"COMPLETED","detail":[{"type":"unheard_of"}]})")),
            "broken_by_input: HTTP 422 unheard_of");
  EXPECT_EQ(
      polled(json(
          200, R"({"status":"COMPLETED","detail":[{"loc":["body","prompt"],"type":"too_long"}]})")),
      "unsupported_input: HTTP 200 too_long");
  EXPECT_EQ(polled(json(200, R"({"status":"COMPLETED","detail":[{"type":"voice_server_died"}]})")),
            "try_next: HTTP 200 voice_server_died");

  const auto fetched = [](http::ClientResponse answer) {
    Talk talk(fal::kKind);
    talk.begin();
    talk.say(json(200, kFalTicket));
    talk.say(json(200, R"({"status":"COMPLETED"})"));
    return talk.say(std::move(answer));
  };
  EXPECT_EQ(fetched(json(422, R"({"detail":[{"type":"content_policy_violation"}]})")),
            "rejected: HTTP 422 content_policy_violation");
  EXPECT_EQ(fetched(json(200, R"({"audio":{}})")), "try_next: HTTP 200 no_audio");
  EXPECT_EQ(fetched(json(400, R"({"status":"IN_PROGRESS"})")),
            "ask GET https://queue.example/s/r1");
  EXPECT_EQ(fetched(json(503, "<html>")), "ask GET https://queue.example/s/r1");
  // The app's own failure is the end; of something before it nothing is.
  EXPECT_EQ(fetched(json(500, R"({"detail":"Internal Server Error"})")), "try_next: HTTP 500");
  EXPECT_EQ(fetched(json(500, "<html>")), "ask GET https://queue.example/s/r1");
  http::ClientResponse expired = json(504, "{}");
  expired.headers.emplace("x-fal-request-timeout-type", "user");
  EXPECT_EQ(polled(expired), "try_next: HTTP 504");
  EXPECT_EQ(fetched(expired), "try_next: HTTP 504");
  // Of a text nobody is to think that it is the provider's failure, whatever it is told by.
  EXPECT_EQ(polled(json(422, R"({"detail":"Prompt is too long"})")), "broken_by_input: HTTP 422");
  EXPECT_EQ(fetched(json(422, R"({"detail":[{"loc":["body","prompt"],"msg":"m"}]})")),
            "unsupported_input: HTTP 422");
  EXPECT_EQ(polled(json(429, R"({"error_type":"rate_limited"})")),
            "ask GET https://queue.example/s/r1");
  // Nor does the queue end a job that is done, and paid, by having no time for us.
  EXPECT_EQ(fetched(json(429, R"({"error_type":"rate_limited"})")),
            "ask GET https://queue.example/s/r1");
  http::ClientResponse retryable = json(400, "{}");
  retryable.headers.emplace("x-fal-retryable", "true");
  EXPECT_EQ(polled(retryable), "ask GET https://queue.example/s/r1");
}

// Models call it what they like.
TEST(Models, TheFileHasMoreNamesThanOne) {
  const auto of_fal = [](const std::string& result, const std::string& member = "") {
    auto entry = entry_of(fal::kKind, kBase);
    entry.options["audio_member"] = member;
    Talk talk(fal::kKind, std::move(entry));
    talk.begin();
    talk.say(json(200, kFalTicket));
    talk.say(json(200, R"({"status":"COMPLETED"})"));
    return talk.say(json(200, result));
  };
  const std::string found = "ask GET https://cdn.example/f";
  EXPECT_EQ(of_fal(R"({"audio_url":{"url":"https://cdn.example/f"}})"), found);
  EXPECT_EQ(of_fal(R"({"audio":{},"audio_file":"https://cdn.example/f"})"), found);
  EXPECT_EQ(of_fal(R"({"speech":{"url":"https://cdn.example/f"}})"), "try_next: HTTP 200 no_audio");
  EXPECT_EQ(of_fal(R"({"audio":{"url":"x"},"speech":{"url":"https://cdn.example/f"}})", "speech"),
            found);
  Talk replicate(replicate::kKind);
  replicate.begin();
  replicate.say(json(201, kReplicateTicket));
  EXPECT_EQ(replicate.say(json(200,
                               R"({"status":"succeeded","output":{"prompt_npz":null,)"
                               R"("audio_out":"https://cdn.example/f"}})")),
            found);
}

// A machine was at work, whatever came of it.
TEST(Fal, WhatIsBilledWithoutAudioIsTold) {
  Talk talk(fal::kKind);
  talk.begin();
  talk.say(json(200, kFalTicket));
  talk.say(json(200, R"({"status":"COMPLETED"})"));
  http::ClientResponse empty = json(200, R"({"audio":{}})");
  empty.headers.emplace("x-fal-billable-units", "2.5");
  EXPECT_EQ(talk.say(empty), "try_next: HTTP 200 no_audio");
  EXPECT_EQ(talk.billed(), 2'500);
  EXPECT_TRUE(talk.made());
}

TEST(Replicate, FromSubmissionToFile) {
  GenerationRequest asked;
  asked.prompt = "rain";
  Talk talk(replicate::kKind, asked);
  EXPECT_EQ(talk.begin(), "ask POST https://queue.example/models/owner/app/predictions");
  EXPECT_EQ(talk.ask().request.body, R"({"input":{"prompt":"rain","voice":"coral"}})");
  EXPECT_THAT(talk.ask().request.headers,
              testing::IsSupersetOf({"Authorization: Bearer " + std::string(kSecret),
                                     std::string("Cancel-After: 90s")}));
  EXPECT_EQ(talk.say(json(201, kReplicateTicket)), "ask GET https://queue.example/p/p1");
  EXPECT_EQ(talk.withdrawal(), "POST https://queue.example/p/p1/cancel");
  EXPECT_EQ(talk.say(json(200, R"({"status":"processing"})")),
            "ask GET https://queue.example/p/p1");
  EXPECT_EQ(talk.say(json(200,
                          R"({"status":"succeeded","output":["https://cdn.example/o.wav"],)"
                          R"("metrics":{"predict_time":3.21}})")),
            "ask GET https://cdn.example/o.wav");
  EXPECT_EQ(talk.say(wav_file()), "audio");
  EXPECT_EQ(talk.billed(), 3'210);
  EXPECT_EQ(replicate::kKind.reports, PriceUnit::kComputeSecond);
}

http::ClientResponse sent_to(const char* location) {
  http::ClientResponse out;
  out.status = 302;
  out.headers = {{"location", location}};
  return out;
}

// A job that is done is billed: who sends us elsewhere for its file is followed, without our key
// and only to public addresses, a few times.
TEST(Replicate, TheFileMayBeElsewhere) {
  const auto at_its_file = [](Talk& talk) {
    talk.begin();
    talk.say(json(201, kReplicateTicket));
    return talk.say(json(200, R"({"status":"succeeded","output":["https://cdn.example/a/o"]})"));
  };
  {
    Talk talk(replicate::kKind);
    ASSERT_EQ(at_its_file(talk), "ask GET https://cdn.example/a/o");
    EXPECT_EQ(talk.say(sent_to("/b/o.wav?sign=1")), "ask GET https://cdn.example/b/o.wav?sign=1");
    EXPECT_EQ(talk.say(sent_to("https://files.example/o.wav")),
              "ask GET https://files.example/o.wav");
    EXPECT_TRUE(talk.ask().request.headers.empty());
    EXPECT_EQ(talk.ask().request.reach, http::Reach::kPublicOnly);
    EXPECT_EQ(talk.lose(), "ask GET https://cdn.example/a/o") << "what was signed may be used up";
    talk.say(sent_to("https://files.example/o.wav"));
    EXPECT_EQ(talk.say(wav_file()), "audio");
  }
  {
    Talk talk(replicate::kKind);
    at_its_file(talk);
    for (int i = 0; i < http::kRedirectsMax; ++i) {
      ASSERT_THAT(talk.say(sent_to("https://files.example/")), HasSubstr("ask GET"));
    }
    EXPECT_THAT(talk.say(sent_to("https://files.example/")), HasSubstr("try_next"));
    EXPECT_TRUE(talk.made());
  }
  for (const char* const nowhere : {"", "http://[", "http://cdn.example/a/o"}) {
    Talk talk(replicate::kKind);
    at_its_file(talk);
    EXPECT_THAT(talk.say(sent_to(nowhere)), HasSubstr("try_next")) << nowhere;
  }
}

// Each answer holds what the job was given, files among it.
TEST(Replicate, AnAnswerMayHoldWhatWasSent) {
  GenerationRequest asked;
  asked.prompt = std::string(1'000'000, 'x');
  Talk talk(replicate::kKind, asked);
  talk.begin();
  const std::size_t sent = talk.ask().request.body.size();
  EXPECT_GT(talk.ask().request.body_max, sent + 1'000'000);
  talk.say(json(201, kReplicateTicket));
  EXPECT_GT(talk.ask().request.body_max, sent + 1'000'000);
}

TEST(Replicate, WhatItDoesNotReportIsNotKnown) {
  Talk talk(replicate::kKind);
  talk.begin();
  talk.say(json(201, kReplicateTicket));
  talk.say(json(200, R"({"status":"succeeded","output":"https://cdn.example/a","metrics":{}})"));
  EXPECT_EQ(talk.say(wav_file()), "audio");
  EXPECT_EQ(talk.billed(), std::nullopt);
}

// A machine was at work until then.
TEST(Replicate, WhatFailedIsBilledForItsTime) {
  Talk talk(replicate::kKind);
  talk.begin();
  talk.say(json(201, kReplicateTicket));
  talk.say(json(200, R"({"status":"failed","error":"x","metrics":{"predict_time":3.21}})"));
  EXPECT_EQ(talk.billed(), 3'210);
  Talk empty(replicate::kKind);
  empty.begin();
  empty.say(json(201, kReplicateTicket));
  EXPECT_EQ(empty.say(json(
                200, R"({"status":"succeeded","output":null,"metrics":{"predict_time":1.5}})")),
            "try_next: HTTP 200 no_audio");
  EXPECT_EQ(empty.billed(), 1'500);
  EXPECT_TRUE(empty.made());
}

TEST(Replicate, EndsAndOutputs) {
  const auto polled = [](const std::string& body, int status = 200) {
    Talk talk(replicate::kKind);
    talk.begin();
    talk.say(json(201, kReplicateTicket));
    return talk.say(json(status, body));
  };
  EXPECT_EQ(polled(R"({"status":"failed","error":"a private prompt"})"),
            "try_next: HTTP 200 failed");
  EXPECT_EQ(polled(R"({"status":"canceled"})"), "try_next: HTTP 200 canceled");
  EXPECT_EQ(polled(R"({"status":"aborted"})"), "try_next: HTTP 200 aborted");
  EXPECT_EQ(polled(R"({"status":"succeeded","output":null})"), "try_next: HTTP 200 no_audio");
  EXPECT_EQ(polled(R"({"status":"succeeded","output":"https://cdn.example/a"})"),
            "ask GET https://cdn.example/a");
  EXPECT_EQ(polled(R"({"status":"succeeded","output":{"audio":"https://cdn.example/b"}})"),
            "ask GET https://cdn.example/b");
  EXPECT_EQ(polled(R"({"status":"succeeded","output":"data:audio/wav;base64,)" +
                   encode_base64(tone_wav(0.2)) + "\"}"),
            "audio");
  EXPECT_EQ(polled(R"({"status":"succeeded","output":"data:audio/wav;base64,QQ"})"),
            "try_next: bad audio: data address");
  EXPECT_EQ(polled("{}", 404), "try_next: HTTP 404");
  EXPECT_EQ(polled("<html>", 502), "ask GET https://queue.example/p/p1");
}

// The answer about a job holds the file where it is a data: address. One that was larger than such
// answers may be was asked for again and again, and then somebody else was paid.
TEST(Replicate, AnAnswerMayHoldTheFile) {
  Talk talk(replicate::kKind);
  talk.begin();
  EXPECT_EQ(talk.say(json(201, "{}")), "unknown_outcome: HTTP 201 no_ticket");
  Talk taken(replicate::kKind);
  taken.begin();
  taken.say(json(201, kReplicateTicket));
  EXPECT_GE(taken.ask().request.body_max, std::size_t{30} << 20U);
  EXPECT_EQ(taken.say(http::ClientError{http::ClientFault::kTooLarge, "body"}),
            "unknown_outcome: the answer about the job is too large");
}

// All of them were the client's fault.
TEST(Replicate, WhoseFaultARefusalIs) {
  const auto refused = [](const std::string& body) {
    Talk talk(replicate::kKind);
    talk.begin();
    return talk.say(json(422, body));
  };
  const std::string begin = R"({"title":"Input validation failed","status":422,)";
  EXPECT_EQ(refused(begin + R"("detail":"- input.voice: voice must be one of \"a\""})"),
            "misconfigured: HTTP 422");
  EXPECT_EQ(refused(begin + R"("detail":"- input.prompt: voice, too long\n"})"),
            "unsupported_input: HTTP 422");
  EXPECT_EQ(refused(begin + R"("invalid_fields":[{"field":"input.steps"}],"detail":"m"})"),
            "misconfigured: HTTP 422");
  EXPECT_EQ(refused(begin + R"("invalid_fields":[{"field":"prompt"}]})"),
            "unsupported_input: HTTP 422");
  EXPECT_EQ(refused(begin + R"("detail":"- input: steps is required"})"),
            "broken_by_input: HTTP 422");
  EXPECT_EQ(refused(R"({"title":"Invalid version or not permitted","detail":"m"})"),
            "misconfigured: HTTP 422");
  EXPECT_EQ(refused("<html>"), "broken_by_input: HTTP 422");
}

TEST(Replicate, VersionsHaveTheirOwnForm) {
  auto entry = entry_of(replicate::kKind, kBase);
  entry.model = "owner/name:0123";
  entry.options["input"] = R"({"steps":4,"prompt":"not this"})";
  entry.options["audio_references_member"] = "clips";
  GenerationRequest asked;
  asked.prompt = "rain";
  asked.audio_references = {"https://a.example/1"};
  ProviderRequest call;
  call.request = std::make_shared<const GenerationRequest>(asked);
  const auto request =
      std::get<const PolledFormat*>(replicate::kKind.format)->submit(entry, call, 30s);
  EXPECT_EQ(request.url, "https://queue.example/predictions");
  EXPECT_EQ(
      request.body,
      R"({"version":"owner/name:0123","input":{"steps":4,"prompt":"rain","voice":"coral","clips":["https://a.example/1"]}})");
}

class Polled : public testing::TestWithParam<const ProviderKind*> {
 protected:
  static const char* ticket() { return is_fal() ? kFalTicket : kReplicateTicket; }
  static bool is_fal() { return GetParam() == &fal::kKind; }
};

// It is paid: whoever is asked instead is paid as well. For half of the call's time another is not.
TEST_P(Polled, AJobOnceTakenIsNotGivenUpLightly) {
  for (const std::chrono::seconds left : {10s, 90s, 600s}) {
    Talk talk(*GetParam());
    talk.begin(left);
    ASSERT_THAT(talk.say(json(200, ticket())), HasSubstr("ask GET"));
    std::chrono::milliseconds waited{0};
    std::string step;
    int heard = 0;
    for (;; ++heard) {
      switch (heard % 4) {
        case 0:
          step = talk.lose();
          break;
        case 1:
          // Of the provider, of what stands before it, of one that sends us elsewhere.
          step = talk.say(json(std::array{503, 500, 520, 425, 522, 529, 302, 409}.at(
                                   static_cast<std::size_t>(heard / 4) % 8),
                               "busy"));
          break;
        case 2:
          step = talk.say(json(200, "<html>"));
          break;
        default:
          step = talk.say(json(429, "{}"));
      }
      if (!step.starts_with("ask GET")) {
        break;
      }
      waited += talk.ask().delay;
    }
    EXPECT_EQ(step, "unknown_outcome: lost sight of the job after it was taken");
    EXPECT_GE(heard, 8);
    EXPECT_GE(waited, left / 2);
    EXPECT_LE(waited, std::max<std::chrono::milliseconds>(left / 2 + 6s, 40s));
  }
  // What was unclear and is not any more is forgotten.
  Talk talk(*GetParam());
  talk.begin();
  talk.say(json(200, ticket()));
  for (int i = 0; i < 40; ++i) {
    ASSERT_THAT(talk.lose(), HasSubstr("ask GET")) << i;
    ASSERT_THAT(talk.say(json(200, ticket())), HasSubstr("ask GET")) << i;
  }
}

// What is done, and cannot be had, is lost sight of like any other.
TEST(Fal, AResultThatIsNeverThereIsNotAskedForWithoutEnd) {
  Talk talk(fal::kKind);
  talk.begin(90s);
  talk.say(json(200, kFalTicket));
  std::string step;
  int rounds = 0;
  do {
    ASSERT_LT(++rounds, 200);
    talk.say(json(200, R"({"status":"COMPLETED"})"));
    EXPECT_EQ(talk.withdrawal(), "nothing") << "it is done";
    step = talk.say(json(503, "<html>"));
    EXPECT_EQ(talk.withdrawal(), "nothing");
  } while (step.starts_with("ask"));
  EXPECT_EQ(step, "unknown_outcome: lost sight of the job after it was taken");
}

// Where nobody tells us how it stands any more, it goes on for all we know; where we are told that
// it has ended, nothing does.
TEST_P(Polled, WhatMayGoOnIsStopped) {
  const auto after = [](http::ClientResponse answer) {
    Talk talk(*GetParam());
    talk.begin();
    talk.say(json(200, ticket()));
    const std::string cancel = talk.withdrawal();
    const std::string step = talk.say(std::move(answer));
    EXPECT_THAT(step, testing::Not(HasSubstr("ask")));
    EXPECT_TRUE(talk.withdrawal() == "nothing" || talk.withdrawal() == cancel);
    return talk.withdrawal() != "nothing";
  };
  for (const int status : {400, 401, 402, 403, 405, 410, 422}) {
    EXPECT_TRUE(after(json(status, "<html>"))) << status;
    EXPECT_TRUE(after(json(status, R"({"detail":"no"})"))) << status;
  }
  EXPECT_FALSE(after(json(404, R"({"detail":"gone"})")));
  EXPECT_FALSE(after(json(
      200, is_fal() ? R"({"status":"COMPLETED","error":"failed"})" : R"({"status":"failed"})")));
}

// It is paid, and told of before it is everywhere.
TEST_P(Polled, AFileThatIsNotThereYetIsLookedForAgain) {
  const auto asked = [](Talk& talk) {
    talk.begin();
    talk.say(json(200, ticket()));
    if (is_fal()) {
      talk.say(json(200, R"({"status":"COMPLETED"})"));
    }
    return talk.say(json(200,
                         is_fal() ? R"({"audio":{"url":"https://cdn.example/a"}})"
                                  : R"({"status":"succeeded","output":"https://cdn.example/a"})"));
  };
  Talk late(*GetParam());
  const std::string file = asked(late);
  ASSERT_EQ(file, "ask GET https://cdn.example/a");
  EXPECT_EQ(late.say(json(404, "")), file);
  EXPECT_GT(late.ask().delay, 500ms);
  EXPECT_EQ(late.say(json(403, "<Error/>")), file);
  EXPECT_EQ(late.say(wav_file()), "audio");

  Talk never(*GetParam());
  asked(never);
  int times = 1;
  while (never.say(json(404, "")) == file) {
    ++times;
  }
  EXPECT_EQ(times, 4);
  EXPECT_TRUE(never.made());
}

TEST_P(Polled, SubmissionThatMayHaveArrivedIsUnknown) {
  Talk talk(*GetParam());
  talk.begin();
  EXPECT_EQ(talk.lose(), "unknown_outcome: lost");
}

// Models name their inputs as they like; what an entry names none for is ours.
TEST_P(Polled, TheShapeIsTheModelsWhereTheEntryNamesItsInput) {
  GenerationRequest asked;
  asked.prompt = "rain";
  asked.speed = 1.5;
  asked.pitch = -2;
  asked.sample_rate = 44100;
  auto entry = entry_of(*GetParam(), kBase);
  entry.voices.clear();
  const auto& format = *std::get<const PolledFormat*>(GetParam()->format);
  const auto applied = [&] {
    Audio audio;
    format.mark_applied(entry, asked, audio);
    return std::to_string(audio.speed_applied) + " " + std::to_string(audio.pitch_applied);
  };
  const auto body = [&] { return format.submit(entry, request_of(asked), 30s).body; };
  EXPECT_THAT(body(), HasSubstr(R"({"prompt":"rain"})"));
  EXPECT_EQ(applied(), "1.000000 0.000000");
  entry.options["speed_member"] = "rate";
  entry.options["pitch_member"] = "key";
  entry.options["rate_member"] = "sample_rate";
  EXPECT_THAT(body(), HasSubstr(R"({"prompt":"rain","rate":1.5,"key":-2.0,"sample_rate":44100})"));
  EXPECT_EQ(applied(), "1.500000 -2.000000");
  asked.speed = 1.0;
  asked.pitch = 0.0;
  EXPECT_THAT(body(), HasSubstr(R"({"prompt":"rain","sample_rate":44100})"));
}

// A whole provider, file included, behind the double.
DoubleReply play(const ProviderKind& kind,
                 const std::string& base,
                 const DoubleCall& call,
                 bool ready) {
  DoubleReply out;
  out.headers = {"Content-Type: application/json"};
  if (call.target == "/file") {
    out.headers = {"Content-Type: audio/wav"};
    out.body = tone_wav(0.5);
  } else if (call.method == "POST" && call.target != "/cancel") {
    out.body =
        &kind == &fal::kKind
            ? R"({"status_url":")" + base + R"(/status","response_url":")" + base +
                  R"(/result","cancel_url":")" + base + R"(/cancel"})"
            : R"({"urls":{"get":")" + base + R"(/status","cancel":")" + base + R"(/cancel"}})";
  } else if (call.target == "/result") {
    out.body = R"({"audio":{"url":")" + base + R"(/file"}})";
  } else if (&kind == &fal::kKind) {
    out.body = ready ? R"({"status":"COMPLETED"})" : R"({"status":"IN_QUEUE"})";
  } else {
    out.body = ready ? R"({"status":"succeeded","output":")" + base + R"(/file"})"
                     : R"({"status":"processing"})";
  }
  return out;
}

TEST_P(Polled, OverTheWire) {
  std::atomic<int> polls{0};
  std::string base;
  ProviderDouble server([&](const DoubleCall& call) {
    return play(*GetParam(), base, call, call.target == "/status" && polls.fetch_add(1) > 0);
  });
  base = server.url();
  http::Client client;
  const auto provider = make_provider(entry_of(*GetParam(), base), client);
  const auto result = generate(*provider);
  ASSERT_TRUE(result) << result.error().detail;
  EXPECT_EQ(result->bytes, tone_wav(0.5));
  for (const DoubleCall& call : server.calls()) {
    EXPECT_EQ(call.header("authorization").empty(), call.target == "/file") << call.target;
  }
}

TEST_P(Polled, CancelAndTimeoutTellTheProvider) {
  std::string base;
  ProviderDouble server(
      [&](const DoubleCall& call) { return play(*GetParam(), base, call, false); });
  base = server.url();
  const auto count = [&](const std::string& target) {
    std::size_t out = 0;
    for (const DoubleCall& call : server.calls()) {
      out += call.target == target ? 1U : 0U;
    }
    return out;
  };
  http::Client client;
  auto entry = entry_of(*GetParam(), base);
  entry.timeout = 5s;  // The job is handed over by then.
  // What is another's by now is left to him, however it ends here.
  auto provider = make_provider(entry, client);
  ProviderRequest another = request_of();
  another.is_ours = [] { return false; };
  another.on_ticket = [](const std::string&) { return true; };
  another.facts = std::make_shared<CallFacts>();
  const auto facts = another.facts;
  EXPECT_EQ(outcome(generate(*provider, std::move(another))), "unknown_outcome");
  EXPECT_TRUE(facts->goes_on);
  EXPECT_EQ(count("/cancel"), 0U);

  // But what its owner has canceled is nobody's.
  entry.timeout = 120s;
  provider = make_provider(entry, client);
  ProviderRequest owned = request_of();
  owned.is_ours = [] { return false; };
  owned.on_ticket = [](const std::string&) { return true; };
  auto running = start(*provider, std::move(owned));
  const std::size_t asked = count("/status");
  ASSERT_TRUE(server.wait_until([&] { return count("/status") > asked; }));
  running.call->cancel();
  EXPECT_EQ(outcome(wait(running)), "canceled");
  EXPECT_TRUE(server.wait_until([&] { return count("/cancel") == 1; }));

  entry.timeout = 5s;
  provider = make_provider(entry, client);
  EXPECT_EQ(outcome(generate(*provider)), "unknown_outcome");
  EXPECT_TRUE(server.wait_until([&] { return count("/cancel") == 2; }));
}

// Whoever made a call may be gone before its answer: by its ticket anybody else goes on with it.
TEST_P(Polled, WhatIsLeftIsGoneOnWithByItsTicket) {
  std::atomic<bool> ready{false};
  std::string base;
  ProviderDouble server([&](const DoubleCall& call) {
    return play(*GetParam(), base, call, call.target == "/status" && ready);
  });
  base = server.url();
  const auto count = [&](std::string_view method, std::string_view target) {
    const auto calls = server.calls();
    return std::count_if(calls.begin(), calls.end(), [&](const DoubleCall& call) {
      return call.method == method && (target.empty() || call.target == target);
    });
  };
  http::Client client;
  const auto provider = make_provider(entry_of(*GetParam(), base), client);
  ASSERT_TRUE(provider->capabilities().gives_tickets);
  std::promise<std::string> given;
  ProviderRequest first = request_of();
  first.on_ticket = [&](const std::string& ticket) {
    given.set_value(ticket);
    return true;
  };
  auto left = start(*provider, std::move(first));
  ASSERT_TRUE(server.wait_until([&] { return count("GET", "/status") >= 1; }));
  left.call->leave();
  EXPECT_EQ(outcome(wait(left)), "canceled");

  ready = true;
  ProviderRequest second = request_of();
  second.ticket = given.get_future().get();
  std::promise<std::string> again;
  second.on_ticket = [&](const std::string& ticket) {
    again.set_value(ticket);
    return true;
  };
  const std::string ticket = second.ticket;
  const auto result = generate(*provider, std::move(second));
  ASSERT_TRUE(result) << result.error().detail;
  EXPECT_EQ(again.get_future().get(), ticket) << "so that it can be gone on with once more";
  EXPECT_EQ(
      count("POST", GetParam() == &fal::kKind ? "/owner/app" : "/models/owner/app/predictions"), 1)
      << "it was made twice";
  EXPECT_EQ(count("POST", "/cancel") + count("PUT", "/cancel"), 0) << "it was withdrawn";
}

// A job that is being handed over may be taken there, and paid, whatever we do. Who leaves then
// waits for its ticket, and withdraws the job only if nobody can go on with it.
TEST_P(Polled, WhoLeavesWithdrawsWhatNobodyCanGoOnWith) {
  struct Case {
    const char* name;
    bool during_hand_over, kept, resumed, withdrawn;
    bool canceled = false;
  };
  for (const Case& c : {Case{"kept, and left before", true, true, false, false},
                        Case{"not kept, and left before", true, false, false, true},
                        Case{"kept, and left after", false, true, false, false},
                        Case{"not kept, and left after", false, false, false, true},
                        Case{"of somebody else, too", false, false, true, false},
                        Case{"canceled before", true, true, false, true, true}}) {
    SCOPED_TRACE(c.name);
    std::string base;
    std::atomic<bool> handed_over{!c.during_hand_over};
    ProviderDouble server([&](const DoubleCall& call) {
      handed_over.wait(false);
      return play(*GetParam(), base, call, false);
    });
    base = server.url();
    const auto asked = [&](std::string_view target) {
      const auto calls = server.calls();
      return std::any_of(calls.begin(), calls.end(), [&](const DoubleCall& call) {
        return call.target == target;
      });
    };
    http::Client client;
    const auto provider = make_provider(entry_of(*GetParam(), base), client);
    std::string ticket;
    if (c.resumed) {
      std::promise<std::string> given;
      ProviderRequest first = request_of();
      first.on_ticket = [&](const std::string& it) {
        given.set_value(it);
        return true;
      };
      auto running = start(*provider, std::move(first));
      ASSERT_TRUE(server.wait_until([&] { return asked("/status"); }));
      running.call->leave();
      ASSERT_EQ(outcome(wait(running)), "canceled");
      ticket = given.get_future().get();
    }
    std::atomic<bool> given{false};
    ProviderRequest request = request_of();
    request.ticket = ticket;
    request.facts = std::make_shared<CallFacts>();
    request.on_ticket = [&](const std::string&) {
      given = true;
      return c.kept;
    };
    const auto facts = request.facts;
    const std::size_t before = server.call_count();
    auto running = start(*provider, std::move(request));
    ASSERT_TRUE(server.wait_until(
        [&] { return server.call_count() > before && (given || c.during_hand_over); }));
    c.canceled ? running.call->cancel() : running.call->leave();
    client.after(0ms, [&] {  // It has taken that by now.
      handed_over = true;
      handed_over.notify_all();
    });
    EXPECT_EQ(outcome(wait(running)), "canceled");
    EXPECT_NE(given.load(), c.canceled) << "what is withdrawn is kept for nobody";
    EXPECT_EQ(facts->goes_on, !c.withdrawn);
    if (c.withdrawn) {
      EXPECT_TRUE(server.wait_until([&] { return asked("/cancel"); }));
    }
  }
}

// A worker that ends does not wait for a provider that says nothing.
TEST_P(Polled, WhoLeavesDoesNotWaitForATicketForEver) {
  ProviderDouble server(
      [](const DoubleCall&) { return DoubleReply{.form = DoubleReply::Form::kHang}; });
  http::Client client;
  auto entry = entry_of(*GetParam(), server.url());
  entry.timeout = 120s;
  const auto provider = make_provider(entry, client);
  ProviderRequest request = request_of();
  request.on_ticket = [](const std::string&) { return true; };
  auto running = start(*provider, std::move(request));
  ASSERT_TRUE(server.wait_until([&] { return server.call_count() == 1; }));
  running.call->leave();
  EXPECT_EQ(outcome(wait(running)), "canceled");
}

TEST_P(Polled, ATicketOfAnotherAddressGetsNoKey) {
  ProviderDouble canary([](const DoubleCall&) { return DoubleReply{}; });
  http::Client client;
  const auto provider = make_provider(entry_of(*GetParam(), kBase), client);
  ProviderRequest request = request_of();
  request.ticket = canary.url() + "/status\n\n";
  EXPECT_EQ(outcome(generate(*provider, std::move(request))), "not_called") << "nobody failed";
  EXPECT_EQ(canary.connections(), 0U);
}

// It was made too long ago, or is another account's by now: that says nothing of the next one.
TEST_P(Polled, AJobThatIsGoneIsNobodysFailure) {
  ProviderDouble server([](const DoubleCall&) {
    return DoubleReply{.status = 404, .body = R"({"detail":"Not Found"})"};
  });
  http::Client client;
  const auto provider = make_provider(entry_of(*GetParam(), server.url()), client);
  ProviderRequest request = request_of();
  request.ticket = server.url() + "/status\n" + server.url() + "/result\n";
  EXPECT_EQ(outcome(generate(*provider, std::move(request))), "not_called");
  EXPECT_EQ(server.call_count(), 1U);
}

// There is one, and its audio is gone: the next one of this provider would not be better.
TEST_P(Polled, AJobThatIsKnownAndGoneIsAFailure) {
  for (const bool ready : {false, true}) {
    std::atomic<int> asked{0};
    std::string base;
    ProviderDouble server([&](const DoubleCall& call) {
      return asked++ == 0 ? play(*GetParam(), base, call, ready)
                          : DoubleReply{.status = 404, .body = R"({"detail":"Not Found"})"};
    });
    base = server.url();
    http::Client client;
    const auto provider = make_provider(entry_of(*GetParam(), base), client);
    ProviderRequest request = request_of();
    request.ticket = base + "/status\n" + base + "/result\n";
    const auto gone = generate(*provider, std::move(request));
    ASSERT_EQ(outcome(gone), "try_next");
    EXPECT_EQ(gone.error().made, ready) << "what was done is billed";
  }
}

TEST_P(Polled, AFileOnAPrivateAddressIsNotFetched) {
  ProviderDouble canary([](const DoubleCall&) { return DoubleReply{.body = tone_wav(0.5)}; });
  http::Client client;
  auto request = http::ClientRequest{};
  Talk talk(*GetParam());
  talk.begin();
  talk.say(json(200, ticket()));
  const std::string file = canary.url() + "/file";
  if (is_fal()) {
    talk.say(json(200, R"({"status":"COMPLETED"})"));
    talk.say(json(200, R"({"audio":{"url":")" + file + R"("}})"));
  } else {
    talk.say(json(200, R"({"status":"succeeded","output":")" + file + R"("})"));
  }
  request = talk.ask().request;
  ASSERT_EQ(request.url, file);
  std::promise<Heard> promise;
  client.start(request, [&](Heard answer) { promise.set_value(std::move(answer)); });
  auto answer = promise.get_future();
  ASSERT_EQ(answer.wait_for(kPatience), std::future_status::ready);
  EXPECT_THAT(talk.say(answer.get()), HasSubstr("try_next"));
  EXPECT_EQ(canary.connections(), 0U);
}

http::ClientRequest asking(std::string url) {
  http::ClientRequest out;
  out.url = std::move(url);
  return out;
}

// Asks once, answers `fault` to whatever comes, and may have something to withdraw.
class OneQuestion final : public Dialogue {
 public:
  OneQuestion(std::string base, Fault fault, bool goes_on)
      : base_(std::move(base)), fault_(fault), goes_on_(goes_on) {}
  Step begin(std::chrono::seconds /*left*/) override { return Ask{to("/job")}; }
  Step heard(Heard /*answer*/) override { return ProviderFault{fault_, "d", std::nullopt}; }
  std::optional<http::ClientRequest> withdraw() const override {
    return goes_on_ ? std::optional(to("/cancel")) : std::nullopt;
  }

 private:
  http::ClientRequest to(const std::string& path) const { return asking(base_ + path); }
  const std::string base_;
  const Fault fault_;
  const bool goes_on_;
};

constexpr const char* kTrace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

TEST(RemoteProvider, WithdrawsWhatMayGoOnWhateverEndsTheCall) {
  ProviderDouble server([](const DoubleCall&) { return DoubleReply{}; });
  http::Client client;
  for (const auto& [fault, goes_on] : {std::pair(Fault::kTryNext, false),
                                       std::pair(Fault::kTryNext, true),
                                       std::pair(Fault::kUnknownOutcome, true)}) {
    RemoteOptions options;
    options.open = [&, fault = fault, goes_on = goes_on](const ProviderRequest&) {
      return std::make_unique<OneQuestion>(server.url(), fault, goes_on);
    };
    RemoteProvider provider(std::move(options), client);
    ProviderRequest request = request_of();
    request.span = parse_traceparent(kTrace);
    EXPECT_EQ(outcome(generate(provider, std::move(request))), fault_name(fault));
  }
  ASSERT_TRUE(server.wait_until([&] { return server.call_count() == 5; }));
  std::vector<std::string> targets;
  for (const DoubleCall& call : server.calls()) {
    targets.push_back(call.target);
    EXPECT_EQ(call.header("traceparent"), kTrace) << call.target;
  }
  EXPECT_THAT(targets, testing::UnorderedElementsAre("/job", "/job", "/cancel", "/job", "/cancel"));
}

// A job and its file, of which the first answer is too long to be read whatever else is kept.
class TwoQuestions final : public Dialogue {
 public:
  explicit TwoQuestions(std::string base) : base_(std::move(base)) {}
  Step begin(std::chrono::seconds /*left*/) override { return Ask{to("/job")}; }
  Step heard(Heard answer) override {
    if (!answer) {
      return wire::fault_of(answer.error());
    }
    return std::exchange(taken_, true) ? Step(Audio{}) : Step(Ask{to("/file")});
  }
  std::string ticket() const override { return taken_ ? "t" : ""; }
  std::optional<http::ClientRequest> withdraw() const override { return to("/cancel"); }

 private:
  http::ClientRequest to(const std::string& path) const { return asking(base_ + path); }
  const std::string base_;
  bool taken_ = false;
};

// What waits at our door has been made in time: it was withdrawn, thrown away and paid again
// elsewhere once the blob store was there again.
TEST(RemoteProvider, AnAnswerThatWaitsForOurRoomIsInTime) {
  ProviderDouble server(
      [](const DoubleCall&) { return DoubleReply{.body = std::string(100'000, 'x')}; });
  http::Client client({.bodies_max = 1});
  auto kept = client.keep(1);
  RemoteOptions options;
  options.timeout = 2s;
  options.open = [&](const ProviderRequest&) {
    return std::make_unique<TwoQuestions>(server.url());
  };
  RemoteProvider provider(std::move(options), client);
  ProviderRequest request = request_of();
  std::atomic<bool> ticket{false};
  request.on_ticket = [&](const std::string&) { return ticket = true; };
  request.facts = std::make_shared<CallFacts>();
  const auto facts = request.facts;
  auto running = start(provider, std::move(request));
  ASSERT_TRUE(eventually(kPatience, [&] { return running.call->is_unread(); }));
  client.after(4s, [&] { kept.reset(); });
  EXPECT_EQ(outcome(wait(running)), "audio");
  EXPECT_FALSE(running.call->is_unread());
  EXPECT_TRUE(ticket);
  EXPECT_GE(facts->unread, 4s);
}

INSTANTIATE_TEST_SUITE_P(Kinds,
                         Polled,
                         testing::ValuesIn(kinds_of<const PolledFormat*>()),
                         name_of);

}  // namespace
}  // namespace audiogen::test
