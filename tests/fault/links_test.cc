// Each link, and each of the service's own processes, fails once while clients work.
#include "tests/fault/short_form.h"

namespace audiogen::test {
namespace {

class Link : public testing::TestWithParam<Fault> {};

TEST_P(Link, NothingIsLostNorPaidTwice) {
  Arena arena({});
  try_once(arena, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Faults, Link, testing::ValuesIn(link_faults()), fault_name);

}  // namespace
}  // namespace audiogen::test
