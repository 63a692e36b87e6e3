// One bad neighbour, and what the others feel: a user whose row is held, a worker that freezes, a
// worker whose packets to the database go nowhere.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <random>
#include <thread>
#include <vector>

#include "tests/bench/drivers.h"
#include "tests/bench/requests.h"
#include "tests/support/tcp_proxy.h"

namespace audiogen::bench {
namespace {

constexpr std::size_t kUsers = 50;
constexpr std::size_t kAll = 2 * kUsers;  // Connections: two for each user.
constexpr std::chrono::milliseconds kSlice{500};

// Creations, each connection for its own user; the last user's are counted apart. Also says when
// answers came.
class Neighbours : public Aim {
 public:
  static constexpr std::size_t kOthers = 0, kStuck = 1;
  explicit Neighbours(const std::vector<std::string>& keys) {
    for (std::size_t i = 0; i < kUsers; ++i) {
      requests_.push_back(create_request(keys[i]));
    }
  }
  Shot next(std::size_t connection) override {
    const std::size_t user = connection % kUsers;
    return {requests_[user], user + 1 == kUsers ? kStuck : kOthers};
  }
  void answered(std::size_t connection, int status, std::string_view) override {
    if (status == 202 && (connection % kUsers) + 1 != kUsers) {
      const auto slice = static_cast<std::size_t>((Clock::now() - began_) / kSlice);
      slices_.resize(std::max(slices_.size(), slice + 1));
      ++slices_[slice];
    }
  }
  // Answers to the others a second, between two points in time.
  double rate(Clock::time_point from, Clock::time_point to) const {
    double count = 0;
    std::size_t slices = 0;
    for (std::size_t i = 0; i < slices_.size(); ++i) {
      const auto start = began_ + i * kSlice;
      if (start >= from && start + kSlice <= to) {
        count += static_cast<double>(slices_[i]);
        ++slices;
      }
    }
    return slices == 0 ? 0
                       : count / (std::chrono::duration<double>(kSlice).count() *
                                  static_cast<double>(slices));
  }

