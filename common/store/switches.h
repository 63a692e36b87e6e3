// The door to what operators tell the running programs: a row each, which these read by themselves.
#pragma once

#include <chrono>
#include <string_view>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/domain/operator_action.h"
#include "common/store/door.h"

namespace audiogen::store {

// Who says so, and why, for whoever sees it; the note of the door is for the record.
struct Said {
  std::string_view by, reason;
};

// See Door for threads, blocking and failures.
class Switches : private Door {
 public:
  explicit Switches(Session& session, const ActionNote* note = nullptr) : Door(session, note) {}

  // The worker finishes what it has and ends, within kWorkersReport and as on SIGTERM. True: it was
  // asked before. Faults: kNoSuchWorker, kWorkerGone.
  Result<bool, Fault> drain_worker(WorkerId worker);

  // Until `lasts` from now, and instead of what was said before. Faults: none of its own.
  Result<Done, Fault> override_breaker(std::string_view provider,
                                       bool open,
                                       std::chrono::seconds lasts,
                                       const Said& said);
  // Faults: kNoOverride.
  Result<Done, Fault> clear_override(std::string_view provider);

  // Faults: kIntakePaused; kIntakeOpen.
  Result<Done, Fault> pause_intake(const Said& said);
  Result<Done, Fault> resume_intake();
  // Nullopt: it is open.
  Result<std::optional<IntakePause>, Fault> intake();
};

// The same, for who has a session and no door.
std::optional<IntakePause> read_intake(Session& session);

}  // namespace audiogen::store
