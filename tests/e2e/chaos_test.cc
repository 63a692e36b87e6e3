// Many tasks at once, a provider that fails a third of its calls in every way, a worker killed in
// the middle: every task ends, every second delivered is charged exactly once.
//
// AUDIOGEN_CHAOS_TASKS: how many; AUDIOGEN_CHAOS_SEED: of the dice.
#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "common/domain/pricing.h"
#include "tests/e2e/chain.h"
#include "tests/e2e/failures.h"
#include "worker/audio/codec.h"

namespace audiogen::test {
namespace {

using namespace std::chrono_literals;

unsigned long setting(const char* name, unsigned long fallback) {
  const char* const value = std::getenv(name);
  return value == nullptr ? fallback : std::stoul(value);
}

struct Wanted {
  const char* name;
  OutputFormat format;
  int rate;
};
constexpr std::array<Wanted, 6> kWanted = {{{"wav", OutputFormat::kWav, 24000},
                                            {"mp3", OutputFormat::kMp3, 24000},
                                            {"pcm", OutputFormat::kPcm, 8000},
                                            {"ogg_opus", OutputFormat::kOggOpus, 24000},
                                            {"mp3", OutputFormat::kMp3, 44100},
                                            {"wav", OutputFormat::kWav, 48000}}};

// What a player finds in the file, in milliseconds; files that say their length by their size are
// counted without our decoder.
std::int64_t milliseconds_in(const std::string& file, const Wanted& wanted) {
  constexpr std::size_t kWavHeader = 44;
  if (wanted.format == OutputFormat::kPcm || wanted.format == OutputFormat::kWav) {
    const std::size_t header = wanted.format == OutputFormat::kWav ? kWavHeader : 0;
    return duration_ms(static_cast<std::int64_t>((file.size() - header) / 2), wanted.rate);
  }
  const auto samples = decoded_samples(wanted.format, file, wanted.rate);
  EXPECT_TRUE(samples) << (samples ? "" : samples.error().message);
  return samples ? duration_ms(static_cast<std::int64_t>(*samples), wanted.rate) : -1;
}

TEST(Chaos, EveryTaskEndsAndEverySecondIsChargedOnce) {
  const unsigned long tasks = setting("AUDIOGEN_CHAOS_TASKS", 250);
  const unsigned long seed = setting("AUDIOGEN_CHAOS_SEED", 20'261'121);
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::vector<Failure> failures = test::failures("http://127.0.0.1:1/");
  for (int i = 0; i < 5; ++i) {  // Rare among so many ways, and the only one that ends a task.
    failures.push_back({"refused", at(400, "content_policy_violation")});
  }
  std::vector<DoubleReply> good;
  for (int i = 0; i < 23; ++i) {
    good.push_back(wav_reply(0.5 + 0.517 * i));
  }
  // On the double's thread only, until it is gone.
  std::mt19937 dice(static_cast<std::mt19937::result_type>(seed));
  std::set<std::size_t> refused;
  std::size_t calls = 0, failed_calls = 0;
  auto double_ = std::make_unique<ProviderDouble>([&](const DoubleCall& call) {
    const std::size_t number = std::stoul(member_of(call, "input"));
    // A breaker judges by ten calls: an unlucky start would leave the rest to the local engine.
    constexpr std::size_t kGoodFirst = 60;
    if (++calls > kGoodFirst && dice() % 3 == 0) {
      ++failed_calls;
      const Failure& how = failures[dice() % failures.size()];
      if (how.name == "refused") {
        refused.insert(number);
      }
      return how.reply;
    }
    return good[number % good.size()];
  });
  double_->forget_bodies();
  const ChainFile chain(
      {openai_entry("alpha-upstream", *double_, R"(,"timeout_seconds":2)"), kLocalEntry});
  Stack::Options options = chain.options();
  options.workers = 2;
  Stack stack(options);
  const Account ann = stack.account(1'000'000);
  const auto open_tasks = [&] {
    return stack.database().number(store::Sql("SELECT COUNT(*) FROM tasks WHERE state<3"));
  };
  // Kills a worker while work is under way; else it may go on, and the answer is 0.
  const auto kill_at_work = [&] {
    stack.worker(0).signal(SIGSTOP);
    const auto running =
        stack.database().number(store::Sql("SELECT COUNT(*) FROM tasks WHERE state=2"));
    if (running > 0) {
      stack.worker(0).kill();
    } else {
      stack.worker(0).signal(SIGCONT);
    }
    return running;
  };

  const auto began = std::chrono::steady_clock::now();
  std::vector<std::string> ids;
  std::int64_t running_at_the_kill = 0;
  for (std::size_t i = 0; i < tasks; ++i) {
    const Wanted& wanted = kWanted[i % kWanted.size()];
    ids.push_back(stack
                      .create(ann,
                              R"({"model":"svc-audio-1.0","prompt":")" + std::to_string(i) +
                                  R"( and some words","output_format":")" + wanted.name +
                                  R"(","sample_rate":)" + std::to_string(wanted.rate) + "}")
                      .text("id"));
    if (i >= tasks / 2 && running_at_the_kill == 0) {
      running_at_the_kill = kill_at_work();
    }
  }
  EXPECT_GT(running_at_the_kill, 0) << "nothing was under way: the kill proved nothing";
  ASSERT_TRUE(eventually(300s, [&] { return open_tasks() == 0; })) << open_tasks() << " open";
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  double_.reset();

  Units charged;
  std::size_t succeeded = 0;
  for (std::size_t i = 0; i < tasks; ++i) {
    SCOPED_TRACE(ids[i]);
    const Reply done = stack.get(ann, ids[i]);
    if (done.text("status") == "failed") {
      // The local engine can make all of it: only what was refused may fail.
      EXPECT_EQ(done.text("error.code"), "content_rejected");
      EXPECT_TRUE(refused.contains(i));
      EXPECT_EQ(done.text("billing"),
                R"({"reserved_credits":150,"charged_credits":0,"returned_credits":150})");
      continue;
    }
    ASSERT_EQ(done.text("status"), "succeeded") << done.body;
    ++succeeded;
    const Reply file = http("GET", done.text("output.url"));
    ASSERT_EQ(file.status, 200);
    const std::int64_t milliseconds = milliseconds_in(file.body, kWanted[i % kWanted.size()]);
    EXPECT_EQ(std::llround(std::stod(done.text("output.duration_seconds")) * 1000), milliseconds);
    EXPECT_EQ(done.text("usage.credits"), format_credits(charge_for(milliseconds)));
    charged = charged + charge_for(milliseconds);
  }
  EXPECT_DOUBLE_EQ(credits_of(stack, ann, "available_credits"),
                   1'000'000 - static_cast<double>(charged.value) / 1000);
  EXPECT_EQ(credits_of(stack, ann, "reserved_credits"), 0);
  EXPECT_EQ(stack.database().number(
                store::Sql("SELECT COUNT(*) FROM ledger WHERE kind=2 AND d_system>0")),
            static_cast<std::int64_t>(succeeded));
  EXPECT_TRUE(stack.admin({"audit"})["ok"].GetBool());
  stack.database().expect_invariants();
  EXPECT_GT(failed_calls, tasks / 10);
  EXPECT_LT(succeeded, tasks) << "no refund was needed";
  std::printf("%lu tasks, %zu succeeded, %zu of %zu calls failed, %.1f s to the last end\n",
              tasks,
              succeeded,
              failed_calls,
              calls,
              took.count());
}

}  // namespace
}  // namespace audiogen::test
