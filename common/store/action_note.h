// The record of what operators change by hand: rows of admin_actions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/ids.h"
#include "common/base/time.h"
#include "common/store/session.h"

namespace audiogen::store {

struct AdminAction {
  std::string who{};
  std::string action{};  // The command, like "key delete".
  std::string target{};  // On whom or what, as it was given.
  std::string detail{};  // The other arguments; never a secret.
  std::optional<std::string> reason{};
};

enum class ActionResult : std::uint8_t {
  kDone = 1,
  kRefused = 2,  // By a rule: nothing was changed.
  kFailed = 3,   // What it needs was in the way; it may have been done, in part, or not.
};

struct ActionRow {
  Instant done_at;
  AdminAction action;
  ActionResult result = ActionResult::kDone;
  std::string message;  // Why not, or what came of it.
};

// One action. What is too long for its column is cut.
class ActionNote {
 public:
  explicit ActionNote(AdminAction action) : id_(new_uuid()), action_(std::move(action)) {}

  const AdminAction& action() const { return action_; }

  // Writes the row in the session's transaction, or alone outside any. The first one written stays:
  // a transaction run again, or a failure told after all was done, changes nothing. Throws DbError.
  void write(Session& session, ActionResult result, std::string_view message = {}) const;

 private:
  Uuid id_;
  AdminAction action_;
};

}  // namespace audiogen::store
