// How long a client prefers to wait, as it says in Prefer.
#include "common/domain/preference.h"

#include <gtest/gtest.h>

namespace audiogen {
namespace {

using namespace std::chrono_literals;

TEST(Preference, WaitIsRead) {
  struct Case {
    std::string_view prefer;
    std::optional<std::chrono::seconds> wait;
  };
  for (const Case& c : {Case{"wait=1", 1s},
                        Case{"wait=25", 25s},
                        Case{"WAIT=7", 7s},
                        Case{" wait = 7 ", 7s},
                        Case{"wait=\"10\"", 10s},
                        Case{"wait=007", 7s},
                        Case{"respond-async, wait=10", 10s},
                        Case{"respond-async; foo=\"a, wait=3; \\\" wait=4\" , wait=10", 10s},
                        Case{"wait=10; foo=bar", 10s},
                        Case{",,wait=5,", 5s},
                        // Of several the first counts.
                        Case{"wait=3, wait=9", 3s},
                        Case{"wait=x, wait=9", std::nullopt},
                        // More is the most there is.
                        Case{"wait=26", 25s},
                        Case{"wait=99999999999999999999999999", 25s},
                        Case{"", std::nullopt},
                        Case{"wait", std::nullopt},
                        Case{"wait=", std::nullopt},
                        Case{"wait=\"", std::nullopt},
                        Case{"wait=0", std::nullopt},
                        Case{"wait=-1", std::nullopt},
                        Case{"wait=+1", std::nullopt},
                        Case{"wait=1.5", std::nullopt},
                        Case{"wait=0x10", std::nullopt},
                        Case{"wait=1 0", std::nullopt},
                        Case{"await=5", std::nullopt},
                        Case{"foo=\"wait=5", std::nullopt},
                        Case{"foo=\"\\", std::nullopt},
                        Case{"return=minimal", std::nullopt}}) {
    EXPECT_EQ(preferred_wait(c.prefer), c.wait) << c.prefer;
  }
}

}  // namespace
}  // namespace audiogen
