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

constexpr Fault kFullDisk{.name = "DiskIsFull",
                          .strike = [](Arena& a) { a.disk().fill(); },
                          .heal = [](Arena& a) { a.disk().empty(); }};

TEST(Disk, FullNothingIsLostNorPaidTwice) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "only root may make a disk";
  }
  Arena arena({.audio_disk = 64});
  try_once(arena, kFullDisk);
}

TEST(DatabaseDisk, FullNothingIsLostNorPaidTwice) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "only root may make a disk";
  }
  Arena arena({.own_database = true, .database_disk = 640});
  try_once(arena,
           {.name = "DatabaseDiskIsFull",
            .strike =
                [](Arena& a) {
                  a.disk().fill();
                  a.expect_refusals(5);  // Until then it had pages left.
                },
            .heal =
                [](Arena& a) {
                  a.disk().empty();
                  // MySQL has ended itself, since its binary log could not be written.
                  a.database().start();
                }});
}

// By as much as no task's deadline is away, but more than a lease lasts.
TEST(DatabaseClock, SetAheadAndBackNothingIsLostNorPaidTwice) {
  Arena arena({.own_database = true, .movable_clock = true});
  try_once(arena,
           {.name = "DatabaseClockIsSet",
            .strike = [](Arena& a) { a.database().set_clock(std::chrono::minutes(10)); },
            .heal = [](Arena& a) { a.database().set_clock(std::chrono::minutes(0)); }});
}

}  // namespace
}  // namespace audiogen::test
