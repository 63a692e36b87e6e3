// The drivers, one for each question, and what several of them use.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "common/store/session.h"
#include "tests/bench/load.h"
#include "tests/bench/report.h"
#include "tests/bench/stand.h"

namespace audiogen::bench {

struct Context {
  double seconds = 5;  // Of each load.
  std::int64_t rows_max = 1'000'000;
  std::int64_t backlog = 1'000'000;  // Tasks that wait.
  bool smoke = false;
  Report report;

  std::size_t scaled(std::size_t full, std::size_t small) const { return smoke ? small : full; }
  Stand::Options stand(bool api) const {
    return {.api = api, .users = scaled(256, 16), .environment = {}};
  }
};

// http_drivers.cc
void bench_create(Context& context);
void bench_hot_user(Context& context);
void bench_poll(Context& context);
void bench_mixed(Context& context);
// work_drivers.cc
void bench_jobs(Context& context);
void bench_in_flight(Context& context);
// overload_driver.cc
void bench_overload(Context& context);
// neighbours_driver.cc
void bench_neighbours(Context& context);
// fairness_driver.cc
void bench_fairness(Context& context);
// promises_driver.cc
void bench_broker_away(Context& context);
void bench_rebalance(Context& context);
void bench_over_capacity(Context& context);
void bench_uneven_calls(Context& context);
// backlog_driver.cc
void bench_backlog(Context& context);
// scale_driver.cc
void bench_scale(Context& context);
// growth_driver.cc
void bench_growth(Context& context);

// Connections of a closed loop.
inline constexpr std::size_t kConnections = 64;

using Clock = std::chrono::steady_clock;

// The first column of the first row, 0 when there is none.
inline std::int64_t number(store::Session& session, const store::Sql& sql) {
  store::Rows rows = session.query(sql);
  return rows.next() ? rows.i64(1) : 0;
}

inline double since(Clock::time_point began) {
  return std::chrono::duration<double>(Clock::now() - began).count();
}

// Ends the benchmark unless every request was served or refused for overload, and some were served.
void expect_borne(const std::string& name, const LoadResult& result);

// A load, run and reported as a row. It must be borne.
LoadResult measured(Context& context,
                    Stand& stand,
                    const std::string& name,
                    const LoadOptions& options,
                    Aim& aim,
                    double ceiling);

// A row: tasks that wait already, worked on by so many workers; how many a second. `rss`: MB of the
// largest worker.
double run_jobs(Context& context,
                int workers,
                int provider_delay_ms,
                int in_flight,
                double ceiling,
                double* rss = nullptr);

}  // namespace audiogen::bench
