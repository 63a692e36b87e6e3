// Waiting for the store in a handler: ask() and ask_there() for what goes through a group commit.
#pragma once

#include <type_traits>
#include <utility>

#include "api/server/call.h"
#include "api/server/handling.h"
#include "common/store/group_commit.h"

namespace audiogen::api {

template <class Command, class Outcome>
class Asking {
 public:
  using Group = store::GroupCommit<Command, Outcome>;
  using Answer = Result<Outcome, store::StoreFault>;

  Asking(Group& group,
         Command&& command,
         typename Group::Clock::time_point arrived,
         http::Loop* loop)
      : group_(group), command_(std::move(command)), arrived_(arrived), loop_(loop) {}

  bool await_ready() const noexcept { return false; }
  // False, so that the handler goes on at once, when the group takes no more.
  bool await_suspend(Handling::Frame frame) {
    // Once taken, the answer may come before submit() returns, and this object may be gone by then.
    return group_.submit(
        std::move(command_),
        [this, waiting = Handling::Share(frame)](Answer answer) mutable {
          answer_ = std::move(answer);
          if (loop_ != nullptr) {
            std::move(waiting).resume_on(*loop_);
          } else {
            Handling::Share(std::move(waiting)).resume();  // It goes with this, not with the batch.
          }
        },
        arrived_);
  }
  Answer await_resume() { return std::move(answer_); }

 private:
  Group& group_;
  Command command_;
  typename Group::Clock::time_point arrived_;
  http::Loop* loop_;
  Answer answer_ = store::StoreFault::kUnavailable;
};

// `co_await ask(group, std::move(command), call)`: the outcome, or why there is none. The handler
// goes on on the I/O thread of its connection; with StoreFault::kUnavailable at once when the group
// refuses the command.
template <class Command, class Outcome>
Asking<Command, Outcome> ask(store::GroupCommit<Command, Outcome>& group,
                             std::type_identity_t<Command>&& command,
                             const Call& call) {
  return {group, std::move(command), call.received_at(), &call.exchange().loop()};
}

// The same, but the handler goes on on the group's thread, whose next batch waits for it. For one
// that may have to wait for whoever reads its line in the log; and for commands of which each takes
// far longer than its answer and another thread of the group is at work meanwhile: one wake-up
// less.
template <class Command, class Outcome>
Asking<Command, Outcome> ask_there(store::GroupCommit<Command, Outcome>& group,
                                   std::type_identity_t<Command>&& command,
                                   const Call& call) {
  return {group, std::move(command), call.received_at(), nullptr};
}

}  // namespace audiogen::api
