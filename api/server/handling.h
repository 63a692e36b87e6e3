// What a route's handler is when it has to wait: a coroutine that starts at once on the I/O thread,
// belongs to nobody, and reads from the first line to the last as it happens.
//
//   Handling Things::show(Call call) {
//     const auto found = co_await ask(finds_, std::move(command), call);
//     …
//   }
//
// What to keep to, because a handler outlives the function that called it, and because of errors in
// the coroutines of g++ 12:
//  - it is a function, not a lambda with captures (those go with the lambda), and takes what it
//    needs by value;
//  - a co_await stands alone: the whole of a statement, or of what initializes a variable; never
//    in a condition, a ?:, or as an argument;
//  - no lock is held and no thread_local looked at over a co_await: what comes behind it runs on
//    another thread, or on an I/O thread again, and must not block there either
//    (but see ask_there()).
#pragma once

#include <atomic>
#include <coroutine>
#include <utility>

#include "common/http/loop.h"

namespace audiogen::api {

class Handling {
 public:
  class promise_type;
  using Frame = std::coroutine_handle<promise_type>;

  // A share in a handler that waits. Its frame (the only allocation) lives until the last share
  // goes: after its end, or where it stands if nobody is left to resume it. Then its locals are
  // destroyed, among them the exchange, whose client gets on_error(500). Any thread.
  class Share {
   public:
    explicit Share(Frame frame) noexcept;
    Share(const Share& other) noexcept;
    Share(Share&& other) noexcept : frame_(std::exchange(other.frame_, nullptr)) {}
    Share& operator=(const Share&) = delete;
    Share& operator=(Share&&) = delete;
    ~Share();

    // Runs the handler on, on this thread, to its next wait or its end. Once for each wait.
    void resume() const { frame_.resume(); }
    // The same, on the thread of `loop`, which takes the share.
    void resume_on(http::Loop& loop) && {
      loop.post([](void* frame) { Share(Frame::from_address(frame), Kept()).resume(); },
                std::exchange(frame_, nullptr).address());
    }

   private:
    struct Kept {};  // The share was there before.
    Share(Frame frame, Kept) noexcept : frame_(frame) {}

    Frame frame_;
  };

 private:
  explicit Handling(Frame frame) noexcept : share_(frame) {}

  Share share_;  // Of whoever starts it: as long as it runs there.
};

class Handling::promise_type {
 public:
  Handling get_return_object() noexcept { return Handling(Frame::from_promise(*this)); }
  std::suspend_never initial_suspend() const noexcept { return {}; }
  // The last share takes the frame away.
  std::suspend_always final_suspend() const noexcept { return {}; }
  void return_void() const noexcept {}
  // Logs what kind of exception it was, never its text; the client gets on_error(500).
  void unhandled_exception() const noexcept;

 private:
  friend class Share;
  std::atomic<int> shares_{0};
};

inline Handling::Share::Share(Frame frame) noexcept : frame_(frame) {
  frame_.promise().shares_.fetch_add(1, std::memory_order_relaxed);
}

inline Handling::Share::Share(const Share& other) noexcept : frame_(other.frame_) {
  if (frame_) {
    frame_.promise().shares_.fetch_add(1, std::memory_order_relaxed);
  }
}

inline Handling::Share::~Share() {
  if (frame_ && frame_.promise().shares_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    frame_.destroy();
  }
}

}  // namespace audiogen::api
