// Prometheus beside the real service, with the very files of .deploy/observe: every expression of
// the dashboards finds something, and alerts fire and clear as the service breaks and is well
// again. Only addresses are others, and of the alerts, how long is waited.
#include <atomic>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidjson/document.h>
#include <unistd.h>

#include "common/queue/amqp.h"
#include "tests/e2e/chain.h"
#include "tests/support/certificates.h"
#include "tests/support/places.h"
#include "tests/support/small_disk.h"
#include "tests/support/tcp_proxy.h"
#include "tests/support/test_broker.h"
#include "tests/support/wait.h"

namespace audiogen::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

std::string read_file(const std::string& name) {
  std::ostringstream out;
  out << std::ifstream(source_path(name)).rdbuf();
  return out.str();
}

// For a query.
std::string encode_percent(std::string_view text) {
  std::ostringstream out;
  out << std::hex << std::uppercase;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0) {
      out << c;
    } else {
      out << '%' << (byte < 16 ? "0" : "") << static_cast<int>(byte);
    }
  }
  return out.str();
}

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  ASSERT_THAT(text, HasSubstr(from));
  for (std::size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

// The same rules for tests that last seconds: shorter waits, and shorter looks back.
std::string hurried(std::string rules) {
  rules = std::regex_replace(rules, std::regex("for: [0-9]+[smh]"), "for: 1s");
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"[2m]", "[8s]"},
           {"[5m]", "[10s]"},
           {"[10m]", "[15s]"},
           {"[15m]", "[15s]"},
           {"[30m]", "[10s]"},
           {"[1h]", "[12s]"},
           {"[6h]", "[12s]"},
           {"offset 5m", "offset 4s"},
           {"oldest_ready_seconds) > 60", "oldest_ready_seconds) > 3"},
           {"oldest_hold_seconds) > 1200", "oldest_hold_seconds) > 5"},
           {"hints_unsent_age_seconds) > 60", "hints_unsent_age_seconds) > 4"},
           {"drain_seconds) > 600", "drain_seconds) > 5"},
           {"[15s])) > 20", "[15s])) > 2"},
           {"[15s])) > 10", "[15s])) > 1"},
           {"> 26 * 3600", "> 60"}}) {
    replace_all(rules, from, to);
  }
  return rules;
}

// Whose certificate is looked at, and who looks. An empty one: nobody's.
struct Certified {
  std::string address{}, exporter{};
};

class Prometheus {
 public:
  Prometheus(const std::string& folder,
             const std::string& rules,
             const std::string& api_ops,
             const std::vector<std::string>& worker_ops,
             const Certified& certified = {})
      : folder_(folder + "/prometheus"), url_("http://127.0.0.1:" + std::to_string(free_port())) {
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ + "/alerts.yml") << rules;
    std::string config = read_file(".deploy/observe/prometheus.yml");
    replace_all(config, "scrape_interval: 15s", "scrape_interval: 1s");
    replace_all(config, "evaluation_interval: 15s", "evaluation_interval: 1s");
    const auto ask = [&](const std::string& names, const std::vector<std::string>& urls) {
      std::string targets;
      for (const std::string& url : urls) {
        targets += (targets.empty() ? "" : ", ") + ("\"" + url.substr(url.find("//") + 2) + "\"");
      }
      replace_all(config,
                  "dns_sd_configs:\n      - {names: [" + names +
                      "], type: A, port: 8081, refresh_interval: 15s}",
                  "static_configs:\n      - targets: [" + targets + "]");
    };
    ask("api-1, api-2", {api_ops});
    ask("worker", worker_ops);
    if (!certified.address.empty()) {
      replace_all(config, "scrape_interval: 1m", "scrape_interval: 1s");
      replace_all(config, "targets: []", "targets: [\"" + certified.address + "\"]");
      replace_all(config, "blackbox:9115", certified.exporter);
    }
    std::ofstream(folder_ + "/prometheus.yml") << config;
    process_ = std::make_unique<Process>(
        std::vector<std::string>{"/usr/bin/prometheus",
                                 "--config.file=" + folder_ + "/prometheus.yml",
                                 "--storage.tsdb.path=" + folder_ + "/data",
                                 "--web.listen-address=" + url_.substr(url_.find("//") + 2)},
        std::map<std::string, std::string>{},
        folder_ + ".log");
    EXPECT_TRUE(eventually(60s, [&] { return http("GET", url_ + "/-/ready").status == 200; }))
        << process_->log();
  }

  // How many series an expression finds. -1: it is none.
  int found(const std::string& expression) const {
    const Reply reply = http("GET", url_ + "/api/v1/query?query=" + encode_percent(expression));
    if (reply.status != 200) {
      return -1;
    }
    return static_cast<int>(reply.json()["data"]["result"].Size());
  }

  // The alerts that fire.
  std::set<std::string> firing() const {
    std::set<std::string> out;
    const auto told = http("GET", url_ + "/api/v1/alerts").json();
    if (!told.IsObject()) {
      return out;
    }
    for (const auto& alert : told["data"]["alerts"].GetArray()) {
      if (std::string_view(alert["state"].GetString()) == "firing") {
        out.insert(alert["labels"]["alertname"].GetString());
      }
    }
    return out;
  }
  // `meanwhile`: what goes on until then.
  testing::AssertionResult fires(
      const std::string& alert, const std::function<void()>& meanwhile = [] {}) const {
    return becomes(alert, true, meanwhile);
  }
  testing::AssertionResult clears(
      const std::string& alert, const std::function<void()>& meanwhile = [] {}) const {
    return becomes(alert, false, meanwhile);
  }

 private:
  testing::AssertionResult becomes(const std::string& alert,
                                   bool fires,
                                   const std::function<void()>& meanwhile) const {
    const bool done = eventually(150s, [&] {
      if (firing().contains(alert) == fires) {
        return true;
      }
      meanwhile();
      pace(200ms);
      return false;
    });
    if (done) {
      return testing::AssertionSuccess();
    }
    return testing::AssertionFailure()
           << alert << (fires ? " does not fire" : " does not clear") << "\n"
           << process_->log();
  }

  std::string folder_, url_;
  std::unique_ptr<Process> process_;
};

