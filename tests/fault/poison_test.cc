// A task that ends every worker it runs on, among others that do nothing: they must not fail for
// it.
//
// A lease lasts 30 s, and what waits for a worker of its own comes back after seconds; instead of
// waiting, the test lets the time pass in the database.
#include <atomic>
#include <fstream>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/domain/lifecycle.h"
#include "tests/e2e/chain.h"

namespace audiogen::test {
namespace {

using namespace std::chrono_literals;

constexpr const char* kPoison = "The poison.";
constexpr double kPrice = 10;  // Of a short sound.

std::int64_t count(Stack& stack, const char* where) {
  return stack.database().number(
      store::Sql("SELECT COUNT(*) FROM tasks WHERE ").append(store::Sql::trusted(where)));
}

// Of workers that are dead.
void let_leases_run_out(Stack& stack) {
  stack.database().execute(
      store::Sql("UPDATE tasks SET lease_until=UTC_TIMESTAMP(6) - INTERVAL 1 SECOND, "
                 "wake_at=UTC_TIMESTAMP(6) WHERE state=2"));
}

// What waits is due; called again and again while a worker runs.
void let_waits_end(Stack& stack) {
  pace(50ms);
  stack.database().execute(store::Sql(
      "UPDATE tasks SET next_run_at=UTC_TIMESTAMP(6), wake_at=UTC_TIMESTAMP(6) WHERE state=1"));
}

bool all_end(Stack& stack) {
  return eventually(300s, [&] {
    let_waits_end(stack);
    return count(stack, "state<=2") == 0;
  });
}

bool is_final(const std::string& status) {
  return status == "failed" || status == "succeeded";
}

// How the poison ends its worker, from the moment that its provider is asked on.
struct Death {
  std::function<DoubleReply(pid_t worker)> on_call;
  std::function<void(Process& worker)> comes;
};

void expect_it_ends_alone(const Death& death) {
  constexpr int kNeighbours = 6;
  std::atomic<pid_t> at_work{0};
  std::atomic<std::uint32_t> poisoned{0};
  ProviderDouble provider([&](const DoubleCall& call) {
    if (member_of(call, "input") == kPoison) {
      if (!eventually(60s, [&] { return at_work != 0; })) {
        ADD_FAILURE() << "the worker has not started";
        return DoubleReply{.status = 500};
      }
      DoubleReply reply = death.on_call(at_work);
      ++poisoned;
      return reply;
    }
    DoubleReply reply = wav_reply(0.5);
    reply.delay = 600ms;
    return reply;
  });
  const ChainFile chain({openai_entry("primary", provider)});
  Stack::Options options = chain.options();
  options.workers = 0;
  Stack stack(options);
  const Account ann = stack.account(10'000);
  for (int i = 0; i < kNeighbours; ++i) {
    stack.create(ann, wav_body("A neighbour."));
  }
  const std::string poison = stack.create(ann, wav_body(kPoison)).text("id");

  std::uint32_t died = 0;
  for (;; ++died) {
    ASSERT_LE(died, kClaimsMax);
    at_work = 0;
    const std::size_t worker = stack.start_worker();
    at_work = stack.worker(worker).pid();
    ASSERT_TRUE(eventually(300s, [&] {
      let_waits_end(stack);
      return poisoned.load() > died || is_final(stack.get(ann, poison).text("status"));
    })) << stack.worker(worker).log();
    if (poisoned.load() == died) {
      break;
    }
    if (died >= kLostTogether) {
      EXPECT_EQ(count(stack, "state=2"), 1) << "nobody beside it";
    }
    death.comes(stack.worker(worker));
    let_leases_run_out(stack);
  }
  EXPECT_EQ(died, kClaimsMax);
  const Reply failed = stack.get(ann, poison);
  EXPECT_EQ(failed.text("error.code"), "internal_error") << failed.body;
  EXPECT_EQ(stack.admin({"task", "show", poison})["lost_leases"].GetUint(), kClaimsMax);

  ASSERT_TRUE(all_end(stack));
  EXPECT_EQ(count(stack, "state=3"), kNeighbours);
  EXPECT_EQ(count(stack, "state=3 AND lost_leases>2"), 0) << "none was beside it any more";
  EXPECT_EQ(count(stack, "state=3 AND claims<>lost_leases+1"), 0)
      << "where nobody was called no claim is used up";
  EXPECT_EQ(credits_of(stack, ann, "available_credits"), 10'000 - kNeighbours * kPrice);
  stack.database().expect_invariants();
}

TEST(Poison, ATaskThatEndsItsWorkersEndsAloneAndNoNeighbourFails) {
  expect_it_ends_alone({
      .on_call =
          [](pid_t) {
            DoubleReply reply;
            reply.form = DoubleReply::Form::kHang;
            return reply;
          },
      .comes = [](Process& worker) { worker.kill(); },
  });
}

TEST(Poison, OneThatTakesAllMemoryEndsAloneToo) {
  const DoubleReply large = wav_reply(120);
  expect_it_ends_alone({
      .on_call =
          [&large](pid_t worker) {
            // Fields of proc(5): what is mapped as data, now, is all that it gets.
            std::ifstream statm("/proc/" + std::to_string(worker) + "/statm");
            rlim_t size = 0, resident = 0, shared = 0, text = 0, lib = 0, data = 0;
            statm >> size >> resident >> shared >> text >> lib >> data;
            const rlim_t now = data * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE));
            const rlimit no_more{now, now};
            EXPECT_EQ(::prlimit(worker, RLIMIT_DATA, &no_more, nullptr), 0);
            return large;
          },
      .comes =
          [](Process& worker) {
            EXPECT_TRUE(eventually(30s, [&] { return !worker.running(); })) << worker.log();
          },
  });
}

// One worker, and always something to do: suspects have their turn, alone, and the others go on.
TEST(Poison, SuspectsAndOthersTakeTurns) {
  constexpr int kTasks = 24;
  constexpr auto kTakes = 250ms;
  struct Seen {
    std::chrono::steady_clock::time_point at;
    bool suspect = false;
  };
  std::mutex mutex;
  std::vector<Seen> seen;
  ProviderDouble provider([&](const DoubleCall& call) {
    const std::scoped_lock lock(mutex);
    seen.push_back({std::chrono::steady_clock::now(), member_of(call, "input") == kPoison});
    DoubleReply reply = wav_reply(0.5);
    reply.delay = kTakes;
    return reply;
  });
  const ChainFile chain({openai_entry("primary", provider)});
  Stack::Options options = chain.options();
  options.workers = 0;
  options.environment["WORKER_IN_FLIGHT"] = "4";
  Stack stack(options);
  const Account ann = stack.account(10'000);
  std::vector<std::string> suspects;
  for (int i = 0; i < kTasks; ++i) {
    const bool suspect = i % 8 == 0;
    const std::string id = stack.create(ann, wav_body(suspect ? kPoison : "Another.")).text("id");
    if (suspect) {
      suspects.push_back(id);
      stack.database().execute(store::Sql("UPDATE tasks SET lost_leases=2, epoch=4 WHERE id=")
                               << TaskId::parse(id).value());
    }
  }
  const std::size_t worker = stack.start_worker();
  ASSERT_TRUE(all_end(stack)) << stack.worker(worker).log();
  EXPECT_EQ(count(stack, "state=3"), kTasks);
  EXPECT_EQ(count(stack, "claims<>1"), 0) << "to wait uses up nothing";
  const std::scoped_lock lock(mutex);
  ASSERT_EQ(seen.size(), static_cast<std::size_t>(kTasks)) << "each was called once";
  std::size_t beside = 0;
  for (std::size_t i = 1; i < seen.size(); ++i) {
    // No call ends sooner than it takes.
    const bool together = seen[i].at - seen[i - 1].at < kTakes;
    beside += together && (seen[i].suspect || seen[i - 1].suspect) ? 1U : 0U;
  }
  EXPECT_EQ(beside, 0U);
  EXPECT_EQ(credits_of(stack, ann, "available_credits"), 10'000 - kTasks * kPrice);
  stack.database().expect_invariants();
}

}  // namespace
}  // namespace audiogen::test
