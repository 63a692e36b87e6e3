// The publisher's thread: one flat loop of read everything, then send one.
#include "common/queue/publisher.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/metrics.h"
#include "common/base/mutex.h"
#include "common/queue/confirms.h"
#include "common/queue/connection.h"
#include "common/queue/dialer.h"
#include "common/queue/wakeup.h"

namespace audiogen::queue {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kWindowMax = 4;
constexpr std::size_t kBatchMax = 256;  // Confirmed hints per call of the callback.
constexpr std::chrono::milliseconds kCloseLimit{500};
// For flows(): a confirm that takes so long, and after a refusal.
constexpr std::chrono::seconds kSlow{2};
constexpr std::chrono::seconds kFullFor{5};

}  // namespace

struct Publisher::Impl {
  Impl(const AmqpUrl& url,
       PublisherOptions given,
       std::function<void(std::span<const Hint>)> callback)
      : options(std::move(given)),
        confirmed(std::move(callback)),
        dialer(url,
               options.topology,
               {.heartbeat = options.heartbeat, .declare = true, .confirm = true},
               "publisher"),
        thread([this] { run(); }) {}

  void run();
  // Uses one connection until it is lost or all is done.
  void serve(Connection& connection);
  // Settles what the broker has said. False: the connection is lost; why is in `lost`.
  bool read_all(Connection& connection);
  bool account(const std::optional<Confirms::Settled>& settled);
  void report();
  // The next message, if it is time for one; else `gather_until` says when, if that is known.
  std::optional<Confirms::Message> next(Clock::time_point now);
  void keep_unknown();
  void close(Connection& connection);
  void forget(std::size_t count);
  bool finished() const {
    return stopping && (held == 0 || Clock::now().time_since_epoch() >= stop_by.load());
  }

  const PublisherOptions options;
  const std::function<void(std::span<const Hint>)> confirmed;
  Wakeup wakeup;

  Mutex mutex;
  std::deque<Hint> submitted GUARDED_BY(mutex);

  std::atomic<std::size_t> held = 0;  // Submitted and not yet settled.
  std::atomic<bool> is_connected = false;
  // For flows(), as the thread saw it last: since the clock's epoch.
  std::atomic<bool> is_blocked = false;
  std::atomic<Clock::duration> unconfirmed_since{Clock::duration::max()};
  std::atomic<Clock::duration> refused_at{Clock::duration::min()};
  std::atomic<bool> stopping = false;
  std::atomic<Clock::duration> stop_by{Clock::duration::max()};  // Since the clock's epoch.

  // The thread's own.
  Dialer dialer;
  std::deque<Confirms::Message> again;      // Unconfirmed by a connection that broke.
  std::deque<Hint> unsent, unsent_express;  // By lane.
  Confirms confirms;
  std::vector<Hint> taken;  // To be reported.
  std::string lost;
  std::optional<Clock::time_point> sent_at;  // The last message.
  std::optional<Clock::time_point> gather_until;
  bool sent_express = false;  // The last message was.
  bool blocked = false;
  bool unroutable = false;  // A message was returned: the topology needs repair.

  prometheus::Counter& published_total = metrics::counter("hints_published_total", "Hints sent");
  prometheus::Counter& confirmed_total =
      metrics::counter("hints_confirmed_total", "Hints the broker has taken over");
  prometheus::Counter& nacked_total =
      metrics::counter("hints_nacked_total", "Hints the broker refused");
  prometheus::Counter& returned_total =
      metrics::counter("hints_returned_total", "Hints no queue was bound for");
  prometheus::Gauge& unconfirmed =
      metrics::gauge("hints_unconfirmed", "Hints sent and not yet confirmed");

  std::thread thread;  // Last: everything else exists before it runs.
};

void Publisher::Impl::run() {
  while (!finished()) {
    if (const auto connection = dialer.dial()) {
      lost.clear();
      is_connected = true;
      serve(*connection);
      is_connected = false;
      keep_unknown();
      report();
      unconfirmed.Set(0);
      if (lost.empty()) {
        dialer.closed();
        return;
      }
      dialer.lost(lost);
    }
    const auto retry = Clock::now() + dialer.delay();
    while (!finished() && Clock::now() < retry) {
      const Clock::time_point stop(stop_by.load());
      wakeup.wait(-1, false, time_until(std::min(retry, stop)));
    }
  }
}

