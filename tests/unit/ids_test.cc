// Identifiers, randomness and hashes.
#include "common/base/ids.h"

#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "common/base/checksum.h"
#include "common/base/crypto.h"

namespace audiogen {
namespace {

TEST(Ids, ReadBackAsWritten) {
  for (int i = 0; i < 1000; ++i) {
    const TaskId id = TaskId::make();
    const std::string text = id.text();
    ASSERT_EQ(text.size(), 30U);
    ASSERT_TRUE(text.starts_with("aud_"));
    ASSERT_EQ(TaskId::parse(text), id);
  }
  Uuid edge;
  EXPECT_EQ(encode_base32(edge), std::string(26, '0'));
  EXPECT_EQ(decode_base32(std::string(26, '0')), edge);
  edge.bytes.fill(0xFF);
  EXPECT_EQ(encode_base32(edge), "7" + std::string(25, 'z'));
  EXPECT_EQ(decode_base32("7" + std::string(25, 'z')), edge);
}

TEST(Ids, AreVersionSevenAndSortByTheirText) {
  std::string last;
  for (int i = 0; i < 10'000; ++i) {
    const TaskId id = TaskId::make();
    ASSERT_EQ(id.uuid.bytes[6] >> 4U, 7);
    ASSERT_EQ(id.uuid.bytes[8] >> 6U, 2);
    const std::string text = id.text();
    ASSERT_GT(text, last);
    last = text;
  }
}

TEST(Ids, AreDistinctAcrossThreads) {
  constexpr std::size_t kThreads = 4;
  constexpr std::size_t kEach = 5000;
  std::vector<std::vector<std::string>> made(kThreads);
  {
    std::vector<std::jthread> threads;
    threads.reserve(kThreads);
    for (auto& mine : made) {
      threads.emplace_back([&mine] {
        for (std::size_t i = 0; i < kEach; ++i) {
          mine.push_back(TaskId::make().text());
        }
      });
    }
  }
  std::set<std::string> all;
  for (const auto& mine : made) {
    all.insert(mine.begin(), mine.end());
  }
  EXPECT_EQ(all.size(), kThreads * kEach);
}

TEST(Ids, NothingElseIsAnId) {
  const std::string good = TaskId::make().text();
  ASSERT_TRUE(TaskId::parse(good));
  EXPECT_FALSE(UserId::parse(good));
  std::string upper = good;
  upper[20] = 'A';
  for (const std::string& bad : {std::string(),
                                 std::string("aud_"),
                                 good.substr(4),
                                 good + "0",
                                 good.substr(0, 29),
                                 "AUD_" + good.substr(4),
                                 upper,
                                 "aud_8" + good.substr(5),  // More than 128 bits.
                                 "aud_0" + std::string(24, '0') + "u",
                                 "aud_0" + std::string(24, '0') + "i",
                                 "aud_0" + std::string(24, '0') + "\xC3",
                                 "aud_0" + std::string(24, '0') + std::string(1, '\0'),
                                 std::string("aud_../../../../../../etc/pass")}) {
    EXPECT_FALSE(TaskId::parse(bad)) << bad;
  }
}

TEST(Ids, RandomNamesHaveTheirLength) {
  EXPECT_EQ(random_base32(32).size(), 32U);
  EXPECT_NE(random_base32(32), random_base32(32));
}

TEST(Crypto, KnownAnswers) {
  EXPECT_EQ(to_hex(sha256("abc")),  // FIPS 180-4, example 1.
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  // One context serves every key, shorter or longer than a block: none may be left of the one
  // before.
  EXPECT_EQ(to_hex(hmac_sha256(std::string(131, '\xaa'),  // RFC 4231, case 6.
                               "Test Using Larger Than Block-Size Key - Hash Key First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  EXPECT_EQ(to_hex(hmac_sha256("Jefe", "what do ya want for nothing?")),  // RFC 4231, case 2.
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(to_hex(checksum("")), "99aa06d3014798d86001c324468d497f");  // xxHash's own check.
  const std::string sound(1000, 'a');  // Stored ones must mean the same after an upgrade.
  EXPECT_EQ(to_hex(checksum(sound)), "b01da365eddaa29cb3e7af627147db7c");
  EXPECT_NE(checksum(sound), checksum(sound.substr(1) + "b"));
  EXPECT_EQ(crc32("123456789"), 0xCBF43926U);
  EXPECT_TRUE(constant_time_equal("same", "same"));
  EXPECT_FALSE(constant_time_equal("same", "sama"));
  EXPECT_FALSE(constant_time_equal("same", "samee"));
}

// A clock that was ahead and is right again: what is made afterwards says so.
TEST(Ids, AStampFollowsAClockThatIsSetRight) {
  using namespace std::chrono_literals;
  const std::chrono::microseconds now = 1'800'000'000s;
  const auto stamp = [](std::chrono::microseconds at) { return next_stamp(0, at); };
  EXPECT_EQ(next_stamp(stamp(now), now), stamp(now) + 1) << "within one tick they grow";
  EXPECT_EQ(next_stamp(stamp(now), now - 1s), stamp(now) + 1) << "and over small steps back";
  EXPECT_EQ(next_stamp(stamp(now + 40 * 24h), now), stamp(now));
  EXPECT_EQ(next_stamp(stamp(now), now + 1h), stamp(now + 1h));
}

}  // namespace
}  // namespace audiogen