 private:
  const Clock::time_point began_ = Clock::now();
  std::vector<std::string> requests_;
  std::vector<std::size_t> slices_;
};

struct Felt {
  double per_second = 0, p99_ms = 0;
};

// The row of a load of all users; what the 49 others felt.
Felt load(Context& context, Stand& stand, const std::string& name, double seconds, Aim& aim) {
  const Usage before = stand.usage();
  const LoadResult result =
      run_load({.port = stand.api_port(), .connections = kAll, .seconds = seconds}, aim);
  const Tally& others = result.kinds.at(Neighbours::kOthers);
  Row row{.name = name,
          .per_second = static_cast<double>(others.good) / result.seconds,
          .latency = &others.latency};
  if (others.refused() > 0) {
    row.note = std::to_string(others.refused()) + " refused with 503";
  }
  context.report.row(row, static_cast<double>(others.good), before, stand.usage());
  return {row.per_second, others.latency.quantile(0.99)};
}

Felt mean(const Felt& a, const Felt& b) {
  return {(a.per_second + b.per_second) / 2, std::max(a.p99_ms, b.p99_ms)};
}

void ratio_goal(Context& context, const std::string& what, double ratio, double target) {
  context.report.goal(
      {.what = what + ", of plain", .figure = ratio, .target = target, .unit = "", .digits = 2});
}

// Holds what a row of the last user needs, as an operator's forgotten transaction would.
void held_row(Context& context) {
  Stand stand({.api = true, .users = kUsers, .environment = {}});
  Neighbours aim(stand.keys());
  const double seconds = context.smoke ? 1 : 30;
  run_load({.port = stand.api_port(), .connections = kAll, .seconds = context.seconds / 5}, aim);
  const Felt before = load(context, stand, "49 users, plain", context.seconds, aim);
  Felt held;
  {
    store::Session holder(stand.database(), {.idle_in_transaction_max = std::chrono::seconds(600)});
    holder.execute(store::Sql("BEGIN"));
    if (!holder
             .query(store::Sql("SELECT seq FROM balances WHERE user_id=")
                    << stand.users().back() << " FOR UPDATE")
             .next()) {
      fail("there is no balance to hold");
    }
    held = load(context, stand, "… while the 50th's row is held", seconds, aim);
    holder.execute(store::Sql("ROLLBACK"));
  }
  const Felt plain =
      mean(before, load(context, stand, "49 users, plain again", context.seconds, aim));
  ratio_goal(context, "49 users beside a held row", held.per_second / plain.per_second, 0.9);
  context.report.line({.name = "p99 beside a held row",
                       .note = fixed(held.p99_ms, 1) + " ms, plain " + fixed(plain.p99_ms, 1)});
  stand.audit();
}

// Two workers at work; ten times one of them is broken at a random moment, and mended.
void broken_worker(Context& context,
                   const std::string& name,
                   Stand& stand,
                   const std::function<void()>& breaks,
                   const std::function<void()>& mends) {
  Neighbours aim(stand.keys());
  run_load({.port = stand.api_port(), .connections = kAll, .seconds = context.seconds / 5}, aim);
  const Felt before = load(context, stand, "49 users, two workers", context.seconds, aim);
  const int times = context.smoke ? 1 : 10;
  const auto broken = std::chrono::milliseconds(context.smoke ? 500 : 5000);
  const auto mended = std::chrono::milliseconds(context.smoke ? 100 : 1500);
  std::vector<Clock::time_point> breaks_at;
  std::jthread breaker([&] {
    std::minstd_rand random(7);
    for (int i = 0; i < times; ++i) {
      std::this_thread::sleep_for(mended + std::chrono::milliseconds(random() % 500));
      breaks_at.push_back(Clock::now());
      breaks();
      std::this_thread::sleep_for(broken);
      mends();
    }
  });
  const double seconds =
      std::chrono::duration<double>(times * (broken + mended + std::chrono::milliseconds(500)))
          .count();
  const Felt felt = load(context, stand, "… " + name, seconds, aim);
  breaker.join();
  const Felt plain =
      mean(before, load(context, stand, "49 users, two workers again", context.seconds, aim));
  double worst = plain.per_second;
  for (const Clock::time_point at : breaks_at) {
    worst = std::min(worst, aim.rate(at + std::chrono::seconds(3), at + broken));
  }
  ratio_goal(context, name, felt.per_second / plain.per_second, 0.8);
  if (!context.smoke) {
    ratio_goal(context, name + ": from 3 s after, at the worst", worst / plain.per_second, 0.8);
  }
  context.report.line({.name = "p99 " + name,
                       .note = fixed(felt.p99_ms, 1) + " ms, plain " + fixed(plain.p99_ms, 1)});
  stand.audit();
}

}  // namespace

void bench_neighbours(Context& context) {
  context.report.begin("neighbours",
                       "POST, closed loop, two connections for each of 50 users; counted are the "
                       "49 who have nothing to do with what is broken.");
  held_row(context);
  {
    Stand stand({.api = true, .users = kUsers, .environment = {}});
    const Provider provider(stand.stack().log_folder(), 0);
    stand.add_worker({{"PROVIDERS_FILE", provider.file()}});
    stand.add_worker({{"PROVIDERS_FILE", provider.file()}});
    const test::Process& victim = stand.stack().worker(1);
    broken_worker(
        context,
        "one worker stopped ten times",
        stand,
        [&] { victim.signal(SIGSTOP); },
        [&] { victim.signal(SIGCONT); });
  }
  {
    Stand stand({.api = true, .users = kUsers, .environment = {}});
    const Provider provider(stand.stack().log_folder(), 0);
    test::TcpProxy proxy(stand.database().port);
    stand.add_worker({{"PROVIDERS_FILE", provider.file()}});
    stand.add_worker({{"PROVIDERS_FILE", provider.file()},
                      {"DATABASE_URL", stand.stack().database_through(proxy.port())}});
    broken_worker(
        context,
        "one worker's packets to the database swallowed ten times",
        stand,
        [&] { proxy.blackhole(); },
        [&] { proxy.resume(); });
  }
}

}  // namespace audiogen::bench
