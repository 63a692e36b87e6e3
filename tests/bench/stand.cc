#include "tests/bench/stand.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include <unistd.h>

#include "common/domain/api_key.h"
#include "common/domain/request.h"
#include "common/queue/publisher.h"
#include "common/store/accounts.h"
#include "common/store/keys.h"
#include "tests/bench/cpu_time.h"
#include "tests/support/http_client.h"
#include "tests/support/places.h"
#include "tests/support/test_broker.h"

namespace audiogen::bench {
namespace {

using store::Sql;

constexpr std::string_view kBody =
    R"({"model":"svc-audio-1.0","prompt":"A calm voice over rain on a tin roof, telling of a long )"
    R"(journey home at night. Slow, warm, with pauses. The storm passes and a bird starts to sing )"
    R"(in the early light.","voice":"aria","output_format":"wav"})";

constexpr const char* kAudioSeconds = "0.417";  // 20 KB of 16-bit mono at 24 kHz.

// The processes of this machine that listen on a TCP port, as far as we may look into them.
std::vector<pid_t> listeners_on(std::uint16_t port) {
  char wanted[8];
  std::snprintf(wanted, sizeof wanted, ":%04X", port);
  std::set<std::string> sockets;
  for (const char* const table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream in(table);
    for (std::string line; std::getline(in, line);) {
      std::istringstream fields(line);
      std::string number, local, remote, state, skipped, inode;
      fields >> number >> local >> remote >> state;
      if (state == "0A" && local.ends_with(wanted)) {
        for (int i = 0; i < 5; ++i) {
          fields >> skipped;
        }
        fields >> inode;
        sockets.insert("socket:[" + inode + "]");
      }
    }
  }
  std::set<pid_t> out;
  std::error_code ignored;
  for (const auto& process : std::filesystem::directory_iterator("/proc", ignored)) {
    for (const auto& fd : std::filesystem::directory_iterator(process.path() / "fd", ignored)) {
      if (sockets.contains(std::filesystem::read_symlink(fd, ignored))) {
        out.insert(std::atoi(process.path().filename().c_str()));
      }
    }
  }
  return {out.begin(), out.end()};
}

// Where the stack's queues are.
AmqpUrl broker_of_the_stack() {
  AmqpUrl out = test::test_broker_url();
  out.vhost = test::Stack::virtual_host();
  return out;
}

}  // namespace

std::string numbers(std::int64_t from, std::int64_t count) {
  Sql sql("(WITH RECURSIVE d(n) AS (SELECT 0 UNION ALL SELECT n+1 FROM d WHERE n<999) SELECT ");
  sql << from << "+a.n*1000+b.n AS n FROM d a JOIN d b WHERE a.n<=" << count / 1000
      << " AND a.n*1000+b.n<" << count << ") x";
  return sql.text();
}

void fail(const std::string& why) {
  std::fprintf(stderr, "bench: %s\n", why.c_str());
  std::exit(1);
}

double memory_mb(pid_t pid, const std::string& name) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(name + ":")) {
      return std::atof(line.c_str() + name.size() + 1) / 1024;
    }
  }
  return 0;
}

std::string_view usual_body() {
  return kBody;
}

std::string usual_request() {
  const auto request = parse_request(kBody, {.model_name = "svc-audio-1.0"});
  return encode_request(*request);
}

store::CreateCommand usual_command(UserId user) {
  static const std::string kRequest = usual_request();
  store::CreateCommand out;
  out.id = TaskId::make();
  out.user = user;
  out.request = kRequest;
  out.output_format = OutputFormat::kWav;
  return out;
}

namespace {

// Runs `commands` with `use` until none of them met a held row.
template <class Command, class Use>
void run_all(std::vector<Command> commands, const Use& use) {
  while (!commands.empty()) {
    const auto results = use(commands);
    std::vector<Command> held;
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (!results[i] && results[i].error() == store::StoreFault::kLocked) {
        held.push_back(std::move(commands[i]));
      } else if (!results[i]) {
        fail("the store failed a command");
      }
    }
    commands = std::move(held);
  }
}

}  // namespace

void create_all(store::TaskStore& store, std::vector<store::CreateCommand> commands) {
  run_all(std::move(commands), [&](const auto& some) { return store.create(some); });
}

void settle_all(store::TaskStore& store, std::vector<store::SettleCommand> commands) {
  run_all(std::move(commands), [&](const auto& some) { return store.settle(some); });
}

