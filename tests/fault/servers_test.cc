// The database, the broker and the disk of the audio fail once while clients work.
#include <unistd.h>

#include "tests/fault/short_form.h"

namespace audiogen::test {
namespace {

class DatabaseServer : public testing::TestWithParam<Fault> {};

TEST_P(DatabaseServer, NothingIsLostNorPaidTwice) {
  Arena arena({.own_database = true});
  try_once(arena, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Faults, DatabaseServer, testing::ValuesIn(database_faults()), fault_name);

class BrokerServer : public testing::TestWithParam<Fault> {};

TEST_P(BrokerServer, NothingIsLostNorPaidTwice) {
  Arena arena({.own_broker = true});
  try_once(arena, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Faults, BrokerServer, testing::ValuesIn(broker_faults()), fault_name);

TEST(Disk, FullNothingIsLostNorPaidTwice) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "only root may make a disk";
  }
  Arena arena({.small_disk = true});
  try_once(arena,
           {.name = "DiskIsFull",
            .strike = [](Arena& a) { a.disk().fill(); },
            .heal = [](Arena& a) { a.disk().empty(); }});
}

}  // namespace
}  // namespace audiogen::test
