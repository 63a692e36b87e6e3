#include "common/store/action_note.h"

namespace audiogen::store {
namespace {

// Characters, as the columns of admin_actions.
constexpr std::size_t kWhoMax = 200, kTargetMax = 254, kTextMax = 400, kReasonMax = 500;

}  // namespace

void ActionNote::write(Session& session, ActionResult result, std::string_view message) const {
  Sql sql(
      "INSERT INTO admin_actions (id, done_at, who, action, target, detail, reason, result, "
      "message) VALUES (");
  sql << id_ << ",UTC_TIMESTAMP(6),";
  sql.utf8(action_.who, kWhoMax) << ",";
  sql.bytes(action_.action) << ",";
  sql.utf8(action_.target, kTargetMax) << ",";
  sql.utf8(action_.detail, kTextMax) << ",";
  if (action_.reason) {
    sql.utf8(*action_.reason, kReasonMax);
  } else {
    sql << "NULL";
  }
  sql << "," << result << ",";
  if (message.empty()) {
    sql << "NULL";
  } else {
    sql.utf8(message, kTextMax);
  }
  session.flush();  // What is noted must not be taken for the note.
  try {
    session.execute(sql << ")");
  } catch (const DbError& e) {
    // It is there. (INSERT IGNORE would change values that do not fit, and ON DUPLICATE KEY UPDATE
    // needs a right that nobody has here.)
    if (e.fault() != DbFault::kDuplicate) {
      throw;
    }
  }
}

}  // namespace audiogen::store
