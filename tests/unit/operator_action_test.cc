// What operators may ask for, and how.
#include "common/domain/operator_action.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/ids.h"

namespace audiogen {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::string body(std::string_view action, std::string_view target, std::string_view more = "") {
  return R"({"action":")" + std::string(action) + R"(","target":")" + std::string(target) +
         R"(","reason":"why")" + std::string(more) + "}";
}

// The member that is refused, or "".
std::string refused(std::string_view text) {
  const auto request = parse_action(text);
  if (request) {
    return "";
  }
  EXPECT_EQ(http_status(request.error().code), 400);
  const std::string param = request.error().param.value_or("(none)");
  EXPECT_THAT(request.error().message, StartsWith(param == "(none)" ? "" : param));
  return param;
}

TEST(OperatorAction, IsReadWithEverythingInIt) {
  const auto open = parse_action(body("open_breaker", "primary", R"(,"seconds":86400)"));
  ASSERT_TRUE(open) << open.error().message;
  EXPECT_EQ(open->action, OperatorAction::kOpenBreaker);
  EXPECT_EQ(open->target, "primary");
  EXPECT_EQ(open->reason, "why");
  EXPECT_EQ(open->lasts, std::chrono::seconds(86'400));
  EXPECT_EQ(parse_action(body("close_breaker", "p"))->lasts, std::chrono::seconds(600));
  const auto pause = parse_action(R"({"action":"pause_intake","reason":"the database moves"})");
  ASSERT_TRUE(pause) << pause.error().message;
  EXPECT_EQ(pause->target, "");
}

TEST(OperatorAction, EachHasATargetOfItsKind) {
  const std::string task = TaskId::make().text(), worker = WorkerId::make().text(),
                    key = KeyId::make().text();
  for (const auto& [action, right] : {std::pair<std::string_view, std::string>{"cancel_task", task},
                                      {"drain_worker", worker},
                                      {"open_breaker", "a provider"},
                                      {"close_breaker", std::string(64, 'p')},
                                      {"clear_breaker", "\xC3\xA4"},
                                      {"disable_key", key},
                                      {"disable_key", "svc_live_abcd"},
                                      {"pause_intake", ""},
                                      {"resume_intake", ""}}) {
    const auto request = parse_action(body(action, right));
    ASSERT_TRUE(request) << action << ": " << request.error().message;
    EXPECT_EQ(action_name(request->action), action);
  }
  for (const auto& [action, wrong] :
       {std::pair<std::string_view, std::string>{"cancel_task", worker},
        {"cancel_task", ""},
        {"drain_worker", task},
        {"drain_worker", "host-1"},
        {"open_breaker", ""},
        {"close_breaker", std::string(65, 'p')},
        {"clear_breaker", "a\\nb"},
        {"disable_key", ""},
        {"disable_key", std::string(41, 'k')},
        {"pause_intake", "all"},
        {"resume_intake", task}}) {
    EXPECT_EQ(refused(body(action, wrong)), "target") << action << " " << wrong;
  }
}

TEST(OperatorAction, NeedsAReason) {
  const auto with = [](std::string_view reason) {
    return R"({"action":"pause_intake","reason":)" + std::string(reason) + "}";
  };
  EXPECT_EQ(refused(R"({"action":"pause_intake"})"), "reason");
  for (const std::string& wrong : {std::string(R"("")"),
                                   std::string(R"("a\u0000b")"),
                                   std::string(R"("a\nb")"),
                                   std::string(R"("a\u007Fb")"),
                                   std::string("7"),
                                   "\"" + std::string(501, 'x') + "\""}) {
    EXPECT_EQ(refused(with(wrong)), "reason") << wrong;
  }
  std::string longest = "\"";
  for (int i = 0; i < 500; ++i) {
    longest += "\xC3\xBC";
  }
  EXPECT_EQ(refused(with(longest + "\"")), "") << "characters count, not bytes";
  EXPECT_FALSE(is_reason("\xFF")) << "no UTF-8";
}

TEST(OperatorAction, HasNothingElseInIt) {
  for (const char* const wrong : {"0", "-1", "86401", "1.5", "\"60\"", "99999999999", "null"}) {
    EXPECT_EQ(refused(body("open_breaker", "p", std::string(R"(,"seconds":)") + wrong)), "seconds")
        << wrong;
  }
  EXPECT_EQ(refused(body("clear_breaker", "p", R"(,"seconds":60)")), "seconds");
  EXPECT_EQ(refused(body("pause_intake", "", R"(,"seconds":60)")), "seconds");
  EXPECT_EQ(refused(body("open_breaker", "p", R"(,"reason":"again")")), "reason");
  EXPECT_EQ(refused(body("explode", "p")), "action");
  EXPECT_EQ(refused(R"({"reason":"why"})"), "action");
  EXPECT_EQ(refused(R"({"action":7,"reason":"why"})"), "action");
  EXPECT_FALSE(parse_action(body("open_breaker", "p", R"(,"until":60)")));
  EXPECT_FALSE(parse_action("[]"));
  EXPECT_FALSE(parse_action(""));
  const auto secret = parse_action(body("explode", "p-secret"));
  ASSERT_FALSE(secret);
  EXPECT_THAT(secret.error().message, Not(HasSubstr("secret")));
}

}  // namespace
}  // namespace audiogen