std::vector<std::string> workers_of(const Stack& stack, std::size_t count) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < count; ++i) {
    out.push_back(stack.worker_ops_url(i));
  }
  return out;
}

std::unique_ptr<Prometheus> watch(const Stack& stack, std::size_t workers) {
  return std::make_unique<Prometheus>(stack.log_folder(),
                                      hurried(read_file(".deploy/observe/alerts.yml")),
                                      stack.ops_url(),
                                      workers_of(stack, workers));
}

// Every "expr" below `value`.
void expressions(const rapidjson::Value& value, std::set<std::string>& out) {
  if (value.IsObject()) {
    for (const auto& member : value.GetObject()) {
      if (std::string_view(member.name.GetString()) == "expr") {
        out.insert(member.value.GetString());
      }
      expressions(member.value, out);
    }
  } else if (value.IsArray()) {
    for (const auto& one : value.GetArray()) {
      expressions(one, out);
    }
  }
}

TEST(Dashboards, AskForWhatIsThere) {
  ProviderDouble provider([](const DoubleCall&) { return wav_reply(0.3); });
  const ChainFile chain({openai_entry("primary", provider), kLocalEntry});
  Stack stack(chain.options());
  const auto prometheus = watch(stack, 1);
  const Account ann = stack.account(1'000'000);
  stack.admin({"audit"});
  std::set<std::string> left;
  for (const auto& file :
       std::filesystem::directory_iterator(source_path(".deploy/observe/grafana/dashboards"))) {
    rapidjson::Document dashboard;
    dashboard.Parse(
        read_file(".deploy/observe/grafana/dashboards/" + file.path().filename().string()).c_str());
    ASSERT_FALSE(dashboard.HasParseError()) << file;
    expressions(dashboard, left);
  }
  ASSERT_GT(left.size(), 40U);
  for (const std::string& expression : left) {
    EXPECT_GE(prometheus->found(expression), 0) << expression;
  }
  const bool all = eventually(120s, [&] {
    const std::string id = stack.create(ann, wav_body("x")).text("id");
    EXPECT_EQ(stack.wait_final(ann, id).text("status"), "succeeded");
    std::erase_if(left, [&](const auto& expression) { return prometheus->found(expression) > 0; });
    return left.empty();
  });
  EXPECT_TRUE(all) << testing::PrintToString(left);
}

