// Who is listened to at /ops/actions.
#include <gtest/gtest.h>

#include "api/operators/actions.h"

namespace audiogen::api {
namespace {

using std::chrono::seconds;
using Verdict = TokenGuard::Verdict;

const std::string kToken = "a-token-of-forty-characters-at-the-least";

class TokenGuardTest : public testing::Test {
 protected:
  Verdict judge(const std::string& header, const char* from = "192.0.2.1") {
    return guard_.judge(header, *IpAddress::parse(from), now_);
  }

  TokenGuard guard_{kToken};
  TokenGuard::Clock::time_point now_{seconds(1'000'000)};
};

TEST_F(TokenGuardTest, IsToldFromOthersWithoutBeingShown) {
  EXPECT_EQ(guard_.fingerprint(), "973be349");
  EXPECT_NE(TokenGuard(kToken + "x").fingerprint(), guard_.fingerprint());
}

TEST_F(TokenGuardTest, ListensToTheTokenAlone) {
  EXPECT_EQ(judge("Bearer " + kToken), Verdict::kRight);
  int at = 1;
  for (const std::string& wrong : {std::string(),
                                   kToken,
                                   "Basic " + kToken,
                                   std::string("Bearer "),
                                   "Bearer " + kToken + "x",
                                   "Bearer " + kToken.substr(1)}) {
    EXPECT_EQ(judge(wrong, ("198.51.100." + std::to_string(at++)).c_str()), Verdict::kWrong)
        << wrong;
  }
}

TEST_F(TokenGuardTest, WhoGuessesTooOftenIsNotListenedToForAWhile) {
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(judge("Bearer " + kToken), Verdict::kRight) << "what is right counts for nothing";
    EXPECT_EQ(judge("Bearer guess"), Verdict::kWrong);
  }
  EXPECT_EQ(judge("Bearer guess"), Verdict::kTooMany);
  EXPECT_EQ(judge("Bearer " + kToken), Verdict::kRight)
      << "of 32 characters nobody guesses one, and a program with an old one may be at this "
         "address";
  EXPECT_EQ(judge("Bearer " + kToken, "192.0.2.2"), Verdict::kRight) << "nobody else is kept out";
  now_ += seconds(7);
  EXPECT_EQ(judge("Bearer " + kToken), Verdict::kRight);
  EXPECT_EQ(judge("Bearer guess"), Verdict::kWrong);
  EXPECT_EQ(judge("Bearer guess"), Verdict::kTooMany);
}

}  // namespace
}  // namespace audiogen::api
