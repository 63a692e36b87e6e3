#include "worker/chain/chain.h"

#include <future>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "tests/worker/fake_provider.h"
#include "worker/local/local_provider.h"

namespace audiogen::worker {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

struct Row {
  Fault fault;
  std::optional<seconds> retry_after;
  Standing standing;
  NextStep step;
  FailureCode failure;
};

TEST(AfterFault, Table) {
  constexpr auto kUnavailable = FailureCode::kProviderUnavailable;
  const Standing first{.tries = 1, .another = true, .time_left = seconds(600)};
  const Standing last{.tries = 1, .another = false, .time_left = seconds(600)};
  const Standing third{.tries = 3, .another = true, .time_left = seconds(600)};
  const Standing third_last{.tries = 3, .another = false, .time_left = seconds(600)};
  const Standing only_later{.another = false, .later = true, .time_left = seconds(600)};
  const Standing both{.another = true, .later = true, .time_left = seconds(600)};
  const Standing late{.tries = 1, .another = true, .time_left = seconds(9)};
  const std::vector<Row> rows = {
      {Fault::kRetrySame, {}, first, NextStep::kSameProvider, kUnavailable},
      {Fault::kRetrySame, {}, last, NextStep::kSameProvider, kUnavailable},
      {Fault::kRetrySame, {}, third, NextStep::kNextProvider, kUnavailable},
      {Fault::kRetrySame, {}, third_last, NextStep::kRetryLater, kUnavailable},
      {Fault::kRetrySame, {}, late, NextStep::kNextProvider, kUnavailable},
      {Fault::kRetrySame, seconds(20), first, NextStep::kSameProvider, kUnavailable},
      {Fault::kRetrySame, seconds(21), first, NextStep::kNextProvider, kUnavailable},
      {Fault::kTryNext, {}, first, NextStep::kNextProvider, kUnavailable},
      {Fault::kTryNext, {}, last, NextStep::kRetryLater, kUnavailable},
      {Fault::kBrokenByInput, {}, first, NextStep::kNextProvider, kUnavailable},
      {Fault::kBrokenByInput, {}, last, NextStep::kRetryLater, kUnavailable},
      {Fault::kUnknownOutcome, {}, first, NextStep::kNextProvider, kUnavailable},
      {Fault::kUnknownOutcome, {}, last, NextStep::kRetryLater, kUnavailable},
      {Fault::kRejected, {}, first, NextStep::kFail, FailureCode::kContentRejected},
      {Fault::kUnsupportedInput, {}, first, NextStep::kNextProvider, kUnavailable},
      {Fault::kUnsupportedInput, {}, last, NextStep::kFail, FailureCode::kUnsupportedInput},
      // Another could have served it, and may when it works again.
      {Fault::kUnsupportedInput, {}, only_later, NextStep::kRetryLater, kUnavailable},
      {Fault::kUnsupportedInput, {}, both, NextStep::kNextProvider, kUnavailable},
      // Refused content stays refused.
      {Fault::kRejected, {}, only_later, NextStep::kFail, FailureCode::kContentRejected},
      {Fault::kCanceled, {}, first, NextStep::kGiveBack, FailureCode::kInternalError},
  };
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Decision decision =
        after_fault({rows[i].fault, "", rows[i].retry_after}, rows[i].standing);
    EXPECT_EQ(decision.step, rows[i].step) << i;
    EXPECT_EQ(decision.failure, rows[i].failure) << i;
  }
}

TEST(AfterFault, WaitsGrowSpreadAndHonourRetryAfter) {
  Standing standing{.tries = 1, .another = false, .time_left = seconds(600)};
  const ProviderFault busy{Fault::kRetrySame, "", std::nullopt};
  EXPECT_EQ(after_fault(busy, standing).wait, milliseconds(250));
  standing.tries = 2;
  EXPECT_EQ(after_fault(busy, standing).wait, milliseconds(500));
  standing.jitter = 1;
  EXPECT_EQ(after_fault(busy, standing).wait, milliseconds(750));
  standing.jitter = -1;
  EXPECT_EQ(after_fault(busy, standing).wait, milliseconds(250));
  EXPECT_EQ(after_fault({Fault::kRetrySame, "", seconds(7)}, standing).wait, seconds(7));
}

std::unique_ptr<AudioProvider> provider(const char* name,
                                        bool references,
                                        bool image,
                                        std::vector<std::string> voices = {}) {
  Capabilities able;
  able.audio_references = references;
  able.image = image;
  able.voices = std::move(voices);
  return std::make_unique<FakeProvider>(name, able);
}

Chain three() {
  std::vector<std::unique_ptr<AudioProvider>> providers;
  providers.push_back(provider("plain", false, false, {"aria"}));
  providers.push_back(provider("references", true, false));
  providers.push_back(provider("images", false, true));
  return Chain(std::move(providers));
}

TEST(Chain, ChoosesTheFirstThatCan) {
  const Chain chain = three();
  GenerationRequest request;
  EXPECT_EQ(chain.choose(request, 0), 0U);
  EXPECT_EQ(chain.choose(request, 1), 1U);
  request.voice = "atlas";
  EXPECT_EQ(chain.choose(request, 0), 1U);
  request.audio_references = {"https://a.example/a"};
  EXPECT_EQ(chain.choose(request, 0), 1U);
  EXPECT_EQ(chain.choose(request, 2), std::nullopt);
  request.audio_references.clear();
  request.image_url = "https://a.example/i";
  EXPECT_EQ(chain.choose(request, 0), 2U);
  EXPECT_EQ(chain.find("images"), 2U);
  EXPECT_EQ(chain.find("nobody"), std::nullopt);
}

