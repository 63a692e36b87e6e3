// When a provider is called, and when not.
#include "worker/job/calls.h"

#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/worker/fake_provider.h"

namespace audiogen::worker {
namespace {

using namespace std::chrono_literals;

// Nothing here asks the database.
class CallsTest : public testing::Test {
 protected:
  // Whose lease was asked for so long ago.
  JobPtr job_of(std::chrono::seconds ago) {
    auto provider = std::make_unique<FakeProvider>("first");
    provider_ = provider.get();
    std::vector<std::unique_ptr<AudioProvider>> providers;
    providers.push_back(std::move(provider));
    store::Claim claim;
    claim.task = TaskId::make();
    claim.provider = "first";
    claim.until_deadline = 600s;
    const auto now = Job::Clock::now();
    return std::make_shared<Job>(
        Claimed{std::move(claim), std::make_shared<const GenerationRequest>()},
        std::make_shared<const Chain>(std::move(providers)),
        now - ago,
        now);
  }

  Scheduler scheduler_;
  Roster roster_{10, [] {}};
  int answers_ = 0;
  Tickets tickets_{DatabaseUrl{}, scheduler_};
  Calls calls_{
      DatabaseUrl{}, roster_, scheduler_, tickets_, [this](const JobPtr&, const Calls::Answer&) {
        ++answers_;
      }};
  FakeProvider* provider_ = nullptr;
};

TEST_F(CallsTest, AProviderIsCalledWhileTheLeaseLasts) {
  const JobPtr job = job_of(kLeaseSelfStop - 5s);
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

}  // namespace
}  // namespace audiogen::worker
