// The commands that wait for a transaction, by the row each of them needs. Two kinds of row keep
// their commands back while all others go on: rows that another session has been found to hold,
// which are tried again after a while, and rows that a transaction of a sibling thread is changing
// just now, which could only be found held. A sibling that has nothing left to send but COMMIT
// hands its rows over: the server is about to free them, before it has written its log, and whoever
// comes next need not wait for the writing.
//
// Beside a sibling's, a batch may wait a moment for company when the one before had more. A
// transaction of creations costs the server as much as three creations whatever is in it: the first
// that comes while a sibling is busy would go alone, and half of all batches had fewer than five.
// Without siblings nobody waits: whoever is woken gives way once to those who run already and may
// be reading what belongs to the same batch. (Polls: a tenth more of them than with a wait of
// 50 us, the least that a timer gives, and than without giving way.)
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"

namespace audiogen::store {

// After what time a row that has been held for `held_for` is tried again. Another process's
// transaction, which is over in milliseconds, may hold it, and then the next one: there is no queue
// for a row, so for longer than the server lets a frozen one of ours live everybody tries alike, at
// random moments, and who has waited longest is not who tries least. What is held longer than that
// an operator holds, perhaps for ever: half the time it has been held, a second at most.
std::chrono::milliseconds held_pause(std::chrono::milliseconds held_for);
// The longest of those random pauses.
inline constexpr std::chrono::milliseconds kRivalsPause{10};

// From any thread. `Item` has the members `row`, an std::optional<Uuid>: none where nothing is ever
// locked; `bytes`, its share of what a batch may carry; `number`, for this queue's own use;
// `batch`, the batch it was taken in; `follows`, set when its row was handed over by a batch that
// is not over yet; and `was_held`, set once it has waited for a held row.
template <class Item>
class RowQueue {
 public:
  using Clock = std::chrono::steady_clock;

  // Holds up to `capacity` items whose rows are free, and as many of held rows: those who wait for
  // a held row take no place from anybody else. `siblings`: several threads take batches, so each
  // row is in one batch at a time. `company`: how long a batch beside a sibling's waits for as many
  // as the newest has. `briefly_held`: items of a row that has been held for less than this go with
  // each batch that goes anyway, before their time. `pause`: as held_pause.
  RowQueue(std::size_t capacity,
           bool siblings,
           std::chrono::microseconds company = std::chrono::microseconds(0),
           std::chrono::milliseconds briefly_held = std::chrono::milliseconds(0),
           decltype(held_pause)* pause = held_pause)
      : capacity_(capacity),
        siblings_(siblings),
        company_(company),
        briefly_held_(briefly_held),
        pause_(pause) {}

  // Adds `item`. False, with `item` untouched, when the queue is full or closed. Never blocks.
  bool push(Item&& item) {
    bool wake = false, rested = false;
    {
      const MutexLock lock(mutex_);
      Row* const row = item.row ? find(*item.row) : nullptr;
      const bool held = row != nullptr && row->held_since;
      if (closed_ || (held ? held_items_ : free_items_) >= capacity_) {
        return false;
      }
      ++(held ? held_items_ : free_items_);
      item.number = ++numbers_;
      if (row != nullptr) {
        row->waiting.emplace_hint(row->waiting.end(), item.number, std::move(item));
        return true;  // Nobody could take it now.
      }
      fresh_.push_back(std::move(item));
      // In between nobody would do more than look at the clock again.
      wake = !wants_company() || ready() == 1 || ready() == newest_size_;
      rested = ready() == enough_;
    }
    if (wake) {
      wake_.notify_one();
    }
    if (rested) {
      rested_.notify_all();
    }
    return true;
  }

