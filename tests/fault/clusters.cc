// One pass over everything that can happen to clusters. Exits 1 when a promise was broken.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

#include <CLI/CLI.hpp>
#include <gtest/gtest.h>

#include "common/queue/amqp.h"
#include "tests/fault/faults.h"

namespace audiogen::test {
namespace {

std::string g_only, g_results;

// Longer than it takes any of the servers to conclude that a silent one is gone: 15 to 20 s.
constexpr std::chrono::seconds kLasts{30};

std::string seconds(std::chrono::milliseconds span) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", std::chrono::duration<double>(span).count());
  return text;
}

std::string row(const ClusterFault& fault, const ClusterFelt& felt) {
  return "| " + std::string(fault.name) + " | " + seconds(felt.lasted) + " | " +
         seconds(felt.felt.without_promise) + " | " + seconds(felt.felt.without_end) + " | " +
         std::to_string(felt.felt.refused) + " | " + seconds(felt.mending) + " |\n";
}

// The page has more than what is written here: the section under `heading` alone becomes `text`.
void replace_section(const std::string& file, const std::string& heading, const std::string& text) {
  std::stringstream read;
  read << std::ifstream(file).rdbuf();
  const std::string page = read.str();
  const std::size_t begin = page.find(heading);
  ASSERT_NE(begin, std::string::npos) << file << " has no section of that name";
  const std::size_t end = page.find("\n## ", begin + 1);
  std::ofstream(file) << page.substr(0, begin) << heading << text
                      << (end == std::string::npos ? std::string() : page.substr(end));
}

// Two nodes that are written to at once, as they may be while a balancer changes its mind: of two
// transactions that change one row the second is refused at COMMIT, and run again.
void expect_no_lost_update(Arena& arena) {
  store::Session first(arena.databases().server(1)), second(arena.databases().server(2));
  for (const char* const statement : {"CREATE DATABASE IF NOT EXISTS two_writers",
                                      "DROP TABLE IF EXISTS two_writers.sums",
                                      "CREATE TABLE two_writers.sums (id INT PRIMARY KEY, sum INT)",
                                      "INSERT INTO two_writers.sums VALUES (1, 0)"}) {
    first.execute(store::Sql::trusted(statement));
  }
  constexpr int kEach = 100;
  std::atomic<int> runs{0};
  const auto add = [&](store::Session& session) {
    for (int done = 0; done < kEach;) {
      try {
        session.transact([&] {
          ++runs;
          session.execute(store::Sql("UPDATE two_writers.sums SET sum=sum+1 WHERE id=1"));
        });
        ++done;
      } catch (const store::DbError& e) {
        ASSERT_EQ(e.fault(), store::DbFault::kConflict) << e.what();  // Five times in a row.
      }
    }
  };
  std::thread other([&] { add(second); });
  add(first);
  other.join();
  EXPECT_GT(runs, 2 * kEach) << "they never met";
  for (store::Session* const session : {&first, &second}) {
    session->disconnect();  // A new connection knows what the other one did.
    store::Rows rows = session->query(store::Sql("SELECT sum FROM two_writers.sums"));
    ASSERT_TRUE(rows.next());
    EXPECT_EQ(rows.i64(1), 2 * kEach);
  }
}

TEST(Clusters, NothingIsLostNorPaidTwice) {
  Arena arena({.clusters = true});
  arena.expect_life();
  const queue::Topology queues;
  for (const std::string& queue : {queues.jobs(), queues.express(), queues.dead()}) {
    EXPECT_EQ(arena.brokers().members_of(queue), 3) << queue;
  }
  expect_no_lost_update(arena);
  std::string table;
  for (const ClusterFault& fault : cluster_faults()) {
    if (!g_only.empty() && g_only != fault.name) {
      continue;
    }
    std::printf("%s\n", fault.name);
    std::fflush(stdout);
    table += row(fault, try_on_clusters(arena, fault, kLasts));
    arena.stack().database().expect_invariants();
    std::printf("%s", table.substr(table.rfind('\n', table.size() - 2) + 1).c_str());
    std::fflush(stdout);
    if (HasFailure()) {
      break;
    }
  }
  ASSERT_FALSE(table.empty()) << "there is no fault of that name";
  arena.judge();
  arena.expect_one_history();
  std::printf("%zu generations\n", arena.generations());
  if (!g_results.empty() && !HasFailure()) {
    replace_section(g_results,
                    "## What clients of clusters felt\n",
                    "\nThe last `./dev clusters`, seconds. Four clients at work; " +
                        std::to_string(arena.generations()) +
                        " generations in all, none lost, none paid twice, none left reserved, and "
                        "the same rows on every node.\n\n"
                        "| fault | lasted | longest without a promise | longest without an end | "
                        "requests refused | mended until all nodes were in step |\n"
                        "|---|---:|---:|---:|---:|---:|\n" +
                        table);
  }
}

}  // namespace
}  // namespace audiogen::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  CLI::App app("Everything that can happen to clusters.");
  app.add_option("name", audiogen::test::g_only, "this fault alone");
  app.add_option("--results", audiogen::test::g_results, "a file for the figures");
  CLI11_PARSE(app, argc, argv);
  return RUN_ALL_TESTS();
}
