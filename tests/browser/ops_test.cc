// The operators' page in a real browser, while things die beside it. The tests are run by Node;
// what breaks is this process's, so they ask it to break it.
#include <csignal>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "tests/browser/node.h"
#include "tests/e2e/chain.h"
#include "tests/support/private_database.h"
#include "tests/support/provider_double.h"
#include "tests/support/stack.h"
#include "tests/support/test_broker.h"

namespace audiogen::test {
namespace {

class OpsPage : public testing::Test {
 protected:
  Stack::Options options() {
    Stack::Options out = chain_.options();
    out.workers = 2;
    out.amqp_url = text_of(broker_.url());
    out.environment["OPS_TOKEN"] = "the-token-of-the-operators-0123456789";
    out.environment["WORKER_IN_FLIGHT"] = "4";
    return out;
  }

  // "POST /broker/kill", "/worker/0/freeze": does it, and answers when it is done.
  DoubleReply command(const DoubleCall& call) {
    const std::string& what = call.target;
    const auto worker = [&]() -> Process& { return stack_.worker(what[8] == '0' ? 0 : 1); };
    if (what == "/provider/serves" || what == "/provider/fails" || what == "/provider/hangs") {
      provider_does_ = what.substr(std::string_view("/provider/").size());
    } else if (what == "/broker/kill") {
      broker_.kill();
    } else if (what == "/broker/start") {
      broker_.start();
    } else if (what == "/database/kill") {
      database_.kill();
    } else if (what == "/database/start") {
      database_.start();
    } else if (what == "/api/kill") {
      stack_.api().kill();
    } else if (what == "/api/start") {
      stack_.start_api();
    } else if (what == "/workers/add") {
      stack_.start_worker();
    } else if (what.starts_with("/worker/") && what.ends_with("/kill")) {
      worker().kill();
    } else if (what.starts_with("/worker/") && what.ends_with("/freeze")) {
      worker().signal(SIGSTOP);
    } else if (what.starts_with("/worker/") && what.ends_with("/thaw")) {
      worker().signal(SIGCONT);
    } else if (what.starts_with("/worker/") && what.ends_with("/pid")) {
      return {.body = std::to_string(worker().pid())};
    } else {
      return {.status = 404};
    }
    return {};
  }

  DoubleReply provide() {
    if (provider_does_ == "fails") {
      return {.status = 500, .body = "{}"};
    }
    return provider_does_ == "hangs" ? DoubleReply{.form = DoubleReply::Form::kHang}
                                     : wav_reply(0.5);
  }

  std::string provider_does_ = "serves";
  PrivateDatabase database_;
  PrivateBroker broker_;
  ProviderDouble provider_{[this](const DoubleCall&) { return provide(); }};
  ChainFile chain_{{openai_entry("primary", provider_)}};
  Stack stack_{options()};
  ProviderDouble control_{[this](const DoubleCall& call) { return command(call); }};
};

TEST_F(OpsPage, Passes) {
  const Account ann = stack_.account(1'000'000);
  auto environment = stack_.environment();
  environment["BASE_URL"] = stack_.ops_url();
  environment["API_URL"] = stack_.base();
  environment["CONTROL_URL"] = control_.url();
  environment["USER_ID"] = ann.user;
  environment["USER_KEY"] = ann.key;
  environment["USER_MAIL"] = ann.email;
  expect_passes(BROWSER_FOLDER, "ops", environment);
}

}  // namespace
}  // namespace audiogen::test