  // Waits for work and takes up to `max` items, oldest first; of held rows at most a quarter, so
  // that many of them never keep the others waiting. It waits until there are as many as in the
  // newest batch, or no sibling has one any more, or `company` has passed. The batch ends with the
  // item that fills it to `bytes_max`. Empty only when closed and drained. All items have the same
  // `batch`, which finish() must be told of.
  std::vector<Item> take(std::size_t max,
                         std::size_t bytes_max = std::numeric_limits<std::size_t>::max()) {
    MutexLock lock(mutex_);
    std::optional<Clock::time_point> company_until;
    for (;;) {
      if (wants_company() && ready() > 0 && ready() < newest_size_ && !closed_) {
        const auto now = Clock::now();
        company_until = company_until.value_or(now + company_);
        const auto until =
            retries_.empty() ? *company_until : std::min(*company_until, retries_.begin()->first);
        if (now < until) {
          ++waiting_for_company_;
          wake_.wait_until(lock, until);
          --waiting_for_company_;
          continue;
        }
      }
      company_until.reset();
      std::vector<Item> out;
      out.reserve(std::min(max, free_items_ + held_items_));
      ++batches_;
      std::size_t bytes = bytes_max;
      const std::size_t quarter = std::max<std::size_t>(1, max / 4);
      take_held(out, quarter, bytes, Held::kDue);
      const std::size_t due = out.size();
      take_ready(out, max, bytes);
      if (!out.empty()) {
        ++batches_out_;
        newest_size_ = out.size();
        if (briefly_held_.count() > 0) {  // Last: they take no room from what could go.
          take_held(out, std::min(max, newest_size_ + quarter - due), bytes, Held::kBriefly);
        }
        return out;
      }
      if (closed_ && free_items_ + held_items_ == 0) {
        return out;
      }
      if (retries_.empty()) {
        wake_.wait(lock);
        if (!siblings_) {
          lock.unlock();
          std::this_thread::yield();
          lock.lock();
        }
      } else {
        const Clock::time_point retry_at = retries_.begin()->first;  // A copy: it may go meanwhile.
        wake_.wait_until(lock, retry_at);
      }
    }
  }

  // Waits until then, or until `enough` items are ready to be taken, or until a held row is to be
  // tried again, whose time is at random so that rivals for it do not meet, or until the queue is
  // closed. For one thread: of siblings, one could sleep through what another leaves.
  void rest(Clock::time_point until, std::size_t enough) {
    MutexLock lock(mutex_);
    enough_ = enough;
    while (!closed_ && ready() < enough_) {
      const auto end = retries_.empty() ? until : std::min(until, retries_.begin()->first);
      if (Clock::now() >= end) {
        return;
      }
      rested_.wait_until(lock, end);
    }
  }

  // The transaction of `batch` is about to send its last packet: from here on others may take
  // `rows`. At most once per batch, before its finish().
  void hand_over(std::uint64_t batch, std::span<const Uuid> rows) {
    bool more = false;
    {
      const MutexLock lock(mutex_);
      for (const Uuid& key : rows) {
        const auto found = rows_.find(key);
        if (found != rows_.end() && is_of(found->second, batch) && !found->second.held_since) {
          more |= resume(found);
          ending_[key] = batch;
        }
      }
    }
    if (more) {
      wake_.notify_one();
    }
  }

  // The transaction of `batch`, with the items of these rows, is over. `held` are those of its
  // items whose rows another session holds: they are kept for the next try. Of `untried` no item
  // was in the transaction.
  void finish(std::uint64_t batch,
              std::span<const std::optional<Uuid>> rows,
              std::vector<Item> held,
              std::span<const std::optional<Uuid>> untried = {}) {
    bool more = false;
    {
      const MutexLock lock(mutex_);
      const auto now = Clock::now();
      AG_CHECK(batches_out_ > 0);
      --batches_out_;
      more |= ready() > 0;
      for (const auto& key : untried) {
        Row* const row = key ? find(*key) : nullptr;
        if (row != nullptr && is_of(*row, batch) && row->held_since) {
          row->still_held = true;  // As far as anybody knows.
        }
      }
      for (Item& item : held) {
        Row& row = rows_[*item.row];
        const std::uint64_t number = item.number;
        row.waiting.emplace(number, std::move(item));
        ++(row.held_since ? held_items_ : free_items_);
        // By the sibling that has it now, perhaps; then that one says what becomes of it.
        row.still_held |= !row.in_batch || is_of(row, batch);
      }
      for (const auto& key : rows) {
        if (!key || (rows_.empty() && ending_.empty())) {
          continue;
        }
        if (const auto ended = ending_.find(*key);
            ended != ending_.end() && ended->second == batch) {
          ending_.erase(ended);
        }
        const auto found = rows_.find(*key);
        if (found == rows_.end()) {
          continue;  // Seen already, as the row of another item.
        }
        const Row& row = found->second;
        if (row.in_batch ? is_of(row, batch) : row.still_held) {
          more |= settle(found, now);
        }
      }
      more |= closed_;
    }
    if (more) {
      wake_.notify_all();
    }
  }

