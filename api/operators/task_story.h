// All there is about one task, for operators: its members, and its story in lanes. What `admin
// task` shows and what the page shows is made here.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/admin/output.h"
#include "common/base/ids.h"
#include "common/base/time.h"
#include "common/store/operators.h"

namespace audiogen::api {

struct StoryEvent {
  Instant at{};
  std::string_view lane{};  // client, api, queue, worker, provider, money
  std::string what{};
  std::optional<std::string> detail{};
  std::optional<WorkerId> worker{};
  bool inferred = false;  // No row says so: it follows from others.
};
// In the order of time; of an open task also what is to come.
std::vector<StoryEvent> story_of(const store::TaskDetail& detail);

// Those of a list.
void task_members(Json& json, const store::TaskRow& task);
// `admin task show`.
std::string task_json(const store::TaskDetail& detail);
// GET /ops/task: {"task":…,"events":[…]}
std::string story_json(const store::TaskDetail& detail);

}  // namespace audiogen::api
