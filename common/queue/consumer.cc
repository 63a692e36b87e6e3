// The consumer's thread: deliveries in batches one way, acks in batches the other.
#include "common/queue/consumer.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "common/base/log.h"
#include "common/base/metrics.h"
#include "common/base/mutex.h"
#include "common/queue/ack_window.h"
#include "common/queue/connection.h"
#include "common/queue/dialer.h"
#include "common/queue/wakeup.h"

namespace audiogen::queue {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kCheckLimit{10};  // For the broker's answer about the queue.

}  // namespace

struct Consumer::Impl {
  Impl(const AmqpUrl& url,
       ConsumerOptions given,
       std::function<void(std::vector<Delivery>)> callback)
      : options(std::move(given)),
        deliver(std::move(callback)),
        dialer(url, options.topology, {.heartbeat = options.heartbeat}, "consumer") {}

  void run();
  // Uses one connection until it is lost or stop() is called.
  void serve(Connection& connection);
  // Reads one batch at most. False: the connection is lost; why is in `lost`.
  bool read_batch(Connection& connection);
  bool take(Connection& connection, const Incoming& in);
  // Sends what ack() has collected, as far as the socket takes it now.
  bool send_acks(Connection& connection);
  void close(Connection& connection);
  bool lose(std::string why) {
    lost = std::move(why);
    return false;
  }

  struct Mark {
    std::uint64_t connection = 0;
    std::uint64_t tag = 0;
  };

  const ConsumerOptions options;
  const std::function<void(std::vector<Delivery>)> deliver;
  Wakeup wakeup;

  Mutex mutex;
  std::vector<Mark> marks GUARDED_BY(mutex);  // From ack().

  std::atomic<bool> is_connected = false;
  std::atomic<bool> stopping = false;
  std::atomic<Clock::duration> stop_by{Clock::duration::max()};  // Since the clock's epoch.

  // The thread's own.
  Dialer dialer;
  std::uint64_t generation = 0;  // Of the present connection.
  AckWindow window;
  std::vector<AckWindow::Ack> acks;          // To be sent.
  std::optional<Clock::time_point> sent_at;  // The last of them.
  std::vector<Delivery> batch;
  std::string lost;
  std::optional<Clock::time_point> asked_at;  // An unanswered check_queues().
  int answers = 0;                            // To it, so far.
  Clock::time_point check_at = Clock::now();

  prometheus::Counter& delivered_total =
      metrics::counter("hints_delivered_total", "Hints received");
  prometheus::Counter& acked_total = metrics::counter("hints_acked_total", "Hints acknowledged");
  prometheus::Counter& rejected_total =
      metrics::counter("hints_rejected_total", "Messages that were no hints");

  std::thread thread;
};

void Consumer::Impl::run() {
  while (!stopping) {
    if (const auto connection = dialer.dial()) {
      lost.clear();
      ++generation;
      window = AckWindow();
      acks.clear();
      batch.clear();
      is_connected = true;
      serve(*connection);
      is_connected = false;
      if (lost.empty()) {
        dialer.closed();
        return;
      }
      dialer.lost(lost);
    }
    const auto retry = Clock::now() + dialer.delay();
    while (!stopping && Clock::now() < retry) {
      wakeup.wait(-1, false, time_until(retry));
    }
  }
}

void Consumer::Impl::serve(Connection& connection) {
  asked_at.reset();
  check_at = Clock::now() + options.check_interval;
  if (!connection.consume(options.prefetch)) {
    lose(connection.lost_because());
    return;
  }
  for (;;) {
    if (!read_batch(connection)) {
      return;
    }
    const bool more = batch.size() + kHintsMax > options.batch_max;
    if (!batch.empty()) {
      delivered_total.Increment(static_cast<double>(batch.size()));
      deliver(std::exchange(batch, {}));
    }
    batch.clear();
    if (!send_acks(connection)) {
      return;
    }
    if (stopping) {
      close(connection);
      return;
    }
    const auto now = Clock::now();
    if (asked_at && now >= *asked_at + kCheckLimit) {
      lose("the broker does not answer");
      return;
    }
    if (!asked_at && now >= check_at && connection.can_send()) {
      asked_at = now;
      answers = 0;
      if (!connection.check_queues()) {
        lose(connection.lost_because());
        return;
      }
    }
    if (!more) {
      const auto due = asked_at ? *asked_at + kCheckLimit : check_at;
      const auto wake_at = std::min(now + connection.sleep_max(), std::max(due, now));
      wakeup.wait(connection.fd(), !acks.empty(), time_until(wake_at));
    }
  }
}

