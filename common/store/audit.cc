#include "common/store/audit.h"

#include <array>

#include "common/base/check.h"
#include "common/store/session.h"

namespace audiogen::store {
namespace {

constexpr SessionOptions kPatient{.read_timeout = std::chrono::hours(1),
                                  .statement_max = std::chrono::seconds(0),
                                  .idle_in_transaction_max = std::chrono::seconds(60),
                                  .reconnects = false};

// One query that counts what breaks it.
struct Rule {
  const char* name;   // I…: an invariant; L…: liveness.
  const char* query;  // @now is the time of the snapshot.
};

constexpr std::array kRules = {
    Rule{"I1 every user has one balance, and it is the sum and the count of its ledger rows",
         "SELECT COUNT(*) FROM (SELECT id AS user_id FROM users UNION SELECT user_id FROM balances "
         "UNION SELECT user_id FROM ledger) e LEFT JOIN users u ON u.id=e.user_id "
         "LEFT JOIN balances b ON b.user_id=e.user_id LEFT JOIN "
         "(SELECT user_id, SUM(d_available) AS a, SUM(d_held) AS h, MAX(seq) AS s, COUNT(*) AS n "
         "FROM ledger GROUP BY user_id) l ON l.user_id=e.user_id "
         "WHERE u.id IS NULL OR b.user_id IS NULL OR COALESCE(l.a,0)<>b.available "
         "OR COALESCE(l.h,0)<>b.held OR COALESCE(l.s,0)<>b.seq OR COALESCE(l.n,0)<>b.seq"},
    Rule{"I2 every ledger row sums to zero",
         "SELECT COUNT(*) FROM ledger WHERE d_available+d_held+d_system<>0"},
    Rule{"I3 no balance was ever negative",
         "SELECT COUNT(*) FROM ledger WHERE available_after<0 OR held_after<0"},
    Rule{"I4 the ledger rows of a user are an unbroken chain",
         "SELECT COUNT(*) FROM (SELECT seq, available_after, held_after, d_available, d_held, "
         "COALESCE(LAG(available_after) OVER w,0) AS pa, COALESCE(LAG(held_after) OVER w,0) AS ph, "
         "COALESCE(LAG(seq) OVER w,0) AS ps FROM ledger "
         "WINDOW w AS (PARTITION BY user_id ORDER BY seq)) x "
         "WHERE available_after<>pa+d_available OR held_after<>ph+d_held OR seq<>ps+1"},
    Rule{"I5 every task has its hold, of its size and its user",
         "SELECT COUNT(*) FROM tasks t LEFT JOIN ledger h ON h.source_id=t.id AND h.kind=1 "
         "WHERE h.source_id IS NULL OR h.d_held<>t.held OR h.user_id<>t.user_id"},
    Rule{"I6 exactly the final tasks are resolved, with their charge and the whole hold",
         "SELECT COUNT(*) FROM tasks t LEFT JOIN ledger r ON r.source_id=t.id AND r.kind=2 "
         "LEFT JOIN ledger h ON h.source_id=t.id AND h.kind=1 "
         "WHERE (t.state>=3)<>(r.source_id IS NOT NULL) OR (r.source_id IS NOT NULL AND "
         "(NOT r.d_system<=>t.charged OR r.d_held+h.d_held<>0 OR r.user_id<>t.user_id))"},
    Rule{"I7 failed and canceled tasks cost nothing",
         "SELECT COUNT(*) FROM tasks t LEFT JOIN ledger r ON r.source_id=t.id AND r.kind=2 "
         "WHERE t.state IN (4,5) AND (t.charged<>0 OR r.d_system<>0)"},
    Rule{"I8 what a user has reserved is the sum of the open holds",
         "SELECT COUNT(*) FROM balances b LEFT JOIN (SELECT user_id, SUM(held) AS h FROM tasks "
         "WHERE state IN (1,2) GROUP BY user_id) t ON t.user_id=b.user_id "
         "WHERE b.held<>COALESCE(t.h,0)"},
    Rule{
        "I9 every ledger row has its task or its grant",
        "SELECT COUNT(*) FROM ledger l LEFT JOIN tasks t ON l.kind<=2 AND t.id=l.source_id "
        "LEFT JOIN grants g ON l.kind>=3 AND g.id=l.source_id WHERE t.id IS NULL AND g.id IS NULL"},
    Rule{"I10 exactly the open tasks wait for the sweeper",
         "SELECT COUNT(*) FROM tasks WHERE (state<=2)<>(wake_at IS NOT NULL)"},
    Rule{"I11 every idempotency key belongs to a task of its user",
         "SELECT COUNT(*) FROM idempotency i LEFT JOIN tasks t ON t.id=i.task_id "
         "WHERE t.id IS NULL OR t.user_id<>i.user_id"},
    Rule{"I12 exactly running tasks have a lease and a worker, succeeded ones an output, failed "
         "ones a reason, final ones a charge",
         "SELECT COUNT(*) FROM tasks WHERE (state=2)<>(lease_until IS NOT NULL) "
         "OR (state=2)<>(worker IS NOT NULL) OR (state=3)<>(output_key IS NOT NULL) "
         "OR (state=3)<>(output_bytes IS NOT NULL) OR (state=3)<>(output_sha256 IS NOT NULL) "
         "OR (state=3)<>(duration_ms IS NOT NULL) OR (state=4)<>(failure IS NOT NULL) "
         "OR (state>=3)<>(charged IS NOT NULL)"},
    Rule{"I13 every grant is booked once, as it is, and a purchase opens access",
         "SELECT COUNT(*) FROM grants g LEFT JOIN ledger l ON l.source_id=g.id "
         "AND l.kind=(CASE WHEN g.amount>0 THEN 3 ELSE 4 END) LEFT JOIN users u ON u.id=g.user_id "
         "WHERE l.source_id IS NULL OR l.d_available<>g.amount OR l.user_id<>g.user_id "
         "OR (g.kind=1 AND NOT u.purchased<=>1)"},
    // Those that other sessions hold are put off for a moment, at their deadline too.
    Rule{"I14 the sweeper looks at no open task later than at its deadline",
         "SELECT COUNT(*) FROM tasks FORCE INDEX (k_wake) WHERE state<=2 "
         "AND wake_at>GREATEST(deadline_at, @now) + INTERVAL 5 SECOND"},
    Rule{"I15 the provider calls of a task are numbered from 1 without gaps",
         "SELECT COUNT(*) FROM tasks t LEFT JOIN (SELECT task_id, COUNT(*) AS n, MAX(n) AS top "
         "FROM attempts GROUP BY task_id) a ON a.task_id=t.id "
         "WHERE t.attempts<>COALESCE(a.n,0) OR t.attempts<>COALESCE(a.top,0)"},
    Rule{
        "I16 exactly tasks with a provider call say which was the newest, and when it ended",
        "SELECT COUNT(*) FROM tasks WHERE (attempts>0)<>(attempt_provider IS NOT NULL) "
        "OR (attempts>0)<>(attempt_epoch IS NOT NULL) OR (attempts>0)<>(attempt_state IS NOT NULL) "
        "OR (attempts>0)<>(attempt_started_at IS NOT NULL) "
        "OR (attempts>0 AND attempt_state<>1)<>(attempt_ended_at IS NOT NULL)"},
    Rule{"I17 only running tasks have a provider call under way",
         "SELECT COUNT(*) FROM attempts a JOIN tasks t ON t.id=a.task_id "
         "WHERE a.state=1 AND t.state<>2"},
    Rule{"I18 exactly deleted tasks have lost what was asked for, and they are final",
         "SELECT COUNT(*) FROM tasks WHERE (deleted_at IS NOT NULL)<>(LENGTH(request)=0) "
         "OR (deleted_at IS NOT NULL AND (state<=2 OR "
         "(output_key IS NOT NULL)<>(output_deleted_at IS NOT NULL)))"},
    // Of the ledger's rows up to each user's mark, by his hours and keys; which voice it was, only
    // the request says. Both sides in one list: what is equal is there twice, with opposite signs.
    Rule{"I19 usage is the sum of the ledger up to its mark, and no mark is ahead of its ledger",
         "SELECT (SELECT COUNT(*) FROM usage_marks m LEFT JOIN balances b ON b.user_id=m.user_id "
         "WHERE b.user_id IS NULL OR m.seq>b.seq)+(SELECT COUNT(*) FROM (SELECT 1 FROM ("
         "SELECT user_id, starts_at, key_id, CAST(generations AS SIGNED) AS g, "
         "CAST(succeeded AS SIGNED) AS s, CAST(failed AS SIGNED) AS f, CAST(canceled AS SIGNED) "
         "AS c, CAST(audio_ms AS SIGNED) AS a, CAST(charged AS SIGNED) AS u FROM usage_hours "
         "UNION ALL SELECT l.user_id, CAST(DATE_FORMAT(l.created_at, '%Y-%m-%d %H:00:00') AS "
         "DATETIME), "
         "COALESCE(t.key_id, REPEAT(CHAR(0), 16)), -(l.kind=1), -(l.kind=2 AND t.state=3), "
         "-(l.kind=2 AND t.state=4), -(l.kind=2 AND t.state=5), "
         "-IF(l.kind=2, COALESCE(CAST(t.duration_ms AS SIGNED), 0), 0), -IF(l.kind=2, l.d_system, "
         "0) FROM usage_marks m JOIN ledger l ON l.user_id=m.user_id AND l.seq<=m.seq AND "
         "l.kind<=2 LEFT JOIN tasks t ON t.id=l.source_id) b GROUP BY user_id, starts_at, key_id "
         "HAVING SUM(g)<>0 OR SUM(s)<>0 OR SUM(f)<>0 OR SUM(c)<>0 OR SUM(a)<>0 OR SUM(u)<>0) x)"},
    // Of the ledger's rows between the beginning of each key's count and its mark, as in I19; what
    // is behind the mark is read from the ledger each time. A key that was deleted counts no more.
    Rule{"I20 what a key with a limit has spent is the sum of the ledger up to its mark",
         "SELECT (SELECT COUNT(*) FROM api_keys k LEFT JOIN spend_marks m ON m.key_id=k.id LEFT "
         "JOIN "
         "balances b ON b.user_id=k.user_id WHERE k.deleted_at IS NULL AND "
         "((k.spend_limit IS NOT NULL)<>(m.key_id IS NOT NULL) OR m.user_id<>k.user_id OR "
         "m.seq>b.seq))+(SELECT COUNT(*) FROM (SELECT 1 FROM (SELECT s.key_id, s.day, s.spent FROM "
         "spend_days s UNION ALL SELECT m.key_id, DATE(t.created_at), l.d_available FROM "
         "spend_marks "
         "m JOIN ledger l ON l.user_id=m.user_id AND l.seq<=m.seq AND l.seq>m.after_seq AND "
         "l.kind<=2 JOIN tasks t ON t.id=l.source_id AND t.key_id=m.key_id JOIN ledger h ON "
         "h.source_id=l.source_id AND h.kind=1 AND h.seq>m.after_seq) x GROUP BY key_id, day "
         "HAVING SUM(spent)<>0) y)"},
    Rule{"I21 an ended account has no key that works, and nothing of its tasks once that is said",
         "SELECT (SELECT COUNT(*) FROM users u WHERE u.deleted_at IS NOT NULL AND "
         "(u.email NOT LIKE '%@deleted.invalid' OR EXISTS (SELECT 1 FROM api_keys k WHERE "
         "k.user_id=u.id AND k.deleted_at IS NULL)))+(SELECT COUNT(*) FROM users u "
         "LEFT JOIN account_deletions d ON d.user_id=u.id JOIN ledger l ON l.user_id=u.id AND "
         "l.kind=1 JOIN tasks t ON t.id=l.source_id WHERE u.deleted_at IS NOT NULL AND d.user_id "
         "IS NULL AND t.deleted_at IS NULL)+(SELECT COUNT(*) FROM account_deletions d LEFT JOIN "
         "users u ON u.id=d.user_id WHERE u.deleted_at IS NULL)"},
    Rule{"I22 every user's released and parked tasks are counted, and only queued ones are parked",
         "SELECT (SELECT COUNT(*) FROM balances b LEFT JOIN (SELECT user_id, SUM(lane<>2) AS r, "
         "SUM(lane=2) AS p FROM tasks WHERE state<=2 GROUP BY user_id) t ON t.user_id=b.user_id "
         "WHERE b.released<>COALESCE(t.r,0) OR b.parked<>COALESCE(t.p,0) OR "
         "(b.crowded=1)<>(b.parked>0))+(SELECT COUNT(*) FROM tasks WHERE lane=2 AND state=2)+"
         "(SELECT COUNT(*) FROM tasks t JOIN ledger l ON l.source_id=t.id AND l.kind=1 JOIN "
         "balances b ON b.user_id=t.user_id WHERE t.lane=2 AND t.state=1 AND "
         "l.seq<=b.parked_after)"},
    // A claim raises the epoch, and so does its end.
    Rule{"I23 no task has lost more leases than it was given",
         "SELECT COUNT(*) FROM tasks WHERE lost_leases*2>epoch"},
    // A queue that is long because there is more work than workers breaks none of these: the
    // sweeper moves every wake_at it has seen, but those of tasks that wait for their first turn
    // and were hinted: by their API, or by a sweeper, which looks again later than kFirstLook.
    Rule{"L1 the sweeper looks at tasks when it should",
         "SELECT COUNT(*) FROM tasks FORCE INDEX (k_wake) WHERE wake_at<@now - INTERVAL 60 SECOND "
         "AND NOT (state=1 AND claims=0 AND (wake_at>next_run_at + INTERVAL 15 SECOND OR (epoch=0 "
         "AND id<(SELECT COALESCE(MAX(unsent_from), '') FROM api_processes))))"},
    Rule{"L2 no lease has been over for a minute",
         "SELECT COUNT(*) FROM tasks FORCE INDEX (k_wake) WHERE wake_at IS NOT NULL AND state=2 "
         "AND lease_until<@now - INTERVAL 60 SECOND"},
    Rule{"L3 no task is open a minute after its deadline",
         "SELECT COUNT(*) FROM tasks FORCE INDEX (k_wake) WHERE wake_at IS NOT NULL AND state<=2 "
         "AND deadline_at<@now - INTERVAL 60 SECOND"},
    Rule{"L4 no file is there a minute after its deletion",
         "SELECT COUNT(*) FROM deletions WHERE deleted_at<@now - INTERVAL 60 SECOND"},
    Rule{"L5 nothing of an ended account is there an hour after its end",
         "SELECT COUNT(*) FROM account_deletions WHERE asked_at<@now - INTERVAL 1 HOUR"},
};

}  // namespace

Result<std::vector<Check>, Fault> audit(const DatabaseUrl& url) {
  try {
    // A session of its own, with one connection to its end: on another there is neither the
    // snapshot nor @now, and a rule that compares with NULL finds nothing wrong with anything.
    Session session(url, kPatient);
    session.execute(Sql("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ"));
    session.execute(Sql("START TRANSACTION WITH CONSISTENT SNAPSHOT"));
    session.execute(Sql("SET @now=UTC_TIMESTAMP(6)"));
    std::vector<Check> out;
    for (const Rule& rule : kRules) {
      Rows rows = session.query(Sql::trusted(rule.query));
      AG_CHECK(rows.next());
      out.push_back({.name = rule.name,
                     .kind = rule.name[0] == 'I' ? Check::Kind::kInvariant : Check::Kind::kLiveness,
                     .bad = rows.u64(1)});
    }
    return out;
  } catch (const DbError& e) {
    return to_fault(e);
  }
}

}  // namespace audiogen::store
