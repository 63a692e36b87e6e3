// What grows by itself, and what a pass costs that ends it, however much there is of it.
#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "common/store/session.h"
#include "tests/bench/drivers.h"
#include "tests/bench/requests.h"

namespace audiogen::bench {
namespace {

using std::chrono::days;
using std::chrono::hours;
using store::Sql;

constexpr std::size_t kPurged = 500;  // As the janitor asks for.

Instant now() {
  return std::chrono::floor<Instant::duration>(std::chrono::system_clock::now());
}

// For a statement: the n-th id made so long ago.
std::string id(hours ago) {
  Sql sql;
  sql << first_uuid_at(now() - ago);
  return "CONCAT(LEFT(" + sql.text() + ",8),LPAD(n,8,'0'))";
}

// For a statement: so long ago, a microsecond later with each n.
std::string at(hours ago) {
  return "UTC_TIMESTAMP(6) - INTERVAL " + std::to_string(ago.count()) +
         " HOUR + INTERVAL n MICROSECOND";
}

std::size_t must(Result<std::size_t, store::StoreFault> result, const char* what) {
  if (!result) {
    fail(std::string(what) + ": the store has failed");
  }
  return *result;
}

// A table whose rows have an end.
struct Kind {
  const char* name;
  const char* table;
  const char* columns;
  // Of a row that was made so long ago; its key is made of n and of that.
  std::function<std::string(hours)> row;
  hours over, kept;  // How old what has to go is, and what stays.
  std::function<void()> pass;
};

std::vector<Kind> kinds(store::TaskStore& store, const UserId& user, const TaskId& ended) {
  Sql user_sql, task_sql;
  user_sql << user;
  task_sql << ended;
  const std::string owner = user_sql.text(), task = task_sql.text();
  return {
      {.name = "idempotency keys",
       .table = "idempotency",
       .columns = "user_id, idem_key, fingerprint, task_id, created_at",
       .row =
           [=](hours ago) {
             return owner + ",CONCAT(" + std::to_string(ago.count()) +
                    ",'-',LPAD(n,10,'0')),REPEAT('f',32)," + task + "," + at(ago);
           },
       .over = days(30),
       .kept = days(1),
       .pass =
           [&store] {
             const auto from = store.oldest_idempotency();
             if (!from) {
               fail("idempotency keys cannot be read");
             }
             if (!*from) {
               return;
             }
             const auto old = store.old_idempotency(kPurged, **from, **from + days(1));
             if (!old) {
               fail("idempotency keys cannot be read");
             }
             must(store.forget_idempotency(*old), "idempotency keys");
           }},
      {.name = "provider calls",
       .table = "provider_calls",
       .columns = "task_id, n, provider, outcome, sent_at",
       .row = [](hours ago) { return id(ago) + ",1,'p',1," + at(ago); },
       .over = days(100),
       .kept = days(1),
       .pass = [&store] { must(store.forget_calls(days(90), kPurged, now()), "calls"); }},
      {.name = "earlier attempts",
       .table = "past_attempts",
       .columns = "task_id, n, epoch, provider, state, started_at, ended_at",
       .row = [](hours ago) { return id(ago) + ",1,1,'p',3," + at(ago) + "," + at(ago); },
       .over = days(100),
       .kept = days(1),
       .pass = [&store] { must(store.forget_past_calls(days(90), kPurged, now()), "attempts"); }},
      {.name = "earlier claims",
       .table = "past_claims",
       .columns = "task_id, epoch, worker, claimed_at, ended_at, ended_as",
       .row =
           [](hours ago) {
             return id(ago) + ",1,REPEAT('w',16)," + at(ago) + "," + at(ago) + ",3";
           },
       .over = days(100),
       .kept = days(1),
       .pass = [&store] { must(store.forget_claims(days(90), kPurged, now()), "claims"); }},
      {.name = "tickets of polled providers",
       .table = "tickets",
       .columns = "task_id, n, provider, ticket, created_at",
       .row = [](hours ago) { return id(ago) + ",1,'p','t'," + at(ago); },
       .over = hours(20),
       .kept = hours(0),
       .pass = [&store] { must(store.forget_tickets(hours(1), kPurged), "tickets"); }},
      {.name = "sessions",
       .table = "sessions",
       .columns = "id, user_id, token_hash, created_at, last_seen_at, user_agent, address",
       .row =
           [=](hours ago) {
             return id(ago) + "," + owner + ",CONCAT(LPAD(" + std::to_string(ago.count()) +
                    ",16,'0'),LPAD(n,16,'0'))," + at(ago) + "," + at(ago) + ",'',''";
           },
       .over = days(100),
       .kept = hours(0),
       .pass = [&store] { must(store.purge_sessions(kPurged), "sessions"); }},
      {.name = "workers",
       .table = "workers",
       .columns = "id, host, pid, in_flight, status, started_at, seen_at",
       .row = [](hours ago) { return id(ago) + ",'h',1,0,'{}'," + at(ago) + "," + at(ago); },
       .over = hours(30),
       .kept = hours(0),
       .pass = [&store] { must(store.forget_silent(kPurged), "workers"); }},
      {.name = "API processes",
       .table = "api_processes",
       .columns = "id, unsent_from, seen_at",
       .row = [](hours ago) { return id(ago) + ",REPEAT('a',16)," + at(ago); },
       .over = hours(30),
       .kept = hours(0),
       .pass = [&store] { must(store.forget_silent(kPurged), "API processes"); }},
  };
}

// One of these tables, half of whose rows are over.
class Grown {
 public:
  Grown(Stand& stand, const Kind& kind)
      : session_(stand.database(),
                 {.read_timeout = std::chrono::hours(1), .statement_max = std::chrono::seconds(0)}),
        kind_(kind) {}
  void grow(std::int64_t size) {
    constexpr std::int64_t kChunk = 50'000;
    for (; size_ < size; size_ += 2 * kChunk) {
      for (const hours age : {kind_.over, kind_.kept}) {
        session_.execute(Sql::trusted(std::string("INSERT INTO ") + kind_.table + " (" +
                                      kind_.columns + ") SELECT " + kind_.row(age) + " FROM " +
                                      numbers(size_ / 2, std::min(kChunk, (size - size_) / 2))));
      }
    }
    size_ = size;
    // What is left to be written to the disk would slow down what is measured next.
    session_.execute(Sql::trusted(std::string("FLUSH TABLES ") + kind_.table + " FOR EXPORT"));
    session_.execute(Sql("UNLOCK TABLES"));
  }
  std::int64_t rows() {
    return number(session_, Sql::trusted(std::string("SELECT COUNT(*) FROM ") + kind_.table));
  }
  // So that the next one has the disk.
  void empty() { session_.execute(Sql::trusted(std::string("TRUNCATE TABLE ") + kind_.table)); }

