// What a server counts of its requests: each once, by its route, method and status.
#include "common/http/request_meter.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/metrics.h"
#include "common/http/server.h"
#include "tests/support/raw_http.h"

namespace audiogen::test {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(RequestMeter, CountsByMethodAndStatusAndWhatItDoesNotKnowAsOther) {
  auto& meter = http::RequestMeter::of("/of/the/test");
  EXPECT_EQ(&meter, &http::RequestMeter::of("/of/the/test"));
  meter.expect("GET");
  for (int i = 0; i < 3; ++i) {
    meter.count("GET", 200);
  }
  for (const char* method : {"BREW", "get", ""}) {
    meter.count(method, 418);
  }
  EXPECT_EQ(meter.answered("GET"), 3U);
  EXPECT_EQ(meter.answered("GET", 200), 3U);
  EXPECT_EQ(meter.answered("GET", 503), 0U);
  EXPECT_EQ(meter.answered("POST"), 0U);
  meter.took(std::chrono::milliseconds(3));
  meter.took(std::chrono::hours(1));
  const std::string text = metrics::render();
  const std::string route = R"(route="/of/the/test")";
  const std::string begin = "audiogen_http_requests_total{method=\"";
  EXPECT_THAT(text, HasSubstr(begin + "GET\"," + route + ",status=\"200\"} 3\n"));
  EXPECT_THAT(text, HasSubstr(begin + "GET\"," + route + ",status=\"503\"} 0\n"));
  EXPECT_THAT(text, HasSubstr(begin + "other\"," + route + ",status=\"other\"} 3\n"));
  EXPECT_THAT(text, Not(HasSubstr("BREW")));
  const std::string times = "audiogen_http_request_duration_seconds_";
  EXPECT_THAT(text, HasSubstr(times + "count{" + route + "} 2\n"));
  EXPECT_THAT(text, HasSubstr(times + "bucket{" + route + ",le=\"0.0025\"} 0\n"));
  EXPECT_THAT(text, HasSubstr(times + "bucket{" + route + ",le=\"0.005\"} 1\n"));
  EXPECT_THAT(text, HasSubstr(times + "bucket{" + route + ",le=\"+Inf\"} 2\n"));
}

http::Response answer(int status) {
  http::Response out;
  out.status = status;
  return out;
}

double counted(const std::string& route, const std::string& status) {
  const std::string line = "\naudiogen_http_requests_total{method=\"GET\",route=\"" + route +
                           "\",status=\"" + status + "\"} ";
  const std::string text = metrics::render();
  const auto at = text.find(line);
  return at == std::string::npos ? 0 : std::stod(text.substr(at + line.size()));
}

// Those that the handler names, those that it does not, and those that never come to it.
TEST(RequestMeter, OfAServerCountsEachRequestOnce) {
  http::Server server(
      http::ServerOptions{.meter = &http::RequestMeter::of("nobody's")},
      [](const http::Exchange& exchange) {
        if (exchange.request().path == "/known") {
          exchange.meter(http::RequestMeter::of("/known"));
        }
        exchange.reply(answer(204));
        exchange.reply(answer(200));  // Is none.
      },
      [](int status, std::string_view, const http::Request*) { return answer(status); });
  ASSERT_TRUE(server.start());
  const auto send = [&](const std::string& path, const std::string& more = "") {
    RawConnection client(server.port());
    EXPECT_TRUE(client.exchange("GET " + path + " HTTP/1.1\r\nHost: x\r\n" + more + "\r\n"));
  };
  send("/known");
  send("/known");
  send("/other");
  send("/known", "Content-Length: wrong\r\n");
  server.stop();
  EXPECT_EQ(counted("/known", "204"), 2);
  EXPECT_EQ(counted("/known", "200"), 0);
  EXPECT_EQ(counted("nobody's", "204"), 1);
  EXPECT_EQ(counted("nobody's", "400"), 1);
}

}  // namespace
}  // namespace audiogen::test
