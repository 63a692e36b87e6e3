#include "worker/chain/chain.h"

#include <future>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "common/domain/voices.h"
#include "tests/support/places.h"
#include "tests/support/wait.h"
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
  const Standing last_of_all{.nobody = Trouble::kNobodyCan, .time_left = seconds(600)};
  const Standing both{.another = true, .time_left = seconds(600)};
  const Standing uncalled{.called = false, .time_left = seconds(600)};
  const Standing untaken{.tries = 3, .called = false, .time_left = seconds(600)};
  const Standing uncalled_late{
      .called = false, .nobody = Trouble::kOutOfTime, .time_left = seconds(5)};
  const Standing uncalled_first{.called = false, .another = true, .time_left = seconds(600)};
  const Standing slow{.another = true, .time_left = seconds(30), .call_time = seconds(30)};
  const Standing late{.tries = 1, .another = true, .time_left = seconds(9)};
  const Standing shut{.called = false, .time_left = seconds(600), .closed = seconds(3)};
  const Standing shut_first{.another = true, .time_left = seconds(600), .closed = seconds(3)};
  const Standing shut_last{.time_left = seconds(600), .closed = seconds(3)};
  const std::vector<Row> rows = {
      {Fault::kRetrySame, {}, first, NextStep::kSameProvider, kUnavailable},
      {Fault::kRetrySame, {}, last, NextStep::kSameProvider, kUnavailable},
      {Fault::kRetrySame, {}, third, NextStep::kNextProvider, kUnavailable},
      {Fault::kRetrySame, {}, third_last, NextStep::kRetryLater, kUnavailable},
      {Fault::kRetrySame, {}, late, NextStep::kNextProvider, kUnavailable},
      {Fault::kRetrySame, seconds(2), first, NextStep::kSameProvider, kUnavailable},
      {Fault::kThrottled, seconds(2), first, NextStep::kSameProvider, kUnavailable},
      {Fault::kThrottled, seconds(3), first, NextStep::kNextProvider, kUnavailable},
      {Fault::kThrottled, seconds(3), last, NextStep::kRetryLater, kUnavailable},
      // Nobody has taken it: it comes again, however often it is told "later".
      {Fault::kThrottled, seconds(3), uncalled, NextStep::kGiveBack, kUnavailable},
      {Fault::kThrottled, {}, untaken, NextStep::kGiveBack, kUnavailable},
      {Fault::kThrottled, {}, uncalled_late, NextStep::kFail, FailureCode::kDeadlineExceeded},
      {Fault::kThrottled, seconds(3), uncalled_first, NextStep::kNextProvider, kUnavailable},
      {Fault::kThrottled, {}, third, NextStep::kNextProvider, kUnavailable},
      {Fault::kRetrySame, seconds(3), first, NextStep::kNextProvider, kUnavailable},
      // Nobody waits here for a breaker that stays shut.
      {Fault::kThrottled, {}, shut, NextStep::kGiveBack, kUnavailable},
      {Fault::kRetrySame, {}, shut_first, NextStep::kNextProvider, kUnavailable},
      {Fault::kRetrySame, {}, shut_last, NextStep::kRetryLater, kUnavailable},
      {Fault::kTryNext, {}, first, NextStep::kNextProvider, kUnavailable},
      {Fault::kTryNext, {}, last, NextStep::kRetryLater, kUnavailable},
      {Fault::kMisconfigured, {}, first, NextStep::kNextProvider, kUnavailable},
      {Fault::kMisconfigured, {}, last, NextStep::kRetryLater, kUnavailable},
      {Fault::kBrokenByInput, {}, first, NextStep::kNextProvider, kUnavailable},
      {Fault::kBrokenByInput, {}, last, NextStep::kRetryLater, kUnavailable},
      {Fault::kUnknownOutcome, {}, first, NextStep::kNextProvider, kUnavailable},
      {Fault::kUnknownOutcome, {}, last, NextStep::kRetryLater, kUnavailable},
      {Fault::kRejected, {}, first, NextStep::kFail, FailureCode::kContentRejected},
      {Fault::kUnsupportedInput, {}, first, NextStep::kNextProvider, kUnavailable},
      {Fault::kUnsupportedInput, {}, last_of_all, NextStep::kFail, FailureCode::kUnsupportedInput},
      // Another could have served it, and may when it works again.
      {Fault::kUnsupportedInput, {}, last, NextStep::kRetryLater, kUnavailable},
      {Fault::kUnsupportedInput, {}, both, NextStep::kNextProvider, kUnavailable},
      {Fault::kUnsupportedInput, {}, uncalled, NextStep::kGiveBack, kUnavailable},
      // Refused content stays refused.
      {Fault::kRejected, {}, last, NextStep::kFail, FailureCode::kContentRejected},
      {Fault::kCanceled, {}, first, NextStep::kGiveBack, FailureCode::kInternalError},
      // A call that would not end in time is not made.
      {Fault::kRetrySame, {}, slow, NextStep::kNextProvider, kUnavailable},
      // No time is left for anybody else either.
      {Fault::kOutOfTime, {}, first, NextStep::kFail, FailureCode::kDeadlineExceeded},
      // Where nobody was called no attempt is used up.
      {Fault::kNotCalled, {}, uncalled, NextStep::kGiveBack, kUnavailable},
      {Fault::kNotCalled, {}, uncalled_first, NextStep::kNextProvider, kUnavailable},
      {Fault::kNotCalled, {}, uncalled_late, NextStep::kFail, FailureCode::kDeadlineExceeded},
      {Fault::kNotCalled, {}, last, NextStep::kRetryLater, kUnavailable},
      {Fault::kNotCalled, {}, first, NextStep::kNextProvider, kUnavailable},
  };
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Decision decision =
        after_fault({rows[i].fault, "", rows[i].retry_after}, rows[i].standing);
    EXPECT_EQ(decision.step, rows[i].step) << i;
    EXPECT_EQ(decision.failure, rows[i].failure) << i;
  }
}

