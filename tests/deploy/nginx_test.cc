// nginx as it stands in front of the API in compose.yaml, with its very files (.deploy/nginx),
// before two real processes. Only addresses, ports and folders are others.
#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/domain/api_key.h"
#include "tests/support/certificates.h"
#include "tests/support/places.h"
#include "tests/support/raw_http.h"
#include "tests/support/stack.h"

namespace audiogen::test {
namespace {

using testing::HasSubstr;

constexpr const char* kNoTask = "/api/v1/audio/generations/aud_01jd0000000000000000000000";

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  ASSERT_THAT(text, HasSubstr(from));
  for (std::size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

std::string read_file(const std::string& name) {
  std::ostringstream out;
  out << std::ifstream(source_path(name)).rdbuf();
  return out.str();
}

// nginx, with `front` (plain or tls) as the other half of its configuration, and `more` behind it.
class Nginx {
 public:
  Nginx(const std::string& folder,
        const std::string& front,
        std::uint16_t api_1,
        std::uint16_t api_2,
        const std::string& more)
      : folder_(folder + "/nginx-" + front), port_(free_port()), alive_port_(free_port()) {
    std::filesystem::create_directories(folder_);
    std::string main = read_file(".deploy/nginx/nginx.conf");
    replace_all(main, "api-1:8080", "127.0.0.1:" + std::to_string(api_1));
    replace_all(main, "api-2:8080", "127.0.0.1:" + std::to_string(api_2));
    replace_all(main, "/tmp/", folder_ + "/");
    replace_all(main, "127.0.0.1:8090", "127.0.0.1:" + std::to_string(alive_port_));
    std::string listen = read_file(".deploy/nginx/" + front + ".conf");
    replace_all(listen, "listen 8080", "listen 127.0.0.1:" + std::to_string(port_));
    if (front == "tls") {
      replace_all(listen, "/run/secrets/", folder + "/");
    }
    std::ofstream(folder_ + "/nginx.conf") << main;
    std::ofstream(folder_ + "/front.conf") << listen << more;
    // A master would leave its workers behind when it is killed.
    process_ =
        std::make_unique<Process>(std::vector<std::string>{"/usr/sbin/nginx",
                                                           "-e",
                                                           "stderr",
                                                           "-c",
                                                           folder_ + "/nginx.conf",
                                                           "-g",
                                                           "daemon off; master_process off;"},
                                  std::map<std::string, std::string>{},
                                  folder_ + ".log");
    const std::string alive = "http://127.0.0.1:" + std::to_string(alive_port_) + "/";
    EXPECT_TRUE(eventually(std::chrono::seconds(60), [&] {
      return http("GET", alive).status == 204;
    })) << process_->log();
  }

  std::uint16_t port() const { return port_; }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }

 private:
  std::string folder_;
  std::uint16_t port_, alive_port_;
  std::unique_ptr<Process> process_;
};

// Two processes of the API on one database, without workers.
class Apis : public testing::Test {
 protected:
  explicit Apis(std::map<std::string, std::string> environment =
                    {{"RATE_LIMIT_UNAUTHENTICATED_PER_MINUTE", "100000"}})
      : stack_(options(std::move(environment))) {
    start_second();
  }

  void start_second() {
    auto variables = stack_.environment();
    variables["DATABASE_URL"] = stack_.database_url("api");
    variables["LISTEN"] = "127.0.0.1:" + std::to_string(second_port_);
    variables["OPS_LISTEN"] = second_ops_.substr(second_ops_.find("127"));
    second_.reset();
    second_ =
        std::make_unique<Process>(std::vector<std::string>{program_path("audio-api"), "serve"},
                                  variables,
                                  stack_.log_folder() + "/second.log");
    EXPECT_TRUE(eventually(std::chrono::seconds(30), [&] {
      return http("GET", second_ops_ + "/readyz").status == 200;
    })) << second_->log();
  }

