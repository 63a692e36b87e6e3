// Limits that are no key's, by what they count.
#include "api/server/rate_limiter.h"

#include <string>

#include <gtest/gtest.h>

namespace audiogen::api {
namespace {

using namespace std::chrono_literals;

IpAddress address(const std::string& text) {
  return *IpAddress::parse(text);
}

class RateLimiterTest : public testing::Test {
 protected:
  static Config config() {
    Config out;
    out.create_per_minute = out.create_burst = out.read_per_minute = out.read_burst = 60;
    out.unauthenticated_per_minute = out.files_per_minute = out.files_burst = 60;
    return out;
  }

  RateLimiter limiter_{config()};
};

TEST_F(RateLimiterTest, NoAddressAloneUsesUpTheGuessesAtAnAccount) {
  const IpAddress home = address("2001:db8::1"), stranger = address("2001:db8:1::1"),
                  same_home = address("2001:db8:1:ff::2"),
                  neighbour = address("2001:db8:1:ff00::2");
  int guesses = 0;
  while (guesses < 30 && limiter_.take_guess(stranger, "ann@example.com").allowed) {
    ++guesses;
  }
  EXPECT_EQ(guesses, 8) << "at once";
  const auto refused = limiter_.take_guess(same_home, "ann@example.com");
  EXPECT_FALSE(refused.allowed) << "one home";
  EXPECT_GT(refused.retry_after, 50s) << "then one a minute";
  EXPECT_TRUE(limiter_.take_guess(neighbour, "ann@example.com").allowed)
      << "another home of the site";
  const auto of_site = limiter_.take_guess(neighbour, "ann@example.com");
  EXPECT_FALSE(of_site.allowed);
  EXPECT_LE(of_site.retry_after, 20s) << "then three a minute of all";
  EXPECT_TRUE(limiter_.take_guess(stranger, "bob@example.com").allowed);
  EXPECT_TRUE(limiter_.take_guess(home, "ann@example.com").allowed);
}

// As while the database is away.
TEST_F(RateLimiterTest, WhatWasNotComparedIsNoGuess) {
  const IpAddress home = address("192.0.2.1");
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(limiter_.take_guess(home, "ann@example.com").allowed) << i;
    limiter_.give_back_guess(home, "ann@example.com");
  }
  int guesses = 0;
  while (guesses < 30 && limiter_.take_guess(home, "ann@example.com").allowed) {
    ++guesses;
  }
  EXPECT_EQ(guesses, 8) << "and it brings no further ones";
}

TEST_F(RateLimiterTest, FromManyPlacesGuessesAreNoQuicker) {
  int guesses = 0;
  for (int i = 0; i < 30; ++i) {
    guesses += limiter_.take_guess(address("192.0.2." + std::to_string(i)), "a@example.com").allowed
                   ? 1
                   : 0;
  }
  EXPECT_EQ(guesses, 10) << "at once";
  // What is refused for all is not counted as one's own.
  const auto again = limiter_.take_guess(address("192.0.2.29"), "a@example.com");
  EXPECT_FALSE(again.allowed);
  EXPECT_LE(again.retry_after, 12s) << "five a minute";
}

// Whoever writes an address of his own making counts as no other.
TEST_F(RateLimiterTest, NoNameIsAnothers) {
  const IpAddress stranger = address("192.0.2.1"), home = address("192.0.2.2");
  for (const std::string& name : {std::string("from 192.0.2.2 guess at ann@example.com"),
                                  std::string("192.0.2.2 guess at ann@example.com"),
                                  std::string("guess at ann@example.com")}) {
    for (int i = 0; i < 30; ++i) {
      static_cast<void>(limiter_.take_guess(stranger, name));
      static_cast<void>(limiter_.take_mail_link(stranger, name));
      static_cast<void>(limiter_.take_notice(name));
    }
  }
  for (int i = 0; i < 8; ++i) {
    EXPECT_TRUE(limiter_.take_guess(home, "ann@example.com").allowed);
  }
}

// Each is a password that is hashed, by two threads for everybody.
TEST_F(RateLimiterTest, AHomeHasNoMoreAttemptsForAllItsAddresses) {
  const auto attempts = [this](const std::string& of, int addresses) {
    int out = 0;
    for (int i = 0; i < addresses; ++i) {
      constexpr const char* kDigits = "0123456789abcdef";
      const std::string last{kDigits[i / 16 % 16], kDigits[i % 16]};
      out += limiter_.take_sign_in(address(of + last + "::1")).allowed ? 1 : 0;
    }
    return out;
  };
  EXPECT_EQ(attempts("2001:db8:1:0", 256), 80);
  EXPECT_EQ(attempts("2001:db8:1:1", 256), 80) << "another home";
  EXPECT_EQ(attempts("2001:db8:1:2", 256) + attempts("2001:db8:1:3", 256), 160);
  EXPECT_EQ(attempts("2001:db8:1:4", 256), 0) << "all of that site together";
  EXPECT_EQ(attempts("2001:db8:2:0", 1), 1);
  int v4 = 0;
  for (int i = 0; i < 100; ++i) {
    v4 += limiter_.take_sign_in(address("192.0.2.1")).allowed ? 1 : 0;
    EXPECT_TRUE(limiter_.take_sign_in(address("198.51.100." + std::to_string(i))).allowed);
  }
  EXPECT_EQ(v4, 20);
}

TEST_F(RateLimiterTest, OneAddressOfASiteLeavesOthersTheirSignUps) {
  int sent = 0;
  for (int i = 0; i < 100; ++i) {
    const std::string inbox = std::to_string(i) + "@example.com";
    sent += limiter_.take_mail_sign_up(address("2001:db8:1::1"), inbox) ? 1 : 0;
  }
  EXPECT_EQ(sent, 25);
  for (int i = 0; i < 256; ++i) {
    const std::string from = "2001:db8:1:" + std::to_string(i % 100) + "::1";
    sent += limiter_.take_mail_sign_up(address(from), std::to_string(i) + ".net") ? 1 : 0;
  }
  EXPECT_EQ(sent, 50) << "a home";
  EXPECT_TRUE(limiter_.take_mail_sign_up(address("2001:db8:1:ff00::1"), "a@example.com"));
  sent = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::string from =
        "2001:db8:2:" + std::to_string(i % 10 + 1) + std::to_string(i / 10 % 90 + 10) + "::1";
    const std::string inbox = std::to_string(i) + "@example.org";
    sent += limiter_.take_mail_sign_up(address(from), inbox) ? 1 : 0;
  }
  EXPECT_EQ(sent, 250) << "a site";
  sent = 0;
  for (int i = 0; i < 20; ++i) {
    sent += limiter_.take_mail_sign_up(address("2001:db8:3::1"), "ann@example.com") ? 1 : 0;
  }
  EXPECT_EQ(sent, 2) << "to one inbox";
  EXPECT_TRUE(limiter_.take_mail_sign_up(address("2001:db8:3:ff00::1"), "ann@example.com"))
      << "another home";
}

