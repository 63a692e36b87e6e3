// How fast the store is, and what each operation costs client and server in CPU time. Needs
// TEST_DATABASE_URL, of a server on this machine (its CPU time is read from /proc).
//
// bench-store [seconds per cell]
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

#include "common/store/task_store.h"
#include "tests/bench/cpu_time.h"
#include "tests/support/test_database.h"

namespace audiogen::store {
namespace {

using Clock = std::chrono::steady_clock;

double client_cpu() {
  return bench::cpu_seconds(::getpid()).value_or(0);
}

template <class T>
std::vector<T> must(Batch<T> results) {
  std::vector<T> all;
  for (auto& result : results) {
    if (!result) {
      std::fprintf(stderr, "store fault\n");
      std::exit(1);
    }
    all.push_back(std::move(*result));
  }
  return all;
}

class Bench {
 public:
  explicit Bench(double cell_seconds) : cell_seconds_(cell_seconds) {
    std::ifstream(db_.text(Sql("SELECT @@pid_file"))) >> server_;
    for (int i = 0; i < 1000; ++i) {
      users_.push_back(db_.add_user(credits(10'000'000)));
    }
  }

  void run_all() {
    std::printf("%-16s %7s %6s %10s %12s %12s %12s\n",
                "operation",
                "threads",
                "batch",
                "per second",
                "batch ms",
                "client us",
                "server us");
    for (const std::size_t threads : {1U, 2U}) {
      for (const std::size_t batch : {1U, 8U, 32U}) {
        cell("create", threads, batch, [&](TaskStore& store, std::size_t seed) {
          must(store.create(commands(batch, seed)));
        });
      }
    }
    cell("create, keys", 2, 32, [&](TaskStore& store, std::size_t seed) {
      std::vector<CreateCommand> some = commands(32, seed);
      for (CreateCommand& command : some) {
        command.idempotency_key = command.id.text();
      }
      must(store.create(some));
    });
    cell("create, hot user", 1, 32, [&](TaskStore& store, std::size_t) {
      std::vector<CreateCommand> some = commands(32, 0);
      for (CreateCommand& command : some) {
        command.user = users_[0];
      }
      must(store.create(some));
    });
    for (const std::size_t threads : {1U, 2U}) {
      for (const std::size_t batch : {1U, 8U, 32U}) {
        std::vector<std::vector<FindCommand>> known(threads);
        for (auto& finds : known) {
          TaskStore store(db_.url());
          for (const CreateCommand& c : commands(batch, 0)) {
            must(store.create({&c, 1}));
            finds.push_back({c.id, c.user});
          }
        }
        cell("find", threads, batch, [&](TaskStore& store, std::size_t seed) {
          must(store.find(known[seed % threads]));
        });
      }
    }
    for (const std::size_t threads : {1U, 2U}) {
      for (const std::size_t batch : {1U, 8U, 32U}) {
        work_cell(threads, batch);
      }
    }
  }

 private:
  std::vector<CreateCommand> commands(std::size_t count, std::size_t seed) const {
    std::vector<CreateCommand> out(count);
    for (std::size_t i = 0; i < count; ++i) {
      out[i].id = TaskId::make();
      // Of two threads, whose seeds are even and odd: rows that another holds are left out.
      out[i].user = users_[((seed / 2 * 7919 + i * 31) * 2 + seed % 2) % users_.size()];
      out[i].request = kRequest;
    }
    return out;
  }

  double server_cpu() const { return bench::cpu_seconds(server_).value_or(0); }