TEST(AfterFault, WhatNoVoiceReadsIsToldApart) {
  ProviderFault fault{Fault::kUnsupportedInput, "", std::nullopt};
  Standing standing{.nobody = Trouble::kNobodyCan, .time_left = seconds(600)};
  EXPECT_EQ(after_fault(fault, standing).trouble, Trouble::kNobodyCan);
  fault.no_voice = true;
  EXPECT_EQ(after_fault(fault, standing).trouble, Trouble::kNobodyReads);
  EXPECT_EQ(after_fault(fault, standing).failure, FailureCode::kUnsupportedInput);
  standing.another = true;
  EXPECT_EQ(after_fault(fault, standing).step, NextStep::kNextProvider);
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
  EXPECT_EQ(after_fault({Fault::kRetrySame, "", seconds(2)}, standing).wait, seconds(2));
  standing.closed = milliseconds(1900);
  EXPECT_EQ(after_fault(busy, standing).wait, milliseconds(1900)) << "else it were not let in";
}

constexpr TaskTime kTime{.left = seconds(600), .whole = seconds(900)};

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
  EXPECT_EQ(chain.choose(request, 0, kTime), 0U);
  EXPECT_EQ(chain.choose(request, 1, kTime), 1U);
  request.voice = "atlas";
  EXPECT_EQ(chain.choose(request, 0, kTime), 1U);
  request.audio_references = {"https://a.example/a"};
  EXPECT_EQ(chain.choose(request, 0, kTime), 1U);
  EXPECT_EQ(chain.choose(request, 2, kTime), std::nullopt);
  request.audio_references.clear();
  request.image_url = "https://a.example/i";
  EXPECT_EQ(chain.choose(request, 0, kTime), 2U);
  EXPECT_EQ(chain.find("images"), 2U);
  EXPECT_EQ(chain.find("nobody"), std::nullopt);
}

// A scene was read aloud, cues and all, by the first narrator of the chain.
TEST(Chain, ASceneIsMadeIfAnybodyCan) {
  Capabilities narrates, makes;
  makes.scenes = true;
  makes.voices = {"aria"};
  std::vector<std::unique_ptr<AudioProvider>> providers;
  providers.push_back(std::make_unique<FakeProvider>("narrator", narrates));
  providers.push_back(std::make_unique<FakeProvider>("maker", makes));
  providers.push_back(std::make_unique<FakeProvider>("other narrator", narrates));
  const Chain chain(std::move(providers));
  GenerationRequest request;
  request.prompt = "Who is there?";
  EXPECT_EQ(chain.choose(request, 0, kTime), 0U) << "whoever makes scenes narrates, too";
  EXPECT_TRUE(chain.is_fallback(request, 1));
  // The voice may say the same of any prompt, and then it is nobody's.
  request.voice = kSceneVoice;
  EXPECT_EQ(chain.choose(request, 0, kTime), 1U);
  EXPECT_EQ(chain.choose(request, 2, kTime), std::nullopt);
  request.voice.reset();
  request.prompt = "[thunder] Who is there?";
  EXPECT_EQ(chain.choose(request, 0, kTime), 1U);
  EXPECT_FALSE(chain.is_fallback(request, 1));
  EXPECT_EQ(chain.choose(request, 2, kTime), std::nullopt) << "nor after it has failed";
  request.voice = "atlas";
  EXPECT_EQ(chain.choose(request, 0, kTime), 0U) << "nobody can make it in that voice";
  // It waits for the one that can.
  request.voice = "aria";
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(chain.admit(1, kTime));
    chain.failed(1, Fault::kMisconfigured);
  }
  EXPECT_EQ(chain.choose(request, 0, kTime), std::nullopt);
  EXPECT_EQ(chain.nobody(request, kTime).trouble, Trouble::kLeftAlone);
  EXPECT_GT(chain.nobody(request, kTime).wait, milliseconds(0));
  EXPECT_EQ(chain.nobody(request, kTime, std::vector<std::size_t>{1}).trouble, Trouble::kNobodyCan);
}

// A narrator read "rain" aloud, before whoever knows how that sounds was asked.
TEST(Chain, SoundsByNameAreMadeByWhoKnowsThem) {
  const auto with_scenes = [](bool scenes) {
    Capabilities narrates, knows, makes;
    knows.cues = true;
    makes.scenes = true;
    std::vector<std::unique_ptr<AudioProvider>> providers;
    providers.push_back(std::make_unique<FakeProvider>("narrator", narrates));
    if (scenes) {
      providers.push_back(std::make_unique<FakeProvider>("maker", makes));
    }
    providers.push_back(std::make_unique<FakeProvider>("of names", knows));
    return Chain(std::move(providers));
  };
  const auto chosen = [](const Chain& chain, const char* prompt, std::size_t from = 0) {
    GenerationRequest request;
    request.prompt = prompt;
    return chain.choose(request, from, kTime);
  };
  const Chain plain = with_scenes(false), all = with_scenes(true);
  EXPECT_EQ(chosen(plain, "Who is there?"), 0U);
  EXPECT_EQ(chosen(plain, "[rain] Who is there?"), 1U);
  EXPECT_EQ(chosen(plain, "[rain on a roof] Who is there?"), 0U) << "nobody can make it";
  EXPECT_EQ(chosen(plain, "[rain] Who is there? [laughs]"), 0U) << "nor all of it";
  EXPECT_EQ(chosen(all, "[rain] Who is there?"), 1U);
  EXPECT_EQ(chosen(all, "[rain] Who is there?", 2), 2U) << "after that one has failed";
  EXPECT_EQ(chosen(all, "[laughs] Who is there?"), 1U);
  EXPECT_EQ(chosen(all, "[laughs] Who is there?", 2), std::nullopt);
}

TEST(Chain, ANarratorLeavesRoomForScenes) {
  const auto room = [](bool first, bool second) {
    std::vector<std::unique_ptr<AudioProvider>> providers;
    for (const bool scenes : {first, second}) {
      Capabilities able;
      able.scenes = scenes;
      able.max_in_flight = 4;
      providers.push_back(std::make_unique<FakeProvider>("fake", able));
    }
    return Chain(std::move(providers)).capacity();
  };
  EXPECT_EQ(room(false, false), 4U);
  EXPECT_EQ(room(false, true), 8U) << "it serves what the first does not";
  EXPECT_EQ(room(true, false), 4U);
}