  // No more pushes; takers drain what is left, held or not.
  void close() {
    {
      const MutexLock lock(mutex_);
      closed_ = true;
    }
    wake_.notify_all();
    rested_.notify_all();
  }

  bool closed() const {
    const MutexLock lock(mutex_);
    return closed_;
  }

  // Items that wait for nothing but their turn.
  std::size_t size() const {
    const MutexLock lock(mutex_);
    return free_items_;
  }

  // Threads in take() that have found fewer items than they wait for.
  std::size_t waiting_for_company() const {
    const MutexLock lock(mutex_);
    return waiting_for_company_;
  }

 private:
  // By number, so oldest first, wherever they have been meanwhile.
  using Items = std::map<std::uint64_t, Item>;
  // A row that keeps its items back.
  struct Row {
    bool in_batch = false;    // Of a sibling, or of a try after it was held.
    bool still_held = false;  // Said by that batch.
    std::uint64_t batch = 0;  // Which one.
    std::optional<Clock::time_point> held_since;
    Items waiting;
  };
  using Rows = std::unordered_map<Uuid, Row>;

  static bool is_of(const Row& row, std::uint64_t batch) {
    return row.in_batch && row.batch == batch;
  }

  // Of two siblings at most: a third would sleep through what the second leaves.
  bool wants_company() const LOCKS_REQUIRED(mutex_) {
    return company_.count() > 0 && batches_out_ > 0;
  }
  // Items that may be taken now, as far as is known.
  std::size_t ready() const LOCKS_REQUIRED(mutex_) { return fresh_.size() + resumed_.size(); }

  Row* find(const Uuid& key) LOCKS_REQUIRED(mutex_) {
    if (rows_.empty()) {
      return nullptr;
    }
    const auto found = rows_.find(key);
    return found == rows_.end() ? nullptr : &found->second;
  }

  // Of held rows: those whose time has come, or those that have been held briefly as well.
  enum class Held { kDue, kBriefly };

  // Both take from `bytes` what their items carry, and nothing once none are left.
  void take_held(std::vector<Item>& out, std::size_t max, std::size_t& bytes, Held which)
      LOCKS_REQUIRED(mutex_) {
    const auto now = Clock::now();
    auto next = retries_.begin();  // In the order of their times.
    while (next != retries_.end() && out.size() < max && bytes > 0) {
      const bool due = closed_ || next->first <= now;
      if (!due && (which == Held::kDue || next->first > now + kRivalsPause)) {
        return;
      }
      Row& row = rows_.at(next->second);
      if (!due && now - *row.held_since >= briefly_held_) {
        ++next;
        continue;
      }
      next = retries_.erase(next);
      AG_CHECK(!row.waiting.empty());  // Else no finish() would ever tell of this row.
      row.in_batch = true;
      row.batch = batches_;
      while (!row.waiting.empty() && out.size() < max && bytes > 0) {
        Item& item = give(std::move(row.waiting.begin()->second), out, bytes);
        row.waiting.erase(row.waiting.begin());
        item.was_held = true;
        item.follows = false;
        --held_items_;
      }
    }
  }

  // Puts the item into a batch.
  Item& give(Item&& taken, std::vector<Item>& out, std::size_t& bytes) LOCKS_REQUIRED(mutex_) {
    Item& item = out.emplace_back(std::move(taken));
    item.batch = batches_;
    bytes -= std::min(bytes, item.bytes);
    return item;
  }