  Nginx front(const std::string& kind = "plain", const std::string& more = "") {
    return {stack_.log_folder(), kind, stack_.api_port(), second_port_, more};
  }

  // How many requests each of them has answered so far with a status that begins with `status`.
  std::vector<double> answered(const std::string& status) const {
    std::vector<double> out;
    for (const std::string& ops : {stack_.ops_url(), second_ops_}) {
      std::istringstream lines(http("GET", ops + "/metrics").body);
      out.push_back(0);
      for (std::string line; std::getline(lines, line);) {
        if (line.starts_with("audiogen_http_requests_total{") &&
            line.find("status=\"" + status) != std::string::npos) {
          out.back() += std::stod(line.substr(line.rfind(' ')));
        }
      }
    }
    return out;
  }

  // Sends `request`, which will be refused, `count` times over connections of their own; how many
  // of them each process saw.
  std::vector<double> seen(const Nginx& nginx, const std::string& request, int count) const {
    const auto before = answered("4");
    for (int i = 0; i < count; ++i) {
      RawConnection client(nginx.port());
      const auto response = client.exchange(request);
      EXPECT_TRUE(response && response->status >= 400 && response->status < 500)
          << (response ? response->head : "no answer");
    }
    const auto after = answered("4");
    return {after[0] - before[0], after[1] - before[1]};
  }

  Stack stack_;
  std::uint16_t second_port_ = free_port();
  std::string second_ops_ = "http://127.0.0.1:" + std::to_string(free_port());
  std::unique_ptr<Process> second_;

