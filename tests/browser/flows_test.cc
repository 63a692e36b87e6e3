// What people do in the console that takes a provider which can be told how to end: one that never
// answers, so that there is time to cancel, and one that refuses. Without a server for mail, as
// many operators run it. The tests are run by Node; what only this process can do they ask it for.
#include <csignal>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "tests/browser/node.h"
#include "tests/e2e/chain.h"
#include "tests/support/provider_double.h"
#include "tests/support/stack.h"

namespace audiogen::test {
namespace {

class Flows : public testing::TestWithParam<const char*> {
 protected:
  Stack::Options options() const {
    Stack::Options out = chain_.options();
    // Every page under test says that it is a client of its own: attempts to sign in are counted by
    // address.
    out.environment["TRUSTED_PROXIES"] = "127.0.0.0/8";
    // The references of these tests are served by this machine.
    out.environment["URL_POLICY"] = "any";
    return out;
  }

  // By the first word of the prompt.
  static DoubleReply provide(const DoubleCall& call) {
    const std::string prompt = member_of(call, "input");
    if (prompt.starts_with("Refused")) {
      return {.status = 400,
              .headers = {"Content-Type: application/json"},
              .body = R"({"error":{"code":"content_policy_violation"}})"};
    }
    if (prompt.starts_with("Endless")) {
      return {.form = DoubleReply::Form::kHang};
    }
    return wav_reply(12);  // 15 credits.
  }

  static DoubleReply file(const DoubleCall& call) {
    if (call.target.starts_with("/sound.wav")) {
      return {.headers = {"Content-Type: audio/wav"}, .body = tone_wav(1.0)};
    }
    return {.status = 404};
  }

  // "POST /sql": runs the statement that is its body. "/worker/freeze", "/worker/thaw": does it.
  // "/fetched": what was asked for of the files that references lead to, a line each.
  DoubleReply command(const DoubleCall& call) {
    DoubleReply out;
    if (call.target == "/sql") {
      out.body = std::to_string(stack_.database().execute(store::Sql::trusted(call.body)));
    } else if (call.target == "/worker/freeze") {
      stack_.worker(0).signal(SIGSTOP);
    } else if (call.target == "/worker/thaw") {
      stack_.worker(0).signal(SIGCONT);
    } else if (call.target == "/fetched") {
      for (const DoubleCall& one : files_.calls()) {
        out.body += one.target + "\n";
      }
    } else {
      out.status = 404;
    }
    return out;
  }

  ProviderDouble provider_{provide}, files_{file};
  ChainFile chain_{{openai_entry("primary", provider_), kLocalEntry}};
  Stack stack_{options()};
  ProviderDouble control_{[this](const DoubleCall& call) { return command(call); }};
};

TEST_P(Flows, Passes) {
  auto environment = stack_.environment();
  environment["DATABASE_URL"] = stack_.database_url("admin");
  environment["BASE_URL"] = stack_.public_url();
  environment["CONTROL_URL"] = control_.url();
  environment["FILES_URL"] = files_.url();
  environment["ADMIN"] = admin_words();
  expect_passes(BROWSER_FOLDER, GetParam(), environment);
}

INSTANTIATE_TEST_SUITE_P(Console, Flows, testing::Values("flows", "rare"), [](const auto& one) {
  return std::string(one.param);
});

}  // namespace
}  // namespace audiogen::test
