// One bad neighbour, and what the others feel: a user whose row is held, a worker that freezes, a
// worker whose packets to the database go nowhere.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <map>
#include <optional>
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
    for (std::size_t i = 0; began_ + (i + 1) * kSlice <= to; ++i) {
      if (began_ + i * kSlice >= from) {
        count += i < slices_.size() ? static_cast<double>(slices_[i]) : 0;  // Nobody, at the end.
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

// What the 49 others felt, of all loads of one kind.
struct Felt {
  double good = 0, seconds = 0;
  Histogram latency;
  double per_second() const { return good / seconds; }
  double p99_ms() const { return latency.quantile(0.99); }
};

// The row of a load of all users; `per_second` requests of them all, 0: a closed loop.
void load(Context& context,
          Stand& stand,
          const std::string& name,
          double seconds,
          double per_second,
          Neighbours& aim,
          Felt& felt) {
  const Usage before = stand.usage();
  const auto from = Clock::now();
  const LoadResult result = run_load(
      {.port = stand.api_port(), .connections = kAll, .rate = per_second, .seconds = seconds}, aim);
  const Tally& others = result.kinds.at(Neighbours::kOthers);
  // Not by how long it took: at the end nobody sends, and the last user's answers are waited for.
  const double rate = aim.rate(
      from,
      from + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds)));
  Row row{.name = name, .per_second = rate, .latency = &others.latency};
  if (others.refused() > 0) {
    row.note = std::to_string(others.refused()) + " refused with 503";
  }
  context.report.row(row, static_cast<double>(others.good), before, stand.usage());
  felt.good += rate * seconds;
  felt.seconds += seconds;
  felt.latency.add(others.latency);
}

void warm_up(const Context& context, const Stand& stand, Aim& aim) {
  run_load({.port = stand.api_port(), .connections = kAll, .seconds = context.seconds / 5}, aim);
}

void compare(Context& context, const std::string& what, const Felt& felt, const Felt& plain) {
  context.report.goal({.what = what + ", of plain",
                       .figure = felt.per_second() / plain.per_second(),
                       .target = what.find("held") == std::string::npos ? 0.8 : 0.9,
                       .unit = "",
                       .digits = 2});
}

void tell_p99(Context& context, const std::string& what, const Felt& felt, const Felt& plain) {
  context.report.line({.name = "p99 " + what,
                       .note = fixed(felt.p99_ms(), 1) + " ms, plain " + fixed(plain.p99_ms(), 1)});
}

// Holds what a row of the last user needs, as an operator's forgotten transaction would.
void held_row(Context& context) {
  const double seconds = context.smoke ? 1 : 30;
  Felt plain, felt;
  for (int round = 0; round < (context.smoke ? 1 : 3); ++round) {
    for (const bool held : {false, true}) {
      Stand stand({.api = true, .users = kUsers, .environment = {}});
      Neighbours aim(stand.keys());
      warm_up(context, stand, aim);
      store::Session holder(stand.database(),
                            {.idle_in_transaction_max = std::chrono::seconds(600)});
      holder.execute(store::Sql("BEGIN"));
      if (held && !holder
                       .query(store::Sql("SELECT seq FROM balances WHERE user_id=")
                              << stand.users().back() << " FOR UPDATE")
                       .next()) {
        fail("there is no balance to hold");
      }
      load(context,
           stand,
           held ? "… while the 50th's row is held" : "49 users, plain",
           seconds,
           0,
           aim,
           held ? felt : plain);
      holder.execute(store::Sql("ROLLBACK"));
      stand.audit();
    }
  }
  const std::string what = "49 users beside a held row";
  compare(context, what, felt, plain);
  tell_p99(context, what, felt, plain);
  context.report.goal({.what = what + ": p99, of plain",
                       .figure = felt.p99_ms() / plain.p99_ms(),
                       .target = 2,
                       .unit = "",
                       .at_most = true,
                       .digits = 2});
}

// When one of two workers is broken, from the beginning of a load, and for how long.
struct Breaks {
  std::vector<std::chrono::milliseconds> at;
  std::chrono::milliseconds lasting{0}, all{0};
  // When it is broken again after the `i`-th time, or the load ends.
  std::chrono::milliseconds next(std::size_t i) const {
    return i + 1 < at.size() ? at[i + 1] : all;
  }
};

// At moments that nobody has chosen, and the same in every round. Between two of them there is time
// to see what becomes of the others once it is mended.
Breaks breaks_of(const Context& context) {
  Breaks out{.at = {}, .lasting = std::chrono::milliseconds(context.smoke ? 500 : 5000)};
  std::minstd_rand random(7);
  const auto whole = [&] {
    return std::chrono::milliseconds((context.smoke ? 100 : 5000) + random() % 500);
  };
  for (int i = 0; i < (context.smoke ? 1 : 5); ++i) {
    out.all += whole();
    out.at.push_back(out.all);
    out.all += out.lasting;
  }
  out.all += whole();
  return out;
}

