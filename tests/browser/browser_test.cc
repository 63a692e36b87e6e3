// The console in a real browser, against the real stack: each file of tests beside this one, run by
// Node over a service of its own.
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "tests/blob/temporary_folder.h"
#include "tests/browser/node.h"
#include "tests/support/smtp_double.h"
#include "tests/support/stack.h"

namespace audiogen::test {
namespace {

class Browser : public testing::TestWithParam<const char*> {
 protected:
  Stack::Options options() const {
    Stack::Options options;
    options.environment["SMTP_URL"] =
        "smtp://127.0.0.1:" + std::to_string(mail_server_.port()) + "?tls=off";
    options.environment["MAIL_FROM"] = "audio@example.com";
    options.environment["SIGNUP"] = "open";
    options.environment["VOICE_PREVIEWS_DIR"] = previews_.path();
    // Every page under test says that it is a client of its own: attempts to sign in are counted by
    // address.
    options.environment["TRUSTED_PROXIES"] = "127.0.0.0/8";
    return options;
  }

  TemporaryFolder mails_, previews_;
  SmtpDouble mail_server_{{.folder = mails_.path()}};
  Stack stack_{options()};
};

TEST_P(Browser, Passes) {
  std::string base = stack_.public_url();
  auto environment = stack_.environment();
  if (GetParam() == std::string_view("passkeys")) {  // Browsers have none for an address.
    base.replace(base.find("127.0.0.1"), 9, "localhost");
    environment["PUBLIC_URL"] = base;
    stack_.start_api({{"PUBLIC_URL", base}});
  }
  if (GetParam() == std::string_view("oidc")) {
    const std::string port = std::to_string(free_port());
    environment["ISSUER_PORT"] = port;
    // By its name, so that it is another site than this one.
    stack_.start_api({{"OIDC_ISSUER", "http://localhost:" + port},
                      {"OIDC_CLIENT_ID", "console"},
                      {"OIDC_CLIENT_SECRET", "known to nobody else"}});
  }
  environment["DATABASE_URL"] = stack_.database_url("admin");
  environment["MAILS"] = mails_.path();
  environment["BASE_URL"] = base;
  environment["RECORDINGS"] = RECORDINGS_FOLDER;
  environment["ADMIN"] = admin_words();
  expect_passes(BROWSER_FOLDER, GetParam(), environment);
}

INSTANTIATE_TEST_SUITE_P(Console,
                         Browser,
                         testing::Values("walk",
                                         "access",
                                         "safety",
                                         "states",
                                         "keyboard",
                                         "passkeys",
                                         "mail",
                                         "live",
                                         "oidc",
                                         "reference"),
                         [](const auto& one) { return std::string(one.param); });

}  // namespace
}  // namespace audiogen::test
