// The message on the queue.
#include <gtest/gtest.h>

#include "common/queue/amqp.h"

namespace audiogen::queue {
namespace {

TEST(Message, RoundTrip) {
  for (const std::uint32_t epoch : {0U, 3U, 4'294'967'295U}) {
    const Hint hint{TaskId::make(), epoch};
    const std::string body = encode_hint(hint);
    EXPECT_EQ(decode_hint(body), hint) << body;
    EXPECT_LE(body.size(), 64U) << "256 of them must stay below 16 KiB";
  }
}

TEST(Message, SpacesAndOtherMembersAreFine) {
  const Hint hint{TaskId::make(), 3};
  EXPECT_EQ(decode_hint(R"( { "v" : [1] , "epoch" : 3, "task" : ")" + hint.task.text() + "\" } "),
            hint);
}

TEST(Message, WhatIsNoHintIsRefused) {
  const std::string id = TaskId::make().text();
  const std::string good = encode_hint({TaskId::make(), 3});
  for (const std::string& body : {
           std::string(),
           std::string("null"),
           std::string("[]"),
           std::string("{}"),
           good.substr(0, good.size() - 1),
           good + "x",
           good + std::string(1, '\0') + good,
           R"({"task":")" + id + "\"}",
           R"({"task":")" + id + R"(","epoch":-1})",
           R"({"task":")" + id + R"(","epoch":1.5})",
           R"({"task":")" + id + R"(","epoch":"1"})",
           R"({"task":")" + id + R"(","epoch":4294967296})",
           R"({"task":")" + id.substr(1) + R"(","epoch":1})",
           std::string(R"({"task":7,"epoch":1})"),
           std::string(200, '['),
           good + std::string(300, ' '),
       }) {
    EXPECT_FALSE(decode_hint(body)) << body;
  }
}

}  // namespace
}  // namespace audiogen::queue
