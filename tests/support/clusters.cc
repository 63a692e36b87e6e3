#include "tests/support/clusters.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string_view>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/store/session.h"
#include "tests/support/places.h"
#include "tests/support/process.h"
#include "tests/support/test_broker.h"
#include "tests/support/test_database.h"

namespace audiogen::test {
namespace {

using namespace std::chrono_literals;

constexpr std::uint16_t kDatabasePort = 3306, kBrokerPort = 5672;
constexpr auto kBetweenLooks = 200ms;
constexpr int kBadLooks = 2;

void need(bool worked, const char* what) {
  if (!worked) {
    throw std::runtime_error(std::string(what) + ": " + std::strerror(errno));
  }
}

Output dev(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), source_path("dev"));
  return run(arguments, {});
}

void dev_nodes(const std::vector<std::string>& arguments) {
  std::vector<std::string> all = {"_nodes"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  if (dev(all).code != 0) {
    throw std::runtime_error("no such nodes: " + arguments.front());
  }
}

std::optional<std::string> variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
}

void set_variable(const char* name, const std::optional<std::string>& value) {
  if (value) {
    ::setenv(name, value->c_str(), 1);
  } else {
    ::unsetenv(name);
  }
}

// Whether a broker greets: a frozen one does not, and a paused one does not listen.
bool greets(int node, bool /*leads*/) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(kBrokerPort);
  ::inet_pton(AF_INET, address_of_node(node).c_str(), &address.sin_addr);
  const timeval limit{.tv_sec = 1, .tv_usec = 0};
  ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  constexpr std::string_view kHello("AMQP\0\0\x09\x01", 8);
  char first = 0;
  const bool out =
      ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      ::send(fd, kHello.data(), kHello.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(kHello.size()) &&
      ::recv(fd, &first, 1, 0) == 1;
  ::close(fd);
  return out;
}

// Whether a database may be written to: it belongs to a majority and has caught up with it. One
// that gives a returning node what it lacks keeps its clients. `session` is kept from look to look:
// a new one waits while a node that has just died is still counted.
bool takes_writes(store::Session& session, bool leads) {
  try {
    store::Rows rows = session.query(
        store::Sql("SELECT SUM(variable_name='wsrep_ready' AND variable_value='ON'), "
                   "SUM(variable_name='wsrep_cluster_status' AND variable_value='Primary'), "
                   "MAX(IF(variable_name='wsrep_local_state',variable_value,0)) "
                   "FROM information_schema.global_status WHERE variable_name IN "
                   "('wsrep_ready','wsrep_cluster_status','wsrep_local_state')"));
    constexpr std::int64_t kDonor = 2, kSynced = 4;
    return rows.next() && rows.i64(1) == 1 && rows.i64(2) == 1 &&
           (rows.i64(3) == kSynced || (leads && rows.i64(3) == kDonor));
  } catch (const store::DbError&) {
    return false;
  }
}

}  // namespace

std::string address_of_node(int node) {
  return "10.99." + std::to_string(node) + ".2";
}

Nodes::Nodes() {
  need(::unshare(CLONE_NEWNS | CLONE_NEWNET) == 0, "unshare");
  need(::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0, "mount --make-rprivate");
  dev_nodes({"make"});
}

void Nodes::unplug(int node) {
  dev_nodes({"unplug", std::to_string(node)});
}

void Nodes::plug(int node) {
  dev_nodes({"plug", std::to_string(node)});
}

void Nodes::plug_all() {
  for (const int node : kNodes) {
    plug(node);
  }
}

Balancer::Balancer(std::uint16_t port,
                   std::array<int, 3> order,
                   std::function<bool(int node, bool leads)> well)
    : node_port_(port), order_(order), well_(std::move(well)), proxy_(port) {
  proxy_.refuse();
  for (std::atomic<int>& looks : bad_looks_) {
    looks = kBadLooks;
  }
  for (const int node : kNodes) {
    threads_.emplace_back([this, node] { look_at(node); });
  }
  threads_.emplace_back([this] {
    while (!stopping_) {
      choose();
      pace(20ms);
    }
  });
}

