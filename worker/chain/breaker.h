// A circuit breaker for one provider: after too many failures, of many calls or in a row, it is
// left alone for a while, then one call probes whether it works again. Pure: time is an argument;
// not thread-safe.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace audiogen::worker {

struct BreakerRules {
  std::chrono::seconds window{30};    // What counts as recent, in ten slots.
  std::uint32_t calls_min = 10;       // Fewer in the window say nothing, but as many in a row.
  double failures_max = 0.5;          // A larger share of failures opens it.
  std::uint32_t failures_in_row = 3;  // So many open it where fewer calls are made, or under way.
  std::chrono::seconds open_for{15};
  std::chrono::seconds open_for_lasting{300};  // After a failure that only a person can mend.
  std::chrono::seconds probe_pause{2};         // After a probe that was told "later".
};

class Breaker {
 public:
  using Time = std::chrono::steady_clock::time_point;

  explicit Breaker(BreakerRules rules = {}) : rules_(rules) {}

  // How a call failed, if it did; worse ones come later.
  enum class Failure : std::uint8_t {
    kNone,
    kPassing,    // It is asked again at once; or it may be the text's fault. It counts among many,
                 // but not in a row.
    kThrottled,  // It works, for others: no failure. Only many in a row count.
    kUsual,
    kLasting,  // Until a person acts.
  };

  // May a call start now? In the half-open state exactly one may, until its outcome is recorded or
  // the open time has passed once more.
  bool allow(Time now);
  // A call goes on that another breaker, of a worker that is gone, has allowed: it is among those
  // that are under way here from now on, whatever the state.
  void resume() { ++under_way_; }
  // How long allow() will say no, if nothing else happens; 0: it would say yes. One that is held
  // open says no more than open_for at a time: it may be let go any moment.
  Time::duration closed_to_calls(Time now) const;

  // The outcome of a call that was allowed. A call that was refused for its content is no failure
  // of the provider.
  void record(bool success, Time now) {
    answered(now);
    proved(success ? Failure::kNone : Failure::kUsual, now);
  }
  // The same in two steps, for an answer that takes long to prove: counted only with its proof, a
  // burst would look as if nothing came back but failures.
  void answered(Time now);
  // `of`: what was to be made, as a number; nullopt: something like nothing else. What has failed
  // here counts as one failure until something succeeds, however often it is tried; but for
  // kLasting, which has nothing to do with it.
  void proved(Failure failure, Time now, std::optional<std::uint64_t> of = std::nullopt);
  // That `of` failed was not its fault: it has failed elsewhere in the same way. It no longer
  // counts in a row; what has opened because of it is closed again.
  void take_back(std::uint64_t of);
  // The outcome of a call that says nothing of the provider either way: it counts as none, and if
  // it was the probe, another may be made. proved_nothing(): after answered().
  void said_nothing(Time now);
  // The same of one that was told "later", and comes again then: so does the next probe.
  void said_later(Time now);
  void proved_nothing(Time now);

  // What an operator has said: until then no call passes, or each does, whatever comes of them.
  // What comes of them is counted all the same, so from then on it is as it would have been.
  struct Override {
    bool open;
    Time until;
  };
  void set_override(std::optional<Override> said) { override_ = said; }

  enum class State : std::uint8_t { kClosed, kOpen, kHalfOpen };
  State state(Time now) const;
  // Since when it has not been closed without a break; nullopt: it is.
  std::optional<Time> troubled_since() const { return troubled_since_; }

 private:
  struct Slot {
    std::int64_t number = -1;
    std::uint32_t calls = 0;
    std::uint32_t failures = 0;
  };
  static constexpr std::int64_t kSlots = 10;
  std::int64_t slot_number(Time now) const;
  State own_state(Time now) const;
  const Override* overridden(Time now) const;  // Null: it is not.
  Slot& slot(Time now);

  void open(Time now, Failure failure);
  void take_back_call(Time now);  // One that was answered() counts as none.
  void pause_probes(Time now);
  // Whether that has failed here before, and so badly that this says nothing new.
  enum class Known : std::uint8_t { kNot, kLessBad, kAsBad };
  Known remember(std::uint64_t what, Failure failure);

  BreakerRules rules_;
  std::array<Slot, kSlots> slots_{};
  std::uint32_t under_way_ = 0;        // Let through, and not answered.
  std::uint32_t failures_in_row_ = 0;  // Without those that were throttled.
  std::uint32_t refusals_in_row_ = 0;  // With them.
  struct Failed {
    std::uint64_t what;
    Failure failure;  // The worst that it has counted as.
  };
  std::vector<Failed> failed_;  // Since the last success; few.
  // How things stood when failures in a row opened it, which may be taken back.
  struct Row {
    std::vector<Failed> failed;
    std::uint32_t failures, refusals;
  };
  std::optional<Row> opened_by_;
  std::optional<Time> opened_at_;     // While it is not closed.
  std::chrono::seconds open_for_{0};  // Since then.
  std::optional<Time> probe_at_;      // While a probe's outcome is awaited.
  std::optional<Override> override_;
  std::optional<Time> troubled_since_;
};

std::string_view breaker_state_name(Breaker::State state);  // closed, open, half_open

}  // namespace audiogen::worker
