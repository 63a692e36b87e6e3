// Makes a file of a provider's audio: shapes it on the codecs' threads, stores it together with all
// that are ready at the same time. What the blob store does not take is kept, and offered again.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "common/blob/blob_store.h"
#include "common/http/client.h"
#include "worker/audio/pipeline.h"
#include "worker/job/job.h"
#include "worker/job/pool.h"
#include "worker/job/scheduler.h"

namespace audiogen::worker {

// Of a job, stored.
struct OutputFile {
  std::string key;
  std::uint64_t bytes = 0;
  Checksum checksum{};
  std::int64_t duration_ms = 0;
};

// Why there is none.
struct OutputFault {
  enum class Kind {
    kBadAudio,  // `of_provider`: another may do better.
    kOurs,      // `what` we could not do, and `why`: later.
    kTooLarge,  // The same, and never.
    kStopping,  // `what` we could not do before this worker stops.
    kLost,      // Nobody wants it any more.
  };
  Kind kind = Kind::kLost;
  std::optional<ProviderFault> of_provider{};
  std::string what{};
  std::string why{};
};

// With files that the store refuses by themselves, as too large: each is offered again after
// `pause`, and for so long, as somebody may be raising the limit; and all of them together have so
// many bytes, beyond which the one that is refused next ends at once. With a decoder that does not
// run: after so long, and half of what the task has left, another worker's may, though that pays
// for the audio once more. With a store that says nothing: after so long, and what the bytes of a
// put may take, it is down, which is far beyond what an honest put takes (S3Limits::total). With a
// put whose job is given back: for so long it goes on, as the worker's end waits for it.
struct OutputPatience {
  std::chrono::milliseconds pause{10'000}, most{30'000};
  std::size_t bytes = std::size_t{64} << 20;
  std::chrono::milliseconds decoder{30'000};
  std::chrono::milliseconds silence{20'000};
  std::chrono::milliseconds leaving{10'000};
};

class Output {
 public:
  using Made = std::function<void(const JobPtr&, Result<OutputFile, OutputFault>)>;

  // `client` is told of audio that waits, so that it takes less of it meanwhile. `made` runs once
  // for each make(), on a thread of the pools or the caller's own; it must not block.
  Output(BlobStore& blobs,
         http::Client& client,
         Decoder& decoder,
         Scheduler& scheduler,
         Made made,
         OutputPatience patience = {});
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  // Takes the audio that a provider made for `job`. Never blocks. Whoever made it is paid: as long
  // as the blob store does not take the file it is kept, until the task's deadline; where it is
  // this file that the store refuses as too large, until it is refused once more after half a
  // minute, which takes longer while the store is down and each file is asked for in its turn.
  void make(const JobPtr& job, Audio audio);

  // The blob store took nothing when it was asked last, or says nothing: what is made now would
  // only wait here. That it refuses one file, as too large or again and again where it takes
  // another in its place, counts only where it has refused others so as well, and taken none.
  // Thread-safe, never blocks.
  bool store_is_down() const;

  // The decoder has not run, and has not been found running since: what is made now might only wait
  // here. Thread-safe, never blocks.
  bool decoder_is_down() const { return decoder_down_; }

  // Ends what is kept of jobs that are lost, or were given back, and what waits for a store that
  // says nothing: should that take it after all, nobody knows of the file. Thread-safe, never
  // blocks.
  void end_what_is_over();

  // Finishes what was taken.
  void stop();

 private:
  struct Ready {
    JobPtr job;
    Rendered rendered;
    std::string why{};  // The store did not take it when it was offered last. Empty: it never was.
    int refusals = 0;   // In a row, for anything but its size.
    // After them the store has taken another: what it says of this one tells nothing of others.
    bool aside = false;
    // When it was first refused by itself, as too large or set aside, whatever it was refused for
    // since.
    std::optional<Job::Clock::time_point> first_alone{};
    // When it was last, if that is how it was refused last.
    std::optional<Job::Clock::time_point> alone{};
    std::size_t counted = 0;  // Of its bytes, in alone_bytes_.

    // It was refused by itself just now.
    void note_alone() {
      alone = Job::Clock::now();
      first_alone = first_alone.value_or(*alone);
    }
  };

  // What a provider made, until it is shaped.
  struct Raw {
    JobPtr job;
    Audio audio;
    // Until when it is kept here, and how often the decoder has not run for it.
    std::optional<Job::Clock::time_point> kept_to{};
    int refusals = 0;
  };

  void post(std::shared_ptr<Raw> raw);
  void shape(std::shared_ptr<Raw> raw);
  void keep_raw(std::shared_ptr<Raw> raw, const std::string& why);
  void ask_decoder_later(int tries);
  void ask_decoder(int tries);
  bool note_decoder(bool runs, std::uint64_t before = 0);
  std::function<bool()> wanted(const JobPtr& job);
  void store(Ready ready);
  void put(std::vector<Ready> ready);
  std::vector<PutResult> put_files(std::span<const NewBlob> files);
  Job::Clock::duration silence() const LOCKS_REQUIRED(mutex_);
  void watch_puts();
  static bool note_refusal(Ready& ready, const PutFault& fault);
  std::size_t set_aside(std::span<Ready> refused);
  bool takes_another(const Ready& refused);
  void note_answer(std::size_t stored, std::size_t newly_alone, std::span<const Ready> refused);
  void keep(std::vector<Ready> refused);
  void offer_again();
  void look_at_kept(bool offers);
  bool somebody_asks() const LOCKS_REQUIRED(mutex_);
  bool is_hopeless(const Ready& ready) const;
  void count_alone(Ready& ready, bool counts) LOCKS_REQUIRED(mutex_);
  bool is_offered(const JobPtr& job) const;
  bool leaves(Ready& ready);
  static std::optional<OutputFault> over(const Job& job, const std::string& why);
  void end(const JobPtr& job, Result<OutputFile, OutputFault> result);
  void end_ours(const JobPtr& job, const char* what, const std::string& why);
  void end_bad(const JobPtr& job, Fault fault, const std::string& detail);

  const OutputPatience patience_;
  BlobStore& blobs_;
  http::Client& client_;
  Decoder& decoder_;
  Scheduler& scheduler_;
  const Made made_;

  mutable Mutex mutex_;
  std::deque<Ready> kept_ GUARDED_BY(mutex_);
  // Whose files are with the writers, or on their way there or back; without those that have ended
  // meanwhile.
  std::set<JobPtr> offered_ GUARDED_BY(mutex_);
  // Whose file asks for all whether the store is back, and since when.
  struct Asking {
    std::weak_ptr<Job> job;
    Job::Clock::time_point since;
  };
  std::optional<Asking> asking_ GUARDED_BY(mutex_);
  // When those under way began, later by what their bytes may take.
  std::multiset<Job::Clock::time_point> puts_ GUARDED_BY(mutex_);
  // When the last put that took one ended; nullopt: none has.
  std::optional<Job::Clock::time_point> taken_at_ GUARDED_BY(mutex_);
  // Since when jobs are given back; all are, once their worker ends.
  std::optional<Job::Clock::time_point> leaves_since_ GUARDED_BY(mutex_);
  bool watches_ GUARDED_BY(mutex_) = false;   // It is scheduled.
  std::size_t alone_ GUARDED_BY(mutex_) = 0;  // Files refused by themselves since one was taken.
  // Of files that are refused by themselves, also while they are offered.
  std::size_t alone_bytes_ GUARDED_BY(mutex_) = 0;
  bool down_ GUARDED_BY(mutex_) = false;
  bool offers_again_ GUARDED_BY(mutex_) = false;  // It is scheduled.
  int refusals_ GUARDED_BY(mutex_) = 0;           // In a row.
  std::uint64_t decoder_refusals_ GUARDED_BY(mutex_) = 0;
  // Written with the mutex. While it is true somebody asks the decoder whether it runs again.
  std::atomic<bool> decoder_down_{false};

  Pool codecs_;
  BatchPool<Ready> writers_;
};

}  // namespace audiogen::worker