  void take_ready(std::vector<Item>& out, std::size_t max, std::size_t& bytes)
      LOCKS_REQUIRED(mutex_) {
    while (free_items_ > 0 && out.size() < max && bytes > 0) {
      Item* const oldest = this->oldest();
      if (oldest == nullptr) {
        return;  // Those left wait for a sibling's batch.
      }
      const auto& key = oldest->row;
      if (Row* const row = key ? find(*key) : nullptr; row != nullptr) {
        if (row->held_since || row->batch != batches_) {
          if (row->held_since) {
            --free_items_;
            ++held_items_;
          }
          row->waiting.emplace_hint(row->waiting.end(), oldest->number, std::move(*oldest));
          drop_oldest();
          continue;
        }
      } else if (siblings_ && key) {
        Row& own = rows_[*key];
        own.in_batch = true;
        own.batch = batches_;
      }
      --free_items_;
      Item& item = give(std::move(*oldest), out, bytes);
      drop_oldest();
      item.follows = item.row && !ending_.empty() && ending_.contains(*item.row);
    }
  }

  bool resumed_first() const LOCKS_REQUIRED(mutex_) {
    return !resumed_.empty() && (fresh_.empty() || resumed_.begin()->first < fresh_.front().number);
  }
  // Of those that no row keeps back. Null: there is none.
  Item* oldest() LOCKS_REQUIRED(mutex_) {
    return resumed_first() ? &resumed_.begin()->second : fresh_.empty() ? nullptr : &fresh_.front();
  }
  void drop_oldest() LOCKS_REQUIRED(mutex_) {
    if (resumed_first()) {
      resumed_.erase(resumed_.begin());
    } else {
      fresh_.pop_front();
    }
  }

  // What becomes of a row after a batch. True: items of it are ready now.
  bool settle(typename Rows::iterator found, Clock::time_point now) LOCKS_REQUIRED(mutex_) {
    Row& row = found->second;
    row.in_batch = false;
    if (row.still_held && !row.waiting.empty()) {
      row.still_held = false;
      if (!row.held_since) {
        row.held_since = now;
        free_items_ -= row.waiting.size();
        held_items_ += row.waiting.size();
      }
      const auto held_for =
          std::chrono::duration_cast<std::chrono::milliseconds>(now - *row.held_since);
      retries_.emplace(now + pause_(held_for), found->first);
      return true;  // Somebody has to wait for it.
    }
    return resume(found);
  }

  // Lets the row's items be taken. True: there are some.
  bool resume(typename Rows::iterator found) LOCKS_REQUIRED(mutex_) {
    Row& row = found->second;
    const bool any = !row.waiting.empty();
    const bool held = row.held_since.has_value();
    if (held) {
      held_items_ -= row.waiting.size();
      free_items_ += row.waiting.size();
    }
    if (held) {
      for (auto& [number, item] : row.waiting) {
        item.was_held = true;
      }
    }
    resumed_.merge(row.waiting);
    rows_.erase(found);
    return any;
  }

  const std::size_t capacity_;
  const bool siblings_;
  const std::chrono::microseconds company_;
  const std::chrono::milliseconds briefly_held_;
  decltype(held_pause)* const pause_;
  mutable Mutex mutex_;
  ConditionVariable wake_;
  ConditionVariable rested_;  // Of rest(), which few of those that are pushed disturb …
  std::size_t enough_ GUARDED_BY(mutex_) = 0;  // … if any: the one that makes it so many.
  // Both wait for nothing but their turn: those whose row kept them back, and the others, which
  // came in their order and of which there are so many that each is to cost little.
  Items resumed_ GUARDED_BY(mutex_);
  std::deque<Item> fresh_ GUARDED_BY(mutex_);
  Rows rows_ GUARDED_BY(mutex_);
  // Rows handed over, and by which batch last.
  std::unordered_map<Uuid, std::uint64_t> ending_ GUARDED_BY(mutex_);
  std::set<std::pair<Clock::time_point, Uuid>> retries_ GUARDED_BY(mutex_);
  std::uint64_t batches_ GUARDED_BY(mutex_) = 0;    // The newest batch's number …
  std::size_t newest_size_ GUARDED_BY(mutex_) = 0;  // … and size.
  std::size_t waiting_for_company_ GUARDED_BY(mutex_) = 0;
  std::size_t batches_out_ GUARDED_BY(mutex_) = 0;  // Taken, and no finish() yet.
  std::uint64_t numbers_ GUARDED_BY(mutex_) = 0;    // The newest item's.
  std::size_t free_items_ GUARDED_BY(mutex_) = 0;
  std::size_t held_items_ GUARDED_BY(mutex_) = 0;
  bool closed_ GUARDED_BY(mutex_) = false;
};

}  // namespace audiogen::store
