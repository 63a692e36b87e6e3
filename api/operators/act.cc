#include "api/operators/act.h"

#include <algorithm>
#include <string_view>

#include "common/store/keys.h"
#include "common/store/operators.h"
#include "common/store/situations.h"
#include "common/store/switches.h"

namespace audiogen::api {
namespace {

using Outcome = Result<std::string, store::Fault>;

// Processes read what was said with their own row, every kWorkersReport.
constexpr std::string_view kHeard = "within 2 s";

template <class T>
Outcome told(const Result<T, store::Fault>& done, std::string sentence) {
  return done ? Outcome(std::move(sentence)) : Outcome(done.error());
}

// A name with a typing error would do nothing, and look as if it had. Where no worker tells of its
// providers, nobody knows.
Result<Done, store::Fault> known(store::Session& session, const std::string& provider) {
  const auto now = store::Situations(session).look();
  if (!now) {
    return now.error();
  }
  const auto providers = providers_of(*now);
  const bool there = std::any_of(providers.begin(), providers.end(), [&](const ProviderSum& one) {
    return one.name == provider;
  });
  if (!there && !providers.empty()) {
    return store::Fault{.code = store::FaultCode::kNoSuchProvider, .about = provider};
  }
  return Done{};
}

Outcome override_breaker(store::Session& session,
                         store::Switches& switches,
                         const ActionRequest& request,
                         const store::Said& said) {
  const bool open = request.action == OperatorAction::kOpenBreaker;
  if (const auto there = known(session, request.target); !there) {
    return there.error();
  }
  return told(switches.override_breaker(request.target, open, request.lasts, said),
              "The breaker of `" + request.target + "` is held " + (open ? "open" : "closed") +
                  " for " + std::to_string(request.lasts.count()) + " s; workers know it " +
                  std::string(kHeard) + ".");
}

}  // namespace

store::AdminAction action_record(const ActionRequest& request, std::string_view by) {
  const bool lasts = request.action == OperatorAction::kOpenBreaker ||
                     request.action == OperatorAction::kCloseBreaker;
  return {.who = std::string(by),
          .action = std::string(action_name(request.action)),
          .target = request.target,
          .detail = lasts ? "seconds=" + std::to_string(request.lasts.count()) : "",
          .reason = request.reason};
}

Outcome act(const DatabaseUrl& database,
            store::Session& session,
            const ActionRequest& request,
            std::string_view by,
            const store::ActionNote& note) {
  store::Switches switches(session, &note);
  const store::Said said{.by = by, .reason = request.reason};
  switch (request.action) {
    case OperatorAction::kCancelTask: {
      store::TaskStore tasks(database);
      return told(
          store::Operators(session, &note).cancel_task(tasks, *TaskId::parse(request.target)),
          "Canceled: what was reserved is returned.");
    }
    case OperatorAction::kDrainWorker: {
      const auto asked = switches.drain_worker(*WorkerId::parse(request.target));
      return told(asked,
                  asked && *asked ? "It was asked before; nothing was changed."
                                  : "Asked: " + std::string(kHeard) +
                                        " it takes nothing more, and ends when it has finished.");
    }
    case OperatorAction::kOpenBreaker:
    case OperatorAction::kCloseBreaker:
      return override_breaker(session, switches, request, said);
    case OperatorAction::kClearBreaker:
      return told(
          switches.clear_override(request.target),
          "The breaker of `" + request.target + "` is its own again " + std::string(kHeard) + ".");
    case OperatorAction::kPauseIntake:
      return told(switches.pause_intake(said),
                  "Paused: within 2 s creations are refused (503); all else goes on.");
    case OperatorAction::kResumeIntake:
      return told(switches.resume_intake(), "Resumed: within 2 s creations are taken again.");
    case OperatorAction::kDisableKey: {
      store::Keys keys(session, &note);
      const auto id = keys.resolve(request.target);
      if (!id) {
        return id.error();
      }
      const auto removed = keys.remove(*id);
      return told(removed,
                  removed && removed->repeated ? "It was deleted before; nothing was changed."
                                               : "Deleted: it stops working within a second.");
    }
  }
  return store::Fault{.code = store::FaultCode::kUnexpected};
}

}  // namespace audiogen::api
