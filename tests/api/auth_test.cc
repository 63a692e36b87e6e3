// For how long what was learned of a key is believed, by a clock that the test drives.
#include "api/server/auth.h"

#include <array>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include <gtest/gtest.h>

namespace audiogen::api {
namespace {

using namespace std::chrono_literals;
using Verdict = Authenticator::Verdict;

// Within this everybody is refused who shows a key that was deleted.
constexpr auto kPromised = 1s;

// A table of keys with one row, whatever is shown, and look-ups that can be held after they have
// read it.
class Table {
 public:
  void put(bool there) {
    const std::scoped_lock lock(mutex_);
    there_ = there;
  }
  void hold() {
    const std::scoped_lock lock(mutex_);
    held_ = true;
  }
  void let_go() {
    const std::scoped_lock lock(mutex_);
    held_ = false;
    changed_.notify_all();
  }
  void wait_for_reads(int count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, 20s, [&] { return reads_ >= count; }));
  }
  void wait_for_keys(std::size_t count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, 20s, [&] { return keys_ >= count; }));
  }
  int reads() {
    const std::scoped_lock lock(mutex_);
    return reads_;
  }
  std::size_t keys() {
    const std::scoped_lock lock(mutex_);
    return keys_;
  }
  // How often the use of a key was noted, or tried to be; somebody holds the row of `held_key`.
  void hold_key(std::uint8_t key) {
    const std::scoped_lock lock(mutex_);
    held_key_ = key;
  }
  int noted(std::uint8_t key) {
    const std::scoped_lock lock(mutex_);
    return noted_[key];
  }
  store::Batch<store::KeyOutcome> find(std::span<const Sha256> hashes) {
    std::unique_lock lock(mutex_);
    store::Batch<store::KeyOutcome> found;
    for (const Sha256& hash : hashes) {
      found.emplace_back(there_ ? std::optional(store::KeyRecord{
                                      .id = KeyId::make(), .api_access = true, .secret = hash})
                                : std::nullopt);
    }
    ++reads_;
    keys_ += hashes.size();
    changed_.notify_all();
    EXPECT_TRUE(changed_.wait_for(lock, 20s, [&] { return !held_; }));
    return found;
  }
  store::Batch<Done> note(std::span<const store::KeyRecord> used) {
    const std::scoped_lock lock(mutex_);
    store::Batch<Done> out;
    for (const store::KeyRecord& key : used) {
      const std::uint8_t which = key.secret[0];
      ++noted_[which];
      if (which == held_key_) {
        out.emplace_back(store::StoreFault::kLocked);
      } else {
        out.emplace_back(Done{});
      }
    }
    return out;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool there_ = true, held_ = false;
  int reads_ = 0;
  std::size_t keys_ = 0;  // Looked up by them.
  std::optional<std::uint8_t> held_key_;
  std::array<int, 256> noted_{};
};

// The verdict on one request, when it comes.
class Pending {
 public:
  Authenticator::Answer answer() {
    return [this](const Authenticator::Judgement& judgement) {
      const std::scoped_lock lock(mutex_);
      verdict_ = judgement.verdict;
      changed_.notify_all();
    };
  }
  std::optional<Verdict> wait() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, 20s, [&] { return verdict_.has_value(); });
    return verdict_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Verdict> verdict_;
};

class AuthenticatorTest : public testing::Test {
 protected:
  ~AuthenticatorTest() override {
    table_.let_go();
    authenticator_.stop();
  }

  static Config config() {
    Config out;
    out.create_per_minute = out.create_burst = out.read_per_minute = out.read_burst = 60;
    out.unauthenticated_per_minute = out.files_per_minute = out.files_burst = 60;
    return out;
  }
  Authenticator::Proof proof() {
    return {
        .what = "key",
        .hash =
            [this](const http::Request&) {
              return shown_ == kNone ? std::nullopt : std::optional(Sha256{shown_});
            },
        .find = [this](store::TaskStore&,
                       std::span<const Sha256> hashes) { return table_.find(hashes); },
        .note_use = [this](store::TaskStore&,
                           std::span<const store::KeyRecord> used) { return table_.note(used); }};
  }
  void pass(std::chrono::milliseconds time) { passed_ += time.count(); }

