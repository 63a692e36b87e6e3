// The whole service for one test: a fresh database, real audio-api and audio-worker processes, an
// account.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/config.h"
#include "tests/support/http_client.h"
#include "tests/support/openapi.h"
#include "tests/support/process.h"
#include "tests/support/test_database.h"

namespace audiogen::test {

// A user with a key.
struct Account {
  std::string user;  // usr_…
  std::string email;
  std::string key;
};

class Stack {
 public:
  struct Options {
    int workers = 1;
    bool api = true;
    std::map<std::string, std::string> environment;  // For both programs, over the defaults.
    std::string database_url;  // Empty: the test database; else e.g. through a proxy.
    std::string amqp_url;      // Empty: TEST_AMQP_URL.
    int descriptors = 0;       // RLIMIT_NOFILE of the API, soft and hard; 0: this process's.
    std::string nofile;        // The same of all programs, as prlimit has it ("soft:hard").
    bool keep_folder = false;  // Logs and files stay for the caller to delete.
  };

  Stack();
  explicit Stack(const Options& options);
  ~Stack();
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;

  std::string base() const { return public_url_ + "/api/v1"; }
  std::uint16_t api_port() const { return api_port_; }
  const std::string& public_url() const { return public_url_; }
  std::string ops_url() const { return "http://127.0.0.1:" + std::to_string(api_ops_port_); }
  TestDatabase& database() { return database_; }
  // The programs' DATABASE_URL, by this port of the loopback interface instead of the server's.
  std::string database_through(std::uint16_t port) const;

  // (Re)starts a program and waits until it says it is ready, or with `ready` false only until it
  // listens.
  void start_api(const std::map<std::string, std::string>& extra = {}, bool ready = true);
  std::size_t start_worker(const std::map<std::string, std::string>& extra = {}, bool ready = true);
  bool has_api() const { return api_ != nullptr; }
  Process& api() { return *api_; }
  Process& worker(std::size_t index) { return *workers_.at(index); }
  const std::string& worker_ops_url(std::size_t index) const { return worker_ops_urls_.at(index); }

  // `audio-api admin … --json`: its object. Fails the test when the command fails.
  rapidjson::Document admin(std::vector<std::string> arguments);
  Output admin_raw(std::vector<std::string> arguments);

  // A user with a paid plan, `credits` and a key.
  Account account(std::int64_t credits = 10'000);

  // One request to the API, with the key, judged by the published description.
  Reply create(const Account& account,
               std::string_view body,
               const std::vector<std::string>& headers = {});
  Reply get(const Account& account, const std::string& id);
  // Polls until the task is final; the last reply.
  Reply wait_final(const Account& account,
                   const std::string& id,
                   std::chrono::milliseconds limit = std::chrono::seconds(60));
  // Judges any reply of an operation by the published description and returns it.
  Reply judged(const std::string& method, const std::string& path_template, Reply reply);

  // The minimal valid body.
  static std::string body(std::string_view prompt = "Hello world, this is a test.");
  static std::vector<std::string> bearer(const std::string& key,
                                         std::vector<std::string> more = {});

  std::string log_folder() const { return folder_; }
  // The virtual host of the broker on which its queues are: one of those that ctest gives to one
  // test at a time, or "/", which without ctest nobody else may use meanwhile.
  static std::string virtual_host();
  // Of both programs, but for the database's user: here it is the owner.
  std::map<std::string, std::string> environment() const;
  // DATABASE_URL of a program: of its own user, "api", "worker" or "admin".
  std::string database_url(const std::string& role);
  // The same, by this port of the loopback interface instead of the server's.
  std::string database_url(const std::string& role, std::uint16_t port);

 private:
  void wait_ready(const std::string& ops, Process& process, bool ready, bool may_end) const;

  Options options_;
  TestDatabase database_;
  std::string folder_;
  std::uint16_t api_port_ = 0, api_ops_port_ = 0;
  std::string public_url_;
  OpenApi openapi_;
  std::unique_ptr<Process> api_;
  std::vector<std::unique_ptr<Process>> workers_;
  std::vector<std::string> worker_ops_urls_;
};

}  // namespace audiogen::test