std::vector<store::SettleCommand> claim_all(store::TaskStore& store,
                                            std::span<const TaskId> tasks,
                                            WorkerId worker) {
  std::vector<Hint> hints;
  for (const TaskId task : tasks) {
    hints.push_back({.task = task, .epoch = 0});
  }
  const auto claims = store.claim(hints, worker, [](const auto&) { return "double"; });
  std::vector<store::SettleCommand> out;
  for (const auto& result : claims) {
    if (!result || !*result) {
      fail("a free task cannot be claimed");
    }
    const auto& claim = *result;
    store::SettleCommand command;
    command.kind = store::SettleCommand::Kind::kSucceed;
    command.task = claim->task;
    command.user = claim->user;
    command.epoch = claim->epoch;
    command.output_key = claim->task.text() + "/0123456789abcdef.wav";
    command.output_bytes = 20'000;
    command.duration_ms = 417;
    command.call = 1;
    command.call_state = 2;
    command.held = claim->held;
    out.push_back(std::move(command));
  }
  return out;
}

Provider::Provider(const std::string& folder, const Delays& delays, int most)
    : file_(folder + "/providers.json") {
  const std::uint16_t port = test::free_port();
  process_ = std::make_unique<test::Process>(
      std::vector<std::string>{test::program_path("provider-double"),
                               "--port",
                               std::to_string(port),
                               "--seconds",
                               kAudioSeconds,
                               "--delay-ms",
                               std::to_string(delays.ms),
                               "--long-every",
                               std::to_string(delays.long_every),
                               "--long-ms",
                               std::to_string(delays.long_ms)},
      std::map<std::string, std::string>{},
      folder + "/provider.log");
  const std::string url = "http://127.0.0.1:" + std::to_string(port);
  if (!test::eventually(std::chrono::seconds(20),
                        [&] { return test::http("GET", url + "/calls").status == 200; })) {
    fail("provider-double does not start");
  }
  std::ofstream(file_) << R"({"providers":[{"name":"double","kind":"openai","base_url":")" << url
                       << R"(/v1","model":"m","max_in_flight":)" << most
                       << R"(,"timeout_seconds":60,"voices":{"aria":"coral"}}]})";
}

Proxy::Proxy(const std::string& folder, const std::vector<std::uint16_t>& apis)
    : port_(test::free_port()) {
  const std::string name = folder + "/nginx" + std::to_string(port_);
  std::ofstream conf(name + ".conf");
  // A master would leave its workers behind when it is killed: two single processes share the port.
  conf << "daemon off; master_process off; error_log stderr;\n"
          "events { worker_connections 2048; }\n"
          "http {\n  access_log off;\n  keepalive_requests 1000000000;\n";
  for (const char* const kind : {"client_body", "proxy", "fastcgi", "uwsgi", "scgi"}) {
    conf << "  " << kind << "_temp_path " << name << "." << kind << ";\n";
  }
  conf << "  upstream apis {\n    hash $http_authorization consistent;\n";
  for (const std::uint16_t api : apis) {
    conf << "    server 127.0.0.1:" << api << ";\n";
  }
  conf << "    keepalive 256;\n    keepalive_requests 1000000000;\n  }\n"
          "  server {\n    listen 127.0.0.1:"
       << port_
       << " reuseport;\n    location / {\n      proxy_pass http://apis;\n"
          "      proxy_http_version 1.1;\n      proxy_set_header Connection \"\";\n    }\n  }\n}\n";
  if (!conf.flush()) {
    fail("cannot write " + name + ".conf");
  }
  for (int i = 0; i < 2; ++i) {
    processes_.push_back(std::make_unique<test::Process>(
        std::vector<std::string>{"/usr/sbin/nginx",
                                 "-c",
                                 name + ".conf",
                                 "-g",
                                 "pid " + name + "." + std::to_string(i) + ".pid;"},
        std::map<std::string, std::string>{},
        name + ".log"));
  }
  if (!test::eventually(std::chrono::seconds(20),
                        [&] { return listeners_on(port_).size() == processes_.size(); })) {
    fail("nginx does not start:\n" + processes_.front()->log());
  }
}

std::vector<pid_t> Proxy::pids() const {
  std::vector<pid_t> out;
  for (const auto& process : processes_) {
    out.push_back(process->pid());
  }
  return out;
}

namespace {

std::vector<std::string>& kept_folders() {
  static std::vector<std::string> folders;
  return folders;
}

}  // namespace

Stand::~Stand() {
  kept_folders().push_back(stack_->log_folder());
}

void Stand::delete_files() {
  for (const std::string& folder : kept_folders()) {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }
}

