#include "common/store/meters.h"

#include <array>
#include <string>

namespace audiogen::store::meters {
namespace {

constexpr std::array<std::string_view, 8> kFaults = {"conflict",
                                                     "busy",
                                                     "timeout",
                                                     "duplicate",
                                                     "constraint",
                                                     "unavailable",
                                                     "unknown_outcome",
                                                     "unexpected"};
constexpr std::array<std::string_view, 5> kRetries = {
    "conflict", "stale", "undecided", "unread", "ended"};
constexpr std::array<std::string_view, 3> kMoves = {"reserved", "charged", "returned"};
enum Move : std::uint8_t { kReserved, kCharged, kReturned };

// One counter for each of `names`.
template <std::size_t N>
class Counters {
 public:
  Counters(const char* name,
           const char* help,
           const char* label,
           const std::array<std::string_view, N>& names) {
    for (std::size_t i = 0; i < N; ++i) {
      all_[i] = &metrics::counter(name, help, {{label, std::string(names[i])}});
    }
  }
  template <class Index>
  prometheus::Counter& at(Index index) const {
    return *all_.at(static_cast<std::size_t>(index));
  }

 private:
  std::array<prometheus::Counter*, N> all_;
};

prometheus::Counter& credits(Move move) {
  static const Counters all(
      "credits_total", "Credits moved in the ledger by this process", "move", kMoves);
  return all.at(move);
}

double in_credits(Units units) {
  constexpr double kUnits = 1000;
  return static_cast<double>(units.value) / kUnits;
}

}  // namespace

void begin() {
  errors(DbFault::kConflict);
  retries(Retry::kConflict);
  credits(kReserved);
  audio_seconds();
  finished(TaskState::kSucceeded, std::nullopt);
  finished(TaskState::kCanceled, std::nullopt);
  for (const FailureCode code : kFailureCodes) {
    finished(TaskState::kFailed, code);
  }
}

prometheus::Counter& errors(DbFault fault) {
  static const Counters all(
      "store_errors_total", "Statements and connections that failed", "kind", kFaults);
  return all.at(fault);
}

prometheus::Counter& retries(Retry retry) {
  static const Counters all(
      "store_retries_total",
      "Transactions run again after a deadlock (conflict), after the server ended "
      "one of their statements (ended), to find out what became of them "
      "(undecided), or because a task that was to be settled without a look was not as its claim "
      "had left it or was held (unread); statements sent again on a new connection (stale)",
      "kind",
      kRetries);
  return all.at(retry);
}

metrics::Histogram& transactions(std::string_view use) {
  return metrics::histogram("store_transaction_seconds",
                            "From a transaction's BEGIN to the answer to its COMMIT, tries before "
                            "included",
                            {{"use", std::string(use)}});
}

metrics::Histogram& commit_sizes(std::string_view use) {
  return metrics::histogram("commit_batch_size",
                            "Commands that went to the database together",
                            {{"use", std::string(use)}},
                            {1, 2, 4, 8, 16, 32, 64, 128, 256, 512});
}

metrics::Histogram& commit_waits(std::string_view use) {
  return metrics::histogram("commit_wait_seconds",
                            "For how long the first of the commands that went to the database "
                            "together had waited for that",
                            {{"use", std::string(use)}});
}

prometheus::Counter& finished(TaskState state, std::optional<FailureCode> code) {
  return metrics::counter("tasks_finished_total",
                          "Tasks that this process has ended",
                          {{"state", std::string(state_name(state))},
                           {"code", code ? std::string(failure_code_name(*code)) : ""}});
}

prometheus::Counter& audio_seconds() {
  static auto& seconds = metrics::counter("audio_seconds_total", "Seconds of audio delivered");
  return seconds;
}

void count_credits(Session& session, const Entry& entry) {
  switch (entry.kind) {
    case EntryKind::kHold:
      session.count(credits(kReserved), in_credits(entry.d_held));
      break;
    case EntryKind::kResolve:
      session.count(credits(kCharged), in_credits(entry.d_system));
      session.count(credits(kReturned), in_credits(entry.d_available));
      break;
    case EntryKind::kGrant:  // Made by commands, which end before anybody could ask them.
    case EntryKind::kClawback:
      break;
  }
}

}  // namespace audiogen::store::meters