bool Consumer::Impl::read_batch(Connection& connection) {
  while (batch.size() + kHintsMax <= options.batch_max) {
    const Incoming in = connection.read();
    switch (in.event) {
      case Event::kNone:
        return true;
      case Event::kDeliver:
        if (!take(connection, in)) {
          return false;
        }
        break;
      case Event::kQueue:
        if (in.consumers == 0) {
          return lose("the queue was made anew");
        }
        if (++answers == kWorkQueues) {
          asked_at.reset();
          check_at = Clock::now() + options.check_interval;
        }
        break;
      case Event::kCanceled:
        return lose("the queue was deleted");
      case Event::kBlocked:
      case Event::kUnblocked:
        break;  // Meant for those who publish.
      case Event::kLost:
        return lose(connection.lost_because());
      case Event::kAck:
      case Event::kNack:
      case Event::kReturn:
      case Event::kGot:
      case Event::kNothing:
      case Event::kClosed:
        return lose("unexpected event");
    }
  }
  return true;
}

bool Consumer::Impl::take(Connection& connection, const Incoming& in) {
  const auto hints = decode_hints(in.body);
  if (!window.delivered(in.tag, hints ? hints->size() : 1)) {
    return lose("delivery tags out of order");
  }
  if (hints) {
    for (Hint hint : *hints) {
      hint.lane = in.lane;
      batch.push_back(
          {.hint = hint, .connection = generation, .tag = in.tag, .redelivered = in.redelivered});
    }
    return true;
  }
  if (!connection.can_send()) {
    return lose("the broker does not read");
  }
  window.settled(in.tag);
  rejected_total.Increment();
  log::warn("message is no hint, moved to the dead-letter queue", {{"bytes", in.body.size()}});
  return connection.reject(in.tag) || lose(connection.lost_because());
}

bool Consumer::Impl::send_acks(Connection& connection) {
  std::vector<Mark> fresh;
  {
    const MutexLock lock(mutex);
    fresh.swap(marks);
  }
  for (const Mark& mark : fresh) {
    if (mark.connection == generation) {
      window.done(mark.tag);
      acked_total.Increment();
    }
  }
  // What the socket did not take last time goes first: an ack with `multiple` never overtakes it.
  const std::vector<AckWindow::Ack> more = window.take();
  acks.insert(acks.end(), more.begin(), more.end());
  if (!acks.empty()) {
    sent_at = Clock::now();
  }
  std::size_t sent = 0;
  for (; sent < acks.size() && connection.can_send(); ++sent) {
    if (!connection.ack(acks[sent].tag, acks[sent].multiple)) {
      return lose(connection.lost_because());
    }
  }
  acks.erase(acks.begin(), acks.begin() + static_cast<std::ptrdiff_t>(sent));
  return true;
}

// Just closing the socket could throw away acks the broker has not read; it answers a close when it
// has.
void Consumer::Impl::close(Connection& connection) {
  const Clock::time_point deadline(stop_by.load());
  Clock::time_point close_at = Clock::time_point::max();  // Once all acks are sent.
  bool asked = false;
  for (auto now = Clock::now(); now < deadline; now = Clock::now()) {
    const Event event = connection.read().event;
    if (event == Event::kClosed || event == Event::kLost) {
      return;
    }
    if (event != Event::kNone) {
      continue;  // Deliveries go back to the queue.
    }
    if (!asked && !send_acks(connection)) {
      return;
    }
    if (acks.empty() && close_at == Clock::time_point::max()) {
      close_at = sent_at ? *sent_at + kAcksSettle : now;
    }
    if (!asked && now >= close_at && connection.can_send()) {
      asked = true;
      if (!connection.send_close()) {
        return;
      }
    }
    const auto next = asked ? deadline : std::min(deadline, std::max(close_at, now));
    const bool unfinished = !acks.empty() || (!asked && now >= close_at);
    wakeup.wait(
        connection.fd(), unfinished, time_until(std::min(next, now + connection.sleep_max())));
  }
}

Consumer::Consumer(const AmqpUrl& url,
                   ConsumerOptions options,
                   std::function<void(std::vector<Delivery>)> deliver)
    : impl_(std::make_unique<Impl>(url, std::move(options), std::move(deliver))) {
  AG_CHECK(impl_->options.batch_max >= kHintsMax);
}

Consumer::~Consumer() {
  stop(std::chrono::milliseconds(0));
}

void Consumer::start() {
  AG_CHECK(!impl_->thread.joinable());
  impl_->thread = std::thread([this] { impl_->run(); });
}

void Consumer::ack(const Delivery& delivery) {
  if (delivery.tag == 0) {
    return;  // It came without the broker, which may be away for long.
  }
  bool was_empty = false;
  {
    const MutexLock lock(impl_->mutex);
    was_empty = impl_->marks.empty();
    impl_->marks.push_back({.connection = delivery.connection, .tag = delivery.tag});
  }
  if (was_empty) {
    impl_->wakeup.signal();
  }
}

bool Consumer::connected() const {
  return impl_->is_connected;
}

void Consumer::stop(std::chrono::milliseconds limit) {
  if (!impl_->thread.joinable()) {
    return;
  }
  impl_->stop_by = (Clock::now() + limit).time_since_epoch();
  impl_->stopping = true;
  impl_->wakeup.signal();
  impl_->thread.join();
}

}  // namespace audiogen::queue
