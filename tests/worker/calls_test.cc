// When a provider is called, and when not.
#include "worker/job/calls.h"

#include <atomic>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/wait.h"
#include "tests/worker/fake_provider.h"
#include "worker/job/next_step.h"

namespace audiogen::worker {
namespace {

using namespace std::chrono_literals;

// Nothing here asks the database.
class CallsTest : public testing::Test {
 protected:
  // Whose lease was asked for so long ago.
  JobPtr job_of(std::chrono::seconds ago, const Capabilities& able = {}) {
    auto provider = std::make_unique<FakeProvider>("first", able);
    provider_ = provider.get();
    std::vector<std::unique_ptr<AudioProvider>> providers;
    providers.push_back(std::move(provider));
    return job_of(ago, std::make_shared<const Chain>(std::move(providers)));
  }
  static JobPtr job_of(std::chrono::seconds ago,
                       std::shared_ptr<const Chain> chain,
                       const GenerationRequest& request = {}) {
    store::Claim claim;
    claim.task = TaskId::make();
    claim.provider = "first";
    claim.until_deadline = 600s;
    const auto now = Job::Clock::now();
    return std::make_shared<Job>(
        Claimed{std::move(claim), std::make_shared<const GenerationRequest>(request)},
        std::move(chain),
        now - ago,
        now);
  }

  // For what is left open at a test's end: it keeps its job, and so its provider.
  static ProviderFault ended() { return {Fault::kCanceled, "ended", std::nullopt}; }

