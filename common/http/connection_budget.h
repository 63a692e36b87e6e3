// Memory that all connections of a server share: for request bodies that are still arriving, and
// for answers that their clients have not taken. When it is used up, whoever holds most of it loses
// the piece that has been there longest: a client that opens many and is slow pays itself, and the
// others do not notice.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/base/mutex.h"

namespace audiogen::http {

class Connection;

// Any thread, never blocks for long. The bytes counted are those that are there, not those
// announced.
class ConnectionBudget {
 public:
  using Clock = std::chrono::steady_clock;
  struct Victim {
    std::shared_ptr<Connection> connection;
    std::uint64_t number = 0;  // See add().
  };
  using Victims = std::vector<Victim>;

  explicit ConnectionBudget(std::size_t bytes) : limit_(bytes) {}

  // `connection` holds `bytes` more, for `holder` (a hash of an account or an address; the first
  // one told, until release()). `number` counts its pieces, ascending: a victim learns of it when
  // it may have begun the next. The connections that have to go for it: their bytes no longer
  // count. It may be among them.
  [[nodiscard]] Victims add(const std::shared_ptr<Connection>& connection,
                            std::uint64_t number,
                            std::uint64_t holder,
                            std::size_t bytes);
  // It holds nothing any more. Without effect if it holds nothing.
  void release(const Connection* connection);

  std::size_t used() const;

 private:
  struct Piece {
    std::weak_ptr<Connection> connection;
    std::uint64_t number = 0;
    std::uint64_t holder = 0;
    std::size_t bytes = 0;
    Clock::time_point since;
  };
  struct Holder {
    std::size_t bytes = 0;
    std::set<std::pair<Clock::time_point, const Connection*>> pieces;  // The oldest first.
  };

  void forget(const Connection* connection) LOCKS_REQUIRED(mutex_);
  const Connection* worst() const LOCKS_REQUIRED(mutex_);

  const std::size_t limit_;
  mutable Mutex mutex_;
  std::size_t used_ GUARDED_BY(mutex_) = 0;
  std::unordered_map<const Connection*, Piece> pieces_ GUARDED_BY(mutex_);
  std::unordered_map<std::uint64_t, Holder> holders_ GUARDED_BY(mutex_);
};

}  // namespace audiogen::http
