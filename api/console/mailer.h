// Mails on their way to the operator's server, on a thread of their own.
//
// Who can fill it, and what the others feel:
//  - Whoever asks for links: whoever sends one here is limited by address and by account before. At
//    most queue_max mails wait, about a kilobyte each; a further one is dropped, counted and
//    logged.
//  - A server that is away or slow holds up this thread and nobody else. It is asked again after a
//    pause that doubles, for all mails together; one that it refuses for now waits by itself.
//  - A mail that has waited for keep_for is dropped: a link lives for ten minutes.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <thread>

#include "common/base/config.h"
#include "common/base/mutex.h"
#include "common/domain/mail.h"
#include "common/http/smtp.h"

namespace audiogen::api {

struct Mail {
  std::string to;  // is_mail_address().
  MailText text;
  const char* kind = "";  // For the log, which has neither text nor address.
};

struct MailerOptions {
  std::size_t queue_max = 1'000;
  std::chrono::milliseconds keep_for{std::chrono::minutes(5)};
  std::chrono::milliseconds first_pause{2'000}, pause_max{30'000};
  std::chrono::milliseconds stop_within{3'000};
  http::SmtpPatience patience{};
};

class Mailer {
 public:
  Mailer(const SmtpUrl& server, std::string from, const MailerOptions& options = {});
  ~Mailer() { stop(); }
  Mailer(const Mailer&) = delete;
  Mailer& operator=(const Mailer&) = delete;

  // Takes a mail to be sent as soon as can be. False, and it is dropped: too many wait, or it is
  // stopped. Any thread, never blocks.
  bool send(Mail mail);

  // Sends what waits, for stop_within at most; what is left is dropped. Nothing more is taken.
  void stop();

 private:
  using Clock = std::chrono::steady_clock;
  struct Waiting {
    Mail mail;
    std::string unique;  // The same at every attempt: whoever gets it twice sees that it is one.
    Clock::time_point next_at, until;
  };

  void run();
  std::deque<Waiting>::iterator first_due() LOCKS_REQUIRED(mutex_);
  void settle(Waiting waiting, const Result<Done, http::MailError>& outcome) LOCKS_REQUIRED(mutex_);
  void drop(const Waiting& waiting, const char* why, const std::string& detail);
  bool out_of_time() const;

  const SmtpUrl server_;
  const std::string from_;
  const MailerOptions options_;
  Mutex mutex_;
  ConditionVariable changed_;
  std::deque<Waiting> waiting_ GUARDED_BY(mutex_);
  std::size_t count_ GUARDED_BY(mutex_) = 0;  // Those in waiting_ and the one under way.
  std::optional<Clock::time_point> paused_until_ GUARDED_BY(mutex_);
  // Since the server last answered; 0: it did.
  std::chrono::milliseconds pause_ GUARDED_BY(mutex_) = std::chrono::milliseconds(0);
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::atomic<Clock::rep> stop_at_;  // Not guarded: read while a mail is under way.
  std::thread thread_;
};

}  // namespace audiogen::api
