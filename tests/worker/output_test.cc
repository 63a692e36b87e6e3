// What becomes of audio that the blob store does not take.
#include "worker/job/output.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "common/base/metrics.h"
#include "common/base/mutex.h"
#include "tests/support/provider_double.h"
#include "tests/support/wait.h"
#include "tests/worker/fake_provider.h"
#include "worker/audio/in_process_decoder.h"

namespace audiogen::worker {
namespace {

using namespace std::chrono_literals;
using test::eventually;

constexpr std::size_t kUnlimited = 1'000'000'000;

class FakeStore final : public BlobStore {
 public:
  explicit FakeStore(std::size_t writers = 1) : threads(writers) {}
  std::vector<PutResult> put(std::span<const NewBlob> blobs) override {
    std::vector<PutResult> out;
    for (const NewBlob& blob : blobs) {
      const int before = offered++;
      if (blob.bytes.size() >= held_from && heeds) {
        eventually(600s, [&] { return !held || !blob.wanted(); });
      } else if (blob.bytes.size() >= held_from) {
        held.wait(true);
      }
      if (heeds && !blob.wanted()) {
        out.emplace_back(PutFault{.message = "not wanted", .unwanted = true});
      } else if (alternates && too_large < 3 && before % 2 == 1) {
        out.emplace_back(PutFault{"timed out"});
      } else if (blob.bytes.size() > largest) {
        ++too_large;
        out.emplace_back(PutFault{.message = "too large", .of_this_blob = true});
      } else if (blob.bytes.size() >= forbidden_from) {
        ++forbidden;
        out.emplace_back(PutFault{"HTTP 403"});
      } else if (away) {
        out.emplace_back(PutFault{"no space left"});
      } else {
        out.emplace_back(std::string(blob.name));
      }
    }
    return out;
  }
  PutShape put_shape() const override {
    return {.threads = threads, .batch_max = 16, .slowest = slowest};
  }
  Result<Removal> remove(std::string_view, const std::stop_token&) override {
    ++removed;
    return Removal::kGone;
  }
  Result<Done> flush_removed(std::span<const std::string>) override { return Done{}; }

  const std::size_t threads;
  std::atomic<bool> away{true};
  std::atomic<bool> held{false};
  std::atomic<std::size_t> held_from{0};  // Bytes: what is smaller is not.
  std::atomic<bool> heeds{false};         // It asks whether a file is still wanted.
  std::atomic<std::size_t> slowest{0};
  std::atomic<bool> alternates{false};  // Until three were too large each second one times out.
  std::atomic<int> offered{0};
  std::atomic<std::size_t> largest{kUnlimited};
  std::atomic<int> too_large{0};
  std::atomic<std::size_t> forbidden_from{
      kUnlimited};  // Bytes: refused, as is all while it is away.
  std::atomic<int> forbidden{0}, removed{0};
};

// A decoder whose helper does not run until it is let.
class AwayDecoder final : public Decoder {
 public:
  std::atomic<bool> away{true}, crashes{false};  // `crashes`: on pictures.
  std::atomic<int> asked{0}, pictures{0};

 private:
  // Half a second that is heard, whatever the bytes.
  Result<Unpacked, DecodeFault> unpack(std::string_view, AudioType, const Sink& sink) override {
    ++asked;
    if (away) {
      return DecodeFault::kUnavailable;
    }
    std::vector<float> samples(kRate / 2);
    for (std::size_t i = 0; i < samples.size(); ++i) {
      samples[i] = i % 100 < 50 ? 0.25F : -0.25F;
    }
    sink(samples, kRate);
    return Unpacked{.rate = kRate, .exact = {}};
  }
  Result<ImageInfo, DecodeFault> unpack_image(std::string_view, ImageType) override {
    ++pictures;
    return crashes ? DecodeFault::kCrashed
           : away  ? DecodeFault::kUnavailable
                   : DecodeFault::kCorrupt;
  }

