// Every rule about moving a task, row by row: one table for each decision.
#include "common/domain/lifecycle.h"

#include <string>

#include <gtest/gtest.h>

namespace audiogen {
namespace {

constexpr TaskState kStates[] = {TaskState::kQueued,
                                 TaskState::kRunning,
                                 TaskState::kSucceeded,
                                 TaskState::kFailed,
                                 TaskState::kCanceled};

TEST(Lifecycle, EveryTransitionIsAsTheDiagramSays) {
  struct Row {
    TaskEvent event;
    std::string to[5];  // From queued, running, succeeded, failed, canceled; "" = not allowed.
  };
  const Row table[] = {
      {TaskEvent::kClaim, {"running", "", "", "", ""}},
      {TaskEvent::kRetry, {"", "queued", "", "", ""}},
      {TaskEvent::kReap, {"", "queued", "", "", ""}},
      {TaskEvent::kSucceed, {"", "succeeded", "", "", ""}},
      {TaskEvent::kFail, {"", "failed", "", "", ""}},
      {TaskEvent::kCancel, {"canceled", "canceled", "", "", ""}},
      {TaskEvent::kDeadline, {"failed", "failed", "", "", ""}},
  };
  for (const Row& row : table) {
    for (std::size_t i = 0; i < 5; ++i) {
      const auto to = next_state(kStates[i], row.event);
      EXPECT_EQ(to ? state_name(*to) : "", row.to[i])
          << state_name(kStates[i]) << " on event " << static_cast<int>(row.event);
    }
  }
}

TEST(RetryDelay, WaitsGrowAndSpread) {
  EXPECT_EQ(retry_delay(1, 900s, 0), 2s);
  EXPECT_EQ(retry_delay(2, 898s, 0), 8s);
  EXPECT_EQ(retry_delay(3, 888s, 0), 296s);
  EXPECT_EQ(retry_delay(3, 12s, 0), 8s) << "of little time";
  EXPECT_EQ(retry_delay(3, 86'400s, 0), 15min) << "of a day";
  EXPECT_EQ(retry_delay(1, 900s, 1), 2400ms);
  EXPECT_EQ(retry_delay(1, 900s, -1), 1600ms);
}

TEST(RetryDelay, TheLastCallEndsJustBeforeTheDeadline) {
  EXPECT_EQ(retry_delay(4, 600s, 1, 30s), 600s - 30s - kToBeTaken);
  EXPECT_EQ(retry_delay(4, 600s, -1, 30s), (600s - 30s - kToBeTaken) * 4 / 5) << "never later";
  EXPECT_EQ(retry_delay(4, 300s, 1, 200s), 300s - 200s - kToBeTaken);
  EXPECT_EQ(retry_delay(4, 600s, 1, 10min), 8s);
  EXPECT_EQ(retry_delay(1000, 600s, 1, 30s), 600s - 30s - kToBeTaken);
  EXPECT_EQ(retry_delay(4, 30s, 1, 30s), 8s);
  EXPECT_EQ(retry_delay(4, -5s, 0, 30s), 7200ms) << "over";
  EXPECT_EQ(retry_delay(4, 86'400s, 1, 30s), 60min) << "of a day";
}

// With all providers down, all attempts were used up after 600 s of 900, and before that after 130.
TEST(RetryDelay, AttemptsAreSpreadOverTheTimeThatThereIs) {
  for (const std::chrono::milliseconds whole : {60s, 300s, 900s, 3000s}) {
    for (const std::chrono::milliseconds needed : {2s, 10s, 30s}) {
      for (const double jitter : {-1.0, 0.0, 1.0}) {
        std::chrono::milliseconds at = 0s;
        for (std::uint32_t claims = 1; claims < kClaimsMax; ++claims) {
          at += retry_delay(claims, whole - at, jitter, needed);
        }
        EXPECT_GE(at, whole * 2 / 5) << whole.count() << " " << needed.count() << " " << jitter;
        EXPECT_LE(at + std::min(needed, whole / 10), whole) << jitter << ": no time for a call";
        if (whole >= 300s) {
          EXPECT_GE(at, (whole - needed - kToBeTaken) * 3 / 4) << jitter;
          EXPECT_LE(at + needed + kToBeTaken, whole) << jitter;
        }
      }
    }
  }
}

TEST(RetryDelayDeathTest, WaitsAreForAttemptsThatWereMade) {
  EXPECT_DEATH(static_cast<void>(retry_delay(0, 900s, 0)), "claims >= 1");
  EXPECT_DEATH(static_cast<void>(retry_delay(1, 900s, 1.01)), "jitter");
}

TEST(AloneDelay, Spreads) {
  EXPECT_EQ(alone_delay(0), 5s);
  EXPECT_EQ(alone_delay(-1), 2500ms);
  EXPECT_EQ(alone_delay(1), 7500ms);
}

const WorkerId kWorker = WorkerId::make();

// Created at 0 s, to end by 900 s; claimed once, if it runs, by kWorker until 130 s.
TaskFacts facts(TaskState state) {
  TaskFacts task;
  task.id = TaskId::make();
  task.state = state;
  task.epoch = 3;
  task.claims = 1;
  task.held = kHoldAmount;
  task.next_run_at = Instant(0s);
  task.deadline_at = Instant(900s);
  task.wake_at = Instant(100s);
  if (state == TaskState::kRunning) {
    task.worker = kWorker;
    task.lease_until = Instant(130s);
  }
  return task;
}

TEST(Beginning, TheFirstLookIsNoLaterThanTheEnd) {
  EXPECT_EQ(first_look(Lane::kBulk, Instant(100s), Instant(1000s)), Instant(115s));
  EXPECT_EQ(first_look(Lane::kBulk, Instant(100s), Instant(115s)), Instant(115s));
  EXPECT_EQ(first_look(Lane::kBulk, Instant(100s), Instant(101s)), Instant(101s));
  EXPECT_EQ(first_look(Lane::kParked, Instant(100s), Instant(1000s)), Instant(1000s));
}

TEST(Claim, OnlyWhatIsQueuedDueAndHintedAt) {
  TaskFacts task = facts(TaskState::kQueued);
  task.next_run_at = Instant(100s);
  struct Row {
    std::uint32_t epoch;
    Instant now;
    bool may;
  };
  const Row table[] = {
      {3, Instant(100s) - 1us, false},  // Not due.
      {3, Instant(100s), true},
      {2, Instant(100s), false},  // An old hint.
      {4, Instant(100s), false},
      {3, Instant(900s) - 1us, true},
      {3, Instant(900s), false},  // Past its deadline.
  };
  for (const Row& row : table) {
    EXPECT_EQ(may_claim(task, row.epoch, row.now), row.may)
        << row.epoch << " at " << row.now.time_since_epoch().count();
  }
  for (const TaskState state : kStates) {
    EXPECT_EQ(may_claim(facts(state), 3, Instant(100s)), state == TaskState::kQueued)
        << state_name(state);
  }
}

TEST(Claim, WhatIsPutOffIsDueNoLaterThanItsEnd) {
  const TaskFacts task = facts(TaskState::kQueued);
  EXPECT_EQ(put_off(task, Instant(100s), 0), Instant(105s));
  EXPECT_EQ(put_off(task, Instant(898s), 0), Instant(900s));
}

TEST(Work, AClaimHoldsForItsEpochAndItsWorker) {
  const TaskFacts task = facts(TaskState::kRunning);
  EXPECT_TRUE(is_of(task, 3));
  EXPECT_FALSE(is_of(task, 2));
  EXPECT_FALSE(is_of(task, 4));
  // The lease may have run out, or the deadline: as long as nobody took the task back, it goes on.
  EXPECT_TRUE(may_renew(task, 3, kWorker));
  EXPECT_FALSE(may_renew(task, 2, kWorker));
  EXPECT_FALSE(may_renew(task, 3, WorkerId::make()));
  for (const TaskState state : kStates) {
    TaskFacts other = facts(state);
    other.worker = kWorker;
    EXPECT_EQ(is_of(other, 3), state == TaskState::kRunning) << state_name(state);
    EXPECT_EQ(may_renew(other, 3, kWorker), state == TaskState::kRunning) << state_name(state);
  }
}

// The client got one sentence for a prompt that no voice reads and for an image that nobody takes.
TEST(Trouble, OfAPromptThatNoVoiceReadsTheClientIsTold) {
  const ClaimEnd end = end_by(Trouble::kNobodyReads, 1, 900s, 0);
  EXPECT_NE(end.failure_message.find("prompt"), std::string::npos);
  EXPECT_NE(end.failure_message.find("script or language that no voice reads"), std::string::npos);
  EXPECT_LE(end.failure_message.size(), 200U) << "it is stored";
  EXPECT_EQ(end_by(Trouble::kNobodyCan, 1, 900s, 0).failure_message, "") << "the code's own";
  EXPECT_EQ(failure_message(FailureCode::kUnsupportedInput).find("script"), std::string::npos);
}

TEST(Trouble, EachHasOneEnd) {
  using Kind = ClaimEnd::Kind;
  struct Row {
    Trouble trouble;
    Kind kind;
    FailureCode failure;
    std::chrono::milliseconds plain, late;  // Due: without more, and with "not before 20 s".
  };
  // Of the second claim, whose own wait is 8 s.
  const Row table[] = {
      {Trouble::kUnreadable, Kind::kFail, FailureCode::kInternalError, 0s, 0s},
      {Trouble::kTooLarge, Kind::kFail, FailureCode::kInternalError, 0s, 0s},
      {Trouble::kNobodyCan, Kind::kFail, FailureCode::kUnsupportedInput, 0s, 0s},
      {Trouble::kNobodyReads, Kind::kFail, FailureCode::kUnsupportedInput, 0s, 0s},
      {Trouble::kContentRefused, Kind::kFail, FailureCode::kContentRejected, 0s, 0s},
      {Trouble::kBadReference, Kind::kFail, FailureCode::kReferenceUnavailable, 0s, 0s},
      {Trouble::kNobodyNow, Kind::kRetry, FailureCode::kProviderUnavailable, 8s, 20s},
      {Trouble::kOurs, Kind::kRetry, FailureCode::kInternalError, 8s, 20s},
      {Trouble::kOutOfTime, Kind::kFail, FailureCode::kDeadlineExceeded, 0s, 0s},
      {Trouble::kLeftAlone, Kind::kRelease, FailureCode::kProviderUnavailable, 8s, 28s},
      {Trouble::kNotTaken, Kind::kRelease, FailureCode::kProviderUnavailable, 8s, 28s},
      {Trouble::kOursUncalled, Kind::kRelease, FailureCode::kInternalError, 8s, 28s},
      {Trouble::kNoRoom, Kind::kRelease, FailureCode::kInternalError, 0s, 20s},
      {Trouble::kStopping, Kind::kRelease, FailureCode::kInternalError, 0s, 20s},
  };
  for (const Row& row : table) {
    const auto what = static_cast<int>(row.trouble);
    const ClaimEnd plain = end_by(row.trouble, 2, 900s, 0);
    EXPECT_EQ(plain.kind, row.kind) << what;
    EXPECT_EQ(plain.failure, row.failure) << what;
    EXPECT_EQ(plain.retry_after, row.plain) << what;
    EXPECT_EQ(end_by(row.trouble, 2, 900s, 0, 20s).retry_after, row.late) << what;
    EXPECT_EQ(verdict_on(row.trouble).kind, row.kind) << what;
    EXPECT_EQ(plain.had_turn, row.trouble == Trouble::kNotTaken) << what;
  }
  EXPECT_EQ(end_by(Trouble::kNobodyNow, 2, 900s, 0, 7s).retry_after, 8s)
      << "its own wait is longer";
  EXPECT_EQ(end_by(Trouble::kNobodyNow, 1, 900s, 1).retry_after, 2400ms);
  // Not all at the moment at which a provider is asked again, and never at once.
  EXPECT_EQ(end_by(Trouble::kLeftAlone, 1, 900s, -1, 7s).retry_after, 8s);
  EXPECT_EQ(end_by(Trouble::kLeftAlone, 5, 900s, 1, 7s).retry_after, 22s);
  EXPECT_EQ(end_by(Trouble::kLeftAlone, 1, 900s, -1).retry_after, 1s);
  // Where there is little time it still comes in time for a call.
  EXPECT_EQ(end_by(Trouble::kNotTaken, 1, 25s, 1, 5s, 10s).retry_after, 15s);
  EXPECT_EQ(end_by(Trouble::kNotTaken, 1, 25s, -1, 5s, 10s).retry_after, 6s);
  EXPECT_EQ(end_by(Trouble::kNotTaken, 1, 12s, 1, 5s, 10s).retry_after, 6s) << "never at once";
}

// It came to the end of the queue each time, behind all that were newer.
TEST(Settle, WhatWasToldLaterKeepsItsTurnAndUsesUpNoFurtherAttempt) {
  for (const auto& [before, after] : {std::pair(1U, 1U), {2U, 1U}, {kClaimsMax, kClaimsMax - 1}}) {
    TaskFacts task = facts(TaskState::kRunning);
    task.claims = before;
    ClaimEnd later = end_by(Trouble::kNotTaken, before, 900s, 0);
    later.epoch = task.epoch;
    const SettleDecision decision = decide_settle(task, later, Instant(100s));
    ASSERT_TRUE(decision.move) << before;
    EXPECT_EQ(decision.move->state, TaskState::kQueued);
    EXPECT_EQ(decision.move->claims, after);
    task.state = TaskState::kQueued;
    task.claims = decision.move->claims;
    task.epoch = decision.move->epoch;
    task.next_run_at = decision.move->next_run_at;
    task.wake_at = decision.move->wake_at;
    task.lease_until.reset();
    const SweepDecision due = decide_sweep(task, decision.move->next_run_at);
    EXPECT_EQ(due.kind, SweepDecision::Kind::kPublish) << before;
    EXPECT_TRUE(due.tried) << before;
  }
}

// A day's task was asked for 28,000 times.
TEST(NotTaken, OftenWhileItIsShortAndSeldomWhileItIsLong) {
  EXPECT_EQ(not_taken_delay(900s, 900s), 0s);
  EXPECT_EQ(not_taken_delay(740s, 900s), 10s);
  EXPECT_EQ(not_taken_delay(160s, 900s), 10s);
  EXPECT_EQ(not_taken_delay(0s, 900s), 0s);
  EXPECT_EQ(not_taken_delay(43'200s, 86'400s), 45min);
  EXPECT_EQ(not_taken_delay(-1s, 900s), 0s);
  EXPECT_EQ(not_taken_delay(901s, 900s), 0s);
}

TEST(Settle, SuccessIsChargedByItsLengthNeverMoreThanAllowed) {
  struct Row {
    std::int64_t duration_ms;
    Units charge_max, held, charged;
  };
  const Row table[] = {
      {60'000, kHoldAmount, kHoldAmount, credits(75)},
      {1, kHoldAmount, kHoldAmount, credits(10)},
      {600'000, kHoldAmount, kHoldAmount, kHoldAmount},
      {60'000, credits(20), kHoldAmount, credits(20)},
      {60'000, kHoldAmount, credits(30), credits(30)},
  };
  for (const Row& row : table) {
    TaskFacts task = facts(TaskState::kRunning);
    task.held = row.held;
    const SettleDecision decision = decide_settle(task,
                                                  {.kind = ClaimEnd::Kind::kSucceed,
                                                   .epoch = 3,
                                                   .duration_ms = row.duration_ms,
                                                   .charge_max = row.charge_max},
                                                  Instant(899s));
    ASSERT_TRUE(decision.move) << row.duration_ms;
    EXPECT_EQ(decision.to, TaskState::kSucceeded);
    EXPECT_EQ(decision.move->charged, row.charged) << row.duration_ms;
    EXPECT_EQ(decision.move->epoch, 3U) << "whoever settles keeps its epoch";
    EXPECT_FALSE(decision.move->wake_at) << "never looked at again";
    EXPECT_FALSE(decision.move->failure);
  }
}

TEST(Settle, WhatComesBackIsTriedAgainUntilClaimsOrTimeAreUsedUp) {
  using Kind = ClaimEnd::Kind;
  struct Row {
    Kind kind;
    std::uint32_t claims;
    std::chrono::milliseconds after;
    Instant now;
    TaskState to;
    std::uint32_t claims_after;
    Instant due;
  };
  constexpr auto kQueued = TaskState::kQueued, kFailed = TaskState::kFailed;
  const Instant at(100s);
  const Row table[] = {
      {Kind::kRetry, 1, 8s, at, kQueued, 1, Instant(108s)},
      {Kind::kRetry, kClaimsMax - 1, 8s, at, kQueued, kClaimsMax - 1, Instant(108s)},
      {Kind::kRetry, kClaimsMax, 8s, at, kFailed, kClaimsMax, Instant(0s)},
      {Kind::kRetry, kClaimsMax + 1, 8s, at, kFailed, kClaimsMax + 1, Instant(0s)},
      {Kind::kRetry, 1, 800s - 1ms, at, kQueued, 1, Instant(900s) - 1ms},
      {Kind::kRetry, 1, 800s, at, kFailed, 1, Instant(0s)},  // Due when its time is over.
      {Kind::kRetry, 1, 0s, Instant(901s), kFailed, 1, Instant(0s)},
      {Kind::kFail, 1, 8s, at, kFailed, 1, Instant(0s)},
      // What was not tried costs no claim, and never ends a task.
      {Kind::kRelease, 1, 0s, at, kQueued, 0, at},
      {Kind::kRelease, kClaimsMax, 8s, at, kQueued, kClaimsMax - 1, Instant(108s)},
      {Kind::kRelease, 0, 8s, at, kQueued, 0, Instant(108s)},
      {Kind::kRelease, 1, 9000s, at, kQueued, 0, Instant(900s)},  // No later than its end.
      {Kind::kRelease, 1, 9000s, Instant(901s), kQueued, 0, Instant(901s)},
  };
  int n = 0;
  for (const Row& row : table) {
    TaskFacts task = facts(TaskState::kRunning);
    task.claims = row.claims;
    const SettleDecision decision = decide_settle(task,
                                                  {.kind = row.kind,
                                                   .epoch = 3,
                                                   .failure = FailureCode::kProviderRejected,
                                                   .failure_message = "for the client",
                                                   .retry_after = row.after},
                                                  row.now);
    ASSERT_TRUE(decision.move) << n;
    const TaskMove& move = *decision.move;
    EXPECT_EQ(decision.to, row.to) << n;
    EXPECT_EQ(move.state, row.to) << n;
    EXPECT_EQ(move.claims, row.claims_after) << n;
    EXPECT_EQ(move.next_run_at, row.due) << n;
    if (row.to == kQueued) {
      EXPECT_EQ(move.epoch, 4U) << n << ": whoever had it is fenced";
      EXPECT_EQ(move.wake_at, std::min({row.due, row.now + kLookWithin, task.deadline_at})) << n;
      EXPECT_FALSE(move.charged) << n << ": it stays reserved";
      EXPECT_FALSE(move.failure) << n;
    } else {
      EXPECT_EQ(move.epoch, 3U) << n;
      EXPECT_FALSE(move.wake_at) << n;
      EXPECT_EQ(move.charged, Units{}) << n << ": all of it comes back";
      EXPECT_EQ(move.failure, FailureCode::kProviderRejected) << n;
      EXPECT_EQ(move.failure_message, "for the client") << n;
    }
    ++n;
  }
}

// The answer to COMMIT was lost, and the same command comes again; or another's, which is too late.
TEST(Settle, ARepeatIsToldApartFromALostClaim) {
  using Kind = ClaimEnd::Kind;
  struct Row {
    TaskState state;
    std::uint32_t epoch;  // Of the row, where the command's is 3.
    std::string to[4];    // Of succeed, fail, retry, release; "" = not ours.
  };
  const Row table[] = {
      {TaskState::kSucceeded, 3, {"succeeded", "", "", ""}},
      {TaskState::kSucceeded, 4, {"", "", "", ""}},
      {TaskState::kFailed, 3, {"", "failed", "failed", ""}},
      {TaskState::kFailed, 4, {"", "", "", ""}},
      {TaskState::kQueued, 4, {"", "", "queued", "queued"}},
      {TaskState::kQueued, 3, {"", "", "", ""}},
      {TaskState::kQueued, 5, {"", "", "", ""}},
      {TaskState::kRunning, 4, {"", "", "", ""}},
      {TaskState::kRunning, 2, {"", "", "", ""}},
      {TaskState::kCanceled, 3, {"", "", "", ""}},
      {TaskState::kCanceled, 4, {"", "", "", ""}},
  };
  constexpr Kind kKinds[] = {Kind::kSucceed, Kind::kFail, Kind::kRetry, Kind::kRelease};
  for (const Row& row : table) {
    TaskFacts task = facts(row.state);
    task.epoch = row.epoch;
    task.output_key = "mine";
    for (std::size_t i = 0; i < 4; ++i) {
      const SettleDecision decision =
          decide_settle(task, {.kind = kKinds[i], .epoch = 3, .output_key = "mine"}, Instant(100s));
      EXPECT_EQ(decision.to ? state_name(*decision.to) : "", row.to[i])
          << state_name(row.state) << " at " << row.epoch << " by command " << i;
      EXPECT_FALSE(decision.move);
    }
  }
  const TaskFacts done = facts(TaskState::kSucceeded);
  EXPECT_FALSE(
      decide_settle(done, {.kind = Kind::kSucceed, .epoch = 3, .output_key = "x"}, Instant(0s)).to)
      << "another's file";
}

TEST(Cancel, EndsWhatIsOpenAndFencesWhoeverRunsIt) {
  for (const TaskState state : {TaskState::kQueued, TaskState::kRunning}) {
    const TaskMove move = cancel_task(facts(state));
    EXPECT_EQ(move.state, TaskState::kCanceled);
    EXPECT_EQ(move.epoch, 4U);
    EXPECT_EQ(move.charged, Units{});
    EXPECT_FALSE(move.wake_at);
    EXPECT_FALSE(move.failure);
  }
}

TEST(CancelDeathTest, FinalStatesNeverChange) {
  EXPECT_DEATH(static_cast<void>(cancel_task(facts(TaskState::kSucceeded))), "kCancel");
}

TEST(Sweep, NothingBeforeItsTime) {
  TaskFacts task = facts(TaskState::kQueued);
  EXPECT_EQ(decide_sweep(task, Instant(100s) - 1us).kind, SweepDecision::Kind::kNothing);
  EXPECT_EQ(decide_sweep(task, Instant(100s)).kind, SweepDecision::Kind::kPublish);
  task.wake_at.reset();
  EXPECT_EQ(decide_sweep(task, Instant(5000s)).kind, SweepDecision::Kind::kNothing);
}

TEST(Sweep, Queued) {
  TaskFacts task = facts(TaskState::kQueued);
  task.claims = 0;
  EXPECT_EQ(decide_sweep(task, Instant(100s)).wake_at, Instant(130s));
  EXPECT_EQ(decide_sweep(task, Instant(880s)).wake_at, Instant(900s)) << "no later than the end";
  task.next_run_at = Instant(200s);
  EXPECT_EQ(decide_sweep(task, Instant(150s)).kind, SweepDecision::Kind::kLook);
  EXPECT_EQ(decide_sweep(task, Instant(150s)).wake_at, Instant(200s));
  task.next_run_at = Instant(500s);
  EXPECT_EQ(decide_sweep(task, Instant(150s)).wake_at, Instant(150s) + kLookWithin)
      << "whoever counts what is released finds it";
  task.next_run_at = Instant(200s);
  EXPECT_EQ(decide_sweep(task, Instant(200s)).kind, SweepDecision::Kind::kPublish);
  EXPECT_EQ(decide_sweep(task, Instant(900s) - 1us).kind, SweepDecision::Kind::kPublish);
  EXPECT_EQ(decide_sweep(task, Instant(900s)).kind, SweepDecision::Kind::kExpire);
}

TEST(Sweep, AConfirmedHintIsTrustedForAWhile) {
  TaskFacts task = facts(TaskState::kQueued);
  task.epoch = 0;
  task.next_run_at = Instant(100s);
  task.wake_at = Instant(115s);
  const TaskId later = TaskId::make();
  EXPECT_EQ(decide_sweep(task, Instant(115s), later).kind, SweepDecision::Kind::kHinted);
  EXPECT_EQ(decide_sweep(task, Instant(115s), task.id).kind, SweepDecision::Kind::kPublish)
      << "not confirmed";
  EXPECT_EQ(decide_sweep(task, Instant(220s) - 1us, later).kind, SweepDecision::Kind::kHinted);
  EXPECT_EQ(decide_sweep(task, Instant(220s), later).kind, SweepDecision::Kind::kPublish)
      << "perhaps lost";
  task.deadline_at = Instant(200s);
  EXPECT_EQ(decide_sweep(task, Instant(140s) - 1us, later).kind, SweepDecision::Kind::kHinted);
  EXPECT_EQ(decide_sweep(task, Instant(140s), later).kind, SweepDecision::Kind::kPublish)
      << "its end must not be missed";
  task.wake_at = Instant(115s) + 1us;
  EXPECT_EQ(decide_sweep(task, Instant(120s), later).kind, SweepDecision::Kind::kPublish)
      << "the sweeper has sent one, and may have done so in vain";
  task.wake_at = Instant(115s);
  task.epoch = 1;
  EXPECT_EQ(decide_sweep(task, Instant(120s), later).kind, SweepDecision::Kind::kPublish)
      << "not its first hint";
}

// With a million tasks in line each was hinted again, and its row written, every 30 s.
TEST(Sweep, AHintThatWaitsInTheBrokerIsNotSentAgain) {
  using Kind = SweepDecision::Kind;
  TaskFacts task = facts(TaskState::kQueued);
  task.epoch = 0;
  task.claims = 0;
  task.next_run_at = Instant(1000s);
  task.wake_at = Instant(1015s);
  task.deadline_at = Instant(9000s);
  const TaskId later = TaskId::make();
  const auto kind = [&](Instant now, const QueuesSeen& queues) {
    return decide_sweep(task, now, later, false, queues).kind;
  };
  for (const Lane lane : {Lane::kBulk, Lane::kExpress}) {
    task.lane = lane;
    const auto at = [&](Instant seen) {
      return lane == Lane::kBulk ? QueuesSeen{.bulk = seen} : QueuesSeen{.express = seen};
    };
    EXPECT_EQ(kind(Instant(5000s), at(Instant(500s))), Kind::kHinted) << "there are others before";
    EXPECT_EQ(kind(Instant(5000s), at(Instant(1120s) - 1us)), Kind::kHinted) << "clocks differ";
    EXPECT_EQ(kind(Instant(5000s), at(Instant(1120s))), Kind::kPublish)
        << "what was hinted after it comes already: it was lost";
    EXPECT_EQ(kind(Instant(5000s), {}), Kind::kPublish) << "the queue is empty: it was lost";
    EXPECT_EQ(kind(Instant(8940s), at(Instant(500s))), Kind::kLook) << "its end must not be missed";
    EXPECT_EQ(decide_sweep(task, Instant(8940s), later, false, at(Instant(500s))).wake_at,
              task.deadline_at);
    EXPECT_EQ(decide_sweep(task, Instant(5000s), task.id, false, at(Instant(500s))).kind,
              Kind::kPublish)
        << "not confirmed";
  }
  EXPECT_EQ(kind(Instant(5000s), {.bulk = Instant(500s)}), Kind::kPublish) << "the other lane";
  // A sweeper has hinted it, at 3000 s.
  task.lane = Lane::kBulk;
  task.epoch = 1;
  task.wake_at = Instant(3000s) + kLookAgain;
  EXPECT_EQ(kind(Instant(5000s), {.bulk = Instant(3000s)}), Kind::kHinted);
  EXPECT_EQ(kind(Instant(5000s), {.bulk = Instant(3120s)}), Kind::kPublish);
  // Released just now: whoever was to send its hint may have died.
  task.wake_at = task.next_run_at + kFirstLook;
  EXPECT_EQ(kind(Instant(5000s), {.bulk = Instant(500s)}), Kind::kPublish);
}

// It would wait behind everybody a second time.
TEST(Sweep, WhatWasTriedIsNotLeftToTheQueue) {
  TaskFacts task = facts(TaskState::kQueued);
  task.claims = 1;
  task.next_run_at = Instant(100s);
  task.wake_at = Instant(200s);
  const SweepDecision again =
      decide_sweep(task, Instant(200s), TaskId::make(), false, {.bulk = Instant(0s)});
  EXPECT_EQ(again.kind, SweepDecision::Kind::kPublish);
  EXPECT_TRUE(again.tried);
  EXPECT_EQ(again.wake_at, Instant(200s) + kFirstLook) << "whoever pulls sees it at once";
  task.claims = 0;
  EXPECT_FALSE(decide_sweep(task, Instant(200s)).tried);
  task = facts(TaskState::kRunning);
  EXPECT_TRUE(decide_sweep(task, Instant(130s)).tried) << "its worker was lost";
}

TEST(Sweep, Running) {
  TaskFacts task = facts(TaskState::kRunning);
  EXPECT_EQ(decide_sweep(task, Instant(130s) - 1us).kind, SweepDecision::Kind::kLook);
  EXPECT_EQ(decide_sweep(task, Instant(110s)).wake_at, Instant(130s));
  EXPECT_EQ(decide_sweep(task, Instant(130s)).kind, SweepDecision::Kind::kReap);
  task.claims = kClaimsMax;
  EXPECT_EQ(decide_sweep(task, Instant(130s)).kind, SweepDecision::Kind::kExhaust);
  EXPECT_EQ(decide_sweep(task, Instant(900s)).kind, SweepDecision::Kind::kExpire);
  task.lease_until = Instant(950s);
  EXPECT_EQ(decide_sweep(task, Instant(880s)).wake_at, Instant(900s));
  EXPECT_EQ(decide_sweep(task, Instant(900s)).kind, SweepDecision::Kind::kExpire)
      << "with a live lease";
}

// Whose neighbour ended the worker five times must not fail for it: only what ran uses up a claim,
// and what waited for its turn, alone, is not suspected more than before.
TEST(Sweep, ALostLeaseCountsForWhatRan) {
  struct Row {
    std::uint32_t claims, lost;
    bool called, was_away;
    bool ends;
    std::uint32_t claims_after, lost_after;
  };
  const Row table[] = {
      {1, 0, true, false, false, 1, 1},
      {2, 1, true, false, false, 2, 2},
      {4, 3, true, false, false, 4, 4},
      {5, 4, true, false, true, 5, 5},
      {5, 0, true, false, true, 5, 1},  // It was tried often enough, however that ended.
      // Nobody was called.
      {1, 0, false, false, false, 0, 1},
      {1, 1, false, false, false, 0, 2},  // It may be what is fetched for it.
      {3, 2, false, false, false, 2, 2},
      {5, 4, false, false, false, 4, 4},
      {0, 9, false, false, false, 0, 9},
      // Nobody could renew.
      {1, 0, true, true, false, 1, 0},
      {3, 2, true, true, false, 3, 2},
      {1, 0, false, true, false, 0, 0},
  };
  int n = 0;
  for (const Row& row : table) {
    TaskFacts task = facts(TaskState::kRunning);
    task.claims = row.claims;
    task.lost_leases = row.lost;
    task.called = row.called;
    const SweepDecision decision = decide_sweep(task, Instant(130s), {}, row.was_away);
    ASSERT_TRUE(decision.move) << n;
    EXPECT_EQ(decision.ends(), row.ends) << n;
    EXPECT_EQ(decision.move->claims, row.claims_after) << n;
    EXPECT_EQ(decision.move->lost_leases, row.lost_after) << n;
    EXPECT_EQ(decision.move->epoch, 4U) << n;
    ++n;
  }
}

TEST(Sweep, TwoLostLeasesMakeASuspect) {
  EXPECT_FALSE(runs_alone(0));
  EXPECT_FALSE(runs_alone(1));
  EXPECT_TRUE(runs_alone(2));
  EXPECT_TRUE(runs_alone(7));
}

TEST(Sweep, OtherEndsOfAClaimLeaveTheLostLeasesAsTheyAre) {
  using Kind = ClaimEnd::Kind;
  TaskFacts task = facts(TaskState::kRunning);
  task.lost_leases = 3;
  for (const Kind kind : {Kind::kSucceed, Kind::kFail, Kind::kRetry, Kind::kRelease}) {
    const auto decision = decide_settle(task, {.kind = kind, .epoch = 3}, Instant(100s));
    ASSERT_TRUE(decision.move);
    EXPECT_EQ(decision.move->lost_leases, 3U) << static_cast<int>(kind);
  }
  EXPECT_EQ(decide_sweep(task, Instant(900s)).move->lost_leases, 3U);
}

// None is given for longer, so the clock has been set back since.
TEST(Sweep, NoLeaseIsWaitedForLongerThanANewOneLasts) {
  TaskFacts task = facts(TaskState::kRunning);
  task.wake_at = Instant(100s);
  task.lease_until = Instant(340s);
  EXPECT_EQ(decide_sweep(task, Instant(100s)).kind, SweepDecision::Kind::kLook);
  EXPECT_EQ(decide_sweep(task, Instant(100s)).wake_at, Instant(130s));
}

TEST(Sweep, WhatNobodyHasClaimedWasDueFromTheStart) {
  TaskFacts task = facts(TaskState::kQueued);
  task.next_run_at = Instant(340s);
  EXPECT_FALSE(may_claim(task, task.epoch, Instant(100s))) << "put back for a while";
  task.epoch = 0;
  EXPECT_TRUE(may_claim(task, 0, Instant(100s))) << "the clock was set back";
}

TEST(Sweep, Final) {
  const SweepDecision decision = decide_sweep(facts(TaskState::kFailed), Instant(100s));
  EXPECT_EQ(decision.kind, SweepDecision::Kind::kLook);
  EXPECT_FALSE(decision.wake_at);
}

TEST(Sweep, WhatItMovesIsFenced) {
  TaskFacts task = facts(TaskState::kRunning);
  const SweepDecision reaped = decide_sweep(task, Instant(130s));
  ASSERT_TRUE(reaped.move);
  EXPECT_EQ(reaped.move->state, TaskState::kQueued);
  EXPECT_EQ(reaped.move->epoch, 4U);
  EXPECT_EQ(reaped.move->claims, 1U) << "a lost lease counts";
  EXPECT_EQ(reaped.move->next_run_at, Instant(130s));
  EXPECT_EQ(reaped.move->wake_at, Instant(145s));
  EXPECT_FALSE(reaped.ends());
  EXPECT_EQ(decide_sweep(task, Instant(899s)).move->wake_at, Instant(900s));

  task.claims = kClaimsMax;
  const SweepDecision exhausted = decide_sweep(task, Instant(130s));
  ASSERT_TRUE(exhausted.move && exhausted.ends());
  EXPECT_EQ(exhausted.move->state, TaskState::kFailed);
  EXPECT_EQ(exhausted.move->failure, FailureCode::kInternalError);
  EXPECT_EQ(exhausted.move->epoch, 4U);

  for (const TaskState state : {TaskState::kQueued, TaskState::kRunning}) {
    const SweepDecision expired = decide_sweep(facts(state), Instant(900s));
    ASSERT_TRUE(expired.move && expired.ends());
    EXPECT_EQ(expired.move->state, TaskState::kFailed);
    EXPECT_EQ(expired.move->failure, FailureCode::kDeadlineExceeded);
    EXPECT_EQ(expired.move->charged, Units{});
    EXPECT_EQ(expired.move->epoch, 4U);
  }
  for (const TaskState state : kStates) {
    EXPECT_FALSE(decide_sweep(facts(state), Instant(100s)).move) << state_name(state);
  }
}

}  // namespace
}  // namespace audiogen
