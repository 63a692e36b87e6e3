// The door to the console's sessions, and to what opens one: sign-in links and passwords. Requests
// look their session up by TaskStore::find_sessions, many at once. (A Session, in session.h, is
// something else: a connection to the database.)
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/config.h"
#include "common/base/crypto.h"
#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/base/time.h"
#include "common/domain/sign_in.h"
#include "common/store/door.h"

namespace audiogen::store {

struct WebSession {
  SessionId id;
  UserId user;
  Instant created_at, last_seen_at;
  std::string user_agent, address;
  Instant fresh_until;
};

// One that is to be opened.
struct NewWebSession {
  SessionId id{};
  Sha256 token_hash{};
  std::string user_agent{}, address{};  // What is too long is cut.
  std::optional<Sha256> replaces{};     // The token of one that ends: the cookie is the same.
  std::chrono::seconds fresh_for = kFreshFor;
};

struct OpenedWebSession {
  WebSession session;
  std::string email;
  bool linked = false;  // From now on an issuer's word opens an account that was there before.
};

// Whom an issuer has named.
struct NamedPerson {
  Sha256 identity{};  // The hash of its name and his.
  std::string issuer{};
  std::optional<std::string> email{};  // In lower case; the issuer has verified it.
};

// Whose password it is, as argon2 wrote it.
struct StoredPassword {
  UserId user;
  std::string encoded;
};

// A session and what its owner may do with it.
struct WebSessionState {
  WebSession session;
  std::string email;
  std::optional<std::string> password;  // As argon2 wrote it. Nullopt: the user has none.
  bool fresh = false;
};

// A session that is ended is so everywhere within a second. See Door for threads, blocking and
// failures.
class WebSessions : private Door {
 public:
  explicit WebSessions(Session& session, const ActionNote* note = nullptr) : Door(session, note) {}

  // A link by which `user` signs in once; when its time is over. Faults: kNoSuchUser.
  Result<Instant, Fault> add_link(UserId user, const Sha256& token_hash);

  // Opens a session for whom `who` names, inside the transaction, which may run it again; nobody:
  // kBadLogin. For the doors to what opens sessions.
  Result<OpenedWebSession, Fault> open(const NewWebSession& made,
                                       const std::function<std::optional<UserId>()>& who);
  // Opens a session by a link, which works no more from then on, also for one who comes at the same
  // moment. Where the user has more than kSessionsMax then, the longest unused ones end. Faults:
  // kBadLogin.
  Result<OpenedWebSession, Fault> open_by_link(const Sha256& link, const NewWebSession& made);

  // The same by a link that makes the account: it is there from then on, on no plan and without
  // credits. Faults: kBadLogin, also when the address has an account by now.
  Result<OpenedWebSession, Fault> open_by_sign_up(const Sha256& link, const NewWebSession& made);

  // The same for somebody whom an issuer has named. Once he has signed in it is known whose
  // identity it is. The first time it is the account with his address, or one that is made for it
  // where `sign_up` lets it. Where its owner has unlinked an issuer it is that account only if the
  // session that `made` replaces is a fresh one of it. Faults: kBadLogin.
  Result<OpenedWebSession, Fault> open_by_identity(const NamedPerson& person,
                                                   SignUp sign_up,
                                                   const NewWebSession& made);

  // The password of the account with that address (in lower case), if there are both.
  Result<std::optional<StoredPassword>, Fault> password_of(std::string_view email);
  // Opens a session for somebody who knew `password`, unless that has been changed meanwhile.
  // Faults: kBadLogin.
  Result<OpenedWebSession, Fault> open_by_password(const StoredPassword& password,
                                                   const NewWebSession& made);

  // Those that live, newest first.
  Result<std::vector<WebSession>, Fault> list(UserId user);

  // Faults of the following: kNoSuchSession, also for another user's.
  Result<WebSessionState, Fault> find(UserId user, SessionId id);
  Result<Done, Fault> close(UserId user, SessionId id);
  // Ends all of them, for an operator; how many there were.
  Result<std::uint64_t, Fault> close_all(UserId user);
  // Sets the password, and ends all of the user's sessions but the one that asks, and his unused
  // links. That session must be fresh, or `known` be the password until now, as argon2 wrote it:
  // its owner has shown that he knows it. Faults besides: kNotFresh.
  Result<Done, Fault> set_password(UserId user,
                                   SessionId id,
                                   std::string_view encoded,
                                   const std::optional<std::string>& known);

 private:
  std::optional<WebSession> load(SessionId id);
  std::string email_of(UserId user);
  std::optional<std::string> password_row(UserId user, bool lock);
  bool is_signed_in(const Sha256& token);
  std::optional<UserId> link(const NamedPerson& person,
                             SignUp sign_up,
                             const NewWebSession& made,
                             UserId fresh,
                             bool& linked);
  bool may_link_again(UserId user, const std::optional<Sha256>& asker);
  void insert(UserId user, const NewWebSession& made);
  void make_account(UserId id, std::string_view email);
  bool take_invitation(std::string_view email);  // False: there is none that works.
  void end_surplus(UserId user);
  void lock_links(UserId user);
  void end_links(UserId user);  // Those that lock_links() has locked.
};

}  // namespace audiogen::store