Trouble trouble(const Chain& chain,
                const GenerationRequest& request,
                std::vector<std::size_t> unable = {}) {
  return chain.nobody(request, kTime, unable).trouble;
}

TEST(Chain, SomebodyCanUnlessAllWhoCouldSaidTheyCannot) {
  const Chain chain = three();
  GenerationRequest request;
  request.voice = "aria";
  EXPECT_EQ(trouble(chain, request), Trouble::kLeftAlone);
  EXPECT_EQ(trouble(chain, request, {0}), Trouble::kNotTaken);
  EXPECT_EQ(trouble(chain, request, {2, 0, 1}), Trouble::kNobodyCan);
  request.image_url = "https://a.example/i";
  EXPECT_EQ(trouble(chain, request, {0}), Trouble::kNotTaken);
  EXPECT_EQ(trouble(chain, request, {2}), Trouble::kNobodyCan);
}

// A task waited as long as the one that wanted the longest pause had said.
TEST(Chain, WhoSaidLaterMayBeAskedWhenTheFirstOfThemSaid) {
  const Chain chain = three();
  GenerationRequest request;
  request.voice = "aria";
  const auto now = std::chrono::steady_clock::now();
  std::vector<SaidLater> later = {{.position = 0, .until = now + seconds(500)},
                                  {.position = 1, .until = now + seconds(400)}};
  using Unable = std::vector<std::size_t>;
  EXPECT_EQ(chain.nobody(request, kTime, {}, later).trouble, Trouble::kNotTaken);
  EXPECT_EQ(chain.nobody(request, kTime, {}, later).wait, seconds(0)) << "the third was not asked";
  const auto wait = [&](const Unable& unable) {
    return chain.nobody(request, kTime, unable, later).wait;
  };
  EXPECT_LE(wait({2}), seconds(400));
  EXPECT_GT(wait({2}), seconds(0));
  EXPECT_GT(wait({1, 2}), wait({2}));
  EXPECT_EQ(chain.nobody(request, kTime, Unable{0, 1, 2}, later).trouble, Trouble::kNobodyCan);
  // What a breaker keeps back for longer than it said is kept back as long.
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(chain.admit(2, kTime));
    chain.failed(2, Fault::kMisconfigured);
  }
  later.push_back({.position = 2, .until = now});
  EXPECT_GT(wait({0, 1}), seconds(0));
  // It is not waited for beyond the task's time.
  for (SaidLater& said : later) {
    said.until = now + seconds(2000);
  }
  EXPECT_EQ(chain.nobody(request, kTime, {}, later).trouble, Trouble::kOutOfTime);
  EXPECT_EQ(chain.nobody(request, kTime, {}, later).wait, seconds(0));
}

TEST(Chain, KeepsToTheLongestPromptInCharacters) {
  Capabilities able;
  able.prompt_max = 3;
  std::vector<std::unique_ptr<AudioProvider>> providers;
  providers.push_back(std::make_unique<FakeProvider>("short", able));
  const Chain chain(std::move(providers));
  GenerationRequest request;
  request.prompt = "\xF0\x9F\x98\x80\xC3\xA9x";  // Seven bytes, three characters.
  EXPECT_EQ(chain.choose(request, 0, kTime), 0U);
  request.prompt += "y";
  EXPECT_EQ(trouble(chain, request), Trouble::kNobodyCan);
  EXPECT_EQ(chain.choose(request, 0, kTime), std::nullopt);
}

TEST(Chain, PassesOverOpenBreakersAndTellsUntilWhen) {
  const Chain chain = three();
  GenerationRequest request;
  request.voice = "aria";
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(chain.admit(0, kTime) || i >= 3);
    chain.failed(0, Fault::kUnknownOutcome);
  }
  EXPECT_FALSE(chain.admit(0, kTime));
  EXPECT_EQ(chain.choose(request, 0, kTime), 1U);
  EXPECT_EQ(chain.nobody(request, kTime, std::vector<std::size_t>{1, 2}).trouble,
            Trouble::kNotTaken);
  EXPECT_GT(chain.closed_to_calls(0), seconds(0));
  EXPECT_EQ(chain.closed_to_calls(1), seconds(0));
  EXPECT_GT(chain.nobody(request, kTime, std::vector<std::size_t>{1, 2}).wait, milliseconds(0));
  EXPECT_EQ(chain.nobody(request, kTime).wait, milliseconds(0)) << "of the one that is trusted";
  const auto status = chain.status();
  ASSERT_EQ(status.size(), 3U);
  EXPECT_EQ(status[0].name, "plain");
  EXPECT_EQ(status[0].state, "open");
  EXPECT_EQ(status[0].in_flight, 0U);
  EXPECT_GE(status[0].limit, 1U);
  EXPECT_EQ(status[1].state, "ready");
}

// One that answered 503 to everything was never left alone where few calls are made.
TEST(Chain, ABusyOneIsLeftAloneOnceItsLastTriesFailToo) {
  const Chain chain = three();
  for (std::uint64_t task = 0; task < 3; ++task) {
    for (const bool again : {true, true, false}) {
      ASSERT_TRUE(chain.admit(0, kTime)) << task;
      chain.failed(0, Fault::kRetrySame, {.what = task, .comes_again = again});
    }
  }
  EXPECT_FALSE(chain.admit(0, kTime));
  // While each is asked again, it counts among many alone.
  for (std::uint64_t task = 0; task < 9; ++task) {
    ASSERT_TRUE(chain.admit(1, kTime)) << task;
    chain.failed(1, Fault::kRetrySame, {.what = task, .comes_again = true});
  }
  EXPECT_TRUE(chain.admit(1, kTime));
}

TEST(Chain, ABusyOneIsAskedAgainAFewTimesAndSoon) {
  const ProviderFault busy{Fault::kRetrySame, "", std::nullopt};
  EXPECT_TRUE(comes_again(busy, 1));
  EXPECT_TRUE(comes_again(busy, 2));
  EXPECT_FALSE(comes_again(busy, 3));
  EXPECT_TRUE(comes_again({Fault::kRetrySame, "", seconds(2)}, 1));
  EXPECT_TRUE(comes_again({Fault::kThrottled, "", seconds(2)}, 1));
  EXPECT_FALSE(comes_again({Fault::kRetrySame, "", seconds(3)}, 1));
  EXPECT_FALSE(comes_again({Fault::kTryNext, "", std::nullopt}, 1));
}