  static constexpr int kRate = 24'000;
};

class OutputTest : public testing::Test {
 protected:
  JobPtr job_with(std::chrono::seconds left = 600s) {
    std::vector<std::unique_ptr<AudioProvider>> providers;
    providers.push_back(std::make_unique<FakeProvider>("first"));
    store::Claim claim;
    claim.task = TaskId::make();
    claim.provider = "first";
    claim.until_deadline = left;
    GenerationRequest request;
    request.output_format = OutputFormat::kWav;
    request.sample_rate = 24000;
    const auto now = Job::Clock::now();
    return std::make_shared<Job>(
        Claimed{std::move(claim), std::make_shared<const GenerationRequest>(request)},
        std::make_shared<const Chain>(std::move(providers)),
        now,
        now);
  }

  static Audio wav(double seconds) {
    Audio audio;
    audio.type = AudioType::kWav;
    audio.bytes = test::tone_wav(seconds);
    return audio;
  }
  void make(const JobPtr& job, double seconds = 0.5) { output_.make(job, wav(seconds)); }

  std::size_t ended() const {
    const MutexLock lock(mutex_);
    return made_.size();
  }
  Result<OutputFile, OutputFault> first() const {
    const MutexLock lock(mutex_);
    return made_.at(0);
  }

  JobPtr job_of(std::size_t end) const {
    const MutexLock lock(mutex_);
    return jobs_.at(end);
  }
  // How many have ended by being too large.
  std::ptrdiff_t too_large() const {
    const MutexLock lock(mutex_);
    return std::count_if(made_.begin(), made_.end(), [](const auto& result) {
      return !result && result.error().kind == OutputFault::Kind::kTooLarge;
    });
  }

  void let_go() {
    for (FakeStore* const blobs : {&blobs_, &wide_}) {
      blobs->held = false;
      blobs->held.notify_all();
    }
  }
  Output& more(FakeStore& blobs, OutputPatience patience) {
    return more(blobs, decoder_, patience);
  }
  Output& more(FakeStore& blobs, Decoder& decoder, OutputPatience patience) {
    return *more_.emplace_back(
        std::make_unique<Output>(blobs, client_, decoder, scheduler_, keep_, patience));
  }

  FakeStore blobs_, wide_{2};
  http::Client client_;
  InProcessDecoder decoder_;
  Scheduler scheduler_;
  mutable Mutex mutex_;
  std::vector<Result<OutputFile, OutputFault>> made_ GUARDED_BY(mutex_);
  std::vector<JobPtr> jobs_ GUARDED_BY(mutex_);  // Whose those are.
  const Output::Made keep_ = [this](const JobPtr& job, Result<OutputFile, OutputFault> result) {
    const MutexLock lock(mutex_);
    jobs_.push_back(job);
    made_.push_back(std::move(result));
  };
  Output output_{blobs_, client_, decoder_, scheduler_, keep_, {.pause = 500ms, .most = 600s}};
  AwayDecoder away_;
  Output undecoded_{blobs_, client_, away_, scheduler_, keep_, {.decoder = 600s}};
  Output impatient_{blobs_, client_, decoder_, scheduler_, keep_, {.pause = 1s, .most = 5s}};
  std::vector<std::unique_ptr<Output>> more_;

