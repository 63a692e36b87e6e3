// What operators do to the running service: the one function behind the operations port and the
// command line.
#pragma once

#include <string>

#include "common/base/config.h"
#include "common/base/result.h"
#include "common/domain/operator_action.h"
#include "common/store/action_note.h"
#include "common/store/fault.h"
#include "common/store/session.h"

namespace audiogen::api {

// Does it, with `note` written in the transaction of its effect; what came of it, in one sentence.
// `by`: who says so. A fault's note is the caller's to write. `request` must have no
// action_fault(). Blocks; for one thread at a time.
Result<std::string, store::Fault> act(const DatabaseUrl& database,
                                      store::Session& session,
                                      const ActionRequest& request,
                                      std::string_view by,
                                      const store::ActionNote& note);

// The record of it: on what, and its other arguments.
store::AdminAction action_record(const ActionRequest& request, std::string_view by);

}  // namespace audiogen::api