TEST(Alerts, WithoutWorkersTheQueueStalls) {
  ProviderDouble provider([](const DoubleCall&) { return wav_reply(0.3); });
  const ChainFile chain({openai_entry("primary", provider)});
  Stack::Options options = chain.options();
  options.workers = 0;
  Stack stack(options);
  // Its address is known before it is there.
  const std::string ops = "127.0.0.1:" + std::to_string(free_port());
  Prometheus prometheus(stack.log_folder(),
                        hurried(read_file(".deploy/observe/alerts.yml")),
                        stack.ops_url(),
                        {"http://" + ops});
  const Account ann = stack.account();
  EXPECT_TRUE(prometheus.fires("NoWorkers"));
  const std::string id = stack.create(ann, wav_body("x")).text("id");
  EXPECT_TRUE(prometheus.fires("QueueStalled"));
  EXPECT_TRUE(prometheus.fires("HoldsOld"));
  EXPECT_TRUE(prometheus.fires("AuditStale")) << "there never was one";
  auto variables = stack.environment();
  variables["DATABASE_URL"] = stack.database_url("worker");
  variables["OPS_LISTEN"] = ops;
  Process worker({program_path("audio-worker")}, variables, stack.log_folder() + "/late.log");
  EXPECT_EQ(stack.wait_final(ann, id).text("status"), "succeeded");
  for (const char* alert : {"NoWorkers", "QueueStalled", "HoldsOld"}) {
    EXPECT_TRUE(prometheus.clears(alert));
  }
  stack.admin({"audit"});
  EXPECT_TRUE(prometheus.clears("AuditStale"));
}

// Everything else that is told of the queue is told by the API.
TEST(Alerts, NobodyTellsHowThingsStand) {
  Stack stack;
  const auto prometheus = watch(stack, 1);
  EXPECT_TRUE(eventually(60s, [&] { return prometheus->found("audiogen_tasks_ready") == 1; }));
  stack.api().kill();
  EXPECT_TRUE(prometheus->fires("NoApi"));
  stack.start_api();
  EXPECT_TRUE(prometheus->clears("NoApi"));
}

TEST(Alerts, TheBooks) {
  Stack stack;
  const auto prometheus = watch(stack, 1);
  const Account ann = stack.account();
  EXPECT_EQ(stack.admin_raw({"audit", "--json"}).code, 0);
  stack.database().execute(store::Sql("UPDATE balances SET available=available+1"));
  EXPECT_NE(stack.admin_raw({"audit", "--json"}).code, 0);
  EXPECT_TRUE(prometheus->fires("AuditViolation"));
  stack.database().execute(store::Sql("UPDATE balances SET available=available-1"));
  EXPECT_EQ(stack.admin_raw({"audit", "--json"}).code, 0);
  EXPECT_TRUE(prometheus->clears("AuditViolation"));
}

TEST(Alerts, TheBrokerGoesAndComesBack) {
  AmqpUrl broker = test_broker_url();
  broker.vhost = Stack::virtual_host();
  TcpProxy proxy(broker.port);
  AmqpUrl through = broker;
  through.port = proxy.port();
  through.host = "127.0.0.1";
  Stack::Options options;
  options.amqp_url = text_of(through);
  Stack stack(options);
  const auto prometheus = watch(stack, 1);
  const Account ann = stack.account(1'000'000);
  proxy.refuse();
  proxy.cut_all();
  EXPECT_TRUE(prometheus->fires("BrokerAway"));
  EXPECT_TRUE(prometheus->fires("HintsUnsent", [&] { stack.create(ann, Stack::body()); }));
  proxy.accept_again();
  EXPECT_TRUE(prometheus->clears("BrokerAway"));
  EXPECT_TRUE(prometheus->clears("HintsUnsent"));

  publish(broker, "this is no hint");
  EXPECT_TRUE(prometheus->fires("DeadMessages"));
  stack.admin({"dead", "drop", "--all", "--reason", "no hint of ours"});
  EXPECT_TRUE(prometheus->clears("DeadMessages"));
}