  // Nothing: it was looked up, and `pending` has the verdict.
  std::optional<Verdict> judged(Pending& pending) {
    Authenticator::Lookup lookup;
    const auto judgement = authenticator_.judge(request_, {}, lookup);
    if (judgement) {
      return judgement->verdict;
    }
    authenticator_.look_up(lookup, pending.answer());
    return std::nullopt;
  }
  std::optional<Verdict> verdict() {
    Pending pending;
    const auto at_once = judged(pending);
    return at_once ? at_once : pending.wait();
  }

  static constexpr std::uint8_t kNone = 0;

  Table table_;
  http::Request request_;
  std::uint8_t shown_ = 1;  // The key of the next request.
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::atomic<std::int64_t> passed_{0};  // Milliseconds.
  const Config config_ = config();
  RateLimiter limiter_{config_};
  Authenticator authenticator_{
      config_, limiter_, proof(), [this] { return start_ + std::chrono::milliseconds(passed_); }};
};

// Else nobody behind its address is let in who was not seen lately: after a restart that is all.
TEST_F(AuthenticatorTest, NoiseWithoutAKeyHasNoKeyRefused) {
  shown_ = kNone;
  int refused = 0;
  while (verdict() != Verdict::kLimited && refused < 1000) {
    ++refused;
  }
  EXPECT_LT(refused, 1000) << "it is limited itself";
  shown_ = 7;
  EXPECT_EQ(verdict(), Verdict::kValid);
}

// It asks whether somebody is signed in there, before anybody is.
TEST_F(AuthenticatorTest, NoiseWithoutAKeyDoesNotShutTheConsole) {
  shown_ = kNone;
  while (verdict() != Verdict::kLimited) {
  }
  Authenticator sessions(config_, limiter_, Authenticator::session_cookies(config_));
  Authenticator::Lookup lookup;
  const auto judged = sessions.judge(request_, {}, lookup);
  sessions.stop();
  ASSERT_TRUE(judged);
  EXPECT_EQ(judged->verdict, Verdict::kInvalid);
}

TEST_F(AuthenticatorTest, WhatIsRememberedIsBelievedForLessThanASecond) {
  EXPECT_EQ(verdict(), Verdict::kValid);
  table_.put(false);  // Deleted.
  EXPECT_TRUE(authenticator_.seen_just_now(request_));
  EXPECT_EQ(verdict(), Verdict::kValid) << "remembered";
  EXPECT_EQ(table_.reads(), 1);
  pass(kPromised - 100ms);  // Which are the lookup's.
  EXPECT_FALSE(authenticator_.seen_just_now(request_));
  EXPECT_EQ(verdict(), Verdict::kInvalid);
  EXPECT_EQ(table_.reads(), 2);
  // The other way round: that there is none is believed for as long.
  table_.put(true);
  EXPECT_EQ(verdict(), Verdict::kInvalid);
  EXPECT_EQ(table_.reads(), 2);
  pass(kPromised - 100ms);
  EXPECT_EQ(verdict(), Verdict::kValid);
}

