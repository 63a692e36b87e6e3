#include "common/store/asking_session.h"

#include <chrono>

#include "common/domain/sign_in.h"

namespace audiogen::store {

std::optional<AskingSession> lock_asking_session(Session& session, UserId user, SessionId asker) {
  Rows rows =
      session.query(Sql("SELECT created_at, last_seen_at, UTC_TIMESTAMP(6), fresh_seconds FROM "
                        "sessions WHERE id=")
                    << asker << " AND user_id=" << user << " FOR UPDATE");
  if (!rows.next() || session_end(rows.time(1), rows.time(2)) <= rows.time(3)) {
    return std::nullopt;
  }
  const Instant until = fresh_until(rows.time(1), std::chrono::seconds(rows.u32(4)));
  return AskingSession{.now = rows.time(3), .fresh = is_fresh(rows.time(1), until, rows.time(3))};
}

Result<Instant, Fault> lock_fresh_session(Session& session, UserId user, SessionId asker) {
  const auto asking = lock_asking_session(session, user, asker);
  if (!asking || !asking->fresh) {
    return Fault{.code = asking ? FaultCode::kNotFresh : FaultCode::kNoSuchSession};
  }
  return asking->now;
}

}  // namespace audiogen::store
