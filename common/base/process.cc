#include "common/base/process.h"

#include <csignal>

#include <pthread.h>
#include <sched.h>

namespace audiogen {
namespace {

sigset_t waited_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGHUP);
  return set;
}

}  // namespace

void block_signals() {
  std::signal(SIGPIPE, SIG_IGN);
  const sigset_t set = waited_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

void prefer_batches() {
  const sched_param none{};
  // Needs no privilege; where it is forbidden all the same, work is only slower.
  static_cast<void>(::sched_setscheduler(0, SCHED_BATCH, &none));
}

Signal wait_for_signal() {
  const sigset_t set = waited_signals();
  int caught = 0;
  while (sigwait(&set, &caught) != 0) {
  }
  return caught == SIGHUP ? Signal::kReload : Signal::kStop;
}

}  // namespace audiogen
