#include "tests/support/stack.h"

#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

#include "tests/support/places.h"

namespace audiogen::test {
namespace {

constexpr auto kStartLimit = std::chrono::seconds(30);

std::string fresh_folder() {
  std::string pattern = std::filesystem::temp_directory_path() / "audiogen-test-XXXXXX";
  if (::mkdtemp(pattern.data()) == nullptr) {
    throw std::runtime_error("cannot make a folder for the test");
  }
  return pattern;
}

std::string url_of(const DatabaseUrl& url) {
  std::string out = "mysql://" + url.user + ":" + url.password + "@" + url.host + ":" +
                    std::to_string(url.port) + "/" + url.database;
  return url.socket.empty() ? out : out + "?socket=" + url.socket;
}

std::string broker_url() {
  const char* const url = std::getenv("TEST_AMQP_URL");
  if (url == nullptr) {
    throw std::runtime_error("TEST_AMQP_URL is not set: run the tests by ./dev test");
  }
  const std::string host = Stack::virtual_host();
  return host == "/" ? url : url + host;
}

// The program, with so many descriptors; empty: with as many as this process.
std::vector<std::string> limited(std::vector<std::string> argv, const std::string& nofile) {
  if (!nofile.empty()) {
    argv.insert(argv.begin(), {"/usr/bin/prlimit", "--nofile=" + nofile});
  }
  return argv;
}

}  // namespace

std::string Stack::virtual_host() {
  const int lane = test_lane();
  return lane == 0 ? "/" : std::to_string(lane);
}

Stack::Stack() : Stack(Options()) {}

Stack::Stack(const Options& options)
    : options_(options),
      folder_(fresh_folder()),
      api_port_(free_port()),
      api_ops_port_(free_port()),
      public_url_("http://127.0.0.1:" + std::to_string(api_port_)),
      openapi_(OpenApi::from_file(source_path("schema/openapi.json"))) {
  if (options_.api) {
    start_api();
  }
  for (int i = 0; i < options_.workers; ++i) {
    start_worker();
  }
}

Stack::~Stack() {
  workers_.clear();
  api_.reset();
  if (::testing::Test::HasFailure()) {
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      if (entry.path().extension() == ".log") {
        std::fprintf(stderr, "--- kept: %s\n", entry.path().c_str());
      }
    }
    return;
  }
  if (!options_.keep_folder) {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
}

std::string Stack::database_through(std::uint16_t port) const {
  return url_of(database_.tcp_url(port));
}

std::map<std::string, std::string> Stack::environment() const {
  std::map<std::string, std::string> out = {
      {"DATABASE_URL",
       options_.database_url.empty() ? url_of(database_.url()) : options_.database_url},
      {"AMQP_URL", options_.amqp_url.empty() ? broker_url() : options_.amqp_url},
      {"BLOB_URL", "file://" + folder_ + "/blobs"},
      {"LISTEN", "127.0.0.1:" + std::to_string(api_port_)},
      {"PUBLIC_URL", public_url_},
      {"OPS_LISTEN", "127.0.0.1:" + std::to_string(api_ops_port_)},
      {"LOG_LEVEL", "debug"},
      // Whoever waits in a test looks more often than a client may.
      {"RATE_LIMIT_READ_PER_MINUTE", "1000000"},
      {"RATE_LIMIT_READ_BURST", "1000000"},
  };
  for (const auto& [name, value] : options_.environment) {
    out[name] = value;
  }
  return out;
}

std::string Stack::database_url(const std::string& role) {
  const DatabaseUrl url = database_.as(role);
  if (options_.database_url.empty()) {
    return url_of(url);
  }
  const std::string& given = options_.database_url;
  return "mysql://" + url.user + ":" + url.password + given.substr(given.find('@'));
}

std::string Stack::database_url(const std::string& role, std::uint16_t port) {
  DatabaseUrl url = database_.as(role);
  url.socket.clear();
  url.host = "127.0.0.1";
  url.port = port;
  return url_of(url);
}

void Stack::wait_ready(const std::string& ops, Process& process, bool ready, bool may_end) const {
  const bool up = eventually(kStartLimit, [&] {
    return !process.running() || http("GET", ops + (ready ? "/readyz" : "/healthz")).status == 200;
  });
  if (!up || (!may_end && !process.running())) {
    throw std::runtime_error("a program did not start:\n" + process.log());
  }
}

void Stack::start_api(const std::map<std::string, std::string>& extra, bool ready) {
  auto variables = environment();
  variables["DATABASE_URL"] = database_url("api");
  for (const auto& [name, value] : extra) {
    variables[name] = value;
  }
  api_.reset();
  std::string limit = options_.nofile;
  if (options_.descriptors > 0) {
    limit = std::to_string(options_.descriptors) + ":" + std::to_string(options_.descriptors);
  }
  api_ = std::make_unique<Process>(
      limited({program_path("audio-api"), "serve"}, limit), variables, folder_ + "/api.log");
  wait_ready(ops_url(), *api_, ready, extra.count("CRASH_POINT") != 0);
}

std::size_t Stack::start_worker(const std::map<std::string, std::string>& extra, bool ready) {
  auto variables = environment();
  const std::string listen = "127.0.0.1:" + std::to_string(free_port());
  variables["OPS_LISTEN"] = listen;
  variables["DATABASE_URL"] = database_url("worker");
  for (const auto& [name, value] : extra) {
    variables[name] = value;
  }
  const std::size_t index = workers_.size();
  worker_ops_urls_.push_back("http://" + listen);
  workers_.push_back(
      std::make_unique<Process>(limited({program_path("audio-worker")}, options_.nofile),
                                variables,
                                folder_ + "/worker" + std::to_string(index) + ".log"));
  // A job that waited may reach the crash point before anybody asked whether the worker is ready.
  wait_ready(worker_ops_urls_.back(), *workers_.back(), ready, extra.count("CRASH_POINT") != 0);
  return index;
}

Output Stack::admin_raw(std::vector<std::string> arguments) {
  std::vector<std::string> argv = {program_path("audio-api"), "admin"};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  auto variables = environment();
  variables["DATABASE_URL"] = url_of(database_.as("admin"));  // Not through a proxy under test.
  return run(argv, variables);
}

rapidjson::Document Stack::admin(std::vector<std::string> arguments) {
  arguments.emplace_back("--json");
  const Output output = admin_raw(arguments);
  rapidjson::Document document;
  document.Parse(output.out.c_str());
  EXPECT_EQ(output.code, 0) << output.out;
  EXPECT_FALSE(document.HasParseError()) << output.out;
  return document;
}

Account Stack::account(std::int64_t amount) {
  static int number = 0;
  Account out;
  out.email = "user" + std::to_string(++number) + "@example.com";
  out.user = admin({"user", "create", "--email", out.email, "--plan", "paid"})["id"].GetString();
  if (amount > 0) {
    admin({"credits",
           "grant",
           "--user",
           out.email,
           "--credits",
           std::to_string(amount),
           "--kind",
           "purchase",
           "--reference",
           "test-" + out.email});
  }
  out.key = admin({"key", "create", "--user", out.email, "--name", "test"})["key"].GetString();
  return out;
}

std::vector<std::string> Stack::bearer(const std::string& key, std::vector<std::string> more) {
  more.push_back("Authorization: Bearer " + key);
  return more;
}

std::string Stack::body(std::string_view prompt) {
  return R"({"model":"svc-audio-1.0","prompt":")" + std::string(prompt) + R"("})";
}

Reply Stack::judged(const std::string& method, const std::string& path_template, Reply reply) {
  const std::string wrong = openapi_.check(method, path_template, reply);
  EXPECT_EQ(wrong, "") << method << " " << path_template << " " << reply.error;
  return reply;
}

Reply Stack::create(const Account& account,
                    std::string_view body,
                    const std::vector<std::string>& headers) {
  std::vector<std::string> lines = bearer(account.key, headers);
  lines.emplace_back("Content-Type: application/json");
  return judged(
      "POST", "/audio/generations", http("POST", base() + "/audio/generations", lines, body));
}

Reply Stack::get(const Account& account, const std::string& id) {
  return judged("GET",
                "/audio/generations/{task_id}",
                http("GET", base() + "/audio/generations/" + id, bearer(account.key)));
}

Reply Stack::wait_final(const Account& account,
                        const std::string& id,
                        std::chrono::milliseconds limit) {
  Reply reply;
  const bool ended = eventually(limit, [&] {
    reply = get(account, id);
    const std::string status = reply.text("status");
    return status == "succeeded" || status == "failed" || status == "canceled";
  });
  EXPECT_TRUE(ended) << "not final in time: " << reply.status << " " << reply.body;
  return reply;
}

}  // namespace audiogen::test
