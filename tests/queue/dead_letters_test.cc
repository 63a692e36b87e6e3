// Messages of the dead queue: looked at, put back, dropped.
#include "common/queue/dead_letters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/queue/collector.h"
#include "tests/support/test_broker.h"

namespace audiogen::test {
namespace {

using queue::DeadLetter;
using queue::DeadLetters;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class DeadQueue : public testing::Test {
 protected:
  // Has a consumer refuse these, one after the other.
  void refuse(const std::vector<std::string>& bodies, int depth = 0) {
    TestConsumer in(test_broker_url(), {.topology = topology_.names()});
    ASSERT_TRUE(eventually([&] { return in->connected(); }));
    for (const std::string& body : bodies) {
      const std::uint64_t before = count();
      topology_.publish(body, depth);
      ASSERT_TRUE(eventually([&] { return count() == before + 1; }));
    }
  }
  std::uint64_t count() const { return depth_of(test_broker_url(), topology_.names()).dead; }
  DeadLetters open() const {
    auto out = DeadLetters::open(test_broker_url(), topology_.names());
    EXPECT_TRUE(out) << out.error().message;
    return *std::move(out);
  }
  static std::vector<DeadLetter> all(DeadLetters& letters) {
    std::vector<DeadLetter> out;
    for (;;) {
      auto next = letters.next();
      EXPECT_TRUE(next) << next.error().message;
      if (!next || !*next) {
        return out;
      }
      out.push_back(**std::move(next));
    }
  }
  // All of them, looked at and put back.
  std::vector<DeadLetter> look() const {
    DeadLetters letters = open();
    auto out = all(letters);
    EXPECT_TRUE(letters.put_back());
    return out;
  }
  static std::vector<std::string> bodies(const std::vector<DeadLetter>& letters) {
    std::vector<std::string> out;
    for (const DeadLetter& letter : letters) {
      out.push_back(letter.body);
    }
    return out;
  }

  TestTopology topology_;
};

TEST_F(DeadQueue, IsLookedAtAgainAndAgainAndStaysInOrder) {
  refuse({"one", "two", "three", "four"});
  const auto first = look();
  EXPECT_THAT(bodies(first), ElementsAre("one", "two", "three", "four"));
  for (int i = 0; i < 3; ++i) {
    const auto again = look();
    EXPECT_THAT(bodies(again), ElementsAre("one", "two", "three", "four"));
    for (std::size_t n = 0; n < first.size(); ++n) {
      EXPECT_EQ(again[n].id, first[n].id) << "names it, however often it is looked at";
    }
  }
  {
    DeadLetters half = open();
    EXPECT_TRUE(half.next());
    EXPECT_TRUE(half.next());
    EXPECT_TRUE(half.put_back());
  }
  EXPECT_THAT(bodies(look()), ElementsAre("one", "two", "three", "four"));
}

TEST_F(DeadQueue, SaysWhatItIsAndWhyItIsThere) {
  refuse({"no json", std::string(100'000, '['), std::string("\0\xFF", 2), ""});
  const auto letters = look();
  ASSERT_THAT(letters, SizeIs(4));
  EXPECT_THAT(queue::why_dead(letters[0]), HasSubstr("no list of hints"));
  EXPECT_EQ(letters[0].header("x-death.0.reason"), "rejected");
  EXPECT_EQ(letters[0].header("x-death.0.queue"), topology_.names().jobs());
  EXPECT_EQ(letters[0].header("x-death.0.count"), "1");
  EXPECT_NE(letters[0].header("x-death.0.time"), "");
  EXPECT_THAT(queue::why_dead(letters[1]), HasSubstr("longer than any message"));
  EXPECT_EQ(letters[1].bytes, 100'000U);
  EXPECT_THAT(letters[1].body, SizeIs(queue::kShownBytesMax));
  EXPECT_EQ(letters[2].body, std::string("\0\xFF", 2));
  EXPECT_THAT(letters[3].body, IsEmpty());
}

TEST_F(DeadQueue, ShowsHeadersOfAnyDepth) {
  refuse({"deep"}, deepest());
  const auto letters = look();
  ASSERT_THAT(letters, SizeIs(1));
  EXPECT_EQ(letters[0].header("t.t.t.t.t.t.t.t.t"), "{...}") << "no deeper than anybody reads";
}

TEST_F(DeadQueue, DropsWhatIsNamedAndNothingElse) {
  refuse({"one", "two", "three"});
  {
    DeadLetters letters = open();
    const auto told = all(letters);
    ASSERT_THAT(told, SizeIs(3));
    const std::uint64_t tag = told[1].tag;
    ASSERT_TRUE(letters.drop(std::span(&tag, 1)));
    ASSERT_TRUE(letters.put_back());
  }
  EXPECT_THAT(bodies(look()), ElementsAre("one", "three"));
}

TEST_F(DeadQueue, GetsBackWhatADeadLookHeld) {
  refuse({"one", "two"});
  {
    DeadLetters letters = open();
    ASSERT_THAT(all(letters), SizeIs(2));
    EXPECT_EQ(count(), 0U) << "held";
  }
  EXPECT_TRUE(eventually([&] { return count() == 2; }));
  EXPECT_THAT(bodies(look()), ElementsAre("one", "two"));
}

// Whoever may publish may write anything where the broker writes its time.
TEST(DeadLetters, ATimeThatCannotBeIsNone) {
  const auto died_at = [](const std::string& header) {
    return queue::died_at({.headers = {{"x-death.0.time", header}}});
  };
  EXPECT_EQ(died_at("1767225600"), Instant(std::chrono::seconds(1767225600)));
  EXPECT_EQ(died_at("0"), Instant(std::chrono::seconds(0)));
  EXPECT_EQ(died_at("253402300799"), Instant(std::chrono::seconds(253402300799)));
  for (const char* const wrong : {"",
                                  "-1",
                                  "253402300800",
                                  "9223372036854775807",
                                  "99999999999999999999",
                                  "1767225600 or so",
                                  "yesterday"}) {
    EXPECT_EQ(died_at(wrong), std::nullopt) << wrong;
  }
  EXPECT_EQ(queue::died_at({}), std::nullopt);
}

TEST(DeadLetters, SayThatThereIsNoBroker) {
  AmqpUrl url = test_broker_url();
  url.port = 1;
  url.password = "secret-of-a-broker";
  const auto letters = DeadLetters::open(url);
  ASSERT_FALSE(letters);
  EXPECT_THAT(letters.error().message, HasSubstr("the broker did not answer (AMQP_URL)"));
  EXPECT_THAT(letters.error().message, testing::Not(HasSubstr("secret")));
}

TEST(DeadLetters, SayThatThereIsNoQueue) {
  auto letters = DeadLetters::open(test_broker_url(), {.prefix = "nobody-made-these"});
  ASSERT_TRUE(letters);
  const auto next = letters->next();
  ASSERT_FALSE(next);
  EXPECT_THAT(next.error().message, HasSubstr("404"));
}

}  // namespace
}  // namespace audiogen::test