Balancer::~Balancer() {
  stopping_ = true;
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

void Balancer::look_at(int node) {
  std::atomic<int>& bad = bad_looks_.at(static_cast<std::size_t>(node));
  while (!stopping_) {
    bad = well_(node, leads_to_ == node) ? 0 : bad + 1;
    pace(kBetweenLooks);
  }
}

bool Balancer::all_well() const {
  return std::all_of(kNodes.begin(), kNodes.end(), [&](int node) {
    return bad_looks_.at(static_cast<std::size_t>(node)) == 0;
  });
}

void Balancer::choose() {
  const auto well = [&](int node) {
    return node != 0 && bad_looks_.at(static_cast<std::size_t>(node)) < kBadLooks;
  };
  const int before = leads_to_;
  if (well(before)) {
    return;
  }
  const auto next = std::find_if(order_.begin(), order_.end(), well);
  const int now = next == order_.end() ? 0 : *next;
  if (now == before) {
    return;
  }
  proxy_.refuse();
  proxy_.cut_all();
  if (now != 0) {
    proxy_.set_target(node_port_, address_of_node(now));
    proxy_.accept_again();
  }
  leads_to_ = now;
}

ClusterServers::ClusterServers(std::string command, std::string pid_file)
    : command_(std::move(command)), pid_file_(std::move(pid_file)) {
  const std::optional<std::string> parent = variable("TEST_STACK_DIR");
  const std::filesystem::path under =
      parent ? std::filesystem::path(*parent) : std::filesystem::temp_directory_path();
  folder_ = (under / "cluster-XXXXXX").string();
  need(::mkdtemp(folder_.data()) != nullptr, "mkdtemp");
  start();
}

ClusterServers::~ClusterServers() {
  for (const int node : kNodes) {
    thaw(node);
    kill(node);
    stop(node);  // What came with it.
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

std::string ClusterServers::control(std::vector<std::string> arguments) const {
  arguments.insert(arguments.begin() + 1, folder_);
  arguments.insert(arguments.begin(), command_);
  const Output output = dev(arguments);
  if (output.code != 0) {
    throw std::runtime_error("./dev " + command_ + " " + arguments.at(1) +
                             " failed: " + output.out);
  }
  return output.out;
}

void ClusterServers::kill(std::span<const int> nodes) {
  for (const int node : nodes) {
    if (const pid_t process = pid(node); process > 1) {
      ::kill(process, SIGKILL);
    }
  }
  for (const int node : nodes) {
    control({"kill", std::to_string(node)});
  }
}

void ClusterServers::stop(int node) {
  control({"stop", std::to_string(node)});
}

void ClusterServers::start() {
  std::istringstream lines(control({"start"}));
  for (std::string line; std::getline(lines, line);) {
    if (line.find("://") != std::string::npos) {
      url_ = line;
    }
  }
}

void ClusterServers::mend() {
  for (const int node : kNodes) {
    thaw(node);
  }
  start();
}

pid_t ClusterServers::pid(int node) const {
  pid_t pid = -1;
  std::ifstream(folder_ + "/" + std::to_string(node) + "/" + pid_file_) >> pid;
  return pid;
}

void ClusterServers::freeze(int node) const {
  if (const pid_t process = pid(node); process > 1) {
    ::kill(process, SIGSTOP);
    eventually(5s, [&] { return all_threads_stopped(process); });
  }
}

void ClusterServers::thaw(int node) const {
  if (const pid_t process = pid(node); process > 1) {
    ::kill(process, SIGCONT);
  }
}

bool ClusterServers::frozen(int node) const {
  const pid_t process = pid(node);
  return process > 1 && all_threads_stopped(process);
}

DatabaseCluster::DatabaseCluster()
    : ClusterServers("_galera", "mariadbd.pid"),
      before_(variable("TEST_DATABASE_URL")),
      clients_before_(variable("TEST_DATABASE_CLIENTS")) {
  set_variable("TEST_DATABASE_URL", url());
  store::init_driver();
  store::SessionOptions impatient;
  impatient.connect_timeout = impatient.read_timeout = impatient.write_timeout = 1s;
  std::array<std::shared_ptr<store::Session>, 4> sessions;
  for (const int node : kNodes) {
    sessions.at(static_cast<std::size_t>(node)) =
        std::make_shared<store::Session>(server(node), impatient);
  }
  balancer_.emplace(kDatabasePort, kNodes, [sessions](int node, bool leads) {
    return takes_writes(*sessions.at(static_cast<std::size_t>(node)), leads);
  });
  std::string through = url();
  const std::string port = ":" + std::to_string(kDatabasePort) + "/";
  through.replace(through.find(port), port.size(), ":" + std::to_string(balancer_->port()) + "/");
  set_variable("TEST_DATABASE_URL", through);
  set_variable("TEST_DATABASE_CLIENTS", "10.99.%");
  if (!whole(240s) || !eventually(60s, [&] { return writer() != 0; })) {
    throw std::runtime_error("the databases are no cluster");
  }
}

DatabaseCluster::~DatabaseCluster() {
  balancer_.reset();
  set_variable("TEST_DATABASE_URL", before_);
  set_variable("TEST_DATABASE_CLIENTS", clients_before_);
}

bool DatabaseCluster::whole(std::chrono::seconds limit) const {
  return eventually(limit, [&] { return balancer_->all_well(); });
}

DatabaseUrl DatabaseCluster::server(int node) const {
  DatabaseUrl out = test_server();
  out.host = address_of_node(node);
  out.port = kDatabasePort;
  return out;
}

BrokerCluster::BrokerCluster() : ClusterServers("_rabbits", "rabbitmq.pid") {
  api_.emplace(kBrokerPort, std::array{1, 2, 3}, greets);
  workers_.emplace(kBrokerPort, std::array{2, 3, 1}, greets);
  for_api_ = for_workers_ = parse_broker_url(url());
  for_api_.port = api_->port();
  for_workers_.port = workers_->port();
  if (!whole(240s)) {
    throw std::runtime_error("the brokers are no cluster");
  }
}

void BrokerCluster::mend() {
  for (const int node : kNodes) {
    if (frozen(node)) {
      thaw(node);
      kill(node);
    }
  }
  ClusterServers::mend();
}

bool BrokerCluster::whole(std::chrono::seconds limit) const {
  return eventually(limit, [&] {
    return api_->all_well() && workers_->all_well() && api_->leads_to() != 0 &&
           workers_->leads_to() != 0 && knows_all(api_->leads_to());
  });
}

bool BrokerCluster::knows_all(int node) const {
  try {
    return control({"control",
                    std::to_string(node),
                    "eval",
                    "{length(rabbit_nodes:all_running()), rabbit_node_monitor:partitions()}."}) ==
           "{3,[]}\n";
  } catch (const std::runtime_error&) {
    return false;  // Not there yet.
  }
}

std::string BrokerCluster::ask_of(const std::string& queue, const std::string& what) const {
  return control({"control",
                  std::to_string(api_is_led_to()),
                  "eval",
                  "{ok, Q} = rabbit_amqqueue:lookup(rabbit_misc:r(<<\"/\">>, queue, <<\"" + queue +
                      "\">>)), " + what + "."});
}

int BrokerCluster::leader_of(const std::string& queue) const {
  const std::string out = ask_of(queue, "{_, Node} = amqqueue:get_pid(Q), Node");
  constexpr std::string_view kBefore = "@10.99.0.";
  const auto at = out.find(kBefore);
  return at == std::string::npos ? 0 : std::atoi(out.c_str() + at + kBefore.size());
}

int BrokerCluster::members_of(const std::string& queue) const {
  return std::atoi(ask_of(queue, "length(maps:get(nodes, amqqueue:get_type_state(Q)))").c_str());
}

}  // namespace audiogen::test
