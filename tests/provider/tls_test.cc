// TLS: a server that cannot prove who it is gets no request, whatever it would answer.
#include <filesystem>
#include <future>
#include <regex>

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

TEST(Tls, AServerWithoutATrustedCertificateHearsNothing) {
  const TemporaryFolder folder;
  const std::string key = folder.path() + "/key.pem", certificate = folder.path() + "/cert.pem",
                    log = folder.path() + "/server.log";
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
  Process server({"/usr/bin/openssl",
                  "s_server",
                  "-accept",
                  "127.0.0.1:0",
                  "-cert",
                  certificate,
                  "-key",
                  key,
                  "-rev"},
                 {},
                 log);
  std::smatch listening;
  std::string said;  // What `listening` is about.
  ASSERT_TRUE(eventually(60s, [&] {
    said = server.log();
    return std::regex_search(said, listening, std::regex("ACCEPT ([0-9.:]+)\n"));
  })) << said;
  http::Client client;
  const Answer refused = get(client, "https://" + listening.str(1) + "/v1/audio/speech");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().fault, http::ClientFault::kNotSent) << "safe to ask somebody else";
  EXPECT_THAT(refused.error().detail, HasSubstr("certificate"));
  // The handshake did begin: it is the certificate that was refused.
  EXPECT_TRUE(eventually(60s, [&] { return server.log().find("alert") != std::string::npos; }))
      << server.log();
  EXPECT_EQ(server.log().find("canary"), std::string::npos);
}

}  // namespace
}  // namespace audiogen::test
