// What others feel of one user's backlog, and whether many who want much get the same.
#include <algorithm>
#include <numeric>
#include <thread>

#include "common/store/session.h"
#include "tests/bench/drivers.h"
#include "tests/support/http_client.h"

namespace audiogen::bench {
namespace {

using store::Rows;
using store::Session;
using store::Sql;

// Makes `count` open tasks of one user; as an API does, but for the hints, which the caller sends.
void fill(Stand& stand, UserId user, std::size_t count) {
  constexpr std::size_t kAtOnce = 100;
  store::TaskStore store(stand.database());
  for (std::size_t made = 0; made < count;) {
    std::vector<store::CreateCommand> commands;
    for (; commands.size() < kAtOnce && made < count; ++made) {
      commands.push_back(usual_command(user));
      commands.back().deadline = std::chrono::hours(10);
    }
    create_all(store, std::move(commands));
  }
}

// With its provider, and waits until the release window is that of so many places: twice as many.
void add_worker(Stand& stand, const Provider& provider, int places, Session& session) {
  stand.watch("provider", {provider.pid()});
  stand.add_worker(
      {{"PROVIDERS_FILE", provider.file()}, {"WORKER_IN_FLIGHT", std::to_string(places)}});
  session.execute(Sql("UPDATE release_window SET size=0"));
  const bool came = test::eventually(std::chrono::seconds(30), [&] {
    return number(session, Sql("SELECT size FROM release_window")) > 0;
  });
  if (!came) {
    fail("no worker sets the release window");
  }
}

void one_backlog(Context& context) {
  Stand stand({.api = true, .users = 2, .environment = {}});
  const Provider provider(stand.stack().log_folder(), 1000);
  constexpr int kPlaces = 20;
  Session session(stand.database());
  add_worker(stand, provider, kPlaces, session);
  const std::size_t backlog = context.scaled(100'000, 200);
  fill(stand, stand.users()[0], backlog);
  stand.publish_released();
  // An API sends a crowd's first hints as it makes them: its worker is not idle when somebody else
  // comes, but for the moment after it was started.
  const bool runs = test::eventually(std::chrono::minutes(1), [&] {
    test::pace(std::chrono::milliseconds(20));
    return stand.succeeded() >= kPlaces;
  });
  if (!runs) {
    fail("the worker does not get on");
  }
  const std::size_t count = context.scaled(static_cast<std::size_t>(context.seconds * 10), 5);
  const Usage before = stand.usage();
  const auto began = Clock::now();
  const Histogram waits = stand.claim_waits(1, count);
  const Usage after = stand.usage();
  context.report.row({.name = "one at a time, beside " + std::to_string(backlog) + " of another",
                      .per_second = static_cast<double>(count) / since(began),
                      .latency = &waits,
                      .note = "from creation to claim"},
                     static_cast<double>(count),
                     before,
                     after);
  context.report.goal({.what = "claimed beside another user's backlog, p99",
                       .figure = waits.quantile(0.99),
                       .target = 1000,
                       .unit = "ms",
                       .at_most = true});
  stand.audit();
}

void many_backlogs(Context& context) {
  constexpr std::size_t kUsers = 8;
  Stand stand({.api = true, .users = kUsers, .environment = {}});
  const Provider provider(stand.stack().log_folder(), 200);
  constexpr int kPlaces = 40;
  Session session(stand.database());
  add_worker(stand, provider, kPlaces, session);
  for (std::size_t i = 0; i < kUsers; ++i) {
    fill(stand, stand.users()[i], context.scaled(2000 + 500 * i, 20));
  }
  stand.publish_released();
  const auto done = [&] {
    std::vector<double> out(kUsers, 0);
    Rows rows =
        session.query(Sql("SELECT user_id, COUNT(*) FROM tasks WHERE state=3 GROUP BY user_id"));
    while (rows.next()) {
      const auto at = std::find(stand.users().begin(), stand.users().end(), rows.id<UserId>(1));
      out[static_cast<std::size_t>(at - stand.users().begin())] = static_cast<double>(rows.i64(2));
    }
    return out;
  };
  const Usage before = stand.usage();
  const auto began = Clock::now();
  const std::vector<double> first = done();
  const double wanted = static_cast<double>(context.scaled(kUsers * 300, kUsers * 4));
  std::vector<double> got(kUsers, 0);
  const bool enough = test::eventually(std::chrono::minutes(5), [&] {
    test::pace(std::chrono::milliseconds(200));
    const std::vector<double> now = done();
    for (std::size_t i = 0; i < kUsers; ++i) {
      got[i] = now[i] - first[i];
    }
    return std::accumulate(got.begin(), got.end(), 0.0) >= wanted;
  });
  if (!enough) {
    fail("the workers do not get on");
  }
  const double sum = std::accumulate(got.begin(), got.end(), 0.0), mean = sum / kUsers;
  const double worst = std::max(*std::max_element(got.begin(), got.end()) / mean - 1,
                                1 - *std::min_element(got.begin(), got.end()) / mean);
  context.report.row({.name = std::to_string(kUsers) + " backlogs",
                      .per_second = sum / since(began),
                      .ceiling = kPlaces / 0.2,
                      .note = "shares within " + fixed(100 * worst, 1) + " % of each other's mean"},
                     sum,
                     before,
                     stand.usage());
  context.report.goal({.what = "shares of users who want much, off the mean",
                       .figure = 100 * worst,
                       .target = 10,
                       .unit = "%",
                       .at_most = true,
                       .digits = 1});
  stand.audit();
}

// As `jobs`, but all of one user: each that ends releases the next.
void one_users_jobs(Context& context) {
  Stand stand({.api = false, .users = 1, .environment = {}});
  const Provider provider(stand.stack().log_folder(), 0);
  const int places = context.smoke ? 4 : 800;
  Session session(stand.database());
  add_worker(stand, provider, places, session);
  const std::size_t count = context.scaled(static_cast<std::size_t>(context.seconds * 4000), 100);
  const Usage before = stand.usage();
  const double done_before = stand.succeeded();
  const auto began = Clock::now();
  fill(stand, stand.users().front(), count);
  stand.publish_released();
  const double filled = since(began);
  const bool all = test::eventually(std::chrono::minutes(3), [&] {
    test::pace(std::chrono::milliseconds(20));
    return stand.succeeded() - done_before >= static_cast<double>(count);
  });
  if (!all) {
    fail("the worker does not finish one user's tasks");
  }
  context.report.row({.name = "one user's jobs, created meanwhile",
                      .per_second = static_cast<double>(count) / since(began),
                      .note = "created within " + fixed(filled, 1) + " s"},
                     static_cast<double>(count),
                     before,
                     stand.usage());
  stand.audit();
}

}  // namespace

void bench_fairness(Context& context) {
  context.report.table(
      "Users with backlogs. First: a provider that takes 1 s, one worker of 20 "
      "places, and somebody else who creates two a second. Then a provider that "
      "takes 0.2 s, 40 places, and users who all want more than that. Then one "
      "that answers at once.");
  one_backlog(context);
  many_backlogs(context);
  one_users_jobs(context);
}

}  // namespace audiogen::bench
