// Which of the tasks that are hinted are claimed, and what waits for its provider.
#include "worker/job/intake.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <semaphore>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "common/base/mutex.h"
#include "common/domain/request.h"
#include "tests/store/task_fixture.h"
#include "tests/support/test_database.h"
#include "tests/support/wait.h"
#include "tests/worker/fake_provider.h"
#include "worker/job/scheduler.h"

namespace audiogen::worker {
namespace {

using namespace std::chrono_literals;
using test::eventually;

constexpr const char* kFull = "aria";     // The first provider speaks with it, two at a time,
constexpr const char* kFree = "atlas";    // and the second one with this.
constexpr std::size_t kOpenings = 2 + 1;  // Two slots, and one that may wait.

class IntakeTest : public testing::Test {
 protected:
  ~IntakeTest() override {
    stops_at_begin_ = false;
    goes_on_.release(100);  // Where one stands still as its test has failed.
    intake_.close();
    scheduler_.stop();
    intake_.stop();
  }

  std::shared_ptr<const Chain> chain_of(std::vector<Capabilities> all) {
    std::vector<std::unique_ptr<AudioProvider>> providers;
    for (Capabilities& able : all) {
      auto fake = std::make_unique<FakeProvider>("provider " + std::to_string(providers.size()),
                                                 std::move(able));
      fakes_.push_back(fake.get());
      providers.push_back(std::move(fake));
    }
    return std::make_shared<const Chain>(std::move(providers), &accounts_);
  }
  static Capabilities speaks(const char* voice) {
    Capabilities out;
    out.voices = {voice};
    out.max_in_flight = 2;
    return out;
  }

  static void call(const Chain& chain, Position provider) {
    ProviderRequest request;
    request.deadline = std::chrono::steady_clock::now() + 1h;
    request.lifetime = 1h;
    chain.at(provider).start(std::move(request), [](const auto&) {});
  }

  // Hints of new tasks that want this voice.
  std::vector<Hint> tasks(const char* voice, std::size_t count) {
    constexpr std::size_t kAtOnce = 256;  // And of a user, who may not have many thousands open.
    std::vector<Hint> out;
    GenerationRequest request;
    request.prompt = "a quiet sea";
    request.voice = voice;
    while (out.size() < count) {
      const UserId user = db_.add_user();
      std::vector<store::CreateCommand> commands;
      for (std::size_t i = out.size(); i < count && commands.size() < kAtOnce; ++i) {
        commands.push_back(store::create_command(user));
        commands.back().request = encode_request(request);
      }
      for (const store::CreateOutcome& one : store::must(store_.create(commands))) {
        EXPECT_EQ(one.kind, store::CreateOutcome::Kind::kCreated);
      }
      for (const store::CreateCommand& command : commands) {
        out.push_back({command.id, 0, Lane::kBulk});
      }
    }
    // However many are released: that is not what is looked at here.
    db_.execute(store::Sql("UPDATE tasks SET lane=0"));
    return out;
  }
  // They want a scene, which is another route.
  void make_scenes(const std::vector<Hint>& hints) {
    GenerationRequest request;
    request.prompt = "[a train far away]";
    for (const Hint& hint : hints) {
      db_.execute(store::Sql("UPDATE tasks SET request=").bytes(encode_request(request))
                  << " WHERE id=" << hint.task);
    }
  }
  // As the broker brings them.
  void deliver(const std::vector<Hint>& hints, std::uint64_t connection = 1) {
    std::vector<queue::Delivery> all;
    for (const Hint& hint : hints) {
      all.push_back({.hint = hint, .connection = connection, .tag = ++tag_});
    }
    intake_.deliver(std::move(all));
  }
  std::size_t acked() const {
    const MutexLock lock(mutex_);
    return acked_.size();
  }
  std::vector<std::uint64_t> acked_connections() const {
    const MutexLock lock(mutex_);
    return acked_;
  }
  std::vector<JobPtr> begun() const {
    const MutexLock lock(mutex_);
    return begun_;
  }
  bool has_begun(const Hint& hint) const {
    const auto all = begun();
    return std::any_of(
        all.begin(), all.end(), [&](const JobPtr& job) { return job->claim.task == hint.task; });
  }
  std::int64_t count(const char* where) {
    return db_.number(
        store::Sql::trusted(std::string("SELECT COUNT(*) FROM tasks WHERE ") + where));
  }

