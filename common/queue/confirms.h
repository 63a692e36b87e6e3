// The books of one channel's publisher confirms: which messages the broker has yet to answer for.
// Pure; one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "common/domain/task.h"

namespace audiogen::queue {

class Confirms {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  struct Message {
    std::vector<Hint> hints{};
    Lane lane = Lane::kBulk;  // Of all of them.
    bool repeated = false;    // It was sent before, on another connection.
  };
  // What one answer of the broker settled, in hints.
  struct Settled {
    std::vector<Hint> taken;   // The broker has them.
    std::size_t refused = 0;   // Nacked.
    std::size_t returned = 0;  // No queue was bound: acked, but thrown away.
  };

  // A message was published; its tag is one more than the last one's, beginning with 1.
  void sent(const Message& message, TimePoint now);

  // The broker could not route the message with these hints; its ack is still to come. False: it
  // was never sent.
  bool returned(std::span<const Hint> hints);

  // The broker's answer for `tag` or, with `multiple`, for all open ones up to it. Nothing: the
  // broker talks about a tag that was never used or was settled before.
  std::optional<Settled> ack(std::uint64_t tag, bool multiple);
  std::optional<Settled> nack(std::uint64_t tag, bool multiple);

  std::size_t size() const { return open_; }         // Messages without an answer.
  std::size_t hints() const { return open_hints_; }  // In them.
  // When the oldest unanswered message was sent.
  std::optional<TimePoint> oldest() const;
  // Gives every open message a new date: no answer could be expected until `now`.
  void restart_clocks(TimePoint now);

  // Empties the books; the messages whose fate is unknown, oldest first (returned ones are known).
  std::vector<Message> take_unknown();

 private:
  enum class State : std::uint8_t { kOpen, kReturned, kSettled };
  struct Entry {
    Message message;
    TimePoint at;
    State state = State::kOpen;
  };
  std::optional<Settled> settle(std::uint64_t tag, bool multiple, bool accepted);

  std::deque<Entry> entries_;  // Of the tags first_, first_ + 1, … The first one is not settled.
  std::uint64_t first_ = 1;
  std::size_t open_ = 0;  // Entries that are not settled.
  std::size_t open_hints_ = 0;
};

}  // namespace audiogen::queue
