#include "api/console/mailer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "common/base/crypto.h"
#include "common/base/log.h"
#include "common/base/metrics.h"
#include "common/base/occasionally.h"

namespace audiogen::api {
namespace {

constexpr std::size_t kUniqueBytes = 16;

// A mail that is refused for now is asked for again after this: most often its server only wants to
// see that we do.
constexpr std::chrono::milliseconds kRefusedForNow{30'000};

prometheus::Counter& mails(const char* result) {
  return metrics::counter(
      "mails_total", "Mails by what became of them", metrics::Labels{{"result", result}});
}

// Here, so that they are told from the start.
prometheus::Counter& dropped = mails("dropped");
prometheus::Counter& sent = mails("sent");
prometheus::Counter& postponed = mails("postponed");

std::string new_unique() {
  std::array<std::uint8_t, kUniqueBytes> raw{};
  random_bytes(raw);
  return to_hex(raw);
}

}  // namespace

Mailer::Mailer(const SmtpUrl& server, std::string from, const MailerOptions& options)
    : server_(server),
      from_(std::move(from)),
      options_(options),
      stop_at_(Clock::time_point::max().time_since_epoch().count()),
      thread_([this] { run(); }) {}

bool Mailer::send(Mail mail) {
  const char* const kind = mail.kind;
  {
    const MutexLock lock(mutex_);
    if (!stopping_ && count_ < options_.queue_max) {
      const auto at = Clock::now();
      waiting_.push_back({std::move(mail), new_unique(), at, at + options_.keep_for});
      ++count_;
      changed_.notify_one();
      return true;
    }
  }
  dropped.Increment();
  static Occasionally line;
  if (line.due()) {
    log::error("mail dropped", {{"kind", kind}, {"why", "too many wait"}});
  }
  return false;
}

void Mailer::stop() {
  {
    const MutexLock lock(mutex_);
    if (!stopping_) {
      stopping_ = true;
      stop_at_.store((Clock::now() + options_.stop_within).time_since_epoch().count());
    }
  }
  changed_.notify_all();
  if (thread_.joinable()) {
    thread_.join();
  }
}

bool Mailer::out_of_time() const {
  return Clock::now().time_since_epoch().count() >= stop_at_.load();
}

std::deque<Mailer::Waiting>::iterator Mailer::first_due() {
  return std::min_element(waiting_.begin(), waiting_.end(), [](const auto& a, const auto& b) {
    return a.next_at < b.next_at;
  });
}

void Mailer::run() {
  MutexLock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this]() LOCKS_REQUIRED(mutex_) { return !waiting_.empty() || stopping_; });
    if (waiting_.empty()) {
      return;
    }
    const auto first = first_due();
    const auto due = std::max(first->next_at, paused_until_.value_or(first->next_at));
    if (stopping_ && (out_of_time() || due > Clock::now())) {
      // There is no later.
      dropped.Increment(static_cast<double>(waiting_.size()));
      log::error("mails not sent", {{"why", "the program ends"}, {"count", waiting_.size()}});
      return;
    }
    if (due > Clock::now()) {
      changed_.wait_until(lock, due);  // Whatever woke it: look again.
      continue;
    }
    Waiting next = std::move(*first);
    waiting_.erase(first);
    if (Clock::now() >= next.until) {
      --count_;
      drop(next, "not taken in time", "");
      continue;
    }
    lock.unlock();
    const std::string message =
        render_mail({.from = from_, .to = next.mail.to, .unique = next.unique, .at = local_now()},
                    next.mail.text);
    const auto outcome = http::send_mail(
        server_, from_, next.mail.to, message, options_.patience, [this] { return out_of_time(); });
    lock.lock();
    settle(std::move(next), outcome);
  }
}

void Mailer::settle(Waiting waiting, const Result<Done, http::MailError>& outcome) {
  using Fault = http::MailFault;
  --count_;
  if (outcome || outcome.error().fault != Fault::kUnreachable) {
    paused_until_.reset();
    pause_ = std::chrono::milliseconds(0);
  }
  if (outcome) {
    sent.Increment();
    return;
  }
  const auto& [fault, detail] = outcome.error();
  if (fault == Fault::kRefused) {
    drop(waiting, "the mail server refused it", detail);
    return;
  }
  const auto at = Clock::now();
  waiting.next_at = at;
  if (fault == Fault::kLater) {
    waiting.next_at = at + std::min(kRefusedForNow, options_.pause_max);
  } else if (fault == Fault::kUnreachable) {
    pause_ = std::clamp(2 * pause_, options_.first_pause, options_.pause_max);
    paused_until_ = at + pause_;
    waiting.next_at = *paused_until_;
    static Occasionally line;
    if (line.due()) {
      log::warn("mail server unavailable", {{"why", detail}, {"waiting", count_ + 1}});
    }
  }
  postponed.Increment();
  // Before those that came later: first come, first served, once the server answers.
  waiting_.push_front(std::move(waiting));
  ++count_;
}

void Mailer::drop(const Waiting& waiting, const char* why, const std::string& detail) {
  dropped.Increment();
  static Occasionally line;
  if (line.due()) {
    log::error("mail dropped", {{"kind", waiting.mail.kind}, {"why", why}, {"detail", detail}});
  }
}

}  // namespace audiogen::api