TEST(Chain, BesideASlowOneStandsTheNextOfItsTier) {
  std::vector<std::unique_ptr<AudioProvider>> providers;
  for (const int tier : {1, kTierOfTheHouse, 1, 1}) {
    Capabilities able;
    able.tier = tier;
    providers.push_back(std::make_unique<FakeProvider>("fake", able));
  }
  const Chain chain(std::move(providers));
  const GenerationRequest request;
  EXPECT_EQ(chain.choose_beside(request, 0, kTime), 2U);
  EXPECT_EQ(chain.choose_beside(request, 1, kTime), std::nullopt);
  EXPECT_EQ(chain.choose_beside(request, 2, kTime), 3U);
  EXPECT_EQ(chain.choose(request, 1, kTime), 1U) << "after a fault it is asked all the same";
}

// Of a task one ticket is kept: the other's job would be lost with its worker, and paid for.
TEST(Chain, OfTwoThatGiveTicketsNoneStandsBesideTheOther) {
  std::vector<std::unique_ptr<AudioProvider>> providers;
  for (const bool gives_tickets : {true, true, false, true}) {
    Capabilities able;
    able.gives_tickets = gives_tickets;
    providers.push_back(std::make_unique<FakeProvider>("fake", able));
  }
  const Chain chain(std::move(providers));
  const GenerationRequest request;
  EXPECT_EQ(chain.choose_beside(request, 0, kTime), 2U);
  EXPECT_EQ(chain.choose_beside(request, 2, kTime), 3U);
  EXPECT_EQ(chain.choose_beside(request, 3, kTime), std::nullopt);
}

TEST(Chain, WhatACallNeedsIsThatOfTheSlowestThatMayHaveIt) {
  Capabilities patient, hasty, free, polled;
  patient.timeout = seconds(120);
  hasty.timeout = seconds(20);
  hasty.voices = {"aria"};
  free.price = ProviderPrice{PriceUnit::kCall, Micros{0}};
  free.timeout = seconds(700);
  free.image = true;
  free.prompt_max = 0;
  polled.gives_tickets = true;
  polled.timeout = seconds(300);
  polled.prompt_max = 0;
  std::vector<std::unique_ptr<AudioProvider>> providers;
  std::vector<FakeProvider*> fakes;
  for (const Capabilities& able : {hasty, patient, free, polled}) {
    auto fake = std::make_unique<FakeProvider>("fake", able);
    fakes.push_back(fake.get());
    providers.push_back(std::move(fake));
  }
  const Chain chain(std::move(providers));
  EXPECT_EQ(chain.longest_unresumed(), seconds(120))
      << "neither of what is free nor of what goes on";
  GenerationRequest request;
  request.prompt = "x";
  EXPECT_EQ(chain.needed_for(request), seconds(60)) << "nobody knows more";
  chain.at(1).start({.request = std::make_shared<const GenerationRequest>(request),
                     .request_key = {},
                     .deadline = Clock::now() + seconds(600)},
                    [](const Result<Audio, ProviderFault>&) {});
  fakes[1]->calls.front()->answer(Audio{});
  EXPECT_EQ(chain.needed_for(request), seconds(20)) << "of the one it is known by now";
  request.voice = "atlas";
  EXPECT_LT(chain.needed_for(request), seconds(20)) << "the other may not have this";
  request.audio_references = {"https://a.example/1"};
  EXPECT_EQ(chain.needed_for(request), seconds(0)) << "nobody can";
}

// One that was slow once, behind one that can the same, says nothing of what will be called.
TEST(Chain, WhatCallsNeedIsThatOfThoseWhoAreAskedFirst) {
  std::vector<std::unique_ptr<AudioProvider>> providers;
  std::vector<FakeProvider*> fakes;
  for (const char* name : {"first", "fallback"}) {
    auto fake = std::make_unique<FakeProvider>(name);
    fakes.push_back(fake.get());
    providers.push_back(std::move(fake));
  }
  const Chain chain(std::move(providers));
  EXPECT_EQ(chain.needed_most(), seconds(0)) << "nobody knows";
  for (const std::size_t i : {1U, 0U}) {
    chain.at(i).start({.request = std::make_shared<const GenerationRequest>(),
                       .request_key = {},
                       .deadline = Clock::now() + seconds(600)},
                      [](const Result<Audio, ProviderFault>&) {});
  }
  fakes[0]->calls.front()->answer(Audio{});
  const auto began = Clock::now();
  ASSERT_TRUE(test::eventually(seconds(60), [&] { return Clock::now() > began + seconds(1); }));
  fakes[1]->calls.front()->answer(Audio{});
  ASSERT_GT(chain.at(1).needed(), chain.at(0).needed());
  EXPECT_EQ(chain.needed_most(), chain.at(0).needed());
  for (std::uint64_t task = 0; task < 3; ++task) {
    ASSERT_TRUE(chain.admit(0, kTime));
    chain.failed(0, Fault::kUnknownOutcome, {.what = task});
  }
  ASSERT_FALSE(chain.admit(0, kTime));
  EXPECT_EQ(chain.needed_most(), chain.at(1).needed()) << "now that one is called";
}

// Its other callers may be ours, in other workers.
TEST(Chain, WhoeverWantsFewerCallsOfUsIsNotTakenForBroken) {
  const Chain chain = three();
  for (std::uint64_t task = 0; task < 3; ++task) {
    ASSERT_TRUE(chain.admit(0, kTime)) << task;
    chain.failed(0, Fault::kThrottled, {.what = task});
    ASSERT_TRUE(chain.admit(1, kTime)) << task;
    chain.failed(1, Fault::kRetrySame, {.what = task});
  }
  EXPECT_TRUE(chain.admit(0, kTime));
  EXPECT_FALSE(chain.admit(1, kTime));
  // While they are to come again they say nothing, however many.
  for (std::uint64_t task = 10; task < 40; ++task) {
    ASSERT_TRUE(chain.admit(2, kTime)) << task;
    chain.failed(2, Fault::kThrottled, {.what = task, .comes_again = true});
  }
  EXPECT_TRUE(chain.admit(2, kTime));
  // Nor does it make a failure of it that another wanted fewer calls for the same task.
  for (std::uint64_t task = 40; task < 60; ++task) {
    ASSERT_TRUE(chain.admit(2, kTime)) << task;
    if (task % 4 == 0) {
      chain.answered(2);
      chain.proved(2, std::nullopt);
    } else {
      chain.failed(2, Fault::kThrottled, {.what = task, .elsewhere = true});
    }
  }
  EXPECT_TRUE(chain.admit(2, kTime));
}