TEST_F(RateLimiterTest, WhatHasNoKeyIsCountedApart) {
  const IpAddress client = address("192.0.2.1");
  while (limiter_.take_keyless(client).allowed) {
  }
  EXPECT_TRUE(limiter_.take_unauthenticated(client).allowed);
}

TEST_F(RateLimiterTest, NoAddressAloneUsesUpTheLinksToAnInbox) {
  const IpAddress home = address("192.0.2.1"), stranger = address("192.0.2.2");
  int sent = 0;
  while (sent < 30 && limiter_.take_mail_link(stranger, "ann@example.com").allowed) {
    ++sent;
  }
  EXPECT_EQ(sent, 3) << "at once";
  EXPECT_GT(limiter_.take_mail_link(stranger, "ann@example.com").retry_after, 9min);
  EXPECT_TRUE(limiter_.take_mail_link(home, "ann@example.com").allowed);
  for (int i = 0; i < 9; ++i) {  // To addresses without an account no mail goes.
    static_cast<void>(limiter_.take_mail_link(home, "eve+" + std::to_string(i) + "@example.com"));
  }
  EXPECT_TRUE(limiter_.take_mail_link(home, "eve@example.com").allowed);
  sent = 0;
  for (int i = 0; i < 30; ++i) {
    const std::string from = "192.0.2." + std::to_string(i);
    sent += limiter_.take_mail_link(address(from), "bob@example.com").allowed ? 1 : 0;
  }
  EXPECT_EQ(sent, 5) << "and nobody's inbox is filled";
}

