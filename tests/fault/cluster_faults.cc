#include <algorithm>
#include <array>
#include <chrono>
#include <vector>

#include <gtest/gtest.h>

#include "common/queue/amqp.h"
#include "tests/fault/faults.h"

namespace audiogen::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

std::vector<int> all_but(int node) {
  std::vector<int> out;
  std::copy_if(
      kNodes.begin(), kNodes.end(), std::back_inserter(out), [&](int n) { return n != node; });
  return out;
}

int writer(Arena& arena) {
  return arena.databases().writer();
}

int another(Arena& arena) {
  return all_but(writer(arena)).front();
}

int leader(Arena& arena) {
  return arena.brokers().leader_of(queue::Topology{}.jobs());
}

// The node that comes next has not applied what clients were promised last when it is asked for it.
void next_writer_lags(Arena& arena) {
  store::SessionOptions patient;
  patient.idle_max = 60s;
  store::Session session(arena.databases().server(another(arena)), patient);
  session.execute(store::Sql::trusted("LOCK TABLES " + arena.stack().database().url().database +
                                      ".tasks READ"));
  arena.felt(100, 2s);
  arena.databases().kill(writer(arena));
  arena.expect_refusals(1);
  arena.felt(200, 10s);
}

constexpr std::array kClusterFaults = {
    ClusterFault{"WriterIsKilled", [](Arena& a) { a.databases().kill(writer(a)); }},
    ClusterFault{"WriterIsStopped", [](Arena& a) { a.databases().stop(writer(a)); }},
    ClusterFault{"WriterIsFrozen", [](Arena& a) { a.databases().freeze(writer(a)); }},
    ClusterFault{"NextWriterLags", next_writer_lags},
    ClusterFault{"AnotherDatabaseIsKilled", [](Arena& a) { a.databases().kill(another(a)); }},
    ClusterFault{"AnotherDatabaseIsFrozen", [](Arena& a) { a.databases().freeze(another(a)); }},
    ClusterFault{
        "TwoDatabasesAreKilled", [](Arena& a) { a.databases().kill(all_but(another(a))); }, false},
    ClusterFault{"AllDatabasesAreKilled", [](Arena& a) { a.databases().kill(kNodes); }, false},
    ClusterFault{"LeadingBrokerIsKilled", [](Arena& a) { a.brokers().kill(leader(a)); }},
    ClusterFault{"LeadingBrokerIsFrozen", [](Arena& a) { a.brokers().freeze(leader(a)); }},
    ClusterFault{"TwoBrokersAreKilled", [](Arena& a) { a.brokers().kill(all_but(leader(a))); }},
    ClusterFault{"AllBrokersAreKilled", [](Arena& a) { a.brokers().kill(kNodes); }},
    ClusterFault{"NodeOfTheWriterIsKilled",
                 [](Arena& a) {
                   const int node = writer(a);
                   a.databases().kill(node);
                   a.brokers().kill(node);
                 }},
    ClusterFault{"NodeOfTheWriterIsUnplugged", [](Arena& a) { a.nodes().unplug(writer(a)); }},
    ClusterFault{"AnotherNodeIsUnplugged", [](Arena& a) { a.nodes().unplug(another(a)); }},
    ClusterFault{"EveryNodeIsAlone",
                 [](Arena& a) {
                   for (const int node : kNodes) {
                     a.nodes().unplug(node);
                   }
                 },
                 false},
};

std::chrono::milliseconds since(Clock::time_point then) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - then);
}

}  // namespace

std::span<const ClusterFault> cluster_faults() {
  return kClusterFaults;
}

ClusterFelt try_on_clusters(Arena& arena, const ClusterFault& fault, std::chrono::seconds lasts) {
  ClusterFelt out;
  arena.expect_life();  // The clients are in the middle of their work.
  arena.watch();
  const Clock::time_point struck = Clock::now();
  fault.strike(arena);
  if (fault.majority_stays) {
    arena.expect_life();
  } else {
    arena.expect_refusals(1);
  }
  arena.felt(kNoEnd, std::max(lasts - since(struck), std::chrono::milliseconds(0)));
  out.lasted = since(struck);
  if (fault.majority_stays) {
    out.felt = arena.watched();
  }
  const Clock::time_point mended = Clock::now();
  arena.nodes().plug_all();
  arena.databases().mend();
  arena.brokers().mend();
  EXPECT_TRUE(arena.databases().whole(120s)) << "a database does not come back";
  EXPECT_TRUE(arena.brokers().whole(120s)) << "a broker does not come back";
  out.mending = since(mended);
  arena.expect_life();
  if (!fault.majority_stays) {
    out.felt = arena.watched();
  }
  return out;
}

}  // namespace audiogen::test