TEST(Alerts, TheDatabaseGoesAndComesBack) {
  Stack::Options options;
  options.workers = 0;
  options.api = false;
  Stack stack(options);
  TcpProxy proxy(stack.database().url().port);
  const std::map<std::string, std::string> through = {
      {"DATABASE_URL", stack.database_through(proxy.port())}};
  stack.start_api(through);
  stack.start_worker(through);
  const auto prometheus = watch(stack, 1);
  const Account ann = stack.account();
  const auto ask = [&] { http("GET", stack.base() + "/account", Stack::bearer(ann.key)); };
  proxy.refuse();
  proxy.cut_all();
  EXPECT_TRUE(prometheus->fires("DatabaseUnreachable", ask));
  EXPECT_TRUE(prometheus->fires("DatabaseAway", ask));
  EXPECT_TRUE(prometheus->fires("ErrorBudgetFast", ask));
  EXPECT_TRUE(prometheus->fires("ErrorBudgetSlow", ask));
  proxy.accept_again();
  EXPECT_TRUE(prometheus->clears("DatabaseUnreachable", ask));
  EXPECT_TRUE(prometheus->clears("DatabaseAway", ask));
  EXPECT_TRUE(prometheus->clears("ErrorBudgetFast", ask));
  EXPECT_TRUE(prometheus->clears("ErrorBudgetSlow", ask));
}

TEST(Alerts, ADiskFillsAndIsEmptiedAgain) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "only root may make a disk";
  }
  const SmallDisk disk(64);
  Stack::Options options;
  options.environment["BLOB_URL"] = "file://" + disk.folder() + "/blobs";
  Stack stack(options);
  const auto prometheus = watch(stack, 1);
  const Account ann = stack.account();
  disk.fill();
  const std::string id = stack.create(ann, Stack::body()).text("id");
  EXPECT_TRUE(prometheus->fires("DiskFilling"));
  disk.empty();
  EXPECT_TRUE(prometheus->clears("DiskFilling"));
  EXPECT_EQ(stack.wait_final(ann, id).text("status"), "succeeded")
      << "its audio was kept until there was room";
}

TEST(Alerts, ACertificateEndsSoonAndIsRenewed) {
  Stack::Options options;
  options.workers = 0;
  Stack stack(options);
  const Certificates certificates;
  const std::string path = stack.log_folder() + "/shown";
  const std::string address = "127.0.0.1:" + std::to_string(free_port());
  const std::string exporter = "127.0.0.1:" + std::to_string(free_port());
  const auto serve = [&] {
    return std::make_unique<Process>(std::vector<std::string>{"/usr/bin/openssl",
                                                              "s_server",
                                                              "-quiet",
                                                              "-accept",
                                                              address,
                                                              "-cert",
                                                              path + ".pem",
                                                              "-key",
                                                              path + ".key"},
                                     std::map<std::string, std::string>{},
                                     path + ".log");
  };
  const Process blackbox({"/usr/bin/prometheus-blackbox-exporter",
                          "--config.file=" + source_path(".deploy/observe/blackbox.yml"),
                          "--web.listen-address=" + exporter},
                         {},
                         stack.log_folder() + "/blackbox.log");
  const Prometheus prometheus(stack.log_folder(),
                              hurried(read_file(".deploy/observe/alerts.yml")),
                              stack.ops_url(),
                              {},
                              {.address = address, .exporter = exporter});
  certificates.issue(path, "localhost", 13);
  auto server = serve();
  EXPECT_TRUE(prometheus.fires("CertificateExpiring")) << server->log() << blackbox.log();
  certificates.issue(path, "localhost", 90);
  server.reset();
  server = serve();
  // It clears because of what is seen, not because nobody could be asked for a moment.
  EXPECT_TRUE(eventually(
      60s,
      [&] {
        return prometheus.found("probe_ssl_earliest_cert_expiry > time() + 89 * 86400") == 1 &&
               prometheus.found("probe_success == 1") == 1;
      }))
      << server->log() << blackbox.log();
  EXPECT_TRUE(prometheus.clears("CertificateExpiring"));
}

TEST(Alerts, AProviderFailsAndWorksAgain) {
  std::atomic<bool> well{false};
  ProviderDouble first([&](const DoubleCall&) {
    return well ? wav_reply(0.3) : DoubleReply{.status = 500, .body = "broken"};
  });
  ProviderDouble spare([&](const DoubleCall&) { return wav_reply(0.3); });
  const ChainFile chain({openai_entry("primary", first)});
  Stack stack(chain.options());
  const auto prometheus = watch(stack, 1);
  const Account ann = stack.account(1'000'000);
  const auto create = [&] { stack.create(ann, wav_body("x")); };
  EXPECT_TRUE(prometheus->fires("ProviderOpen", create));
  EXPECT_TRUE(prometheus->fires("AllProvidersOpen", create));
  well = true;
  EXPECT_TRUE(prometheus->clears("AllProvidersOpen", create));
  EXPECT_TRUE(prometheus->clears("ProviderOpen", create));
}

