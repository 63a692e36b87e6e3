#include "api/account/ledger_entry.h"

namespace audiogen::api {
namespace {

std::string_view entry_kind_name(EntryKind kind) {
  switch (kind) {
    case EntryKind::kHold:
      return "reservation";
    case EntryKind::kResolve:
      return "settlement";
    case EntryKind::kGrant:
      return "grant";
    case EntryKind::kClawback:
      break;
  }
  return "clawback";
}

std::string_view grant_kind_name(store::GrantKind kind) {
  switch (kind) {
    case store::GrantKind::kPurchase:
      return "purchase";
    case store::GrantKind::kPlan:
      return "plan";
    case store::GrantKind::kBonus:
      return "bonus";
    case store::GrantKind::kAdjustment:
      break;
  }
  return "adjustment";
}

}  // namespace

void write_credits(JsonWriter& json, std::string_view name, Units amount) {
  json.key(name).raw(format_credits(amount));
}

void write_entry(JsonWriter& json, const store::LedgerEntry& row) {
  const bool of_task = row.entry.kind == EntryKind::kHold || row.entry.kind == EntryKind::kResolve;
  json.begin_object()
      .member("object", "ledger.entry")
      .member("seq", row.entry.after.seq)
      .member("kind", entry_kind_name(row.entry.kind));
  write_credits(json, "available_change", row.entry.d_available);
  write_credits(json, "reserved_change", row.entry.d_held);
  // What a grant adds comes from the service, and is nothing that was charged.
  write_credits(json, "charged_credits", of_task ? row.entry.d_system : Units{});
  json.key("balance_after").begin_object();
  write_credits(json, "available", row.entry.after.available);
  write_credits(json, "reserved", row.entry.after.held);
  json.end_object()
      .member("generation_id",
              of_task ? std::optional(TaskId{row.source}) : std::optional<TaskId>())
      .key("grant");
  if (row.grant) {
    json.begin_object()
        .member("kind", grant_kind_name(row.grant->kind))
        .member("reference", std::string_view(row.grant->reference))
        .end_object();
  } else {
    json.null();
  }
  json.member("created_at", row.created_at).end_object();
}

}  // namespace audiogen::api
