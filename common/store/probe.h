// Watches whether the database answers and whether its schema is one on which this program may
// serve, for readiness, and whether operators have paused the intake: a small query or two a second
// on a thread of its own.
#pragma once

#include <atomic>
#include <stop_token>
#include <thread>

#include "common/base/config.h"

namespace audiogen::store {

class Session;

// Whether this program may serve on the database's schema; if not, the log says why. A database
// that is away may come back: that is no reason not to start. Blocks for a few seconds at most.
bool may_serve(const DatabaseUrl& url);

class Probe {
 public:
  enum class Watches { kSchema, kIntakeToo };

  explicit Probe(const DatabaseUrl& url, Watches what = Watches::kSchema)
      : intake_too_(what == Watches::kIntakeToo),
        thread_([this, url](const std::stop_token& stop) { watch(url, stop); }) {}
  ~Probe() = default;
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;

  // Did the database answer the last time it was asked?
  bool ok() const { return ok_.load(); }
  // May this program serve on the schema, as it was when the database last answered? A migration
  // may have begun since the start. Until the first answer: yes.
  bool fits() const { return fits_.load(); }
  // Is the intake paused, as it was when the database last answered? Until the first answer, and
  // where it is not watched: no.
  bool intake_paused() const { return intake_paused_.load(std::memory_order_relaxed); }

 private:
  void watch(const DatabaseUrl& url, const std::stop_token& stop);
  void look(Session& session);
  void look_at_intake(Session& session);

  const bool intake_too_;
  std::atomic<bool> ok_{false}, fits_{true}, intake_paused_{false};
  std::jthread thread_;  // Last: everything else exists before it runs.
};

}  // namespace audiogen::store