  // Calls `work` on `threads` threads, each with a store of its own, for a while.
  template <class Work>
  void cell(const char* name, std::size_t threads, std::size_t batch, const Work& work) {
    std::vector<std::thread> running;
    std::vector<std::size_t> calls(threads);
    const double client = client_cpu(), server = server_cpu();
    const auto began = Clock::now();
    for (std::size_t t = 0; t < threads; ++t) {
      running.emplace_back([&, t] {
        TaskStore store(db_.url());
        std::size_t count = 0;
        while (std::chrono::duration<double>(Clock::now() - began).count() < cell_seconds_) {
          work(store, count++ * threads + t);
        }
        calls[t] = count;
      });
    }
    for (std::thread& thread : running) {
      thread.join();
    }
    report(name, threads, batch, calls, began, client, server);
  }

  void report(const char* name,
              std::size_t threads,
              std::size_t batch,
              const std::vector<std::size_t>& calls,
              Clock::time_point began,
              double client,
              double server) const {
    const double took = std::chrono::duration<double>(Clock::now() - began).count();
    std::size_t total = 0;
    for (const std::size_t count : calls) {
      total += count;
    }
    const double count = static_cast<double>(total * batch);
    std::printf("%-16s %7zu %6zu %10.0f %12.3f %12.1f %12.1f\n",
                name,
                threads,
                batch,
                count / took,
                took * 1000 * static_cast<double>(threads) / static_cast<double>(total),
                (client_cpu() - client) / count * 1e6,
                (server_cpu() - server) / count * 1e6);
    std::fflush(stdout);
  }

  // Claims and settles tasks made before, so that only that is measured.
  void work_cell(std::size_t threads, std::size_t batch) {
    const std::size_t rounds = batch == 1 ? 1500 : 12'000 / batch;
    std::vector<std::vector<Hint>> hints(threads);
    for (std::size_t t = 0; t < threads; ++t) {
      TaskStore store(db_.url());
      for (std::size_t i = 0; i < rounds * batch; i += 64) {
        const auto some = commands(64, i + t);
        must(store.create(some));
        for (const CreateCommand& c : some) {
          hints[t].push_back({c.id, 0});
        }
      }
    }
    std::vector<std::thread> running;
    const double client = client_cpu(), server = server_cpu();
    const auto began = Clock::now();
    for (std::size_t t = 0; t < threads; ++t) {
      running.emplace_back([&, t] {
        TaskStore store(db_.url());
        const WorkerId worker = WorkerId::make();
        for (std::size_t i = 0; i < rounds; ++i) {
          const auto claims = must(store.claim(std::span(hints[t]).subspan(i * batch, batch),
                                               worker,
                                               [](const Claim&) { return "local"; }));
          std::vector<SettleCommand> done(batch);
          for (std::size_t k = 0; k < batch; ++k) {
            done[k].kind = SettleCommand::Kind::kSucceed;
            done[k].task = claims[k]->task;
            done[k].user = claims[k]->user;
            done[k].epoch = claims[k]->epoch;
            done[k].output_key = claims[k]->task.text() + "/0123456789abcdef.mp3";
            done[k].output_bytes = 123'456;
            done[k].duration_ms = 15'000;
            done[k].call = 1;
            done[k].call_state = 2;
            done[k].held = claims[k]->held;
          }
          must(store.settle(done));
        }
      });
    }
    for (std::thread& thread : running) {
      thread.join();
    }
    report("claim + settle",
           threads,
           batch,
           std::vector<std::size_t>(threads, rounds),
           began,
           client,
           server);
  }

  static constexpr const char* kRequest =
      R"({"prompt":"A calm voice over rain on a tin roof, telling of a long journey home at night. )"
      R"(Slow, warm, with pauses. The storm passes and a bird starts to sing in the early light.",)"
      R"("voice":"aria","output_format":"mp3","sample_rate":24000,"speed":1,"volume":1,"pitch":0})";

  const double cell_seconds_;
  test::TestDatabase db_;
  pid_t server_ = 0;
  std::vector<UserId> users_;
};

}  // namespace
}  // namespace audiogen::store

int main(int argc, char** argv) {
  audiogen::store::Bench(argc > 1 ? std::atof(argv[1]) : 2.0).run_all();
  return 0;
}
