// What each thread of the pool for slow routes has: a session with the database and the doors to
// it.
#pragma once

#include <chrono>

#include "api/server/store_pool.h"
#include "common/base/config.h"
#include "common/store/account_ends.h"
#include "common/store/accounts.h"
#include "common/store/history.h"
#include "common/store/issuer_links.h"
#include "common/store/keys.h"
#include "common/store/mail_links.h"
#include "common/store/passkeys.h"
#include "common/store/session.h"
#include "common/store/usage.h"
#include "common/store/web_sessions.h"

namespace audiogen::api {

// A call must end well within the client's patience, and a thread that waits for one user's row is
// one that the others miss.
inline constexpr store::SessionOptions kPoolPatience{.read_timeout = std::chrono::seconds(4),
                                                     .statement_max = std::chrono::seconds(3),
                                                     .lock_wait = std::chrono::seconds(0)};

// For one thread at a time.
struct StoreDoors {
  explicit StoreDoors(const DatabaseUrl& url) : session(url, kPoolPatience) {}

  store::Session session;
  store::Accounts accounts{session};
  store::Keys keys{session};
  store::History history{session};
  store::Usage usage{session};
  store::WebSessions web_sessions{session};
  store::Passkeys passkeys{session};
  store::IssuerLinks issuer_links{session};
  store::MailLinks mail_links{session};
  store::AccountEnds account_ends{session};
};

using DoorsPool = StorePool<StoreDoors>;

}  // namespace audiogen::api