// Two workers over a database, and how to break the second.
struct Pair {
  explicit Pair(bool by_proxy) {
    stand.add_worker({{"PROVIDERS_FILE", provider.file()}});
    std::map<std::string, std::string> second = {{"PROVIDERS_FILE", provider.file()}};
    if (by_proxy) {
      proxy.emplace(stand.database().port);
      second["DATABASE_URL"] = stand.stack().database_through(proxy->port());
    }
    stand.add_worker(second);
  }
  void breaks() { proxy ? proxy->blackhole() : stand.stack().worker(1).signal(SIGSTOP); }
  void mends() { proxy ? proxy->resume() : stand.stack().worker(1).signal(SIGCONT); }

  std::optional<test::TcpProxy> proxy{};  // Outlives its worker.
  Stand stand{{.api = true, .users = kUsers, .environment = {}}};
  Provider provider{stand.stack().log_folder(), 0};
};

// Of several stretches of a load, what the others had of plain in the one where they had least.
struct Worst {
  std::string when;  // Each began then.
  std::vector<double> plain{};
  std::optional<double> ratio{};

  void add(double rate, bool broken, std::size_t i) {
    if (!broken) {
      plain.push_back(rate);
    } else if (plain[i] > 0) {
      ratio = std::min(ratio.value_or(rate / plain[i]), rate / plain[i]);
    }
  }
};

// In each round one of two workers is broken five times at random moments, and mended. A closed
// loop asks for more while half of the work is not done, and the workers make up for that
// afterwards; `per_second` is what users ask for who do not. What the 49 others had a second while
// nothing was broken.
double broken_worker(
    Context& context, const std::string& name, bool by_proxy, int rounds, double per_second = 0) {
  constexpr std::chrono::seconds kNoticed{3};  // From then on nobody is to feel it.
  const Breaks breaks = breaks_of(context);
  Felt plain, felt;
  Worst while_broken{"it was broken"}, when_mended{"it was mended"};
  for (int round = 0; round < (context.smoke ? 1 : rounds); ++round) {
    while_broken.plain.clear();
    when_mended.plain.clear();
    for (const bool broken : {false, true}) {
      Pair pair(by_proxy);
      Neighbours aim(pair.stand.keys());
      warm_up(context, pair.stand, aim);
      const auto began = Clock::now();
      std::jthread breaker([&] {
        for (const auto at : breaks.at) {
          if (broken) {
            std::this_thread::sleep_until(began + at);
            pair.breaks();
            std::this_thread::sleep_until(began + at + breaks.lasting);
            pair.mends();
          }
        }
      });
      load(context,
           pair.stand,
           broken ? "… " + name : "49 users, two workers",
           std::chrono::duration<double>(breaks.all).count(),
           per_second,
           aim,
           broken ? felt : plain);
      breaker.join();
      for (std::size_t i = 0; i < breaks.at.size(); ++i) {
        const auto at = began + breaks.at[i], mended = at + breaks.lasting;
        while_broken.add(aim.rate(at + kNoticed, mended), broken, i);
        when_mended.add(aim.rate(mended + kNoticed, began + breaks.next(i)), broken, i);
      }
      pair.stand.audit();
    }
  }
  compare(context, name, felt, plain);
  tell_p99(context, name, felt, plain);
  for (const Worst& worst : {while_broken, when_mended}) {
    if (worst.ratio) {
      context.report.goal({.what = name + ": from 3 s after " + worst.when +
                                   ", at the worst, of plain in the same seconds",
                           .figure = *worst.ratio,
                           .target = 0.8,
                           .unit = "",
                           .digits = 2});
    }
  }
  return plain.per_second();
}

// Twice as a closed loop, and once with half of what that reached.
void broken_worker(Context& context, const std::string& name, bool by_proxy) {
  const double plain = broken_worker(context, name + " ten times", by_proxy, 2);
  const double of_all = static_cast<double>(kUsers) / (kUsers - 1);
  broken_worker(context, name + " five times, half of that load", by_proxy, 1, plain * of_all / 2);
}

}  // namespace

void bench_neighbours(Context& context) {
  context.report.table(
      "POST, two connections for each of 50 users, closed loop or half of what "
      "that reaches; counted are the 49 who have nothing to do with what is "
      "broken. Each load has a service and a database of its own, plain and "
      "broken in turn.");
  held_row(context);
  broken_worker(context, "one worker stopped", false);
  broken_worker(context, "one worker's packets to the database swallowed", true);
}

}  // namespace audiogen::bench