 private:
  static Stack::Options options(std::map<std::string, std::string> environment) {
    Stack::Options out;
    out.workers = 0;
    out.environment = std::move(environment);
    out.environment["TRUSTED_PROXIES"] = "127.0.0.1/32";
    return out;
  }
};

TEST_F(Apis, OneKeyAndOneSessionMeetOneOfThem) {
  const Nginx nginx = front();
  for (const std::string header : {"Authorization: Bearer ", "Cookie: session="}) {
    std::vector<int> keys{0, 0};
    for (int i = 0; i < 24; ++i) {
      const auto counts =
          seen(nginx, get_request(kNoTask, header + make_api_key("svc").text + "\r\n"), 3);
      EXPECT_THAT(counts, testing::UnorderedElementsAre(0, 3)) << header;
      ++keys[counts[0] == 0 ? 1 : 0];
    }
    EXPECT_GT(keys[0], 0) << header;
    EXPECT_GT(keys[1], 0) << header;
  }
}

TEST_F(Apis, GuessesMeetTheFirstAsLongAsItIsThere) {
  const Nginx nginx = front();
  const auto guess = [](int i) {
    const std::string lines =
        "Content-Type: application/json\r\nCookie: session=" + std::to_string(i) +
        "\r\nAuthorization: Bearer " + std::to_string(i) + "\r\n";
    std::string request =
        post_request(i % 2 == 0 ? "/console/api/v1/sessions" : "/console/api/v1/password",
                     R"({"email":"ann@example.com","password":"wrong"})",
                     lines);
    return i % 2 == 0 ? request : "PUT" + request.substr(4);
  };
  for (int i = 0; i < 12; ++i) {
    EXPECT_THAT(seen(nginx, guess(i), 1), testing::ElementsAre(1, 0)) << i;
  }
  const std::string ann = stack_.account().key;
  stack_.api().kill();
  for (int i = 0; i < 4; ++i) {
    RawConnection client(nginx.port());
    const auto response = client.exchange(guess(i));
    ASSERT_TRUE(response);
    EXPECT_LT(response->status, 500) << i;
  }
  // So does everybody else: what was not sent yet is sent to another one, a creation, too.
  for (int i = 0; i < 8; ++i) {
    const std::string key = make_api_key("svc").text;
    EXPECT_EQ(http("GET", nginx.url() + kNoTask, Stack::bearer(key)).status, 401);
  }
  EXPECT_EQ(http("POST",
                 nginx.url() + "/api/v1/audio/generations",
                 Stack::bearer(ann, {"Content-Type: application/json"}),
                 Stack::body())
                .status,
            202);
}

TEST_F(Apis, EventsArriveAsTheyHappenAndTheOperationsPortIsNotBehindIt) {
  const Nginx nginx = front();
  for (const char* const path : {"/metrics", "/readyz", "/healthz", "/api/v1/../../metrics"}) {
    EXPECT_EQ(http("GET", nginx.url() + path).status, 404) << path;
  }
  const Account ann = stack_.account();
  const std::string id = stack_.create(ann, Stack::body()).text("id");
  const std::string task = "/api/v1/audio/generations/" + id;
  RawConnection client(nginx.port());
  ASSERT_TRUE(
      client.send(get_request(task + "/events", "Authorization: Bearer " + ann.key + "\r\n")));
  const auto head = client.response(true);
  ASSERT_TRUE(head);
  EXPECT_EQ(head->status, 200);
  EXPECT_EQ(head->header("content-type"), "text/event-stream");
  // Nobody works on it: nothing more comes before it is canceled.
  const auto first = client.chunk();
  ASSERT_TRUE(first);
  EXPECT_THAT(*first, HasSubstr("processing"));
  EXPECT_EQ(http("POST", nginx.url() + task + "/cancel", Stack::bearer(ann.key)).status, 200);
  std::string rest;
  for (auto part = client.chunk(); part && !part->empty(); part = client.chunk()) {
    rest += *part;
  }
  EXPECT_THAT(rest, HasSubstr("canceled"));
}

// Clients read its errors as JSON; nginx's own would be a page for people.
TEST_F(Apis, ABodyThatIsTooLargeIsRefusedByTheApi) {
  const Nginx nginx = front();
  const Reply reply = http("POST",
                           nginx.url() + "/api/v1/audio/generations",
                           Stack::bearer(stack_.account().key, {"Content-Type: application/json"}),
                           std::string(2'000'000, ' '));
  EXPECT_EQ(reply.status, 400) << reply.body;
  EXPECT_EQ(reply.text("error.code"), "invalid_request") << reply.body;
}

// Nor is there one where nobody else is there to answer.
TEST_F(Apis, WhatNginxSaysItselfIsAnErrorOfTheInterface) {
  const Nginx nobody(stack_.log_folder(), "plain", free_port(), free_port(), "");
  const Reply away = http("POST", nobody.url() + "/api/v1/audio/generations", {}, "{}");
  EXPECT_EQ(away.status, 503) << away.body;
  EXPECT_EQ(away.header("content-type"), "application/json");
  EXPECT_EQ(away.text("error.code"), "service_unavailable") << away.body;
  EXPECT_NE(away.header("retry-after"), "");
  EXPECT_NE(away.text("error.request_id"), "");
  EXPECT_EQ(away.header("x-request-id"), away.text("error.request_id"));
  const Reply large = http("GET", nobody.url() + kNoTask, {"X-Large: " + std::string(60'000, 'x')});
  EXPECT_EQ(large.status, 400) << large.body;
  EXPECT_EQ(large.text("error.code"), "invalid_request") << large.body;
  for (const char* const head : {"GET /%zz HTTP/1.1", "get / HTTP/1.1", "GET /../../x HTTP/1.1"}) {
    RawConnection client(nobody.port());
    const auto bad = client.exchange(std::string(head) + "\r\nHost: x\r\n\r\n");
    ASSERT_TRUE(bad) << head;
    EXPECT_EQ(bad->status, 400) << head;
    EXPECT_THAT(bad->body, HasSubstr(R"({"error":{"code":"invalid_request",)")) << head;
  }
  // With the API there, its own answers stay as they are.
  const Nginx nginx = front();
  EXPECT_EQ(http("GET", nginx.url() + kNoTask).text("error.code"), "invalid_api_key");
}

// Each of two requests at a time counts for whoever has its address, which the client says here.
TEST_F(Apis, AnIpv6NetworkIsOneAddressToTheLimitOfConnections) {
  const Nginx nginx = front("plain",
                            "limit_conn addresses 1;\nlimit_conn_status 429;\n"
                            "set_real_ip_from 127.0.0.1;\nreal_ip_header X-Seen;\n");
  const Account ann = stack_.account();
  const std::string events =
      "/api/v1/audio/generations/" + stack_.create(ann, Stack::body()).text("id") + "/events";
  const auto seen_as = [&](const std::string& address) {
    return "Authorization: Bearer " + ann.key + "\r\nX-Seen: " + address + "\r\n";
  };
  const auto status_of = [&](const std::string& address) {
    RawConnection client(nginx.port());
    const auto response = client.exchange(get_request(kNoTask, seen_as(address)));
    if (response && response->status == 429) {
      EXPECT_THAT(response->body, HasSubstr(R"({"error":{"code":"rate_limit_exceeded",)"));
      EXPECT_NE(response->header("retry-after"), "");
    }
    return response ? response->status : 0;
  };
  // Nobody works on it, so its events do not end. The bytes of an address may be any, a line's end
  // and none among them.
  RawConnection six(nginx.port()), four(nginx.port());
  ASSERT_TRUE(six.send(get_request(events, seen_as("2001:db8:a00:1::1"))));
  ASSERT_TRUE(four.send(get_request(events, seen_as("198.51.100.10"))));
  for (RawConnection* client : {&six, &four}) {
    const auto head = client->response(true);
    ASSERT_TRUE(head);
    EXPECT_EQ(head->status, 200);
  }
  EXPECT_EQ(status_of("2001:db8:a00:1:ffff:0a0a:0:2"), 429) << "of the same network";
  EXPECT_EQ(status_of("2001:db8:a00:2::1"), 404);
  EXPECT_EQ(status_of("198.51.100.10"), 429);
  EXPECT_EQ(status_of("198.51.100.11"), 404);
  // As a socket of both families writes them.
  EXPECT_EQ(status_of("::ffff:198.51.100.10"), 429);
  EXPECT_EQ(status_of("::ffff:198.51.100.11"), 404);
}

class FewGuesses : public Apis {
 protected:
  FewGuesses() : Apis({{"RATE_LIMIT_UNAUTHENTICATED_PER_MINUTE", "5"}}) {}
};

TEST_F(FewGuesses, TheAddressThatNginxSeesCounts) {
  second_->kill();  // Else each counts for itself.
  const Nginx nginx = front();
  const auto status_of = [&](const std::string& source, const std::string& forged) {
    RawConnection client(nginx.port(), "127.0.0.1", 0, source);
    const auto response =
        client.exchange(get_request(kNoTask,
                                    "Authorization: Bearer " + make_api_key("svc").text +
                                        "\r\nX-Forwarded-For: " + forged + "\r\n"));
    return response ? response->status : 0;
  };
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(status_of("127.0.0.9", "203.0.113." + std::to_string(i)), i < 5 ? 401 : 429) << i;
  }
  EXPECT_EQ(status_of("127.0.0.8", "203.0.113.1"), 401);
}

// Clients who create and poll by nginx, each over one connection that it keeps. None sends anything
// a second time.
class Customers {
 public:
  explicit Customers(const Nginx& nginx) : port_(nginx.port()) {}
  ~Customers() { stop(); }
  Customers(const Customers&) = delete;
  Customers& operator=(const Customers&) = delete;

  void add(const Account& account) {
    threads_.emplace_back(
        [this, account] { live("Authorization: Bearer " + account.key + "\r\n"); });
  }
  void stop() {
    stopping_ = true;
    for (std::thread& thread : threads_) {
      if (thread.joinable()) {
        thread.join();
      }
    }
  }
  int created() const { return created_; }
  int failed() const { return failed_; }
  std::string failures() {
    const std::scoped_lock lock(mutex_);
    return failures_;
  }

 private:
  void live(const std::string& key) {
    RawConnection client(port_);
    while (!stopping_) {
      const auto created = ask(client,
                               202,
                               post_request("/api/v1/audio/generations",
                                            Stack::body(),
                                            key + "Content-Type: application/json\r\n"));
      if (created) {
        ++created_;
        const auto id = created->body.find("aud_");
        ask(client,
            200,
            get_request("/api/v1/audio/generations/" +
                            created->body.substr(id, created->body.find('"', id) - id),
                        key));
      }
    }
  }

  // So seldom that a process is now and then asked nothing for longer than it waits for those who
  // come directly, and so many at a time that nginx keeps several connections to it.
  std::optional<RawResponse> ask(RawConnection& client, int status, const std::string& request) {
    pace(std::chrono::milliseconds(400));
    auto response = client.exchange(request);
    if (!response || response->status != status) {
      ++failed_;
      const std::scoped_lock lock(mutex_);
      failures_ += (response ? response->head + response->body : "no answer") + "\n";
      client = RawConnection(port_);
      response.reset();
    }
    return response;
  }

  const std::uint16_t port_;
  std::atomic<bool> stopping_{false};
  std::atomic<int> created_{0}, failed_{0};
  std::mutex mutex_;
  std::string failures_;
  std::vector<std::thread> threads_;
};

// As README.md, "Upgrade", has it. A creation that nginx has sent it does not send again.
TEST_F(Apis, StartedAnewOneAfterTheOtherTheyFailNoRequest) {
  const Nginx nginx = front();
  Customers customers(nginx);
  for (std::vector<int> of{0, 0}; of[0] < 4 || of[1] < 4;) {
    const Account account = stack_.account(100'000'000);
    const auto before = answered("404");
    EXPECT_EQ(http("GET", nginx.url() + kNoTask, Stack::bearer(account.key)).status, 404);
    const std::size_t place = answered("404")[0] > before[0] ? 0 : 1;
    if (++of[place] <= 4) {
      customers.add(account);
    }
  }
  const auto both_serve = [&] {
    const auto from = answered("202");
    EXPECT_TRUE(eventually(std::chrono::seconds(60), [&] {
      const auto now = answered("202");
      return now[0] > from[0] + 8 && now[1] > from[1] + 8;
    }));
  };
  for (int round = 0; round < 3; ++round) {
    both_serve();
    stack_.api().signal(SIGTERM);
    EXPECT_EQ(stack_.api().wait(std::chrono::seconds(60)), 0);
    stack_.start_api();
    both_serve();
    second_->signal(SIGTERM);
    EXPECT_EQ(second_->wait(std::chrono::seconds(60)), 0);
    start_second();
  }
  both_serve();
  customers.stop();
  EXPECT_EQ(customers.failed(), 0) << customers.failures();
  EXPECT_EQ(stack_.database().number(store::Sql("SELECT COUNT(*) FROM tasks")),
            customers.created());
  stack_.database().expect_invariants();
}

TEST_F(Apis, NginxEndsTlsItself) {
  const Certificates certificates;
  const std::string folder = stack_.log_folder();
  certificates.issue(folder + "/server", "localhost");
  std::filesystem::rename(folder + "/server.pem", folder + "/tls_certificate");
  std::filesystem::rename(folder + "/server.key", folder + "/tls_key");
  const Nginx nginx = front("tls");
  const Output got = run({"/usr/bin/curl",
                          "--silent",
                          "--noproxy",
                          "*",
                          "--cacert",
                          certificates.ca(),
                          "--connect-to",
                          "localhost:443:127.0.0.1:" + std::to_string(nginx.port()),
                          "--write-out",
                          "%{http_code}",
                          "--output",
                          "/dev/null",
                          "https://localhost" + std::string(kNoTask)},
                         {});
  EXPECT_EQ(got.out, "401");
}

}  // namespace
}  // namespace audiogen::test
