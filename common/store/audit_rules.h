// What must hold between rows, and how SQL says that it does not: the list that audit.cc goes
// through. What is added up by user, I1, I4, I19 and most of I20 and I21, stands there.
#pragma once

#include <array>
#include <cstdint>

namespace audiogen::store::audits {

// I…: an invariant; L…: liveness. In the order of kRules.
enum Rule : std::uint8_t {
  I1,
  I2,
  I3,
  I4,
  I5,
  I6,
  I7,
  I8,
  I9,
  I10,
  I11,
  I12,
  I13,
  I14,
  I15,
  I16,
  I17,
  I18,
  I19,
  I20,
  I21,
  I22,
  I23,
  L1,
  L2,
  L3,
  L4,
  L5,
  kRuleCount
};
inline constexpr std::array<const char*, kRuleCount> kRules = {
    "I1 every user has one balance, and it is the sum and the count of its ledger rows",
    "I2 every ledger row sums to zero",
    "I3 no balance was ever negative",
    "I4 the ledger rows of a user are an unbroken chain",
    "I5 every task has its hold, of its size and its user",
    "I6 exactly the final tasks are resolved, with their charge and the whole hold",
    "I7 failed and canceled tasks cost nothing",
    "I8 what a user has reserved is the sum of the open holds",
    "I9 every ledger row has its task or its grant",
    "I10 exactly the open tasks wait for the sweeper",
    "I11 every idempotency key belongs to a task of its user",
    "I12 exactly running tasks have a lease and a worker, succeeded ones an output, failed "
    "ones a reason, final ones a charge",
    "I13 every grant is booked once, as it is, and a purchase opens access",
    "I14 the sweeper looks at no open task later than at its deadline",
    "I15 the provider calls of a task are numbered from 1 without gaps",
    "I16 exactly tasks with a provider call say which was the newest, and when it ended",
    "I17 only running tasks have a provider call under way",
    "I18 exactly deleted tasks have lost what was asked for, and they are final",
    "I19 usage is the sum of the ledger up to its mark, and no mark is ahead of its ledger",
    "I20 what a key with a limit has spent is the sum of the ledger up to its mark",
    "I21 an ended account has no key that works, and nothing of its tasks once that is said",
    "I22 every user's released and parked tasks are counted, and only queued ones are parked",
    "I23 no task has lost more leases than it was given",
    "L1 the sweeper looks at tasks when it should",
    "L2 no lease has been over for a minute",
    "L3 no task is open a minute after its deadline",
    "L4 no file is there a minute after its deletion",
    "L5 nothing of an ended account is there an hour after its end",
};

// By rule: the users or rows that break it.
using Counts = std::array<std::uint64_t, kRuleCount>;

// --- what is open now: a query each

struct NowRule {
  std::array<Rule, 2> rules;  // Of its columns; twice the same: it has one.
  const char* query;          // @now is the time of the snapshot.
};
inline constexpr std::array kNow = {
    NowRule{{I8, I22},
            "SELECT COUNT(IF(b.held<>COALESCE(t.h,0),1,NULL)), COUNT(IF(b.released<>"
            "COALESCE(t.r,0) OR b.parked<>COALESCE(t.p,0) OR (b.crowded=1)<>(b.parked>0),1,NULL)) "
            "FROM balances b LEFT JOIN (SELECT user_id, SUM(held) AS h, SUM(lane<>2) AS r, "
            "SUM(lane=2) AS p FROM tasks FORCE INDEX (k_wake) WHERE wake_at IS NOT NULL AND "
            "state<=2 GROUP BY user_id) t ON t.user_id=b.user_id"},
    // Those that other sessions hold are put off for a moment, at their deadline too.
    NowRule{{I14, I14},
            "SELECT COUNT(*) FROM tasks FORCE INDEX (k_wake) WHERE state<=2 "
            "AND wake_at>GREATEST(deadline_at, @now) + INTERVAL 5 SECOND"},
    // What nobody counts for; the rest is looked at by user.
    NowRule{{I20, I20},
            "SELECT COUNT(*) FROM (SELECT 1 FROM spend_days s LEFT JOIN spend_marks m ON "
            "m.key_id=s.key_id WHERE m.key_id IS NULL GROUP BY s.key_id, s.day HAVING "
            "SUM(s.spent)<>0) x"},
    NowRule{{I21, I21},
            "SELECT COUNT(*) FROM account_deletions d LEFT JOIN users u ON u.id=d.user_id "
            "WHERE u.deleted_at IS NULL"},
    // A queue that is long because there is more work than workers, or that waits for the broker,
    // breaks none of these: the sweeper moves every wake_at it has seen, but those of tasks that
    // wait for their first turn, which is for those who pull; they end by L3.
    NowRule{{L1, L1},
            "SELECT COUNT(*) FROM tasks FORCE INDEX (k_wake) WHERE wake_at<@now - INTERVAL 60 "
            "SECOND AND NOT (state=1 AND claims=0)"},
    NowRule{{L2, L2},
            "SELECT COUNT(*) FROM tasks FORCE INDEX (k_wake) WHERE wake_at IS NOT NULL AND state=2 "
            "AND lease_until<@now - INTERVAL 60 SECOND"},
    NowRule{{L3, L3},
            "SELECT COUNT(*) FROM tasks FORCE INDEX (k_wake) WHERE wake_at IS NOT NULL AND "
            "state<=2 AND deadline_at<@now - INTERVAL 60 SECOND"},
    // Not those past their retention, which nobody asked for just now.
    NowRule{{L4, L4},
            "SELECT COUNT(*) FROM deletions d STRAIGHT_JOIN tasks t FORCE INDEX (PRIMARY) ON "
            "t.id=d.task_id WHERE d.deleted_at<@now - INTERVAL 60 SECOND AND t.deleted_at IS NOT "
            "NULL AND t.deleted_at<@now - INTERVAL 60 SECOND"},
    NowRule{{L5, L5},
            "SELECT COUNT(*) FROM account_deletions WHERE asked_at<@now - INTERVAL 1 HOUR"},
};

// --- rows of a table, in the order of an index: conditions that a row breaks a rule by

struct Condition {
  Rule rule;
  const char* bad;
};

// Of a task t, its hold h and resolution r, its user's balance b, its calls before the newest a.
inline constexpr std::array kOfTask = {
    Condition{I5, "h.source_id IS NULL OR h.d_held<>t.held OR h.user_id<>t.user_id"},
    Condition{I6,
              "(t.state>=3)<>(r.source_id IS NOT NULL) OR (r.source_id IS NOT NULL AND "
              "(NOT r.d_system<=>t.charged OR r.d_held+h.d_held<>0 OR r.user_id<>t.user_id))"},
    Condition{I7, "t.state IN (4,5) AND (t.charged<>0 OR r.d_system<>0)"},
    Condition{I10, "(t.state<=2)<>(t.wake_at IS NOT NULL)"},
    Condition{I12,
              "(t.state=2)<>(t.lease_until IS NOT NULL) OR (t.state=2)<>(t.worker IS NOT NULL) OR "
              "(t.state=3)<>(t.output_key IS NOT NULL) OR (t.state=3)<>(t.output_bytes IS NOT "
              "NULL) OR (t.state=3)<>(COALESCE(t.output_checksum, t.output_sha256) IS NOT NULL) OR "
              "(t.state=3)<>(t.duration_ms IS NOT NULL) OR (t.state=4)<>(t.failure IS NOT NULL) OR "
              "(t.state>=3)<>(t.charged IS "
              "NOT NULL)"},
    // Those of old tasks may be gone, all of a task's at once (forget_past_calls()).
    Condition{I15,
              "(a.n IS NOT NULL OR t.id>(SELECT attempts_to FROM retention WHERE id=1)) AND "
              "(t.attempts<>COALESCE(a.n,0)+(t.attempts>0) OR "
              "t.attempts<>GREATEST(COALESCE(a.top,0),t.attempts))"},
    Condition{I16,
              "(t.attempts>0)<>(t.attempt_provider IS NOT NULL) OR "
              "(t.attempts>0)<>(t.attempt_epoch IS NOT NULL) OR "
              "(t.attempts>0)<>(t.attempt_state IS NOT NULL) OR "
              "(t.attempts>0)<>(t.attempt_started_at IS NOT NULL) OR "
              "(t.attempts>0 AND t.attempt_state<>1)<>(t.attempt_ended_at IS NOT NULL)"},
    Condition{I17, "t.state<>2 AND (a.going_on>0 OR (t.attempts>0 AND t.attempt_state=1))"},
    Condition{I18,
              "(t.deleted_at IS NOT NULL)<>(LENGTH(t.request)=0) OR (t.deleted_at IS NOT NULL AND "
              "(t.state<=2 OR (t.output_key IS NOT NULL)<>(t.output_deleted_at IS NOT NULL)))"},
    Condition{I22, "t.lane=2 AND (t.state=2 OR (t.state=1 AND h.seq<=b.parked_after))"},
    // A claim raises the epoch, and so does its end.
    Condition{I23, "t.lost_leases*2>t.epoch"},
};

// Of a grant g, its ledger row l and its user u.
inline constexpr std::array kOfGrant = {
    Condition{I13,
              "l.source_id IS NULL OR l.d_available<>g.amount OR l.user_id<>g.user_id "
              "OR (g.kind=1 AND NOT u.purchased<=>1)"},
};

// Of an idempotency key i and its task t.
inline constexpr std::array kOfKey = {
    Condition{I11, "t.id IS NULL OR t.user_id<>i.user_id"},
};

// Of a ledger row l, its task t or its grant g.
inline constexpr std::array kOfEntry = {
    Condition{I2, "l.d_available+l.d_held+l.d_system<>0"},
    Condition{I3, "l.available_after<0 OR l.held_after<0"},
    Condition{I9, "t.id IS NULL AND g.id IS NULL"},
};

}  // namespace audiogen::store::audits