Stand::Stand(const Options& options) {
  const AmqpUrl broker = broker_of_the_stack();
  test::purge_jobs(broker);
  std::map<std::string, std::string> environment = {
      {"LOG_LEVEL", "info"},  // The default; the tests' own is more talkative.
      // All clients here have one address, which as a proxy's may have all connections.
      {"TRUSTED_PROXIES", "127.0.0.1/32"},
      {"RATE_LIMIT_CREATE_PER_MINUTE", "10000000"},
      {"RATE_LIMIT_CREATE_BURST", "1000000"},
      {"RATE_LIMIT_READ_PER_MINUTE", "10000000"},
      {"RATE_LIMIT_READ_BURST", "1000000"},
      // One user's creations of a whole load stay open.
      {"OPEN_TASKS_PAID", "10000000"},
  };
  environment.insert(options.environment.begin(), options.environment.end());
  test::Stack::Options stack;
  stack.workers = 0;
  stack.api = options.api;
  stack.keep_folder = true;
  stack.amqp_url = options.amqp_url;
  stack.environment = std::move(environment);
  stack_ = std::make_unique<test::Stack>(stack);
  store::Session session(database());
  store::Accounts accounts(session);
  store::Keys keys(session);
  for (std::size_t i = 0; i < options.users; ++i) {
    const std::string email = "user" + std::to_string(i) + "@example.com";
    const auto user = accounts.create(email, store::Plan::kPaid);
    const NewApiKey key = make_api_key("svc");
    if (!user ||
        !accounts.grant(user->id, kGranted, store::GrantKind::kPurchase, "bench-" + email) ||
        !keys.add(user->id, {.name = "bench"}, key)) {
      fail("no account can be made");
    }
    users_.push_back(user->id);
    keys_.push_back(key.text);
  }
  watch("database", listeners_on(test::test_server().port));
  watch("broker", listeners_on(broker.port));
}

std::uint16_t Stand::api_port() const {
  const std::string& url = stack_->public_url();
  return static_cast<std::uint16_t>(std::stoi(url.substr(url.rfind(':') + 1)));
}

std::vector<TaskId> Stand::fill(std::size_t count, std::span<const UserId> users) {
  constexpr std::size_t kBatch = 250;
  store::TaskStore store(database());
  std::vector<TaskId> out;
  while (out.size() < count) {
    std::vector<store::CreateCommand> commands;
    for (std::size_t i = 0; i < std::min(kBatch, count - out.size()); ++i) {
      commands.push_back(usual_command(users[(out.size() + i) % users.size()]));
      // So that none is refused, however many wait before it.
      commands.back().deadline = std::chrono::hours(24);
    }
    for (const store::CreateCommand& command : commands) {
      out.push_back(command.id);
    }
    create_all(store, std::move(commands));
  }
  return out;
}

void Stand::publish(const std::vector<TaskId>& tasks) {
  std::vector<Hint> hints;
  for (const TaskId task : tasks) {
    hints.push_back({.task = task, .epoch = 0});
  }
  publish_all(hints);
}

void Stand::publish_released() {
  std::vector<Hint> hints;
  Sql sql("SELECT id, epoch, lane FROM tasks WHERE state=");
  sql << TaskState::kQueued << " AND lane<>" << Lane::kParked;
  store::Rows rows = stack_->database().session().query(sql);
  while (rows.next()) {
    hints.push_back({rows.id<TaskId>(1), rows.u32(2), static_cast<Lane>(rows.u32(3))});
  }
  publish_all(hints);
}

void Stand::publish_all(const std::vector<Hint>& hints) {
  std::atomic<std::size_t> confirmed{0};
  queue::Publisher publisher(
      broker_of_the_stack(), {}, [&](std::span<const Hint> some) { confirmed += some.size(); });
  std::span<const Hint> left = hints;  // More than it keeps in memory.
  if (!test::eventually(std::chrono::minutes(10), [&] {
        left = left.subspan(publisher.submit(left));
        return confirmed == hints.size();
      })) {
    fail("the broker does not take the hints");
  }
  publisher.stop(std::chrono::seconds(1));
}

int Stand::create(std::size_t user) {
  return test::http("POST",
                    stack_->base() + "/audio/generations",
                    test::Stack::bearer(keys_[user], {"Content-Type: application/json"}),
                    usual_body())
      .status;
}