// The row may have been read at the very start of a lookup that took long.
TEST_F(AuthenticatorTest, KeysInUseAreLookedUpAgainTogetherWhileNobodyWaits) {
  constexpr std::uint8_t kKeys = 30, kLast = 99;
  shown_ = kLast;
  EXPECT_EQ(verdict(), Verdict::kValid);
  pass(Authenticator::kRememberFor - Authenticator::kRenewFrom);
  const auto show_all = [&] {
    for (shown_ = 1; shown_ <= kKeys; ++shown_) {
      EXPECT_EQ(verdict(), Verdict::kValid);
    }
    shown_ = 1;
  };
  show_all();
  const std::size_t keys = table_.keys();
  pass(Authenticator::kRenewFrom + 1ms);
  show_all();
  // Too old to be believed, so it is looked up: behind all that were to be looked up before it.
  shown_ = kLast;
  EXPECT_EQ(verdict(), Verdict::kValid);
  shown_ = 1;
  EXPECT_EQ(table_.keys(), keys + 1) << "more may come";
  const int before = table_.reads();
  pass(Authenticator::kRenewWithin);
  table_.hold();  // While the first is read, the others come together.
  EXPECT_EQ(verdict(), Verdict::kValid);
  table_.let_go();
  table_.wait_for_keys(keys + 1 + kKeys);
  EXPECT_LE(table_.reads(), before + 2);
  // What was remembered first would be too old by now.
  pass(Authenticator::kRememberFor - Authenticator::kRenewFrom - Authenticator::kRenewWithin);
  const auto give_up = std::chrono::steady_clock::now() + 20s;
  for (shown_ = 1; shown_ <= kKeys; ++shown_) {  // What was read is remembered a moment later.
    while (!authenticator_.seen_just_now(request_) && std::chrono::steady_clock::now() < give_up) {
      std::this_thread::yield();
    }
  }
  const int renewed = table_.reads();
  show_all();
  EXPECT_EQ(table_.reads(), renewed);
}

TEST_F(AuthenticatorTest, ItIsRememberedFromBeforeTheLookup) {
  table_.hold();
  Pending first;
  EXPECT_EQ(judged(first), std::nullopt);
  table_.wait_for_reads(1);
  table_.put(false);
  pass(500ms);
  table_.let_go();
  EXPECT_EQ(first.wait(), Verdict::kValid);
  pass(kPromised - 500ms - 100ms);
  EXPECT_EQ(verdict(), Verdict::kInvalid);
}

// A row that somebody held had all be noted again that were looked up beside it.
TEST_F(AuthenticatorTest, AUseIsNotedOnceAMinuteAndAgainWhereItCouldNotBe) {
  constexpr std::uint8_t kFirst = 99, kFree = 1, kHeld = 2;
  const auto show = [&](std::uint8_t key) {
    shown_ = key;
    EXPECT_EQ(verdict(), Verdict::kValid);
  };
  table_.hold_key(kHeld);
  table_.hold();  // While the first is read, the others come together.
  Pending first, free, held;
  shown_ = kFirst;
  EXPECT_EQ(judged(first), std::nullopt);
  table_.wait_for_reads(1);
  shown_ = kFree;
  EXPECT_EQ(judged(free), std::nullopt);
  shown_ = kHeld;
  EXPECT_EQ(judged(held), std::nullopt);
  table_.let_go();
  EXPECT_EQ(first.wait(), Verdict::kValid);
  EXPECT_EQ(free.wait(), Verdict::kValid);
  EXPECT_EQ(held.wait(), Verdict::kValid);
  EXPECT_EQ(table_.reads(), 2);
  table_.hold_key(kFirst);  // The other one is free again.
  for (int i = 0; i < 2; ++i) {
    pass(kPromised);
    show(kFree);
    show(kHeld);
  }
  EXPECT_EQ(table_.noted(kFree), 1);
  EXPECT_EQ(table_.noted(kHeld), 2);
  pass(60s);
  show(kFree);
  EXPECT_EQ(table_.noted(kFree), 2);
}

TEST_F(AuthenticatorTest, WhoeverComesLateInASlowLookupIsLookedUpOnceMore) {
  table_.hold();
  Pending first, soon, late;
  EXPECT_EQ(judged(first), std::nullopt);
  table_.wait_for_reads(1);
  pass(500ms);
  EXPECT_EQ(judged(soon), std::nullopt);
  table_.put(false);
  pass(kPromised);
  EXPECT_EQ(judged(late), std::nullopt);
  EXPECT_EQ(table_.reads(), 1) << "one at a time";
  table_.let_go();
  EXPECT_EQ(first.wait(), Verdict::kValid);
  EXPECT_EQ(soon.wait(), Verdict::kValid);
  EXPECT_EQ(late.wait(), Verdict::kInvalid) << "it was deleted a second before he came";
  EXPECT_EQ(table_.reads(), 2);
}

}  // namespace
}  // namespace audiogen::api
