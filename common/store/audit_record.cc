#include "common/store/audit_record.h"

#include <string_view>

#include "common/store/session.h"

namespace audiogen::store {

Result<Done, Fault> keep_audit(const DatabaseUrl& url, std::span<const Check> checks) {
  try {
    Session session(url);
    session.transact_surely([&](bool) {
      session.later(Sql("DELETE FROM audit_checks"));
      Sql sql("INSERT INTO audit_checks (name, bad, ended_at) VALUES ");
      list(sql, checks, [&](const Check& check) {
        sql << "(";
        sql.bytes(std::string_view(check.name).substr(0, check.name.find(' ')))
            << "," << check.bad << ",UTC_TIMESTAMP(6))";
      });
      session.later(sql);
    });
    return Done{};
  } catch (const DbError& e) {
    return to_fault(e);
  }
}

}  // namespace audiogen::store
