// Waiting for the store in a handler: ask() for what goes through a group commit.
#pragma once

#include <chrono>
#include <type_traits>
#include <utility>

#include "api/server/handling.h"
#include "common/store/group_commit.h"

namespace audiogen::api {

template <class Command, class Outcome>
class Asking {
 public:
  using Group = store::GroupCommit<Command, Outcome>;
  using Answer = Result<Outcome, store::StoreFault>;

  Asking(Group& group, Command&& command, typename Group::Clock::time_point arrived)
      : group_(group), command_(std::move(command)), arrived_(arrived) {}

  bool await_ready() const noexcept { return false; }
  // False, so that the handler goes on at once, when the group takes no more.
  bool await_suspend(Handling::Frame frame) {
    // Once taken, the answer may come before submit() returns, and this object may be gone by then.
    return group_.submit(
        std::move(command_),
        [this, waiting = Handling::Share(frame)](Answer answer) {
          answer_ = std::move(answer);
          waiting.resume();
        },
        arrived_);
  }
  Answer await_resume() { return std::move(answer_); }

 private:
  Group& group_;
  Command command_;
  typename Group::Clock::time_point arrived_;
  Answer answer_ = store::StoreFault::kUnavailable;
};

// `co_await ask(group, std::move(command), call.received_at())`: the outcome, or why there is none.
// The handler goes on on the group's thread, or at once with StoreFault::kUnavailable when the
// group refuses the command.
template <class Command, class Outcome>
Asking<Command, Outcome> ask(store::GroupCommit<Command, Outcome>& group,
                             std::type_identity_t<Command>&& command,
                             std::chrono::steady_clock::time_point arrived) {
  return {group, std::move(command), arrived};
}

}  // namespace audiogen::api