TEST(Alerts, AProviderRefusesOurKeyAndTakesIt) {
  std::atomic<bool> well{false};
  ProviderDouble first([&](const DoubleCall&) {
    return well ? wav_reply(0.3) : DoubleReply{.status = 401, .body = "no such key"};
  });
  const ChainFile chain({openai_entry("primary", first)});
  Stack stack(chain.options());
  const auto prometheus = watch(stack, 1);
  const Account ann = stack.account(1'000'000);
  // Once its counter was seen, so that it is seen to grow.
  EXPECT_TRUE(eventually(60s, [&] {
    return prometheus->found("audiogen_provider_requests_total{outcome=\"misconfigured\"}") == 1;
  }));
  EXPECT_TRUE(
      prometheus->fires("ProviderMisconfigured", [&] { stack.create(ann, wav_body("x")); }));
  well = true;
  EXPECT_TRUE(prometheus->clears("ProviderMisconfigured"));
}

TEST(Alerts, TasksFailBecauseNobodyAnswers) {
  std::atomic<bool> well{false};
  ProviderDouble provider([&](const DoubleCall&) {
    return well ? wav_reply(0.3) : DoubleReply{.form = DoubleReply::Form::kHang};
  });
  const ChainFile chain({openai_entry("primary", provider, R"(,"timeout_seconds":60)")});
  Stack::Options options = chain.options();
  options.environment["TASK_DEADLINE_SECONDS"] = "2";
  Stack stack(options);
  const auto prometheus = watch(stack, 1);
  const Account ann = stack.account(1'000'000);
  const auto create = [&] { stack.create(ann, wav_body("x")); };
  EXPECT_TRUE(prometheus->fires("FailureRateHigh", create));
  well = true;
  EXPECT_TRUE(prometheus->clears("FailureRateHigh", create));
}

TEST(Alerts, AWorkerGoesWithoutAWord) {
  ProviderDouble provider(
      [](const DoubleCall&) { return DoubleReply{.form = DoubleReply::Form::kHang}; });
  const ChainFile chain({openai_entry("primary", provider, R"(,"timeout_seconds":300)")});
  Stack::Options options = chain.options();
  options.workers = 2;
  Stack stack(options);
  const auto prometheus = watch(stack, 2);
  const Account ann = stack.account(1'000'000);
  const auto held = [&] {
    return stack.database().number(
        store::Sql("SELECT COUNT(DISTINCT worker) FROM tasks WHERE "
                   "state=2"));
  };
  ASSERT_TRUE(eventually(60s, [&] {
    stack.create(ann, wav_body("x"));
    return held() == 2;
  }));
  stack.worker(1).kill();
  EXPECT_TRUE(prometheus->fires("LeasesLost"));
  EXPECT_TRUE(prometheus->clears("LeasesLost"));
}

TEST(Alerts, AHelperCrashesAgainAndAgain) {
  std::atomic<bool> well{false};
  ProviderDouble provider([&](const DoubleCall&) {
    return well ? wav_reply(0.3)
                : DoubleReply{.headers = {"Content-Type: audio/flac"}, .body = "fLaC!crash"};
  });
  const ChainFile chain({openai_entry("primary", provider)});
  Stack stack(chain.options());
  const auto prometheus = watch(stack, 1);
  const Account ann = stack.account(1'000'000);
  const auto create = [&] { stack.create(ann, wav_body("x")); };
  EXPECT_TRUE(prometheus->fires("SandboxCrashes", create));
  well = true;
  EXPECT_TRUE(prometheus->clears("SandboxCrashes", create));
}

TEST(Alerts, MoreComesThanIsDone) {
  ProviderDouble provider([](const DoubleCall&) {
    DoubleReply out = wav_reply(0.3);
    out.delay = 1000ms;
    return out;
  });
  const ChainFile chain({openai_entry("primary", provider, R"(,"max_in_flight":1)")});
  Stack::Options options = chain.options();
  options.environment["WORKER_IN_FLIGHT"] = "1";
  Stack stack(options);
  const auto prometheus = watch(stack, 1);
  const Account ann = stack.account(1'000'000);
  EXPECT_TRUE(prometheus->fires("FallingBehind", [&] {
    for (int i = 0; i < 3; ++i) {
      stack.create(ann, wav_body("x"));
    }
  }));
  EXPECT_TRUE(prometheus->clears("FallingBehind"));
}

}  // namespace
}  // namespace audiogen::test
