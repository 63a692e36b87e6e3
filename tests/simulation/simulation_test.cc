// Seeds of the simulation, those that have once shown something, and the judge's own test.
#include "tests/simulation/simulation.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include <gtest/gtest.h>

namespace audiogen::simulation {
namespace {

// What once showed something: the first ones before there were lanes, and what they showed then.
constexpr auto kRemembered = std::to_array<std::uint64_t>({
    437,      // Two sweepers bring the same row back from the future.
    1300,     // Clients ask until the very end.
    6484,     // A claim settles that another has replaced.
    19827,    // A row is brought back between a sweeper's look and its lock.
    34474,    // The COMMIT that brings a row back is lost.
    43528,    // A row is held while others are brought back.
    61240,    // The clock is set back twice.
    64061,    // A worker begins just after a clock that was behind went forward.
    111692,   // The clock is set between a settlement's lock and its COMMIT.
    7736,     // A lease ends before the database does, and is missed after it.
    11429,    // The marks of the sweepers lie in the future.
    14121,    // The clock is set back twice, of parked tasks.
    46256,    // A burst that was asked for before the healing comes after it.
    69712,    // A sweeper freezes between its look and the rows that it brings back.
    94990,    // A row is brought back between a sweeper's look and its lock.
    229059,   // Not all rows are brought back at once.
    17628,    // A row is held while others are brought back.
    7963,     // What a sweeper has read changes before it locks.
    29242,    // A row is held while others are brought back.
    602986,   // A step of 4 s ends a lease while its worker may believe to have it.
    615032,   // The clock is set back twice and then forward, of tasks that were claimed between.
    661999,   // The same,
    725138,   // and again.
    810100,   // Who claims by the hint of what was not committed is in the way of what comes again.
    849771,   // The same, of a worker that froze,
    864875,   // and of one that froze while others ran.
    35337,    // What was not brought back at once is, by whoever looks next.
    3664,     // A stale claim comes to its end when the task has been claimed again.
    106607,   // A task is put back by a clock that nobody has seen set back.
    126143,   // The clock is set back between the lock and the COMMIT of who ends a task.
    1168615,  // The same.
    1479395,  // A parked task is released by a clock that nobody has seen set back.
    330587,   // A step forward while a sweeper waits for the answer of its look.
    203382,   // A sweeper sleeps through a step back and one forward.
    7403,     // The clock is set between a sweeper's look and the rows that it brings back.
    5000526,  // It sleeps through one forward and a smaller one back, and sees one forward.
});

void expect_as_promised(std::uint64_t seed) {
  const Report report = simulate(seed);
  if (!report.verdict) {
    return;
  }
  const Report told = simulate(seed, Mutant::kNone, true);
  ADD_FAILURE() << "seed " << seed << ": " << *report.verdict << "\n"
                << told.plan << "\n\n"
                << told.log << "\nAgain: ./dev simulate --seed " << seed << " --log";
}

TEST(Simulation, TheFirstSeedsAreAsPromised) {
  constexpr std::uint64_t kSeeds = 300;
  for (std::uint64_t seed = 0; seed < kSeeds && !testing::Test::HasFailure(); ++seed) {
    expect_as_promised(seed);
  }
}

TEST(Simulation, RememberedSeedsAreAsPromised) {
  for (const std::uint64_t seed : kRemembered) {
    expect_as_promised(seed);
  }
}

TEST(Simulation, ASeedIsAlwaysTheSame) {
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    const Report first = simulate(seed, Mutant::kNone, true);
    const Report second = simulate(seed, Mutant::kNone, true);
    EXPECT_EQ(first.log, second.log);
    EXPECT_EQ(first.events, simulate(seed).events) << "the log changes nothing";
    EXPECT_FALSE(first.log.empty());
  }
}

// Else the seeds above say nothing.
TEST(Simulation, SomethingHappens) {
  std::size_t tasks = 0, succeeded = 0, parked = 0, suspects = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const Report report = simulate(seed);
    tasks += report.tasks;
    succeeded += report.succeeded;
    parked += report.parked;
    suspects += report.suspects;
  }
  EXPECT_GT(tasks, 300U);
  EXPECT_GT(succeeded, tasks / 4);
  EXPECT_LT(succeeded, tasks);
  EXPECT_GT(parked, 300U);
  EXPECT_GT(suspects, 10U);
}

class Broken : public testing::TestWithParam<Mutant> {};

TEST_P(Broken, IsNoticedByTheJudge) {
  constexpr std::uint64_t kSeeds = 1'000;
  for (const std::uint64_t seed : kRemembered) {
    if (simulate(seed, GetParam()).verdict) {
      EXPECT_FALSE(simulate(seed).verdict) << "it is noticed without it, too: seed " << seed;
      return;
    }
  }
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    if (simulate(seed, GetParam()).verdict) {
      EXPECT_FALSE(simulate(seed).verdict) << "it is noticed without it, too: seed " << seed;
      return;
    }
  }
  ADD_FAILURE() << mutant_name(GetParam()) << " is not noticed within " << kSeeds << " seeds";
}

std::vector<Mutant> all_mutants() {
  std::vector<Mutant> all;
  for (int i = 1; i <= static_cast<int>(Mutant::kLastMutant); ++i) {
    all.push_back(static_cast<Mutant>(i));
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Simulation,
                         Broken,
                         testing::ValuesIn(all_mutants()),
                         [](const testing::TestParamInfo<Mutant>& of) {
                           std::string name(mutant_name(of.param));
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace audiogen::simulation
