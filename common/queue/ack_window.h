// Which deliveries of one channel are unacknowledged, and the fewest acks that say what is done.
// Pure; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace audiogen::queue {

class AckWindow {
 public:
  struct Ack {
    std::uint64_t tag = 0;
    bool multiple = false;
    friend bool operator==(const Ack&, const Ack&) = default;
  };

  // The broker delivered `tag`, with work in `parts`, at least one. False: it is not the next one,
  // as a channel's tags must be.
  bool delivered(std::uint64_t tag, std::size_t parts = 1);
  // A part of `tag` is done; with the last one it is to be acknowledged by the next take(). Unknown
  // and repeated ones are ignored.
  void done(std::uint64_t tag);
  // `tag` was answered in another way (rejected).
  void settled(std::uint64_t tag);

  // The acks to send now. One with `multiple` covers only deliveries that are done: everything
  // before the first one that is not.
  std::vector<Ack> take();

 private:
  enum class State : std::uint8_t { kOpen, kDone, kSettled };
  struct Entry {
    State state = State::kOpen;
    std::size_t parts = 1;  // That are still open.
  };
  // The entry of `tag` if it is open, or null.
  Entry* open(std::uint64_t tag);

  std::deque<Entry> entries_;  // Of the tags first_, first_ + 1, …
  std::uint64_t first_ = 1;
  std::size_t waiting_ = 0;  // Done and not yet taken.
};

}  // namespace audiogen::queue
