#include "worker/upkeep/eraser.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/metrics.h"
#include "common/base/occasionally.h"
#include "common/base/rest.h"
#include "common/blob/blob_errors.h"
#include "worker/upkeep/share_out.h"

namespace audiogen::worker {
namespace {

// Here, so that they are told from the start.
prometheus::Counter& erased =
    metrics::counter("deletions_done_total",
                     "Tasks whose files are gone: deleted by their owners, or not removed at first "
                     "after their retention");
prometheus::Counter& removals_failed = metrics::counter(
    "deletions_failed_total",
    "Tries to remove the file of a deleted task, or one past its retention, that failed");
prometheus::Counter& outputs_not_ours = metrics::counter(
    "retention_not_ours_total", "Old files that stay, because their key is not known here");
prometheus::Gauge& resting =
    metrics::gauge("deletions_postponed", "Tasks whose files this worker could not remove");

constexpr std::chrono::seconds kEraseEvery{5};
constexpr std::size_t kBatch = 200;    // Files; what an interrupted run repeats.
constexpr std::size_t kOldBatch = 32;  // Of those that nobody waits for.
// Once whatever was in the way is gone, so are the files within a minute (rule L4 of the audit).
constexpr std::chrono::seconds kPauseMax{40};

void tell(const store::TaskOutput& output, const std::string& why) {
  static Occasionally line;
  if (line.due()) {
    log::error(
        "a file that is to go cannot be removed", about(output.task, output.trail), {{"why", why}});
  }
}

bool remove_one(BlobStore& blobs,
                const store::TaskOutput& output,
                store::Noted why,
                const std::stop_token& stop) {
  if (output.key.empty()) {
    return true;
  }
  const auto removed = counted(BlobOp::kRemove, blobs.remove(output.key, stop));
  if (!removed && stop.stop_requested()) {
    return false;
  }
  if (!removed) {
    tell(output, removed.error().message);
  } else if (*removed == Removal::kNotOurs && why == store::Noted::kOld) {
    stays_for_good();
    return true;
  } else if (*removed == Removal::kNotOurs) {
    // A worker that was told another key than the others would forget files that it cannot know.
    tell(output, "its key is sealed neither with BLOB_SIGNING_KEY nor with BLOB_SIGNING_KEY_OLD");
  }
  return removed && *removed == Removal::kGone;
}

// Those of `tasks` whose files are gone now, for good; the others are postponed. As many at once as
// the store is written to best.
std::vector<TaskId> remove_files(BlobStore& blobs,
                                 const std::vector<store::TaskOutput>& tasks,
                                 store::Noted why,
                                 Postponed& postponed,
                                 Postponed::Clock::time_point now,
                                 const std::stop_token& stop) {
  std::vector<char> gone(tasks.size(), 0);
  share_out(tasks.size(), blobs.put_shape().threads, stop, [&](std::size_t i) {
    gone[i] = remove_one(blobs, tasks[i], why, stop) ? 1 : 0;
    return true;
  });
  std::vector<TaskId> out;
  std::vector<std::string> keys;
  const store::TaskOutput* last = nullptr;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    if (gone[i] != 0) {
      out.push_back(tasks[i].task);
      keys.push_back(tasks[i].key);
      last = &tasks[i];
    } else if (!stop.stop_requested()) {
      postponed.failed(tasks[i].task, now);
    }
  }
  if (out.empty()) {
    return out;
  }
  // The note goes to the disk of a database, which must not be faster than that of the files.
  if (const auto flushed = counted(BlobOp::kFlush, blobs.flush_removed(keys)); !flushed) {
    tell(*last, flushed.error().message);
    return {};
  }
  return out;
}

// A bucket has no end, so only of a folder there is something to tell.
void tell_room(const std::string& folder) {
  static auto& free =
      metrics::gauge("blob_free_bytes", "What is free on the disk that the folder of audio is on");
  static auto& size = metrics::gauge("blob_size_bytes", "The size of that disk");
  std::error_code failed;
  const auto room = std::filesystem::space(folder, failed);
  if (!failed) {
    free.Set(static_cast<double>(room.available));
    size.Set(static_cast<double>(room.capacity));
  }
}

}  // namespace

