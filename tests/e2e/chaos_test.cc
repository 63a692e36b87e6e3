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
#include "common/domain/provider_price.h"
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
      {openai_entry("alpha-upstream", *double_, R"(,"timeout_seconds":10)"), kLocalEntry});
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

// What `audio-api admin providers` says of one provider, all days together.
struct Told {
  std::map<std::string, std::int64_t> calls;  // By outcome.
  std::int64_t all = 0, of_unknown_cost = 0;
  double cost = 0, wasted = 0, wasted_undelivered = 0, units = 0;
};
Told told_of(Stack& stack, std::string_view provider) {
  Told out;
  const auto answer = stack.admin({"providers"});
  for (const auto& day : answer["days"].GetArray()) {
    if (day["provider"].GetString() != provider) {
      continue;
    }
    for (const CallOutcome outcome : kCallOutcomes) {
      const std::string name(call_outcome_name(outcome));
      out.calls[name] += day[name.c_str()].GetInt64();
    }
    out.all += day["calls"].GetInt64();
    out.of_unknown_cost += day["calls_of_unknown_cost"].GetInt64();
    out.cost += day["cost"].GetDouble();
    out.wasted += day["wasted"].GetDouble();
    out.wasted_undelivered += day["wasted_undelivered"].GetDouble();
    out.units += day["units"].IsString() ? std::stod(day["units"].GetString()) : 0;
  }
  std::int64_t sum = 0;
  for (const auto& [name, calls] : out.calls) {
    sum += calls;
  }
  EXPECT_EQ(sum, out.all);
  return out;
}

// A provider with a queue of its own, as fal's is: who asks gets a ticket, and asks with that until
// the job is done. It bills for every job that it has done.
class QueueProvider {
 public:
  explicit QueueProvider(unsigned long seed)
      : dice_(static_cast<std::mt19937::result_type>(seed)) {}

