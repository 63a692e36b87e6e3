#include "common/store/row_queue.h"

#include <random>

namespace audiogen::store {

std::chrono::milliseconds held_pause(std::chrono::milliseconds held_for) {
  using std::chrono::milliseconds;
  // Longer than SessionOptions::idle_in_transaction_max.
  constexpr milliseconds kMayBeOurs{1500};
  constexpr milliseconds kMax{1000};
  if (held_for < kMayBeOurs) {
    thread_local std::minstd_rand random(std::random_device{}());
    return milliseconds(std::uniform_int_distribution<int>(1, kRivalsPause.count())(random));
  }
  return std::min(held_for / 2, kMax);
}

}  // namespace audiogen::store
