// What polled providers gave for calls under way.
#include <array>
#include <unordered_map>

#include "common/store/free_rows.h"
#include "common/store/task_batch.h"
#include "common/store/task_rows.h"
#include "common/store/task_store.h"

namespace audiogen::store {
namespace {

constexpr KeyedTable kTicketRows{.name = "tickets", .key = kRowTaskId};

}  // namespace

Batch<TicketOutcome> TaskStore::tickets(std::span<const TicketCommand> commands) {
  using Kind = TicketCommand::Kind;
  const auto body = [&](std::vector<BatchItem<TicketCommand, TicketOutcome>>& entries, bool) {
    std::vector<const TicketCommand*> keep, forget;
    std::vector<TaskId> find;
    for (const auto& entry : entries) {
      switch (entry.command->kind) {
        case Kind::kKeep:
          keep.push_back(entry.command);
          break;
        case Kind::kForget:
          forget.push_back(entry.command);
          break;
        case Kind::kFind:
          find.push_back(entry.command->task);
          break;
      }
    }
    if (!keep.empty()) {
      Sql sql("INSERT INTO tickets (task_id, n, provider, ticket, created_at) VALUES ");
      list(sql, keep, [&](const TicketCommand* one) {
        sql << "(" << one->task << "," << one->n << ",";
        sql.utf8(one->provider, kProviderMax) << ",";
        sql.utf8(one->ticket, kTicketMax) << ",UTC_TIMESTAMP(6))";
      });
      // From left to right: n comes last.
      session_.later(sql << " ON DUPLICATE KEY UPDATE provider=IF(VALUES(n)>=n,VALUES(provider),"
                            "provider), ticket=IF(VALUES(n)>=n,VALUES(ticket),ticket), "
                            "created_at=IF(VALUES(n)>=n,VALUES(created_at),created_at), "
                            "n=GREATEST(n,VALUES(n))");
    }
    if (!forget.empty()) {
      Sql sql("DELETE FROM tickets WHERE task_id IN (");
      list(sql, forget, [&](const TicketCommand* one) { sql << one->task; });
      sql << ") AND (task_id,n) IN (";
      list(sql, forget, [&](const TicketCommand* one) {
        sql << "(" << one->task << "," << one->n << ")";
      });
      session_.later(sql << ")");
    }
    if (find.empty()) {
      return;
    }
    Sql sql("SELECT task_id, n, provider, ticket FROM tickets WHERE task_id IN (");
    list(sql, find, [&](TaskId task) { sql << task; });
    std::unordered_map<TaskId, StoredTicket> found;
    for (Rows rows = session_.query(sql << ")"); rows.next();) {
      found[rows.id<TaskId>(1)] = {
          .n = rows.u32(2), .provider = rows.text(3), .ticket = rows.text(4)};
    }
    for (auto& [command, out, held] : entries) {
      const auto at = found.find(command->task);
      if (command->kind == Kind::kFind && at != found.end()) {
        out = at->second;
      }
    }
  };
  return in_batch<TicketCommand, TicketOutcome>("tickets", commands, std::nullopt, body);
}

Result<std::size_t, StoreFault> TaskStore::forget_tickets(std::chrono::seconds age,
                                                          std::size_t limit) {
  return guarded<std::size_t>("forget_tickets", [&] {
    return forget_free(session_,
                       kTicketRows,
                       Sql("tickets FORCE INDEX (k_age) WHERE created_at<")
                           << session_.now() - age << " ORDER BY created_at",
                       limit);
  });
}

}  // namespace audiogen::store