  void TearDown() override {
    let_go();
    scheduler_.stop();
    output_.stop();
    undecoded_.stop();
    impatient_.stop();
    for (const auto& output : more_) {
      output->stop();
    }
  }
};

TEST_F(OutputTest, IsKeptUntilTheStoreTakesIt) {
  make(job_with());
  ASSERT_TRUE(eventually(60s, [&] { return blobs_.offered >= 3; }));
  EXPECT_TRUE(output_.store_is_down());
  EXPECT_EQ(ended(), 0U) << "whoever made it would be called, and paid, once more";
  blobs_.away = false;
  ASSERT_TRUE(eventually(60s, [&] { return ended() == 1; }));
  ASSERT_TRUE(first());
  EXPECT_EQ(first()->bytes, test::tone_wav(0.5).size());
  EXPECT_FALSE(output_.store_is_down());
}

TEST_F(OutputTest, OneAsksForAllThatWait) {
  make(job_with());
  ASSERT_TRUE(eventually(60s, [&] { return output_.store_is_down(); }));
  for (int i = 0; i < 20; ++i) {
    make(job_with());
  }
  const int before = blobs_.offered;
  ASSERT_TRUE(eventually(60s, [&] { return blobs_.offered >= before + 2; }));
  EXPECT_LT(blobs_.offered, before + 20) << "each of them was offered";
  blobs_.away = false;
  ASSERT_TRUE(eventually(60s, [&] { return ended() == 21; }));
}

Audio foreign() {
  Audio audio;
  audio.type = AudioType::kMp3;
  audio.bytes = "sound";
  return audio;
}

// Each offer to a store that says nothing takes as long as is waited for it, and a worker that is
// to end would wait for them all.
TEST_F(OutputTest, WhatIsQueuedWhenTheStoreGoesDownIsNotOfferedToIt) {
  constexpr int kQueued = 20;
  away_.away = false;
  blobs_.held = true;
  const auto made_by_then = [&](int count) {
    std::vector<JobPtr> jobs;
    for (int i = 0; i < count; ++i) {
      jobs.push_back(job_with());
      undecoded_.make(jobs.back(), foreign());
    }
    return jobs;
  };
  const auto first = made_by_then(1);
  ASSERT_TRUE(eventually(60s, [&] { return blobs_.offered == 1; }));
  const auto rest = made_by_then(kQueued);
  // Whoever is decoded next, those before him are with the writers.
  ASSERT_TRUE(eventually(60s, [&] { return away_.asked == 1 + kQueued; }));
  for (const auto* const jobs : {&first, &rest}) {
    for (const JobPtr& job : *jobs) {
      job->give_back();
    }
  }
  let_go();
  ASSERT_TRUE(eventually(60s, [&] { return ended() == 1 + kQueued; }));
  EXPECT_LE(blobs_.offered, 1 + static_cast<int>(cores())) << "but for those still on their way";
}

TEST_F(OutputTest, WhatIsKeptEndsWithItsJob) {
  const JobPtr lost = job_with(), given_back = job_with();
  make(lost);
  ASSERT_TRUE(eventually(60s, [&] { return output_.store_is_down(); }));
  lost->lose(false);
  ASSERT_TRUE(eventually(60s, [&] { return ended() == 1; }));
  EXPECT_EQ(first().error().kind, OutputFault::Kind::kLost);
  // Nothing is left that would find out whether the store works: what is made next does.
  ASSERT_TRUE(eventually(60s, [&] { return !output_.store_is_down(); }));

  make(given_back);
  ASSERT_TRUE(eventually(60s, [&] { return output_.store_is_down(); }));
  given_back->give_back();
  output_.end_what_is_over();
  ASSERT_TRUE(eventually(60s, [&] { return ended() == 2; }));
  const MutexLock lock(mutex_);
  EXPECT_EQ(made_[1].error().kind, OutputFault::Kind::kStopping);
}

TEST_F(OutputTest, IsKeptUntilTheDecoderRuns) {
  blobs_.away = false;
  const JobPtr job = job_with();
  undecoded_.make(job, foreign());
  ASSERT_TRUE(eventually(60s, [&] { return away_.asked >= 3; }));
  EXPECT_EQ(ended(), 0U) << "whoever made it would be called, and paid, once more";
  EXPECT_NE(job->audio_kept, nullptr) << "it takes room from what providers send";
  ASSERT_TRUE(eventually(60s, [&] { return undecoded_.decoder_is_down(); }));
  EXPECT_FALSE(undecoded_.store_is_down());
  away_.away = false;
  ASSERT_TRUE(eventually(60s, [&] { return ended() == 1; }));
  ASSERT_TRUE(first());
  EXPECT_EQ(first()->duration_ms, 500);
  EXPECT_TRUE(eventually(60s, [&] { return !undecoded_.decoder_is_down(); }));
}

TEST_F(OutputTest, WhatIsNotDecodedEndsWithItsJob) {
  const JobPtr lost = job_with(), given_back = job_with();
  undecoded_.make(lost, foreign());
  ASSERT_TRUE(eventually(60s, [&] { return undecoded_.decoder_is_down(); }));
  lost->lose(false);
  ASSERT_TRUE(eventually(60s, [&] { return ended() == 1; }));
  EXPECT_EQ(first().error().kind, OutputFault::Kind::kLost);

  const int before = away_.asked;
  undecoded_.make(given_back, foreign());
  ASSERT_TRUE(eventually(60s, [&] { return away_.asked > before; }));
  given_back->give_back();
  ASSERT_TRUE(eventually(60s, [&] { return ended() == 2; }));

  const JobPtr late = job_with(20s);
  undecoded_.make(late, foreign());
  ASSERT_TRUE(eventually(60s, [&] { return ended() == 3; }))
      << "half of what it had left is another worker's";
  EXPECT_LT(Job::Clock::now(), late->deadline);
  const MutexLock lock(mutex_);
  EXPECT_EQ(made_[1].error().kind, OutputFault::Kind::kStopping);
  EXPECT_EQ(made_[2].error().kind, OutputFault::Kind::kOurs);
}

// One that crashes on a picture that is none makes no sound either.
TEST_F(OutputTest, ADecoderThatCrashesOnNothingDoesNotRun) {
  away_.crashes = true;
  undecoded_.make(job_with(), foreign());
  ASSERT_TRUE(eventually(60s, [&] { return away_.pictures >= 3; }));
  EXPECT_TRUE(undecoded_.decoder_is_down());
  away_.crashes = false;
  away_.away = false;
  EXPECT_TRUE(eventually(60s, [&] { return !undecoded_.decoder_is_down(); }));
}

// Another worker's may run.
TEST_F(OutputTest, ADecoderThatDoesNotComeBackIsNotWaitedForToTheDeadline) {
  Output& brief = more(blobs_, away_, {.decoder = 1s});
  brief.make(job_with(), foreign());
  ASSERT_TRUE(eventually(60s, [&] { return ended() == 1; }));
  EXPECT_EQ(first().error().kind, OutputFault::Kind::kOurs);
}

// What has just been given up would be claimed here again, and paid.
TEST_F(OutputTest, WhileTheDecoderIsDownNothingElseTellsThatItRuns) {
  blobs_.away = false;
  Output& brief = more(blobs_, away_, {.decoder = 1s});
  brief.make(job_with(), foreign());
  ASSERT_TRUE(eventually(60s, [&] { return ended() == 1; }));
  // Some of them have been answered, and nothing else has happened.
  const int before = away_.pictures;
  ASSERT_TRUE(eventually(60s, [&] { return away_.pictures >= before + 3; }));
  EXPECT_TRUE(brief.decoder_is_down());
  away_.away = false;
  EXPECT_TRUE(eventually(60s, [&] { return !brief.decoder_is_down(); }));
}

// It was never kept, so nothing was offered again, and the worker claimed no more.
TEST_F(OutputTest, WhatIsLostWhileItIsOfferedLeavesNoStoreDown) {
  blobs_.held = true;
  const JobPtr lost = job_with();
  make(lost);
  ASSERT_TRUE(eventually(60s, [&] { return blobs_.offered == 1; }));
  lost->lose(false);
  let_go();
  ASSERT_TRUE(eventually(60s, [&] { return ended() == 1; }));
  EXPECT_EQ(first().error().kind, OutputFault::Kind::kLost);
  EXPECT_TRUE(eventually(60s, [&] { return !output_.store_is_down(); }));
}

// It stopped all claims of its worker until its deadline.
TEST_F(OutputTest, AFileThatIsRefusedByItselfLeavesNoStoreDown) {
  blobs_.away = false;
  blobs_.largest = test::tone_wav(0.5).size();
  const JobPtr large = job_with();
  make(large, 1.5);
  ASSERT_TRUE(eventually(60s, [&] { return blobs_.too_large >= 1; }));
  make(job_with());
  ASSERT_TRUE(eventually(60s, [&] { return ended() == 1; }));
  EXPECT_TRUE(first());
  EXPECT_FALSE(output_.store_is_down());
  EXPECT_EQ(large->audio_kept, nullptr) << "it takes room from what providers send";

  // Beside it a store that is away is found, and found again.
  blobs_.away = true;
  make(job_with());
  ASSERT_TRUE(eventually(60s, [&] { return output_.store_is_down(); }));
  blobs_.away = false;
  ASSERT_TRUE(eventually(60s, [&] { return ended() == 2; }));
  EXPECT_FALSE(output_.store_is_down());

  // Somebody raises the limit.
  blobs_.largest = kUnlimited;
  ASSERT_TRUE(eventually(60s, [&] { return ended() == 3; }));
  const MutexLock lock(mutex_);
  EXPECT_TRUE(made_[2]);
}

TEST_F(OutputTest, OneThatIsRefusedByItselfIsNobodyWhoAsks) {
  const JobPtr ordinary = job_with();
  make(ordinary);
  ASSERT_TRUE(eventually(60s, [&] { return output_.store_is_down(); }));
  blobs_.largest = test::tone_wav(0.5).size();
  make(job_with(), 1.5);
  ASSERT_TRUE(eventually(60s, [&] { return blobs_.too_large >= 1; }));
  EXPECT_TRUE(output_.store_is_down());
  ordinary->lose(false);
  EXPECT_TRUE(eventually(60s, [&] { return !output_.store_is_down(); }));
}

// With a slow store its worker claimed on for as long as each question took.
TEST_F(OutputTest, AStoreIsDownAlsoWhileItIsAsked) {
  make(job_with());
  ASSERT_TRUE(eventually(60s, [&] { return output_.store_is_down(); }));
  const int before = blobs_.offered;
  blobs_.held = true;
  ASSERT_TRUE(eventually(60s, [&] { return blobs_.offered > before; }));
  const auto later = std::make_shared<std::atomic<bool>>(false);
  scheduler_.after(1s, [later] { *later = true; });  // What offered it has ended by then.
  ASSERT_TRUE(eventually(60s, [&] { return later->load(); }));
  EXPECT_TRUE(output_.store_is_down());
}

double put_errors() {
  return metrics::counter("blob_errors_total", "What the blob store could not do", {{"op", "put"}})
      .Value();
}

// A disk that stands still was noticed only once it went on: all that was made, and paid, until
// then waited for it.
TEST_F(OutputTest, AStoreThatSaysNothingIsDownUntilItTakesSomething) {
  blobs_.away = false;
  blobs_.held = true;
  Output& brief = more(blobs_, {.silence = 200ms});
  const double before = put_errors();
  brief.make(job_with(), wav(0.5));
  ASSERT_TRUE(eventually(60s, [&] { return brief.store_is_down(); }));
  brief.make(job_with(), wav(0.5));
  const auto later = std::make_shared<std::atomic<bool>>(false);
  scheduler_.after(1s, [later] { *later = true; });  // It was looked at several times by then.
  ASSERT_TRUE(eventually(60s, [&] { return later->load(); }));
  EXPECT_EQ(put_errors(), before + 1) << "told once";
  EXPECT_EQ(ended(), 0U);
  let_go();
  ASSERT_TRUE(eventually(60s, [&] { return ended() == 2; }));
  EXPECT_TRUE(eventually(60s, [&] { return !brief.store_is_down(); }));
  EXPECT_TRUE(first());
}

// Their leases were renewed, and nobody else had them, until the worker was killed.
TEST_F(OutputTest, WhoStopsGivesBackWhatAStoreThatSaysNothingHas) {
  blobs_.away = false;
  blobs_.held = true;
  Output& brief = more(blobs_, {.silence = 200ms});
  std::vector<JobPtr> jobs = {job_with()};
  brief.make(jobs.front(), wav(0.5));
  ASSERT_TRUE(eventually(60s, [&] { return blobs_.offered == 1; }));
  for (int i = 0; i < 3; ++i) {
    jobs.push_back(job_with());
    brief.make(jobs.back(), wav(0.5));
  }
  ASSERT_TRUE(eventually(60s, [&] { return brief.store_is_down(); }));
  for (const JobPtr& job : jobs) {
    job->give_back();
  }
  ASSERT_TRUE(eventually(60s, [&] {
    brief.end_what_is_over();
    return ended() == jobs.size();
  }));
  EXPECT_EQ(first().error().kind, OutputFault::Kind::kStopping);
  let_go();
  brief.stop();
  EXPECT_EQ(ended(), jobs.size()) << "each of them once";
  EXPECT_EQ(blobs_.offered, 1) << "what has ended is not stored";
}

// A large one may take minutes, which is no silence.
TEST_F(OutputTest, AStoreHasLongerForALargeFile) {
  blobs_.away = false;
  blobs_.held = true;
  blobs_.slowest = 1;  // Byte a second.
  Output& brief = more(blobs_, {.silence = 200ms});
  brief.make(job_with(), wav(0.5));
  ASSERT_TRUE(eventually(60s, [&] { return blobs_.offered == 1; }));
  const auto later = std::make_shared<std::atomic<bool>>(false);
  scheduler_.after(1s, [later] { *later = true; });  // It was looked at several times by then.
  ASSERT_TRUE(eventually(60s, [&] { return later->load(); }));
  EXPECT_FALSE(brief.store_is_down());
  let_go();
  ASSERT_TRUE(eventually(60s, [&] { return ended() == 1; }));
  EXPECT_TRUE(first());
}

// Else nothing would be claimed until it has ended.
TEST_F(OutputTest, ALargeFileOnItsWayKeepsNobodyFromAsking) {
  wide_.held = true;
  wide_.held_from = 40'000;  // Bytes: more than half a second.
  wide_.slowest = 1;
  Output& wide = more(wide_, {});
  wide.make(job_with(), wav(1));
  ASSERT_TRUE(eventually(60s, [&] { return wide_.offered == 1; }));
  wide.make(job_with(), wav(0.5));
  ASSERT_TRUE(eventually(60s, [&] { return wide.store_is_down(); }));
  wide_.away = false;
  ASSERT_TRUE(eventually(60s, [&] { return ended() == 1; }));
  EXPECT_TRUE(first());
  EXPECT_FALSE(wide.store_is_down());
  let_go();
  ASSERT_TRUE(eventually(60s, [&] { return ended() == 2; }));
}

TEST_F(OutputTest, ThePutOfALostJobEndsAndTellsNothingOfTheStore) {
  blobs_.away = false;
  blobs_.held = blobs_.heeds = true;
  const double before = put_errors();
  const JobPtr job = job_with();
  make(job);
  ASSERT_TRUE(eventually(60s, [&] { return blobs_.offered == 1; }));
  EXPECT_EQ(ended(), 0U);
  job->lose(false);
  ASSERT_TRUE(eventually(60s, [&] { return ended() == 1; }));
  EXPECT_EQ(first().error().kind, OutputFault::Kind::kLost);
  EXPECT_EQ(put_errors(), before);
  EXPECT_FALSE(output_.store_is_down());
}

// It would be waited for until its worker is killed.
TEST_F(OutputTest, WhoStopsDoesNotWaitForALongPut) {
  blobs_.away = false;
  blobs_.held = blobs_.heeds = true;
  blobs_.slowest = 1;
  Output& brief = more(blobs_, {.leaving = 200ms});
  const JobPtr job = job_with();
  brief.make(job, wav(0.5));
  ASSERT_TRUE(eventually(60s, [&] { return blobs_.offered == 1; }));
  job->give_back();
  ASSERT_TRUE(eventually(60s, [&] { return ended() == 1; }));
  EXPECT_EQ(first().error().kind, OutputFault::Kind::kStopping);
}

TEST_F(OutputTest, WhoStopsWaitsForAStoreThatIsOnlySlow) {
  blobs_.away = false;
  blobs_.held = true;
  const JobPtr job = job_with();
  make(job);
  ASSERT_TRUE(eventually(60s, [&] { return blobs_.offered == 1; }));
  job->give_back();
  output_.end_what_is_over();
  EXPECT_EQ(ended(), 0U);
  let_go();
  ASSERT_TRUE(eventually(60s, [&] { return ended() == 1; }));
  EXPECT_TRUE(first()) << "it is made, paid and stored";
}

// It is of no use to anybody, and to make it again would not make it smaller.
TEST_F(OutputTest, AFileThatIsRefusedByItselfEndsBeforeItsDeadline) {
  blobs_.away = false;
  blobs_.largest = 1;
  impatient_.make(job_with(), wav(0.5));
  ASSERT_TRUE(eventually(60s, [&] { return ended() == 1; }));
  EXPECT_GE(blobs_.too_large, 2) << "it was offered once";
  EXPECT_EQ(first().error().kind, OutputFault::Kind::kTooLarge);
  EXPECT_EQ(first().error().why, "too large");
  EXPECT_FALSE(impatient_.store_is_down());
}

// It was offered with all others, each time.
TEST_F(OutputTest, AFileThatIsRefusedByItselfIsLeftAloneForAWhile) {
  blobs_.away = wide_.away = false;
  blobs_.largest = wide_.largest = 1;
  Output& patient = more(wide_, {.pause = 600s, .most = 600s});
  Output& eager = more(blobs_, {.pause = 0ms, .most = 600s});
  patient.make(job_with(), wav(0.5));
  ASSERT_TRUE(eventually(60s, [&] { return wide_.too_large == 1; }));
  wide_.largest = test::tone_wav(0.2).size();
  for (std::size_t i = 1; i <= 3; ++i) {
    patient.make(job_with(), wav(0.2));
    ASSERT_TRUE(eventually(60s, [&] { return ended() == i; }));
  }
  // Both look at what they keep, as often.
  eager.make(job_with(), wav(0.5));
  EXPECT_TRUE(eventually(60s, [&] { return blobs_.too_large >= 6; }));
  EXPECT_EQ(wide_.too_large, 1);
  EXPECT_EQ(wide_.offered, 4);
}

TEST_F(OutputTest, FilesThatAreRefusedByThemselvesHaveABound) {
  const std::size_t size = test::tone_wav(0.5).size();
  blobs_.away = false;
  blobs_.largest = test::tone_wav(0.2).size();
  Output& bounded = more(blobs_, {.pause = 600s, .most = 600s, .bytes = size * 5 / 2});
  const JobPtr oldest = job_with(), third = job_with();
  const auto refused = [&](const JobPtr& job, int times) {
    bounded.make(job, wav(0.5));
    return eventually(60s, [&] { return blobs_.too_large == times; });
  };
  ASSERT_TRUE(refused(oldest, 1));
  ASSERT_TRUE(refused(job_with(), 2));
  bounded.make(job_with(), wav(0.2));  // Else three in a row would take the store down.
  ASSERT_TRUE(eventually(60s, [&] { return ended() == 1; }));
  EXPECT_TRUE(first());
  ASSERT_TRUE(refused(third, 3));
  ASSERT_TRUE(eventually(60s, [&] { return ended() == 2; })) << "it is kept as well";
  EXPECT_EQ(job_of(1), third);
  EXPECT_EQ(too_large(), 1);

  // What ends makes room for another.
  oldest->lose(false);
  ASSERT_TRUE(eventually(60s, [&] { return ended() == 3; }));
  ASSERT_TRUE(refused(job_with(), 4));
  bounded.make(job_with(), wav(0.2));  // By its end the one before it would have ended, too.
  ASSERT_TRUE(eventually(60s, [&] { return ended() == 4; }));
  EXPECT_EQ(too_large(), 1);
  EXPECT_FALSE(bounded.store_is_down());
}

// It did not count then, so what came meanwhile took its place, and it was the older one that
// ended.
TEST_F(OutputTest, AFileCountsInTheBoundAlsoWhileItIsOffered) {
  const std::size_t size = test::tone_wav(0.6).size();
  wide_.away = false;
  wide_.largest = 1;
  Output& bounded = more(wide_, {.pause = 0ms, .most = 600s, .bytes = size});
  bounded.make(job_with(), wav(0.6));
  ASSERT_TRUE(eventually(60s, [&] { return wide_.too_large >= 2; })) << "it is kept";
  wide_.held_from = size;
  wide_.held = true;
  const int offered = wide_.offered;
  ASSERT_TRUE(eventually(60s, [&] { return wide_.offered > offered; }));
  const JobPtr newer = job_with();
  bounded.make(newer, wav(0.5));
  EXPECT_TRUE(eventually(60s, [&] { return ended() == 1; })) << "it took the other's place";
  const int before = wide_.too_large;
  let_go();
  ASSERT_TRUE(eventually(60s, [&] { return wide_.too_large >= before + 2; }));
  ASSERT_EQ(ended(), 1U) << "the older one was offered once more";
  EXPECT_EQ(job_of(0), newer);
  EXPECT_EQ(too_large(), 1);
}

// Each timeout between made it another one, of three that take the store down.
TEST_F(OutputTest, OneFileThatIsRefusedByItselfNowAndThenIsOne) {
  blobs_.away = false;
  blobs_.largest = 1;
  blobs_.alternates = true;
  make(job_with());
  ASSERT_TRUE(eventually(60s, [&] { return blobs_.too_large >= 3; }));
  EXPECT_TRUE(eventually(60s, [&] { return !output_.store_is_down(); }));
  EXPECT_EQ(ended(), 0U);
}

TEST_F(OutputTest, WhereItIsEachOneTheStoreIsDownForAWhile) {
  blobs_.away = false;
  blobs_.largest = 1;
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(impatient_.store_is_down());
    impatient_.make(job_with(), wav(0.5));
    ASSERT_TRUE(eventually(60s, [&] { return blobs_.too_large >= i + 1; }));
  }
  EXPECT_TRUE(eventually(60s, [&] { return impatient_.store_is_down(); }));
  ASSERT_TRUE(eventually(60s, [&] { return ended() == 3; }));
  EXPECT_TRUE(eventually(60s, [&] { return !impatient_.store_is_down(); }))
      << "nobody is left to find out";
}

// A gateway that finds something in it, or a line on which it takes too long. It alone asked, and
// its worker claimed nothing until its deadline.
TEST_F(OutputTest, AFileThatIsRefusedForEverLeavesNoStoreDown) {
  blobs_.away = false;
  blobs_.forbidden_from = test::tone_wav(1.5).size();
  const JobPtr forbidden = job_with();
  make(forbidden, 1.5);
  ASSERT_TRUE(eventually(60s, [&] { return blobs_.removed == 1; })) << "another was taken";
  ASSERT_TRUE(eventually(60s, [&] { return !output_.store_is_down(); }));
  EXPECT_EQ(forbidden->audio_kept, nullptr) << "it takes room from what providers send";
  const int before = blobs_.forbidden;
  ASSERT_TRUE(eventually(60s, [&] { return blobs_.forbidden >= before + 2; }));
  EXPECT_FALSE(output_.store_is_down());
  EXPECT_EQ(blobs_.removed, 1) << "once told is enough";
  EXPECT_EQ(ended(), 0U) << "whoever made it would be called, and paid, once more";

  // Beside it a store that is away is found.
  blobs_.away = true;
  make(job_with());
  ASSERT_TRUE(eventually(60s, [&] { return output_.store_is_down(); }));
  const int offered = blobs_.offered;
  ASSERT_TRUE(eventually(60s, [&] { return blobs_.offered >= offered + 5; }));
  EXPECT_TRUE(output_.store_is_down()) << "it takes nothing else either";
  blobs_.away = false;
  ASSERT_TRUE(eventually(60s, [&] { return ended() == 1; }));
  EXPECT_TRUE(first());

  // And it may be taken yet.
  blobs_.forbidden_from = kUnlimited;
  ASSERT_TRUE(eventually(60s, [&] { return ended() == 2; }));
  EXPECT_EQ(job_of(1), forbidden);
  const MutexLock lock(mutex_);
  EXPECT_TRUE(made_[1]);
}

TEST_F(OutputTest, WhereSeveralAreRefusedForEverTheStoreIsDown) {
  blobs_.away = false;
  blobs_.forbidden_from = test::tone_wav(1.5).size();
  for (int i = 1; i <= 3; ++i) {
    EXPECT_FALSE(output_.store_is_down());
    make(job_with(), 1.5);
    ASSERT_TRUE(eventually(60s, [&] { return blobs_.removed == i; }));
    ASSERT_TRUE(i == 3 || eventually(60s, [&] { return !output_.store_is_down(); }));
  }
  const int before = blobs_.forbidden;
  ASSERT_TRUE(eventually(60s, [&] { return blobs_.forbidden >= before + 3; }));
  EXPECT_TRUE(output_.store_is_down());
  EXPECT_EQ(ended(), 0U);
}

// It has its time; another may have more room, or another gateway.
TEST_F(OutputTest, WhatIsRefusedForEverAndHasNoRoomIsNotTooLarge) {
  blobs_.away = false;
  blobs_.forbidden_from = test::tone_wav(1.5).size();
  Output& bounded = more(blobs_, {.pause = 100ms, .most = 0ms, .bytes = 1});
  bounded.make(job_with(), wav(1.5));
  ASSERT_TRUE(eventually(60s, [&] { return ended() == 1; }));
  EXPECT_EQ(first().error().kind, OutputFault::Kind::kOurs);
  EXPECT_EQ(first().error().why, "HTTP 403");
}

TEST_F(OutputTest, AndWithItsDeadline) {
  make(job_with(1s));
  ASSERT_TRUE(eventually(60s, [&] { return ended() == 1; }));
  EXPECT_EQ(first().error().kind, OutputFault::Kind::kOurs);
  EXPECT_EQ(first().error().why, "no space left");
}

}  // namespace
}  // namespace audiogen::worker
