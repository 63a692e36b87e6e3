// A node of both clusters dies while clients work; `./dev clusters` has the rest.
#include <algorithm>
#include <string_view>

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/fault/faults.h"

namespace audiogen::test {
namespace {

TEST(Clusters, ANodeDiesAndNothingIsLostNorPaidTwice) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "only root may make network namespaces";
  }
  const auto faults = cluster_faults();
  const auto fault = std::find_if(faults.begin(), faults.end(), [](const ClusterFault& f) {
    return std::string_view(f.name) == "NodeOfTheWriterIsKilled";
  });
  ASSERT_NE(fault, faults.end());
  Arena arena({.clusters = true});
  try_on_clusters(arena, *fault, std::chrono::seconds(5));
  arena.judge();
  arena.expect_one_history();
}

}  // namespace
}  // namespace audiogen::test
