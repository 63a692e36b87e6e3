// What the doors by subject (accounts, keys, operators) have in common.
#pragma once

#include <chrono>
#include <string_view>

#include "common/base/result.h"
#include "common/store/action_note.h"
#include "common/store/fault.h"
#include "common/store/session.h"

namespace audiogen::store {

// For sessions of operators, who rather wait for an answer than ask again.
inline constexpr SessionOptions kOperatorPatience{.read_timeout = std::chrono::seconds(60)};

// A door borrows its session, which others may share: all of them for one thread at a time. Every
// call blocks, and answers a failure of the database as a fault like any other.
class Door {
 protected:
  // With `note`, a call that changes something writes it in its own transaction; for one such call.
  // It and the session must outlive the door.
  explicit Door(Session& session, const ActionNote* note = nullptr)
      : session_(session), note_(note) {}

  // The answer of `body`, or what the database said.
  template <class Body>
  static auto guarded(const Body& body) -> decltype(body()) {
    try {
      return body();
    } catch (const DbError& error) {
      return to_fault(error);
    }
  }

  // Inside a transaction that changes something.
  void note_done(std::string_view message = {}) const {
    if (note_ != nullptr) {
      note_->write(session_, ActionResult::kDone, message);
    }
  }

  // Whether the row that `query` selects is there; waits for a COMMIT under way that may bring it.
  bool locked(Sql& query) const { return session_.query(query << " FOR UPDATE").next(); }

  Session& session_;
  const ActionNote* const note_;
};

}  // namespace audiogen::store