  static constexpr double kPrice = 0.5;  // Of a unit.
  // How a job ends: by a sound, by none, by a file that is none.
  enum class End { kSound, kNothing, kNoise };
  struct Job {
    std::size_t number = 0;  // Of the task.
    End end = End::kSound;
    int looks = 0;
    bool seen = false;  // Somebody has had its end: its file, or that there is none.
    double units = 0;
    std::string status_url;
  };
  std::vector<Job> jobs() const {
    const std::scoped_lock lock(mutex_);
    return jobs_;
  }
  // Jobs whose end nobody has had.
  std::int64_t open() const {
    const std::scoped_lock lock(mutex_);
    return std::count_if(jobs_.begin(), jobs_.end(), [](const Job& job) { return !job.seen; });
  }
  // How often it was asked to make something, jobs it began included.
  std::int64_t asked() const {
    const std::scoped_lock lock(mutex_);
    return asked_;
  }
  // While it is busy no job ends.
  void set_busy(bool busy) {
    const std::scoped_lock lock(mutex_);
    busy_ = busy;
  }
  // Whoever was killed has no more to say.
  bool is_left_alone() const { return double_.open_connections() == 0; }
  std::string entry() const {
    return R"({"name":"queue","kind":"fal","model":"owner/app","base_url":")" + double_.url() +
           R"(","api_key_env":"PROVIDER_KEY","price":{"amount":0.5,"per":"billable_unit"}})";
  }

 private:
  static DoubleReply answer(std::string body, int status = 200) {
    return {
        .status = status, .headers = {"Content-Type: application/json"}, .body = std::move(body)};
  }
  // One of five, in any order: with more, and those that end in nothing, nobody would ask any more.
  bool fails() {
    if (fate_.empty()) {
      fate_ = {true, false, false, false, false};
      std::shuffle(fate_.begin(), fate_.end(), dice_);
    }
    const bool out = fate_.back();
    fate_.pop_back();
    return out;
  }
  DoubleReply take(const DoubleCall& call) {
    ++asked_;
    if (fails()) {
      return answer(R"({"detail":"busy"})", dice_() % 2 == 0 ? 500 : 503);
    }
    const auto ends = dice_() % 20;
    const std::string job = double_.url() + "/jobs/" + std::to_string(jobs_.size());
    jobs_.push_back({.number = std::stoul(member_of(call, "prompt")),
                     .end = ends == 0   ? End::kNothing
                            : ends == 1 ? End::kNoise
                                        : End::kSound,
                     .units = 0.25 * (1 + static_cast<double>(dice_() % 8)),
                     .status_url = job + "/status"});
    return answer(R"({"status_url":")" + job + R"(/status","response_url":")" + job +
                  R"(/result","cancel_url":")" + job + R"(/cancel"})");
  }
  DoubleReply play(const DoubleCall& call) {
    constexpr std::string_view kJobs = "/jobs/";
    const std::scoped_lock lock(mutex_);
    if (!call.target.starts_with(kJobs)) {
      return take(call);
    }
    const std::size_t number = std::stoul(call.target.substr(kJobs.size()));
    Job& job = jobs_.at(number);
    if (call.target.ends_with("/status")) {
      return answer(++job.looks > 2 && !busy_ ? R"({"status":"COMPLETED"})"
                                              : R"({"status":"IN_PROGRESS"})");
    }
    if (call.target.ends_with("/file")) {
      job.seen = true;
      return job.end == End::kNoise ? body_of("audio/wav", std::string(5000, 'n')) : wav_reply(0.5);
    }
    if (!call.target.ends_with("/result")) {
      job.seen = true;
      return answer("{}");
    }
    job.seen |= job.end == End::kNothing;
    DoubleReply out = answer(job.end == End::kNothing
                                 ? "{}"
                                 : R"({"audio":{"url":")" + double_.url() + std::string(kJobs) +
                                       std::to_string(number) + R"(/file"}})");
    out.headers.push_back("X-Fal-Billable-Units: " + std::to_string(job.units));
    return out;
  }

  mutable std::mutex mutex_;
  std::mt19937 dice_;
  std::vector<bool> fate_;
  bool busy_ = false;
  std::vector<Job> jobs_;
  std::int64_t asked_ = 0;
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

  const auto began = std::chrono::steady_clock::now();
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

  // --- killed, both of them, at any moment: no job has ended yet
  provider.set_busy(true);
  create_up_to(tasks / 4);
  ASSERT_TRUE(eventually(60s, many_under_way));
  stack.worker(0).kill();
  stack.worker(1).kill();
  ASSERT_TRUE(eventually(60s, [&] { return provider.is_left_alone(); }));
  // What they had sent to the database is still carried out.
  ASSERT_TRUE(eventually(60s, [&] {
    return number(
               "SELECT COUNT(*) FROM information_schema.processlist WHERE db=DATABASE() AND user "
               "LIKE 'worker%'") == 0;
  }));
  // From here on they say nothing more. What they knew of a job alone is lost with them.
  std::set<std::string> kept;
  for (store::Rows rows =
           stack.database().session().query(store::Sql("SELECT ticket FROM tickets FOR UPDATE"));
       rows.next();) {
    const std::string ticket = rows.text(1);
    kept.insert(ticket.substr(0, ticket.find('\n')));
  }
  const std::int64_t asked_at_the_kill = provider.asked();
  std::map<std::size_t, std::int64_t> nobody_knows_of;  // Jobs, by their tasks' numbers.
  std::int64_t open_at_the_kill = 0, to_go_on = 0;
  for (const auto& job : provider.jobs()) {
    ++open_at_the_kill;
    to_go_on += kept.contains(job.status_url) ? 1 : 0;
    nobody_knows_of[job.number] += kept.contains(job.status_url) ? 0 : 1;
  }
  const std::int64_t under_way =
      number("SELECT COUNT(*) FROM attempts WHERE provider='queue' AND state=1");
  const std::int64_t never_arrived = number(
                                         "SELECT COUNT(*) FROM attempts WHERE provider='queue' AND "
                                         "COALESCE(detail,'')<>'not called'") -
                                     asked_at_the_kill;
  // Their refusals were on the way to those that were killed.
  const std::int64_t refused_unheard = under_way - never_arrived - open_at_the_kill;
  ASSERT_GE(to_go_on, kMany);
  ASSERT_GE(never_arrived, 0);
  ASSERT_GE(refused_unheard, 0);
  stack.database().execute(
      store::Sql("UPDATE tasks SET lease_until=UTC_TIMESTAMP(6) - INTERVAL 1 SECOND, "
                 "wake_at=UTC_TIMESTAMP(6) WHERE state=2"));
  provider.set_busy(false);
  stack.start_worker();
  stack.start_worker();

  // --- a storage that is away for a while
  create_up_to(tasks / 2);
  storage.fail_next(std::vector(1'000'000, S3Double::Fault::kUnavailable));
  create_up_to(tasks / 2 + tasks / 8);
  ASSERT_TRUE(eventually(120s, [&] {
    return stack.worker(2).log().find("the blob store takes no audio") != std::string::npos ||
           stack.worker(3).log().find("the blob store takes no audio") != std::string::npos;
  })) << "the outage proved nothing";
  storage.fail_next({});

  // --- a deploy
  ASSERT_TRUE(eventually(120s, [&] {
    return number("SELECT COUNT(*) FROM provider_calls WHERE provider='queue' AND outcome=7") ==
           under_way;
  })) << "those of the dead are not put back";
  create_up_to(tasks * 3 / 4);
  const std::int64_t abandoned = open_at_the_kill - to_go_on;
  const auto open = [&] { return number("SELECT COUNT(*) FROM tasks WHERE state<3"); };
  bool busy = true;
  provider.set_busy(busy);
  ASSERT_TRUE(eventually(
      120s,
      [&] {
        if (open() < kMany) {  // By chance it is left alone, but for a probe, which is to end.
          provider.set_busy(busy = !busy);
          create_up_to(ids.size() + 2 * kMany);
        }
        return busy && provider.open() >= abandoned + kMany && many_under_way();
      }))
      << provider.open() << " open, of which nobody knows of " << abandoned << "; " << ids.size()
      << " tasks";
  for (const std::size_t leaver : {2U, 3U}) {
    stack.worker(leaver).signal(SIGTERM);
  }
  for (const std::size_t leaver : {2U, 3U}) {
    EXPECT_EQ(stack.worker(leaver).wait(60s), 0);
    stack.start_worker();
  }
  provider.set_busy(false);
  create_up_to(tasks);
  ASSERT_TRUE(eventually(300s, [&] { return open() == 0; })) << open() << " open";
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;

  for (const std::string& id : ids) {
    const Reply done = stack.get(ann, id);
    ASSERT_EQ(done.text("status"), "succeeded") << done.body;
  }
  EXPECT_GE(storage.objects(), tasks);

  // --- nothing was made again that could have been gone on with
  const std::vector<QueueProvider::Job> jobs = provider.jobs();
  const std::int64_t asked = provider.asked();
  const auto taken = static_cast<std::int64_t>(jobs.size());
  std::map<std::size_t, std::int64_t> sounds;
  std::int64_t again = 0;
  double billed = 0, billed_for_nothing = 0;
  for (const auto& job : jobs) {
    sounds[job.number] += job.end == QueueProvider::End::kSound ? 1 : 0;
    if (job.seen) {
      billed += job.units;
      billed_for_nothing += job.end == QueueProvider::End::kSound ? 0 : job.units;
    }
  }
  for (const auto& [which, made] : sounds) {
    EXPECT_LE(made, 1 + nobody_knows_of[which]) << "task " << which << " was paid again";
    again += std::max<std::int64_t>(0, made - 1);
  }
  EXPECT_EQ(provider.open(), abandoned) << "jobs whose end nobody has had";
  EXPECT_GT(taken, static_cast<std::int64_t>(tasks / 8)) << "too many went elsewhere";

  // --- and each call is there to be explained
  const auto delivered_by_it =
      number("SELECT COUNT(*) FROM tasks WHERE state=3 AND attempt_provider='queue'");
  // What had its audio when its worker left, and was not stored: whoever goes on with it counts it.
  const auto made_and_left = number(
      "SELECT COUNT(*) FROM provider_calls WHERE provider='queue' AND outcome=2 AND cost IS NULL");
  // Of those that were killed the sweeper tells what had failed, and knows no price.
  const auto failed_before_the_kill = number(
      "SELECT COUNT(*) FROM provider_calls WHERE provider='queue' AND outcome=3 AND cost IS NULL");
  Told told = told_of(stack, "queue");
  const std::int64_t went_on = to_go_on + told.calls["dropped"] + made_and_left;
  EXPECT_EQ(told.all, asked + never_arrived + went_on);
  EXPECT_EQ(told.calls["delivered"], delivered_by_it);
  EXPECT_EQ(told.calls["lost"], under_way);
  EXPECT_EQ(told.calls["failed"], asked - taken - refused_unheard);
  EXPECT_GE(told.calls["dropped"], kMany) << "the deploy proved nothing";
  EXPECT_EQ(told.calls["unknown"] + told.calls["beaten"], 0);
  EXPECT_EQ(told.of_unknown_cost,
            told.calls["lost"] + told.calls["dropped"] + made_and_left + failed_before_the_kill);
  EXPECT_DOUBLE_EQ(told.units, billed);
  EXPECT_DOUBLE_EQ(told.cost, billed * QueueProvider::kPrice);
  EXPECT_GT(told.wasted, 0);
  EXPECT_DOUBLE_EQ(told.wasted, billed_for_nothing * QueueProvider::kPrice);
  EXPECT_DOUBLE_EQ(told.wasted_undelivered, told.wasted);
  EXPECT_TRUE(stack.admin({"audit"})["ok"].GetBool());
  stack.database().expect_invariants();
  std::printf(
      "%lu tasks in %.0f s, %ld delivered by it: %ld calls asked for something, %ld were taken, "
      "%ld "
      "failed; %ld under way at the kill, %ld of them gone on with; %ld at the deploy; %ld made "
      "again, of %ld that nobody knew of; cost %.3f, wasted %.3f, of %ld calls not known\n",
      tasks,
      took.count(),
      static_cast<long>(delivered_by_it),
      static_cast<long>(asked),
      static_cast<long>(taken),
      static_cast<long>(told.calls["failed"]),
      static_cast<long>(under_way),
      static_cast<long>(to_go_on),
      static_cast<long>(told.calls["dropped"] + made_and_left),
      static_cast<long>(again),
      static_cast<long>(abandoned),
      told.cost,
      told.wasted,
      static_cast<long>(told.of_unknown_cost));
}

}  // namespace
}  // namespace audiogen::test
