// What accounts have by mail: links that sign in or make an account, another address, notices of
// what somebody else may have done. There where SMTP_URL is set.
//
// Who can fill it, and what the others feel:
//  - Whoever asks for a link is answered before anybody has looked whether there is such an
//  account,
//    so he learns nothing, neither by the answer nor by its time. The look is on a thread and a
//    connection of its own, whatever the others wait for.
//  - An address (of the network) may ask 20 times a minute, counted with its attempts to sign in; a
//    mail address gets five at once and one a minute, of which one address of the network brings
//    about three and then one in ten minutes, and has at most kMailedLinksMax links that work. So
//    no stranger alone fills an inbox, or keeps its owner from getting a link; and less so where
//    nobody has asked us for anything yet: in any day it gets 20 mails by which an account is made,
//    three of them from one address of the network, which brings 50 about; and five by which one
//    confirms that it is his, as many as an account brings about. Of the former what is beyond is
//    not sent, and nobody is told; and links to sign in count with them where anybody may sign up,
//    so that what is left does not tell who has an account.
#pragma once

#include <atomic>
#include <cstddef>
#include <string>

#include "api/console/mailer.h"
#include "api/server/call.h"
#include "api/server/handling.h"
#include "api/server/rate_limiter.h"
#include "api/server/store_doors.h"
#include "common/base/config.h"
#include "common/domain/mail.h"

namespace audiogen::api {

class Mails {
 public:
  // With config.smtp. All are to live as long as this.
  Mails(const Config& config, RateLimiter& limiter, DoorsPool& pool);

  Handling ask_link(Call call);
  Handling ask_change(Call call);
  Handling confirm_change(Call call);

  // Writes to an account, or to the address that was its own; neither waits nor tells whether it
  // could. Any thread.
  void tell(Notice notice, UserId user);
  void tell(Notice notice, UserId user, const std::string& address);

  // Does what was asked for, then sends what waits, each for some seconds at most, however slow the
  // database and the mail server are. How many mails were not written, or not sent, is in the log.
  void stop();

 private:
  // What the thread that looks accounts up has.
  struct Doors {
    explicit Doors(const DatabaseUrl& url);
    store::Session session;
    store::MailLinks links{session};
    store::Accounts accounts{session};
  };

  void mail_link(Doors* doors, const IpAddress& client, const std::string& email);
  std::string link(const char* what, const std::string& token) const;
  bool may_tell(Notice notice, UserId user);
  void send(Notice notice, const std::string& address);
  // A mail is not written. While the program ends they are counted, else the log says why.
  void missed(const char* why);

  const std::string site_;
  const SignUp sign_up_;
  RateLimiter& limiter_;
  DoorsPool& pool_;
  Mailer mailer_;
  std::atomic<bool> stopping_{false};
  std::atomic<std::size_t> unwritten_{0};  // Since then.
  StorePool<Doors> lookups_;
};

}  // namespace audiogen::api
