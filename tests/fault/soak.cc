// Everything that can go wrong, again and again, in an order that a seed decides. Exits 1 when a
// promise was broken.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <gtest/gtest.h>

#include "tests/fault/faults.h"

namespace audiogen::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

int g_minutes = 60;
std::uint64_t g_seed = 1;

// A fault lasts between a moment and this.
constexpr std::chrono::milliseconds kLongest{12'000};
constexpr int kRoundsPerAudit = 20;
// What a process may have more than after its first minute, and still be as it was.
constexpr std::size_t kMoreDescriptors = 64;

struct Needs {
  std::size_t descriptors = 0;
  long resident_mb = 0;
};

Needs needs_of(pid_t pid) {
  Needs out;
  const std::string folder = "/proc/" + std::to_string(pid);
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator(folder + "/fd", gone)) {
    out.descriptors += entry.path().empty() ? 0U : 1U;
  }
  std::ifstream status(folder + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) {
      out.resident_mb = std::atol(line.c_str() + 6) / 1024;
    }
  }
  return out;
}

class Mix {
 public:
  Mix()
      : arena_({.own_database = true,
                .own_broker = true,
                .soak = true,
                .clients = 6,
                .seed = g_seed}) {
    for (const auto& faults : {link_faults(), database_faults(), broker_faults()}) {
      all_.insert(all_.end(), faults.begin(), faults.end());
    }
  }

  void run(Clock::time_point until) {
    for (int round = 1; Clock::now() < until && !testing::Test::HasFailure(); ++round) {
      arena_.expect_life();
      one_fault();
      if (round % kRoundsPerAudit == 0) {
        arena_.expect_life();
        arena_.stack().database().expect_invariants();
        report(round);
      }
    }
    arena_.judge(nonsense_);
    std::printf("%zu generations\n", arena_.generations());
  }

 private:
  void one_fault() {
    const Fault& fault = all_[dice_() % all_.size()];
    const std::chrono::milliseconds lasts(dice_() % static_cast<std::uint64_t>(kLongest.count()));
    std::printf("%s, %.1f s\n", fault.name, std::chrono::duration<double>(lasts).count());
    std::fflush(stdout);
    fault.strike(arena_);
    nonsense_ += fault.nonsense;
    pace(lasts);
    if (fault.heal != nullptr) {
      fault.heal(arena_);
    }
  }

  // Memory is shown; descriptors, which nothing but work needs, must come back.
  void report(int round) {
    const Needs api = needs_of(arena_.stack().api().pid());
    std::printf("-- round %d: %zu generations; api %zu descriptors, %ld MB",
                round,
                arena_.generations(),
                api.descriptors,
                api.resident_mb);
    for (std::size_t place = 0; place < Arena::kWorkers; ++place) {
      const Needs worker = needs_of(arena_.worker(place).pid());
      std::printf("; worker %zu, %ld MB", worker.descriptors, worker.resident_mb);
      EXPECT_LE(worker.descriptors, most(least_worker_, worker.descriptors));
    }
    EXPECT_LE(api.descriptors, most(least_api_, api.descriptors));
    std::printf("\n");
    std::fflush(stdout);
  }

  static std::size_t most(std::size_t& least, std::size_t now) {
    least = least == 0 ? now : std::min(least, now);
    return least + kMoreDescriptors;
  }

  std::mt19937_64 dice_{g_seed};
  std::vector<Fault> all_;
  Arena arena_;
  std::size_t least_api_ = 0, least_worker_ = 0;
  std::uint64_t nonsense_ = 0;
};

TEST(Soak, NothingIsLostNorPaidTwice) {
  const auto until = Clock::now() + std::chrono::minutes(g_minutes);
  Mix().run(until);
}

}  // namespace
}  // namespace audiogen::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  CLI::App app("Everything that can go wrong, in an order that a seed decides.");
  app.add_option("--minutes", audiogen::test::g_minutes, "how long")->check(CLI::Range(1, 10'000));
  app.add_option("--seed", audiogen::test::g_seed, "of the order");
  CLI11_PARSE(app, argc, argv);
  std::printf("seed %llu, %d minutes\n",
              static_cast<unsigned long long>(audiogen::test::g_seed),
              audiogen::test::g_minutes);
  return RUN_ALL_TESTS();
}
