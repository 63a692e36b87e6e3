#include "api/admin/service.h"

#include <chrono>
#include <optional>
#include <string>

#include "api/admin/output.h"
#include "api/operators/act.h"
#include "common/base/check.h"
#include "common/domain/operator_action.h"
#include "common/store/switches.h"

namespace audiogen::api {
namespace {

Reply perform(Doors& doors, const Options& o, OperatorAction action) {
  AG_CHECK(doors.note != nullptr);
  const ActionRequest request{.action = action,
                              .target = o.id,
                              .reason = o.reason,
                              .lasts = std::chrono::seconds(o.seconds)};
  if (const auto fault = action_fault(request)) {
    return Failure{fault->message};
  }
  const auto done = act(doors.url, doors.session, request, doors.note->action().who, *doors.note);
  if (!done) {
    return failure(done.error());
  }
  return Answer{Json()
                    .member("done", true)
                    .member("target", o.id.empty() ? std::nullopt : std::optional(o.id))
                    .finish(),
                *done};
}

}  // namespace

Reply worker_drain(Doors& doors, const Options& o) {
  return perform(doors, o, OperatorAction::kDrainWorker);
}
Reply provider_open(Doors& doors, const Options& o) {
  return perform(doors, o, OperatorAction::kOpenBreaker);
}
Reply provider_close(Doors& doors, const Options& o) {
  return perform(doors, o, OperatorAction::kCloseBreaker);
}
Reply provider_clear(Doors& doors, const Options& o) {
  return perform(doors, o, OperatorAction::kClearBreaker);
}
Reply intake_pause(Doors& doors, const Options& o) {
  return perform(doors, o, OperatorAction::kPauseIntake);
}
Reply intake_resume(Doors& doors, const Options& o) {
  return perform(doors, o, OperatorAction::kResumeIntake);
}

Reply intake_show(Doors& doors, const Options&) {
  const auto pause = store::Switches(doors.session).intake();
  if (!pause) {
    return failure(pause.error());
  }
  const auto& now = *pause;
  return Answer{Json()
                    .member("paused", now.has_value())
                    .member("since", now ? std::optional(now->since) : std::nullopt)
                    .member("by", now ? std::optional(now->by) : std::nullopt)
                    .member("reason", now ? std::optional(now->reason) : std::nullopt)
                    .finish()};
}

}  // namespace audiogen::api
