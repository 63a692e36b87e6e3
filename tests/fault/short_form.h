// The short form of a fault: it strikes once among clients at work, and everything is as promised.
#pragma once

#include <ostream>
#include <string>

#include <gtest/gtest.h>

#include "tests/fault/faults.h"

namespace audiogen::test {

inline std::string fault_name(const testing::TestParamInfo<Fault>& fault) {
  return fault.param.name;
}

inline void PrintTo(const Fault& fault, std::ostream* out) {
  *out << fault.name;
}

inline void try_once(Arena& arena, const Fault& fault) {
  arena.expect_life();  // The clients are in the middle of their work.
  fault.strike(arena);
  arena.felt(fault.answers, fault.longest);
  if (fault.heal != nullptr) {
    fault.heal(arena);
  }
  arena.expect_life();
  arena.judge(fault.nonsense);
}

}  // namespace audiogen::test
