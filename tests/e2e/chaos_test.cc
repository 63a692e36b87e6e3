// Many tasks at once, a provider that fails a third of its calls in every way, a worker killed in
// the middle: every task ends, every second delivered is charged exactly once. And the same with a
// provider whose jobs outlive who asked for them, a storage that is away for a while and a deploy:
// nothing is paid again that was paid.
//
// AUDIOGEN_CHAOS_TASKS: how many; AUDIOGEN_CHAOS_SEED: of the dice.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <map>
#include <mutex>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "common/domain/pricing.h"
#include "tests/e2e/chain.h"
#include "tests/e2e/failures.h"
#include "tests/support/s3_double.h"
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

// A provider with a queue of its own, as fal's is: who asks gets a ticket, and asks with that until
// the job is done. Every job is good for a paid sound.
class QueueProvider {
 public:
  explicit QueueProvider(unsigned long seed)
      : dice_(static_cast<std::mt19937::result_type>(seed)) {}

  struct Story {
    int asked = 0, taken = 0;  // How often it was asked to make it, and has begun to.
    int spoiled = 0;           // Jobs that ended without a sound.
  };
  std::map<std::size_t, Story> stories() const {
    const std::scoped_lock lock(mutex_);
    return stories_;
  }
  // While it is busy no job ends.
  void set_busy(bool busy) {
    const std::scoped_lock lock(mutex_);
    busy_ = busy;
  }
  std::string entry() const {
    return R"({"name":"queue","kind":"fal","model":"owner/app","base_url":")" + double_.url() +
           R"(","api_key_env":"PROVIDER_KEY","price":{"amount":0.5,"per":"call"}})";
  }

 private:
  struct Job {
    std::size_t number;
    bool spoiled;
    int looks = 0;
  };

  DoubleReply answer(std::string body, int status = 200) const {
    const std::string base = double_.url();
    for (std::size_t at = body.find("BASE"); at != std::string::npos; at = body.find("BASE")) {
      body.replace(at, 4, base);
    }
    return {
        .status = status, .headers = {"Content-Type: application/json"}, .body = std::move(body)};
  }
  // Two of six, in any order: with more in a row nobody would ask any more.
  bool fails() {
    if (fate_.empty()) {
      fate_ = {true, true, false, false, false, false};
      std::shuffle(fate_.begin(), fate_.end(), dice_);
    }
    const bool out = fate_.back();
    fate_.pop_back();
    return out;
  }
  DoubleReply take(const DoubleCall& call) {
    const std::size_t number = std::stoul(member_of(call, "prompt"));
    Story& story = stories_[number];
    ++story.asked;
    if (fails()) {
      return answer(R"({"detail":"busy"})", dice_() % 2 == 0 ? 500 : 503);
    }
    ++story.taken;
    const std::string job = "BASE/jobs/" + std::to_string(jobs_.size());
    jobs_.push_back({.number = number, .spoiled = dice_() % 20 == 0});
    return answer(R"({"status_url":")" + job + R"(/status","response_url":")" + job +
                  R"(/result","cancel_url":")" + job + R"(/cancel"})");
  }
  DoubleReply play(const DoubleCall& call) {
    constexpr std::string_view kJobs = "/jobs/";
    const std::scoped_lock lock(mutex_);
    if (call.target == "/file") {
      return wav_reply(0.5);
    }
    if (!call.target.starts_with(kJobs)) {
      return take(call);
    }
    Job& job = jobs_.at(std::stoul(call.target.substr(kJobs.size())));
    if (call.target.ends_with("/status")) {
      return answer(++job.looks > 2 && !busy_ ? R"({"status":"COMPLETED"})"
                                              : R"({"status":"IN_PROGRESS"})");
    }
    if (call.target.ends_with("/result") && !job.spoiled) {
      return answer(R"({"audio":{"url":"BASE/file"}})");
    }
    ++stories_[job.number].spoiled;
    return answer("{}");
  }

  mutable std::mutex mutex_;
  std::mt19937 dice_;
  std::vector<bool> fate_;
  bool busy_ = false;
  std::vector<Job> jobs_;
  std::map<std::size_t, Story> stories_;
  ProviderDouble double_{[this](const DoubleCall& call) { return play(call); }};
};

