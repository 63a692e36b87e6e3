// What all admin commands have in common: what they are given, and how they answer.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "api/admin/faults.h"
#include "common/base/config.h"
#include "common/base/result.h"
#include "common/domain/operator_action.h"
#include "common/store/accounts.h"
#include "common/store/keys.h"
#include "common/store/mail_links.h"
#include "common/store/operators.h"
#include "common/store/situations.h"
#include "common/store/web_sessions.h"

namespace audiogen::api {

struct Answer {
  std::string json;
  std::string note = {};  // For people only.
  bool ok = true;
  std::optional<std::string> text = {};  // What people get instead.
  std::optional<int> code = {};          // The exit code, if it is not that of `ok`.
  std::string unseen = {};               // What helps whoever could not be given a secret in it.
};

// Why a command did nothing, as the operator is told and as it is recorded.
struct Failure {
  std::string message;
  store::ActionResult result = store::ActionResult::kRefused;
};

inline Failure failure(const store::Fault& fault) {
  return {
      worded(fault),
      store::is_refusal(fault.code) ? store::ActionResult::kRefused : store::ActionResult::kFailed};
}

using Reply = Result<Answer, Failure>;

// The store as one command uses it. What it changes is recorded with `note`.
struct Doors {
  Doors(const DatabaseUrl& to,
        const store::ActionNote* of,
        store::SessionOptions options = store::kOperatorPatience)
      : url(to),
        note(of),
        session(to, options),
        accounts(session, note),
        keys(session, note),
        web_sessions(session, note),
        mail_links(session, note),
        operators(session, note),
        situations(session) {}

  const DatabaseUrl& url;
  const store::ActionNote* const note;  // Null: the command changes nothing.
  store::Session session;
  store::Accounts accounts;
  store::Keys keys;
  store::WebSessions web_sessions;
  store::MailLinks mail_links;
  store::Operators operators;
  store::Situations situations;
};

// The options of all commands; each offers its own.
struct Options {
  std::string email, plan = "free", user, credits, kind, reference, name, id, status;
  std::vector<std::string> scopes{"generate"};
  std::string expires, spend_limit, period, url, as, reason, credit_value;
  int overlap_hours = 0;
  int seconds = static_cast<int>(kOverrideUsual.count());
  std::size_t limit = 50;
  int days = 7;
  bool again = false, all = false, json = false, watch = false, once = false, full = false;
};

}  // namespace audiogen::api