TEST(Chain, ServesUnlessAllWhoCouldSaidTheyCannot) {
  const Chain chain = three();
  GenerationRequest request;
  request.voice = "aria";
  const std::vector<std::size_t> first = {0};
  const std::vector<std::size_t> all = {2, 0, 1};
  EXPECT_TRUE(chain.serves(request, first));
  EXPECT_FALSE(chain.serves(request, all));
  request.image_url = "https://a.example/i";
  EXPECT_TRUE(chain.serves(request, first));
  EXPECT_FALSE(chain.serves(request, std::vector<std::size_t>{2}));
}

TEST(Chain, KeepsToTheLongestPromptInCharacters) {
  Capabilities able;
  able.prompt_max = 3;
  std::vector<std::unique_ptr<AudioProvider>> providers;
  providers.push_back(std::make_unique<FakeProvider>("short", able));
  const Chain chain(std::move(providers));
  GenerationRequest request;
  request.prompt = "\xF0\x9F\x98\x80\xC3\xA9x";  // Seven bytes, three characters.
  EXPECT_TRUE(chain.serves(request));
  EXPECT_EQ(chain.choose(request, 0), 0U);
  request.prompt += "y";
  EXPECT_FALSE(chain.serves(request));
  EXPECT_EQ(chain.choose(request, 0), std::nullopt);
}

TEST(Chain, PassesOverOpenBreakersButStillServes) {
  const Chain chain = three();
  GenerationRequest request;
  request.voice = "aria";
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(chain.admit(0) || i >= 10);
    chain.failed(0, Fault::kUnknownOutcome);
  }
  EXPECT_FALSE(chain.admit(0));
  EXPECT_EQ(chain.choose(request, 0), 1U);
  EXPECT_TRUE(chain.serves(request));
  EXPECT_NE(chain.status_json().find(R"({"name":"plain","state":"open")"), std::string::npos);
}

TEST(Chain, RefusedContentIsNoFailureOfTheProvider) {
  const Chain chain = three();
  for (int i = 0; i < 50; ++i) {
    chain.failed(0, Fault::kRejected);
    chain.failed(0, Fault::kUnsupportedInput);
    chain.failed(0, Fault::kCanceled);
  }
  EXPECT_TRUE(chain.admit(0));
}

// As a success it would hide what fails for everybody.
TEST(Chain, ATextThatCrashesTheEngineIsNoSuccessEither) {
  const Chain chain = three();
  for (int i = 0; i < 20; ++i) {
    chain.failed(0, Fault::kBrokenByInput);
    chain.failed(0, Fault::kBrokenByInput);
    chain.failed(0, Fault::kTryNext);
  }
  EXPECT_FALSE(chain.admit(0));
}

// The breaker of the local engine after `count` texts were given to the helper `program`.
bool admits_after(const std::string& program, int count, milliseconds time_max = seconds(60)) {
  std::vector<std::unique_ptr<AudioProvider>> providers;
  providers.push_back(std::make_unique<LocalProvider>(
      LocalOptions{.helper_path = program, .threads = 1, .time_max = time_max}));
  const Chain chain(std::move(providers));
  for (int i = 0; i < count && chain.admit(0); ++i) {
    auto request = std::make_shared<GenerationRequest>();
    request->prompt = "Hello";
    std::promise<Result<Audio, ProviderFault>> promise;
    const auto call = chain.at(0).start(
        {.request = request, .request_key = "k", .deadline = Clock::now() + seconds(60)},
        [&](auto answer) { promise.set_value(std::move(answer)); });
    const auto answer = promise.get_future().get();
    EXPECT_FALSE(answer);
    chain.failed(0, answer.error().fault);
  }
  return chain.admit(0);
}

// The child dies on each text, the helper lives: one user's texts are not everybody's outage. A
// helper that cannot run is.
TEST(Chain, ATextThatCrashesTheEngineIsNoFailureOfTheProvider) {
  EXPECT_TRUE(admits_after(std::string(AUDIOGEN_BIN_DIR) + "/crashing-speech", 30));
  EXPECT_FALSE(admits_after("/nowhere/audio-speech", 30));
}

// Nor does it have one of the few threads for minutes.
TEST(Chain, ATextThatTakesTooLongIsNoFailureOfTheProvider) {
  EXPECT_TRUE(
      admits_after(std::string(AUDIOGEN_BIN_DIR) + "/hanging-speech", 12, milliseconds(50)));
}

TEST(CurrentChain, AReplacedOneLivesAsLongAsItIsUsed) {
  const auto make = [] {
    return std::make_shared<const Chain>(std::vector<std::unique_ptr<AudioProvider>>());
  };
  CurrentChain current(make());
  std::shared_ptr<const Chain> old = current.get();
  const std::weak_ptr<const Chain> watched = old;
  current.replace(make());
  EXPECT_NE(current.get(), old);
  current.collect();
  EXPECT_FALSE(watched.expired());
  old.reset();
  EXPECT_FALSE(watched.expired()) << "destroyed only by collect()";
  current.collect();
  EXPECT_TRUE(watched.expired());
}

}  // namespace
}  // namespace audiogen::worker