bool Postponed::rests(TaskId task, Clock::time_point now) const {
  const auto note = notes_.find(task);
  return note != notes_.end() && now < note->second.next;
}

void Postponed::failed(TaskId task, Clock::time_point now) {
  const auto known = notes_.find(task);
  if (known != notes_.end()) {
    known->second.pause = std::min(2 * known->second.pause, kPauseMax);
    known->second.next = now + known->second.pause;
  } else if (notes_.size() < kMost) {
    notes_.emplace(task, Note{.pause = kEraseEvery, .next = now + kEraseEvery});
  }
}

void Postponed::forget_seen_to(Clock::time_point began) {
  std::erase_if(notes_, [&](const auto& note) { return note.second.next <= began; });
}

void stays_for_good() {
  static Occasionally line;
  if (line.due()) {
    log::error(
        "an old file stays for good: its key is sealed neither with BLOB_SIGNING_KEY "
        "nor with BLOB_SIGNING_KEY_OLD");
  }
  outputs_not_ours.Increment();
}

namespace {

// Goes through those that are noted so, and adds the number of those whose files are gone to
// `count`. Of old ones it ends with the first batch of which it has tried any, and the next pass
// goes on behind them: nobody waits for them, and a store may take its time for each, while owners
// wait for theirs. False: it is to stop, or the database is away.
bool erase_noted(store::Noted why,
                 store::TaskStore& store,
                 BlobStore& blobs,
                 Postponed& postponed,
                 Postponed::Clock::time_point now,
                 const std::stop_token& stop,
                 std::size_t& count) {
  const bool old = why == store::Noted::kOld;
  const std::size_t batch = old ? kOldBatch : kBatch;
  if (old && !postponed.old_after) {
    postponed.old_began = now;
  }
  for (TaskId after = old ? std::exchange(postponed.old_after, {}).value_or(TaskId()) : TaskId();
       ;) {
    auto tasks = store.deletions(why, after, batch);
    if (!tasks) {
      return false;
    }
    const bool last = tasks->size() < batch;
    if (!last) {
      after = tasks->back().task;
    }
    std::erase_if(
        *tasks, [&](const store::TaskOutput& output) { return postponed.rests(output.task, now); });
    const std::vector<TaskId> done = remove_files(blobs, *tasks, why, postponed, now, stop);
    AG_CRASH_POINT("erase.removed");
    if (!store.deletions_done(done)) {
      return false;
    }
    for (const TaskId task : done) {
      postponed.done(task);
    }
    count += done.size();
    erased.Increment(static_cast<double>(done.size()));
    if (stop.stop_requested()) {
      return false;
    }
    const std::size_t failed = tasks->size() - done.size();
    removals_failed.Increment(static_cast<double>(failed));
    if (last) {
      return true;
    }
    if (old && !tasks->empty()) {
      postponed.old_after = after;
      return true;
    }
  }
}

}  // namespace

std::size_t erase_deleted(store::TaskStore& store,
                          BlobStore& blobs,
                          Postponed& postponed,
                          Postponed::Clock::time_point now,
                          const std::stop_token& stop) {
  std::size_t count = 0;
  const auto erase = [&](store::Noted why) {
    return erase_noted(why, store, blobs, postponed, now, stop, count);
  };
  if (erase(store::Noted::kDeleted) && erase(store::Noted::kOld) && !postponed.old_after) {
    postponed.forget_seen_to(postponed.old_began);
  }
  return count;
}

Eraser::Eraser(const Config& config, BlobStore& blobs)
    : blobs_(blobs),
      folder_(blob_folder(config.blob_url)),
      thread_([this, url = config.database](const std::stop_token& stop) { run(stop, url); }) {}

void Eraser::stop() {
  stop_and_join(thread_);
}

void Eraser::run(const std::stop_token& stop, const DatabaseUrl& url) {
  store::TaskStore store(url);
  Postponed postponed;
  do {
    if (folder_) {
      tell_room(*folder_);
    }
    erase_deleted(store, blobs_, postponed, Postponed::Clock::now(), stop);
    resting.Set(static_cast<double>(postponed.size()));
  } while (!stopped_within(stop, kEraseEvery));
}

}  // namespace audiogen::worker
