// What the header promises, by rabbitmq-c directly and by ./dev for whole brokers.
#include "tests/support/test_broker.h"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/types.h>
#include <unistd.h>

#include "common/base/ids.h"
#include "common/queue/rabbitmq_c.h"
#include "tests/support/places.h"
#include "tests/support/process.h"
#include "tests/support/wait.h"

namespace audiogen::test {
namespace {

[[noreturn]] void give_up(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  std::abort();
}

amqp_bytes_t bytes(std::string_view text) {
  return {text.size(), const_cast<char*>(text.data())};
}

constexpr amqp_channel_t kChannel = 1;

// Runs `use` with an open channel. Ends the test when the last reply is an error, unless
// `may_fail`.
void with_channel(const AmqpUrl& url,
                  bool may_fail,
                  const std::function<void(amqp_connection_state_t)>& use) {
  amqp_connection_state_t connection = amqp_new_connection();
  amqp_socket_t* socket = amqp_tcp_socket_new(connection);
  timeval limit{20, 0};
  if (amqp_socket_open_noblock(socket, url.host.c_str(), url.port, &limit) != AMQP_STATUS_OK) {
    give_up("no broker at " + url.host + ":" + std::to_string(url.port));
  }
  amqp_set_rpc_timeout(connection, &limit);
  const amqp_rpc_reply_t login = amqp_login(connection,
                                            url.vhost.c_str(),
                                            1,
                                            131'072,
                                            0,
                                            AMQP_SASL_METHOD_PLAIN,
                                            url.user.c_str(),
                                            url.password.c_str());
  if (login.reply_type != AMQP_RESPONSE_NORMAL) {
    give_up("the broker does not let the test in");
  }
  amqp_channel_open(connection, kChannel);
  use(connection);
  if (!may_fail && amqp_get_rpc_reply(connection).reply_type != AMQP_RESPONSE_NORMAL) {
    give_up("the broker refused what the test asked for");
  }
  amqp_destroy_connection(connection);
}

bool port_free(std::uint16_t port) {
  const int probe = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  const int on = 1;
  setsockopt(probe, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const bool free = bind(probe, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  close(probe);
  return free;
}

// Runs a shell command; its standard output, or the end of the test when it fails.
std::string run_shell(const std::string& command) {
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) {
    give_up("cannot run a command");
  }
  std::string out;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) {
    out.push_back(static_cast<char>(c));
  }
  if (pclose(pipe) != 0) {
    give_up("failed: " + command);
  }
  return out;
}

std::string quoted(const std::filesystem::path& path) {
  return "'" + path.string() + "'";
}

std::string dev(const std::string& action,
                const std::filesystem::path& folder,
                std::uint16_t port) {
  return quoted(std::filesystem::path(source_path("dev"))) + " _rabbitmq " + action + " " +
         quoted(folder) + " " + std::to_string(port);
}

}  // namespace

AmqpUrl parse_broker_url(const std::string& from) {
  std::string text = from;  // Cut into pieces by the library.
  amqp_connection_info info{};
  if (amqp_parse_url(text.data(), &info) != AMQP_STATUS_OK) {
    give_up("not an AMQP URL: amqp://user:pass@host:port/ is expected");
  }
  return {.user = info.user,
          .password = info.password,
          .host = info.host,
          .vhost = *info.vhost == '\0' ? "/" : info.vhost,
          .port = static_cast<std::uint16_t>(info.port)};
}

std::string text_of(const AmqpUrl& url) {
  return "amqp://" + url.user + ":" + url.password + "@" + url.host + ":" +
         std::to_string(url.port) + "/" + (url.vhost == "/" ? "" : url.vhost);
}

AmqpUrl test_broker_url() {
  const char* text = std::getenv("TEST_AMQP_URL");
  if (text == nullptr) {
    give_up("TEST_AMQP_URL is not set: amqp://user:pass@host:port/ of a RabbitMQ for tests");
  }
  return parse_broker_url(text);
}

void purge_jobs(const AmqpUrl& url, const queue::Topology& names) {
  for (const std::string& queue : {names.jobs(), names.express()}) {
    with_channel(url, true, [&](amqp_connection_state_t connection) {
      amqp_queue_purge(connection, kChannel, bytes(queue));
    });
  }
}

void delete_jobs(const AmqpUrl& url, const queue::Topology& names) {
  for (const std::string& queue : {names.jobs(), names.express()}) {
    with_channel(url, true, [&](amqp_connection_state_t connection) {
      amqp_queue_delete(connection, kChannel, bytes(queue), 0, 0);
    });
  }
}

void unbind_jobs(const AmqpUrl& url, const queue::Topology& names) {
  const std::string exchange = names.exchange();
  for (const auto& [queue, key] : {std::pair(names.jobs(), "job"), {names.express(), "express"}}) {
    with_channel(url, false, [&](amqp_connection_state_t connection) {
      amqp_queue_unbind(
          connection, kChannel, bytes(queue), bytes(exchange), bytes(key), amqp_empty_table);
    });
  }
}

int deepest() {
  return AMQP_VERSION >= AMQP_VERSION_CODE(0, 14, 0, 0) ? 90 : 15'000;  // A limit of 100 by then.
}

void publish(const AmqpUrl& url, std::string_view body, int depth, const queue::Topology& names) {
  // From the inside out; the vector never moves its elements.
  std::vector<amqp_table_entry_t> entries;
  entries.reserve(static_cast<std::size_t>(depth) + 1);
  amqp_table_t headers = amqp_empty_table;
  for (int i = 0; i < depth; ++i) {
    amqp_table_entry_t entry{};
    entry.key = amqp_cstring_bytes("t");
    entry.value.kind = AMQP_FIELD_KIND_TABLE;
    entry.value.value.table = headers;
    entries.push_back(entry);
    headers = {1, &entries.back()};
  }
  amqp_basic_properties_t properties{};
  properties._flags = AMQP_BASIC_DELIVERY_MODE_FLAG;
  properties.delivery_mode = AMQP_DELIVERY_PERSISTENT;
  if (depth > 0) {
    properties._flags |= AMQP_BASIC_HEADERS_FLAG;
    properties.headers = headers;
  }
  // False: there is no queue for it. Whoever unbound it is noticed by the programs' next message.
  const auto taken = [&] {
    bool out = false;
    with_channel(url, false, [&](amqp_connection_state_t connection) {
      amqp_confirm_select(connection, kChannel);
      const std::string exchange = names.exchange();
      const int status = amqp_basic_publish(
          connection, kChannel, bytes(exchange), bytes("job"), 1, 0, &properties, bytes(body));
      amqp_frame_t frame{};
      timeval limit{60, 0};
      if (status != AMQP_STATUS_OK ||
          amqp_simple_wait_frame_noblock(connection, &frame, &limit) != AMQP_STATUS_OK ||
          frame.frame_type != AMQP_FRAME_METHOD) {
        give_up("the broker did not answer the test's message");
      }
      out = frame.payload.method.id == AMQP_BASIC_ACK_METHOD;
      if (!out && frame.payload.method.id != AMQP_BASIC_RETURN_METHOD) {
        give_up("the broker did not take the test's message");
      }
    });
    return out;
  };
  const bool in_time = eventually(std::chrono::minutes(1), [&] {
    if (taken()) {
      return true;
    }
    pace(std::chrono::milliseconds(50));
    return false;
  });
  if (!in_time) {
    give_up("there is no queue for the test's message");
  }
}

TestTopology::TestTopology(const AmqpUrl& url, std::int64_t max_length)
    : url_(url), names_{.prefix = "test-" + random_base32(12), .max_length = max_length} {}

TestTopology::~TestTopology() {
  with_channel(url_, true, [&](amqp_connection_state_t connection) {
    for (const std::string& queue : {names_.jobs(), names_.express(), names_.dead()}) {
      amqp_queue_delete(connection, kChannel, bytes(queue), 0, 0);
    }
    for (const std::string& exchange : {names_.exchange(), names_.dead_exchange()}) {
      amqp_exchange_delete(connection, kChannel, bytes(exchange), 0);
    }
  });
}

void TestTopology::declare_jobs_otherwise() {
  with_channel(url_, false, [&](amqp_connection_state_t connection) {
    const std::string jobs = names_.jobs();
    amqp_queue_declare(connection, kChannel, bytes(jobs), 0, 1, 0, 0, amqp_empty_table);
  });
}

PrivateBroker::PrivateBroker(const std::function<void(const std::string& folder)>& prepare) {
  const char* parent = std::getenv("TEST_STACK_DIR");
  const std::filesystem::path under =
      parent != nullptr ? std::filesystem::path(parent) : std::filesystem::temp_directory_path();
  std::string name = (under / "broker-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) {
    give_up("cannot make a folder under " + under.string());
  }
  folder_ = name;
  for (port_ = 29'672; !port_free(port_) || !port_free(static_cast<std::uint16_t>(port_ + 1)) ||
                       !port_free(static_cast<std::uint16_t>(port_ + 2));) {
    port_ = static_cast<std::uint16_t>(port_ + 3);
  }
  if (prepare) {
    prepare(folder_);
  }
  start();
}

PrivateBroker::~PrivateBroker() {
  kill();
  run_shell(dev("stop", folder_, port_) + " >&2");  // What else came with it.
  std::filesystem::remove_all(folder_);
}

void PrivateBroker::start() {
  std::string text = run_shell(dev("start", folder_, port_));
  text.resize(text.find_last_not_of('\n') + 1);
  url_ = parse_broker_url(text);
}

void PrivateBroker::kill() {
  run_shell(dev("kill", folder_, port_) + " >&2");
}

void PrivateBroker::wipe() {
  kill();
  for (const char* const data : {"mnesia", "mnesia-4"}) {
    std::filesystem::remove_all(folder_ / data);
  }
}

int PrivateBroker::pid() const {
  int pid = 0;
  std::ifstream(folder_ / "rabbitmq.pid") >> pid;
  if (pid <= 1) {
    give_up("the broker's process is unknown");
  }
  return pid;
}

void PrivateBroker::freeze() {
  const int process = pid();
  ::kill(process, SIGSTOP);
  // The signal stops one thread after the other.
  eventually(std::chrono::minutes(1), [&] { return all_threads_stopped(process); });
}

void PrivateBroker::thaw() {
  ::kill(pid(), SIGCONT);
}

void PrivateBroker::alarm() {
  control("set_vm_memory_high_watermark absolute 1");
}

void PrivateBroker::no_alarm() {
  control("set_vm_memory_high_watermark 0.9");
}

void PrivateBroker::renew_certificate() {
  control("eval 'ssl:clear_pem_cache().'");
}

void PrivateBroker::disk_alarm() {
  control("set_disk_free_limit 999999999999999");
}

void PrivateBroker::no_disk_alarm() {
  control("set_disk_free_limit 50000000");
}

void PrivateBroker::end_channels_after(std::chrono::milliseconds unacknowledged) {
  control("eval 'application:set_env(rabbit, consumer_timeout, " +
          std::to_string(unacknowledged.count()) +
          "), application:set_env(rabbit, channel_tick_interval, 500).'");
}

void PrivateBroker::control(const std::string& arguments) {
  run_shell(dev("control", folder_, port_) + " " + arguments + " >&2");
}

}  // namespace audiogen::test