TEST(Chaos, WhatWasPaidIsNotPaidAgain) {
  const unsigned long tasks = setting("AUDIOGEN_CHAOS_TASKS", 250);
  const unsigned long seed = setting("AUDIOGEN_CHAOS_SEED", 20'261'125);
  SCOPED_TRACE("seed " + std::to_string(seed));
  QueueProvider provider(seed);
  S3Double storage("audio", "eu-west-3", {"id", "hush"});
  const ChainFile chain({provider.entry(), kLocalEntry});
  Stack::Options options = chain.options();
  options.workers = 2;
  options.environment["URL_POLICY"] = "any";
  options.environment["BLOB_URL"] = "s3://audio?region=eu-west-3&endpoint=" + storage.endpoint();
  options.environment["AWS_ACCESS_KEY_ID"] = "id";
  options.environment["AWS_SECRET_ACCESS_KEY"] = "hush";
  options.environment["CDN_URL"] = "http://127.0.0.1:1";
  options.environment["DRAIN_LIMIT_MS"] = "100";  // A deploy that waits for nobody.
  Stack stack(options);
  const Account ann = stack.account(1'000'000);
  const auto number = [&](const char* query) {
    return stack.database().number(store::Sql::trusted(query));
  };

  std::vector<std::string> ids;
  const auto create_up_to = [&](std::size_t many) {
    while (ids.size() < many) {
      ids.push_back(stack.create(ann, wav_body(std::to_string(ids.size()))).text("id"));
    }
  };
  constexpr std::int64_t kMany = 10;
  const auto many_under_way = [&] {
    return number(
               "SELECT COUNT(*) FROM tasks t JOIN tickets k ON k.task_id=t.id AND "
               "k.n=t.attempts WHERE t.state=2") >= kMany;
  };
  provider.set_busy(true);
  create_up_to(tasks / 4);
  ASSERT_TRUE(eventually(60s, many_under_way));
  // A job whose ticket is nowhere but in the memory of who is killed is lost with it.
  stack.worker(0).signal(SIGSTOP);
  stack.worker(1).signal(SIGSTOP);
  const auto running = number("SELECT COUNT(*) FROM tasks WHERE state=2");
  const auto unknown = number(
      "SELECT COUNT(*) FROM tasks t WHERE state=2 AND NOT EXISTS (SELECT 1 FROM tickets k WHERE "
      "k.task_id=t.id)");
  stack.worker(0).kill();
  stack.worker(1).kill();
  provider.set_busy(false);
  stack.start_worker();
  stack.start_worker();

  create_up_to(tasks / 2);
  storage.fail_next(std::vector(1'000'000, S3Double::Fault::kUnavailable));
  create_up_to(tasks / 2 + tasks / 8);
  ASSERT_TRUE(eventually(120s, [&] {
    return stack.worker(2).log().find("the blob store takes no audio") != std::string::npos ||
           stack.worker(3).log().find("the blob store takes no audio") != std::string::npos;
  })) << "the outage proved nothing";
  storage.fail_next({});

  provider.set_busy(true);
  create_up_to(tasks * 3 / 4);
  ASSERT_TRUE(eventually(60s, many_under_way));
  const auto at_the_deploy = number("SELECT COUNT(*) FROM tasks WHERE state=2");
  for (const std::size_t leaver : {2U, 3U}) {
    stack.worker(leaver).signal(SIGTERM);
  }
  for (const std::size_t leaver : {2U, 3U}) {
    EXPECT_EQ(stack.worker(leaver).wait(60s), 0);
    stack.start_worker();
  }
  provider.set_busy(false);
  create_up_to(tasks);
  const auto open = [&] { return number("SELECT COUNT(*) FROM tasks WHERE state<3"); };
  ASSERT_TRUE(eventually(300s, [&] { return open() == 0; })) << open() << " open";

  for (const std::string& id : ids) {
    const Reply done = stack.get(ann, id);
    ASSERT_EQ(done.text("status"), "succeeded") << done.body;
  }
  EXPECT_GE(storage.objects(), tasks);
  std::int64_t asked = 0, taken = 0, again = 0;
  for (const auto& [which, story] : provider.stories()) {
    asked += story.asked;
    taken += story.taken;
    again += std::max(0, story.taken - 1 - story.spoiled);
  }
  EXPECT_GT(taken, static_cast<std::int64_t>(tasks / 8)) << "too many went elsewhere";
  EXPECT_LE(again, unknown) << "paid again, though it could have been gone on with";
  // Each call is there to be explained, also those that went on with one before. What was made is
  // paid once; what nobody knows of costs nobody knows how much.
  const auto calls = number("SELECT COUNT(*) FROM provider_calls WHERE provider='queue'");
  const auto paid =
      number("SELECT COALESCE(SUM(cost),0) DIV 500000 FROM provider_calls WHERE provider='queue'");
  const auto nobody_knows =
      number("SELECT COUNT(*) FROM provider_calls WHERE provider='queue' AND cost IS NULL");
  EXPECT_GE(calls, asked);
  EXPECT_LE(calls, number("SELECT COUNT(*) FROM attempts WHERE provider='queue'"));
  EXPECT_LE(paid, taken);
  EXPECT_GE(paid + nobody_knows, taken);
  EXPECT_TRUE(stack.admin({"audit"})["ok"].GetBool());
  stack.database().expect_invariants();
  std::printf(
      "%lu tasks: %ld of %ld calls taken, %ld paid again of at most %ld; %ld ran at the kill, %ld "
      "at "
      "the deploy, %ld calls went on with one before; %ld paid, of %ld nobody knows\n",
      tasks,
      static_cast<long>(taken),
      static_cast<long>(asked),
      static_cast<long>(again),
      static_cast<long>(unknown),
      static_cast<long>(running),
      static_cast<long>(at_the_deploy),
      static_cast<long>(calls - asked),
      static_cast<long>(paid),
      static_cast<long>(nobody_knows));
}

}  // namespace
}  // namespace audiogen::test
