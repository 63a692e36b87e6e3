#include "api/admin/stuck.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "api/admin/output.h"
#include "common/domain/open_task.h"

namespace audiogen::api {

Reply stuck(Doors& doors, const Options& o) {
  constexpr std::chrono::seconds kAge{120};
  constexpr std::size_t kCounted = 1'000;
  const auto open = doors.operators.oldest_open(kAge, kCounted);
  if (!open) {
    return failure(open.error());
  }
  const auto cause = [&](const store::TaskRow& task) {
    const auto of = cause_of(task.view, task.lease_until, open->at);
    return std::string(of ? cause_name(*of) : "none");
  };
  std::map<std::string, std::uint64_t> causes;
  for (const store::TaskRow& task : open->tasks) {
    ++causes[cause(task)];
  }
  Json json;
  json.member("as_of", open->at)
      .member("older_than_seconds", kAge.count())
      .member("whole", open->whole)
      .objects(
          "causes",
          causes,
          [&](const auto& one) { json.member("cause", one.first).member("tasks", one.second); })
      .objects("tasks",
               std::span(open->tasks).first(std::min(o.limit, open->tasks.size())),
               [&](const store::TaskRow& task) {
                 const auto age = std::max(open->at - task.view.created_at, Instant::duration());
                 json.member("id", task.view.id)
                     .member("user", task.user)
                     .member("status", state_name(task.view.state))
                     .member("cause", cause(task))
                     .member("age_seconds",
                             std::chrono::duration_cast<std::chrono::seconds>(age).count())
                     .member("claims", task.view.claims)
                     .member("lost_leases", task.lost_leases)
                     .member("worker", task.worker)
                     .member("next_run_at", task.next_run_at)
                     .member("deadline_at", task.deadline_at);
               });
  return Answer{json.finish(),
                open->whole ? "" : "There may be more of them than these: only the oldest count."};
}

}  // namespace audiogen::api