void Publisher::Impl::serve(Connection& connection) {
  blocked = false;
  unroutable = false;
  auto declared_at = Clock::now();
  for (;;) {
    // Before every publish: rabbitmq-c may block for ever otherwise.
    if (!read_all(connection)) {
      return;
    }
    if (taken.size() >= kBatchMax) {
      report();
    }
    unconfirmed.Set(static_cast<double>(confirms.hints()));
    is_blocked = blocked;
    const auto since = confirms.oldest();
    unconfirmed_since = since ? since->time_since_epoch() : Clock::duration::max();
    const auto now = Clock::now();
    auto wake_at = now + connection.sleep_max();
    if (since && !blocked) {
      const auto expires = *since + options.confirm_timeout;
      if (now >= expires) {
        lost = "no confirm in time";
        return;
      }
      wake_at = std::min(wake_at, expires);
    }
    if (finished()) {
      close(connection);
      return;
    }
    if (unroutable) {
      const auto due = declared_at + options.redeclare_interval;
      if (now >= due) {
        if (!connection.redeclare()) {
          lost = connection.lost_because();
          return;
        }
        unroutable = false;
        declared_at = Clock::now();
        continue;
      }
      wake_at = std::min(wake_at, due);
    }
    bool full = false;
    if (!blocked && confirms.size() < options.window) {
      full = !connection.can_send();
      if (!full) {
        if (const auto message = next(now)) {
          // Counted first: a send that fails half-way may have reached the broker.
          confirms.sent(*message, now);
          sent_at = now;
          published_total.Increment(static_cast<double>(message->hints.size()));
          if (!connection.publish(message->hints, message->lane)) {
            lost = connection.lost_because();
            return;
          }
          AG_CRASH_POINT("publisher.sent");
          continue;
        }
        wake_at = std::min(wake_at, gather_until.value_or(wake_at));
      }
    }
    report();
    if (stopping) {
      wake_at = std::min(wake_at, Clock::time_point(stop_by.load()));
    }
    wakeup.wait(connection.fd(), full, time_until(wake_at));
  }
}

bool Publisher::Impl::read_all(Connection& connection) {
  for (;;) {
    const Incoming in = connection.read();
    switch (in.event) {
      case Event::kNone:
        return true;
      case Event::kAck:
        if (!account(confirms.ack(in.tag, in.multiple))) {
          return false;
        }
        break;
      case Event::kNack:
        if (!account(confirms.nack(in.tag, in.multiple))) {
          return false;
        }
        break;
      case Event::kReturn:
        if (const auto hints = decode_hints(in.body); !hints || !confirms.returned(*hints)) {
          lost = "the broker returned what was not sent";
          return false;
        }
        unroutable = true;
        break;
      case Event::kBlocked:
        blocked = true;
        log::warn("broker takes no messages: it is out of memory or disk");
        break;
      case Event::kUnblocked:
        blocked = false;
        // While blocked the broker reads nothing: what it has not seen it could not confirm.
        confirms.restart_clocks(Clock::now());
        log::info("broker takes messages again");
        break;
      case Event::kLost:
        lost = connection.lost_because();
        return false;
      case Event::kDeliver:
      case Event::kCanceled:
      case Event::kQueue:
      case Event::kGot:
      case Event::kNothing:
      case Event::kClosed:
        lost = "unexpected event";
        return false;
    }
  }
}

bool Publisher::Impl::account(const std::optional<Confirms::Settled>& settled) {
  if (!settled) {
    lost = "the broker confirmed what was not sent";
    return false;
  }
  taken.insert(taken.end(), settled->taken.begin(), settled->taken.end());
  confirmed_total.Increment(static_cast<double>(settled->taken.size()));
  nacked_total.Increment(static_cast<double>(settled->refused));
  if (settled->refused > 0) {
    refused_at = Clock::now().time_since_epoch();
  }
  returned_total.Increment(static_cast<double>(settled->returned));
  forget(settled->taken.size() + settled->refused + settled->returned);
  return true;
}

// Hands over what was confirmed.
void Publisher::Impl::report() {
  if (!taken.empty()) {
    AG_CRASH_POINT("publisher.confirmed");
    confirmed(taken);
    taken.clear();
  }
}