TEST(Chain, WhatWeEndOurselvesIsNoFailureOfTheProvider) {
  const Chain chain = three();
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(chain.admit(0, kTime));
    chain.failed(0, Fault::kOutOfTime);
    chain.failed(0, Fault::kNotCalled);
  }
  EXPECT_TRUE(chain.admit(0, kTime));
}

// Providers that have shown how long they take.
struct Timed {
  // Each with two slots.
  explicit Timed(const std::vector<Capabilities>& of) {
    std::vector<std::unique_ptr<AudioProvider>> providers;
    for (Capabilities able : of) {
      able.max_in_flight = 2;
      auto fake = std::make_unique<FakeProvider>("fake", able);
      fakes.push_back(fake.get());
      providers.push_back(std::move(fake));
    }
    chain = std::make_unique<Chain>(std::move(providers));
  }
  void start(std::size_t position) {
    chain->at(position).start({.request = nullptr,
                               .request_key = {},
                               .deadline = Clock::now() + seconds(600),
                               .lifetime = seconds(900)},
                              [](const Result<Audio, ProviderFault>&) {});
  }
  // Calls that take no time: a second is needed then.
  void learn(std::size_t position) {
    for (int i = 0; i < 5; ++i) {
      start(position);
      fakes[position]->calls.back()->answer(Audio{});
    }
  }
  void fail(std::size_t position) {
    for (int i = 0; i < 10; ++i) {
      chain->failed(position, Fault::kTryNext);
    }
  }
  std::vector<FakeProvider*> fakes;
  std::unique_ptr<Chain> chain;
};

TEST(Chain, PassesOverWhoWouldNotEndInTime) {
  Timed two(std::vector<Capabilities>(2));
  const GenerationRequest request;
  const TaskTime late{.left = milliseconds(900), .whole = seconds(900)};
  EXPECT_EQ(two.chain->choose(request, 0, late), 0U) << "nothing is known yet";
  two.learn(0);
  EXPECT_EQ(two.chain->choose(request, 0, late), 1U);
  EXPECT_FALSE(two.chain->admit(0, late));
  EXPECT_TRUE(two.chain->admit(0, kTime));
  two.learn(1);
  EXPECT_EQ(two.chain->choose(request, 0, late), std::nullopt);
  EXPECT_EQ(two.chain->nobody(request, late).trouble, Trouble::kOutOfTime);
  EXPECT_EQ(two.chain->choose(request, 0, kTime), 0U);
  // Whoever has the time waits for the first one that works again.
  two.fail(0);
  EXPECT_EQ(two.chain->nobody(request, late).trouble, Trouble::kOutOfTime);
}

TEST(Chain, HasRoomForFreeSlotsAndAFewThatWait) {
  Timed one(std::vector<Capabilities>(1));
  EXPECT_EQ(one.chain->room(), 3U);
  one.start(0);
  EXPECT_EQ(one.chain->room(), 2U);
  one.start(0);
  EXPECT_EQ(one.chain->room(), 1U);
  one.start(0);
  EXPECT_EQ(one.chain->room(), 0U) << "one waits";
  one.fakes[0]->calls[0]->answer(Audio{});
  EXPECT_EQ(one.chain->room(), 1U);
}

TEST(Chain, WhoAsksAgainInAMomentKeepsASlot) {
  Timed one(std::vector<Capabilities>(1));
  auto first = one.chain->keep_slot(0), second = one.chain->keep_slot(0);
  EXPECT_EQ(one.chain->room(), 1U) << "the one in reserve";
  auto third = one.chain->keep_slot(0);
  EXPECT_EQ(one.chain->room(), 0U);
  first.reset();
  second.reset();
  EXPECT_EQ(one.chain->room(), 2U);
  one.chain.reset();
  third.reset();  // What is kept outlives what it was kept in.
}

TEST(Chain, WhatOnlyOneServesKeepsNothingFromTheOther) {
  Timed two(std::vector<Capabilities>{{.voices = {"aria"}}, {.voices = {"atlas"}}});
  EXPECT_EQ(two.chain->room(), 6U);
  for (int i = 0; i < 20; ++i) {
    two.start(0);
  }
  EXPECT_EQ(two.chain->room(), 2U) << "the slots of the other";
}

TEST(Chain, OpeningsAreOfEachByItself) {
  Timed two(std::vector<Capabilities>{{.voices = {"aria"}}, {.voices = {"atlas"}}});
  EXPECT_EQ(two.chain->openings(0), 3U) << "two slots, and one that may wait";
  for (int i = 0; i < 2; ++i) {
    two.start(0);
  }
  EXPECT_EQ(two.chain->openings(0), 1U);
  const auto again = two.chain->keep_slot(0);
  EXPECT_EQ(two.chain->openings(0), 0U) << "one comes in a moment";
  again->give_back();
  again->give_back();
  EXPECT_EQ(two.chain->openings(0), 1U);
  two.start(0);
  two.start(0);
  EXPECT_EQ(two.chain->openings(0), 0U);
  EXPECT_EQ(two.chain->openings(1), 3U);
  two.fakes[0]->calls[0]->answer(Audio{});
  EXPECT_EQ(two.chain->openings(0), 0U) << "who waited has its slot, and another waits";
  two.fakes[0]->calls[1]->answer(Audio{});
  EXPECT_EQ(two.chain->openings(0), 1U);
  two.fail(1);
  EXPECT_EQ(two.chain->openings(1), 0U) << "it is left alone";
}

