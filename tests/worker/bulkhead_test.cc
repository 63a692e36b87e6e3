#include "worker/chain/bulkhead.h"

#include <gtest/gtest.h>

#include "tests/support/wait.h"
#include "tests/worker/fake_provider.h"

namespace audiogen::worker {
namespace {

class BulkheadTest : public testing::Test {
 protected:
  BulkheadTest() {
    Capabilities able;
    able.max_in_flight = 2;
    auto fake = std::make_unique<FakeProvider>("fake", able);
    fake_ = fake.get();
    bulkhead_ = std::make_unique<Bulkhead>(std::move(fake));
  }
  std::shared_ptr<ProviderCall> start(int number,
                                      std::chrono::milliseconds left = std::chrono::hours(1)) {
    return bulkhead_->start({.request = nullptr,
                             .request_key = {},
                             .deadline = std::chrono::steady_clock::now() + left,
                             .lifetime = std::chrono::hours(1),
                             .facts = facts_,
                             .leaves_at = leaves_at_,
                             .is_ours = is_ours_},
                            [this, number](const Result<Audio, ProviderFault>& answer) {
                              ended_.push_back(number);
                              canceled_ +=
                                  !answer && answer.error().fault == Fault::kCanceled ? 1 : 0;
                              late_ += !answer && answer.error().fault == Fault::kNotCalled ? 1 : 0;
                            });
  }