std::optional<Confirms::Message> Publisher::Impl::next(Clock::time_point now) {
  gather_until.reset();
  Confirms::Message out;
  if (!again.empty()) {
    out = std::move(again.front());
    again.pop_front();
    return out;
  }
  // Also while one lane has very many: what has come since may be the other's.
  if (std::min(unsent.size(), unsent_express.size()) < options.hints_per_message) {
    const MutexLock lock(mutex);
    const std::size_t waiting = unsent.size() + unsent_express.size() + submitted.size();
    if (waiting == 0) {
      return std::nullopt;
    }
    if (waiting < options.hints_per_message && !stopping) {
      if (confirms.size() > 0) {
        return std::nullopt;  // The confirm wakes us.
      }
      if (sent_at && now < *sent_at + options.gather) {
        gather_until = *sent_at + options.gather;
        return std::nullopt;
      }
    }
    for (const Hint& hint : submitted) {
      (hint.lane == Lane::kExpress ? unsent_express : unsent).push_back(hint);
    }
    submitted.clear();
  }
  // In turn where both wait: neither lane keeps the other from its queue.
  const bool express = !unsent_express.empty() && (unsent.empty() || !sent_express);
  sent_express = express;
  std::deque<Hint>& lane = express ? unsent_express : unsent;
  const auto end =
      lane.begin() + static_cast<std::ptrdiff_t>(std::min(lane.size(), options.hints_per_message));
  out.hints.assign(lane.begin(), end);
  out.lane = express ? Lane::kExpress : Lane::kBulk;
  lane.erase(lane.begin(), end);
  return out;
}

// A broken connection leaves up to a window of messages unanswered. They go out once more, which
// costs little (a second copy is harmless) and saves them the sweeper's delay; but only once, so
// that nothing can make every connection break.
void Publisher::Impl::keep_unknown() {
  const std::size_t open = confirms.hints();
  std::vector<Confirms::Message> unknown = confirms.take_unknown();
  std::size_t kept = 0;
  for (auto message = unknown.rbegin(); message != unknown.rend(); ++message) {
    if (!message->repeated) {
      message->repeated = true;
      kept += message->hints.size();
      again.push_front(std::move(*message));
    }
  }
  forget(open - kept);
  confirms = Confirms();
}

void Publisher::Impl::forget(std::size_t count) {
  held -= count;
}

void Publisher::Impl::close(Connection& connection) {
  if (!connection.can_send() || !connection.send_close()) {
    return;
  }
  const auto deadline = Clock::now() + kCloseLimit;
  for (auto now = Clock::now(); now < deadline; now = Clock::now()) {
    const Event event = connection.read().event;
    if (event == Event::kClosed || event == Event::kLost) {
      return;
    }
    if (event == Event::kNone) {
      wakeup.wait(connection.fd(), false, time_until(deadline));
    }
  }
}

Publisher::Publisher(const AmqpUrl& url,
                     PublisherOptions options,
                     std::function<void(std::span<const Hint>)> confirmed) {
  AG_CHECK(options.window >= 1 && options.window <= kWindowMax);
  AG_CHECK(options.hints_per_message >= 1 && options.hints_per_message <= kHintsMax);
  impl_ = std::make_unique<Impl>(url, std::move(options), std::move(confirmed));
}

Publisher::~Publisher() {
  stop(std::chrono::milliseconds(0));
}

std::size_t Publisher::submit(std::span<const Hint> hints) {
  std::size_t count = 0;
  bool wake = false;
  {
    const MutexLock lock(impl_->mutex);
    const std::size_t held = impl_->held;
    count =
        std::min(hints.size(), impl_->options.capacity - std::min(held, impl_->options.capacity));
    const std::size_t before = impl_->submitted.size();
    const auto given = hints.first(count);
    impl_->submitted.insert(impl_->submitted.end(), given.begin(), given.end());
    impl_->held += count;
    // At the two moments that next() waits for: there is something, and there is a full message.
    const std::size_t full = impl_->options.hints_per_message;
    wake = count > 0 && (before == 0 || (before < full && before + count >= full));
  }
  if (wake) {
    impl_->wakeup.signal();
  }
  return count;
}

bool Publisher::connected() const {
  return impl_->is_connected;
}

bool Publisher::blocked() const {
  return impl_->is_blocked;
}

bool Publisher::flows() const {
  const Clock::duration now = Clock::now().time_since_epoch();
  const Clock::duration since = impl_->unconfirmed_since;
  const Clock::duration refused = impl_->refused_at;
  return impl_->is_connected && !impl_->is_blocked &&
         (since == Clock::duration::max() || now - since < kSlow) &&
         (refused == Clock::duration::min() || now - refused > kFullFor);
}

std::size_t Publisher::waiting() const {
  return impl_->held;
}

void Publisher::stop(std::chrono::milliseconds limit) {
  if (!impl_->thread.joinable()) {
    return;
  }
  impl_->stop_by = (Clock::now() + limit).time_since_epoch();
  impl_->stopping = true;
  impl_->wakeup.signal();
  impl_->thread.join();
}

}  // namespace audiogen::queue