  Scheduler scheduler_;
  Roster roster_{10, [] {}};
  std::atomic<int> answers_ = 0;
  Tickets tickets_{DatabaseUrl{}, scheduler_};
  CallRecords records_{DatabaseUrl{}, scheduler_};
  Calls calls_{DatabaseUrl{},
               roster_,
               scheduler_,
               tickets_,
               records_,
               [this](const JobPtr&, const Calls::Answer&) { ++answers_; }};
  FakeProvider* provider_ = nullptr;
};

TEST_F(CallsTest, AProviderIsCalledWhileTheLeaseLasts) {
  const JobPtr job = job_of(kLeaseSelfStop / 2);
  calls_.call(job);
  ASSERT_EQ(provider_->calls.size(), 1U);
  EXPECT_EQ(answers_, 0);
  EXPECT_FALSE(job->is_lost());
  provider_->calls.front()->answer(ProviderFault{Fault::kTryNext, "down", std::nullopt});
  EXPECT_EQ(answers_, 1);
}

// Frozen between its claim and its call, a worker goes on when somebody else may have the task.
TEST_F(CallsTest, NobodyIsCalledOnceItIsOver) {
  const JobPtr job = job_of(kLeaseSelfStop + 1s);
  calls_.call(job);
  EXPECT_TRUE(provider_->calls.empty());
  EXPECT_EQ(answers_, 1);
  EXPECT_TRUE(job->is_lost());
}

// Its row was being written when its worker gave it back.
TEST_F(CallsTest, NobodyIsCalledForWhatIsGivenBack) {
  const JobPtr job = job_of(0s);
  job->give_back();
  calls_.call(job);
  EXPECT_TRUE(provider_->calls.empty());
  EXPECT_EQ(answers_, 1);
}

TEST_F(CallsTest, NobodyIsCalledWhoWouldOutlastThisWorker) {
  Capabilities able;
  able.timeout = 60s;
  const JobPtr job = job_of(0s, able);
  calls_.close(Job::Clock::now() + 30s);
  calls_.call(job);
  EXPECT_TRUE(provider_->calls.empty());
  EXPECT_EQ(answers_, 1);
}

// What is known of a call goes with its job, to be written with its end.
TEST_F(CallsTest, WhatACallWasIsKeptForTheEndOfItsTask) {
  Capabilities able;
  able.price = ProviderPrice{PriceUnit::kThousandCharacters, Micros{1'000}};
  able.reports = PriceUnit::kThousandCharacters;
  able.gives_tickets = true;
  const auto ended = [&](Result<Audio, ProviderFault> answer,
                         const std::function<void(Job&)>& before = {}) {
    const JobPtr job = job_of(0s, able);
    calls_.call(job);
    if (before) {
      before(*job);
    }
    provider_->calls.front()->answer(std::move(answer));
    const auto calls = job->take_calls();
    EXPECT_EQ(calls.size(), 1U);
    return calls.empty() ? store::CallRecord{} : calls.front();
  };
  const auto fault = [](Fault kind) { return ProviderFault{kind, "", std::nullopt}; };
  EXPECT_EQ(ended(fault(Fault::kTryNext)).outcome, CallOutcome::kFailed);
  EXPECT_EQ(ended(fault(Fault::kUnknownOutcome)).outcome, CallOutcome::kUnknown);
  EXPECT_EQ(ended(fault(Fault::kOutOfTime)).outcome, CallOutcome::kUnknown);
  EXPECT_EQ(ended(fault(Fault::kCanceled)).outcome, CallOutcome::kBeaten);
  ProviderFault no_good = fault(Fault::kTryNext);
  no_good.made = true;
  EXPECT_EQ(ended(no_good).outcome, CallOutcome::kUndelivered) << "it is billed";
  const auto ended_there = ended(fault(Fault::kCanceled), [](Job& job) { job.lose(true); });
  EXPECT_EQ(ended_there.outcome, CallOutcome::kDropped);
  EXPECT_EQ(ended_there.cost(), Micros{0}) << "nobody counts it again";
  const auto dropped = ended(fault(Fault::kCanceled), [&](Job& job) {
    job.give_back();
    provider_->facts.front()->goes_on = true;
  });
  EXPECT_EQ(dropped.outcome, CallOutcome::kDropped);
  EXPECT_EQ(dropped.cost(), std::nullopt) << "it goes on there, and counts where it ends";
  const auto made = ended(Audio{}, [&](Job&) {
    CallFacts& facts = *provider_->facts.front();
    facts.first_byte = *facts.sent + 40ms;
    facts.reported = 30;
  });
  EXPECT_EQ(made.outcome, CallOutcome::kUndelivered) << "until its task has succeeded";
  EXPECT_EQ(made.n, 1U);
  EXPECT_EQ(made.provider, "first");
  EXPECT_EQ(made.first_byte, 40ms);
  EXPECT_EQ(made.quantity(), 30);
  EXPECT_EQ(made.cost(), Micros{30});
}

// A price by the call is not multiplied by what the provider counts otherwise.
TEST_F(CallsTest, WhatIsReportedCountsInItsOwnUnitAlone) {
  Capabilities able;
  able.price = ProviderPrice{PriceUnit::kCall, Micros{1'000}};
  able.reports = PriceUnit::kThousandCharacters;
  const JobPtr job = job_of(0s, able);
  calls_.call(job);
  provider_->facts.front()->reported = 30;
  provider_->calls.front()->answer(Audio{});
  EXPECT_EQ(job->take_calls().at(0).cost(), Micros{1'000});
}

TEST_F(CallsTest, WhatIsReportedIsKeptWithoutAPrice) {
  Capabilities able;
  able.reports = PriceUnit::kBillableUnit;
  const JobPtr job = job_of(0s, able);
  calls_.call(job);
  provider_->facts.front()->reported = 2'500;
  provider_->calls.front()->answer(Audio{});
  const store::CallRecord made = job->take_calls().at(0);
  EXPECT_EQ(made.unit(), PriceUnit::kBillableUnit);
  EXPECT_EQ(made.quantity(), 2'500);
  EXPECT_EQ(made.cost(), std::nullopt);
}

TEST_F(CallsTest, NothingIsKeptOfACallThatWasNotMade) {
  const JobPtr job = job_of(0s);
  calls_.call(job);
  provider_->facts.front()->sent.reset();
  provider_->calls.front()->answer(ProviderFault{Fault::kNotCalled, "late", std::nullopt});
  EXPECT_TRUE(job->take_calls().empty());
}

// Another provider would make anew, and be paid for, what is made already.
TEST_F(CallsTest, WhatATicketAsksForWaitsForItsProvider) {
  Capabilities one;
  one.queue_wait = 1ms;
  auto first = std::make_unique<FakeProvider>("first", one);
  provider_ = first.get();
  std::vector<std::unique_ptr<AudioProvider>> providers;
  providers.push_back(std::move(first));
  providers.push_back(std::make_unique<FakeProvider>("second"));
  const auto chain = std::make_shared<const Chain>(std::move(providers));
  const JobPtr running = job_of(0s, chain), resumed = job_of(0s, chain), fresh = job_of(0s, chain);
  resumed->ticket = "of an earlier call";
  calls_.call(running);
  calls_.call(resumed);
  calls_.call(fresh);
  // Had both been told to stop, the one that came first would have been so first.
  ASSERT_TRUE(test::eventually(60s, [&] { return chain->at(0).waiting() < 2 && answers_ > 0; }));
  EXPECT_EQ(answers_, 1) << "the one that is to be made anew goes to who is free";
  EXPECT_EQ(chain->at(0).waiting(), 1U);
  const ProviderFault down{Fault::kTryNext, "down", std::nullopt};
  for (std::size_t i = 0; i < provider_->calls.size(); ++i) {
    provider_->calls[i]->answer(down);
  }
  EXPECT_EQ(provider_->calls.size(), 2U);
  EXPECT_EQ(answers_, 3);
}

// A ticket that led nowhere used up an attempt: it was told before anybody was asked for it.
TEST_F(CallsTest, WhoHasATicketAlreadyIsNotCalledByIt) {
  Capabilities able;
  able.gives_tickets = true;
  const JobPtr resumed = job_of(0s, able);
  resumed->ticket = "of an earlier call";
  calls_.call(resumed);
  provider_->calls.front()->taken(resumed->ticket);
  EXPECT_FALSE(resumed->called);
  provider_->calls.front()->answer(ProviderFault{Fault::kNotCalled, "gone", std::nullopt});
  EXPECT_FALSE(resumed->called);
  const JobPtr fresh = job_of(0s, resumed->chain);
  calls_.call(fresh);
  EXPECT_FALSE(fresh->called);
  provider_->calls.back()->taken("its own");
  EXPECT_TRUE(fresh->called);
  provider_->calls.back()->answer(ended());
}

// Nor by one that cannot, or that says "later": another is to have it.
TEST_F(CallsTest, WhoHasNotTakenItWasNotCalled) {
  for (const Fault fault : {Fault::kThrottled, Fault::kUnsupportedInput, Fault::kTryNext}) {
    const JobPtr job = job_of(0s);
    calls_.call(job);
    provider_->calls.front()->answer(ProviderFault{fault, "", std::nullopt});
    EXPECT_EQ(job->called, fault == Fault::kTryNext) << fault_name(fault);
  }
}

// The last one's word kept the task from the first, which had only stumbled.
TEST_F(CallsTest, WhatHasFailedComesAgainWhenTheFirstOfThemMayHaveIt) {
  std::vector<std::unique_ptr<AudioProvider>> providers;
  providers.push_back(std::make_unique<FakeProvider>("first"));
  providers.push_back(std::make_unique<FakeProvider>("second"));
  const JobPtr job = job_of(0s, std::make_shared<const Chain>(std::move(providers)));
  job->called = true;
  job->provider = 1;
  job->tries = 1;
  const ProviderFault later{Fault::kThrottled, "", 60s};
  job->note(1, later);
  EXPECT_EQ(after_fault(*job, later).step, NextStep::kRetryLater);
  EXPECT_EQ(after_fault(*job, later).wait, 0s);
  job->note(0, {Fault::kRetrySame, "", 30s});
  EXPECT_LE(after_fault(*job, later).wait, 30s);
  EXPECT_GT(after_fault(*job, later).wait, 0s);
  job->note(0, {Fault::kRetrySame, "", 3600s});
  job->note(1, {Fault::kThrottled, "", 3600s});
  EXPECT_EQ(after_fault(*job, later).wait, 60s) << "nobody in its time";
}

// It waited for minutes, or failed where it had not so many, though another worker could have had
// it.
TEST_F(CallsTest, WhatHasFailedDoesNotWaitForTheBreakerThatItHasShut) {
  const JobPtr job = job_of(0s);
  const auto open = [&] { return job->chain->closed_to_calls(0).count() > 0; };
  for (std::uint64_t task = 0; task < 3; ++task) {
    ASSERT_TRUE(job->chain->admit(0, job->time(Job::Clock::now())));
    job->chain->failed(0, Fault::kMisconfigured, {.what = task});
  }
  ASSERT_TRUE(open());
  job->called = true;
  job->tries = 1;
  const ProviderFault refused{Fault::kMisconfigured, "", std::nullopt};
  EXPECT_EQ(after_fault(*job, refused).step, NextStep::kRetryLater);
  EXPECT_EQ(after_fault(*job, refused).wait, 0s);
  // What was not called waits here, and uses up nothing.
  job->called = false;
  const ProviderFault not_called{Fault::kNotCalled, "", std::nullopt};
  EXPECT_EQ(after_fault(*job, not_called).step, NextStep::kGiveBack);
  EXPECT_GT(after_fault(*job, not_called).wait, 60s);
  EXPECT_EQ(after_fault(*job, {Fault::kCanceled, "", std::nullopt}).wait, 0s);
}

// A provider was asked before it had said.
TEST_F(CallsTest, WhoDoesNotSayWhenIsNotAskedBeforeWhoDoes) {
  std::vector<std::unique_ptr<AudioProvider>> providers;
  providers.push_back(std::make_unique<FakeProvider>("first"));
  providers.push_back(std::make_unique<FakeProvider>("second"));
  const JobPtr job = job_of(0s, std::make_shared<const Chain>(std::move(providers)));
  job->provider = 1;
  const ProviderFault says{Fault::kThrottled, "", 300s}, does_not{Fault::kThrottled, "", {}};
  job->note(0, says);
  job->note(1, does_not);
  job->tries = 3;
  EXPECT_EQ(after_fault(*job, does_not).step, NextStep::kGiveBack);
  EXPECT_GT(after_fault(*job, does_not).wait, 200s);
  job->note(0, does_not);
  EXPECT_LT(after_fault(*job, does_not).wait, 200s);
}

// Its references were fetched by another thread meanwhile.
TEST_F(CallsTest, NobodyIsAskedBesideWhatGoesOnWithoutItsReferences) {
  Capabilities able;
  able.gives_tickets = true;
  able.hedge_after = 1ms;
  able.audio_references = true;
  auto first = std::make_unique<FakeProvider>("first", able);
  able.gives_tickets = false;
  auto second = std::make_unique<FakeProvider>("second", able);
  provider_ = first.get();
  std::vector<std::unique_ptr<AudioProvider>> providers;
  providers.push_back(std::move(first));
  providers.push_back(std::move(second));
  GenerationRequest referring;
  referring.audio_references = {"https://a.example/a"};
  const JobPtr job = job_of(0s, std::make_shared<const Chain>(std::move(providers)), referring);
  job->ticket = "of an earlier call";
  calls_.call(job);
  job->references = std::make_shared<const References>();
  std::atomic<bool> later = false;
  scheduler_.after(100ms, [&] { later = true; });  // What comes before it has come.
  ASSERT_TRUE(test::eventually(60s, [&] { return later.load(); }));
  EXPECT_EQ(job->next_row(), 2U) << "no row was begun for another";
  provider_->calls.front()->answer(ended());
}

// Its answer waits for room of ours: another's would wait behind it, and be paid as well.
TEST_F(CallsTest, NobodyIsAskedBesideWhoHasAnswered) {
  Capabilities able;
  able.hedge_after = 1ms;
  auto first = std::make_unique<FakeProvider>("first", able);
  provider_ = first.get();
  std::vector<std::unique_ptr<AudioProvider>> providers;
  providers.push_back(std::move(first));
  providers.push_back(std::make_unique<FakeProvider>("second", able));
  const JobPtr job = job_of(0s, std::make_shared<const Chain>(std::move(providers)));
  provider_->on_start = [&] { provider_->calls.back()->unread = true; };
  calls_.call(job);
  std::atomic<bool> later = false;
  scheduler_.after(100ms, [&] { later = true; });  // What comes before it has come.
  ASSERT_TRUE(test::eventually(60s, [&] { return later.load(); }));
  EXPECT_EQ(job->next_row(), 2U) << "no row was begun for another";
  provider_->calls.front()->answer(ended());
}

// Their ends were counted, and their beginnings were not: many calls under way looked like few, of
// which three that failed were all there were.
TEST_F(CallsTest, WhatIsResumedIsUnderWayForItsBreaker) {
  constexpr std::size_t kCalls = 12;
  Capabilities able;
  able.max_in_flight = 2 * kCalls;
  const JobPtr first = job_of(0s, able);
  std::vector<JobPtr> jobs{first};
  while (jobs.size() < 2 * kCalls) {
    jobs.push_back(job_of(0s, first->chain));
    jobs.back()->ticket = jobs.size() > kCalls ? "of an earlier call" : "";
  }
  for (const JobPtr& job : jobs) {
    calls_.call(job);
  }
  ASSERT_EQ(provider_->calls.size(), 2 * kCalls);
  for (std::size_t i = kCalls; i < 2 * kCalls; ++i) {
    provider_->calls[i]->answer(ProviderFault{Fault::kCanceled, "lost", std::nullopt});
  }
  for (std::size_t i = 0; i < 3; ++i) {
    provider_->calls[i]->answer(ProviderFault{Fault::kTryNext, "down", std::nullopt});
  }
  EXPECT_TRUE(first->chain->admit(0, first->time(Job::Clock::now())));
  for (std::size_t i = 3; i < kCalls; ++i) {
    provider_->calls[i]->answer(ended());
  }
}

}  // namespace
}  // namespace audiogen::worker
