#include "common/domain/lifecycle.h"

#include <algorithm>
#include <array>
#include <utility>

#include "common/base/check.h"

namespace audiogen {
namespace {

bool allowed(const TaskFacts& task, TaskEvent event) {
  return next_state(task.state, event).has_value();
}

// Back to queued, due at `due`, with `claims` used; whoever ran it is fenced.
TaskMove requeue(const TaskFacts& task, std::uint32_t claims, Instant due, Instant wake_at) {
  return {.state = TaskState::kQueued,
          .epoch = task.epoch + 1,
          .claims = claims,
          .lost_leases = task.lost_leases,
          .next_run_at = due,
          .wake_at = std::min(wake_at, task.deadline_at)};
}

std::uint32_t one_less(std::uint32_t claims) {
  return claims - std::min(claims, 1U);
}

// Its worker is gone. Only work that really ran uses up a claim, and a suspect for which nobody was
// called has only waited for its turn: whatever ended the worker, it was not that one.
TaskMove reap(const TaskFacts& task, Instant now, bool was_away) {
  TaskMove move =
      requeue(task, task.called ? task.claims : one_less(task.claims), now, now + kFirstLook);
  if (!was_away && (task.called || !runs_alone(task.lost_leases))) {
    ++move.lost_leases;
  }
  return move;
}

// To the final state `state`, by whoever has the claim.
TaskMove end(const TaskFacts& task, TaskState state, Units charged) {
  return {.state = state,
          .epoch = task.epoch,
          .claims = task.claims,
          .lost_leases = task.lost_leases,
          .next_run_at = task.next_run_at,
          .charged = charged};
}

TaskMove fail(const TaskFacts& task, FailureCode failure) {
  TaskMove move = end(task, TaskState::kFailed, Units{});
  move.failure = failure;
  return move;
}

// From outside.
TaskMove fail_fenced(const TaskFacts& task, FailureCode failure) {
  TaskMove move = fail(task, failure);
  ++move.epoch;
  return move;
}

// Was `claim_end` carried out before, its answer lost on the way? Only the holder of the epoch
// leaves it in a final row, or one above it in a queued one.
std::optional<TaskState> settled_before(const TaskFacts& task, const ClaimEnd& claim_end) {
  using Kind = ClaimEnd::Kind;
  const Kind kind = claim_end.kind;
  const bool may_requeue = kind == Kind::kRetry || kind == Kind::kRelease;
  const bool may_fail = kind == Kind::kRetry || kind == Kind::kFail;
  const bool done =
      (task.state == TaskState::kSucceeded && task.epoch == claim_end.epoch &&
       kind == Kind::kSucceed && task.output_key == claim_end.output_key) ||
      (task.state == TaskState::kFailed && task.epoch == claim_end.epoch && may_fail) ||
      (task.state == TaskState::kQueued && task.epoch == claim_end.epoch + 1 && may_requeue);
  return done ? std::optional(task.state) : std::nullopt;
}

TaskMove move_by(const TaskFacts& task, const ClaimEnd& claim_end, Instant now) {
  const auto failed = [&] {
    TaskMove move = fail(task, claim_end.failure);
    move.failure_message = claim_end.failure_message;
    return move;
  };
  switch (claim_end.kind) {
    case ClaimEnd::Kind::kSucceed:
      return end(task,
                 TaskState::kSucceeded,
                 std::min({charge_for(claim_end.duration_ms), claim_end.charge_max, task.held}));
    case ClaimEnd::Kind::kFail:
      break;
    case ClaimEnd::Kind::kRetry: {
      const Instant due = now + claim_end.retry_after;
      return task.claims >= kClaimsMax || due >= task.deadline_at
                 ? failed()
                 : requeue(task, task.claims, due, std::min(due, now + kLookWithin));
    }
    case ClaimEnd::Kind::kRelease: {
      const Instant due = std::min(now + claim_end.retry_after, std::max(now, task.deadline_at));
      const std::uint32_t claims = std::max(one_less(task.claims), claim_end.had_turn ? 1U : 0U);
      return requeue(task, claims, due, std::min(due, now + kLookWithin));
    }
  }
  return failed();
}

// When the hint that was sent last was; nullopt: none was yet, as far as anybody knows. Where a
// sweeper sends one, it looks again kLookAgain later.
std::optional<Instant> hinted_at(const TaskFacts& task, TaskId unsent_from) {
  if (*task.wake_at > task.next_run_at + kFirstLook) {
    return *task.wake_at - kLookAgain;
  }
  return task.epoch == 0 && task.id < unsent_from ? std::optional(task.next_run_at) : std::nullopt;
}

// Does its hint wait in the broker for certain? A further one would only wait behind it: one after
// the other they come out as they went in.
bool waits_in_queue(const TaskFacts& task, TaskId unsent_from, const QueuesSeen& queues) {
  const std::optional<Instant> at = hinted_at(task, unsent_from);
  const auto& seen = task.lane == Lane::kExpress ? queues.express : queues.bulk;
  return at && task.claims == 0 && seen && *at + kTrustInHint > *seen;
}

// Has its first hint been sent so lately that it may be on its way?
bool is_newly_hinted(const TaskFacts& task, Instant now, TaskId unsent_from) {
  return is_hinted_once(task) && task.id < unsent_from && now < task.next_run_at + kTrustInHint;
}

// From 1 to 15 s.
std::chrono::milliseconds some_seconds(double jitter) {
  constexpr std::chrono::milliseconds kMiddle = 8s, kSpread = 7s;
  return kMiddle + std::chrono::round<std::chrono::milliseconds>(kSpread * jitter);
}

}  // namespace

bool is_hinted_once(const TaskFacts& task) {
  return task.epoch == 0 && task.wake_at && *task.wake_at <= task.next_run_at + kFirstLook;
}

std::chrono::milliseconds retry_delay(std::uint32_t claims,
                                      std::chrono::milliseconds left,
                                      double jitter,
                                      std::chrono::milliseconds needed) {
  using std::chrono::milliseconds;
  AG_CHECK(claims >= 1);
  AG_CHECK(jitter >= -1 && jitter <= 1);
  constexpr std::array<milliseconds, 2> kFirst = {2s, 8s};
  constexpr double kSpread = 0.2;
  const auto spread = [](milliseconds base, double by) {
    return std::chrono::round<milliseconds>(base * (1 + kSpread * by));
  };
  if (claims <= kFirst.size()) {
    return spread(kFirst[claims - 1], jitter);
  }
  if (claims + 1 < kClaimsMax) {
    return spread(std::clamp<milliseconds>(left / 3, kFirst.back(), 15min), jitter);
  }
  const milliseconds last = left - needed - kToBeTaken;
  return spread(std::clamp<milliseconds>(last, kFirst.back(), 60min), (jitter - 1) / 2);
}

std::chrono::milliseconds not_taken_delay(std::chrono::milliseconds left,
                                          std::chrono::milliseconds whole) {
  constexpr int kPart = 16;
  return std::max(std::min(left, whole - left), std::chrono::milliseconds(0)) / kPart;
}

std::chrono::milliseconds alone_delay(double jitter) {
  AG_CHECK(jitter >= -1 && jitter <= 1);
  constexpr std::chrono::milliseconds kDelay = 5s;
  constexpr double kSpread = 0.5;
  return std::chrono::round<std::chrono::milliseconds>(kDelay * (1 + kSpread * jitter));
}

Instant first_look(Lane lane, Instant now, Instant deadline) {
  return lane == Lane::kParked ? deadline : std::min(now + kFirstLook, deadline);
}

bool may_claim(const TaskFacts& task, std::uint32_t epoch, Instant now) {
  // What nobody has claimed yet was due from the start, whatever the clock says now.
  const bool due = task.epoch == 0 || task.next_run_at <= now;
  return allowed(task, TaskEvent::kClaim) && task.lane != Lane::kParked && task.epoch == epoch &&
         due && task.deadline_at > now;
}

bool runs_alone(std::uint32_t lost_leases) {
  return lost_leases >= kLostTogether;
}

Instant put_off(const TaskFacts& task, Instant now, double jitter) {
  return std::min(now + alone_delay(jitter), task.deadline_at);
}

bool is_of(const TaskFacts& task, std::uint32_t epoch) {
  return task.state == TaskState::kRunning && task.epoch == epoch;
}

bool may_renew(const TaskFacts& task, std::uint32_t epoch, WorkerId worker) {
  return is_of(task, epoch) && task.worker == worker;
}

Verdict verdict_on(Trouble trouble) {
  using Kind = ClaimEnd::Kind;
  switch (trouble) {
    case Trouble::kUnreadable:
    case Trouble::kTooLarge:
      return {Kind::kFail, FailureCode::kInternalError};
    case Trouble::kNobodyCan:
    case Trouble::kNobodyReads:
      return {Kind::kFail, FailureCode::kUnsupportedInput};
    case Trouble::kContentRefused:
      return {Kind::kFail, FailureCode::kContentRejected};
    case Trouble::kBadReference:
      return {Kind::kFail, FailureCode::kReferenceUnavailable};
    case Trouble::kNobodyNow:
      return {Kind::kRetry, FailureCode::kProviderUnavailable};
    case Trouble::kOurs:
      return {Kind::kRetry, FailureCode::kInternalError};
    // Waiting for the deadline would change nothing but the hour at which its user knows.
    case Trouble::kOutOfTime:
      return {Kind::kFail, FailureCode::kDeadlineExceeded};
    case Trouble::kLeftAlone:
    case Trouble::kNotTaken:
      return {Kind::kRelease, FailureCode::kProviderUnavailable};
    case Trouble::kOursUncalled:
    case Trouble::kNoRoom:
    case Trouble::kStopping:
      break;
  }
  return {Kind::kRelease, FailureCode::kInternalError};
}

ClaimEnd end_by(Trouble trouble,
                std::uint32_t claims,
                std::chrono::milliseconds left,
                double jitter,
                std::chrono::milliseconds not_before,
                std::chrono::milliseconds needed) {
  const Verdict verdict = verdict_on(trouble);
  ClaimEnd out{.kind = verdict.kind, .failure = verdict.failure};
  if (trouble == Trouble::kNobodyReads) {
    out.failure_message = kNoVoiceMessage;
  }
  if (out.kind == ClaimEnd::Kind::kRetry) {
    out.retry_after = std::max(retry_delay(claims, left, jitter, needed), not_before);
  } else if (out.kind == ClaimEnd::Kind::kRelease) {
    out.retry_after = not_before;
    out.had_turn = trouble == Trouble::kNotTaken;
    if (trouble == Trouble::kLeftAlone || out.had_turn || trouble == Trouble::kOursUncalled) {
      // So that there is still time for a call then.
      const auto spare = std::max<std::chrono::milliseconds>(left - needed - not_before, 1s);
      out.retry_after += std::min(some_seconds(jitter), spare);
    }
  }
  return out;
}

SettleDecision decide_settle(const TaskFacts& task, const ClaimEnd& claim_end, Instant now) {
  if (!is_of(task, claim_end.epoch)) {
    return {.to = settled_before(task, claim_end)};
  }
  TaskMove move = move_by(task, claim_end, now);
  const TaskState to = move.state;
  return {.to = to, .move = std::move(move)};
}

TaskMove cancel_task(const TaskFacts& task) {
  AG_CHECK(allowed(task, TaskEvent::kCancel));
  TaskMove move = end(task, TaskState::kCanceled, Units{});
  ++move.epoch;
  return move;
}

SweepDecision decide_sweep(const TaskFacts& task,
                           Instant now,
                           TaskId unsent_from,
                           bool was_away,
                           const QueuesSeen& queues) {
  using Kind = SweepDecision::Kind;
  if (!task.wake_at || *task.wake_at > now) {
    return {};
  }
  if (is_final(task.state)) {
    return {.kind = Kind::kLook};
  }
  if (task.deadline_at <= now) {
    return {.kind = Kind::kExpire, .move = fail_fenced(task, FailureCode::kDeadlineExceeded)};
  }
  if (task.lane == Lane::kParked) {
    return {.kind = Kind::kLook, .wake_at = task.deadline_at};
  }
  if (task.state == TaskState::kQueued) {
    const bool waits = waits_in_queue(task, unsent_from, queues);
    if (now < task.deadline_at - kWholePass && (waits || is_newly_hinted(task, now, unsent_from))) {
      return {.kind = Kind::kHinted};
    }
    if (waits) {
      return {.kind = Kind::kLook, .wake_at = task.deadline_at};  // Its end must not be missed.
    }
    if (task.next_run_at <= now) {
      // What was tried does not wait for long, or its hint is lost: whoever pulls is to see it.
      const bool tried = task.claims > 0;
      return {.kind = Kind::kPublish,
              .wake_at = std::min(now + (tried ? kFirstLook : kLookAgain), task.deadline_at),
              .tried = tried};
    }
    return {.kind = Kind::kLook,
            .wake_at = std::min({task.next_run_at, now + kLookWithin, task.deadline_at})};
  }
  if (task.lease_until > now) {
    return {.kind = Kind::kLook,
            .wake_at = std::min({*task.lease_until, now + kLease, task.deadline_at})};
  }
  if (task.called && task.claims >= kClaimsMax) {
    TaskMove move = fail_fenced(task, FailureCode::kInternalError);
    ++move.lost_leases;
    return {.kind = Kind::kExhaust, .move = std::move(move)};
  }
  TaskMove move = reap(task, now, was_away);
  const bool tried = move.claims > 0;
  return {.kind = Kind::kReap, .move = std::move(move), .tried = tried};
}

}  // namespace audiogen