// Those of a hundred others that are behind it before us have no time there, nor have we.
TEST(Chain, PassesOverWhoWouldNotEndInTimeBehindThoseThatWaitElsewhere) {
  Timed two(std::vector<Capabilities>(2));
  const GenerationRequest request;
  const auto from = Clock::now();
  two.start(0);
  two.start(1);
  ASSERT_TRUE(
      test::eventually(seconds(60), [&] { return Clock::now() - from >= milliseconds(20); }));
  for (const auto* const fake : two.fakes) {
    fake->calls.back()->answer(Audio{});  // So a call takes 20 ms at the least.
  }
  for (int i = 0; i < 2; ++i) {
    two.start(0);
  }
  const TaskTime time{.left = seconds(100), .whole = seconds(900)};
  std::size_t others = 0;
  const auto line = [&](std::size_t position) { return position == 0 ? others : 0; };
  EXPECT_EQ(two.chain->choose_in_line(request, 0, time, line), 0U);
  EXPECT_EQ(two.chain->choose_in_line(request, 1, time, line), 1U);
  others = 20'000;
  EXPECT_EQ(two.chain->choose_in_line(request, 0, time, line), 1U);
  const auto everywhere = [](std::size_t) { return std::size_t{1'000'000}; };
  EXPECT_EQ(two.chain->choose_in_line(request, 0, time, everywhere), 0U);
  EXPECT_EQ(two.chain->choose_in_line(request, 0, time, everywhere, 1), 1U)
      << "where it waits it keeps its turn";
  two.fail(1);
  EXPECT_EQ(two.chain->choose_in_line(request, 0, time, everywhere, 1), 0U);
  EXPECT_EQ(two.chain->choose_in_line(request, 0, time, line), 0U) << "they may leave";
}

TEST(Chain, OpeningsAreTakenOnce) {
  Capabilities impatient{.voices = {"coral"}};
  impatient.queue_wait = seconds(1);
  Timed three(std::vector<Capabilities>{{.voices = {"aria"}}, {.voices = {"atlas"}}, impatient});
  Openings openings(*three.chain);
  EXPECT_TRUE(openings.take(0));
  EXPECT_FALSE(openings.take(0, 2)) << "the two that are left are for others";
  EXPECT_TRUE(openings.take(0, 1));
  EXPECT_TRUE(openings.take(0));
  EXPECT_FALSE(openings.take(0));
  EXPECT_TRUE(openings.take(1));
}

// What waits there too long they get; whom nobody has a slot for is not claimed to wait for it.
TEST(Chain, OneWithAQueueWaitHasAnOpeningForEachFreeSlotOfThoseAfterIt) {
  Capabilities impatient{.voices = {"aria"}};
  impatient.queue_wait = seconds(1);
  Timed three(std::vector<Capabilities>{impatient, {.voices = {"atlas"}}, {.voices = {"aria"}}});
  EXPECT_EQ(three.chain->openings(0), 2U + 2U + 2U) << "the slots of both, and a reserve of both";
  for (int i = 0; i < 4; ++i) {
    three.start(0);
  }
  EXPECT_EQ(three.chain->openings(0), 2U) << "two wait in its reserve";
  three.start(0);
  EXPECT_EQ(three.chain->openings(0), 1U) << "and one for the other";
  three.start(2);
  EXPECT_EQ(three.chain->openings(0), 0U);
  EXPECT_EQ(three.chain->openings(1), 3U) << "who speaks with another voice is none for those";
  three.fakes[2]->calls[0]->answer(Audio{});
  Openings openings(*three.chain);
  EXPECT_TRUE(openings.take(0));
  EXPECT_FALSE(openings.take(0)) << "each of those has a place";
}

// Else workers that are full tell of room for ever, and nobody is refused.
TEST(Chain, RoomForWhatIsPassedOnIsTaken) {
  Capabilities impatient;
  impatient.queue_wait = seconds(1);
  Timed two(std::vector<Capabilities>{impatient, {}});
  two.start(1);
  two.start(1);
  for (int i = 0; i < 100 && two.chain->openings(0) > 0; ++i) {
    two.start(0);
  }
  EXPECT_EQ(two.chain->openings(0), 0U);
  EXPECT_EQ(two.chain->room(), 0U);
}

// One that can do more relieves it as well, though its slots are room for others, too.
TEST(Chain, WhoCanDoMoreHasWhatWaitsTooLong) {
  Capabilities impatient{.voices = {"aria"}};
  impatient.queue_wait = seconds(1);
  impatient.prompt_max = 4096;
  Capabilities more{.voices = {"aria", "atlas"}};
  more.cues = true;
  more.prompt_max = kPromptMax;
  Timed two(std::vector<Capabilities>{impatient, more});
  EXPECT_EQ(two.chain->openings(0), 2U + 2U + 2U);
}

TEST(Chain, WhatIsPassedOnNeedsNoPlaceOfTheAccount) {
  Accounts accounts;
  std::vector<std::unique_ptr<AudioProvider>> providers;
  for (const char* account : {"theirs", ""}) {
    Capabilities able;
    able.max_in_flight = 4;
    able.account = account;
    able.account_max_in_flight = 4;
    able.queue_wait = seconds(*account == 0 ? 0 : 1);
    providers.push_back(std::make_unique<FakeProvider>(account, std::move(able)));
  }
  const Chain chain(std::move(providers), &accounts);
  Openings openings(chain);
  std::size_t taken = 0;
  while (openings.take(0)) {
    ++taken;
  }
  EXPECT_EQ(taken, 1U + 4U) << "one shows that places are wanted, the others have slots elsewhere";
}

