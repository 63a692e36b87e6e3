// The message on the queue.
#include <gtest/gtest.h>

#include "common/queue/amqp.h"

namespace audiogen::queue {
namespace {

std::vector<Hint> hints_of(std::size_t count) {
  std::vector<Hint> out(count, Hint{.task = {}, .epoch = 4'294'967'295U});
  for (Hint& hint : out) {
    hint.task = TaskId::make();
  }
  return out;
}

TEST(Message, RoundTrip) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{2}, kHintsMax}) {
    const std::vector<Hint> hints = hints_of(count);
    const std::string body = encode_hints(hints);
    EXPECT_EQ(decode_hints(body), hints) << body;
    EXPECT_LE(body.size(), kMessageBytesMax) << "four of them must stay within 16 KiB";
  }
}

TEST(Message, SpacesAndOtherMembersAreFine) {
  const Hint hint{TaskId::make(), 3};
  EXPECT_EQ(decode_hints(R"( { "v" : [1], "hints" : [ { "x":0, "epoch" : 3, "task" : ")" +
                         hint.task.text() + "\" } ] } "),
            std::vector{hint});
}

TEST(Message, WhatIsNoHintIsRefused) {
  const std::string id = TaskId::make().text();
  const std::string good = encode_hints(hints_of(2));
  const auto with = [](const std::string& hint) { return R"({"hints":[)" + hint + "]}"; };
  for (const std::string& body : {
           std::string(),
           std::string("null"),
           std::string("[]"),
           std::string("{}"),
           with(""),
           with("7"),
           good.substr(0, good.size() - 1),
           good + "x",
           good + std::string(1, '\0') + good,
           with(R"({"task":")" + id + "\"}"),
           with(R"({"task":")" + id + R"(","epoch":-1})"),
           with(R"({"task":")" + id + R"(","epoch":1.5})"),
           with(R"({"task":")" + id + R"(","epoch":"1"})"),
           with(R"({"task":")" + id + R"(","epoch":4294967296})"),
           with(R"({"task":")" + id.substr(1) + R"(","epoch":1})"),
           with(R"({"task":7,"epoch":1})"),
           with(R"({"task":")" + id + R"(","epoch":1},{})"),  // One bad one spoils the message.
           encode_hints(hints_of(kHintsMax + 1)),
           std::string(200, '['),
           good + std::string(kMessageBytesMax, ' '),
       }) {
    EXPECT_FALSE(decode_hints(body)) << body;
  }
}

}  // namespace
}  // namespace audiogen::queue