Histogram Stand::claim_waits(std::size_t user, std::size_t count) {
  // With calls of a second this user has two or three tasks open, as one who wants little has; with
  // four and more they would go by the bulk lane, in turn with everybody's.
  constexpr std::chrono::milliseconds kBetween{500};
  const std::string from = stack_->database().text(Sql("SELECT UTC_TIMESTAMP(6)"));
  for (std::size_t i = 0; i < count; ++i) {
    if (const int status = create(user); status != 202) {
      fail("a creation was answered " + std::to_string(status));
    }
    test::pace(kBetween);
  }
  const auto theirs = [&](std::string_view what) {
    Sql sql = Sql::trusted("SELECT " + std::string(what) + " FROM tasks t WHERE created_at>='" +
                           from + "' AND user_id=");
    sql << users_[user];
    return sql;
  };
  const bool all = test::eventually(std::chrono::minutes(5), [&] {
    return stack_->database().number(theirs("COALESCE(SUM(attempts>0), 0)")) ==
           static_cast<std::int64_t>(count);
  });
  if (!all) {
    fail("tasks are not claimed");
  }
  Histogram waits;
  store::Rows rows = stack_->database().session().query(
      theirs("TIMESTAMPDIFF(MICROSECOND, created_at, (SELECT MIN(started_at) FROM attempts a "
             "WHERE a.task_id=t.id))"));
  while (rows.next()) {
    waits.record(std::chrono::microseconds(rows.i64(1)));
  }
  return waits;
}

std::uint16_t Stand::add_api() {
  const std::uint16_t port = test::free_port();
  const std::string ops = "127.0.0.1:" + std::to_string(test::free_port());
  auto environment = stack_->environment();
  environment["DATABASE_URL"] = stack_->database_url("api");
  environment["LISTEN"] = "127.0.0.1:" + std::to_string(port);
  environment["OPS_LISTEN"] = ops;
  more_apis_.push_back(std::make_unique<test::Process>(
      std::vector<std::string>{test::program_path("audio-api"), "serve"},
      environment,
      stack_->log_folder() + "/api" + std::to_string(port) + ".log"));
  if (!test::eventually(std::chrono::seconds(30), [&] {
        return test::http("GET", "http://" + ops + "/readyz").status == 200;
      })) {
    fail("one more API does not start:\n" + more_apis_.back()->log());
  }
  return port;
}

void Stand::add_worker(const std::map<std::string, std::string>& environment) {
  stack_->start_worker(environment, false);
  ++workers_;
}

std::int64_t Stand::running() {
  return stack_->database().number(Sql("SELECT COUNT(*) FROM tasks WHERE state=")
                                   << TaskState::kRunning);
}

double Stand::succeeded() const {
  constexpr std::string_view kLine =
      "\naudiogen_tasks_finished_total{code=\"\",state=\"succeeded\"} ";
  double sum = 0;
  for (std::size_t i = 0; i < workers_; ++i) {
    const std::string text = test::http("GET", stack_->worker_ops_url(i) + "/metrics").body;
    if (const auto at = text.find(kLine); at != std::string::npos) {
      sum += std::atof(text.c_str() + at + kLine.size());
    }
  }
  return sum;
}

Parts Stand::processes() const {
  Parts out = others_;
  if (stack_->has_api()) {
    out["api"].push_back(stack_->api().pid());
  }
  for (const auto& api : more_apis_) {
    out["api"].push_back(api->pid());
  }
  for (std::size_t i = 0; i < workers_; ++i) {
    out["workers"].push_back(stack_->worker(i).pid());
  }
  return out;
}

Usage Stand::usage() const {
  Parts parts = processes();
  parts["load"].push_back(::getpid());
  Usage out;
  for (const auto& [part, pids] : parts) {
    for (const pid_t pid : pids) {
      out[part] += cpu_seconds(pid).value_or(0);
    }
  }
  return out;
}

double Stand::api_rss() const {
  return memory_mb(stack_->api().pid(), "VmRSS");
}

double Stand::worker_rss_max() const {
  double out = 0;
  for (std::size_t i = 0; i < workers_; ++i) {
    out = std::max(out, memory_mb(stack_->worker(i).pid(), "VmHWM"));
  }
  return out;
}

void Stand::audit() {
  const test::Output out = stack_->admin_raw({"audit"});
  if (out.code != 0) {
    fail("the books are not clean:\n" + out.out);
  }
}

double metric(const std::string& ops, std::string_view name) {
  const std::string text = test::http("GET", ops + "/metrics").body;
  const std::string line = "\n" + std::string(name) + " ";
  const auto at = text.find(line);
  return at == std::string::npos ? 0 : std::atof(text.c_str() + at + line.size());
}

}  // namespace audiogen::bench
