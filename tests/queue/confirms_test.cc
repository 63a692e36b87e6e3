// Publisher confirms: exact accounting whatever the order of the answers.
#include "common/queue/confirms.h"

#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace audiogen::queue {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr Confirms::TimePoint kStart{};

Hint hint(std::uint32_t number) {
  Hint out{.task = {}, .epoch = number};
  out.task.uuid.bytes[15] = static_cast<std::uint8_t>(number);
  return out;
}

std::vector<Hint> only(std::uint32_t number) {
  return {hint(number)};
}

Confirms with_sent(std::uint32_t count) {
  Confirms out;
  for (std::uint32_t i = 1; i <= count; ++i) {
    out.sent({.hints = {hint(i)}}, kStart + std::chrono::seconds(i));
  }
  return out;
}

TEST(Confirms, SingleAcksSettleInAnyOrder) {
  Confirms books = with_sent(3);
  EXPECT_THAT(books.ack(2, false)->taken, ElementsAre(hint(2)));
  EXPECT_EQ(books.size(), 2U);
  EXPECT_EQ(books.oldest(), kStart + std::chrono::seconds(1));
  EXPECT_THAT(books.ack(1, false)->taken, ElementsAre(hint(1)));
  EXPECT_EQ(books.oldest(), kStart + std::chrono::seconds(3));
  EXPECT_THAT(books.ack(3, false)->taken, ElementsAre(hint(3)));
  EXPECT_EQ(books.size(), 0U);
  EXPECT_EQ(books.oldest(), std::nullopt);
}

TEST(Confirms, MultipleCoversAllOpenOnesUpToTheTag) {
  Confirms books = with_sent(5);
  ASSERT_TRUE(books.ack(2, false));
  EXPECT_THAT(books.ack(4, true)->taken, ElementsAre(hint(1), hint(3), hint(4)));
  EXPECT_EQ(books.size(), 1U);
}

TEST(Confirms, NackIsNotTaken) {
  Confirms books = with_sent(4);
  const auto one = books.nack(1, false);
  EXPECT_THAT(one->taken, IsEmpty());
  EXPECT_EQ(one->refused, 1U);
  const auto rest = books.nack(3, true);
  EXPECT_EQ(rest->refused, 2U);
  EXPECT_THAT(books.ack(4, true)->taken, ElementsAre(hint(4)));
}

TEST(Confirms, AReturnedMessageIsNotTakenByItsAck) {
  Confirms books = with_sent(3);
  EXPECT_TRUE(books.returned(only(2)));
  const auto settled = books.ack(3, true);
  EXPECT_THAT(settled->taken, ElementsAre(hint(1), hint(3)));
  EXPECT_EQ(settled->returned, 1U);
}

TEST(Confirms, OfEqualHintsTheOldestOpenOneIsReturned) {
  Confirms books;
  books.sent({.hints = {hint(7)}}, kStart);
  books.sent({.hints = {hint(7)}}, kStart);
  EXPECT_TRUE(books.returned(only(7)));
  EXPECT_EQ(books.ack(1, false)->returned, 1U);
  EXPECT_THAT(books.ack(2, false)->taken, ElementsAre(hint(7)));
  EXPECT_FALSE(books.returned(only(7)));
}

TEST(Confirms, AMessageIsSettledWithAllItsHints) {
  Confirms books;
  books.sent({.hints = {hint(1), hint(2)}}, kStart);
  books.sent({.hints = {hint(3), hint(4), hint(5)}}, kStart);
  EXPECT_EQ(books.size(), 2U);
  EXPECT_EQ(books.hints(), 5U);
  EXPECT_FALSE(books.returned(only(1))) << "no such message";
  EXPECT_THAT(books.ack(1, false)->taken, ElementsAre(hint(1), hint(2)));
  EXPECT_EQ(books.hints(), 3U);
  EXPECT_EQ(books.nack(2, false)->refused, 3U);
  EXPECT_EQ(books.hints(), 0U);
}

TEST(Confirms, UnknownAndRepeatedTagsAreErrors) {
  Confirms books = with_sent(2);
  EXPECT_FALSE(books.ack(0, false));
  EXPECT_FALSE(books.ack(3, false));
  EXPECT_FALSE(books.ack(3, true));
  ASSERT_TRUE(books.ack(2, false));
  EXPECT_FALSE(books.ack(2, false));
  EXPECT_FALSE(books.nack(2, true));
  ASSERT_TRUE(books.ack(1, false));
  EXPECT_FALSE(books.ack(1, false));
  EXPECT_FALSE(books.returned(only(1)));
}

TEST(Confirms, UnknownFatesAreGivenBackOldestFirst) {
  Confirms books = with_sent(5);
  ASSERT_TRUE(books.ack(3, false));
  ASSERT_TRUE(books.returned(only(4)));
  std::vector<Hint> unknown;
  for (const Confirms::Message& message : books.take_unknown()) {
    unknown.insert(unknown.end(), message.hints.begin(), message.hints.end());
  }
  EXPECT_THAT(unknown, ElementsAre(hint(1), hint(2), hint(5)));
  EXPECT_EQ(books.size(), 0U);
  EXPECT_FALSE(books.ack(5, false));
}

TEST(Confirms, ClocksRestart) {
  Confirms books = with_sent(3);
  books.restart_clocks(kStart + std::chrono::seconds(60));
  EXPECT_EQ(books.oldest(), kStart + std::chrono::seconds(60));
}

// A model broker answers in random order, each message once; the books must agree with it.
TEST(Confirms, RandomAnswersAgreeWithAModel) {
  for (std::uint32_t seed = 0; seed < 500; ++seed) {
    std::mt19937 random(seed);
    Confirms books;
    std::set<std::uint64_t> open;
    std::size_t taken = 0;
    std::size_t refused = 0;
    std::uint32_t last = 0;
    for (int step = 0; step < 200; ++step) {
      if (open.empty() || random() % 2 == 0) {
        books.sent({.hints = {hint(++last)}}, kStart);
        open.insert(last);
        continue;
      }
      const auto pick =
          std::next(open.begin(), static_cast<std::ptrdiff_t>(random() % open.size()));
      const std::uint64_t tag = *pick;
      const bool multiple = random() % 3 == 0;
      const bool positive = random() % 4 != 0;
      const std::size_t before = open.size();
      open.erase(multiple ? open.begin() : pick, std::next(pick));
      const auto settled = positive ? books.ack(tag, multiple) : books.nack(tag, multiple);
      ASSERT_TRUE(settled) << "seed " << seed;
      (positive ? taken : refused) += before - open.size();
      ASSERT_EQ(settled->taken.size() + settled->refused, before - open.size()) << "seed " << seed;
      ASSERT_EQ(books.size(), open.size()) << "seed " << seed;
    }
    ASSERT_EQ(taken + refused + open.size(), last) << "seed " << seed;
  }
}

}  // namespace
}  // namespace audiogen::queue
