#include "api/operators/task_story.h"

#include <algorithm>
#include <set>

#include "common/domain/lifecycle.h"

namespace audiogen::api {
namespace {

const char* entry_name(EntryKind kind) {
  switch (kind) {
    case EntryKind::kHold:
      return "hold";
    case EntryKind::kResolve:
      return "resolve";
    case EntryKind::kGrant:
      return "grant";
    case EntryKind::kClawback:
      return "clawback";
  }
  return "unknown";
}

const char* call_name(std::uint8_t state) {
  switch (state) {
    case store::kCallStarted:
      return "started";
    case store::kCallSucceeded:
      return "succeeded";
    case store::kCallFailed:
      return "failed";
    default:
      return "unknown outcome";
  }
}

std::string claimed_as(std::uint32_t epoch) {
  return "claimed (epoch " + std::to_string(epoch) + ")";
}

const char* ended_as_name(store::ClaimEndedAs as) {
  switch (as) {
    case store::ClaimEndedAs::kSettled:
      return "settled";
    case store::ClaimEndedAs::kTriedAgain:
      return "to be tried again";
    case store::ClaimEndedAs::kGivenBack:
      return "given back";
    case store::ClaimEndedAs::kTakenAway:
      return "taken away: not renewed, or out of time";
  }
  return "unknown";
}

// Adds the claims to `out`, and answers the ways back to the queue. Those that have no row of their
// own are inferred: their calls tell of them, or the task's own row does.
std::vector<StoryEvent> add_claims(const store::TaskDetail& detail, std::vector<StoryEvent>& out) {
  std::vector<StoryEvent> back;
  const store::TaskRow& task = detail.task;
  struct Told {
    Instant from, to;
    std::optional<WorkerId> worker;
    std::optional<store::ClaimEndedAs> ended{};
  };
  std::map<std::uint32_t, Told> claims;  // By their epochs.
  for (const store::CallRow& call : detail.calls) {
    const Instant to = call.ended_at.value_or(call.started_at);
    Told& told = claims.try_emplace(call.epoch, call.started_at, to).first->second;
    told.from = std::min(told.from, call.started_at);
    told.to = std::max(told.to, to);
  }
  const bool running = task.view.state == TaskState::kRunning;
  if (running && task.lease_until) {
    const Instant from = std::min(task.view.updated_at, *task.lease_until);
    claims.try_emplace(task.epoch, from, from).first->second.worker = task.worker;
  }
  for (const store::ClaimRow& claim : detail.claims) {
    claims.insert_or_assign(claim.epoch,
                            Told{claim.claimed_at, claim.ended_at, claim.worker, claim.ended_as});
  }
  for (auto claim = claims.begin(); claim != claims.end(); ++claim) {
    const Told& told = claim->second;
    out.push_back({.at = told.from,
                   .lane = "worker",
                   .what = claimed_as(claim->first),
                   .worker = told.worker,
                   .inferred = !told.ended});
    const bool last = std::next(claim) == claims.end();
    const bool waited_again = !last || task.view.state == TaskState::kQueued ||
                              told.ended == store::ClaimEndedAs::kTriedAgain ||
                              told.ended == store::ClaimEndedAs::kGivenBack;
    if (waited_again) {
      back.push_back({.at = last && !told.ended ? task.view.updated_at : told.to,
                      .lane = "queue",
                      .what = "put back",
                      .detail = told.ended ? std::optional<std::string>(ended_as_name(*told.ended))
                                           : std::nullopt,
                      .inferred = !told.ended});
    } else if (told.ended == store::ClaimEndedAs::kTakenAway) {
      out.push_back({.at = told.to,
                     .lane = "worker",
                     .what = "claim ended",
                     .detail = ended_as_name(*told.ended),
                     .worker = told.worker});
    }
  }
  return back;
}

}  // namespace

void task_members(Json& json, const store::TaskRow& task) {
  const TaskView& view = task.view;
  json.member("id", view.id)
      .member("user", task.user)
      .member("status", state_name(view.state))
      .member("claims", view.claims)
      .member("calls", task.calls)
      .member("reserved_credits", view.held)
      .member("charged_credits", view.charged)
      .member("error",
              view.failure ? std::optional(failure_code_name(*view.failure)) : std::nullopt)
      .member("created_at", view.created_at)
      .member("updated_at", view.updated_at);
}

std::string task_json(const store::TaskDetail& detail) {
  const store::TaskRow& task = detail.task;
  const TaskView& view = task.view;
  Json json;
  task_members(json, task);
  json.member("public_status", public_status(view.state, view.claims))
      .member("epoch", task.epoch)
      .member("lost_leases", task.lost_leases)
      .member("worker", task.worker)
      .member("lease_until", task.lease_until)
      .member("next_run_at", task.next_run_at)
      .member("wake_at", task.wake_at)
      .member("deadline_at", task.deadline_at);
  if (view.state == TaskState::kSucceeded) {
    json.member("output_key", view.output_key)
        .member("output_bytes", task.output_bytes)
        .member("duration_seconds", Units{view.duration_ms});
  }
  if (view.failure) {
    json.member("error_message",
                view.failure_message.empty() ? failure_message(*view.failure)
                                             : std::string_view(view.failure_message));
  }
  json.objects("attempts", detail.calls, [&](const store::CallRow& call) {
    json.member("n", call.n)
        .member("epoch", call.epoch)
        .member("provider", call.provider)
        .member("state", call_name(call.state))
        .member("started_at", call.started_at)
        .member("ended_at", call.ended_at)
        .member("detail", call.detail);
  });
  json.objects("past_claims", detail.claims, [&](const store::ClaimRow& claim) {
    json.member("epoch", claim.epoch)
        .member("worker", claim.worker)
        .member("claimed_at", claim.claimed_at)
        .member("ended_at", claim.ended_at)
        .member("ended_as", ended_as_name(claim.ended_as));
  });
  json.objects("ledger", detail.ledger, [&](const store::LedgerRow& row) {
    json.member("seq", row.seq)
        .member("kind", entry_name(row.kind))
        .member("available", row.d_available)
        .member("reserved", row.d_held)
        .member("system", row.d_system)
        .member("available_after", row.after.available)
        .member("reserved_after", row.after.held)
        .member("at", row.created_at);
  });
  auto timeline = story_of(detail);
  std::erase_if(timeline, [](const StoryEvent& event) { return event.inferred; });
  json.objects("timeline", timeline, [&](const StoryEvent& event) {
    json.member("at", event.at)
        .member("event", event.what + (event.detail ? ", " + *event.detail : ""));
  });
  return json.finish();
}

std::vector<StoryEvent> story_of(const store::TaskDetail& detail) {
  std::vector<StoryEvent> out;
  const store::TaskRow& task = detail.task;
  const TaskView& view = task.view;
  out.push_back(
      {.at = view.created_at,
       .lane = "client",
       .what = "asked for",
       .detail = task.request_id ? std::optional("request " + *task.request_id) : std::nullopt,
       .inferred = true});
  for (const store::LedgerRow& row : detail.ledger) {
    if (row.kind == EntryKind::kHold) {
      out.push_back({.at = row.created_at,
                     .lane = "money",
                     .what = "created",
                     .detail = format_credits(row.d_held) + " reserved"});
    }
  }
  out.push_back({.at = view.created_at,
                 .lane = "queue",
                 .what = view.lane == Lane::kParked ? "parked behind others of its user"
                                                    : "ready for workers",
                 .inferred = true});
  const auto back = add_claims(detail, out);
  for (const store::CallRow& call : detail.calls) {
    const std::string name = "call " + std::to_string(call.n) + " to " + call.provider;
    out.push_back({.at = call.started_at, .lane = "provider", .what = name + " started"});
    if (call.ended_at) {
      out.push_back({.at = *call.ended_at,
                     .lane = "provider",
                     .what = name + ": " + call_name(call.state),
                     .detail = call.detail.empty() ? std::nullopt : std::optional(call.detail)});
    }
  }
  out.insert(out.end(), back.begin(), back.end());
  if (view.state == TaskState::kCanceled) {
    out.push_back({.at = view.updated_at, .lane = "client", .what = "canceled", .inferred = true});
  }
  for (const store::LedgerRow& row : detail.ledger) {
    if (row.kind != EntryKind::kHold) {
      out.push_back({.at = row.created_at,
                     .lane = "money",
                     .what = std::string(state_name(view.state)),
                     .detail = format_credits(row.d_system) + " charged, " +
                               format_credits(row.d_available) + " returned"});
    }
  }
  if (view.output_deleted_at) {
    out.push_back({.at = *view.output_deleted_at,
                   .lane = "client",
                   .what = "file removed",
                   .inferred = true});
  }
  if (!is_final(view.state)) {
    if (task.lease_until) {
      out.push_back({.at = *task.lease_until,
                     .lane = "worker",
                     .what = "lease ends unless renewed",
                     .worker = task.worker});
    } else {
      out.push_back({.at = task.next_run_at, .lane = "queue", .what = "due"});
    }
    out.push_back({.at = task.deadline_at, .lane = "api", .what = "deadline"});
  }
  std::stable_sort(
      out.begin(), out.end(), [](const StoryEvent& a, const StoryEvent& b) { return a.at < b.at; });
  return out;
}

std::string story_json(const store::TaskDetail& detail) {
  std::string out;
  JsonWriter json(out);
  json.begin_object().key("task").raw(task_json(detail)).key("events").begin_array();
  for (const StoryEvent& event : story_of(detail)) {
    json.begin_object()
        .member("at", event.at)
        .member("lane", event.lane)
        .member("what", event.what)
        .member("detail", event.detail)
        .member("worker", event.worker)
        .end_object();
  }
  json.end_array().end_object();
  return out;
}

}  // namespace audiogen::api
