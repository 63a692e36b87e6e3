// A job alone: what its claim says, how long its lease lasts, and the race of a call with its
// hedge.
#include "worker/job/job.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/worker/fake_provider.h"
#include "tests/worker/jobs.h"

namespace audiogen::worker {
namespace {

using namespace std::chrono_literals;
using Clock = Job::Clock;
using LeaseIs = Job::LeaseIs;
using Race = Job::Race;

const Clock::time_point kStart(1000s);

struct Line final : ProviderCall {
  void cancel() override { ++cancels; }
  void leave() override {
    ++leaves;
    cancel();
  }
  int cancels = 0, leaves = 0;
};

std::shared_ptr<const Chain> chain_of(const std::vector<std::string>& names) {
  std::vector<std::unique_ptr<AudioProvider>> providers;
  for (const std::string& name : names) {
    providers.push_back(std::make_unique<FakeProvider>(name));
  }
  return std::make_shared<const Chain>(std::move(providers));
}

class JobTest : public testing::Test {
 protected:
  // Of the second claim of a task with three calls behind it; `named` was written with the claim.
  static std::shared_ptr<Job> job(std::string named = "first", std::uint32_t calls = 3) {
    store::Claim claim;
    claim.task = TaskId::make();
    claim.user = UserId::make();
    claim.epoch = 4;
    claim.claims = 2;
    claim.calls = calls;
    claim.held = Units{150'000};
    claim.provider = std::move(named);
    claim.request = std::string(1000, ' ') + "{}";
    claim.until_deadline = 600s;
    return std::make_shared<Job>(
        Claimed{std::move(claim), std::make_shared<const GenerationRequest>()},
        chain_of({"first", "second", "third"}),
        kStart,
        kStart + 1s);
  }
  // The call of a job whose step has just begun.
  static Call begun(Job& job) {
    return {.step = job.begin_step(), .provider = job.provider, .row = job.row};
  }

  std::shared_ptr<Line> one_ = std::make_shared<Line>();
  std::shared_ptr<Line> two_ = std::make_shared<Line>();
};

// --- what the claim says

TEST_F(JobTest, TheCallWrittenWithTheClaimIsItsNewest) {
  const auto named = job("second");
  EXPECT_TRUE(named->call_written);
  EXPECT_EQ(named->provider, 1U);
  EXPECT_EQ(named->row, 4U);
  EXPECT_EQ(named->next_row(), 5U);
  EXPECT_EQ(named->deadline, kStart + 601s);
  EXPECT_TRUE(named->claim.request.empty()) << "nobody reads it any more";
  EXPECT_LT(named->claim.request.capacity(), 100U) << "nor does it hold memory";
}

TEST_F(JobTest, ARowOfAProviderThatHasGoneKeepsItsNumber) {
  const auto gone = job("gone");
  EXPECT_FALSE(gone->call_written);
  EXPECT_EQ(gone->row, 4U);
  EXPECT_EQ(gone->next_row(), 5U);
}

TEST_F(JobTest, WithoutARowTheNumbersGoOnFromTheClaimBefore) {
  const auto none = job("");
  EXPECT_FALSE(none->call_written);
  EXPECT_EQ(none->row, 3U);
  EXPECT_EQ(none->next_row(), 4U);
}

TEST_F(JobTest, KnowsWhetherAnotherHasFailedItInTheSameWay) {
  const JobPtr one = job(), other = job();
  const auto first = one->failing(0, Fault::kUnknownOutcome);
  EXPECT_FALSE(first.elsewhere);
  EXPECT_FALSE(one->failing(0, Fault::kUnknownOutcome).elsewhere) << "by the same again";
  EXPECT_FALSE(one->failing(1, Fault::kTryNext).elsewhere) << "in another way";
  EXPECT_FALSE(one->failing(1, Fault::kUnknownOutcome, true).elsewhere) << "not yet";
  const auto again = one->failing(1, Fault::kUnknownOutcome);
  EXPECT_TRUE(again.elsewhere);
  EXPECT_EQ(again.what, first.what);
  EXPECT_NE(other->failing(1, Fault::kUnknownOutcome).what, first.what);
}

// It was forgotten with the claim: the next one began at the second provider, as at the first.
TEST_F(JobTest, WhatFailedInTheClaimBeforeIsKnown) {
  const auto chain = chain_of({"first", "second"});
  const TaskId task = TaskId::make();
  const auto claimed = [&] {
    store::Claim claim;
    claim.task = task;
    return Job(Claimed{std::move(claim), nullptr}, chain, kStart, kStart);
  };
  EXPECT_FALSE(claimed().failing(0, Fault::kUnknownOutcome).elsewhere);
  EXPECT_FALSE(claimed().failing(0, Fault::kUnknownOutcome).elsewhere);
  EXPECT_TRUE(claimed().failing(1, Fault::kUnknownOutcome).elsewhere);
  EXPECT_TRUE(claimed().failing(0, Fault::kUnknownOutcome).elsewhere);
}

TEST_F(JobTest, IsSettledUnderItsOwnEpoch) {
  const auto one = job();
  const store::SettleCommand command =
      one->command({.kind = ClaimEnd::Kind::kRetry, .epoch = 99, .retry_after = 8s});
  EXPECT_EQ(command.task, one->claim.task);
  EXPECT_EQ(command.user, one->claim.user);
  EXPECT_EQ(command.epoch, 4U);
  EXPECT_EQ(command.retry_after, 8s);
  EXPECT_EQ(command.call, 0U);
}

// Of any other than its task's first call, and of a race, there is more to be written.
TEST_F(JobTest, ItsTasksFirstCallIsSettledWithoutALook) {
  const auto first = job("first", 0);
  EXPECT_EQ(first->command({}).held, Units{150'000});
  ASSERT_TRUE(first->hedge(begun(*first), 1));
  EXPECT_EQ(first->command({}).held, std::nullopt);
  EXPECT_EQ(job("first", 1)->command({}).held, std::nullopt);
}

// --- the lease

TEST_F(JobTest, ALeaseIsRenewedOnceAtATimeAndOverInTime) {
  const auto one = job();
  EXPECT_EQ(one->look_at_lease(kStart + kLeaseRenew), LeaseIs::kGood);
  EXPECT_EQ(one->look_at_lease(kStart + kLeaseRenew + 1ms), LeaseIs::kDue);
  EXPECT_EQ(one->look_at_lease(kStart + 20s), LeaseIs::kGood) << "it is being renewed";
  one->renewal_ended(std::nullopt);
  EXPECT_EQ(one->look_at_lease(kStart + 20s), LeaseIs::kDue) << "nobody could tell";
  one->renewal_ended(kStart + 20s);
  EXPECT_EQ(one->look_at_lease(kStart + 30s), LeaseIs::kGood);
  EXPECT_EQ(one->look_at_lease(kStart + 31s), LeaseIs::kDue);
  EXPECT_EQ(one->look_at_lease(kStart + 20s + kLeaseSelfStop), LeaseIs::kGood);
  EXPECT_EQ(one->look_at_lease(kStart + 20s + kLeaseSelfStop + 1ms), LeaseIs::kOver)
      << "though it is being renewed";
}

TEST_F(JobTest, LosingEndsItsCallsAndIsSaidOnce) {
  const auto one = job();
  const Call call = begun(*one);
  one->hold(call.step, one_);
  EXPECT_TRUE(one->lose(false));
  EXPECT_FALSE(one->lose(false));
  EXPECT_TRUE(one->is_lost());
  EXPECT_EQ(one_->cancels, 1);
  EXPECT_EQ(one->look_at_lease(kStart + 999s), LeaseIs::kGood) << "nothing is left to be done";
  one->hold(call.step, two_);
  EXPECT_EQ(two_->cancels, 1) << "whatever comes later";
}

TEST_F(JobTest, GivenBackItsCallsEndNowAndLater) {
  const auto one = job();
  const Call call = begun(*one);
  one->hold(call.step, one_);
  one->give_back();
  EXPECT_TRUE(one->is_given_back());
  EXPECT_FALSE(one->is_lost());
  EXPECT_EQ(one_->cancels, 1);
  const Call next = begun(*one);
  one->hold(next.step, two_);
  EXPECT_EQ(two_->cancels, 1);
  EXPECT_EQ(one->answered(next.step, false), Race::kEnds) << "as canceled: it is still settled";
}

// --- the race

TEST_F(JobTest, OneCallEndsItsStepEitherWay) {
  for (const bool audio : {true, false}) {
    const auto one = job();
    const Call call = begun(*one);
    one->hold(call.step, one_);
    EXPECT_TRUE(one->awaits(call.step));
    EXPECT_EQ(one->answered(call.step, audio), Race::kEnds);
    EXPECT_FALSE(one->awaits(call.step));
    EXPECT_EQ(one->answered(call.step, audio), Race::kOver);
    EXPECT_EQ(one_->cancels, 0) << "it has answered";
  }
}

TEST_F(JobTest, AnAnswerOfAnEarlierStepIsTooLate) {
  const auto one = job();
  const Call old = begun(*one);
  const Call now = begun(*one);
  EXPECT_NE(old.step, now.step);
  EXPECT_EQ(one->answered(old.step, true), Race::kOver);
  EXPECT_FALSE(one->awaits(old.step));
  EXPECT_TRUE(one->awaits(now.step));
}

TEST_F(JobTest, ACallHeldTooLateIsEnded) {
  const auto one = job();
  const Call call = begun(*one);
  EXPECT_EQ(one->answered(call.step, true), Race::kEnds) << "before start() returned";
  one->hold(call.step, one_);
  EXPECT_EQ(one_->cancels, 1);
}

// A worker that has stood still goes on with an answer that came meanwhile: what it would withdraw
// may be another's by now, and paid for.
TEST_F(JobTest, WhoLosesARaceIsLeftWhereAnotherMayHaveTheTask) {
  for (const bool over : {true, false}) {
    const auto one = job();
    one->renewal_ended(Clock::now() - (over ? kLeaseSelfStop + 1s : 0s));
    const Call call = begun(*one);
    const auto slow = std::make_shared<Line>(), late = std::make_shared<Line>();
    one->hold(call.step, slow);
    const auto hedge = one->hedge(call, 1);
    ASSERT_TRUE(hedge);
    EXPECT_EQ(one->answered(hedge->step, true), Race::kEnds);
    one->hold(call.step, late);
    EXPECT_EQ(slow->leaves, over ? 1 : 0);
    EXPECT_EQ(late->leaves, over ? 1 : 0);
    EXPECT_EQ(slow->cancels + late->cancels, 2);
  }
}

struct RaceRow {
  const char* what;
  bool first_audio, last_audio;  // What the one brings that answers first, and the other.
  Race first, last;
};

TEST_F(JobTest, TheFirstAudioWinsAndAFailureWaitsForTheOther) {
  const RaceRow table[] = {
      {"the first delivers", true, true, Race::kEnds, Race::kOver},
      {"the first delivers, the other fails too late", true, false, Race::kEnds, Race::kOver},
      {"the first fails, the other delivers", false, true, Race::kGoesOn, Race::kEnds},
      {"both fail", false, false, Race::kGoesOn, Race::kEnds},
  };
  for (const RaceRow& row : table) {
    const auto one = job();
    const auto slow_line = std::make_shared<Line>(), hedge_line = std::make_shared<Line>();
    const Call slow = begun(*one);
    one->hold(slow.step, slow_line);
    const auto hedge = one->hedge(slow, 1);
    ASSERT_TRUE(hedge) << row.what;
    EXPECT_EQ(hedge->step, slow.step) << row.what;
    EXPECT_EQ(hedge->provider, 1U) << row.what;
    EXPECT_EQ(hedge->row, slow.row + 1) << row.what;
    one->hold(hedge->step, hedge_line);
    EXPECT_EQ(one->answered(slow.step, row.first_audio), row.first) << row.what;
    EXPECT_EQ(one->awaits(slow.step), row.first == Race::kGoesOn) << row.what;
    // Whoever has answered takes no notice of being ended; until a step ends nobody is.
    const int ended = row.first == Race::kEnds ? 1 : 0;
    EXPECT_EQ(slow_line->cancels, ended) << row.what;
    EXPECT_EQ(hedge_line->cancels, ended) << row.what;
    EXPECT_EQ(one->answered(slow.step, row.last_audio), row.last) << row.what;
    EXPECT_EQ(slow_line->cancels, 1) << row.what;
    EXPECT_EQ(hedge_line->cancels, 1) << row.what;
    EXPECT_EQ(one->next_row(), slow.row + 2) << row.what;
  }
}

// What both have failed for, and where the chain goes on: behind the first of them, without the
// second, as those in between are of another tier.
TEST_F(JobTest, OfARaceThatBothLoseBothFaultsCount) {
  using Kind = Fault;
  struct Row {
    const char* what;
    Kind slow, beside;
    bool slow_first;
    std::size_t counts;
    std::vector<std::size_t> unable;
  };
  for (const Row& row : std::vector<Row>{
           {"the later one counts", Kind::kTryNext, Kind::kTryNext, true, 2, {}},
           {"whoever that is", Kind::kTryNext, Kind::kTryNext, false, 0, {}},
           {"but for a refusal", Kind::kRejected, Kind::kTryNext, true, 0, {}},
           {"of either", Kind::kTryNext, Kind::kRejected, false, 2, {}},
           {"and for one that was not made", Kind::kTryNext, Kind::kNotCalled, true, 0, {}},
           {"nor the other", Kind::kNotCalled, Kind::kNotCalled, true, 2, {}},
           {"who cannot is known", Kind::kUnsupportedInput, Kind::kTryNext, true, 2, {0}},
           {"also beside", Kind::kTryNext, Kind::kUnsupportedInput, false, 0, {2}},
           {"the runner notes the one that counts",
            Kind::kUnsupportedInput,
            Kind::kUnsupportedInput,
            false,
            0,
            {2}},
       }) {
    const auto one = job();
    const Call slow = begun(*one);
    const auto hedge = one->hedge(slow, 2);
    ASSERT_TRUE(hedge) << row.what;
    const auto fail = [&](bool first) {
      return one->failed(
          {first ? slow : *hedge, {first ? row.slow : row.beside, "", std::nullopt}});
    };
    EXPECT_EQ(fail(row.slow_first), Race::kGoesOn) << row.what;
    EXPECT_EQ(fail(!row.slow_first), Race::kEnds) << row.what;
    const Job::FailedCall counts = one->end_without_audio();
    EXPECT_EQ(counts.call.provider, row.counts) << row.what;
    EXPECT_EQ(counts.fault.fault, row.counts == 0 ? row.slow : row.beside) << row.what;
    EXPECT_EQ(counts.call.row, row.counts == 0 ? slow.row : hedge->row) << row.what;
    EXPECT_EQ(one->provider, row.counts) << row.what;
    EXPECT_EQ(one->unable, row.unable) << row.what;
    const bool raced = row.beside != Kind::kNotCalled;
    EXPECT_EQ(one->was_raced(2), raced) << row.what;
    EXPECT_EQ(one->raced_from, 0U) << row.what;
    EXPECT_FALSE(one->was_raced(0)) << row.what;
  }
  // Without a race nothing is left of it, nor of what comes too late.
  const auto one = job();
  const Call alone = begun(*one);
  EXPECT_EQ(one->failed({alone, {Kind::kTryNext, "", std::nullopt}}), Race::kEnds);
  EXPECT_EQ(one->failed({alone, {Kind::kRejected, "", std::nullopt}}), Race::kOver);
  EXPECT_EQ(one->end_without_audio().fault.fault, Kind::kTryNext);
  EXPECT_EQ(one->raced_from, std::nullopt);
}

// The task was due as though the one that does not count had not been asked.
TEST_F(JobTest, OfARaceThatBothPutOffBothAreKnown) {
  for (const bool slow_first : {false, true}) {
    const auto one = job();
    const Call slow = begun(*one);
    const auto hedge = one->hedge(slow, 2);
    ASSERT_TRUE(hedge);
    const ProviderFault later{Fault::kThrottled, "", std::chrono::seconds(60)};
    one->failed({slow_first ? slow : *hedge, later});
    one->failed({slow_first ? *hedge : slow, later});
    const Job::FailedCall counts = one->end_without_audio();
    one->note(counts.call.provider, counts.fault);
    ASSERT_EQ(one->later.size(), 2U);
    EXPECT_NE(one->later[0].position, one->later[1].position);
    one->note(counts.call.provider, {Fault::kThrottled, "", std::nullopt});
    ASSERT_EQ(one->later.size(), 2U) << "its last word";
    EXPECT_TRUE(one->later[0].until);
    EXPECT_FALSE(one->later[1].until);
  }
}

TEST_F(JobTest, NoHedgeForWhatNobodyWaitsFor) {
  const auto answered = job();
  const Call done = begun(*answered);
  answered->answered(done.step, false);
  EXPECT_FALSE(answered->hedge(done, 1));

  const auto later = job();
  const Call old = begun(*later);
  begun(*later);
  EXPECT_FALSE(later->hedge(old, 1));

  const auto lost = job();
  const Call call = begun(*lost);
  lost->lose(false);
  EXPECT_FALSE(lost->hedge(call, 1));

  const auto stopping = job();
  const Call last = begun(*stopping);
  stopping->give_back();
  EXPECT_FALSE(stopping->hedge(last, 1));
  EXPECT_EQ(stopping->next_row(), last.row + 1) << "no number was taken";
}

// Else a job at its provider, whose audio two workers had, would be counted twice.
TEST_F(JobTest, WhatIsGoneOnWithIsCountedThere) {
  const auto one = job();
  for (const std::uint32_t row : {1U, 2U}) {
    store::CallRecord made{.n = row, .outcome = CallOutcome::kUndelivered};
    made.price = ProviderPrice{PriceUnit::kCall, Micros{5}};
    ASSERT_TRUE(one->keep(std::move(made)));
  }
  one->goes_on(2);
  const auto calls = one->take_calls();
  ASSERT_EQ(calls.size(), 2U);
  EXPECT_EQ(calls[0].cost(), Micros{5});
  EXPECT_EQ(calls[1].cost(), std::nullopt);
}

TEST_F(JobTest, AHedgeWhoseCallIsNotMadeLeavesTheFirstAwaited) {
  const auto one = job();
  const Call slow = begun(*one);
  one->hold(slow.step, one_);
  const auto hedge = one->hedge(slow, 2);
  ASSERT_TRUE(hedge);
  EXPECT_EQ(one->answered(hedge->step, false), Race::kGoesOn);
  EXPECT_EQ(one_->cancels, 0);
  EXPECT_EQ(one->answered(slow.step, true), Race::kEnds);
}

}  // namespace
}  // namespace audiogen::worker
