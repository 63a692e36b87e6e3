// The broker as tests use it: names of their own on a shared one, or a whole broker to break.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/config.h"
#include "common/queue/amqp.h"

namespace audiogen::test {

// The broker under test: amqp://user:pass@host:port/ of a user that may do everything. Ends the
// process with a clear message when TEST_AMQP_URL is missing or malformed.
AmqpUrl test_broker_url();
// The same of any such text.
AmqpUrl parse_broker_url(const std::string& text);
// As programs take it. Virtual hosts of tests have names that nothing must be escaped in.
std::string text_of(const AmqpUrl& url);

// What an operator (or an enemy) may do to the work queues, the service's own unless others are
// named. Every call opens a connection of its own; a failure ends the test, but that there is no
// queue is none.
void purge_jobs(const AmqpUrl& url, const queue::Topology& names = {});
void delete_jobs(const AmqpUrl& url, const queue::Topology& names = {});
void unbind_jobs(const AmqpUrl& url, const queue::Topology& names = {});
// So many tables within each other rabbitmq-c can receive.
int deepest();
// Sends `body` to the work queue, confirmed. `depth`: with a header of so many nested tables.
void publish(const AmqpUrl& url,
             std::string_view body,
             int depth = 0,
             const queue::Topology& names = {});

// Names nobody else uses, deleted at the end.
class TestTopology {
 public:
  explicit TestTopology(const AmqpUrl& url = test_broker_url(), std::int64_t max_length = 100'000);
  ~TestTopology();
  TestTopology(const TestTopology&) = delete;
  TestTopology& operator=(const TestTopology&) = delete;

  const queue::Topology& names() const { return names_; }

  void publish(std::string_view body, int depth = 0) const {
    test::publish(url_, body, depth, names_);
  }
  void delete_jobs() const { test::delete_jobs(url_, names_); }
  void unbind_jobs() const { test::unbind_jobs(url_, names_); }
  // A work queue with other arguments than ours.
  void declare_jobs_otherwise();

 private:
  const AmqpUrl url_;
  const queue::Topology names_;
};

// A RabbitMQ of the test's own, in a folder that is deleted at the end. Takes seconds to start.
class PrivateBroker {
 public:
  // `prepare` may put things into its folder first, as Certificates::give_to_server does.
  explicit PrivateBroker(const std::function<void(const std::string& folder)>& prepare = {});
  ~PrivateBroker();
  PrivateBroker(const PrivateBroker&) = delete;
  PrivateBroker& operator=(const PrivateBroker&) = delete;

  const AmqpUrl& url() const { return url_; }
  void kill();    // kill -9
  void start();   // Again, with the same data; returns when it takes connections.
  void wipe();    // kill -9, and everything it knew is gone; start() makes it anew.
  void freeze();  // SIGSTOP
  void thaw();    // SIGCONT
  void alarm();   // Out of memory, as the broker sees it.
  void no_alarm();
  // Reads its certificate again.
  void renew_certificate();

  const std::filesystem::path& folder() const { return folder_; }

  void disk_alarm();  // Out of disk, as the broker sees it.
  void no_disk_alarm();
  // Ends channels that keep a message for longer: those opened from now on.
  void end_channels_after(std::chrono::milliseconds unacknowledged);

 private:
  void control(const std::string& arguments);
  int pid() const;

  std::filesystem::path folder_;
  std::uint16_t port_ = 0;  // The two after it are taken too.
  AmqpUrl url_;
};

}  // namespace audiogen::test
