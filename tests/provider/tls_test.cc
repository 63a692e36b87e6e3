// TLS: a server that cannot prove who it is gets no request, whatever it would answer.
#include <filesystem>
#include <future>
#include <map>
#include <optional>
#include <regex>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/http/client.h"
#include "tests/blob/temporary_folder.h"
#include "tests/support/process.h"
#include "tests/support/wait.h"

namespace audiogen::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using Answer = Result<http::ClientResponse, http::ClientError>;

Answer get(http::Client& client, const std::string& url) {
  auto promise = std::make_shared<std::promise<Answer>>();
  http::ClientRequest request;
  request.url = url;
  request.headers = {"Authorization: Bearer canary-of-the-key"};
  request.connect_timeout = request.total_timeout = 60s;
  client.start(std::move(request),
               [promise](Answer answer) { promise->set_value(std::move(answer)); });
  return promise->get_future().get();
}

// A server with a certificate that nobody trusts, which tells what it is offered.
class Tls : public testing::Test {
 protected:
  void SetUp() override {
    const std::string key = folder_.path() + "/key.pem", certificate = folder_.path() + "/cert.pem";
    ASSERT_EQ(run({"/usr/bin/openssl",
                   "req",
                   "-x509",
                   "-newkey",
                   "rsa:2048",
                   "-nodes",
                   "-days",
                   "2",
                   "-subj",
                   "/CN=127.0.0.1",
                   "-addext",
                   "subjectAltName=IP:127.0.0.1",
                   "-keyout",
                   key,
                   "-out",
                   certificate},
                  {})
                  .code,
              0);
    server_.emplace(std::vector<std::string>{"/usr/bin/openssl",
                                             "s_server",
                                             "-accept",
                                             "127.0.0.1:0",
                                             "-cert",
                                             certificate,
                                             "-key",
                                             key,
                                             "-tlsextdebug",
                                             "-rev"},
                    std::map<std::string, std::string>{},
                    folder_.path() + "/server.log");
    std::smatch listening;
    std::string said;  // What `listening` is about.
    ASSERT_TRUE(eventually(60s, [&] {
      said = server_->log();
      return std::regex_search(said, listening, std::regex("ACCEPT ([0-9.:]+)\n"));
    })) << said;
    url_ = "https://" + listening.str(1) + "/v1/audio/speech";
  }

  bool says(const char* what) {
    return eventually(60s, [&] { return server_->log().find(what) != std::string::npos; });
  }

  const TemporaryFolder folder_;
  std::optional<Process> server_;
  std::string url_;
  http::Client client_;
};

TEST_F(Tls, AServerWithoutATrustedCertificateHearsNothing) {
  const Answer refused = get(client_, url_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().fault, http::ClientFault::kNotSent) << "safe to ask somebody else";
  EXPECT_THAT(refused.error().detail, HasSubstr("certificate"));
  // The handshake did begin: it is the certificate that was refused.
  EXPECT_TRUE(says("alert")) << server_->log();
  EXPECT_EQ(server_->log().find("canary"), std::string::npos);
}

// ALPN (RFC 7301): calls that shared a connection would share what it suffers, and their bodies
// could not wait in sockets.
TEST_F(Tls, NobodyIsOfferedHttp2) {
  EXPECT_FALSE(get(client_, url_));
  EXPECT_TRUE(says("http/1.1")) << server_->log();
  EXPECT_EQ(server_->log().find("h2.http"), std::string::npos) << server_->log();
}

}  // namespace
}  // namespace audiogen::test
