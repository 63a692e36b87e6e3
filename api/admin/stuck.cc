#include "api/admin/stuck.h"

#include <algorithm>
#include <chrono>

#include "api/admin/output.h"

namespace audiogen::api {

Reply stuck(Doors& doors, const Options& o) {
  const auto stuck = doors.operators.stuck(o.limit);
  if (!stuck) {
    return failure(stuck.error());
  }
  Json json;
  json.member("as_of", stuck->at)
      .member("older_than_seconds", store::kStuckAfter.count())
      .member("whole", stuck->whole)
      .objects(
          "causes",
          stuck->causes,
          [&](const auto& one) { json.member("cause", one.first).member("tasks", one.second); })
      .objects("tasks", stuck->tasks, [&](const store::Stuck::Task& one) {
        const store::TaskRow& task = one.row;
        const auto age = std::max(stuck->at - task.view.created_at, Instant::duration());
        json.member("id", task.view.id)
            .member("user", task.user)
            .member("status", state_name(task.view.state))
            .member("cause", one.cause)
            .member("age_seconds", std::chrono::duration_cast<std::chrono::seconds>(age).count())
            .member("claims", task.view.claims)
            .member("lost_leases", task.lost_leases)
            .member("worker", task.worker)
            .member("next_run_at", task.next_run_at)
            .member("deadline_at", task.deadline_at);
      });
  return Answer{json.finish(),
                stuck->whole ? "" : "There may be more of them than these: only the oldest count."};
}

}  // namespace audiogen::api
