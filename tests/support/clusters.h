// Three nodes as of three machines, on each a database of one cluster (Galera) and a broker of
// another, and before each cluster a load balancer, by which alone clients reach it. For root only:
// the nodes are network namespaces (.dev/clusters.sh).
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <sys/types.h>

#include "common/base/config.h"
#include "tests/support/tcp_proxy.h"

namespace audiogen::test {

inline constexpr std::array kNodes = {1, 2, 3};

// The nodes, and the switch among them. From its making on this process, which must have one
// thread, and its children have a network for themselves.
class Nodes {
 public:
  Nodes();
  Nodes(const Nodes&) = delete;
  Nodes& operator=(const Nodes&) = delete;

  // The other nodes hear nothing from it any more, and it nothing from them; clients reach it.
  void unplug(int node);
  void plug(int node);
  void plug_all();
};

// Where a node is for clients.
std::string address_of_node(int node);

// Leads all connections to one node: the first of an order that is well, for as long as it is.
// Another one gets them when it is not, and connections to the one before are cut first. It looks
// at each node every 200 ms; two bad looks in a row, a second each at most, and it is not well.
class Balancer {
 public:
  // `well` may block for a second, is called from one thread for each node, and must not throw;
  // `leads`: connections go there now.
  Balancer(std::uint16_t port,
           std::array<int, 3> order,
           std::function<bool(int node, bool leads)> well);
  ~Balancer();
  Balancer(const Balancer&) = delete;
  Balancer& operator=(const Balancer&) = delete;

  std::uint16_t port() const { return proxy_.port(); }
  int leads_to() const { return leads_to_.load(); }  // 0: no node is well.
  bool all_well() const;

 private:
  void look_at(int node);
  void choose();

  const std::uint16_t node_port_;
  const std::array<int, 3> order_;
  const std::function<bool(int, bool)> well_;
  TcpProxy proxy_;
  std::atomic<int> leads_to_{0};
  std::array<std::atomic<int>, 4> bad_looks_;  // In a row, by node.
  std::atomic<bool> stopping_{false};
  std::vector<std::thread> threads_;
};

// What both clusters have in common: a server on each node, to kill, freeze and bring back.
class ClusterServers {
 public:
  ~ClusterServers();
  ClusterServers(const ClusterServers&) = delete;
  ClusterServers& operator=(const ClusterServers&) = delete;

  void kill(std::span<const int> nodes);  // kill -9, all in the same moment.
  void kill(int node) { kill(std::array{node}); }
  void stop(int node);          // As an administrator does.
  void freeze(int node) const;  // SIGSTOP
  void thaw(int node) const;    // SIGCONT
  bool frozen(int node) const;
  void start();  // All that do not run; returns when they are well.
  void mend();   // Thaws all and starts all that do not run.

 protected:
  ClusterServers(std::string command, std::string pid_file);
  std::string control(std::vector<std::string> arguments) const;
  const std::string& url() const { return url_; }  // With the users' password.

 private:
  pid_t pid(int node) const;

  const std::string command_, pid_file_;
  std::string folder_, url_;
};

// While it lives, TestDatabase makes its databases there.
class DatabaseCluster : public ClusterServers {
 public:
  DatabaseCluster();
  ~DatabaseCluster();

  // The one node on which everybody reads and writes.
  int writer() const { return balancer_->leads_to(); }
  // Waits until every node is there and in step with the others.
  bool whole(std::chrono::seconds limit) const;
  // The server of one node, past the balancer, for the owner.
  DatabaseUrl server(int node) const;

 private:
  std::optional<std::string> before_, clients_before_;  // The environment.
  std::optional<Balancer> balancer_;
};

// Two balancers: the API and the workers are led to different nodes as long as they are well.
class BrokerCluster : public ClusterServers {
 public:
  BrokerCluster();

  // A broker that was frozen is started again, as its operator has to: pause_minority does not end
  // the partition that it brought about.
  void mend();
  const AmqpUrl& for_api() const { return for_api_; }
  const AmqpUrl& for_workers() const { return for_workers_; }
  // Waits until every node is there and knows all others.
  bool whole(std::chrono::seconds limit) const;
  // Of a quorum queue of the virtual host "/": on which node its leader is, and on how many it has
  // members. While all are well.
  int leader_of(const std::string& queue) const;
  int members_of(const std::string& queue) const;
  int api_is_led_to() const { return api_->leads_to(); }

 private:
  bool knows_all(int node) const;
  std::string ask_of(const std::string& queue, const std::string& what) const;

  std::optional<Balancer> api_, workers_;
  AmqpUrl for_api_, for_workers_;
};

}  // namespace audiogen::test