TEST_F(RateLimiterTest, OfMailsThatConfirmAnAddressThereAreFiveADay) {
  const UserId ann = UserId::make();
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(limiter_.take_mail_change(ann, "to" + std::to_string(i) + "@example.com").allowed);
  }
  const auto fourth = limiter_.take_mail_change(ann, "to3@example.com");
  EXPECT_FALSE(fourth.allowed);
  EXPECT_GT(fourth.retry_after, 11h);
  // One inbox, of many accounts: what one of them may not ask for more of is left to others.
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(limiter_.take_mail_change(ann, "to0.com").allowed);
  }
  for (int i = 0; i < 9; ++i) {
    EXPECT_TRUE(limiter_.take_mail_change(UserId::make(), "to0@example.com").allowed);
  }
  const UserId bob = UserId::make();
  EXPECT_FALSE(limiter_.take_mail_change(bob, "to0@example.com").allowed);
  EXPECT_TRUE(limiter_.take_mail_change(bob, "to3@example.com").allowed);
  EXPECT_TRUE(limiter_.take_mail_change(bob, "to3@example.com").allowed);
  EXPECT_FALSE(limiter_.take_mail_change(bob, "to3@example.com").allowed)
      << "what the inbox has refused is counted: he would have all that it may get";
  for (int i = 0; i < 5; ++i) {
    limiter_.give_back_mail_change(bob, "to3@example.com");
    EXPECT_TRUE(limiter_.take_mail_change(bob, "to3@example.com").allowed)
        << "nor what is not sent";
  }
}

TEST_F(RateLimiterTest, OfMailsThatMakeAccountsOneBringsAboutThreeADay) {
  const IpAddress home = address("192.0.2.1"), away = address("192.0.2.2");
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(limiter_.take_mail_sign_up(home, "new@example.com"));
  }
  for (int i = 0; i < 30; ++i) {
    EXPECT_FALSE(limiter_.take_mail_sign_up(home, "new@example.com"));
  }
  EXPECT_TRUE(limiter_.take_mail_sign_up(away, "new@example.com")) << "a stranger denies it nobody";
  EXPECT_TRUE(limiter_.take_mail_sign_up(home, "other@example.com"))
      << "what is refused counts towards none";
}

TEST_F(RateLimiterTest, AnInboxGetsTwentyOfThemADay) {
  int sent = 0;
  while (sent < 30 &&
         limiter_.take_mail_sign_up(address("192.0.2." + std::to_string(sent)), "a@example.com")) {
    ++sent;
  }
  EXPECT_EQ(sent, 10) << "at once";
  EXPECT_TRUE(limiter_.take_mail_sign_up(address("192.0.2.99"), "b@example.com"));
}

TEST_F(RateLimiterTest, AnAddressBringsAboutFiftyOfThemADay) {
  const IpAddress home = address("2001:db8::1"), neighbour = address("2001:db8::2"),
                  away = address("2001:db8:1::1");
  int sent = 0;
  while (sent < 60 && limiter_.take_mail_sign_up(home, std::to_string(sent) + "@example.com")) {
    ++sent;
  }
  EXPECT_EQ(sent, 25) << "at once";
  EXPECT_FALSE(limiter_.take_mail_sign_up(neighbour, "new@example.com")) << "one network";
  EXPECT_TRUE(limiter_.take_mail_sign_up(away, "new@example.com"));
}

// Whoever comes back when he was told to is served.
TEST_F(RateLimiterTest, OfTwoThatRefuseTheOneThatDoesSoForLongerIsTold) {
  Config slow = config();
  slow.create_per_minute = slow.create_burst = 1;
  RateLimiter limiter(slow);
  const UserId ann = UserId::make();
  const Uuid first = new_uuid(), second = new_uuid(), third = new_uuid();
  EXPECT_TRUE(limiter.take(first, ann, RateClass::kCreate).allowed);
  EXPECT_FALSE(limiter.take(first, ann, RateClass::kCreate).allowed);
  EXPECT_TRUE(limiter.take(second, ann, RateClass::kCreate).allowed)
      << "what is refused counts towards neither";
  // Now all of the account are used up as well: it may send one in 30 s, this key one in 60 s.
  for (const RateDecision& refused : {limiter.take(first, ann, RateClass::kCreate),
                                      limiter.peek(first, ann, RateClass::kCreate)}) {
    EXPECT_FALSE(refused.allowed);
    EXPECT_GT(refused.retry_after, 30s);
    EXPECT_LE(refused.retry_after, 60s);
    EXPECT_EQ(refused.more_after, refused.retry_after);
  }
  const auto refused = limiter.take(third, ann, RateClass::kCreate);
  EXPECT_FALSE(refused.allowed);
  EXPECT_LE(refused.retry_after, 30s) << "this key has sent nothing";
}

}  // namespace
}  // namespace audiogen::api