TEST(Chain, EntriesOfAnAccountShareItsOpenings) {
  Accounts accounts;
  std::vector<std::unique_ptr<AudioProvider>> providers;
  for (const char* voice : {"aria", "atlas", "coral"}) {
    Capabilities able;
    able.voices = {voice};
    able.max_in_flight = 4;
    able.account = "theirs";
    able.account_max_in_flight = 4;
    providers.push_back(std::make_unique<FakeProvider>(voice, std::move(able)));
  }
  const Chain chain(std::move(providers), &accounts);
  accounts.all().front()->renew({.may = 4}, 0, Clock::now() + std::chrono::hours(1));
  ASSERT_EQ(chain.openings(0), 6U) << "four places, and two that may wait";
  Openings openings(chain);
  std::size_t taken = 0;
  for (int i = 0; i < 9; ++i) {
    taken += openings.take(static_cast<std::size_t>(i % 3)) ? 1U : 0U;
  }
  EXPECT_EQ(taken, 6U);
  ProviderRequest request;
  request.deadline = Clock::now() + std::chrono::hours(1);
  request.lifetime = std::chrono::hours(1);
  for (int i = 0; i < 6; ++i) {
    chain.at(0).start(ProviderRequest(request), [](const auto&) {});
  }
  EXPECT_EQ(chain.openings(0), 0U) << "two wait for a place of theirs already";
  EXPECT_EQ(chain.openings(1), 1U) << "and would have all of them, where nobody else waits";
  Openings others(chain);
  EXPECT_TRUE(others.take(1));
  EXPECT_FALSE(others.take(1));
  chain.at(1).start(ProviderRequest(request), [](const auto&) {});
  EXPECT_EQ(chain.openings(1), 0U);
  for (int i = 0; i < 10; ++i) {
    chain.failed(2, Fault::kTryNext);
  }
  ASSERT_TRUE(test::eventually(seconds(60), [&] { return chain.is_on_trial(2); }));
  EXPECT_EQ(chain.openings(2), 1U) << "so there is one for a probe";
}

// Each task of the queue was its probe, as long as the first one fetched its references.
TEST(Chain, OneThatComesInAMomentIsTheProbe) {
  Timed one(std::vector<Capabilities>(1));
  one.fail(0);
  ASSERT_TRUE(test::eventually(seconds(60), [&] { return one.chain->is_on_trial(0); }));
  EXPECT_EQ(one.chain->openings(0), 1U);
  EXPECT_EQ(one.chain->room(), 1U);
  const auto slot = one.chain->keep_slot(0);
  EXPECT_EQ(one.chain->openings(0), 0U);
  EXPECT_EQ(one.chain->room(), 0U);
}

// What would wait too long for the first one is claimed for the other.
TEST(Chain, WhoeverTakesWhatWaitsTooLongAddsRoom) {
  Capabilities impatient;
  impatient.queue_wait = seconds(1);
  Timed two(std::vector<Capabilities>{impatient, {}});
  EXPECT_EQ(two.chain->room(), 6U);
  EXPECT_EQ(two.chain->capacity(), 4U);
  for (int i = 0; i < 3; ++i) {
    two.start(0);
  }
  EXPECT_EQ(two.chain->room(), 3U) << "one waits, for whom the other has a slot";
  two.start(0);
  EXPECT_EQ(two.chain->room(), 2U) << "as many as are kept in reserve";
  for (int i = 0; i < 5; ++i) {
    two.start(0);
  }
  EXPECT_EQ(two.chain->room(), 0U);
  const GenerationRequest request;
  EXPECT_EQ(two.chain->choose_free(request, 0, kTime), 1U);
  two.start(1);
  two.start(1);
  EXPECT_EQ(two.chain->choose_free(request, 0, kTime), std::nullopt);
}

TEST(Chain, WhoServesNothingMoreThanTheOneBeforeItAddsNoRoom) {
  Timed same(std::vector<Capabilities>(2));
  EXPECT_EQ(same.chain->room(), 3U);
  same.fail(0);
  EXPECT_EQ(same.chain->room(), 3U) << "the other takes its place";
  EXPECT_EQ(same.chain->capacity(), 2U) << "whichever of them is trusted";
  same.fail(1);
  EXPECT_EQ(same.chain->room(), 0U);
  Capabilities image;
  image.image = true;
  Timed more(std::vector<Capabilities>{
      {.voices = {"aria"}}, {.voices = {"aria", "atlas"}}, std::move(image)});
  EXPECT_EQ(more.chain->room(), 8U);
  EXPECT_EQ(more.chain->capacity(), 6U);
  EXPECT_EQ(same.chain->capacity(), 0U) << "nobody is trusted now";
}

TEST(Chain, RefusedContentIsNoFailureOfTheProvider) {
  const Chain chain = three();
  for (int i = 0; i < 50; ++i) {
    chain.failed(0, Fault::kRejected);
    chain.failed(0, Fault::kUnsupportedInput);
    chain.failed(0, Fault::kCanceled);
  }
  EXPECT_TRUE(chain.admit(0, kTime));
}

// As a success it kept a provider ready that did nothing else but fail.
TEST(Chain, WhatAProviderCannotMakeIsNoSuccessOfItEither) {
  const Chain chain = three();
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(chain.admit(0, kTime)) << i;
    chain.failed(0, Fault::kTryNext);
    chain.failed(0, Fault::kUnsupportedInput);
    chain.answered(0);
    chain.proved(0, Fault::kUnsupportedInput);
  }
  EXPECT_FALSE(chain.admit(0, kTime));
}

// A file without any sound: the voice does not speak the language of the text.
TEST(Chain, NoSoundForATextIsHeldAgainstNobody) {
  const Chain chain = three();
  for (int i = 0; i < 9; ++i) {
    ASSERT_TRUE(chain.admit(0, kTime)) << i;
    chain.answered(0);
    chain.proved(0, Fault::kBrokenByInput);
  }
}

// It went from one provider to the next and was held against each of them: three such texts, and
// nobody was called any more for anybody.
TEST(Chain, ATextThatFailsEverywhereIsNotHeldAgainstTheNextAsWell) {
  const Chain chain = three();
  for (std::uint64_t task = 0; task < 9; ++task) {
    ASSERT_TRUE(chain.admit(1, kTime)) << task;
    chain.failed(1, Fault::kUnknownOutcome, {.what = task, .elsewhere = true});
  }
  EXPECT_TRUE(chain.admit(1, kTime));
  chain.failed(1, Fault::kUnknownOutcome, {.what = 9, .elsewhere = true});
  EXPECT_FALSE(chain.admit(1, kTime)) << "but so many are no chance";
}