  const std::shared_ptr<std::atomic<std::chrono::steady_clock::time_point>> leaves_at_ =
      std::make_shared<std::atomic<std::chrono::steady_clock::time_point>>(
          std::chrono::steady_clock::time_point::max());
  std::shared_ptr<CallFacts> facts_;
  std::function<bool()> is_ours_;
  std::vector<int> ended_;
  int canceled_ = 0, late_ = 0;
  FakeProvider* fake_;
  std::unique_ptr<Bulkhead> bulkhead_;  // Answers while it goes: last.
};

TEST_F(BulkheadTest, FurtherCallsWaitTheirTurn) {
  for (int i = 0; i < 5; ++i) {
    start(i);
  }
  EXPECT_EQ(fake_->calls.size(), 2U);
  EXPECT_EQ(bulkhead_->running(), 2U);
  EXPECT_EQ(bulkhead_->waiting(), 3U);
  fake_->calls[0]->answer(Audio{});
  EXPECT_EQ(fake_->calls.size(), 3U);
  for (std::size_t i = 1; i < 5; ++i) {
    fake_->calls[i]->answer(Audio{});
  }
  EXPECT_EQ(ended_, (std::vector<int>{0, 1, 2, 3, 4}));
  EXPECT_EQ(bulkhead_->running(), 0U);
}

TEST_F(BulkheadTest, AWaitingCallIsCanceledAtOnceARunningOneByItsProvider) {
  const auto running = start(0);
  start(1);
  const auto waiting = start(2);
  waiting->cancel();
  EXPECT_EQ(ended_, std::vector<int>{2});
  EXPECT_EQ(canceled_, 1);
  running->cancel();
  EXPECT_EQ(fake_->calls[0]->cancels, 1);
  EXPECT_EQ(bulkhead_->running(), 2U);
}

TEST_F(BulkheadTest, WhatWaitsCanBeToldToStop) {
  const auto running = start(0);
  start(1);
  const auto waiting = start(2);
  EXPECT_FALSE(running->waits());
  EXPECT_TRUE(waiting->waits());
  running->stop_waiting();
  EXPECT_TRUE(ended_.empty());
  waiting->stop_waiting();
  waiting->stop_waiting();
  EXPECT_EQ(ended_, std::vector<int>{2});
  EXPECT_EQ(late_, 1);
  EXPECT_EQ(bulkhead_->waiting(), 0U);
  EXPECT_EQ(bulkhead_->running(), 2U);
}

TEST_F(BulkheadTest, WhoseTurnComesTooLateIsNotCalled) {
  using std::chrono::milliseconds;
  for (int i = 0; i < 5; ++i) {
    start(i);
    fake_->calls.back()->answer(Audio{});
  }
  ASSERT_LT(bulkhead_->needed(), milliseconds(100'000)) << "a second, and what these took";
  ended_.clear();
  start(10);
  start(11);
  start(12, milliseconds(500));
  start(13, milliseconds(-1));
  start(14);
  EXPECT_EQ(bulkhead_->waiting(), 3U);
  const std::size_t before = fake_->calls.size();
  fake_->calls.back()->answer(Audio{});
  EXPECT_EQ(fake_->calls.size(), before + 1) << "of those that wait only the last was called";
  EXPECT_EQ(late_, 2);
  EXPECT_EQ(bulkhead_->running(), 2U);
  EXPECT_EQ(bulkhead_->waiting(), 0U);
}

// A worker that drains would cut it off, and the next one pay for it again.
TEST_F(BulkheadTest, WhatWouldOutlastWhoAsksIsNotCalled) {
  for (int i = 0; i < 5; ++i) {
    start(i);
    fake_->calls.back()->answer(Audio{});
  }
  ended_.clear();
  start(10);
  start(11);
  start(12);
  ASSERT_EQ(bulkhead_->waiting(), 1U);
  leaves_at_->store(std::chrono::steady_clock::now() + std::chrono::milliseconds(500));
  const std::size_t before = fake_->calls.size();
  fake_->calls.back()->answer(Audio{});
  EXPECT_EQ(fake_->calls.size(), before);
  EXPECT_EQ(canceled_, 1) << "its task is for others at once, and has used up nothing";
  EXPECT_EQ(late_, 0);
}

// Its worker has stood still, and somebody else may be at it by now, and pay.
TEST_F(BulkheadTest, WhatIsNobodysAnyMoreIsNotCalled) {
  bool ours = true;
  start(0);
  start(1);
  is_ours_ = [&] { return ours; };
  start(2);
  is_ours_ = nullptr;
  start(3);
  ours = false;
  ended_.clear();
  fake_->calls[0]->answer(Audio{});
  EXPECT_EQ(fake_->calls.size(), 3U) << "the one behind it was";
  EXPECT_EQ(late_, 1);
  EXPECT_EQ(bulkhead_->waiting(), 0U);
}

// After an outage of the blob store tasks failed, for want of the time that calls had seemed to
// take.
TEST_F(BulkheadTest, NoTimeOfOursIsTakenForTheProviders) {
  using std::chrono::milliseconds;
  constexpr milliseconds kOfOurs(600'000);
  facts_ = std::make_shared<CallFacts>();
  start(0);
  // Less than none, so that nobody has to wait for a call that takes as long.
  facts_->unread = -kOfOurs;
  fake_->calls.back()->answer(Audio{});
  ASSERT_TRUE(bulkhead_->mean_time());
  EXPECT_GE(*bulkhead_->mean_time(), kOfOurs) << "what is ours is taken off";

  // Nor what the process stood still for.
  bool ours = true;
  is_ours_ = [&] { return ours; };
  start(1);
  const auto before = bulkhead_->mean_time();
  ours = false;
  facts_->unread = -2 * kOfOurs;
  fake_->calls.back()->answer(Audio{});
  EXPECT_EQ(bulkhead_->mean_time(), before);
}

// It does not wait for a whole call where one has run for half of it.
TEST_F(BulkheadTest, AFurtherCallHasTheSlotOfWhatEndsFirst) {
  using std::chrono::milliseconds, std::chrono::steady_clock;
  const auto since = [](steady_clock::time_point from) { return steady_clock::now() - from; };
  const auto first = steady_clock::now();
  start(0);
  ASSERT_TRUE(test::eventually(std::chrono::seconds(60),
                               [&] { return since(first) >= milliseconds(300); }));
  fake_->calls.back()->answer(Audio{});
  const milliseconds needed = *bulkhead_->needed(), usual = (needed - milliseconds(1000)) * 4 / 5;
  const TaskTime time{.left = needed + usual / 2, .whole = std::chrono::hours(1)};
  start(1);
  start(2);
  EXPECT_TRUE(test::eventually(std::chrono::seconds(60), [&] {
    return bulkhead_->fits_in_turn(time);
  })) << "half of it is left";
  start(3);
  start(4);
  EXPECT_FALSE(bulkhead_->fits_in_turn(time)) << "behind those that have these two slots";
}

// It was made, and paid, already.
TEST_F(BulkheadTest, WhatATicketAsksForIsNeverTooLate) {
  for (int i = 0; i < 5; ++i) {
    start(i);
    fake_->calls.back()->answer(Audio{});
  }
  start(10);
  start(11);
  bulkhead_->start({.request = nullptr,
                    .request_key = {},
                    .deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(500),
                    .lifetime = std::chrono::hours(1),
                    .ticket = "of an earlier call"},
                   [this](const Result<Audio, ProviderFault>& answer) {
                     late_ += !answer && answer.error().fault == Fault::kNotCalled ? 1 : 0;
                   });
  const std::size_t before = fake_->calls.size();
  fake_->calls.back()->answer(Audio{});
  EXPECT_EQ(fake_->calls.size(), before + 1);
  EXPECT_EQ(late_, 0);
}

// Else the first after a deploy, of which a moment was left, would make it seem that fast.
TEST_F(BulkheadTest, WhatIsLeftOfACallSaysNothingOfAWholeOne) {
  for (int i = 0; i < 5; ++i) {
    bulkhead_->start({.request = nullptr,
                      .request_key = {},
                      .deadline = std::chrono::steady_clock::now() + std::chrono::hours(1),
                      .lifetime = std::chrono::hours(1),
                      .ticket = "of an earlier call"},
                     [](const Result<Audio, ProviderFault>&) {});
    fake_->calls.back()->answer(Audio{});
  }
  EXPECT_EQ(bulkhead_->needed(), std::nullopt);
}

TEST_F(BulkheadTest, WhatWeCutOffTookLonger) {
  for (int i = 0; i < 20; ++i) {
    start(i);
    fake_->calls.back()->answer(
        ProviderFault{i % 2 == 0 ? Fault::kUnknownOutcome : Fault::kNotCalled, "", std::nullopt});
  }
  EXPECT_EQ(bulkhead_->needed(), std::nullopt) << "failures say nothing of how long success takes";
  for (int i = 0; i < 5; ++i) {
    start(i);
    fake_->calls.back()->answer(ProviderFault{Fault::kOutOfTime, "", std::nullopt});
  }
  EXPECT_NE(bulkhead_->needed(), std::nullopt);
}

TEST_F(BulkheadTest, TellsWhatBecameOfCalls) {
  start(0);
  start(1)->cancel();
  start(2)->cancel();
  fake_->calls[1]->answer(ProviderFault{Fault::kCanceled, "", std::nullopt});
  bulkhead_->start({.request = nullptr,
                    .request_key = {},
                    .deadline = std::chrono::steady_clock::now() + std::chrono::hours(1),
                    .lifetime = std::chrono::hours(1),
                    .fallback = true},
                   [](const Result<Audio, ProviderFault>&) {});
  fake_->calls[0]->answer(Audio{});
  fake_->calls.back()->answer(ProviderFault{Fault::kTryNext, "busy", std::nullopt});
  bulkhead_->undelivered();
  const ProviderCalls calls = bulkhead_->calls();
  EXPECT_EQ(calls.answered, 1U);
  EXPECT_EQ(calls.fallback, 1U);
  EXPECT_EQ(calls.undelivered, 1U);
  EXPECT_EQ(calls.errors.at("try_next"), 1U);
  EXPECT_EQ(calls.all(), 3U) << "the one that was canceled before its turn was no call";
}

TEST_F(BulkheadTest, ClosingAnswersWhatWaits) {
  start(0);
  start(1);
  start(2);
  bulkhead_.reset();
  EXPECT_EQ(ended_, (std::vector<int>{2, 0, 1}));
  EXPECT_EQ(canceled_, 3);
}

}  // namespace
}  // namespace audiogen::worker