  test::TestDatabase db_;
  store::TaskStore store_{db_.url()};
  std::uint64_t tag_ = 0;
  mutable Mutex mutex_;
  std::vector<std::uint64_t> acked_ GUARDED_BY(mutex_);  // By which connection each had come.
  std::vector<JobPtr> begun_ GUARDED_BY(mutex_);
  // The claims' thread stands still where a job begins.
  std::atomic<bool> stops_at_begin_{false};
  std::counting_semaphore<> goes_on_{0};
  std::atomic<bool> may_claim_{true};
  std::vector<FakeProvider*> fakes_;
  Accounts accounts_;
  CurrentChain chains_{chain_of({speaks(kFull), speaks(kFree)})};
  Scheduler scheduler_;
  Roster roster_{1000, [this] { intake_.go_on(); }};
  Suspects suspects_{
      roster_, scheduler_, [](const JobPtr&) {}, [](const JobPtr&, std::chrono::milliseconds) {}};
  Intake intake_{db_.url(),
                 WorkerId::make(),
                 chains_,
                 roster_,
                 suspects_,
                 scheduler_,
                 [this] { return may_claim_.load(); },
                 [this](const queue::Delivery& delivery) {
                   const MutexLock lock(mutex_);
                   acked_.push_back(delivery.connection);
                 },
                 [this](const JobPtr& job) {
                   {
                     const MutexLock lock(mutex_);
                     begun_.push_back(job);
                   }
                   if (stops_at_begin_.load()) {
                     goes_on_.acquire();
                   }
                   call(*job->chain, job->provider);
                   roster_.begin(job);
                 }};
};

TEST_F(IntakeTest, WhoseProviderIsFullWaitsWithoutAPlace) {
  const auto full = tasks(kFull, 40), free = tasks(kFree, 2);
  deliver(full);
  deliver(free);
  EXPECT_TRUE(eventually(60s, [&] { return has_begun(free[0]) && has_begun(free[1]); }));
  EXPECT_TRUE(eventually(60s, [&] { return acked() == full.size() + free.size(); }))
      << "what waits keeps no message: others may be behind it";
  EXPECT_EQ(begun().size(), kOpenings + free.size());
  EXPECT_EQ(roster_.size(), kOpenings + free.size());
  EXPECT_EQ(intake_.waiting_for_providers().size(), full.size() - kOpenings);
  EXPECT_EQ(count("state=1 AND epoch=0 AND claims=0 AND updated_at=created_at"),
            static_cast<std::int64_t>(full.size() - kOpenings))
      << "left as they are";
}

TEST_F(IntakeTest, WhatWaitsHasTheNextOpeningOfItsProvider) {
  const auto full = tasks(kFull, kOpenings + 2);
  deliver(full);
  ASSERT_TRUE(eventually(60s, [&] { return acked() == full.size(); }));
  ASSERT_EQ(begun().size(), kOpenings);
  fakes_[0]->calls.front()->answer(Audio{});
  roster_.leave(begun().front());
  EXPECT_TRUE(eventually(60s, [&] { return begun().size() == kOpenings + 1; }));
  EXPECT_TRUE(has_begun(full[kOpenings])) << "first come, first served";
  EXPECT_EQ(intake_.waiting_for_providers(), std::vector{full.back().task});
}

TEST_F(IntakeTest, WhatWaitsAndIsHintedAgainIsDoneWith) {
  const auto full = tasks(kFull, kOpenings + 2);
  deliver(full);
  ASSERT_TRUE(eventually(60s, [&] { return acked() == full.size(); }));
  const std::vector<Hint> again(full.end() - 2, full.end());
  deliver(again);
  EXPECT_EQ(acked(), full.size() + again.size());
  EXPECT_TRUE(intake_.take_tried(again).empty());
  EXPECT_EQ(intake_.waiting_for_providers().size(), again.size());
  EXPECT_TRUE(intake_.has_hint(again[0]));
  EXPECT_FALSE(intake_.has_hint(full[0])) << "it is under way";
  EXPECT_TRUE(eventually(60s, [&] { return intake_.room().bulk >= kOpenings; }))
      << "of the other one";
}

// Each time the broker went away its hints stayed here, and came again with it: of a broker that
// comes and goes a worker without a place kept thousands, each of which took a place later, before
// what was new.
TEST_F(IntakeTest, WhatTheBrokerBringsAgainIsHereOnce) {
  const auto waits = tasks(kFree, 2), next = tasks(kFree, 1);
  may_claim_ = false;
  deliver(waits, 1);
  deliver(waits, 2);
  deliver(next, 2);
  may_claim_ = true;
  EXPECT_TRUE(eventually(60s, [&] { return has_begun(next[0]) && acked() >= 3; }));
  EXPECT_EQ(acked_connections(), (std::vector<std::uint64_t>{2, 2, 2}));
}

TEST_F(IntakeTest, WhoServesWhatIsAskedOfEachChainAnew) {
  const auto full = tasks(kFull, kOpenings + 3);
  deliver(full);
  ASSERT_TRUE(eventually(60s, [&] { return acked() == full.size(); }));
  const auto other = chain_of({speaks(kFree), speaks(kFull)});
  for (std::size_t i = 0; i < kOpenings; ++i) {
    call(*other, 0);
  }
  chains_.replace(other);
  intake_.go_on();
  EXPECT_TRUE(eventually(60s, [&] { return begun().size() == full.size(); }));
  EXPECT_TRUE(intake_.waiting_for_providers().empty());
}

// Else it would wait for a breaker while somebody else is idle.
TEST_F(IntakeTest, WhatWaitsForWhoIsLeftAloneAnotherHas) {
  chains_.replace(chain_of({speaks(kFull), speaks(kFree), Capabilities{}}));
  const auto full = tasks(kFull, kOpenings + 2);
  deliver(full);
  ASSERT_TRUE(eventually(60s, [&] { return acked() == full.size(); }));
  ASSERT_EQ(begun().size(), kOpenings);
  const auto until = std::chrono::steady_clock::now() + 1h;
  chains_.get()->set_overrides(std::vector{Chain::Override{
      .provider = chains_.get()->at(0).name(), .said = {.open = true, .until = until}}});
  intake_.go_on();
  EXPECT_TRUE(eventually(60s, [&] { return begun().size() == full.size(); }));
  EXPECT_EQ(begun().back()->provider, 2U);
}

// Behind all of them it would be too late, but they may leave: it goes behind them all the same,
// and not into a place.
TEST_F(IntakeTest, HoweverLongItsLineIsItWaitsThere) {
  const auto begins = std::chrono::steady_clock::now();
  call(*chains_.get(), 0);
  ASSERT_TRUE(eventually(60s, [&] { return std::chrono::steady_clock::now() - begins >= 500ms; }));
  fakes_[0]->calls.front()->answer(Audio{});  // Known to take half a second at the least.
  const auto full = tasks(kFull, 1000);
  db_.execute(store::Sql("UPDATE tasks SET deadline_at=UTC_TIMESTAMP(6) + INTERVAL 120 SECOND"));
  deliver(full);
  EXPECT_TRUE(eventually(60s, [&] { return acked() == full.size(); }));
  EXPECT_EQ(begun().size(), kOpenings);
  EXPECT_EQ(count("state=1 AND epoch=0"), static_cast<std::int64_t>(full.size() - kOpenings));
}

// Nobody else is to be called: there is no room, but its provider is idle.
TEST_F(IntakeTest, WhatWaitsForAFallbackHasItsNextOpening) {
  chains_.replace(chain_of({speaks(kFull), speaks(kFree), speaks(kFull)}));
  const auto chain = chains_.get();
  FakeProvider& first = *fakes_[2];
  const auto begins = std::chrono::steady_clock::now();
  call(*chain, 0);
  ASSERT_TRUE(eventually(60s, [&] { return std::chrono::steady_clock::now() - begins >= 500ms; }));
  first.calls.front()->answer(Audio{});
  const auto full = tasks(kFull, 1000);
  db_.execute(store::Sql("UPDATE tasks SET deadline_at=UTC_TIMESTAMP(6) + INTERVAL 120 SECOND"));
  deliver(full);
  ASSERT_TRUE(eventually(60s, [&] { return acked() == full.size(); }));
  ASSERT_EQ(begun().size(), 2 * kOpenings) << "its own and the fallback's";
  for (std::size_t i = 0; i < kOpenings; ++i) {
    call(*chain, 1);
  }
  ASSERT_EQ(chain->room(), 0U);
  fakes_[4]->calls.front()->answer(Audio{});
  const auto all = begun();
  roster_.leave(
      *std::find_if(all.begin(), all.end(), [](const JobPtr& job) { return job->provider == 2; }));
  EXPECT_TRUE(eventually(60s, [&] { return begun().size() == 2 * kOpenings + 1; }));
  EXPECT_EQ(begun().back()->provider, 2U);
}

// They would wait for the one that probes it, or for its next rest, while another one is idle.
TEST_F(IntakeTest, WhoHasNoProbeOfItDoesNotWaitForThat) {
  chains_.replace(chain_of({speaks(kFull), speaks(kFull)}));
  const auto chain = chains_.get();
  for (int i = 0; i < 10; ++i) {
    chain->failed(0, Fault::kTryNext);
  }
  ASSERT_TRUE(eventually(60s, [&] { return chain->is_on_trial(0); }));
  deliver(tasks(kFull, 1 + kOpenings));
  EXPECT_TRUE(eventually(60s, [&] { return begun().size() == 1 + kOpenings; }));
  const auto all = begun();
  EXPECT_EQ(
      std::count_if(all.begin(), all.end(), [](const JobPtr& job) { return job->provider == 1; }),
      static_cast<std::ptrdiff_t>(kOpenings));
}

// Who was seen behind it while it was on trial, and nobody else was there, is not left to it when
// that comes to nothing.
TEST_F(IntakeTest, WhoIsBackHasWhatWaitsForThoseThatAreNot) {
  chains_.replace(chain_of({speaks(kFull), speaks(kFree), speaks(kFull)}));
  const auto chain = chains_.get();
  const auto leave_alone = [&](const std::vector<Position>& all) {
    std::vector<Chain::Override> open;
    for (const Position i : all) {
      open.push_back({.provider = chain->at(i).name(),
                      .said = {.open = true, .until = std::chrono::steady_clock::now() + 1h}});
    }
    chain->set_overrides(open);
  };
  leave_alone({2});
  const auto full = tasks(kFull, kOpenings + 3);
  deliver(full);
  ASSERT_TRUE(eventually(60s, [&] { return acked() == full.size(); }));
  leave_alone({1, 2});
  auto probe = chain->keep_slot(0);  // Its references are fetched.
  for (int i = 0; i < 10; ++i) {
    chain->failed(0, Fault::kTryNext);
  }
  ASSERT_TRUE(eventually(60s, [&] { return chain->is_on_trial(0); }));
  ASSERT_TRUE(eventually(60s, [&] { return acked() == full.size() + 3; })) << "looked at anew";
  EXPECT_EQ(intake_.waiting_for_providers().size(), 3U);
  chain->failed(0, Fault::kTryNext);
  ASSERT_GT(chain->closed_to_calls(0).count(), 0);
  probe.reset();
  leave_alone({1});
  EXPECT_TRUE(eventually(60s, [&] { return begun().size() == full.size(); }));
  EXPECT_EQ(begun().back()->provider, 2U);
}

// A mere look costs nobody his turn.
TEST_F(IntakeTest, WhoseRowIsHeldWhenItIsLookedAtKeepsItsTurn) {
  const auto full = tasks(kFull, kOpenings + 1);
  deliver(full);
  ASSERT_TRUE(eventually(60s, [&] { return acked() == full.size(); }));
  const auto waiting = intake_.waiting_for_providers();
  ASSERT_EQ(waiting.size(), 1U);
  const store::RowHolder holder(db_.url(), store::row_of_task(waiting[0]));
  const auto other = chain_of({speaks(kFull), speaks(kFree)});
  for (std::size_t i = 0; i < kOpenings; ++i) {
    call(*other, 0);
  }
  chains_.replace(other);
  ASSERT_TRUE(eventually(60s, [&] { return acked() == full.size() + 1; })) << "it was looked at";
  EXPECT_EQ(intake_.waiting_for_providers(), waiting);
}

// Nobody could be called for them, here; elsewhere they may be.
TEST_F(IntakeTest, WhileAllAreLeftAloneNothingIsAskedFor) {
  deliver(tasks(kFull, kOpenings + 5));
  ASSERT_TRUE(eventually(60s, [&] { return acked() == kOpenings + 5; }));
  const auto chain = chains_.get();
  const auto from = std::chrono::steady_clock::now();
  const auto open = [&](std::size_t at) {
    return Chain::Override{.provider = chain->at(at).name(),
                           .said = {.open = true, .until = from + 1h}};
  };
  chain->set_overrides(std::vector{open(0), open(1)});
  intake_.go_on();
  ASSERT_TRUE(eventually(60s, [&] {  // Long enough for each of them to be looked at anew.
    return std::chrono::steady_clock::now() - from > ProviderQueues::kRest + 1s;
  }));
  EXPECT_EQ(begun().size(), kOpenings);
  EXPECT_EQ(intake_.waiting_for_providers().size(), 5U);
}

// By the time it was left alone, all went behind the next one.
TEST_F(IntakeTest, WhoWorksAgainHasWhatWaitsForThoseAfterIt) {
  Capabilities next = speaks(kFull);
  next.max_in_flight = 1;
  chains_.replace(chain_of({speaks(kFull), next, speaks(kFree)}));
  const auto chain = chains_.get();
  const auto says = [&](bool open) {
    chain->set_overrides(std::vector{
        Chain::Override{.provider = chain->at(0).name(),
                        .said = {.open = open, .until = std::chrono::steady_clock::now() + 1h}}});
  };
  says(true);
  const auto full = tasks(kFull, 4);
  deliver(full);
  ASSERT_TRUE(eventually(60s, [&] { return acked() == full.size(); }));
  ASSERT_EQ(begun().size(), 2U) << "a slot, and one that may wait";
  says(false);
  intake_.go_on();
  EXPECT_TRUE(eventually(60s, [&] { return begun().size() == full.size(); }));
  EXPECT_EQ(begun().back()->provider, 0U);
}

// A breaker closes by a call, and whoever comes with one had to come by himself.
TEST_F(IntakeTest, WhoIsOnTrialIsProbedByOneThatWaitsForAnother) {
  Capabilities next = speaks(kFull);
  next.max_in_flight = 1;
  chains_.replace(chain_of({speaks(kFull), next, speaks(kFree)}));
  const auto chain = chains_.get();
  const auto full = tasks(kFull, 4);
  for (int i = 0; i < 10; ++i) {
    chain->failed(0, Fault::kTryNext);
  }
  deliver(full);
  ASSERT_TRUE(eventually(60s, [&] { return acked() == full.size(); }));
  if (chain->closed_to_calls(0).count() == 0) {
    GTEST_SKIP() << "it took so long that the provider was asked again";
  }
  ASSERT_EQ(begun().size(), 2U) << "a slot, and one that may wait";
  EXPECT_TRUE(eventually(60s, [&] { return begun().size() == 3; }));
  EXPECT_EQ(begun().back()->provider, 0U);
}

// It went to the fallback, which stands still, and expired there.
TEST_F(IntakeTest, WhoHasLittleUnderWayGoesBehindNoCrowd) {
  chains_.replace(chain_of({speaks(kFull), speaks(kFree), speaks(kFull)}));
  const auto begins = std::chrono::steady_clock::now();
  call(*chains_.get(), 0);
  ASSERT_TRUE(eventually(60s, [&] { return std::chrono::steady_clock::now() - begins >= 500ms; }));
  fakes_[2]->calls.front()->answer(Audio{});
  const auto full = tasks(kFull, 1000);
  db_.execute(store::Sql("UPDATE tasks SET deadline_at=UTC_TIMESTAMP(6) + INTERVAL 120 SECOND"));
  deliver(full);
  ASSERT_TRUE(eventually(60s, [&] { return acked() == full.size(); }));
  auto quick = tasks(kFull, 1);
  db_.execute(store::Sql("UPDATE tasks SET deadline_at=UTC_TIMESTAMP(6) + INTERVAL 60 SECOND WHERE "
                         "id=")
              << quick[0].task);
  quick[0].lane = Lane::kExpress;
  deliver(quick);
  ASSERT_TRUE(eventually(60s, [&] { return acked() == full.size() + 1; }));
  const auto all = begun();
  fakes_[2]->calls[1]->answer(Audio{});
  roster_.leave(
      *std::find_if(all.begin(), all.end(), [](const JobPtr& job) { return job->provider == 0; }));
  EXPECT_TRUE(eventually(60s, [&] { return begun().size() == all.size() + 1; }));
  EXPECT_TRUE(has_begun(quick[0]));
}

// What is looked at anew is mostly left again, and there may be thousands of it.
TEST_F(IntakeTest, LooksAtWhatWaitsTakeNoRoomOfThoseThatCome) {
  const auto full = tasks(kFull, kOpenings + 100), free = tasks(kFree, 1);
  deliver(full);
  ASSERT_TRUE(eventually(60s, [&] { return acked() == full.size(); }));
  stops_at_begin_ = true;
  deliver(free);
  ASSERT_TRUE(eventually(60s, [&] { return has_begun(free[0]); }));
  chains_.get()->set_overrides(std::vector{
      Chain::Override{.provider = chains_.get()->at(0).name(),
                      .said = {.open = true, .until = std::chrono::steady_clock::now() + 1h}}});
  intake_.go_on();
  const std::size_t places = roster_.places();
  EXPECT_TRUE(eventually(60s, [&] { return roster_.room(places).bulk <= places - 60; }))
      << "they are asked for";
  EXPECT_EQ(intake_.room().bulk, kOpenings - free.size());
  stops_at_begin_ = false;
  goes_on_.release();
}

// Else newcomers were looked at by twos, as often as anything that waits was called.
TEST_F(IntakeTest, WhoHasWaitedTakesNoLooksFromThoseThatCome) {
  const auto full = tasks(kFull, kOpenings + 30);
  deliver(full);
  ASSERT_TRUE(eventually(60s, [&] { return acked() == full.size(); }));
  ASSERT_EQ(begun().size(), kOpenings);
  std::size_t sum = full.size();
  for (int i = 0; i < 50 && intake_.room().bulk <= kOpenings; ++i) {
    deliver(tasks(kFull, 3));  // Few may have come together at the end.
    sum += 3;
    ASSERT_TRUE(eventually(60s, [&] { return acked() == sum; }));
  }
  const std::size_t room = intake_.room().bulk;
  ASSERT_GT(room, kOpenings) << "the last ones were all left";
  fakes_[0]->calls.front()->answer(Audio{});
  roster_.leave(begun().front());
  ASSERT_TRUE(eventually(60s, [&] { return begun().size() == kOpenings + 1; }));
  EXPECT_TRUE(eventually(60s, [&] { return intake_.room().bulk == room; }));
}

// Another worker would have had them at once.
TEST_F(IntakeTest, WhoStopsKeepsNoMessageOfWhatItLeaves) {
  const auto full = tasks(kFull, kOpenings), waits = tasks(kFull, 1), more = tasks(kFull, 2),
             free = tasks(kFree, 1);
  deliver(full);
  deliver(waits);
  ASSERT_TRUE(eventually(60s, [&] { return acked() == full.size() + waits.size(); }));
  stops_at_begin_ = true;
  deliver(free);
  ASSERT_TRUE(eventually(60s, [&] { return has_begun(free[0]); }));
  deliver(more);
  ASSERT_TRUE(intake_.has_hint(waits[0]));
  intake_.close();
  EXPECT_FALSE(intake_.has_hint(waits[0])) << "others are to hear of it";
  goes_on_.release();
  const std::size_t places = roster_.places();
  EXPECT_TRUE(eventually(60s, [&] {
    return roster_.room(places).bulk == places - full.size() - free.size();
  })) << "their places are free";
  EXPECT_EQ(acked(), full.size() + waits.size() + free.size());
}

// However long its provider has no opening.
TEST_F(IntakeTest, WhatIsOverWaitsNoMore) {
  const auto full = tasks(kFull, kOpenings + 2);
  db_.execute(store::Sql("UPDATE tasks SET deadline_at=UTC_TIMESTAMP(6) + INTERVAL 40 SECOND"));
  deliver(full);
  ASSERT_TRUE(eventually(60s, [&] { return acked() == full.size(); }));
  ASSERT_EQ(intake_.waiting_for_providers().size(), 2U);
  db_.execute(store::Sql("UPDATE tasks SET deadline_at=UTC_TIMESTAMP(6) WHERE state=1"));
  EXPECT_TRUE(eventually(60s, [&] { return intake_.waiting_for_providers().empty(); }));
  EXPECT_EQ(begun().size(), kOpenings);
}

TEST_F(IntakeTest, AsManyAsThereArePlacesLeaveNoRoomToTellOf) {
  const auto full = tasks(kFull, kOpenings + roster_.places());
  deliver({full.begin(), full.end() - 1});
  ASSERT_TRUE(eventually(60s, [&] { return acked() == full.size() - 1; }));
  EXPECT_TRUE(eventually(60s, [&] { return intake_.room_told() == kOpenings; }));
  deliver({full.back()});
  ASSERT_TRUE(eventually(60s, [&] { return acked() == full.size(); }));
  EXPECT_EQ(intake_.room_told(), 0U);
  EXPECT_TRUE(eventually(60s, [&] { return intake_.room().bulk >= kOpenings; }))
      << "whoever could be called is taken all the same";
}

// Whoever has a provider that is free is not told to wait for what has another.
TEST_F(IntakeTest, LinesAreToldByRoute) {
  Capabilities scenes, speech;
  scenes.scenes = true;
  scenes.speaks = false;
  scenes.max_in_flight = 2;
  speech.max_in_flight = 100;
  chains_.replace(chain_of({scenes, speech}));
  GenerationRequest request;
  request.prompt = "[a train far away]";
  const Route scene = route_of(request), speaks{1}, other{2};
  const auto prompt = [&](const std::vector<Hint>& hints) {
    for (const Hint& hint : hints) {
      db_.execute(store::Sql("UPDATE tasks SET request=").bytes(encode_request(request))
                  << " WHERE id=" << hint.task);
    }
    return hints;
  };
  EXPECT_EQ(intake_.lines(), RouteLines()) << "nobody has come";
  // Their first calls tell how fast they are.
  const auto first = prompt(tasks(kFull, 1)), free = tasks(kFree, 1);
  deliver(first);
  deliver(free);
  ASSERT_TRUE(eventually(60s, [&] { return begun().size() == 2; }));
  EXPECT_EQ(intake_.lines().of.at(scene), RouteLine()) << "nobody waits, nothing is known";
  fakes_[2]->calls.front()->answer(Audio{});
  fakes_[3]->calls.front()->answer(Audio{});
  for (const JobPtr& job : begun()) {
    roster_.leave(job);
  }
  const auto full = prompt(tasks(kFull, kOpenings));
  deliver(full);
  ASSERT_TRUE(eventually(60s, [&] { return begun().size() == 2 + full.size(); }));
  auto late = prompt(tasks(kFull, 5));
  db_.execute(store::Sql("UPDATE tasks SET lane=")
              << Lane::kExpress << " WHERE id=" << late[0].task);
  late[0].lane = Lane::kExpress;
  deliver(late);
  ASSERT_TRUE(eventually(60s, [&] { return acked() == 2 + full.size() + late.size(); }));
  const RouteLines lines = intake_.lines();
  const LaneCounts waiting{.express = 1, .bulk = 4}, before{.express = 1, .bulk = 5};
  EXPECT_EQ(lines.waiting, (Counted{.first = waiting, .here = waiting}));
  EXPECT_EQ(lines.of.at(scene).before, (Counted{.first = before, .here = before}));
  EXPECT_GT(lines.of.at(scene).pace, 0U);
  EXPECT_GT(lines.of.at(scene).needs, 0U);
  EXPECT_FALSE(lines.of.at(speaks).anybody());
  EXPECT_GT(lines.of.at(speaks).pace, 0U);
  EXPECT_FALSE(lines.of.contains(other)) << "nobody serves it";
  chains_.replace(chain_of({scenes, speech}));
  EXPECT_EQ(intake_.lines(), RouteLines()) << "nobody has been looked at by it";
}

// A hint that sweepers have sent again is counted where all that waits is.
TEST_F(IntakeTest, WhatOthersMayHaveToldOfWasNotHeardOfHereFirst) {
  const auto full = tasks(kFull, kOpenings + 3);
  db_.execute(
      store::Sql("UPDATE tasks SET next_run_at=UTC_TIMESTAMP(6) - INTERVAL 1 MINUTE WHERE id=")
      << full.back().task);
  db_.execute(store::Sql("UPDATE tasks SET next_run_at=next_run_at - INTERVAL 5 MINUTE, "
                         "wake_at=wake_at - INTERVAL 5 MINUTE WHERE id=")
              << full[kOpenings].task);  // Nobody has looked at it: its creator's hint waited long.
  deliver(full);
  ASSERT_TRUE(eventually(60s, [&] { return acked() == full.size(); }));
  EXPECT_EQ(intake_.waiting_for_providers().size(), 3U);
  const Counted waiting = intake_.lines().waiting;
  EXPECT_EQ(waiting.first.bulk, 2U);
  EXPECT_EQ(waiting.here.bulk, 3U) << "it waits here for certain";
}

// Others pull the same, or have heard of it by the broker.
TEST_F(IntakeTest, WhatWasPulledWasNotHeardOfHereFirst) {
  const auto full = tasks(kFull, kOpenings), pulled = tasks(kFull, 3);
  deliver(full);
  ASSERT_TRUE(eventually(60s, [&] { return acked() == full.size(); }));
  EXPECT_TRUE(intake_.take(pulled).empty());
  ASSERT_TRUE(eventually(60s, [&] { return acked() == full.size() + pulled.size(); }));
  const Counted waiting = intake_.lines().waiting;
  EXPECT_EQ(waiting.first.bulk, 0U);
  EXPECT_EQ(waiting.here.bulk, 3U);
}

// It can do some of what waits there, and does its own beside that.
TEST_F(IntakeTest, WhoCanDoLessIsAChoiceOfItsOwn) {
  Capabilities all = speaks(kFull), less = speaks(kFull);
  all.scenes = true;
  all.queue_wait = 10min;
  less.max_in_flight = 50;
  Capabilities free;  // So that there is room.
  free.image = true;
  free.speaks = false;
  free.max_in_flight = 100;
  chains_.replace(chain_of({all, less, free}));
  GenerationRequest request;
  request.prompt = "[a train far away]";
  const auto scenes = tasks(kFull, 90);
  make_scenes(scenes);
  deliver(scenes);
  ASSERT_TRUE(eventually(60s, [&] { return !intake_.waiting_for_providers().empty(); }));
  const RouteLines lines = intake_.lines();
  EXPECT_TRUE(lines.of.at(route_of(request)).anybody());
  EXPECT_FALSE(lines.of.at(Route{1}).anybody());
}

TEST_F(IntakeTest, ARouteIsToldByWhoHasItSoonest) {
  const auto full = tasks(kFull, kOpenings + 5);
  deliver(full);
  ASSERT_TRUE(eventually(60s, [&] { return acked() == full.size(); }));
  const Route route{1};
  EXPECT_FALSE(intake_.lines().of.at(route).anybody()) << "the other one is free, whoever has come";
  chains_.get()->set_overrides(std::vector{
      Chain::Override{.provider = chains_.get()->at(1).name(),
                      .said = {.open = true, .until = std::chrono::steady_clock::now() + 1h}}});
  EXPECT_EQ(intake_.lines().of.at(route).before.here.bulk, 5U) << "nobody else is there now";
}

// What waits at one with a queue_wait is passed on to those after it, which have no line of theirs.
TEST_F(IntakeTest, WhoGetsWhatWaitsElsewhereIsNotTakenToBeFree) {
  Capabilities impatient = speaks(kFull);
  impatient.queue_wait = 10min;
  chains_.replace(chain_of({impatient, speaks(kFull), speaks(kFree)}));
  const auto chain = chains_.get();
  call(*chain, 1);
  call(*chain, 1);
  const auto full = tasks(kFull, 12);
  deliver(full);
  ASSERT_TRUE(eventually(60s, [&] { return acked() == full.size(); }));
  chain->set_overrides(std::vector{
      Chain::Override{.provider = chain->at(2).name(),
                      .said = {.open = true, .until = std::chrono::steady_clock::now() + 1h}}});
  const std::size_t waiting = intake_.waiting_for_providers().size();
  ASSERT_GT(waiting, 0U);
  EXPECT_EQ(intake_.lines().of.at(Route{1}).before.here.bulk, waiting);
}

// Its places are for those, so what waits elsewhere seemed to go several times as fast as it does.
TEST_F(IntakeTest, WhoHasALineOfItsOwnRelievesNobody) {
  Capabilities impatient = speaks(kFull), more = speaks(kFull);
  impatient.queue_wait = 10min;
  more.scenes = true;
  Capabilities free;  // So that there is room.
  free.image = true;
  free.speaks = false;
  chains_.replace(chain_of({impatient, more, free}));
  const auto chain = chains_.get();
  const auto begins = std::chrono::steady_clock::now();
  call(*chain, 0);
  call(*chain, 1);
  ASSERT_TRUE(eventually(60s, [&] { return std::chrono::steady_clock::now() - begins >= 100ms; }));
  fakes_[2]->calls.front()->answer(Audio{});
  fakes_[3]->calls.front()->answer(Audio{});
  const std::uint32_t both = chain->pace_of(0, 100, 0, 1).pace,
                      alone = chain->pace_of(0, 100, bit_of(1), 1).pace;
  EXPECT_GT(both, alone + alone / 2);
  const auto scenes = tasks(kFull, kOpenings + 2), full = tasks(kFull, kOpenings + 8);
  make_scenes(scenes);
  deliver(scenes);
  ASSERT_TRUE(eventually(60s, [&] { return acked() == scenes.size(); }));
  deliver(full);
  ASSERT_TRUE(eventually(60s, [&] { return acked() == scenes.size() + full.size(); }));
  ASSERT_FALSE(intake_.waiting_for_providers().empty());
  EXPECT_LE(intake_.lines().of.at(Route{1}).pace, alone + alone / 4);
  // Where its own line is the shorter one, that is who has them soonest.
  const auto more_yet = tasks(kFull, 200);
  deliver(more_yet);
  ASSERT_TRUE(
      eventually(60s, [&] { return acked() == scenes.size() + full.size() + more_yet.size(); }));
  EXPECT_LE(intake_.lines().of.at(Route{1}).before.here.bulk, scenes.size());
}

TEST_F(IntakeTest, PlacesOfAnAccountAreCountedOnceWhoeverRelieves) {
  Capabilities impatient = speaks(kFull), more = speaks(kFull);
  impatient.queue_wait = 10min;
  for (Capabilities* const able : {&impatient, &more}) {
    able->account = "theirs";
    able->account_max_in_flight = 2;
  }
  const auto chain = chain_of({impatient, more});
  accounts_.all().front()->renew({.may = 2}, 0, std::chrono::steady_clock::now() + 1h);
  const auto begins = std::chrono::steady_clock::now();
  call(*chain, 0);
  ASSERT_TRUE(eventually(60s, [&] { return std::chrono::steady_clock::now() - begins >= 100ms; }));
  fakes_[2]->calls.front()->answer(Audio{});
  const std::uint32_t alone = chain->pace_of(0, 100, bit_of(1), 1).pace;
  EXPECT_GT(alone, 0U);
  EXPECT_EQ(chain->pace_of(0, 100, 0, 1).pace, alone);
  EXPECT_NEAR(chain->pace_of(0, 100, 0, 0.5).pace, alone / 2.0, 1);
}

// Each of them would else be told to have all of it.
TEST_F(IntakeTest, EntriesOfAnAccountAreToldItsPlacesOnce) {
  Capabilities first = speaks(kFull), second;
  second.scenes = true;
  second.speaks = false;
  second.max_in_flight = 2;
  for (Capabilities* const able : {&first, &second}) {
    able->account = "theirs";
    able->account_max_in_flight = 2;
  }
  Capabilities free;  // So that there is room.
  free.image = true;
  free.speaks = false;
  free.max_in_flight = 100;
  chains_.replace(chain_of({first, second, free}));
  const auto chain = chains_.get();
  accounts_.all().front()->renew({.may = 2}, 0, std::chrono::steady_clock::now() + 1h);
  const auto begins = std::chrono::steady_clock::now();
  for (const Position i : {Position{0}, Position{1}}) {
    call(*chain, i);
  }
  ASSERT_TRUE(eventually(60s, [&] { return std::chrono::steady_clock::now() - begins >= 100ms; }));
  fakes_[2]->calls.front()->answer(Audio{});
  fakes_[3]->calls.front()->answer(Audio{});
  const auto full = tasks(kFull, 6), others = tasks(kFree, 6);
  make_scenes(others);
  deliver(full);
  ASSERT_TRUE(eventually(60s, [&] { return acked() == full.size(); }));
  const std::uint32_t alone = intake_.lines().of.at(Route{1}).pace;
  deliver(others);
  ASSERT_TRUE(eventually(60s, [&] { return acked() == full.size() + others.size(); }));
  ASSERT_GT(intake_.waiting_for_providers().size(), 6U);
  EXPECT_LT(intake_.lines().of.at(Route{1}).pace, alone - alone / 4) << "half of it";
  const auto more = tasks(kFull, 90);
  deliver(more);
  ASSERT_TRUE(
      eventually(60s, [&] { return acked() == full.size() + others.size() + more.size(); }));
  EXPECT_GT(intake_.lines().of.at(Route{1}).pace, alone - alone / 4)
      << "nearly all, as the other has too few that wait";
}

// Else whoever comes just when it has an opening would go before them, for as long as many come.
TEST_F(IntakeTest, WhoComesLaterGoesBehindThoseThatWait) {
  const auto full = tasks(kFull, kOpenings + 3), late = tasks(kFull, 1);
  deliver(full);
  ASSERT_TRUE(eventually(60s, [&] { return acked() == full.size(); }));
  store::RowHolder holder(db_.url(), store::row_of_task(full[kOpenings].task));
  fakes_[0]->calls.front()->answer(Audio{});
  roster_.leave(begun().front());  // The next one is asked for, and its row is somebody's.
  deliver(late);
  ASSERT_TRUE(eventually(60s, [&] { return acked() == full.size() + late.size(); }));
  holder.release();
  EXPECT_TRUE(eventually(60s, [&] { return begun().size() == kOpenings + 1; }));
  EXPECT_FALSE(has_begun(late[0]));
}

// What nobody has looked at may be for the same provider as all that wait.
TEST_F(IntakeTest, NoMoreWaitThanMay) {
  constexpr std::size_t kMore = 600;  // More than are asked for at a time.
  const auto full = tasks(kFull, kOpenings + ProviderQueues::kMost + kMore);
  deliver(full);
  ASSERT_TRUE(eventually(
      240s, [&] { return intake_.waiting_for_providers().size() >= ProviderQueues::kMost; }));
  EXPECT_EQ(intake_.room().bulk, 0U);
  const auto free = tasks(kFree, 1);
  EXPECT_EQ(intake_.take(free).size(), 1U) << "it is left to others";
  EXPECT_LT(acked(), full.size());
  EXPECT_EQ(count("state=1 AND next_run_at>created_at"), 0);
}

}  // namespace
}  // namespace audiogen::worker
