// The console in a real browser, against the real stack: each file of tests beside this one, run by
// Node over a service of its own.
#include <cstdlib>

#include <gtest/gtest.h>

#include "tests/support/stack.h"

namespace audiogen::test {
namespace {

// `words` as a JSON list of texts; none has anything in it that JSON would want escaped.
std::string json_list(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) {
    out += (out.empty() ? "[\"" : ",\"") + word + "\"";
  }
  return out + "]";
}

class Browser : public testing::TestWithParam<const char*> {
 protected:
  static Stack::Options options() {
    Stack::Options options;
    // Every page under test says that it is a client of its own: attempts to sign in are counted by
    // address.
    options.environment["TRUSTED_PROXIES"] = "127.0.0.0/8";
    return options;
  }

  Stack stack_{options()};
};

TEST_P(Browser, Passes) {
  auto environment = stack_.environment();
  environment["DATABASE_URL"] = stack_.database_url("admin");
  environment["BASE_URL"] = stack_.public_url();
  environment["ADMIN"] = json_list({std::string(AUDIOGEN_BIN_DIR) + "/audio-api", "admin"});
  const std::string folder = BROWSER_FOLDER;
  const Output output = run({"/usr/bin/env",
                             "node",
                             "--test-reporter=spec",
                             "--test",
                             folder + "/" + GetParam() + ".test.mjs"},
                            environment);
  EXPECT_EQ(output.code, 0) << output.out;
}

INSTANTIATE_TEST_SUITE_P(Console,
                         Browser,
                         testing::Values("walk", "access", "safety", "states", "keyboard"),
                         [](const auto& one) { return std::string(one.param); });

}  // namespace
}  // namespace audiogen::test