 private:
  store::Session session_;
  const Kind& kind_;
  std::int64_t size_ = 0;
};

}  // namespace

void bench_growth(Context& context) {
  context.report.table(
      "What grows by itself, half of it past its retention: a pass of the janitor's, and what "
      "it deletes. Of 10^7 rows most are not in the buffer pool of 256 MB.");
  Stand stand(Stand::Options{.api = false, .users = 1, .environment = {}});
  store::TaskStore store(stand.database());
  const store::CreateCommand ended = usual_command(stand.users().front());
  create_all(store, {ended});
  if (!store.cancel(ended.id)) {
    fail("a task cannot be canceled");
  }
  const std::size_t passes = context.scaled(40, 1);
  for (const Kind& kind : kinds(store, stand.users().front(), ended.id)) {
    Grown table(stand, kind);
    for (const std::int64_t size : {context.rows_max / 10, context.rows_max}) {
      table.grow(size);
      const std::int64_t before = table.rows();
      Histogram took;
      const auto began = Clock::now();
      for (std::size_t pass = 0; pass < passes; ++pass) {
        const auto start = Clock::now();
        kind.pass();
        took.record(Clock::now() - start);
      }
      const double all = since(began);
      const std::int64_t deleted = before - table.rows();
      if (deleted <= 0) {
        fail(std::string(kind.name) + ": nothing goes");
      }
      context.report.line(
          {.name = std::string(kind.name) + ", " + std::to_string(size) + " rows",
           .per_second = static_cast<double>(deleted) / all,
           .latency = &took,
           .note = std::to_string(deleted / static_cast<std::int64_t>(passes)) + " rows a pass"});
    }
    table.empty();
  }
}

}  // namespace audiogen::bench