// A user with many such texts would push what has failed out of what is remembered.
TEST(Chain, WhatIsNobodysFailureIsNotRemembered) {
  const Chain chain = three();
  const auto failed_at_both = [&](std::uint64_t task, Fault fault) {
    chain.failing(task, 0, fault);
    return chain.failing(task, 1, fault).elsewhere;
  };
  EXPECT_TRUE(failed_at_both(1, Fault::kTryNext));
  for (const Fault fault : {Fault::kCanceled, Fault::kBrokenByInput, Fault::kUnsupportedInput}) {
    EXPECT_FALSE(failed_at_both(2, fault)) << fault_name(fault);
  }
}

// Three texts that break all providers, in two claims each: the first claims shut one provider, the
// second the other.
TEST(Chain, ATextThatFailsEverywhereIsHeldAgainstNobodyInTwoClaims) {
  const Chain chain = three();
  const auto fails = [&](std::uint64_t task, std::size_t position) {
    ASSERT_TRUE(chain.admit(position, kTime)) << task << " at " << position;
    chain.failed(position, Fault::kTryNext, chain.failing(task, position, Fault::kTryNext));
  };
  for (std::uint64_t task = 0; task < 3; ++task) {
    fails(task, 0);
  }
  EXPECT_FALSE(chain.admit(0, kTime)) << "so far they may be its fault";
  for (std::uint64_t task = 0; task < 3; ++task) {
    fails(task, 1);
  }
  EXPECT_TRUE(chain.admit(1, kTime));
  EXPECT_TRUE(chain.admit(0, kTime)) << "it is taken back";
}

TEST(Chain, WhatIsTakenBackIsTheTextThatFailedElsewhereAlone) {
  const Chain chain = three();
  const auto fails = [&](std::uint64_t task, std::size_t position, Fault fault) {
    chain.failed(position, fault, chain.failing(task, position, fault));
  };
  for (std::uint64_t task = 0; task < 3; ++task) {
    fails(task, 0, Fault::kTryNext);
  }
  fails(0, 1, Fault::kUnknownOutcome);
  fails(3, 1, Fault::kTryNext);
  EXPECT_FALSE(chain.admit(0, kTime)) << "in another way, and another text";
  fails(2, 1, Fault::kTryNext);
  EXPECT_TRUE(chain.admit(0, kTime));
  chain.failed(0, Fault::kCanceled);
  fails(4, 0, Fault::kTryNext);
  EXPECT_FALSE(chain.admit(0, kTime)) << "two of the three and one more";
}

// What makes sounds or music alone would make a noise of a text that is to be read, and be paid.
TEST(Chain, WhatHasNoVoiceGetsNoRequestForOne) {
  Capabilities sounds;
  sounds.scenes = true;
  sounds.speaks = false;
  std::vector<std::unique_ptr<AudioProvider>> providers;
  providers.push_back(std::make_unique<FakeProvider>("sounds", sounds));
  providers.push_back(std::make_unique<FakeProvider>("speech"));
  const Chain chain(std::move(providers));
  GenerationRequest request;
  request.prompt = "Hello, welcome back.";
  EXPECT_EQ(chain.choose(request, 0, kTime), 0U) << "it may be a sound, for all that is said";
  request.voice = "atlas";
  EXPECT_EQ(chain.choose(request, 0, kTime), 1U);
  request.voice = kSceneVoice;
  EXPECT_EQ(chain.choose(request, 0, kTime), 0U);
}

// As a success it would hide what fails for everybody.
TEST(Chain, ATextThatCrashesTheEngineIsNoSuccessEither) {
  const Chain chain = three();
  for (int i = 0; i < 20; ++i) {
    chain.failed(0, Fault::kBrokenByInput);
    chain.failed(0, Fault::kBrokenByInput);
    chain.failed(0, Fault::kTryNext);
  }
  EXPECT_FALSE(chain.admit(0, kTime));
}

// The breaker of the local engine after `count` texts were given to the helper `program`.
bool admits_after(const std::string& program, int count, milliseconds time_max = seconds(60)) {
  std::vector<std::unique_ptr<AudioProvider>> providers;
  providers.push_back(std::make_unique<LocalProvider>(
      LocalOptions{.helper_path = program, .threads = 1, .time_max = time_max}));
  const Chain chain(std::move(providers));
  for (int i = 0; i < count && chain.admit(0, kTime); ++i) {
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
  return chain.admit(0, kTime);
}

// The child dies on each text, the helper lives: one user's texts are not everybody's outage. A
// helper that cannot run is.
TEST(Chain, ATextThatCrashesTheEngineIsNoFailureOfTheProvider) {
  EXPECT_TRUE(admits_after(test::program_path("crashing-speech"), 30));
  EXPECT_FALSE(admits_after("/nowhere/audio-speech", 30));
  EXPECT_FALSE(admits_after(test::program_path("forkless-speech"), 30)) << "no process is left";
}

// Nor does it have one of the few threads for minutes. A child has to have begun with it: on a busy
// machine that takes a while.
TEST(Chain, ATextThatTakesTooLongIsNoFailureOfTheProvider) {
  EXPECT_TRUE(admits_after(test::program_path("hanging-speech"), 4, seconds(3)));
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

// A job keeps the chain that it was claimed under, and operators mean all of them.
TEST(CurrentChain, WhatOperatorsHoldIsHeldInOldChainsAndInNewOnes) {
  const auto make = [] {
    std::vector<std::unique_ptr<AudioProvider>> providers;
    providers.push_back(std::make_unique<FakeProvider>("primary"));
    return std::make_shared<const Chain>(std::move(providers));
  };
  CurrentChain current(make());
  const auto old = current.get();
  current.replace(make());
  current.obey({{.provider = "primary", .open = true, .left = seconds(60)},
                {.provider = "another", .open = true, .left = seconds(60)}},
               Clock::now());
  const auto state = [](const Chain& chain) { return chain.status()[0].state; };
  EXPECT_EQ(state(*old), "open");
  EXPECT_EQ(state(*current.get()), "open");
  current.replace(make());
  EXPECT_EQ(state(*current.get()), "open");
  EXPECT_EQ(current.get()->capacity(), 0U);
  current.obey({}, Clock::now());
  EXPECT_EQ(state(*old), "ready");
  EXPECT_EQ(state(*current.get()), "ready");
}

}  // namespace
}  // namespace audiogen::worker
